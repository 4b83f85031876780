"""What happened: the one row schema, a writer, a reader, and an oracle that judges one run."""
