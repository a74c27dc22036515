"""Influence diagrams: declared, checked, kept and drawn."""
