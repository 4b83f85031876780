"""From files to DataFrames: traces of any format, at rest or as a stream."""
