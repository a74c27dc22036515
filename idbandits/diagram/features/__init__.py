"""Features of the rows of learned tables, and of contexts."""
