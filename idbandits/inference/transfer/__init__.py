"""States carried to other diagrams."""
