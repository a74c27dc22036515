"""Small files and declarations take little time, or say why not: nothing is compared with everything else."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import idbandits as idb
from idbandits import Diagram, Learned
from idbandits.circuit import eliminate as elimination
from idbandits.diagram.serialize import parse_json
from idbandits.diagram.values import MOST_EQUAL_HASHES
from idbandits.errors import ComplexityError, DiagramError, FormatError
from idbandits.inference.rounds import evidence

SECONDS = 90  # a guard against quadratic time, which would take several times as long
ALIKE = [i * (2**61 - 1) for i in range(1, 100_001)]  # all have the hash 0

CASES = """
import itertools, json, time
import numpy as np
import idbandits as idb
from idbandits.diagram.serialize import parse_json

def message(do):
    try:
        do()
    except idb.errors.IdbanditsError as error:
        return str(error)
    return "no error"

def decisions(number, choices):
    d = idb.Diagram("many")
    nodes = [d.decision(f"A{k}", choices) for k in range(number)]
    d.reward(d.observed("C", nodes[:1]))
    return d

d = decisions(2, 5).to_dict()
print(idb.Diagram.from_dict(d | {"all_different": [["A0", "A1"]] * 20_000}).different)
triples = [list(names) for names in itertools.combinations([f"A{k}" for k in range(40)], 3)]
d = idb.Diagram.from_dict(decisions(40, 50).to_dict() | {"all_different": triples})
agent = idb.Thompson(d, "exact")
agent.update(agent.act(), {"C": 1})
agent.update_many({f"A{k}": [k, k + 1] for k in range(40)}, {"C": [0, 1]})
print(len(d.different), agent.rounds)
print(message(lambda: parse_json("{" + ",".join(f'"{k}":0' for k in [*range(80_000), 79_999]) + "}")))
alike = [i * (2**61 - 1) for i in range(1, 100_001)]
print(message(lambda: idb.Diagram("alike").decision("A", alike)))
data = decisions(1, 2).to_dict()
data["learned"][0]["fixed"] = [{"row": label, "value": 0.5} for label in alike[:30_000]]
print(message(lambda: idb.Diagram.from_dict(data)))
print(message(lambda: idb.Diagram("twice").decision("A", [*range(50_000), 49_999])))
print(message(lambda: idb.Diagram.from_dict(data | {"all_different": [0] * 300_000})))
print(message(lambda: idb.Diagram("many").context("user", features=[f"x{k}" for k in range(40_000)])))
print(message(lambda: idb.Diagram("alike").context("user", features={"x": alike})))
d = idb.Diagram("wide")  # four nodes, and a known table that the circuit reads 90,000 times
first = d.latent("L", [d.decision("A", 2)], states=300)
table = np.random.default_rng(0).dirichlet(np.ones(300), 300)
d.reward(d.observed("O", [d.latent("M", [first], table, states=300)]))
d.observed("P", [d.latent("N", [first], states=300)])
print(idb.Thompson(d, "ep").rounds)
"""


def test_small_files_and_declarations_take_little_time() -> None:
    environment = os.environ | {"PYTHONPATH": str(Path(idb.__file__).parents[1])}
    command = [sys.executable, "-W", "ignore", "-c", CASES]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=SECONDS)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.splitlines() == [
        "(('A0', 'A1'),)",
        "9880 3",
        "the key '79999' occurs twice in one object",
        "node 'A': labels must have at most 100 labels with equal hashes, got 100,000 like 2305843009213693951; "
        "use strings instead",
        "learned[0]: learned table 'C': fixed rows must have at most 100 labels with equal hashes, got 30,000 like "
        "2305843009213693951; use strings instead",
        "node 'A': labels must be different, got 49999 twice",
        "all_different[99]: expected 'all' or a list of decisions, or an object of these and of labels that may repeat, "
        "got 0",
        "node 'user': there must be 1 to 200 features, got 40000",
        "node 'user': feature 'x': labels must have at most 100 labels with equal hashes, got 100,000 like "
        "2305843009213693951; use strings instead",
        "0",
    ]


def test_some_labels_may_have_equal_hashes() -> None:
    d = Diagram("alike")
    node = d.decision("A", ALIKE[:MOST_EQUAL_HASHES])
    d.reward(d.observed("C", [node]))
    loaded = Diagram.from_dict(parse_json(json.dumps(d.to_dict())))
    assert loaded.nodes["A"].index(ALIKE[7]) == 7
    with pytest.raises(DiagramError, match="equal hashes"):
        Diagram("alike").decision("A", ALIKE[: MOST_EQUAL_HASHES + 1])
    assert len(Diagram("wide").decision("A", [2**200 + i for i in range(1000)]).values) == 1000


def test_groups_that_are_declared_again_are_one() -> None:
    d = Diagram("groups")
    a, b, c = (d.decision(name, 4) for name in "ABC")
    for _ in range(3):
        d.all_different(a, b)
        d.all_different()
    assert d.different == (("A", "B"), ("A", "B", "C"))
    other = d.copy()
    other.all_different(b, c)
    assert len(d.different) == 2
    assert Diagram.from_dict(d.to_dict()).to_dict() == d.to_dict()


def test_exceptions_of_groups_are_compared_with_all_that_have_a_decision_in_common() -> None:
    d = Diagram("groups")
    a, b, c, e = (d.decision(name, 4) for name in "ABCE")
    d.all_different(a, b, except_=[0])
    d.all_different(c, e)
    for group, except_ in (((b, c), [0]), ((b, c), []), ((a, e), []), ((), [0]), ((), [])):
        for diagram in (d, d.copy()):
            with pytest.raises(DiagramError, match="must except the same labels"):
                diagram.all_different(*group, except_=except_)
    other = Diagram("all")
    other.decision("A", 4)
    other.all_different(except_=[1])
    later = other.decision("B", 4)
    with pytest.raises(DiagramError, match="must except the same labels"):
        other.all_different(later)
    other.all_different(later, except_=[1])


# -- messages ------------------------------------------------------------------------------------------------------


def wide(states: int) -> Diagram:
    d = Diagram("wide")
    first = d.latent("first", [d.decision("A", 2)], states=states)
    d.reward(d.observed("O", [d.latent("second", [first], states=states)]))
    return d


def wide_by_rows(states: int) -> Diagram:
    """A long row that is read for each of many states."""
    d = Diagram("wide")
    first = d.latent("first", [d.decision("A", 2)], states=300)
    d.reward(d.observed("O", [d.latent("second", [first], states=states)]))
    return d


def test_large_circuits_are_announced_with_the_sizes_of_nodes(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    idb.compile(wide(20))
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(elimination, "LARGE", 300)
    model = idb.compile(wide(20))
    _ = model.rewards
    likelihood, rewards = capsys.readouterr().err.splitlines()
    for line in (likelihood, rewards):
        assert line.startswith("idbandits: building a circuit of diagram 'wide': its tables have ")
        assert "the largest joins first (20), second (20)" in line


def test_a_circuit_that_is_too_large_is_rejected_before_anything_is_built(monkeypatch: pytest.MonkeyPatch) -> None:
    d = Diagram("entangled")
    clicks = [d.observed(f"C{k}", [d.decision(f"A{k}", 2)]) for k in range(20)]
    d.reward(clicks, np.ones((2,) * 20))
    monkeypatch.setattr(elimination, "_reward_table", lambda *_: pytest.fail("a table was built"))
    with pytest.raises(
        ComplexityError, match=r"2,097,150 cells, 2,000,000 are allowed; the largest joins C0 \(2\), C1"
    ):
        _ = idb.compile(d).rewards


def test_large_tables_are_announced(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(evidence, "LARGE", 1000)
    d = Diagram("large")
    d.reward(d.observed("O", [d.decision("A", 600)], Learned("appeal")))
    idb.Thompson(d)
    message = (
        "idbandits: diagram 'large' has 1,200 learned entries, 1,200 of them in table 'appeal'; an agent needs about"
    )
    assert capsys.readouterr().err.startswith(message)


def test_sites_that_would_not_fit_in_memory_are_rejected() -> None:
    with pytest.raises(
        ComplexityError, match=r"'ep' may need .* table 'second' has 1000 states; use inference 'gibbs'"
    ):
        idb.Thompson(wide_by_rows(1000), "ep")


# -- what was made faster says the same ----------------------------------------------------------------------------


def test_rows_that_are_picked_or_fixed_are_read_at_their_places() -> None:
    d, table = Diagram("picked"), Learned("t", rows=4, fixed={1: 0.25, 2: 0.75})
    a, b = d.decision("A", 3), d.context("B", 2)
    hidden = d.latent("H", [b])
    d.reward(d.observed("X", [a, hidden], table.select(lambda a, h: (a + 2 * h) % 4)))
    t, h = np.array([0.1, 0.25, 0.75, 0.9]), np.array([0.3, 0.6])
    for choice in range(3):
        for context in range(2):
            p1 = h[context]
            expected = (1 - p1) * t[choice % 4] + p1 * t[(choice + 2) % 4]
            value = idb.expected_reward(d, {"A": choice}, {"t": t, "H": h}, {"B": context})
            assert value == pytest.approx(expected, abs=1e-12)


def test_a_file_has_at_most_16_earlier_diagrams(tmp_path: Path) -> None:
    import crafted_files

    path, agent = tmp_path / "agent", crafted_files.agent_for(idb.EP()).moved_to(crafted_files.diagram(2))
    parts = crafted_files.parts_of(agent, path)
    earlier: list[Any] = json.loads(str(parts["head"]))["past"]["earlier"]
    path.write_bytes(crafted_files.with_head(parts, ("past", "earlier"), earlier * 16))
    idb.Thompson.load(path)
    path.write_bytes(crafted_files.with_head(parts, ("past", "earlier"), earlier * 17))
    with pytest.raises(FormatError, match=r"head\.past\.earlier must have maxItems 16"):
        idb.Thompson.load(path)
