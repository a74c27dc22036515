"""Report on a diagram: findings in plain words, with advice."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from idbandits.circuit.build import rows_of_use
from idbandits.circuit.eliminate import MOST_CELLS, plan_likelihood
from idbandits.circuit.model import Model, compile
from idbandits.diagram.diagram import Diagram
from idbandits.diagram.features.design import described
from idbandits.diagram.findings import Finding, Report
from idbandits.diagram.support import Factor, possible
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


class Examined(NamedTuple):
    """Results of the examination of a model."""

    reduced: Reduced
    info: Information
    unrevealed: Unrevealed | None
    exchanges: list[tuple[Exchange, float]]  # and the loss per round if states are exchanged


class Study:
    """Examination of a model, None if it was not possible, and the warnings that were given."""

    def __init__(self, model: Model) -> None:
        self.examined: Examined | None = None
        self.warned = self.warned_of_scales = False
        reduced = Reduced(model)
        self.why_not = f"means can move in {reduced.directions:,} directions, even with few choices"
        if reduced.model is not None:
            info = Information(reduced.model, SEED)
            self.why_not = "rounds have probabilities that are too small for floats"
            if not info.is_faint:
                hidden = unrevealed(info)
                losses = [(e, loss_by_exchange(info, e)) for e in exchanges(info)]
                self.examined = Examined(reduced, info, hidden, losses)


def relabellings(model: Model) -> list[list[Ints]]:
    """Return orders of the learned parameters that change neither prior nor likelihood: those of exchangeable states.

    Each list has the exchanges of the first two of several states, of the second and the third, and so on.
    """
    chains: list[list[Ints]] = []
    last: tuple[str, int] | None = None
    examined = model.derived(Study).examined
    for exchange, _ in examined.exchanges if examined else ():
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
    study = model.derived(Study)
    if study.examined is not None and not study.warned:
        study.warned = True
        for finding in _rewards(study.examined):
            if finding.serious:
                warnings.warn(f"diagram {model.name!r}: {finding}", DiagramWarning, stacklevel=stacklevel + 1)


def warn_of_scales(model: Model, stacklevel: int) -> None:
    """Warn of tables with features that are known only up to a factor, the first time."""
    study = model.derived(Study)
    if study.examined is None or study.warned_of_scales or not any(t.features for t in model.learned.values()):
        return
    study.warned_of_scales = True
    study.examined.info.settle()
    for finding in _combinations(study.examined):
        featured = [name for name in finding.names if model.learned[name].features is not None]
        if finding.kind == "factor" and featured:
            what = f"the regression of {_list(featured)} may confirm a wrong scale; inference 'gibbs' moves it"
            text = f"diagram {model.name!r}: {finding.sentence} With features, {what}. {finding.advice}"
            warnings.warn(text, DiagramWarning, stacklevel=stacklevel + 1)


def check(d: Diagram) -> Report:
    """Return the report of `Diagram.check`."""
    try:
        model = compile(d)
        study = model.derived(Study)
    except (ComplexityError, InfeasibleError) as error:
        advice = "Fewer parents or fewer states per node make it smaller." if isinstance(error, ComplexityError) else ""
        text = str(error)
        return Report(d.name, (Finding("size", True, (d.name,), f"{text[:1].upper()}{text[1:]}.", advice),))
    examined, findings = study.examined, list[Finding]()
    if examined is None:
        findings.append(Finding("not examined", False, (), f"What can be learned was not examined: {study.why_not}."))
    else:
        findings += _rewards(examined)
        examined.info.settle()
        findings += [*_combinations(examined), *_unseen(examined), *_symmetries(examined)]
    return Report(d.name, (*findings, *_unread(model), _sizes(model), *_searches(model)))


def _rewards(x: Examined) -> Iterator[Finding]:
    """Find rewards that depend on what nothing observed reveals."""
    if x.unrevealed is not None:
        rows, terms, loss = x.unrevealed
        nodes = _nodes_of(x, terms)
        names = (*nodes, *dict.fromkeys(row.table for row in rows))
        depends = f"The reward of {_list(nodes)} depends on {_named(x, rows)} in a way that nothing observed reveals"
        if loss:
            alike = "worlds that look alike have different best actions, and regret may stay linear"
            lost = f"(the best action of one was seen to lose {loss:.2g} per round in another)"
            advice = "Reward what is seen, observe more, or make these rows known or shared with rows that are seen."
            yield Finding("reward", True, names, f"{depends}: {alike} {lost}.", advice)
        else:
            same = "no best action was seen to change with it, so regret should not suffer"
            yield Finding("reward", False, names, f"{depends}; {same}.", "Expected rewards are not learned.")
    for exchange, loss in x.exchanges:
        if loss:
            moved = exchange.order != np.arange(len(exchange.order))
            rows = [row for row in x.info.rows if moved[row.first : row.first + row.states].any()]
            nodes = _nodes_of(x, terms_below(x.info.model.diagram, rows))
            which = f"The reward of {_list(nodes)} depends on which state of {_list(exchange.nodes)} is which"
            alike = f"prior and observations are the same if states {_states(x, exchange)} change places"
            lost = f"regret may stay linear (a best action was seen to lose {loss:.2g} per round)"
            advice = "Give a prior that tells the states apart, observe more, or reward what is seen."
            yield Finding("reward", True, (*nodes, *exchange.nodes), f"{which}, but {alike}: {lost}.", advice)


def _combinations(x: Examined) -> Iterator[Finding]:
    """Find groups of rows that share free directions."""
    rows, free = x.info.rows, x.info.point.free
    hidden = free.T @ free
    blocks = np.zeros((len(rows), len(rows)))
    np.maximum.at(blocks, (x.info.row_of[:, np.newaxis], x.info.row_of), np.abs(hidden))
    seen, linked = ~x.info.unseen, blocks > CLEAR
    combined = linked.any(axis=1) & seen
    linked &= seen & seen[:, np.newaxis]
    label = np.arange(len(rows))  # the lowest row of each group
    while ((spread := np.where(linked, label, label[:, np.newaxis]).min(axis=1, initial=len(rows))) < label).any():
        label = spread
    groups: dict[tuple[str, ...], list[list[int]]] = {}  # by their tables
    for first in np.unique(label[combined]):
        group = np.flatnonzero(combined & (label == first)).tolist()
        tables = {rows[i].table for i in group}
        groups.setdefault(tuple(t for t in x.info.model.learned if t in tables), []).append(group)
    for names, members in groups.items():
        yield _combination(x, names, members, hidden)


def _combination(x: Examined, tables: tuple[str, ...], groups: Sequence[Sequence[int]], hidden: Floats) -> Finding:
    """Describe groups of rows of the same tables, where the rows of each group share free directions."""
    together = sorted(i for group in groups for i in group)
    rows = [x.info.rows[i] for i in together]
    places = np.flatnonzero(np.isin(x.info.row_of, together))
    number = round(float(np.trace(hidden[np.ix_(places, places)])))
    if x.unrevealed is None:
        fine = "The reward depends on what is known of them only, so Thompson sampling is not harmed"
    else:
        fine = "The reward depends on more than that (see there)"
    anchor = _named(x, [min(rows, key=lambda row: sum(other.table == row.table for other in rows))])
    apart = "To learn them apart, make a row known (fixed=)"
    if number == len(groups) and len(tables) > 1 and all(_is_factor(x.info, group, hidden) for group in groups):
        products = "observations depend on products of their entries"
        what = f"The tables {_list(tables)} are known only up to a factor: {products}"
        return Finding("factor", False, tables, f"{what}. {fine}.", f"{apart}, for example {anchor}.")
    ways = "one direction" if number == 1 else f"{number} directions"
    how = "together" if len(rows) > len(groups) else "in part"
    what = f"Of {_named(x, rows)}, not all can be learned, only {how}: they can move in {ways} unnoticed"
    return Finding("combination", False, tables, f"{what}. {fine}.", f"{apart}, or observe more.")


def _is_factor(info: Information, group: Sequence[int], hidden: Floats) -> bool:
    """Return whether the free direction of some rows multiplies one state of each table alike in all its rows."""
    place = int(np.flatnonzero(info.row_of == group[0])[0])
    learned = info.model.parameters.learned_size
    relative = info.entries(hidden[place])[:learned] / info.point.means[:learned]
    for table in {info.rows[i].table for i in group}:
        rows = [info.rows[i] for i in group if info.rows[i].table == table]
        changes = np.array([relative[row.first : row.first + row.states] for row in rows])
        spread = np.ptp(changes, axis=0) / np.abs(changes).max()
        if not ((spread < CLEAR) & (np.abs(changes).max(axis=0) > CLEAR)).any():
            return False
    return True


def _unseen(x: Examined) -> Iterator[Finding]:
    """Find rows that may be read, but that nothing observed depends on."""
    unseen = (row for row, unseen in zip(x.info.rows, x.info.unseen, strict=True) if unseen)
    rows = [row for row in unseen if _may_be_read(x.info.model, row)]
    if rows:
        tables = tuple(dict.fromkeys(row.table for row in rows))
        what = f"Nothing observed depends on {_named(x, rows)}: what is believed of it stays as the prior says."
        advice = "Observe something below it, make it known, or share it with a row that is seen."
        yield Finding("unseen", False, tables, what, advice)


def _may_be_read(model: Model, row: Row) -> bool:
    """Return whether the parents of some node can have values for which it reads a row."""
    d, feasibility, decisions = model.diagram, model.feasibility, model.decisions
    items = [np.asarray(own) for own in feasibility.items or [list(range(node.states)) for node in decisions]]
    differing = [
        Factor((decisions[a].name, decisions[b].name), np.not_equal.outer(items[a], items[b]))
        for a, b in np.argwhere(np.triu(feasibility.conflicts)).tolist()
    ]
    for node, _ in model.readers(row.table):
        reads = rows_of_use(d, node) == row.number
        if reads.any() and (possible(d.nodes, node.parents, differing) & reads).any():
            return True
    return False


def _unread(model: Model) -> Iterator[Finding]:
    """Find rows that no node selects."""
    for name, table in model.learned.items():
        uses = [use for _, use in model.readers(name)]
        if table.declared.rows is not None and all(use.rows is not None for use in uses):
            read = np.concatenate([np.ravel(np.asarray(use.rows)) for use in uses])
            left = [f"{name}[{r}]" for r in np.setdiff1d(np.arange(table.shape[0]), read).tolist()]
            if left:
                yield Finding("unseen", False, (name,), f"No node reads {_list(left)}.", "Declare fewer rows.")


def _symmetries(x: Examined) -> Iterator[Finding]:
    """Find latent states that are exchangeable."""
    by_nodes: dict[tuple[str, ...], list[str]] = {}
    for exchange, _ in x.exchanges:
        by_nodes.setdefault(exchange.nodes, []).append(_states(x, exchange))
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


def _sizes(model: Model) -> Finding:
    """Describe the sizes of circuits and tables."""
    plan, _ = plan_likelihood(model.diagram, True)
    rows = sum(table.size // table.states - len(table.fixed) for table in model.learned.values())
    edges = len(model.likelihood.circuit.child)
    circuits = f"the likelihood has {edges:,} edges in {model.likelihood.circuit.inner:,} nodes"
    if model.diagram.rewards:
        c = model.rewards.circuit
        circuits += f", the reward {len(c.child):,} in {c.inner:,}"
        edges = max(edges, len(c.child))
    widest = f", at most over {_list(sorted(plan.widest))}" if plan.widest else ""
    tables = model.learned.items()
    regressions = [f"{n}: {described(t.features)}" for n, t in tables if t.features is not None and not t.logistic]
    regressions += [f"{n}: {len(t.logistic.names)} coefficients" for n, t in tables if t.logistic]
    learned = _plural(rows, "learned row") + (f" ({', '.join(regressions)})" if regressions else "")
    elimination = f"the elimination had {plan.cells:,} cells{widest}"
    what = f"{_plural(len(model.decisions), 'decision')}, {learned}; {circuits}; {elimination}."
    slow = []
    if edges > LARGE_CIRCUIT:
        slow.append("The circuit is large, and every round goes through it: fewer states or parents make it smaller.")
    if plan.cells > MOST_CELLS / 4:
        slow.append(f"It is near the limit of {MOST_CELLS:,} cells, beyond which diagrams are not compiled.")
    if rows > LARGE_ROWS:
        slow.append("Means of all learned rows are drawn for every action, which takes long.")
    return Finding("size", False, (), what, " ".join(slow))


def _searches(model: Model) -> Iterator[Finding]:
    """Describe how often the best action is proven under random means."""
    if not (model.diagram.rewards and model.decisions):
        return
    rng, solver, proven = np.random.default_rng(SEED), model.derived(Solver), 0
    for _ in range(SEARCHES):
        rows = (rng.dirichlet(np.ones(t.states), t.size // t.states).ravel() for t in model.learned.values())
        means = np.concatenate([np.empty(0), *rows])
        action = solver.blank_action(None, check=False)
        for axis, node in enumerate(model.contexts, len(model.decisions)):
            action[axis] = rng.integers(node.states)
        value, bound, _ = solver.kernel.entry(*solver.program, means, True, action, EVERY_CHOICE, BUDGET)
        proven += value == bound
    what = f"Under random means, {proven} of {SEARCHES} best actions were proven to be the best."
    advice = "The others are the best that was found in the time allowed; more effort may prove them."
    yield Finding("search", False, (), what, "" if proven == SEARCHES else advice)


def _nodes_of(x: Examined, terms: Sequence[int]) -> tuple[str, ...]:
    """Return the chance nodes of some terms of the reward."""
    d = x.reduced.full.diagram
    names = dict.fromkeys(name for i in terms for name in d.rewards[i].parents)
    return tuple(name for name in names if d.nodes[name].is_chance)


def _states(x: Examined, exchange: Exchange) -> str:
    node = x.reduced.full.nodes[exchange.nodes[0]]
    return " and ".join(repr(node.values[s]) for s in exchange.states)


def _named(x: Examined, rows: Sequence[Row]) -> str:
    """Name rows by their places in the diagram, or all rows of a table by its name."""
    parts = []
    for table in dict.fromkeys(row.table for row in rows):
        selected = [row for row in rows if row.table == table]
        if len(selected) == sum(row.table == table for row in x.info.rows):
            parts.append(table)
            continue
        parts += [f"{table}{_place(x, row)}" for row in selected[:SHOWN]]
        if len(selected) > SHOWN:
            parts.append(f"{len(selected) - SHOWN} more rows of {table}")
    return _list(parts)


def _place(x: Examined, row: Row) -> str:
    """Describe the place of a row: values of parents if the table has an axis for each of them, else numbers."""
    model, place = x.reduced.full, x.reduced.row(row.table, row.number)
    for node, use in model.readers(row.table):
        if use.rows is None and len(node.parents) == len(place):
            return f"[{', '.join(repr(model.nodes[p].values[i]) for p, i in zip(node.parents, place, strict=True))}]"
    return f"[{', '.join(map(str, place))}]"


def _list(names: Sequence[str]) -> str:
    shown = [*names[:SHOWN], f"{len(names) - SHOWN} more"] if len(names) > SHOWN + 1 else list(names)
    return " and ".join(filter(None, [", ".join(shown[:-1]), *shown[-1:]]))


def _plural(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"
