"""Published learners for single problems, to compare with: built from a diagram, with the same act and update."""

from idbandits.baselines.cascade import CascadeKLUCB, CascadeUCB1

__all__ = ["CascadeKLUCB", "CascadeUCB1"]
