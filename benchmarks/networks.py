"""Posteriors of the hidden nodes of public Bayesian networks, beside pyAgrum and pgmpy."""

from __future__ import annotations

import gzip
import math
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from importlib.resources import files
from statistics import median
from typing import Any, final

import numpy as np
import numpy.typing as npt

import idbandits as idb
from benchmarks.pyagrum_peer import gum, network
from benchmarks.report import DisagreementError, Row, Topic, duration, ratio
from benchmarks.timing import timed
from idbandits.diagram.tables import Known
from idbandits.errors import ComplexityError

with warnings.catch_warnings():  # pgmpy warns about its own modules
    warnings.filterwarnings("ignore", "`pgmpy", FutureWarning)
    from pgmpy.inference import VariableElimination
    from pgmpy.readwrite import BIFReader

Posteriors = Mapping[str, npt.NDArray[np.float64]]
Seen = Mapping[str, str]
Ask = Callable[[Seen], Posteriors]
CLOSE = 1e-9
BLOCK = 5  # observations that each library answers in a row
HIDDEN = {"asia": {"tub", "lung", "bronc", "either"}}  # in other networks: all nodes that have children
NAMES = (
    *("asia", "cancer", "earthquake", "survey", "sachs", "child", "insurance", "alarm"),
    *("hailfinder", "hepar2", "win95pts", "water"),
)


@final
@dataclass(frozen=True)
class Case:
    """A network, as a diagram and as pgmpy's model."""

    name: str
    diagram: idb.Diagram
    pgmpy: Any

    @property
    def hidden(self) -> list[str]:
        """The nodes to ask about."""
        return [n.name for n in self.diagram.of_kind("latent")]


def read(name: str) -> Case:
    """A network from a file that pgmpy ships; rows that were rounded there are scaled to sum to 1."""
    packed = files("pgmpy").joinpath("utils", "example_models", f"{name}.bif.gz").read_bytes()
    model = BIFReader(string=gzip.decompress(packed).decode()).get_model()
    d = idb.Diagram(name)
    waiting = {cpd.variable: cpd for cpd in model.get_cpds()}
    hidden = HIDDEN.get(name, {parent for cpd in waiting.values() for parent in cpd.variables[1:]})
    while waiting:
        for node, cpd in list(waiting.items()):
            if not any(parent in waiting for parent in cpd.variables[1:]):
                cpd.normalize()
                table = np.moveaxis(cpd.values, 0, -1)
                declare = d.latent if node in hidden else d.observed
                known = table[..., 1] if table.shape[-1] == 2 else table
                declare(node, cpd.variables[1:], known, states=cpd.state_names[node])
                del waiting[node]
    return Case(name, d, model)


def observations(case: Case, number: int) -> list[Seen]:
    """Observations drawn from the network itself."""
    rng = np.random.default_rng(0)
    drawn: list[Seen] = []
    for _ in range(number):
        states: dict[str, int] = {}
        for node in case.diagram.nodes.values():
            assert isinstance(node.cpd, Known)
            table = node.cpd.table
            states[node.name] = int(rng.choice(node.states, p=table[tuple(states[p] for p in node.parents)]))
        drawn.append({n.name: str(n.values[states[n.name]]) for n in case.diagram.of_kind("observed")})
    return drawn


def _rows(quick: bool) -> Iterator[Row]:
    for name in NAMES:
        yield _row(read(name), blocks=1 if quick else 4)


def _row(case: Case, blocks: int) -> Row:
    libraries = {"pyAgrum": _pyagrum(case), "pgmpy": _pgmpy(case)}
    refused = False
    try:
        nodes, compiling = timed(_compile, case.diagram)
        if compiling < 1:
            compiling = median(timed(_compile, case.diagram.copy())[1] for _ in range(5))
        libraries["idbandits"] = partial(_ours, case)
    except ComplexityError:
        refused = True
    times: dict[str, list[float]] = {library: [] for library in libraries}
    far = 0.0
    seen = observations(case, blocks * BLOCK)
    for ask in libraries.values():
        ask(seen[0])  # preparations at the first question are not timed
    for block in range(0, len(seen), BLOCK):  # in turns, but in blocks: caches stay warm
        answers = {}
        for library, ask in libraries.items():
            timings = [timed(ask, observation) for observation in seen[block : block + BLOCK]]
            times[library] += [seconds for _, seconds in timings]
            answers[library] = np.array([np.concatenate([answer[h] for h in case.hidden]) for answer, _ in timings])
        far = max(far, *(float(np.abs(answer - answers["pyAgrum"]).max()) for answer in answers.values()))
    if not far < CLOSE:
        raise DisagreementError(f"network {case.name}: posteriors differ by {far}")
    took = {library: median(seconds) for library, seconds in times.items()}
    mine = ["refused", "–", "–"] if refused else [f"{nodes:,}", duration(compiling), duration(took["idbandits"])]
    theirs = [
        text
        for peer in ("pyAgrum", "pgmpy")
        for text in (duration(took[peer]), "–" if refused else ratio(took[peer] / took["idbandits"]))
    ]
    sizes = [case.name, str(len(case.diagram.nodes)), str(len(case.hidden))]
    return Row([*sizes, *mine, *theirs, f"{far:.0e}"])


def _compile(d: idb.Diagram) -> int:
    """Compile the circuit that includes all nodes, and count its nodes."""
    return idb.compile(d).revealed.circuit.inner


def _ours(case: Case, seen: Seen) -> Posteriors:
    return idb.posterior_of_latents(case.diagram, {}, seen, {})


def _pyagrum(case: Case) -> Ask:
    """One junction tree for all questions, asked for exactly the hidden nodes."""
    net = network(case.diagram, {}, {})
    inference = gum.LazyPropagation(net)
    inference.setTargets(set(case.hidden))
    places = {n.name: {value: i for i, value in enumerate(n.values)} for n in case.diagram.of_kind("observed")}

    def ask(seen: Seen) -> Posteriors:
        inference.setEvidence({name: places[name][value] for name, value in seen.items()})
        inference.makeInference()
        return {name: inference.posterior(name).toarray() for name in case.hidden}

    return ask


def _pgmpy(case: Case) -> Ask:
    """Asked for all hidden nodes together if their joint table is small, which is faster; else one by one."""
    inference = VariableElimination(case.pgmpy)
    joint = math.prod(case.diagram.nodes[h].states for h in case.hidden)
    groups = [case.hidden] if joint <= 1_000 else [[h] for h in case.hidden]

    def ask(seen: Seen) -> Posteriors:
        posteriors: dict[str, npt.NDArray[np.float64]] = {}
        for group in groups:
            answer = inference.query(group, evidence=seen, joint=False, show_progress=False)
            posteriors |= {name: answer[name].values for name in group}
        return posteriors

    return ask


TOPIC = Topic(
    "What the hidden nodes were, on public networks",
    "The networks that pgmpy ships, all tables known. Hidden: in Asia the diseases (tuberculosis, cancer, "
    "bronchitis, tuberculosis or cancer), elsewhere every node that has children; all other nodes are seen, in "
    "states drawn from the network. A question is what one observation says about every hidden node. *Nodes*, "
    "*compile*: of our circuit, made once and no part of the questions; *refused*: too entangled for a circuit, and "
    "said so. pyAgrum: LazyPropagation, kept between questions; pgmpy: VariableElimination. *Ratio*: how many times "
    "as fast idbandits is. *Difference*: the largest between entries of the libraries' posteriors (bar: 1e-9, all "
    "met).",
    ["network", "all", "hidden", "nodes", "compile", "idbandits", "pyAgrum", "ratio", "pgmpy", "ratio", "difference"],
    _rows,
)
