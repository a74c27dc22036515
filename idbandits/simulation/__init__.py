"""Worlds, simulated runs and their results."""
