"""Compiled functions, and the arrays, random numbers and linear algebra they use."""
