"""The report on a diagram: what was found, in plain words, with what to do."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence

import numpy as np

from idbandits.circuit.build import rows_of_use
from idbandits.circuit.eliminate import MOST_CELLS, plan_likelihood
from idbandits.circuit.model import Model, compile
from idbandits.diagram.diagram import Diagram
from idbandits.diagram.features.design import described
from idbandits.diagram.findings import Finding, Report
from idbandits.diagram.support import Factor, possible
from idbandits.diagram.tables import Use
from idbandits.errors import ComplexityError, DiagramWarning, InfeasibleError
from idbandits.identifiability.exchangeable_states import Exchange, exchanges, order_of
from idbandits.identifiability.hidden_rewards import Unrevealed, loss_by_exchange, terms_below, unrevealed
from idbandits.identifiability.information import CLEAR, Information
from idbandits.identifiability.reduce_choices import Reduced
from idbandits.identifiability.sample_rounds import Row
from idbandits.kernel.array_types import Floats, Ints
from idbandits.solve.eligible import EVERY_CHOICE
from idbandits.solve.solver import BUDGET, Solver

SEED = 20210
SEARCHES = 10  # under random means, to see whether best actions are proven
LARGE_CIRCUIT = 20_000  # edges: a pass takes longer than 20 µs
LARGE_ROWS = 1_000_000  # learned rows: a draw of their means takes longer than 10 ms
SHOWN = 4  # rows that are named one by one


class Study:
    """All that is found out about a model, each at the first question."""

    def __init__(self, model: Model) -> None:
        self.reduced = Reduced(model)
        self.info = Information(self.reduced.model, SEED) if self.reduced.model is not None else None
        self.why_not = f"means can move in {self.reduced.directions:,} directions, even with few choices"
        if self.info is not None and self.info.is_faint:
            self.info, self.why_not = None, "rounds have probabilities that are too small for floats"
        self.unrevealed: Unrevealed | None = None
        self.exchanges: list[tuple[Exchange, float]] = []
        if self.info is not None:
            self.unrevealed = unrevealed(self.info)
            self.exchanges = [(e, loss_by_exchange(self.info, e)) for e in exchanges(self.info)]
        self.is_told = self.scales_are_told = False


def study(model: Model) -> Study:
    """What was found out about a model; `model.derived(study)` does it once."""
    return Study(model)


def relabellings(model: Model) -> list[list[Ints]]:
    """Orders of the learned parameters that change neither prior nor likelihood: those of interchangeable states.

    A list has the exchanges of the first two of several states, of the second and the third, and so on.
    """
    chains: list[list[Ints]] = []
    last: tuple[str, int] | None = None
    for exchange, _ in model.derived(study).exchanges:
        order = order_of(model, exchange)
        if order is None:
            continue
        if last != (exchange.nodes[0], exchange.states[0]):
            chains.append([])
        chains[-1].append(order)
        last = exchange.nodes[0], exchange.states[1]
    return chains


def warn_once(model: Model, stacklevel: int) -> None:
    """Warn of the serious findings on a model, the first time."""
    known = model.derived(study)
    if not known.is_told:
        known.is_told = True
        for finding in _rewards(model, known):
            if finding.serious:
                warnings.warn(f"diagram {model.name!r}: {finding}", DiagramWarning, stacklevel=stacklevel + 1)


def warn_of_scales(model: Model, stacklevel: int) -> None:
    """Warn of tables with features that are known only up to a factor, the first time."""
    known = model.derived(study)
    if known.info is None or known.scales_are_told or not any(t.features for t in model.learned.values()):
        return
    known.scales_are_told = True
    known.info.settle()
    for finding in _combinations(known):
        featured = [name for name in finding.names if model.learned[name].features is not None]
        if finding.kind == "factor" and featured:
            what = f"the regression of {_list(featured)} may confirm a wrong scale; inference 'gibbs' moves it"
            text = f"diagram {model.name!r}: {finding.sentence} With features, {what}. {finding.advice}"
            warnings.warn(text, DiagramWarning, stacklevel=stacklevel + 1)


def check(d: Diagram) -> Report:
    """What `Diagram.check` reports."""
    try:
        model = compile(d)
        known = model.derived(study)
    except (ComplexityError, InfeasibleError) as error:
        advice = "Fewer parents or fewer states per node make it smaller." if isinstance(error, ComplexityError) else ""
        return Report(d.name, (Finding("size", True, (d.name,), f"{_sentence(str(error))}.", advice),))
    findings = [*_rewards(model, known)]
    if known.info is not None:
        known.info.settle()
        findings += [*_combinations(known), *_unseen(known), *_symmetries(known)]
    else:
        findings.append(Finding("not examined", False, (), f"What can be learned was not examined: {known.why_not}."))
    return Report(d.name, (*findings, *_unread(model), *_sizes(model), *_searches(model, known)))


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]


def _rewards(model: Model, known: Study) -> Iterable[Finding]:
    if known.unrevealed is not None:
        rows, own, loss = known.unrevealed
        nodes = _nodes_of(known, own)
        names = (*nodes, *dict.fromkeys(row.table for row in rows))
        depends = (
            f"the reward of {_list(nodes)} depends on {_named(known, rows)} in a way that nothing observed reveals"
        )
        if loss:
            alike = "worlds that look alike have different best actions, and regret may stay linear"
            lost = f"(the best action of one was seen to lose {loss:.2g} per round in another)"
            advice = "Reward what is seen, observe more, or make these rows known or shared with rows that are seen."
            yield Finding("reward", True, names, f"{_sentence(depends)}: {alike} {lost}.", advice)
        else:
            same = "no best action was seen to change with it, so regret should not suffer"
            yield Finding("reward", False, names, f"{_sentence(depends)}; {same}.", "Expected rewards are not learned.")
    for exchange, loss in known.exchanges:
        if loss:
            assert known.info is not None
            terms = _nodes_of(known, terms_below(known.info.model.diagram, _moved(known, exchange)))
            which = f"the reward of {_list(terms)} depends on which state of {_list(exchange.nodes)} is which"
            alike = f"prior and observations are the same if states {_states(known, exchange)} change places"
            lost = f"regret may stay linear (a best action was seen to lose {loss:.2g} per round)"
            advice = "Give a prior that tells the states apart, observe more, or reward what is seen."
            names = (*terms, *exchange.nodes)
            yield Finding("reward", True, names, f"{_sentence(which)}, but {alike}: {lost}.", advice)


def _combinations(known: Study) -> Iterable[Finding]:
    """Rows that share free directions."""
    info = known.info
    assert info is not None
    free, unseen = info.point.free, info.unseen
    hidden = free.T @ free
    blocks = np.zeros((len(info.rows), len(info.rows)))
    np.maximum.at(blocks, (info.row_of[:, np.newaxis], info.row_of), np.abs(hidden))
    together = blocks > CLEAR
    left = set(np.flatnonzero(together.any(axis=1) & ~unseen).tolist())
    groups: dict[tuple[str, ...], list[list[int]]] = {}  # by their tables
    while left:
        group, waiting = set[int](), [min(left)]
        while waiting:
            i = waiting.pop()
            if i in left:
                left.discard(i)
                group.add(i)
                waiting += np.flatnonzero(together[i]).tolist()
        groups.setdefault(
            tuple(t for t in info.model.learned if any(info.rows[i].table == t for i in group)), []
        ).append(sorted(group))
    for tables, members in groups.items():
        yield _combination(known, tables, members, hidden)


def _combination(known: Study, tables: tuple[str, ...], groups: Sequence[Sequence[int]], hidden: Floats) -> Finding:
    """Groups of rows of the same tables; the rows of each group share free directions."""
    info = known.info
    assert info is not None
    together = [i for group in groups for i in group]
    rows = [info.rows[i] for i in sorted(together)]
    places = np.flatnonzero(np.isin(info.row_of, together))
    number = round(float(np.trace(hidden[np.ix_(places, places)])))
    if known.unrevealed is None:
        fine = "The reward depends on what is known of them only, so Thompson sampling is not harmed"
    else:
        fine = "The reward depends on more than that (see there)"
    anchor = _named(known, [min(rows, key=lambda row: sum(other.table == row.table for other in rows))])
    apart = "To learn them apart, make a row known (fixed=)"
    if number == len(groups) and len(tables) > 1 and all(_is_factor(known, group, hidden) for group in groups):
        products = "observations depend on products of their entries"
        what = f"The tables {_list(tables)} are known only up to a factor: {products}"
        return Finding("factor", False, tables, f"{what}. {fine}.", f"{apart}, for example {anchor}.")
    ways = "one direction" if number == 1 else f"{number} directions"
    how = "together" if len(rows) > len(groups) else "in part"
    what = f"Of {_named(known, rows)}, not all can be learned, only {how}: they can move in {ways} unnoticed"
    return Finding("combination", False, tables, f"{what}. {fine}.", f"{apart}, or observe more.")


def _is_factor(known: Study, group: Sequence[int], hidden: Floats) -> bool:
    """Whether the only free direction of some rows multiplies one state of each table by the same for all its rows."""
    info = known.info
    assert info is not None
    place = int(np.flatnonzero(info.row_of == group[0])[0])
    learned = info.model.parameters.learned_size
    relative = info.entries(hidden[place])[:learned] / info.point.means[:learned]
    for table in {info.rows[i].table for i in group}:
        own = [info.rows[i] for i in group if info.rows[i].table == table]
        changes = np.array([relative[row.first : row.first + row.states] for row in own])
        spread = np.ptp(changes, axis=0) / np.abs(changes).max()
        if not ((spread < CLEAR) & (np.abs(changes).max(axis=0) > CLEAR)).any():
            return False
    return True


def _unseen(known: Study) -> Iterable[Finding]:
    """Rows that may be read, but that nothing observed depends on."""
    info = known.info
    assert info is not None
    rows = [row for row, unseen in zip(info.rows, info.unseen, strict=True) if unseen and _may_be_read(info.model, row)]
    if rows:
        tables = tuple(dict.fromkeys(row.table for row in rows))
        what = f"Nothing observed depends on {_named(known, rows)}: what is believed of it stays as the prior says."
        advice = "Observe something below it, make it known, or share it with a row that is seen."
        yield Finding("unseen", False, tables, what, advice)


def _may_be_read(model: Model, row: Row) -> bool:
    """Whether a node may have parents under which it reads a row."""
    d, feasibility = model.diagram, model.feasibility
    differing = []
    for a, b in zip(*np.nonzero(np.triu(feasibility.conflicts)), strict=True):
        first, second = model.decisions[int(a)], model.decisions[int(b)]
        ids = feasibility.items or [list(range(node.states)) for node in model.decisions]
        table = np.not_equal.outer(np.asarray(ids[int(a)]), np.asarray(ids[int(b)]))
        differing.append(Factor((first.name, second.name), table))
    for node in d.nodes.values():
        if isinstance(node.cpd, Use) and node.cpd.name == row.table:
            reads = rows_of_use(d, node) == row.number
            if reads.any() and (possible(d.nodes, node.parents, differing) & reads).any():
                return True
    return False


def _unread(model: Model) -> Iterable[Finding]:
    """Rows that no node picks."""
    for name, table in model.learned.items():
        uses = [n.cpd for n in model.nodes.values() if isinstance(n.cpd, Use) and n.cpd.name == name]
        if table.declared.rows is not None and all(use.rows is not None for use in uses):
            left = sorted(
                set(range(table.shape[0])) - {int(r) for use in uses for r in np.unique(np.asarray(use.rows))}
            )
            if left:
                shown = _list(
                    [f"{name}[{r}]" for r in left[:SHOWN]] + ([f"{len(left) - SHOWN} more"] * (len(left) > SHOWN))
                )
                yield Finding("unseen", False, (name,), f"No node reads {shown}.", "Declare fewer rows.")


def _symmetries(known: Study) -> Iterable[Finding]:
    """Latent states that can be exchanged, without harm to the reward."""
    by_nodes: dict[tuple[str, ...], list[str]] = {}
    for exchange, _ in known.exchanges:
        by_nodes.setdefault(exchange.nodes, []).append(_states(known, exchange))
    for nodes, states in by_nodes.items():
        what = (
            f"States {_list(states)} of {_list(nodes)} are interchangeable: if they change places, with the rows that "
            "read them, prior and observations are the same, so which is which is arbitrary."
        )
        advice = (
            "Inferences that start from a belief break the tie at random. A prior that differs between the rows of "
            "these states gives them their names."
        )
        yield Finding("symmetry", False, nodes, what, advice)


def _states(known: Study, exchange: Exchange) -> str:
    node = known.reduced.whole.nodes[exchange.nodes[0]]
    return " and ".join(repr(node.values[s]) for s in exchange.states)


def _sizes(model: Model) -> Iterable[Finding]:
    plan, _ = plan_likelihood(model.diagram, True)
    rows = sum(table.size // table.states - len(table.fixed) for table in model.learned.values())
    edges = len(model.likelihood.circuit.child)
    circuits = f"the likelihood has {edges:,} edges in {model.likelihood.circuit.inner:,} nodes"
    if model.diagram.rewards:
        inner, above = model.rewards.circuit.inner, len(model.rewards.circuit.child)
        circuits += f", the reward {above:,} in {inner:,}"
        edges = max(edges, above)
    widest = f"the elimination had {plan.cells:,} cells" + (
        f", at most over {_list(sorted(plan.widest))}" if plan.widest else ""
    )
    regressions = [
        f"{n}: {described(t.features)}" for n, t in model.learned.items() if t.features is not None and not t.logistic
    ]
    regressions += [f"{n}: {len(t.logistic.names)} coefficients" for n, t in model.learned.items() if t.logistic]
    learned = _plural(rows, "learned row") + (f" ({', '.join(regressions)})" if regressions else "")
    what = f"{_plural(len(model.decisions), 'decision')}, {learned}; {circuits}; {widest}."
    slow = []
    if edges > LARGE_CIRCUIT:
        slow.append("The circuit is large, and every round goes through it: fewer states or parents make it smaller.")
    if plan.cells > MOST_CELLS / 4:
        slow.append(f"It is near the limit of {MOST_CELLS:,} cells, beyond which diagrams are not compiled.")
    if rows > LARGE_ROWS:
        slow.append("Means of all learned rows are drawn for every action, which takes long for so many.")
    yield Finding("size", False, (), what, " ".join(slow))


def _searches(model: Model, known: Study) -> Iterable[Finding]:
    if not (model.diagram.rewards and model.decisions):
        return
    rng = np.random.default_rng(SEED)
    solver, proven = model.derived(Solver), 0
    for _ in range(SEARCHES):
        means = np.concatenate(
            [
                np.empty(0),
                *(rng.dirichlet(np.ones(t.states), t.size // t.states).ravel() for t in model.learned.values()),
            ]
        )
        action = solver.blank_action(None, check=False)
        for axis, node in enumerate(model.contexts, len(model.decisions)):
            action[axis] = rng.integers(node.states)
        value, bound, _ = solver.kernel.entry(*solver.program, means, True, action, EVERY_CHOICE, BUDGET)
        proven += value == bound
    what = f"Under random means, {proven} of {SEARCHES} best actions were proven to be the best."
    advice = "The others are the best that was found in the time allowed; more effort may prove them."
    yield Finding("search", False, (), what, "" if proven == SEARCHES else advice)


def _moved(known: Study, exchange: Exchange) -> list[Row]:
    assert known.info is not None
    moved = exchange.order != np.arange(len(exchange.order))
    return [row for row in known.info.rows if moved[row.first : row.first + row.states].any()]


def _nodes_of(known: Study, terms: Sequence[int]) -> tuple[str, ...]:
    """The random nodes of some terms of the reward."""
    d = known.reduced.whole.diagram
    names = dict.fromkeys(name for i in terms for name in d.rewards[i].parents)
    return tuple(name for name in names if d.nodes[name].is_chance)


def _named(known: Study, rows: Sequence[Row]) -> str:
    """Rows by their places in the diagram, or whole tables by their names."""
    assert known.info is not None
    parts = []
    for table in dict.fromkeys(row.table for row in rows):
        own = [row for row in rows if row.table == table]
        every = [row for row in known.info.rows if row.table == table]
        if len(own) == len(every):
            parts.append(table)
            continue
        parts += [f"{table}{_place(known, row)}" for row in own[:SHOWN]]
        if len(own) > SHOWN:
            parts.append(f"{len(own) - SHOWN} more rows of {table}")
    return _list(parts)


def _place(known: Study, row: Row) -> str:
    """The place of a row in its table: values of parents where the table has an axis for each, else numbers."""
    d = known.reduced.whole.diagram
    place = known.reduced.row(row.table, row.number)
    readers = (n for n in d.nodes.values() if isinstance(n.cpd, Use) and n.cpd.name == row.table)
    reader = next((n for n in readers if n.cpd.rows is None and len(n.parents) == len(place)), None)  # type: ignore[union-attr]
    if reader is None:
        return f"[{', '.join(map(str, place))}]"
    return f"[{', '.join(repr(d.nodes[p].values[i]) for p, i in zip(reader.parents, place, strict=True))}]"


def _list(names: Sequence[str]) -> str:
    shown = [*names[:SHOWN], f"{len(names) - SHOWN} more"] if len(names) > SHOWN + 1 else list(names)
    return " and ".join(filter(None, [", ".join(shown[:-1]), *shown[-1:]]))


def _plural(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"
