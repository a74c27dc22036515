"""Agents that act in a diagram and learn from what they see."""
