"""UCB1 and ε-greedy over whole actions: every action is an arm of its own, and nothing is shared between them."""

from __future__ import annotations

import math
from typing import Any, final

import numpy as np

from idbandits.baselines.baseline import Baseline, check_diagram, feasible_actions
from idbandits.baselines.chance import below
from idbandits.diagram.declare import Diagram
from idbandits.errors import DiagramError, IdbanditsError
from idbandits.inference.groups import DONE, HEADER, ROUNDS
from idbandits.kernel.compiling import bare, compiled
from idbandits.kernel.types import Floats, Ints, Rng

ACTIONS, DECISIONS, TERMS, CHOICES = range(4)  # of a layout; then choices, the codes of all actions, reward terms
TRIED, ORDER = HEADER, HEADER + 1  # how many actions were tried; all actions, those first; and their places there
EPSILON, DECAY, ARMS = range(3)  # of the floats; then, for every action: times, mean, 1 / sqrt(times)
MOST_ACTIONS = 100_000


@final
class UCB1(Baseline):
    """UCB1 over whole actions: the highest mean + sqrt(2 log t / times), t being the rounds so far.

    Auer, Cesa-Bianchi and Fischer, Finite-time Analysis of the Multiarmed Bandit Problem, Machine Learning 2002,
    Figure 1. Rewards are scaled to [0, 1] by the sums of the lowest and of the highest values of all terms; they are
    computed from what is seen, so they may depend on observed nodes and decisions only. First every action is tried
    once, in random order; ties are broken at random.

    >>> from idbandits import models
    >>> learner = UCB1(models.rank1(rows=2, columns=3), seed=0)
    >>> for _ in range(500):
    ...     action = learner.act()
    ...     learner.update(action, {"X": int(action == {"A1": 1, "A2": 2})})
    >>> learner.act()
    {'A1': 1, 'A2': 2}
    """

    def __init__(self, d: Diagram, seed: Any = None) -> None:
        layout, numbers, ints, floats = _beginning("UCB1", d, 0.0, 0.0)
        super().__init__(d, seed, act_by_bounds, learn, layout, ints, floats, numbers=numbers)


@final
class EpsilonGreedy(Baseline):
    """ε-greedy over whole actions: at random with probability `epsilon`, else the highest mean so far.

    With `decay`, the probability in round t is min(`epsilon`, `decay` / t): with `epsilon=1` it is the schedule of
    Auer, Cesa-Bianchi and Fischer 2002, Figure 3, where decay = c K / d² for K actions. Rewards are as for UCB1. What
    was never tried counts as the lowest reward; ties are broken at random.

    >>> from idbandits import models
    >>> learner = EpsilonGreedy(models.rank1(rows=2, columns=3), seed=0, epsilon=1, decay=30)
    >>> for _ in range(2000):
    ...     action = learner.act()
    ...     learner.update(action, {"X": int(action == {"A1": 1, "A2": 2})})
    >>> learner.act()
    {'A1': 1, 'A2': 2}
    """

    def __init__(
        self, d: Diagram, seed: Any = None, *, epsilon: float = 0.1, decay: float | None = None
    ) -> None:  # fmt: skip
        if not (isinstance(epsilon, (int, float)) and 0 <= epsilon <= 1):
            raise IdbanditsError(f"EpsilonGreedy: epsilon is a probability, not {epsilon!r}")
        if decay is not None and not (isinstance(decay, (int, float)) and 0 < decay < math.inf):
            raise IdbanditsError(f"EpsilonGreedy: decay is a positive number or None, not {decay!r}")
        layout, numbers, ints, floats = _beginning("EpsilonGreedy", d, epsilon, math.inf if decay is None else decay)
        super().__init__(d, seed, act_greedily, learn, layout, ints, floats, numbers=numbers)


def _beginning(who: str, d: Diagram, epsilon: float, decay: float) -> tuple[Ints, Floats, Ints, Floats]:
    """The layout, the scaled rewards, and the state before the first round."""
    check_diagram(who, d)
    terms, numbers = _rewards(who, d)
    actions = np.array(feasible_actions(who, d, MOST_ACTIONS), dtype=np.int64)
    sizes = [n.states for n in d.of_kind("decision")]
    strides = np.array([math.prod(sizes[k + 1 :]) for k in range(len(sizes))], dtype=object)
    codes = actions.astype(object) @ strides
    if math.prod(sizes) >= 2**62:
        raise DiagramError(f"{who} numbers all actions; diagram {d.name!r} has too many")
    layout = np.array([len(actions), len(sizes), len(d.rewards), *sizes, *codes, *terms], dtype=np.int64)
    order = np.arange(len(actions))
    ints = np.concatenate([[0], order, order])
    return layout, numbers, ints, np.array([epsilon, decay, *np.zeros(3 * len(actions))])


def _rewards(who: str, d: Diagram) -> tuple[list[int], Floats]:
    """How the table of every term is read, and the tables: scaled, so that they add up to 0 … 1."""
    if not d.rewards:
        raise DiagramError(f"{who} learns from rewards; diagram {d.name!r} has none")
    seen = [n.name for n in (*d.of_kind("decision"), *d.of_kind("observed"))]
    spread = sum(float(term.table.max() - term.table.min()) for term in d.rewards)
    terms: list[int] = []
    numbers: list[float] = []
    for term in d.rewards:
        for name in term.parents:
            if name not in seen:
                raise DiagramError(
                    f"{who} learns from rewards that it sees, of observed nodes and decisions; a reward term of "
                    f"diagram {d.name!r} depends on {name!r}, a {d.nodes[name].kind} node"
                )
        shape = term.table.shape
        axes = [x for i, name in enumerate(term.parents) for x in (seen.index(name), math.prod(shape[i + 1 :]))]
        terms += [len(numbers), len(term.parents), *axes]
        numbers += ((term.table - term.table.min()) / (spread or 1.0)).ravel().tolist()
    return terms, np.array(numbers)


@compiled
def act_by_bounds(
    solve: Any, program: Ints, known: Floats, layout: Ints, ints: Ints, floats: Floats, rng: Rng, action: Ints
) -> None:
    """The action with the highest index, or one that was never tried."""
    actions = layout[ACTIONS]
    if ints[TRIED] < actions:
        chosen = ints[ORDER + ints[TRIED] + below(rng, actions - ints[TRIED])]
    else:
        chosen = highest(floats[ARMS:], actions, math.sqrt(2.0 * math.log(max(ints[ROUNDS], 1))), rng)
    decode(layout, chosen, action)


@compiled
def act_greedily(
    solve: Any, program: Ints, known: Floats, layout: Ints, ints: Ints, floats: Floats, rng: Rng, action: Ints
) -> None:
    """A random action, or the one with the highest mean."""
    actions = layout[ACTIONS]
    if rng.random() < min(floats[EPSILON], floats[DECAY] / (ints[ROUNDS] + 1)):
        chosen = below(rng, actions)
    else:
        chosen = highest(floats[ARMS:], actions, 0.0, rng)
    decode(layout, chosen, action)


@bare
def highest(arms: Floats, actions: int, width: float, rng: Rng) -> int:
    """The action with the highest mean + width / sqrt(times), one of them at random."""
    best, ties, most = 0, 0, -math.inf
    for a in range(actions):
        index = arms[actions + a] + width * arms[2 * actions + a]
        if index > most:
            best, ties, most = a, 1, index
        elif index == most:
            ties += 1
            if below(rng, ties) == 0:
                best = a
    return best


@bare
def decode(layout: Ints, chosen: int, action: Ints) -> None:
    """Put an action into `action` by its number."""
    decisions = layout[DECISIONS]
    code = layout[CHOICES + decisions + chosen]
    for k in range(decisions - 1, -1, -1):
        action[k] = code % layout[CHOICES + k]
        code //= layout[CHOICES + k]


@bare
def number_of(layout: Ints, action: Ints) -> int:
    """The number of an action: codes are in order."""
    decisions = layout[DECISIONS]
    code = 0
    for k in range(decisions):
        code = code * layout[CHOICES + k] + action[k]
    low, high = 0, layout[ACTIONS] - 1
    while low < high:
        middle = (low + high) // 2
        if layout[CHOICES + decisions + middle] < code:
            low = middle + 1
        else:
            high = middle
    return low


@compiled
def learn(
    layout: Ints, numbers: Floats, ints: Ints, floats: Floats, rng: Rng, action: Ints, seen: Ints, times: int,
    effort: int,
) -> int:  # fmt: skip
    """Add the reward to those of the action."""
    actions, decisions = layout[ACTIONS], layout[DECISIONS]
    reward = 0.0
    at = CHOICES + decisions + actions
    for _ in range(layout[TERMS]):
        place = layout[at]
        for i in range(layout[at + 1]):
            node = layout[at + 2 + 2 * i]
            place += layout[at + 3 + 2 * i] * (action[node] if node < decisions else seen[node - decisions])
        reward += numbers[place]
        at += 2 + 2 * layout[at + 1]
    chosen = number_of(layout, action)
    if floats[ARMS + chosen] == 0.0:  # to those that were tried
        place = ints[ORDER + actions + chosen]
        other = ints[ORDER + ints[TRIED]]
        ints[ORDER + place], ints[ORDER + actions + other] = other, place
        ints[ORDER + ints[TRIED]], ints[ORDER + actions + chosen] = chosen, ints[TRIED]
        ints[TRIED] += 1
    floats[ARMS + chosen] += times
    floats[ARMS + actions + chosen] += times * (reward - floats[ARMS + actions + chosen]) / floats[ARMS + chosen]
    floats[ARMS + 2 * actions + chosen] = 1.0 / math.sqrt(floats[ARMS + chosen])
    ints[ROUNDS] += times
    return DONE
