"""Searches for the best list of items, by the stages of its positions."""
