"""Compilation of diagrams into arithmetic circuits, and queries of these."""
