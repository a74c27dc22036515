"""Counts of a log, and learning from them."""
