"""Uniform, UCB1 and ε-greedy over whole actions, one arm per action."""

import math
from typing import Any, NamedTuple, final

import numpy as np

from idbandits.baselines.baseline import Baseline, check_diagram, kernels, state_of
from idbandits.circuit.build import starts, strides
from idbandits.diagram.constraints import Feasibility
from idbandits.diagram.diagram import Diagram
from idbandits.errors import DiagramError, InfeasibleError, check_number
from idbandits.inference.rounds.round import Round
from idbandits.inference.state.state import HEADER, ROUNDS, State
from idbandits.kernel.array_types import Floats, Indices, Ints, Rng
from idbandits.kernel.compile import inlined, unmanaged
from idbandits.kernel.sampling import below
from idbandits.kernel.structs import pointer

MOST_ACTIONS = 100_000
TRIED = HEADER  # integer of the state: number of actions tried


def feasible_actions(who: str, d: Diagram) -> list[tuple[int, ...]]:
    """Return all feasible actions in order, as indices of choices."""
    actions: list[tuple[int, ...]] = []
    for looked, action in enumerate(Feasibility(d).all_actions()):
        if action is not None:
            actions.append(action)
        if len(actions) > MOST_ACTIONS:
            has = f"diagram {d.name!r} with {len(d.of_kind('decision'))} decisions has more"
            raise DiagramError(f"{who} needs at most {MOST_ACTIONS:,} actions; {has}")
        if looked > 20 * MOST_ACTIONS:
            found = f"{looked:,} steps found {len(actions):,} feasible actions of diagram {d.name!r}"
            raise DiagramError(f"{who} needs a list of all actions; {found}, which is too slow")
    if not actions:
        raise InfeasibleError(f"{who}: no action of diagram {d.name!r} satisfies all_different")
    return actions


class UniformConfig(NamedTuple):
    """Decisions of a diagram, and a list of all actions unless choices are drawn one by one."""

    decisions: int
    choices: Indices  # by decision: number of choices
    conflicts: Indices  # by pair of decisions: 1 if they must differ
    actions: int  # length of the list
    listed: Indices  # the choices of all actions


@unmanaged
def act_at_random(config: UniformConfig, state: State, rng: Rng, action: Ints) -> None:
    """Choose one of the listed actions, or draw choices that differ from conflicting ones."""
    if config.actions > 0:
        first = below(rng, config.actions) * config.decisions
        for k in range(config.decisions):
            action[k] = config.listed[first + k]
        return
    for k in range(config.decisions):
        free = False
        while not free:
            action[k] = below(rng, config.choices[k])
            free = True
            for j in range(k):
                free &= config.conflicts[j * config.decisions + k] == 0 or action[j] != action[k]


@unmanaged
def learn_nothing(config: UniformConfig, state: State, rng: Rng, round_: Round) -> None:
    """Learn nothing; rounds are counted by the caller."""


@final
class Uniform(Baseline):
    """Uniform choice among all feasible actions, which learns nothing.

    Where decisions exclude each other in groups with equal choices, choices are drawn one by one. Elsewhere all actions
    are listed, which is limited to 100,000.

    Parameters
    ----------
    d : Diagram
        Diagram without contexts.
    seed : int, SeedSequence or Generator, optional
        Seed of the random numbers.

    Examples
    --------
    >>> from idbandits import models
    >>> learner = Uniform(models.cascade(items=5, positions=5), seed=0)
    >>> sorted(learner.act().values())
    [0, 1, 2, 3, 4]
    """

    ACT, LEARN = kernels("Uniform", UniformConfig, act_at_random, learn_nothing)

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
        config = UniformConfig(len(choices), choices, pairs, len(listed), listed.ravel().tolist())
        super().__init__(d, seed, config, state_of(np.empty(0)))


class ActionConfig(NamedTuple):
    """Feasible actions, and the terms of the reward."""

    decisions: int
    actions: int
    choices: Indices  # by decision: number of choices
    codes: Indices  # by action: its choices as one number, in ascending order
    terms: int  # of the reward
    term_start: Indices  # by term: start in `node` and `stride`
    table_start: Indices  # by term: start in `tables`
    node: Indices  # by axis: index among decisions and observed nodes
    stride: Indices  # by axis: stride of the term's table
    tables: Floats  # rewards scaled to [0, 1]
    greedy: int  # 1 for ε-greedy
    epsilon: float
    decay: float


class ActionArms(NamedTuple):
    """State of all actions."""

    order: Ints  # all actions, tried ones first
    place: Ints  # by action: index in `order`
    times: Floats
    mean: Floats
    width: Floats  # 1 / sqrt(times)


@inlined
def action_arms(state: State, actions: int) -> ActionArms:
    """Return the arms in a state."""
    order, times = pointer(state.ints, TRIED + 1), pointer(state.floats, 0)
    return ActionArms(order, pointer(order, actions), times, pointer(times, actions), pointer(times, 2 * actions))


@unmanaged
def act(config: ActionConfig, state: State, rng: Rng, action: Ints) -> None:
    """Choose a random action, or the one with the highest index; UCB1 tries untried actions first."""
    actions, tried, rounds = config.actions, state.ints[TRIED], state.ints[ROUNDS]
    arms = action_arms(state, actions)
    if config.greedy and rng.random() < min(config.epsilon, config.decay / (rounds + 1)):
        chosen = below(rng, actions)
    elif config.greedy:
        chosen = highest(arms, actions, 0.0, rng)
    elif tried < actions:
        chosen = arms.order[tried + below(rng, actions - tried)]
    else:
        chosen = highest(arms, actions, math.sqrt(2.0 * math.log(max(rounds, 1))), rng)
    code = config.codes[chosen]
    for k in range(config.decisions - 1, -1, -1):
        action[k] = code % config.choices[k]
        code //= config.choices[k]


@unmanaged
def highest(arms: ActionArms, actions: int, factor: float, rng: Rng) -> int:
    """Return the action with the highest mean + factor / sqrt(times), breaking ties at random."""
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
def number_of(config: ActionConfig, action: Ints) -> int:
    """Return the number of an action, by bisection of the codes."""
    code = 0
    for k in range(config.decisions):
        code = code * config.choices[k] + action[k]
    low, high = 0, config.actions - 1
    while low < high:
        middle = (low + high) // 2
        if config.codes[middle] < code:
            low = middle + 1
        else:
            high = middle
    return low


@unmanaged
def learn(config: ActionConfig, state: State, rng: Rng, round_: Round) -> None:
    """Update the mean of the action with the scaled reward."""
    arms, ints, action, seen, reward = action_arms(state, config.actions), state.ints, round_.action, round_.seen, 0.0
    for term in range(config.terms):
        at = config.table_start[term]
        for axis in range(config.term_start[term], config.term_start[term + 1]):
            node = config.node[axis]
            at += config.stride[axis] * (action[node] if node < config.decisions else seen[node - config.decisions])
        reward += config.tables[at]
    chosen = number_of(config, action)
    if arms.times[chosen] == 0.0:  # swap places with the first untried action
        place, tried, other = arms.place[chosen], ints[TRIED], arms.order[ints[TRIED]]
        arms.order[place], arms.place[other] = other, place
        arms.order[tried], arms.place[chosen] = chosen, tried
        ints[TRIED] += 1
    arms.times[chosen] += round_.times
    arms.mean[chosen] += round_.times * (reward - arms.mean[chosen]) / arms.times[chosen]
    arms.width[chosen] = 1.0 / math.sqrt(arms.times[chosen])


@final
class UCB1(Baseline):
    """UCB1 over whole actions: the highest mean + sqrt(2 log t / times) after t rounds.

    Auer, Cesa-Bianchi and Fischer, Finite-time Analysis of the Multiarmed Bandit Problem, Machine Learning 2002, Figure
    1. Rewards may depend on observed nodes and decisions only; they are scaled to [0, 1] by the sums of the lowest and
    highest values of all terms. Every action is tried once, in random order; ties are broken at random.

    Parameters
    ----------
    d : Diagram
        Diagram without contexts, with at most 100,000 actions.
    seed : int, SeedSequence or Generator, optional
        Seed of the random numbers.

    Examples
    --------
    >>> from idbandits import models
    >>> learner = UCB1(models.rank1(rows=2, columns=3), seed=0)
    >>> for _ in range(500):
    ...     action = learner.act()
    ...     learner.update(action, {"X": int(action == {"A1": 1, "A2": 2})})
    >>> learner.act()
    {'A1': 1, 'A2': 2}
    """

    ACT, LEARN = kernels("UCB1", ActionConfig, act, learn)

    def __init__(self, d: Diagram, seed: Any = None) -> None:
        super().__init__(d, seed, *_start("UCB1", d))


@final
class EpsilonGreedy(Baseline):
    """ε-greedy over whole actions: a random action with probability `epsilon`, else the one with the highest mean.

    Rewards are scaled as in UCB1. Untried actions have the lowest reward; ties are broken at random.

    Parameters
    ----------
    d : Diagram
        Diagram without contexts, with at most 100,000 actions.
    seed : int, SeedSequence or Generator, optional
        Seed of the random numbers.
    epsilon : float
        Probability of a random action, from 0 to 1.
    decay : float, optional
        With it, the probability in round t is min(`epsilon`, `decay` / t). With `epsilon=1` that is the schedule of
        Auer, Cesa-Bianchi and Fischer 2002, Figure 3, where decay = c K / d² for K actions.

    Examples
    --------
    >>> from idbandits import models
    >>> EpsilonGreedy(models.rank1(rows=2, columns=3), epsilon=1, decay=30)
    EpsilonGreedy('rank-1'; 0 rounds)
    """

    ACT, LEARN = UCB1.ACT, UCB1.LEARN

    def __init__(self, d: Diagram, seed: Any = None, *, epsilon: float = 0.1, decay: float | None = None) -> None:
        share = check_number("EpsilonGreedy: epsilon", epsilon, 0, 1)
        slope = math.inf if decay is None else check_number("EpsilonGreedy: decay", decay, 0, above=True)
        super().__init__(d, seed, *_start("EpsilonGreedy", d, 1, share, slope))


def _start(who: str, d: Diagram, greedy: int = 0, epsilon: float = 0, decay: float = 0) -> tuple[ActionConfig, State]:
    """Return the configuration and the initial state."""
    decisions, observed = check_diagram(who, d)
    if not d.rewards:
        raise DiagramError(f"{who} needs a reward; diagram {d.name!r} has none")
    for node in (d.nodes[name] for term in d.rewards for name in term.parents):
        if node.kind not in ("decision", "observed"):
            found = f"that of diagram {d.name!r} depends on {node.name!r}, a {node.kind} node"
            raise DiagramError(f"{who}: the reward must depend on decisions and observed nodes only; {found}")
    actions, sizes = np.array(feasible_actions(who, d), dtype=np.int64), [n.states for n in decisions]
    if math.prod(sizes) >= 2**62:
        raise DiagramError(f"{who}: diagram {d.name!r} has too many combinations of choices")
    places = {n.name: k for k, n in enumerate((*decisions, *observed))}
    spread = sum(float(term.table.max() - term.table.min()) for term in d.rewards) or 1.0
    tables = [(term.table - term.table.min()) / spread for term in d.rewards]
    config = ActionConfig(
        decisions=len(sizes), actions=len(actions), choices=sizes, codes=(actions @ strides(sizes, 1)).tolist(),
        terms=len(tables), term_start=starts([table.shape for table in tables]),
        table_start=starts([table.ravel() for table in tables]),
        node=[places[name] for term in d.rewards for name in term.parents],
        stride=[step for table in tables for step in strides(table.shape, 1)],
        tables=np.concatenate([table.ravel() for table in tables]), greedy=greedy, epsilon=epsilon, decay=decay,
    )  # fmt: skip
    return config, state_of(np.zeros(3 * len(actions)), [0, *range(len(actions)), *range(len(actions))])
