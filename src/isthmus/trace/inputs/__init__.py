"""Traces in other formats: Parquet of any system, CSV, JSON lines and ShiViz logs as rows of the schema."""
