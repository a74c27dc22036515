"""Evaluation of the paper: problems, learners and figures as data; runs, claims and the report.

Examples
--------
>>> from idbandits.reproduction import FIGURES, LEARNERS, PROBLEMS, TABLE
>>> list(PROBLEMS)[:3]
['cascade 1', 'cascade 2', 'position-based 1']
>>> PROBLEMS["cascade 1"].diagram.name, TABLE.problem, FIGURES[0].panels[0].learners[0] in LEARNERS
('cascade', 'cascade 1', True)
"""

from idbandits.reproduction.problems import FIGURES, LEARNERS, PROBLEMS, TABLE

__all__ = ["FIGURES", "LEARNERS", "PROBLEMS", "TABLE"]
