"""Sans-I/O layers: one protocol a file, pure arithmetic in files of its own."""
