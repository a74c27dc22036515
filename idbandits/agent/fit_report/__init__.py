"""Fit reports: does the structure of a diagram fit the rounds."""
