"""Published bandit algorithms to compare with, built from a diagram."""

from idbandits.baselines.combinatorial import CombUCB1 as CombUCB1
from idbandits.baselines.combinatorial import KLCombUCB1 as KLCombUCB1
from idbandits.baselines.grab import GRAB as GRAB
from idbandits.baselines.rank1 import Rank1Elim as Rank1Elim
from idbandits.baselines.rank1 import Rank1ElimKL as Rank1ElimKL
from idbandits.baselines.ranking import CascadeKLUCB as CascadeKLUCB
from idbandits.baselines.ranking import CascadeUCB1 as CascadeUCB1
from idbandits.baselines.ranking import TopRank as TopRank
from idbandits.baselines.whole_actions import UCB1 as UCB1
from idbandits.baselines.whole_actions import EpsilonGreedy as EpsilonGreedy
from idbandits.baselines.whole_actions import Uniform as Uniform

__all__ = sorted(name for name, value in globals().items() if isinstance(value, type))
