"""Counting in other engines: Spark and databases."""
