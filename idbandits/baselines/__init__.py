"""Published bandit algorithms to compare with, built from a diagram.

- Lists with clicks: `CascadeKLUCB`, `CascadeUCB1`, `TopRank`, `GRAB`.
- Sums of seen rewards: `CombUCB1`, `KLCombUCB1`. Row and column: `Rank1Elim`, `Rank1ElimKL`.
- Whole actions: `UCB1`, `EpsilonGreedy`, `Uniform`.

All have the methods `act()` and `update(action, observation)` of an agent, and run in `simulate`; each raises a
`DiagramError` if the diagram is not of its kind. They do not support contexts and eligible items.

>>> from idbandits import World, models, simulate
>>> d = models.cascade(items=4, positions=2)
>>> world = World(d, {"attraction": [0.1, 0.2, 0.3, 0.4]})
>>> learners = {"random": Uniform(d), "CascadeKL-UCB": CascadeKLUCB(d)}
>>> regret = simulate(world, learners, rounds=2000, runs=2, progress=False).summary()["regret_mean"]
>>> bool(regret[0] > regret[1])
True
"""

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
