"""Spark itself: the session, its Java, its errors, and the formats of the tables."""
