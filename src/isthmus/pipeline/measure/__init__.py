"""What a trace says about speed and cost: pure functions of DataFrames, one subject per file.

Every function gives one row per run, or one for each value of `by` in a run (columns of what it measures, such as
sender or process); join with the table of runs for the parameters. `warm_up_ms` leaves out messages submitted before
that time, and all that belongs to them. Times in the results are milliseconds. formats.py declares the columns.

Linear: equi-joins, aggregates, and windows over one process's log or a slice of time. Percentiles are exact up to
10,000 different values per group and off by less than a ten-thousandth in rank above.
"""
