"""Logs: learn from data of any size, compare models on held-out rounds, evaluate policies offline."""
