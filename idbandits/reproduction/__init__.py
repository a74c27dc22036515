"""Evaluation of the paper: problems, learners and figures as data; runs, claims and the report."""

from idbandits.reproduction.problems import FIGURES, LEARNERS, PROBLEMS, TABLE

__all__ = ["FIGURES", "LEARNERS", "PROBLEMS", "TABLE"]
