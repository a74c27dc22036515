"""Uniform, UCB1 and ε-greedy over whole actions: all are listed, and nothing is shared between them."""

import math
from typing import Any, NamedTuple, final

import numpy as np

from idbandits.baselines.baseline import Baseline, check_diagram, kernels, state_of
from idbandits.circuit.build import starts, strides
from idbandits.diagram.constraints import Feasibility
from idbandits.diagram.diagram import Diagram
from idbandits.errors import DiagramError, InfeasibleError, check_number
from idbandits.inference.protocol import Round
from idbandits.inference.state.state import HEADER, ROUNDS, State
from idbandits.kernel.array_types import Floats, Indices, Ints, Rng
from idbandits.kernel.compile import inlined, unmanaged
from idbandits.kernel.sampling import below
from idbandits.kernel.structs import pointer

MOST_ACTIONS = 100_000
TRIED = HEADER  # of the integers of a state: how many actions were tried


def feasible_actions(who: str, d: Diagram) -> list[tuple[int, ...]]:
    """All actions that the constraints allow, as places among the choices, in order."""
    actions: list[tuple[int, ...]] = []
    for looked, action in enumerate(Feasibility(d).all_actions()):
        if action is not None:
            actions.append(action)
        if len(actions) > MOST_ACTIONS:
            names = [n.name for n in d.of_kind("decision")]
            has = f"has more than {MOST_ACTIONS:,} of them, with {len(names)} decisions"
            shown = f"{', '.join(names[:5])}{', …' if len(names) > 5 else ''}"
            raise DiagramError(f"{who} keeps a number for every action; diagram {d.name!r} {has} ({shown})")
        if looked > 20 * MOST_ACTIONS:
            found = f"{looked:,} steps found {len(actions):,} that the constraints of diagram {d.name!r} allow"
            raise DiagramError(f"{who} lists all actions; {found}, and more are not taken")
    if not actions:
        raise InfeasibleError(f"{who} has nothing to choose: no action of diagram {d.name!r} satisfies all_different")
    return actions


class Chances(NamedTuple):
    """The decisions, and all actions where these are listed."""

    decisions: int
    choices: Indices  # how many each decision has
    conflicts: Indices  # for pairs of decisions, whether they may not share a choice
    actions: int  # how many are listed; 0 if choices are drawn one after the other
    listed: Indices  # the choices of one action after the other


@unmanaged
def act_at_random(chances: Chances, state: State, rng: Rng, action: Ints) -> None:
    """One of the listed actions, or choices that do not conflict with those before."""
    if chances.actions > 0:
        first = below(rng, chances.actions) * chances.decisions
        for k in range(chances.decisions):
            action[k] = chances.listed[first + k]
        return
    for k in range(chances.decisions):
        free = False
        while not free:
            action[k] = below(rng, chances.choices[k])
            free = True
            for j in range(k):
                free &= chances.conflicts[j * chances.decisions + k] == 0 or action[j] != action[k]


@unmanaged
def learn_nothing(chances: Chances, state: State, rng: Rng, round_: Round) -> None:
    """Rounds are counted only."""


@final
class Uniform(Baseline):
    """Acts uniformly at random among all actions that the constraints allow, and learns nothing.

    Where decisions exclude each other in groups with the same choices, each is drawn among the choices that are left:
    then all actions are equally likely. Elsewhere all actions are listed once, which only works for up to 100,000.

    >>> from idbandits import models
    >>> learner = Uniform(models.cascade(items=5, positions=5), seed=0)
    >>> sorted(learner.act().values())
    [0, 1, 2, 3, 4]
    """

    ACT, LEARN = kernels("Uniform", Chances, act_at_random, learn_nothing)

    def __init__(self, d: Diagram, seed: Any = None) -> None:
        decisions, _ = check_diagram("Uniform", d)
        feasibility = Feasibility(d)
        conflicts = feasibility.conflicts
        related = conflicts | np.eye(len(decisions), dtype=np.bool_)
        in_turn = (
            all(decisions[j].values == decisions[k].values for j, k in np.argwhere(conflicts).tolist())
            and bool((related @ related == related).all())
            and not any(feasibility.repeatable)
            and all(rivals < n.states for rivals, n in zip(conflicts.sum(axis=0).tolist(), decisions, strict=True))
        )
        listed = np.array([] if in_turn else feasible_actions("Uniform", d), dtype=np.int64)
        choices, pairs = [n.states for n in decisions], conflicts.ravel().tolist()
        layout = Chances(len(choices), choices, pairs, len(listed), listed.ravel().tolist())
        super().__init__(d, seed, layout, state_of(np.empty(0)))


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
    greedy: int  # whether the learner is ε-greedy
    epsilon: float
    decay: float


class Arms(NamedTuple):
    """What is kept of each action."""

    order: Ints  # all actions, those that were tried first
    place: Ints  # of each in `order`
    times: Floats
    mean: Floats
    width: Floats  # 1 / sqrt(times)


@inlined
def arms_in(state: State, actions: int) -> Arms:
    """The arms of a state."""
    order, times = pointer(state.ints, TRIED + 1), pointer(state.floats, 0)
    return Arms(order, pointer(order, actions), times, pointer(times, actions), pointer(times, 2 * actions))


@unmanaged
def act(layout: Layout, state: State, rng: Rng, action: Ints) -> None:
    """An action at random, or the one with the highest index; of UCB1, those that were never tried come first."""
    arms, actions, tried, rounds = arms_in(state, layout.actions), layout.actions, state.ints[TRIED], state.ints[ROUNDS]
    if layout.greedy and rng.random() < min(layout.epsilon, layout.decay / (rounds + 1)):
        chosen = below(rng, actions)
    elif layout.greedy:
        chosen = highest(arms, actions, 0.0, rng)
    elif tried < actions:
        chosen = arms.order[tried + below(rng, actions - tried)]
    else:
        chosen = highest(arms, actions, math.sqrt(2.0 * math.log(max(rounds, 1))), rng)
    code = layout.codes[chosen]
    for k in range(layout.decisions - 1, -1, -1):
        action[k] = code % layout.choices[k]
        code //= layout.choices[k]


@unmanaged
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


@unmanaged
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


@unmanaged
def learn(layout: Layout, state: State, rng: Rng, round_: Round) -> None:
    """Add the scaled reward to those of the action."""
    arms, ints, action, seen, reward = arms_in(state, layout.actions), state.ints, round_.action, round_.seen, 0.0
    for term in range(layout.terms):
        at = layout.table_start[term]
        for axis in range(layout.term_start[term], layout.term_start[term + 1]):
            node = layout.node[axis]
            at += layout.stride[axis] * (action[node] if node < layout.decisions else seen[node - layout.decisions])
        reward += layout.tables[at]
    chosen = number_of(layout, action)
    if arms.times[chosen] == 0.0:  # it changes places with the first that was never tried
        place, tried, other = arms.place[chosen], ints[TRIED], arms.order[ints[TRIED]]
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

    ACT, LEARN = kernels("UCB1", Layout, act, learn)

    def __init__(self, d: Diagram, seed: Any = None) -> None:
        super().__init__(d, seed, *_start("UCB1", d))


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

    ACT, LEARN = UCB1.ACT, UCB1.LEARN

    def __init__(self, d: Diagram, seed: Any = None, *, epsilon: float = 0.1, decay: float | None = None) -> None:
        share = check_number("EpsilonGreedy: epsilon", epsilon, 0, 1)
        slope = math.inf if decay is None else check_number("EpsilonGreedy: decay", decay, 0, above=True)
        super().__init__(d, seed, *_start("EpsilonGreedy", d, 1, share, slope))


def _start(who: str, d: Diagram, greedy: int = 0, epsilon: float = 0.0, decay: float = 0.0) -> tuple[Layout, State]:
    """The layout, and the state before the first round."""
    decisions, observed = check_diagram(who, d)
    if not d.rewards:
        raise DiagramError(f"{who} learns from rewards; diagram {d.name!r} has none")
    for node in (d.nodes[name] for term in d.rewards for name in term.parents):
        if node.kind not in ("decision", "observed"):
            problem = f"a reward term of diagram {d.name!r} depends on {node.name!r}, a {node.kind} node"
            raise DiagramError(f"{who} learns from rewards that it sees, of observed nodes and decisions; {problem}")
    actions, sizes = np.array(feasible_actions(who, d), dtype=np.int64), [n.states for n in decisions]
    if math.prod(sizes) >= 2**62:
        raise DiagramError(f"{who} numbers all actions; diagram {d.name!r} has too many")
    places = {n.name: k for k, n in enumerate((*decisions, *observed))}
    spread = sum(float(term.table.max() - term.table.min()) for term in d.rewards) or 1.0
    tables = [(term.table - term.table.min()) / spread for term in d.rewards]
    layout = Layout(
        decisions=len(sizes), actions=len(actions), choices=sizes, codes=(actions @ strides(sizes, 1)).tolist(),
        terms=len(tables), term_start=starts([table.shape for table in tables]),
        table_start=starts([table.ravel() for table in tables]),
        node=[places[name] for term in d.rewards for name in term.parents],
        stride=[step for table in tables for step in strides(table.shape, 1)],
        tables=np.concatenate([table.ravel() for table in tables]), greedy=greedy, epsilon=epsilon, decay=decay,
    )  # fmt: skip
    return layout, state_of(np.zeros(3 * len(actions)), [0, *range(len(actions)), *range(len(actions))])
