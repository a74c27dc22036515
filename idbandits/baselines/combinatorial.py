"""CombUCB1 and KL-CombUCB1: the best action under upper confidence bounds of what each part of it earns."""

import math
from collections.abc import Iterator
from typing import Any, NamedTuple, final

import numpy as np

from idbandits.baselines.baseline import MOST_ROUNDS, Baseline, check_diagram, decisions_above, kernels, state_of
from idbandits.baselines.confidence import Arms, arms_in, kl_above, level
from idbandits.circuit.build import starts, strides
from idbandits.circuit.model import compile
from idbandits.diagram.diagram import Diagram
from idbandits.diagram.tables import Learned, Use
from idbandits.errors import DiagramError, check_number, check_whole
from idbandits.inference.protocol import Round, solve_at
from idbandits.inference.state.state import ROUNDS, State
from idbandits.kernel.array_types import Floats, Indices, Ints, Rng
from idbandits.kernel.compile import linked, unmanaged
from idbandits.kernel.structs import Packed
from idbandits.solve.assignment import match
from idbandits.solve.solver import BUDGET, Solver, shuffle_idle
from idbandits.solve.solver import unpack as unpack_solver

MOST_ARMS = 100_000
MOST_BONUS = 1e6  # else rounding would hide what other arms promise
TIES = 1e-9  # by what part an index is lowered at random, so that equal ones take turns


class Layout(NamedTuple):
    """How the base arms of an action and their rewards are found."""

    arms: int
    nodes: int  # those that earn something
    kl: int  # whether the indices are those of KL-UCB
    items: int  # where actions are lists of different items, which needs no solver: how many; else 0
    place: Indices  # of each node among the observed ones
    first_value: Indices  # for each node, where what its states earn begins in `values`
    first_arm: Indices  # for each node, its first base arm
    axis_start: Indices  # for each node, the first decision it depends on; then how many there are in all
    decision: Indices  # of each axis
    stride: Indices  # for each axis, how far apart the arms of two neighbouring choices are
    values: Floats  # what each state of a node earns, scaled to [0, 1]
    weight: Floats  # of each node: what 1 of these is worth
    setting: float  # of UCB1 the factor; of KL-UCB the confidence level, 0 for log t + 3 log log t
    bonus: float  # the index of arms that were never tried is so many times that of the others


@linked
def act(layout: Layout, state: State, rng: Rng, action: Ints, solve: Any, solver: Packed) -> bool:
    """The best action under the indices; what was never tried outweighs all that was. False if there is none."""
    arms, items, positions = arms_in(state.floats, layout.arms), layout.items, len(action)
    highest = refresh(layout, arms, state.ints[ROUNDS] + 1)
    if items > 0:
        scores = np.empty(positions * items)  # what each item promises at each position
        for i in range(len(scores)):
            scores[i] = TIES * highest * rng.random()
        for n in range(layout.nodes):
            first, arm = layout.decision[layout.axis_start[n]] * items, layout.first_arm[n]
            for i in range(items):
                scores[first + i] += layout.weight[n] * arms.bound[arm + i]
        order, float_scratch = np.empty(2 * items + 2, np.int64), np.empty(2 * items + positions + 3)
        return match(scores, positions, items, order, float_scratch, action)
    means = np.empty(2 * layout.arms)
    for a in range(layout.arms):
        means[2 * a + 1] = arms.bound[a] / highest * (1.0 - TIES * rng.random())
        means[2 * a] = 1.0 - means[2 * a + 1]
    _, _, sound = solve_at(solve)(solver.ints, solver.floats, means, True, action, np.empty(0, np.int64), BUDGET)
    _, s = unpack_solver(solver.ints, solver.floats)
    shuffle_idle(s, rng, action, np.empty(0, np.int64))
    return bool(sound)


@unmanaged
def refresh(layout: Layout, arms: Arms, t: int) -> float:
    """Bring all indices up to date in round t, and return the highest."""
    setting, untried, highest = layout.setting, 0, 0.0
    allowed = setting if setting > 0.0 else level(t)
    factor = math.sqrt(setting * math.log(max(t - 1, 1)))
    for a in range(layout.arms):
        times, index = arms.times[a], arms.bound[a]
        if times == 0.0:
            untried += 1
            continue
        mean = arms.sums[a] / times
        if not layout.kl:
            arms.bound[a] = mean + factor / math.sqrt(times)
        elif setting == 0.0 or index < 0.0:
            near = -math.log1p(-index) if 0.0 < index < 1.0 else 0.0
            arms.bound[a] = kl_above(mean, allowed / times, near)
        highest = max(highest, arms.bound[a])
    if untried == 0:
        return highest if highest > 0.0 else 1.0
    highest = layout.bonus * max(highest, 1.0)
    for a in range(layout.arms):
        if arms.times[a] == 0.0:
            arms.bound[a] = highest
    return highest


@unmanaged
def learn(layout: Layout, state: State, rng: Rng, round_: Round) -> None:
    """Count what every base arm of the action earned."""
    arms = arms_in(state.floats, layout.arms)
    for n in range(layout.nodes):
        arm = layout.first_arm[n]
        for axis in range(layout.axis_start[n], layout.axis_start[n + 1]):
            arm += layout.stride[axis] * round_.action[layout.decision[axis]]
        arms.times[arm] += round_.times
        arms.sums[arm] += round_.times * layout.values[layout.first_value[n] + round_.seen[layout.place[n]]]
        arms.bound[arm] = -1.0  # to be found anew


@final
class CombUCB1(Baseline):
    """CombUCB1: the best action under the indices mean + sqrt(`factor` log t / times) of its base arms, after t rounds.

    Kveton, Wen, Ashkan and Szepesvári, Tight Regret Bounds for Stochastic Combinatorial Semi-Bandits, AISTATS 2015,
    Algorithm 1; 1.5 is the paper's factor, and 1 that of some public code, which explores less. The reward must be a
    sum of terms that depend on one observed node each. A base arm is a node with the choices that it depends on: an
    item at a position in the position-based model. Nodes that depend directly on a decision by the same learned table
    share theirs: an item in the semi-bandit. Rewards are scaled to [0, 1] by what a node can earn, and weighed by it.
    Actions with the most base arms that were never tried come first (by weight); ties are broken at random.

    >>> from idbandits import models
    >>> learner = CombUCB1(models.semi_bandit(items=4, positions=2), seed=0)
    >>> for _ in range(300):
    ...     action = learner.act()
    ...     learner.update(action, {"X1": int(action["A1"] > 1), "X2": int(action["A2"] > 1)})
    >>> sorted(learner.act().values())
    [2, 3]
    """

    ACT, LEARN = kernels("CombUCB1", Layout, act, learn, solves=True)

    def __init__(self, d: Diagram, seed: Any = None, *, factor: float = 1.5) -> None:
        setting = check_number("CombUCB1: factor", factor, 0, above=True)
        super().__init__(d, seed, *_start("CombUCB1", d, setting, kl=False))


@final
class KLCombUCB1(Baseline):
    """KL-CombUCB1: CombUCB1 with KL-UCB indices, the highest q with times · d(mean, q) ≤ log `horizon`.

    It has no paper of its own: this is the variant that Gauthier, Gaudel, Fromont and Lompo compare with in Parametric
    Graph for Unimodal Ranking Bandit, ICML 2021, and the level of their code. With `horizon=None`, the level is that
    of KL-UCB, log t + 3 log log t (Garivier and Cappé 2011), which explores more.

    >>> from idbandits import models
    >>> KLCombUCB1(models.position_based(items=3, positions=2), horizon=1000)
    KLCombUCB1('position-based'; 0 rounds)
    """

    ACT, LEARN = CombUCB1.ACT, CombUCB1.LEARN

    def __init__(self, d: Diagram, seed: Any = None, *, horizon: int | None = 20_000) -> None:
        setting = 0.0 if horizon is None else math.log(check_whole("KLCombUCB1: horizon", horizon, 2, MOST_ROUNDS))
        super().__init__(d, seed, *_start("KLCombUCB1", d, setting, kl=True))


class Source(NamedTuple):
    """An observed node that earns something, and the decisions that its base arms are made of."""

    name: str
    place: int  # among the observed nodes
    parents: tuple[str, ...]
    table: tuple[Any, ...]  # nodes with equal ones share their base arms
    values: Floats  # what its states earn, scaled to [0, 1]
    weight: float  # what 1 of these is worth


def _start(who: str, d: Diagram, setting: float, kl: bool) -> tuple[Layout, State, Solver]:
    """The layout, the state before the first round, and the solver of a diagram in which base arms are learned."""
    decisions, _ = check_diagram(who, d)
    sources = list(_sources(who, d))
    if not sources:
        raise DiagramError(f"{who} has nothing to learn: no decision of diagram {d.name!r} changes the reward")
    flat = Diagram(d.name)
    for node in decisions:
        flat.decision(node.name, node.states if isinstance(node.values, range) else node.values)
    tables: dict[tuple[Any, ...], tuple[Learned, int]] = {}  # each with its first base arm
    arms, sizes = 0, [[d.nodes[p].states for p in source.parents] for source in sources]
    for source, own in zip(sources, sizes, strict=True):
        if source.table not in tables:
            tables[source.table] = Learned(f"{len(tables)}", rows=math.prod(own)), arms
            arms += math.prod(own)
            if arms > MOST_ARMS:
                many = f"with {source.name!r}, which depends on {', '.join(source.parents)}, there are {arms:,}"
                most = f"at most {MOST_ARMS:,} are allowed"
                raise DiagramError(f"{who} keeps a number for every base arm; {many}, and {most}")
        observed = flat.observed(source.name, source.parents, tables[source.table][0])
        flat.reward(observed, lambda v, weight=source.weight: weight * v)
    for group, excepted in d.constraints:
        flat.all_different(*group, except_=excepted)
    is_list = (  # of different items, and each node depends on one position
        all(len(source.parents) == 1 for source in sources)
        and all(node.values == decisions[0].values for node in decisions)
        and any(len(group) == len(decisions) and not excepted for group, excepted in d.constraints)
    )
    weights, places = [source.weight for source in sources], {n.name: k for k, n in enumerate(decisions)}
    layout = Layout(
        arms=arms, nodes=len(sources), kl=kl, items=decisions[0].states if is_list else 0,
        place=[source.place for source in sources], first_value=starts([source.values.tolist() for source in sources]),
        first_arm=[tables[source.table][1] for source in sources], axis_start=starts(sizes),
        decision=[places[p] for source in sources for p in source.parents],
        stride=[step for own in sizes for step in strides(own, 1)],
        values=np.concatenate([source.values for source in sources]), weight=np.array(weights), setting=setting,
        # an arm that was never tried outweighs all that were, unless its weight is next to nothing
        bonus=min(10.0 * math.fsum(weights) / min(weights), MOST_BONUS),
    )  # fmt: skip
    return layout, state_of(np.zeros(len(Arms._fields) * arms)), compile(flat).derived(Solver)


def _sources(who: str, d: Diagram) -> Iterator[Source]:
    """The observed nodes by which decisions change the reward."""
    earned: dict[str, Floats] = {}
    for term in d.rewards:
        if len(term.parents) > 1 or d.nodes[term.parents[0]].kind != "observed":
            several = ", ".join(f"{p!r} ({d.nodes[p].kind})" for p in term.parents)
            problem = f"a reward term of diagram {d.name!r} depends on {several}"
            raise DiagramError(f"{who} adds up what observed nodes earn, each by itself; {problem}")
        earned[term.parents[0]] = earned.get(term.parents[0], 0.0) + term.table
    for place, node in enumerate(d.of_kind("observed")):
        above, earns = decisions_above(d, node.name), earned.get(node.name, np.zeros(1))
        weight = float(earns.max() - earns.min())
        if not above or weight == 0.0:
            continue
        values = (earns - earns.min()) / weight
        parents = tuple(n.name for n in d.of_kind("decision") if n.name in above)
        table: tuple[Any, ...] = (node.name,)
        if above.issuperset(node.parents) and isinstance(node.cpd, Use) and node.cpd.rows is None:
            parents, table = node.parents, (node.cpd.name, *values.tolist())  # rows that decisions alone pick
        yield Source(node.name, place, parents, table, values, weight)
