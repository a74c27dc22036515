"""CombUCB1 and KL-CombUCB1: the best action under upper confidence bounds of what each part of it earns."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, final

import numpy as np

from idbandits.baselines.baseline import Baseline, check_diagram, checked_horizon, decisions_above
from idbandits.baselines.confidence import kl_exponent, level
from idbandits.circuit.model import compile
from idbandits.diagram.declare import Diagram, Node
from idbandits.diagram.tables import Learned, Use
from idbandits.errors import DiagramError, IdbanditsError
from idbandits.inference.acting import shuffle_idle
from idbandits.inference.groups import DONE, ROUNDS
from idbandits.kernel.compiling import bare, compiled
from idbandits.kernel.types import Floats, Ints, Rng
from idbandits.solve.assignment import match
from idbandits.solve.best import BUDGET, Solver, solver_of, unpack

ARMS, NODES, KL, LISTED, ENTRIES = range(5)  # of a layout; then four numbers and more for every node
SETTING, MORE, WEIGHTS = range(3)  # of the floats: a level or factor, what raises the index of arms that were never
# tried, the nodes' weights, and three numbers for every arm
MOST_ARMS = 100_000
MOST_MORE = 1e6  # else rounding would hide what other arms promise
TIES = 1e-9  # by what part an index is lowered at random, so that equal ones take turns


@final
class CombUCB1(Baseline):
    """CombUCB1: the best action under the indices mean + sqrt(`factor` log t / times) of its base arms, after t rounds.

    Kveton, Wen, Ashkan and Szepesvári, Tight Regret Bounds for Stochastic Combinatorial Semi-Bandits, AISTATS 2015,
    Algorithm 1; 1.5 is the paper's factor, and 1 that of some public code, which explores less. The reward is to be a
    sum of terms that depend on one observed node each. A base arm is a node with the choices that it depends on: an
    item at a position in the position-based model. Nodes that depend directly on a decision by the same learned table
    share theirs: an item in the semi-bandit. Rewards are scaled to [0, 1] by what a node can earn, and weighed by it.
    As in the paper's initialization, actions with base arms that were never tried come first; among them, those with
    the most, if all weights are equal. Ties are broken at random.

    >>> from idbandits import models
    >>> learner = CombUCB1(models.semi_bandit(items=4, positions=2), seed=0)
    >>> for _ in range(300):
    ...     action = learner.act()
    ...     learner.update(action, {"X1": int(action["A1"] > 1), "X2": int(action["A2"] > 1)})
    >>> sorted(learner.act().values())
    [2, 3]
    """

    def __init__(self, d: Diagram, seed: Any = None, *, factor: float = 1.5) -> None:
        if not (isinstance(factor, (int, float)) and 0 < factor < math.inf):
            raise IdbanditsError(f"CombUCB1: factor is a positive number, not {factor!r}")
        arms = BaseArms("CombUCB1", d)
        super().__init__(d, seed, act, learn, arms.layout(0), *arms.nothing(factor), arms.solver, arms.values)


@final
class KLCombUCB1(Baseline):
    """KL-CombUCB1: CombUCB1 with KL-UCB indices, the highest q with times · d(mean, q) ≤ log `horizon`.

    It has no paper of its own: this is the variant that Gauthier, Gaudel, Fromont and Lompo compare with in Parametric
    Graph for Unimodal Ranking Bandit, ICML 2021, and the level of their code. With `horizon=None`, the level is that
    of KL-UCB, log t + 3 log log t (Garivier and Cappé 2011), which explores more.

    >>> from idbandits import models
    >>> learner = KLCombUCB1(models.position_based(items=3, positions=2), seed=0)
    >>> for _ in range(300):
    ...     action = learner.act()
    ...     learner.update(action, {"C1": int(action["A1"] == 2), "C2": int(action["A2"] == 0)})
    >>> learner.act()
    {'A1': 2, 'A2': 0}
    """

    def __init__(self, d: Diagram, seed: Any = None, *, horizon: int | None = 20_000) -> None:
        arms = BaseArms("KLCombUCB1", d)
        fixed = 0.0 if horizon is None else math.log(checked_horizon("KLCombUCB1", horizon))
        super().__init__(d, seed, act, learn, arms.layout(1), *arms.nothing(fixed), arms.solver, arms.values)


@final
class BaseArms:
    """The base arms of a diagram, and a flat diagram with the same decisions in which they are what is learned."""

    def __init__(self, who: str, d: Diagram) -> None:
        check_diagram(who, d)
        earned = _earned(who, d)
        decisions = d.of_kind("decision")
        places = {n.name: k for k, n in enumerate(decisions)}
        flat = Diagram(d.name)
        for node in decisions:
            flat.decision(node.name, len(node.values) if isinstance(node.values, range) else node.values)
        tables: dict[tuple[Any, ...], tuple[Learned, int]] = {}
        values: list[float] = []
        self._weights: list[float] = []
        self._entries: list[int] = []
        self.nodes = self.arms = 0
        for seen, node in enumerate(d.of_kind("observed")):
            found = decisions_above(d, node.name)
            above = [n.name for n in decisions if n.name in found]
            if node.name not in earned or not above:
                continue
            low, high = earned[node.name].min(), earned[node.name].max()
            if high == low:
                continue
            scaled = (earned[node.name] - low) / (high - low)
            table = _shared_table(d, node)
            parents = above if table is None else node.parents
            key = (node.name,) if table is None else (table, *scaled.tolist())
            sizes = [d.nodes[p].states for p in parents]
            if key not in tables:
                tables[key] = Learned(f"{len(tables)}", rows=math.prod(sizes)), self.arms
                self.arms += math.prod(sizes)
                if self.arms > MOST_ARMS:
                    raise DiagramError(
                        f"{who} keeps a number for every base arm; with {node.name!r}, which depends on "
                        f"{', '.join(parents)}, there are {self.arms:,}, and at most {MOST_ARMS:,} are allowed"
                    )
            learned, base = tables[key]
            strides = [math.prod(sizes[i + 1 :]) for i in range(len(sizes))]
            axes = [x for p, stride in zip(parents, strides, strict=True) for x in (places[p], stride)]
            self._entries += [seen, len(values), base, len(parents), *axes]
            values += scaled.tolist()
            self.nodes += 1
            weight = float(high - low)
            self._weights.append(weight)
            flat.reward(flat.observed(node.name, parents, learned), lambda v, weight=weight: weight * v)
        if not self.nodes:
            raise DiagramError(f"{who} has nothing to learn: no decision of diagram {d.name!r} changes the reward")
        for group in d.different:
            flat.all_different(*group)
        singly = all(len(node.parents) == 1 for node in flat.of_kind("observed"))
        alike = all(node.values == decisions[0].values for node in decisions)
        listed = singly and alike and any(len(group) == len(decisions) for group in d.different)
        self._choices = decisions[0].states if listed else 0  # of a list of different items, that needs no solver
        self.solver: Solver = solver_of(compile(flat))
        self.values = np.array(values)

    def layout(self, kl: int) -> list[int]:
        """For the compiled functions: how a node's base arm and its reward are found."""
        return [self.arms, self.nodes, kl, self._choices, *self._entries]

    def nothing(self, setting: float) -> tuple[Ints, Floats]:
        """What is kept: a setting, weights, and of an arm how often it was tried, what it earned, and its index.

        An arm that was never tried is to outweigh all that were, unless its weight is next to nothing.
        """
        more = min(10.0 * math.fsum(self._weights) / min(self._weights), MOST_MORE)
        return np.empty(0, dtype=np.int64), np.array([setting, more, *self._weights, *np.zeros(3 * self.arms)])


def _earned(who: str, d: Diagram) -> Mapping[str, Floats]:
    """What every state of an observed node earns."""
    earned: dict[str, Floats] = {}
    for term in d.rewards:
        for name in term.parents:
            if d.nodes[name].kind != "observed" or len(term.parents) > 1:
                raise DiagramError(
                    f"{who} adds up what observed nodes earn, each by itself; a reward term of diagram {d.name!r} "
                    f"depends on {', '.join(f'{p!r} ({d.nodes[p].kind})' for p in term.parents)}"
                )
            earned[name] = earned.get(name, 0.0) + term.table
    return earned


def _shared_table(d: Diagram, node: Node) -> str | None:
    """The learned table that a node reads by its decisions alone, row by row, if it does."""
    direct = all(d.nodes[p].kind == "decision" for p in node.parents)
    return node.cpd.name if direct and isinstance(node.cpd, Use) and node.cpd.rows is None else None


@compiled
def act(
    solve: Any, program: Ints, known: Floats, layout: Ints, ints: Ints, floats: Floats, rng: Rng, action: Ints
) -> None:
    """The best action under the indices; what was never tried outweighs all that was."""
    arms, items, positions = layout[ARMS], layout[LISTED], len(action)
    kept = floats[WEIGHTS + layout[NODES] :]
    top = refresh(layout[KL], ints[ROUNDS] + 1, floats[SETTING], arms, floats[MORE], kept)
    if items > 0:
        room = np.empty(positions * items + 2 * items + positions + 3)
        score(layout, floats, TIES * top, rng, positions * items, room)
        match(room, positions, items, np.empty(2 * items + 2, np.int64), room[positions * items :], action)
        return
    p = np.empty(2 * arms)
    for a in range(arms):
        p[2 * a + 1] = kept[2 * arms + a] / top * (1.0 - TIES * rng.random())
        p[2 * a] = 1.0 - p[2 * a + 1]
    solve(program, known, p, True, action, BUDGET)
    shuffle_idle(unpack(program, known)[1], rng, action)


@bare
def refresh(kl: int, t: int, setting: float, arms: int, more: float, kept: Floats) -> float:
    """Bring all indices up to date; the highest of them. Arms that were never tried have `more` times the others'."""
    allowed = setting if setting > 0.0 else level(t)
    factor = math.sqrt(setting * math.log(max(t - 1, 1)))
    highest, untried = 0.0, 0
    for a in range(arms):
        times = kept[a]
        if times == 0.0:
            untried += 1
            continue
        at = 2 * arms + a
        if not kl:
            kept[at] = kept[arms + a] / times + factor / math.sqrt(times)
        elif setting == 0.0 or kept[at] < 0.0:
            mean = kept[arms + a] / times
            near = -math.log1p(-kept[at]) if 0.0 < kept[at] < 1.0 else 0.0
            x = kl_exponent(mean, allowed / times, near) if allowed > 0.0 else 0.0
            kept[at] = max(mean, -math.expm1(-x))
        highest = max(highest, kept[at])
    if untried == 0:
        return highest if highest > 0.0 else 1.0
    highest = more * max(highest, 1.0)
    for a in range(arms):
        if kept[a] == 0.0:
            kept[2 * arms + a] = highest
    return highest


@bare
def score(layout: Ints, floats: Floats, ties: float, rng: Rng, size: int, scores: Floats) -> None:
    """What each item promises at each position."""
    items, nodes = layout[LISTED], layout[NODES]
    first = WEIGHTS + nodes + 2 * layout[ARMS]
    for i in range(size):
        scores[i] = ties * rng.random()
    at = ENTRIES
    for n in range(nodes):
        to, arm = layout[at + 4] * items, first + layout[at + 2]
        for i in range(items):
            scores[to + i] += floats[WEIGHTS + n] * floats[arm + i]
        at += 6


@compiled
def learn(
    layout: Ints, numbers: Floats, ints: Ints, floats: Floats, rng: Rng, action: Ints, seen: Ints, times: int,
    effort: int,
) -> int:  # fmt: skip
    """Count what every base arm of the action earned."""
    arms, first = layout[ARMS], WEIGHTS + layout[NODES]
    at = ENTRIES
    for _ in range(layout[NODES]):
        arm = layout[at + 2]
        for i in range(layout[at + 3]):
            arm += layout[at + 5 + 2 * i] * action[layout[at + 4 + 2 * i]]
        floats[first + arm] += times
        floats[first + arms + arm] += times * numbers[layout[at + 1] + seen[layout[at]]]
        floats[first + 2 * arms + arm] = -1.0  # its index has to be found anew
        at += 4 + 2 * layout[at + 3]
    ints[ROUNDS] += times
    return DONE
