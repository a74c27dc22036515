"""Calls that declare, save, load and draw diagrams."""

from __future__ import annotations

import contextlib
import copy
import pickle
from pathlib import Path
from typing import Any, ClassVar

import pandas as pd
import pyarrow as pa

import idbandits as idb
from feature_diagrams import random_columns

from .agents import any_diagram
from .attempts import Call, Session, digest
from .invalid_values import Rng, spoil

MOST_NODES = 12


class Building(Session):
    """Diagram that grows."""

    WEIGHTS: ClassVar[dict[str, int]] = {
        "draw": 1,
        "png": 1,
        "of_kind": 1,
        "save": 2,
        "load": 2,
        "model": 6,
        "observed": 8,
        "latent": 8,
        "from_dict": 8,
        "pickle": 1,
    }

    def __init__(self, rng: Rng) -> None:
        super().__init__(rng)
        self.d = idb.Diagram("built") if rng.random() < 0.7 else any_diagram(rng)
        self.tables = [idb.Learned("table"), idb.Learned("rows", rows=3), idb.Learned("prior", prior=[2, 1])]

    def objects(self) -> list[Any]:
        return [self.d]

    def _name(self) -> str:
        return f"N{len(self.d.nodes)}"

    def _parents(self) -> list[Any]:
        few = [n for n in self.d.nodes.values() if n.states <= 5]
        picked = self.rng.permutation(len(few))[: self.number(0, 2)].tolist()
        return [few[i] if self.rng.random() < 0.5 else few[i].name for i in picked]

    def _states(self) -> Any:
        return self.one([2, 2, 2, 3, 4, ["no", "yes"], [10, 20, 30], ("a", 1, 1.5), [True, False]])

    def _cpd(self) -> Any:
        rows = self.tables[1]
        return self.one(
            [
                None,
                0.5,
                1.0,
                [0.5, 0.5],
                [0.2, 0.3, 0.5],
                lambda *v: 0.25,
                *self.tables,
                rows[1],
                rows.select(lambda *v: len(v)),
            ]
        )

    def _grown(self) -> bool:
        return len(self.d.nodes) >= MOST_NODES

    def _fresh(self) -> None:
        if self._grown():
            self.d = idb.Diagram("built anew")

    def call_diagram(self) -> Call:
        return Call("Diagram", idb.Diagram, {"name": "another"})

    def call_learned(self) -> Call:
        arguments = {"name": "learned", "prior": self.one([1.0, [2.0, 1.0]]), "rows": self.one([None, 3])}
        if self.rng.random() < 0.5:
            arguments |= {"features": self._features(), "products": self.one([False, True])}
        elif self.rng.random() < 0.3:
            arguments["pooled"] = True
        if self.rng.random() < 0.2:
            arguments["residuals"] = 0.5
        return Call("Learned", idb.Learned, arguments, self.tables.append)

    def _features(self) -> Any:
        """Return features of two or three rows or values: an array, a frame, or one of them per parent."""
        lines = self.number(2, 3)
        columns = {column["name"]: column["values"] for column in random_columns(self.rng, lines)}
        ways: list[Any] = [
            lambda: self.rng.normal(size=(lines, 2)),
            lambda: self.rng.normal(size=(lines, 2)).tolist(),
            lambda: pd.DataFrame(columns),
            lambda: pd.DataFrame(columns, index=self.one([["no", "yes"], [10, 20]]) if lines == 2 else [10, 20, 30]),
            lambda: pa.table(columns),
            lambda: [pd.DataFrame(columns), None],
            lambda: {node.name: self.rng.normal(size=(node.states, 1)) for node in self.d.of_kind("decision")},
            lambda: {"N0": pd.DataFrame(columns)},
            lambda: self._encoded(pd.DataFrame(columns)),
            lambda: [self._encoded(pd.DataFrame(columns)), None],
        ]
        try:
            return self.one(ways)()
        except (ValueError, pa.ArrowException):  # some columns do not fit into all frames
            return columns

    def _encoded(self, frame: pd.DataFrame) -> Any:
        """Return features with declared encodings that mostly match the columns; the frame itself otherwise."""
        try:
            return idb.Features(frame, **self._encodings(frame))
        except idb.errors.DiagramError:
            return frame

    def _encodings(self, frame: pd.DataFrame) -> dict[str, Any]:
        has_texts = {name: any(isinstance(value, str) for value in frame[name]) for name in frame}
        texts, numbers = ([name for name in frame if has_texts[name] is wanted] for wanted in (True, False))
        return {
            "categories": {name: self.one([["a"], ["b", "a"], ["z"], ["a", "same", ""]]) for name in texts},
            "center": {name: self.one([0, 2.5, -1e300]) for name in numbers if self.rng.random() < 0.5},
            "scale": {name: self.one([1, 0.5, 1e-300, 1e308]) for name in numbers if self.rng.random() < 0.5},
            "missing": [name for name in frame if self.rng.random() < 0.3],
        }

    def call_features(self) -> Call:
        """Call declared encodings and a table that uses them."""
        lines = self.number(2, 3)
        columns = {column["name"]: column["values"] for column in random_columns(self.rng, lines)}
        frame = pd.DataFrame(columns)

        def declare(own: idb.Features) -> None:
            repr(own)
            self.tables.append(idb.Learned("declared", features=own))

        return Call("Features", idb.Features, {"frame": frame} | self._encodings(frame), declare)

    def call_row(self) -> Call:
        return Call("Learned[...]", lambda k: self.tables[1][k], {"k": 1})

    def call_select(self) -> Call:
        return Call("select", self.tables[1].select, {"chooser": lambda *v: 0})

    def call_decision(self) -> Call:
        return self._declare("decision", {"name": self._name(), "choices": self._states()})

    def call_context(self) -> Call:
        if self.rng.random() < 0.3:
            people = pd.DataFrame({"age": [20.0, 40.0], "country": ["de", "fr"]})
            features: Any = self.one(
                [["age"], {"age": (40, 15), "country": ["de", "fr"]}, {"age": None}, idb.Features(people)]
            )
            return self._declare("context", {"name": self._name(), "features": features})
        return self._declare("context", {"name": self._name(), "values": self._states()})

    def call_latent(self) -> Call:
        return self._declare(
            "latent", {"name": self._name(), "parents": self._parents(), "cpd": self._cpd(), "states": self._states()}
        )

    def call_observed(self) -> Call:
        return self._declare(
            "observed", {"name": self._name(), "parents": self._parents(), "cpd": self._cpd(), "states": self._states()}
        )

    def call_reward(self) -> Call:
        return self._declare(
            "reward", {"nodes": self._parents(), "function": self.one([None, lambda *v: 1.0, lambda *v: len(v)])}
        )

    def _declare(self, method: str, arguments: dict[str, Any]) -> Call:
        if self._grown():
            return self.call_compile()

        def declare(**given: Any) -> None:
            getattr(self.d, method)(**given)

        return Call(method, declare, arguments, self._round_trip)

    def _round_trip(self, _: Any = None) -> None:
        with contextlib.suppress(
            *[idb.errors.FormatError] if self.d.different else []
        ):  # later decisions may make it feasible
            assert digest(idb.Diagram.from_dict(self.d.to_dict())) == digest(self.d)

    def call_all_different(self) -> Call:
        decisions = [n.name for n in self.d.of_kind("decision")][: self.number(0, 3)]
        return Call(
            "all_different",
            lambda decisions: self.d.all_different(*decisions),
            {"decisions": decisions},
            self._round_trip,
        )

    def call_compile(self) -> Call:
        """Call all queries of a diagram; restart if it has become too large."""

        def ask(d: Any) -> None:
            repr(idb.compile(d))
            repr(idb.compile(d.revealed()))
            agent = idb.Thompson(d, seed=0)
            context = {n.name: n.values[0] if n.features is None else {} for n in d.of_kind("context")}
            action = agent.act(context)
            agent.update(action, {}, context)
            idb.best_action(d, agent.sample(), context)

        d = self.d.copy()
        self._fresh()
        return Call("compile", ask, {"d": d})

    def call_copy(self) -> Call:
        return Call("Diagram.copy", lambda: [self.d.copy(), copy.deepcopy(self.d), copy.copy(self.d)], {}, self._same)

    def call_pickle(self) -> Call:
        return Call("pickle diagram", lambda: [pickle.loads(pickle.dumps(self.d))], {}, self._same)

    def _same(self, others: list[idb.Diagram]) -> None:
        assert all(digest(other) == digest(self.d) for other in others)

    def call_from_dict(self) -> Call:
        data = copy.deepcopy(self.d.to_dict())
        if self.rng.random() < 0.8:
            _spoil_inside(self.rng, data)
        return Call(
            "from_dict", idb.Diagram.from_dict, {"data": data}, lambda d: digest(idb.Diagram.from_dict(d.to_dict()))
        )

    def call_save(self) -> Call:
        return Call("Diagram.save", self.d.save, {"path": "diagram.json"}, files=True)

    def call_load(self) -> Call:
        self.d.save("diagram.json")
        text = bytearray(Path("diagram.json").read_bytes())
        if self.rng.random() < 0.7:
            at = self.number(0, len(text) - 1)
            text[at : at + self.number(0, 3)] = self.one(
                [b"", b"}", b"[", b"\xff", b"1e999", b"NaN", b"\0", b'"', b"null", b"-" * 9, b"[" * 9999]
            )
        Path("diagram.json").write_bytes(text)
        return Call("Diagram.load", idb.Diagram.load, {"path": "diagram.json"}, files=True)

    def call_draw(self) -> Call:
        def draw(path: Any) -> None:
            picture = self.d.draw()
            picture.svg()
            picture.mermaid()
            picture.save(path)

        return Call("draw", draw, {"path": "picture.svg"}, files=True)

    def call_png(self) -> Call:
        return Call("png", idb.models.rank1(2, 2).draw().png, {"dpi": 30}, efforts=("dpi",))

    def call_of_kind(self) -> Call:
        return Call("of_kind", lambda kinds: self.d.of_kind(*kinds), {"kinds": ["decision", "latent"]})

    def call_model(self) -> Call:
        name = self.one(
            [
                "cascade",
                "cascade_inverted",
                "position_based",
                "semi_bandit",
                "dependent_click",
                "dynamic_bayesian",
                "click_chain",
                "user_browsing",
                "rank1",
            ]
        )
        items = self.one([4, ["a", "b", "c"], ("x", 1, 2.5)])
        arguments: dict[str, Any] = {
            "items": items,
            "positions": self.number(1, 3),
            "distinct": self.one([True, False]),
        }
        if name == "rank1":
            arguments = {"rows": items, "columns": 2}
        if name in ("dependent_click", "dynamic_bayesian"):
            arguments["reward"] = self.one(["satisfaction", "clicks"])
        return Call(f"models.{name}", getattr(idb.models, name), arguments, repr, efforts=("positions", "columns"))


def _spoil_inside(rng: Rng, data: Any) -> None:
    """Make one value inside nested data invalid."""
    while True:
        inner = list(data.items()) if isinstance(data, dict) else list(enumerate(data))
        if not inner:
            return
        key, value = inner[int(rng.integers(len(inner)))]
        if isinstance(value, (dict, list)) and value and rng.random() < 0.8:
            data = value
            continue
        data[key] = spoil(rng, value)
        return
