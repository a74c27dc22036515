"""Posteriors of hidden nodes of public Bayesian networks, compared with pyAgrum and pgmpy."""

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
BLOCK = 5  # consecutive queries of one library
HIDDEN = {"asia": {"tub", "lung", "bronc", "either"}}  # in other networks: all nodes with children
NAMES = (
    *("asia", "cancer", "earthquake", "survey", "sachs", "child", "insurance", "alarm"),
    *("hailfinder", "hepar2", "win95pts", "water"),
)


@final
@dataclass(frozen=True)
class Case:
    """Network as a diagram and as a model of pgmpy."""

    name: str
    diagram: idb.Diagram
    pgmpy: Any

    @property
    def hidden(self) -> list[str]:
        """Names of the latent nodes."""
        return [n.name for n in self.diagram.of_kind("latent")]


def read(name: str) -> Case:
    """Read a network shipped with pgmpy; rows are normalised, because its files contain rounded numbers."""
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
    """Draw observations from the network."""
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
    rejected = False
    try:
        nodes, compiling = timed(_compile, case.diagram)
        if compiling < 1:
            compiling = median(timed(_compile, case.diagram.copy())[1] for _ in range(5))
        libraries["idbandits"] = partial(_ours, case)
    except ComplexityError:
        rejected = True
    times: dict[str, list[float]] = {library: [] for library in libraries}
    far = 0.0
    seen = observations(case, blocks * BLOCK)
    for ask in libraries.values():
        ask(seen[0])  # the first query prepares and is not timed
    for block in range(0, len(seen), BLOCK):  # in turns, in blocks that keep caches warm
        answers = {}
        for library, ask in libraries.items():
            timings = [timed(ask, observation) for observation in seen[block : block + BLOCK]]
            times[library] += [seconds for _, seconds in timings]
            answers[library] = np.array([np.concatenate([answer[h] for h in case.hidden]) for answer, _ in timings])
        far = max(far, *(float(np.abs(answer - answers["pyAgrum"]).max()) for answer in answers.values()))
    if not far < CLOSE:
        raise DisagreementError(f"network {case.name}: posteriors differ by {far}")
    took = {library: median(seconds) for library, seconds in times.items()}
    mine = ["rejected", "–", "–"] if rejected else [f"{nodes:,}", duration(compiling), duration(took["idbandits"])]
    theirs = [
        text
        for peer in ("pyAgrum", "pgmpy")
        for text in (duration(took[peer]), "–" if rejected else ratio(took[peer] / took["idbandits"]))
    ]
    sizes = [case.name, str(len(case.diagram.nodes)), str(len(case.hidden))]
    return Row([*sizes, *mine, *theirs, f"{far:.0e}"])


def _compile(d: idb.Diagram) -> int:
    """Compile the circuit of all nodes and return its number of nodes."""
    return idb.compile(d).revealed.circuit.inner


def _ours(case: Case, seen: Seen) -> Posteriors:
    return idb.posterior_of_latents(case.diagram, {}, seen, {})


def _pyagrum(case: Case) -> Ask:
    """Return a query function of pyAgrum: one junction tree, with the hidden nodes as targets."""
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
    """Return a query function of pgmpy; a joint query is faster if the joint table is small."""
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
    "Posteriors of latent nodes in public networks",
    "Networks shipped with pgmpy, all tables known. Hidden: in Asia the diseases (tuberculosis, cancer, bronchitis, "
    "tuberculosis or cancer), elsewhere every node with children; all other nodes are observed, in states drawn from "
    "the network. A query asks for the posteriors of all hidden nodes. *Nodes*, *compile*: of the circuit, which is "
    "compiled once and not part of the queries; *rejected*: too large for a circuit (`ComplexityError`). pyAgrum: "
    "LazyPropagation, kept between queries; pgmpy: VariableElimination. *Ratio*: speed of idbandits relative to the "
    "library. *Difference*: largest difference between posteriors; the benchmark stops above 1e-9.",
    ["network", "all", "hidden", "nodes", "compile", "idbandits", "pyAgrum", "ratio", "pgmpy", "ratio", "difference"],
    _rows,
)
