"""Rounds reduced to certain uses and factors."""
