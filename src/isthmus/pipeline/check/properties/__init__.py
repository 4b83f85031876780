"""The checks on Spark, one property per file: each takes the shared tables and gives findings of one shape."""
