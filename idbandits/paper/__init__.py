"""The evaluation of the paper: problems, learners and figures as data; runs, claims and the report."""

from idbandits.paper.problems import FIGURES as FIGURES
from idbandits.paper.problems import LEARNERS as LEARNERS
from idbandits.paper.problems import PROBLEMS as PROBLEMS
from idbandits.paper.problems import TABLE as TABLE
