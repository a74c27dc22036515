"""Rounds at the boundary: labels of single rounds and of logs become numbers, and back."""
