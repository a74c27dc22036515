"""Regressions on features: priors of rows, and logistic tables."""
