"""Judging in one process: from rows to verdicts with witnesses."""
