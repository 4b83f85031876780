"""The causal past on Spark, in blocks of receivers."""
