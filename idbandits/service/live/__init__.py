"""Experiments in one process: decide, report, close rounds by age, learn, and answer questions."""
