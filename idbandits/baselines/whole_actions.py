"""UCB1 and ε-greedy over whole actions: every action is an arm of its own, and nothing is shared between them."""

from __future__ import annotations

import math
from typing import Any, NamedTuple, final

import numpy as np

from idbandits.baselines.baseline import Baseline, check_diagram, feasible_actions, learner, state_of
from idbandits.diagram.declare import Diagram
from idbandits.errors import DiagramError, check_number
from idbandits.inference.playing import ACT
from idbandits.inference.protocol import Round
from idbandits.kernel.compiling import bare, kernel, merged
from idbandits.kernel.draws import below
from idbandits.kernel.fields import Packed, pointer, unpacker
from idbandits.kernel.states import HEADER, ROUNDS, State
from idbandits.kernel.types import Floats, Indices, Ints, Rng

TRIED = HEADER  # of the integers of a state: how many actions were tried
MOST_ACTIONS = 100_000


class Layout(NamedTuple):
    """All actions, and how the reward is computed from what is seen."""

    decisions: int
    actions: int
    choices: Indices  # how many each decision has
    codes: Indices  # the choices of each action as one number, in ascending order
    terms: int  # of the reward
    term_start: Indices  # for each term, its first axis; then the number of axes
    table_start: Indices  # for each term, where its table begins in `tables`
    node: Indices  # for each axis, its place among the decisions and the observed nodes after them
    stride: Indices  # for each axis, how far apart two neighbouring states are in the table
    tables: Floats  # scaled, so that rewards are 0 to 1
    exploration: Floats  # of ε-greedy: ε and its decay


class Arms(NamedTuple):
    """What is kept of each action."""

    order: Ints  # all actions, those that were tried first
    place: Ints  # of each in `order`
    times: Floats
    mean: Floats
    width: Floats  # 1 / sqrt(times)


unpack = unpacker(Layout)


@merged
def arms_in(state: State, actions: int) -> Arms:
    """The arms of a state."""
    order, times = pointer(state.ints, TRIED + 1), pointer(state.floats, 0)
    return Arms(order, pointer(order, actions), times, pointer(times, actions), pointer(times, 2 * actions))


@kernel(ACT)
def act_by_bounds(solve: Any, solver: Packed, packed: Packed, state: State, rng: Rng, action: Ints) -> None:
    """The action with the highest index, or one that was never tried."""
    layout, tried = unpack(packed.ints, packed.floats), state.ints[TRIED]
    arms = arms_in(state, layout.actions)
    if tried < layout.actions:
        chosen = arms.order[tried + below(rng, layout.actions - tried)]
    else:
        chosen = highest(arms, layout.actions, math.sqrt(2.0 * math.log(max(state.ints[ROUNDS], 1))), rng)
    decode(layout, chosen, action)


@kernel(ACT)
def act_greedily(solve: Any, solver: Packed, packed: Packed, state: State, rng: Rng, action: Ints) -> None:
    """A random action, or the one with the highest mean."""
    layout = unpack(packed.ints, packed.floats)
    epsilon, decay = layout.exploration[0], layout.exploration[1]
    if rng.random() < min(epsilon, decay / (state.ints[ROUNDS] + 1)):
        chosen = below(rng, layout.actions)
    else:
        chosen = highest(arms_in(state, layout.actions), layout.actions, 0.0, rng)
    decode(layout, chosen, action)


@bare
def highest(arms: Arms, actions: int, factor: float, rng: Rng) -> int:
    """The action with the highest mean + factor / sqrt(times), one of them at random."""
    best, ties, most = 0, 0, -math.inf
    for a in range(actions):
        index = arms.mean[a] + factor * arms.width[a]
        if index > most:
            best, ties, most = a, 1, index
        elif index == most:
            ties += 1
            if below(rng, ties) == 0:
                best = a
    return best


@bare
def decode(layout: Layout, chosen: int, action: Ints) -> None:
    """Put an action into `action` by its number."""
    code = layout.codes[chosen]
    for k in range(layout.decisions - 1, -1, -1):
        action[k] = code % layout.choices[k]
        code //= layout.choices[k]


@bare
def number_of(layout: Layout, action: Ints) -> int:
    """The number of an action: codes are in order."""
    code = 0
    for k in range(layout.decisions):
        code = code * layout.choices[k] + action[k]
    low, high = 0, layout.actions - 1
    while low < high:
        middle = (low + high) // 2
        if layout.codes[middle] < code:
            low = middle + 1
        else:
            high = middle
    return low


@bare
def reward_of(layout: Layout, action: Ints, seen: Ints) -> float:
    """The scaled reward of a round."""
    reward = 0.0
    for term in range(layout.terms):
        at = layout.table_start[term]
        for axis in range(layout.term_start[term], layout.term_start[term + 1]):
            node = layout.node[axis]
            at += layout.stride[axis] * (action[node] if node < layout.decisions else seen[node - layout.decisions])
        reward += layout.tables[at]
    return reward


@bare
def learn(packed: Packed, state: State, rng: Rng, round_: Round) -> None:
    """Add the reward to those of the action."""
    layout, ints = unpack(packed.ints, packed.floats), state.ints
    arms = arms_in(state, layout.actions)
    reward = reward_of(layout, round_.action, round_.seen)
    chosen = number_of(layout, round_.action)
    if arms.times[chosen] == 0.0:  # it changes places with the first that was never tried
        place, tried = arms.place[chosen], ints[TRIED]
        other = arms.order[tried]
        arms.order[place], arms.place[other] = other, place
        arms.order[tried], arms.place[chosen] = chosen, tried
        ints[TRIED] += 1
    arms.times[chosen] += round_.times
    arms.mean[chosen] += round_.times * (reward - arms.mean[chosen]) / arms.times[chosen]
    arms.width[chosen] = 1.0 / math.sqrt(arms.times[chosen])


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

    ACT, LEARN = act_by_bounds, learner("UCB1")(learn)

    def __init__(self, d: Diagram, seed: Any = None) -> None:
        super().__init__(d, seed, *_start("UCB1", d, 0.0, 0.0))


@final
class EpsilonGreedy(Baseline):
    """ε-greedy over whole actions: at random with probability `epsilon`, else the highest mean so far.

    With `decay`, the probability in round t is min(`epsilon`, `decay` / t): with `epsilon=1` it is the schedule of
    Auer, Cesa-Bianchi and Fischer 2002, Figure 3, where decay = c K / d² for K actions. Rewards are as for UCB1. What
    was never tried counts as the lowest reward; ties are broken at random.

    >>> from idbandits import models
    >>> EpsilonGreedy(models.rank1(rows=2, columns=3), epsilon=1, decay=30)
    EpsilonGreedy('rank-1'; 0 rounds)
    """

    ACT, LEARN = act_greedily, UCB1.LEARN

    def __init__(
        self, d: Diagram, seed: Any = None, *, epsilon: float = 0.1, decay: float | None = None
    ) -> None:  # fmt: skip
        share = check_number("EpsilonGreedy: epsilon", epsilon, 0, 1)
        slope = math.inf if decay is None else check_number("EpsilonGreedy: decay", decay, 0, above=True)
        super().__init__(d, seed, *_start("EpsilonGreedy", d, share, slope))


def _start(who: str, d: Diagram, epsilon: float, decay: float) -> tuple[Layout, State]:
    """The layout, and the state before the first round."""
    check_diagram(who, d)
    tables = _scaled_tables(who, d)
    actions = np.array(feasible_actions(who, d, MOST_ACTIONS), dtype=np.int64)
    sizes = [n.states for n in d.of_kind("decision")]
    if math.prod(sizes) >= 2**62:
        raise DiagramError(f"{who} numbers all actions; diagram {d.name!r} has too many")
    strides = np.array([math.prod(sizes[k + 1 :]) for k in range(len(sizes))], dtype=np.int64)
    places = {n.name: k for k, n in enumerate((*d.of_kind("decision"), *d.of_kind("observed")))}
    layout = Layout(
        decisions=len(sizes),
        actions=len(actions),
        choices=sizes,
        codes=(actions @ strides).tolist(),
        terms=len(tables),
        term_start=[0, *np.cumsum([table.ndim for table in tables]).tolist()],
        table_start=[0, *np.cumsum([table.size for table in tables]).tolist()],
        node=[places[name] for term in d.rewards for name in term.parents],
        stride=[math.prod(table.shape[axis + 1 :]) for table in tables for axis in range(table.ndim)],
        tables=np.concatenate([table.ravel() for table in tables]),
        exploration=np.array([epsilon, decay]),
    )
    order = np.arange(len(actions))
    return layout, state_of(np.concatenate([[0], order, order]), np.zeros(3 * len(actions)))


def _scaled_tables(who: str, d: Diagram) -> list[Floats]:
    """The tables of all reward terms, scaled so that they add up to 0 … 1."""
    if not d.rewards:
        raise DiagramError(f"{who} learns from rewards; diagram {d.name!r} has none")
    for term in d.rewards:
        for name in term.parents:
            if d.nodes[name].kind not in ("decision", "observed"):
                raise DiagramError(
                    f"{who} learns from rewards that it sees, of observed nodes and decisions; a reward term of "
                    f"diagram {d.name!r} depends on {name!r}, a {d.nodes[name].kind} node"
                )
    spread = sum(float(term.table.max() - term.table.min()) for term in d.rewards)
    return [(term.table - term.table.min()) / (spread or 1.0) for term in d.rewards]
