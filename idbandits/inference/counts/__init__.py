"""Counts of logs: certain uses of table entries and weighted factors, in memory that is small per round."""
