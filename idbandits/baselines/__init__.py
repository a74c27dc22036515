"""Published learners for single problems, to compare with: built from a diagram, with the same act and update."""

from idbandits.baselines.cascade import CascadeKLUCB, CascadeUCB1
from idbandits.baselines.combinatorial import CombUCB1, KLCombUCB1
from idbandits.baselines.grab import GRAB
from idbandits.baselines.rank1 import Rank1Elim, Rank1ElimKL
from idbandits.baselines.toprank import TopRank
from idbandits.baselines.uniform import Uniform
from idbandits.baselines.whole import UCB1, EpsilonGreedy

__all__ = [
    "GRAB",
    "UCB1",
    "CascadeKLUCB",
    "CascadeUCB1",
    "CombUCB1",
    "EpsilonGreedy",
    "KLCombUCB1",
    "Rank1Elim",
    "Rank1ElimKL",
    "TopRank",
    "Uniform",
]
