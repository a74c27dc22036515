"""CombUCB1 and KL-CombUCB1: the best action under upper confidence bounds of its base arms."""

import math
from collections.abc import Iterator
from typing import Any, NamedTuple, final

import numpy as np

from idbandits.baselines.baseline import Baseline, check_diagram, decisions_above, kernels, log_horizon, state_of
from idbandits.baselines.confidence import Arms, arms_in, kl_above, level
from idbandits.circuit.build import starts, strides
from idbandits.circuit.model import compile
from idbandits.diagram.diagram import Diagram
from idbandits.diagram.tables import Learned, Use
from idbandits.errors import DiagramError, check_number
from idbandits.inference.act import solve_at
from idbandits.inference.rounds.round import Round
from idbandits.inference.state.state import ROUNDS, State
from idbandits.kernel.array_types import Floats, Indices, Ints, Rng
from idbandits.kernel.compile import linked, unmanaged
from idbandits.kernel.structs import Packed
from idbandits.solve.assignment import match
from idbandits.solve.solver import BUDGET, Solver, shuffle_idle
from idbandits.solve.solver import unpack as unpack_solver

MOST_ARMS = 100_000
MOST_BONUS = 1e6  # above this, rounding would hide the indices of other arms
TIES = 1e-9  # relative random decrease of indices, to break ties


class CombConfig(NamedTuple):
    """Base arms and rewards of the observed nodes with rewards, here called nodes."""

    arms: int
    nodes: int
    kl: int  # 1 for KL-UCB indices
    items: int  # number of items if actions are lists of distinct items, which needs no solver; else 0
    place: Indices  # by node: index among the observed nodes
    first_value: Indices  # by node: start in `values`
    first_arm: Indices  # by node
    axis_start: Indices  # by node: start in `decision` and `stride`
    decision: Indices  # by axis: a decision that the node depends on
    stride: Indices  # by axis: distance between the arms of neighbouring choices
    values: Floats  # by node and state: reward, scaled to [0, 1]
    weight: Floats  # by node: reward per unit of `values`
    setting: float  # factor of UCB1; confidence level of KL-UCB, 0 for log t + 3 log log t
    bonus: float  # ratio of the index of untried arms to the highest other index


@linked
def act(config: CombConfig, state: State, rng: Rng, action: Ints, solve: Any, solver: Packed) -> bool:
    """Write the best action under the indices; return False if there is none."""
    arms, items, positions = arms_in(state.floats, config.arms), config.items, len(action)
    highest = refresh(config, arms, state.ints[ROUNDS] + 1)
    if items > 0:
        scores = np.empty(positions * items)  # of each item at each position
        for i in range(len(scores)):
            scores[i] = TIES * highest * rng.random()
        for n in range(config.nodes):
            first, arm = config.decision[config.axis_start[n]] * items, config.first_arm[n]
            for i in range(items):
                scores[first + i] += config.weight[n] * arms.bound[arm + i]
        order, float_scratch = np.empty(2 * items + 2, np.int64), np.empty(2 * items + positions + 3)
        return match(scores, positions, items, order, float_scratch, action)
    means = np.empty(2 * config.arms)
    for a in range(config.arms):
        means[2 * a + 1] = arms.bound[a] / highest * (1.0 - TIES * rng.random())
        means[2 * a] = 1.0 - means[2 * a + 1]
    everything = np.empty(0, np.int64)
    _, _, sound = solve_at(solve)(solver.ints, solver.floats, means, True, action, everything, BUDGET)
    _, s = unpack_solver(solver.ints, solver.floats)
    shuffle_idle(s, rng, action, everything)
    return bool(sound)


@unmanaged
def refresh(config: CombConfig, arms: Arms, t: int) -> float:
    """Update all indices for round t, and return the highest."""
    setting, untried, highest = config.setting, 0, 0.0
    allowed = setting if setting > 0.0 else level(t)
    factor = math.sqrt(setting * math.log(max(t - 1, 1)))
    for a in range(config.arms):
        times, index = arms.times[a], arms.bound[a]
        if times == 0.0:
            untried += 1
            continue
        mean = arms.sums[a] / times
        if not config.kl:
            arms.bound[a] = mean + factor / math.sqrt(times)
        elif setting == 0.0 or index < 0.0:
            near = -math.log1p(-index) if 0.0 < index < 1.0 else 0.0
            arms.bound[a] = kl_above(mean, allowed / times, near)
        highest = max(highest, arms.bound[a])
    if untried == 0:
        return highest if highest > 0.0 else 1.0
    highest = config.bonus * max(highest, 1.0)
    for a in range(config.arms):
        if arms.times[a] == 0.0:
            arms.bound[a] = highest
    return highest


@unmanaged
def learn(config: CombConfig, state: State, rng: Rng, round_: Round) -> None:
    """Add the rewards of the action's base arms."""
    arms = arms_in(state.floats, config.arms)
    for n in range(config.nodes):
        arm = config.first_arm[n]
        for axis in range(config.axis_start[n], config.axis_start[n + 1]):
            arm += config.stride[axis] * round_.action[config.decision[axis]]
        arms.times[arm] += round_.times
        arms.sums[arm] += round_.times * config.values[config.first_value[n] + round_.seen[config.place[n]]]
        arms.bound[arm] = -1.0  # outdated


@final
class CombUCB1(Baseline):
    """CombUCB1: the best action under the indices mean + sqrt(`factor` log t / times) of its base arms, after t rounds.

    Kveton, Wen, Ashkan and Szepesvári, Tight Regret Bounds for Stochastic Combinatorial Semi-Bandits, AISTATS 2015,
    Algorithm 1. The reward must be a sum of terms of one observed node each. A base arm is a node with the choices it
    depends on: an item at a position in the position-based model. Nodes that depend on one decision by the same learned
    table share arms: an item in the semi-bandit. Rewards are scaled to [0, 1] per node. Actions with untried base arms
    (by weight) come first; ties are broken at random.

    Parameters
    ----------
    d : Diagram
        Diagram without contexts.
    seed : int, SeedSequence or Generator, optional
        Seed of the random numbers.
    factor : float
        Factor of the confidence widths; 1.5 is that of the paper.

    Examples
    --------
    >>> from idbandits import models
    >>> learner = CombUCB1(models.semi_bandit(items=4, positions=2), seed=0)
    >>> for _ in range(300):
    ...     action = learner.act()
    ...     learner.update(action, {"X1": int(action["A1"] > 1), "X2": int(action["A2"] > 1)})
    >>> sorted(learner.act().values()), learner.rounds
    ([2, 3], 300)
    """

    ACT, LEARN = kernels("CombUCB1", CombConfig, act, learn, solves=True)

    def __init__(self, d: Diagram, seed: Any = None, *, factor: float = 1.5) -> None:
        setting = check_number("CombUCB1: factor", factor, 0, above=True)
        super().__init__(d, seed, *_start("CombUCB1", d, setting, kl=False))


@final
class KLCombUCB1(Baseline):
    """KL-CombUCB1: CombUCB1 with KL-UCB indices, the highest q with times · d(mean, q) ≤ log `horizon`.

    A baseline in Gauthier, Gaudel, Fromont and Lompo, Parametric Graph for Unimodal Ranking Bandit, ICML 2021.

    Parameters
    ----------
    d : Diagram
        Diagram without contexts, as for `CombUCB1`.
    seed : int, SeedSequence or Generator, optional
        Seed of the random numbers.
    horizon : int or None
        Number of rounds; None for the level log t + 3 log log t (Garivier and Cappé 2011), which explores more.

    Examples
    --------
    >>> from idbandits import models
    >>> KLCombUCB1(models.position_based(items=3, positions=2), horizon=1000)
    KLCombUCB1('position-based'; 0 rounds)
    """

    ACT, LEARN = CombUCB1.ACT, CombUCB1.LEARN

    def __init__(self, d: Diagram, seed: Any = None, *, horizon: int | None = 20_000) -> None:
        super().__init__(d, seed, *_start("KLCombUCB1", d, log_horizon("KLCombUCB1", horizon), kl=True))


class Source(NamedTuple):
    """Observed node with a reward that depends on decisions."""

    name: str
    place: int  # index among the observed nodes
    parents: tuple[str, ...]  # the decisions of its base arms
    table: tuple[Any, ...]  # nodes with equal tables share base arms
    values: Floats  # reward by state, scaled to [0, 1]
    weight: float  # reward per unit of `values`


def _start(who: str, d: Diagram, setting: float, kl: bool) -> tuple[CombConfig, State, Solver]:
    """Return the configuration, the initial state, and the solver of a diagram whose learned rows are the base arms."""
    decisions, _ = check_diagram(who, d)
    sources = list(_sources(who, d))
    if not sources:
        raise DiagramError(f"{who}: the reward of diagram {d.name!r} must depend on a decision")
    flat = Diagram(d.name)
    for node in decisions:
        flat.decision(node.name, node.states if isinstance(node.values, range) else node.values)
    tables: dict[tuple[Any, ...], tuple[Learned, int]] = {}  # with the first base arm
    arms, sizes = 0, [[d.nodes[p].states for p in source.parents] for source in sources]
    for source, own in zip(sources, sizes, strict=True):
        if source.table not in tables:
            tables[source.table] = Learned(f"{len(tables)}", rows=math.prod(own)), arms
            arms += math.prod(own)
            if arms > MOST_ARMS:
                where = f"{source.name!r}, which depends on {', '.join(source.parents)}"
                raise DiagramError(f"{who} needs at most {MOST_ARMS:,} base arms, got {arms:,} at {where}")
        observed = flat.observed(source.name, source.parents, tables[source.table][0])
        flat.reward(observed, lambda v, weight=source.weight: weight * v)
    for group, excepted in d.constraints:
        flat.all_different(*group, except_=excepted)
    is_list = (
        all(len(source.parents) == 1 for source in sources)
        and all(node.values == decisions[0].values for node in decisions)
        and any(len(group) == len(decisions) and not excepted for group, excepted in d.constraints)
    )
    weights, places = [source.weight for source in sources], {n.name: k for k, n in enumerate(decisions)}
    config = CombConfig(
        arms=arms, nodes=len(sources), kl=kl, items=decisions[0].states if is_list else 0,
        place=[source.place for source in sources], first_value=starts([source.values.tolist() for source in sources]),
        first_arm=[tables[source.table][1] for source in sources], axis_start=starts(sizes),
        decision=[places[p] for source in sources for p in source.parents],
        stride=[step for own in sizes for step in strides(own, 1)],
        values=np.concatenate([source.values for source in sources]), weight=np.array(weights), setting=setting,
        # an untried arm outweighs all others, unless its weight is negligible
        bonus=min(10.0 * math.fsum(weights) / min(weights), MOST_BONUS),
    )  # fmt: skip
    return config, state_of(np.zeros(len(Arms._fields) * arms)), compile(flat).derived(Solver)


def _sources(who: str, d: Diagram) -> Iterator[Source]:
    """Yield the observed nodes through which decisions change the reward."""
    earned: dict[str, Floats] = {}
    for term in d.rewards:
        if len(term.parents) > 1 or d.nodes[term.parents[0]].kind != "observed":
            parents = ", ".join(f"{p!r} ({d.nodes[p].kind})" for p in term.parents)
            needed = "each reward term must depend on one observed node"
            raise DiagramError(f"{who}: {needed}; one of diagram {d.name!r} depends on {parents}")
        earned[term.parents[0]] = earned.get(term.parents[0], 0.0) + term.table
    for place, node in enumerate(d.of_kind("observed")):
        above, earns = decisions_above(d, node.name), earned.get(node.name, np.zeros(1))
        weight = float(earns.max() - earns.min())
        if not above or weight == 0.0:
            continue
        values = (earns - earns.min()) / weight
        names = tuple(n.name for n in d.of_kind("decision") if n.name in above)
        table: tuple[Any, ...] = (node.name,)
        if above.issuperset(node.parents) and isinstance(node.cpd, Use) and node.cpd.rows is None:
            names, table = node.parents, (node.cpd.name, *values.tolist())  # its row depends on decisions alone
        yield Source(node.name, place, names, table, values, weight)
