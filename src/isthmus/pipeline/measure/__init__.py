"""What a trace says about speed and cost: pure functions of DataFrames, one subject per file (docs/design/studies.md).

Every function gives one row per run, or one for each value of `by` in a run. `warm_up_ms` leaves out messages submitted
before that time. Times in the results are milliseconds. formats.py declares the columns. Percentiles are exact up to
10,000 different values per group.
"""
