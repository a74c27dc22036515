"""Influence diagrams: declared, checked, saved and drawn."""

from idbandits.diagram.validation import schema

__all__ = ["schema"]
