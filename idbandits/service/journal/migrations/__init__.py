"""Numbered migrations of the journal: SQL for both stores, in which {names in braces} stand for types."""
