"""Crafted agent files: every field set to every kind of wrong value.

`python crafted_files.py FOLDER SHARE SHARES` tests one share of them and prints the results as JSON. It runs as a separate
process, because a crash or an endless loop in compiled code cannot be caught: the name of the case is in FOLDER/case,
and a timeout ends the process.
"""

from __future__ import annotations

import copy
import faulthandler
import io
import json
import sys
import warnings
import zipfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

import idbandits as idb
from idbandits.errors import IdbanditsError

Parts = dict[str, np.ndarray]
SECONDS = 120  # timeout of a case: ten thousand times its usual time, and longer than compiling a kernel

SETTINGS: dict[str, Any] = {
    "exact": idb.Exact(),
    "variational": idb.Variational(2, 1e-9),
    "literal": idb.Variational(start="random", literal=True),
    "incremental": idb.Incremental(3),
    "random": idb.Incremental(start="random"),
    "moments": idb.Moments(),
    "gibbs": idb.Gibbs(2),
    "ep": idb.EP(2),
    "particles": idb.Particles(3),
}
GENERATORS = ("PCG64", "PCG64DXSM", "MT19937", "Philox", "SFC64")
WRONG_JSON: dict[str, Any] = {
    "null": None, "true": True, "negative": -1, "zero": 0, "two": 2, "five": 5, "625": 625, "2**32": 2**32,
    "2**63": 2**63, "2**64": 2**64, "2**128": 2**128, "10**300": 10**300, "half": 0.5, "huge": 1.7e308,
    "subnormal": 5e-324, "text": "test", "empty text": "", "list": [], "nested": [[[]]], "object": {}, "NaN": float("nan"),
    "infinite": float("inf"),
}  # fmt: skip
ODD_LINES: dict[str, Any] = {
    "none": [], "of no column": [{}], "null": None, "of nulls": [None, None], "an object": {"size": 1.0}, "a text": "size",
    "texts": ["size", "kind"], "large": [{"size": 1.7e308, "kind": "a"}], "beyond floats": [{"size": 10**400}],
    "of wrong types": [{"size": "a", "kind": 1.0}], "nested": [{"size": [1.0], "kind": {"a": 1}}], "true": [{"size": True}],
    "of a new category": [{"size": 1.0, "kind": "new"}], "of other columns": [{"more": 1.0}, {"size": 2.0}],
    "of many parents": [{"size": 1.0}] * 3000, "of many columns": [{f"x{k}": 1.0 for k in range(3000)}],
    "NaN": [{"size": float("nan")}], "infinite": [{"size": float("-inf")}], "deep": [[[[[{"size": 1.0}]]]]],
}  # fmt: skip
WRONG_INTS = [-(2**63), -(2**31), -2, -1, 0, 1, 7, 2**31, 2**53, 2**62, 2**63 - 1]
WRONG_FLOATS = [
    np.nan,
    np.inf,
    -np.inf,
    -1e308,
    -1.0,
    -1e-9,
    -0.0,
    0.0,
    5e-324,
    1e-310,
    0.5,
    1e-290,
    1e290,
    1e301,
    1.7e308,
]


class Crafted(NamedTuple):
    """Crafted file."""

    name: str
    content: Callable[[], bytes]  # created on demand
    refuse: bool = False  # True if the file must be rejected; else it may be valid


def diagram(items: int = 3) -> idb.Diagram:
    """Return a diagram with a latent node observed with noise, and a shared table that one round may use twice."""
    d, table = idb.Diagram("crafted"), idb.Learned("table", prior=[1.5, 0.7])
    first, second = d.decision("A", items), d.decision("B", 2)
    hidden = d.latent("Z", [first])
    d.reward(d.observed("X", [hidden], [0.1, 0.8]))
    one, two = d.latent("P", [second], table), d.latent("Q", [second], table)
    d.observed("Y", [one, two], lambda p, q: 0.1 + 0.3 * p + 0.5 * q)
    return d


def with_features(items: int = 3) -> idb.Diagram:
    """Return the diagram with features: numeric and categorical columns, and a pooled table."""
    frame = pd.DataFrame({"size": range(1, 6), "kind": list("aabab")}, index=list("vwxyz"))
    d, table = idb.Diagram("crafted features"), idb.Learned("table", prior=[1.5, 0.7], pooled=True)
    first, second = d.decision("A", list("vwxyz")[:items]), d.decision("B", 2)
    hidden = d.latent("Z", [first], idb.Learned("Z", features=frame))
    d.reward(d.observed("X", [hidden], [0.1, 0.8]))
    d.observed("Y", [d.latent("P", [second], table), second], lambda p, b: 0.1 + 0.3 * p + 0.5 * b)
    return d


def with_requests(residuals: float, items: int = 3) -> idb.Diagram:
    """Return a diagram with a table that depends on a context with features, and one that does not."""
    d = idb.Diagram("crafted requests")
    user = d.context("user", features={"age": (40, 15), "country": ["de", "fr"]})
    features = np.array([[1.0], [2.0], [4.0]])[:items]
    d.reward(d.observed("X", [d.decision("A", items), user], idb.Learned("X", features=features, residuals=residuals)))
    d.observed("Y", [d.decision("B", 2)])
    return d


def agent_for(
    inference: Any,
    generator: str = "PCG64",
    rounds: int = 12,
    forget: idb.Forget | None = None,
    d: idb.Diagram | None = None,
) -> idb.Thompson:
    """Return an agent that has learned some rounds."""
    d = diagram() if d is None else d
    d = d.revealed() if isinstance(inference, idb.Exact) else d
    agent = idb.Thompson(d, inference, np.random.Generator(getattr(np.random, generator)(1)), forget=forget)
    names, context = [n.name for n in agent.diagram.of_kind("observed")], context_for(agent)
    for t in range(rounds):
        seen = {name: (t + k) % 3 % 2 for k, name in enumerate(names)}
        agent.update(agent.act(context), seen, context, at=time_for(agent, t))
    return agent


def context_for(agent: idb.Thompson) -> dict[str, Any] | None:
    """Return a request if there is a context."""
    return {"user": {"age": 30, "country": "fr"}} if agent.diagram.of_kind("context") else None


def time_for(agent: idb.Thompson, t: int) -> float | None:
    """Return the time of a round if it is required."""
    return 3.0 * t if agent.forget is not None and agent.forget.by_time else None


def parts_of(agent: idb.Thompson, path: Path) -> Parts:
    """Return the arrays of an agent file."""
    agent.save(path)
    with np.load(path) as file:
        return {name: file[name] for name in file.files}


def packed(parts: Parts, how: int = zipfile.ZIP_STORED) -> bytes:
    """Pack arrays into a file."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", how, compresslevel=1) as archive:
        for name, array in parts.items():
            content = io.BytesIO()
            np.lib.format.write_array(content, np.asanyarray(array))
            archive.writestr(f"{name}.npy", content.getvalue())
    return buffer.getvalue()


def with_head(parts: Parts, path: tuple[Any, ...], value: Any) -> bytes:
    """Return a file with a changed value in the header."""
    return packed(parts | {"head": np.array(json.dumps(changed(json.loads(str(parts["head"])), path, value)))})


def with_number(parts: Parts, column: str, at: int | None, value: float) -> bytes:
    """Return a file with a changed number in an array (in the last row of a table), or in all places."""
    array = parts[column].copy()
    array[... if at is None else (-1, at) if array.ndim == 2 else at] = value
    return packed(parts | {column: array})


def places_in(data: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield paths to all values in JSON data; of long lists, to the first and last."""
    yield path
    if isinstance(data, dict):
        for key in data:
            yield from places_in(data[key], (*path, key))
    elif isinstance(data, list):
        for k in sorted({0, len(data) - 1} & set(range(len(data)))):
            yield from places_in(data[k], (*path, k))


def changed(data: Any, path: tuple[Any, ...], value: Any) -> Any:
    """Return JSON data with a changed value at a path; without the value if it is `...`."""
    if not path:
        return value
    data = copy.deepcopy(data)
    inner = data
    for step in path[:-1]:
        inner = inner[step]
    if value is ...:
        del inner[path[-1]]
    else:
        inner[path[-1]] = value
    return data


def crafted_heads(name: str, parts: Parts, under: tuple[str, ...], without: tuple[str, ...] = ()) -> Iterator[Crafted]:
    """Yield headers with every value under some keys wrong, missing, duplicated or extended."""
    head = json.loads(str(parts["head"]))
    for path in [p for p in places_in(head) if p[:1] and p[0] in under and not {*without} & {*p[:2]}]:
        where = f"{name}: head.{'.'.join(map(str, path))}"
        inner = head
        for step in path:
            inner = inner[step]
        for kind, value in WRONG_JSON.items():
            yield Crafted(f"{where} = {kind}", partial(with_head, parts, path, value))
        yield Crafted(f"{where} is missing", partial(with_head, parts, path, ...), len(path) == 1)
        if isinstance(inner, dict):
            extra = partial(with_head, parts, path, inner | {"extra": 1})
            yield Crafted(f"{where} has an extra key", extra, refuse="past" not in path or "features" not in path)
        if isinstance(inner, list):
            yield Crafted(f"{where} twice", partial(with_head, parts, path, inner + inner))


def crafted_numbers(name: str, those: Parts, whole: Parts | None = None) -> Iterator[Crafted]:
    """Yield files with some numbers of every array set to wrong values."""
    parts = those if whole is None else whole
    for column in [c for c in those if c != "head"]:
        array = parts[column]
        wrong = WRONG_FLOATS if array.dtype.kind == "f" else WRONG_INTS
        if array.dtype == np.int32:
            wrong = [value for value in wrong if abs(value) < 2**31]
        inner = (
            range(min(array.shape[-1], 40))
            if column in ("keys", "sites", "fits")
            else sorted({*range(20), *range(-3, 0)})
        )
        for k in inner:
            if not array.size or not -array.shape[-1] <= k < array.shape[-1]:
                continue
            for value in wrong:
                refuse = array.dtype.kind == "f" and not np.isfinite(value)
                yield Crafted(f"{name}: {column}[{k}] = {value}", partial(with_number, parts, column, k, value), refuse)
        for value in wrong if array.size else ():
            everywhere = partial(with_number, parts, column, None, value)
            yield Crafted(f"{name}: {column} = {value} everywhere", everywhere)


def crafted_mixtures(name: str, parts: Parts, number: int = 40) -> Iterator[Crafted]:
    """Yield files with many numbers at the edges of their ranges: valid, and no search or draw may fail on them."""
    for seed in range(number):
        yield Crafted(f"{name}: mixture {seed}", partial(with_extremes, parts, seed, name == "particles"))


def with_extremes(parts: Parts, seed: int, means: bool) -> bytes:
    """Return a file with extreme numbers at random places."""
    rng = np.random.default_rng(seed)
    floats = [0.0, 5e-324, 0.5, 1.0] if means else [1e-300, 1e-100, 1e-17, 0.5, 1.0, 1e16, 1e100, 1e300]
    pools: dict[str, list[Any]] = {
        "floats": floats, "sites": [0.0, 1e-300, 0.5, -0.5, -1.0, 1e16, -1e16, 1e250, -1e250],
        "weights": [0.0, 1e-300, 0.5, 1.0, 5.0, 2.0**31, 2.0**49, 2.0**50], "phases": [0.0, 5e-324, 0.5, 1 - 2.0**-53],
    }  # fmt: skip
    changed_parts = dict(parts)
    for column, pool in pools.items():
        array = changed_parts[column] = parts[column].copy()
        places = rng.random(array.shape) < rng.choice([0.1, 0.5, 1.0])
        array[places] = rng.choice(pool, size=places.sum())
    return packed(changed_parts)


def crafted_arrays(name: str, those: Parts, whole: Parts | None = None) -> Iterator[Crafted]:
    """Yield files with arrays of wrong types, shapes and orders, missing, additional and duplicated arrays."""
    parts = those if whole is None else whole
    for column in those:
        array = parts[column]
        others = {
            "int32": lambda a: a.astype(np.int32), "big-endian": lambda a: a.astype(a.dtype.newbyteorder(">")),
            "float32": lambda a: a.astype(np.float32), "unsigned": lambda a: a.astype(np.uint64),
            "complex": lambda a: a.astype(complex), "text": lambda a: a.astype(str), "bool": lambda a: a.astype(bool),
            "records": lambda a: np.zeros(a.shape, [("x", "<i8")]), "times": lambda a: np.zeros(a.shape, "<M8[s]"),
            "objects": lambda a: a.astype(object), "one more": lambda a: np.concatenate([a, a[-1:]]),
            "one less": lambda a: a[:-1], "one less inside": lambda a: a[..., :-1], "none": lambda a: a[:0],
            "one dimension more": lambda a: a[None], "one dimension less": lambda a: a.ravel() if a.ndim > 1 else a[0],
            "by columns": lambda a: np.asfortranarray(np.stack([a, a])), "swapped": lambda a: a.T if a.ndim > 1 else a[None],
            "backwards": lambda a: a[::-1], "scalar": lambda a: np.array(3), "twice": lambda a: np.concatenate([a, a]),
        }  # fmt: skip
        for kind, change in others.items():
            try:
                other = change(array)
            except (IndexError, ValueError, TypeError):
                continue
            harmless = kind == "backwards" or (other.shape == array.shape and other.dtype == array.dtype)
            yield Crafted(f"{name}: {column} {kind}", partial(packed, parts | {column: other}), not harmless)
        others_only = {c: a for c, a in parts.items() if c != column}
        yield Crafted(f"{name}: no {column}", partial(packed, others_only), refuse=True)
    yield Crafted(f"{name}: an extra part", partial(packed, parts | {"more": np.zeros(3)}), refuse=True)
    if parts.get("keys", np.empty(0)).size:
        first = {"keys": parts["sizes"][0], "sites": parts["sizes"][0], "sizes": 1, "weights": 1, "phases": 1}
        doubled = {c: np.concatenate([parts[c], parts[c][:size]]) for c, size in first.items()}
        yield Crafted(f"{name}: a group twice", partial(packed, parts | doubled), refuse=True)


def crafted_archives(parts: Parts) -> Iterator[Crafted]:
    """Yield unusual archives, and headers that are too deep, too long or too large."""
    good = packed(parts)
    for how in (zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA):
        yield Crafted(f"compressed by {how}", partial(packed, parts, how), refuse=True)
    yield Crafted("two heads", partial(with_two_heads, good), refuse=True)
    fields = {"size": 24, "compressed size": 20, "offset": 42, "flags": 8, "crc": 16, "method": 10}
    for name in parts:
        for field, offset in fields.items():
            for value in (0, 1, 8, 0xFFFF):
                at = good.rindex(f"{name}.npy".encode()) - 46 + offset  # in the directory
                content = partial(b"".join, [good[:at], value.to_bytes(2, "little"), good[at + 2 :]])
                yield Crafted(f"{field} of {name} in the directory = {value}", content)
    deep = {"deep": "[" * 100_000, "deep objects": '{"a":' * 5000, "long": "1" * 100_000, "doubled": '{"a":1,"a":2}'}
    for kind, text in deep.items():
        yield Crafted(f"a head that is {kind}", partial(packed, parts | {"head": np.array(text)}), refuse=True)
    large = np.array(json.dumps({"a": "x" * 2**22}))  # 16 MB, as NumPy has it
    yield Crafted("a large head", partial(packed, parts | {"head": large}, zipfile.ZIP_DEFLATED), refuse=True)
    nested: Any = 1.0
    for _ in range(400):
        nested = [nested]
    for path in (("diagram", "learned", 0, "prior"), ("settings",), ("rng",), ("diagram",)):
        yield Crafted(f"nested {path}", partial(with_head, parts, path, nested), refuse=True)
    for states in (10**6, 10**9, 10**15, 2**63 - 1):
        for node in (0, 1):
            path = ("diagram", "nodes", node, "states")
            yield Crafted(f"{states} choices of {node}", partial(with_head, parts, path, states), refuse=True)


def with_two_heads(content: bytes) -> bytes:
    """Return a file with a second header at the end."""
    buffer = io.BytesIO(content)
    with zipfile.ZipFile(buffer, "a") as archive, warnings.catch_warnings(action="ignore"):
        archive.writestr("head.npy", archive.read("head.npy"))
    return buffer.getvalue()


def cases(folder: Path) -> Iterator[Crafted]:
    """Yield all crafted files."""
    path = folder / "agent.npz"
    for name, inference in SETTINGS.items():
        agent = agent_for(inference)
        parts = parts_of(agent, path)
        yield from crafted_heads(name, parts, ("settings", "inference", "class"))
        yield from crafted_numbers(name, parts)
        yield from crafted_mixtures(name, parts)
        yield from crafted_arrays(name, parts)
    for generator in GENERATORS:
        yield from crafted_heads(generator, parts_of(agent_for(idb.EP(), generator), path), ("rng",))
    for half_life in (3, "5s"):
        for inference in (idb.Exact(), idb.Gibbs(), idb.EP(), idb.Variational()):
            name = f"{type(inference).__name__}, {half_life}"
            parts = parts_of(agent_for(inference, forget=idb.Forget(half_life)), path)
            yield from crafted_heads(name, parts, ("forget",))
            yield from crafted_numbers(name, parts)
    parts = parts_of(agent_for(idb.EP()), path)
    yield from crafted_heads("ep", parts, ("diagram", "format"))
    yield from crafted_archives(parts)
    agent = agent_for(idb.EP())
    agent.metadata = {"rounds": 12, "shards": [1, 2], "nested": {"of": "text"}}
    yield from crafted_metadata(parts_of(agent, path))
    yield from crafted_sizes(agent_for(idb.EP()).moved_to(diagram(2)), path)
    yield from cases_with_features(path)


def crafted_metadata(parts: Parts) -> Iterator[Crafted]:
    """Yield metadata: values that are not mappings are rejected, any JSON inside a mapping is valid."""
    for kind, value in WRONG_JSON.items():
        whole = partial(with_head, parts, ("metadata",), value)
        yield Crafted(f"metadata = {kind}", whole, refuse=not isinstance(value, dict))
        not_finite = isinstance(value, float) and not np.isfinite(value)
        yield Crafted(f"metadata.rounds = {kind}", partial(with_head, parts, ("metadata", "rounds"), value), not_finite)
    large = partial(with_head, parts, ("metadata", "rounds"), "x" * 2**21)
    yield Crafted("metadata is large", large, refuse=True)


def crafted_sizes(agent: idb.Thompson, path: Path) -> Iterator[Crafted]:
    """Yield small files that would take minutes with a quadratic algorithm."""
    parts = parts_of(agent, path)
    earlier = json.loads(str(parts["head"]))["past"]["earlier"]
    assert earlier
    for number in (16, 17, 300):
        many = partial(with_head, parts, ("past", "earlier"), (earlier * number)[:number])
        yield Crafted(f"{number} earlier diagrams", many, refuse=number > 16)
    alike = [i * (2**61 - 1) for i in range(1, 50_000)]
    labels = partial(with_head, parts, ("diagram", "nodes", 0, "states"), alike)
    yield Crafted("labels with equal hashes", labels, refuse=True)
    rows = [{"table": "Z", "row": [label], "prior": [1.0, 1.0], "features": None} for label in alike]
    retired = partial(with_head, parts, ("past", "retired"), rows)
    yield Crafted("retired rows with equal hashes", retired, refuse=True)
    fixed = partial(with_head, parts, ("diagram", "learned", 0, "fixed"), [{"row": x, "value": 0.5} for x in alike])
    yield Crafted("fixed rows with equal hashes", fixed, refuse=True)
    groups = partial(with_head, parts, ("diagram", "all_different"), [["A", "B"]] * 20_000)
    yield Crafted("a group 20,000 times", groups)
    keys = ",".join(f'"{k}":0' for k in [*range(80_000), 79_999])
    twice = partial(packed, parts | {"head": np.array(f"{{{keys}}}")})
    yield Crafted("80,000 keys, one of them twice", twice, refuse=True)


def cases_with_features(path: Path) -> Iterator[Crafted]:
    """Yield files of agents with features: fits, retired rows and beliefs about coefficients."""
    for inference in (idb.Exact(), idb.Variational(2), idb.Gibbs(2), idb.EP(2), idb.Moments()):
        name = f"{type(inference).__name__} with features"
        parts = parts_of(agent_for(inference, d=with_features()), path)
        if isinstance(inference, (idb.Exact, idb.Gibbs)):
            yield from crafted_numbers(name, {column: parts[column] for column in ("ints", "fits")}, parts)
        yield from crafted_fits(name, parts)
    yield from crafted_arrays("features", {"fits": parts["fits"]}, parts)
    for inference in (idb.Exact(), idb.Gibbs(2)):
        agent = agent_for(inference, d=with_features(5))
        d = with_features(2).revealed() if isinstance(inference, idb.Exact) else with_features(2)
        parts = parts_of(agent.moved_to(d), path)
        assert len(json.loads(str(parts["head"]))["past"]["retired"]) > 1
        name = f"{type(inference).__name__} with retired rows"
        yield from crafted_fits(name, parts)
        if isinstance(inference, idb.Exact):
            yield from crafted_heads(name, parts, ("past",), without=("earlier",))
        for kind, line in ODD_LINES.items():
            odd = partial(with_head, parts, ("past", "retired", 0, "features"), line)
            yield Crafted(f"{name}: features of a retired row are {kind}", odd)
    for residuals in (0.0, 1.0):
        name, parts = f"requests, {residuals}", parts_of(agent_for(idb.Moments(), d=with_requests(residuals)), path)
        yield from crafted_numbers(name, {column: parts[column] for column in ("ints", "fits")}, parts)
        yield from crafted_fits(name, parts)
    yield from crafted_heads("requests", parts, ("diagram",))
    name, agent = "requests with retired rows", agent_for(idb.Moments(), d=with_requests(1.0))
    parts = parts_of(agent.moved_to(with_requests(1.0, 1)), path)
    assert json.loads(str(parts["head"]))["past"]["retired"]
    yield from crafted_numbers(name, {column: parts[column] for column in ("ints", "fits")}, parts)
    yield from crafted_fits(name, parts)
    yield from crafted_heads(name, parts, ("past", "diagram"), without=("earlier",))
    d = idb.Diagram("without requests")
    d.reward(d.observed("Y", [d.decision("B", 2)]))
    parts = parts_of(agent.moved_to(d), path)
    assert json.loads(str(parts["head"]))["past"]["retired"]
    yield from crafted_numbers("absent table", {column: parts[column] for column in ("ints", "fits")}, parts)
    yield from crafted_fits("absent table", parts)
    yield from crafted_heads("absent table", parts, ("past",))


def crafted_fits(name: str, parts: Parts, number: int = 25) -> Iterator[Crafted]:
    """Yield fits with many numbers at the edges of their ranges: no draw or fit may fail or loop."""
    for seed in range(number):
        yield Crafted(f"{name}: mixture of fits {seed}", partial(with_extreme_fits, parts, seed))


def with_extreme_fits(parts: Parts, seed: int) -> bytes:
    """Return a file with extreme numbers at random places of its fits, sometimes of its pseudo-counts."""
    rng, changed_parts = np.random.default_rng(seed), dict(parts)
    pools: dict[str, list[Any]] = {
        "fits": [0.0, 5e-324, 1e-300, 1e-12, -1e-12, 0.5, -0.5, 30.0, -30.0, 700.0, -700.0, 1e12, -1e12],
        "floats": [1e-300, 1e-17, 0.5, 1.0, 1e16, 1e300],
    }  # fmt: skip
    for column, pool in pools.items():
        array = changed_parts[column] = parts[column].copy()
        if column == "fits" or rng.random() < 0.5:
            places = rng.random(array.shape) < rng.choice([0.05, 0.5, 1.0])
            array[places] = rng.choice(pool, size=places.sum())
    return packed(changed_parts)


def use(agent: idb.Thompson, path: Path) -> None:
    """Call all methods of an agent; errors of the library are allowed."""
    observed = {n.name: 1 for n in agent.diagram.of_kind("observed")}
    context = context_for(agent)
    action, at = agent.act(context), time_for(agent, 20)
    times = None if at is None else [at + 1, at - 50]
    contexts = None if context is None else {k: [v, v] for k, v in context.items()}
    calls = [
        lambda: agent.update(action, observed, context, at=at),
        lambda: agent.update(agent.act(context), dict.fromkeys(observed), context, at=at),
        lambda: agent.update_many({k: [v, v] for k, v in action.items()}, {k: [1, 0] for k in observed}, contexts, at=times),
        lambda: agent.revise(action, observed, dict.fromkeys(observed, 0), at=at), agent.sample, agent.elbo,
        lambda: [p.mean + p.sd for p in agent.posterior().values()],
        lambda: [(repr(p.regression), p.regression.to_frame()) for p in agent.posterior().values() if p.regression],
        lambda: agent.propensity(action, context, draws=3), lambda: agent.best_action(context), lambda: agent.draws(2),
        lambda: agent.copy().act(context), lambda: agent.copy(seed=1).act(context), lambda: repr(agent),
        lambda: agent.act(context), lambda: agent.save(path), lambda: idb.Thompson.load(path).act(context),
    ]  # fmt: skip
    for call in calls:
        try:
            call()
        except IdbanditsError:
            continue


def try_all(folder: Path, share: int, shares: int) -> dict[str, Any]:
    """Load and use every crafted file of a share; return the number of rejections and all failures."""
    refused, harmless, wrong = 0, 0, []
    path, log = folder / "crafted.npz", (folder / "case").open("w")
    for inference in SETTINGS.values():
        use(agent_for(inference), path)  # all kernels are compiled
    for d in (with_features(), with_requests(1.0)):
        use(agent_for(idb.Moments(), d=d), path)
    for number, case in enumerate(cases(folder)):
        if number % shares != share:
            continue
        log.seek(0)
        log.write(case.name.ljust(200))
        log.flush()
        faulthandler.dump_traceback_later(SECONDS, exit=True)
        path.write_bytes(case.content())
        try:
            agent = idb.Thompson.load(path)
        except IdbanditsError:
            refused += 1
            continue
        except Exception as error:
            wrong.append(f"{case.name}: {type(error).__name__}: {error}")
            continue
        try:
            use(agent, path)
        except IdbanditsError:
            pass
        except Exception as error:
            wrong.append(f"{case.name}: {type(error).__name__}: {error}")
        harmless += 1
        if case.refuse:
            wrong.append(f"{case.name}: was not refused")
    faulthandler.cancel_dump_traceback_later()
    return {"refused": refused, "harmless": harmless, "wrong": wrong}


if __name__ == "__main__":
    faulthandler.enable()
    warnings.simplefilter("ignore")  # unusual numbers and dtypes
    print(json.dumps(try_all(Path(sys.argv[1]), *map(int, sys.argv[2:4]))))
