"""`isthmus live`: one process per site, faults, and the judged result."""
