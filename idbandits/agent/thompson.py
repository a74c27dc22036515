"""Thompson sampling: an agent that acts in a diagram and learns from what it sees."""

from __future__ import annotations

import contextlib
import copy
import functools
import io
import json
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, final

import numpy as np
import pandas

from idbandits.agent.posterior import Posterior
from idbandits.circuit.model import Action, Model, compile
from idbandits.diagram.declare import Diagram
from idbandits.diagram.tables import Label
from idbandits.errors import (
    ActionError,
    ContextError,
    FormatError,
    IdbanditsError,
    ImpossibleObservationError,
    ObservationError,
    brief,
    is_integer,
)
from idbandits.files import write_whole
from idbandits.inference import Inference, name_of, named
from idbandits.inference.acting import (
    ACT,
    DRAW,
    LATER,
    LEARN,
    LEARN_ALL,
    NOW,
    SHUFFLE,
    THOROUGHLY,
    Player,
    act,
    draw_once,
    generator,
    learn_all,
    shuffle_once,
)
from idbandits.inference.exact import Exact
from idbandits.inference.exactness import check_exact, refuse_ambiguous
from idbandits.inference.groups import (
    AMBIGUOUS,
    BEFORE,
    CAPACITY,
    DONE,
    EACH,
    HEADER,
    IMPOSSIBLE,
    MEANS_GIVEN,
    PER_ROUND,
    ROUNDS,
    USED,
    WIDTH,
    State,
    grown,
    is_full,
)  # fmt: skip
from idbandits.kernel.compiling import direct, ready
from idbandits.kernel.types import Floats, Ints, Rng
from idbandits.solve.best import BUDGET, SOLVE, solver_of

FORMAT = "idbandits agent 1"
CHUNK = 1_000_000  # rounds of a log that are encoded at once


@final
class Propensity(NamedTuple):
    """The probability of an action, estimated by draws, and its standard error."""

    probability: float
    standard_error: float


@final
class Thompson:
    """An agent that draws means from its belief and takes the action that is best under them.

    `inference` is a name or an object with settings (`idb.Variational(sweeps=5)`); docs/learning.md compares them.

    >>> d = Diagram("coins")
    >>> d.reward(d.observed("heads", [d.decision("coin", 3)]))
    >>> agent = Thompson(d, seed=1)
    >>> for _ in range(200):
    ...     action = agent.act()
    ...     agent.update(action, {"heads": int(action["coin"] == 2)})
    >>> agent.act()
    {'coin': 2}
    >>> agent.posterior()["heads"].mean.round(2)[2]
    np.float64(0.99)
    """

    def __init__(self, d: Diagram, inference: str | Inference = "ep", seed: Any = None) -> None:
        model = compile(d)
        self.diagram = d.copy()
        self._bind(model, named(inference))
        if isinstance(self.inference, Exact):
            check_exact(model, self._evidence)
        self._rng = generator(seed)
        self._state = self._beginning()

    def _bind(self, model: Model, inference: Inference) -> None:
        self._model, self.inference = model, inference
        self._evidence = inference.evidence(model)
        self._solver = solver_of(model)
        self._latest: tuple[Any, Any, Ints] = (None, None, self._solver.blank)  # the last action, as labels and encoded
        self._states = [(n.name, {(type(v), v): i for i, v in enumerate(n.values)}) for n in model.observed]
        self._nothing_seen = np.full(len(model.observed), -1, dtype=np.int64)

    def _beginning(self) -> State:
        """The state before the first round, of the types that compiled functions take for granted."""
        state = self.inference.start(self._model, self._evidence, self._rng)
        for name, given, kind, least in (
            ("ints", state.ints, np.int64, HEADER),
            ("floats", state.floats, np.float64, self._evidence.learned),
        ):
            is_row = isinstance(given, np.ndarray) and given.ndim == 1 and given.flags.carray
            if not is_row or given.dtype != kind or len(given) < least:
                found = f"{given.dtype} of shape {given.shape}" if isinstance(given, np.ndarray) else repr(given)
                raise IdbanditsError(
                    f"inference {self._name()!r}: the {name} of a state are a writable array of at least {least} "
                    f"{kind.__name__}, not {found}"
                )
        return state

    @functools.cached_property
    def _act(self) -> Any:
        return ready(act, ACT)

    @functools.cached_property
    def _learn(self) -> Any:
        return ready(self.inference.learn, LEARN) if is_compiled(self.inference) else self.inference.learn

    # -- acting ----------------------------------------------------------------------------------------------------

    def act(self, context: Action | None = None) -> dict[str, Label]:
        """The action that is best under means drawn from the belief."""
        action = self._blank(context)
        self._choose(action, self._rng)
        chosen = self._model.action_of(action)
        self._latest = dict(chosen), None if context is None else dict(context), action
        return chosen

    def _blank(self, context: Action | None) -> Ints:
        action = self._solver.blank.copy()
        if context is not None or self._model.contexts:
            action[len(self._model.decisions) :] = self._model.context_vector(context)
        return action

    @property
    def kernels(self) -> list[tuple[Any, Any]]:
        """The compiled functions that it uses, and their types."""
        learn = [(self.inference.learn, LEARN)] if is_compiled(self.inference) else []
        return [(act, ACT), (self._solver.uncompiled, SOLVE), *learn]

    @property
    def _player(self) -> Player | None:
        """What a compiled loop needs; None if the inference is not compiled."""
        solver, evidence = self._solver, self._evidence
        if not is_compiled(self.inference):
            return None
        return Player(
            self._act, solver.kernel, self._learn, solver.program, solver.known, evidence.program, evidence.numbers
        )

    def _choose(self, action: Ints, rng: Rng) -> None:
        """What the compiled `act` does, in steps: to hand a function to a compiled one takes Python 70 µs."""
        solver, (ints, means) = self._solver, self._state
        if not ints[MEANS_GIVEN]:
            means = np.empty(self._evidence.learned)
            direct(draw_once, DRAW)(self._evidence.program, self._state.floats, rng, means)
        direct(solver.uncompiled, SOLVE)(solver.program, solver.known, means, True, action, BUDGET)
        if solver.has_idle:
            direct(shuffle_once, SHUFFLE)(solver.program, solver.known, rng, action)

    def propensity(self, action: Action, context: Action | None = None, *, draws: int = 1000) -> Propensity:
        """The probability that `act` would take this action now: by draws that the agent's own do not notice."""
        if not is_integer(draws) or draws < 1:
            raise IdbanditsError(f"draws is a whole number from 1, not {draws!r}")
        wanted = self._model.action_vector(action, context)
        rng = np.random.default_rng(copy.deepcopy(self._rng).integers(2**63))  # not what the next act will draw
        taken = wanted.copy()
        hits = 0
        for _ in range(int(draws)):
            self._choose(taken, rng)
            hits += bool((taken == wanted).all())
        p = hits / int(draws)
        spread = (hits + 1) / (int(draws) + 2)  # never certain after finitely many draws
        return Propensity(p, float(np.sqrt(spread * (1 - spread) / int(draws))))

    # -- learning --------------------------------------------------------------------------------------------------

    def update(self, action: Action, observation: Mapping[str, Any], context: Action | None = None) -> None:
        """Learn from a round; observed nodes that are missing or None were not seen."""
        self._take_in(self._encoded(action, context), self._seen(observation), 1, NOW)

    def update_many(self, actions: Any, observations: Any, contexts: Any = None) -> None:
        """Learn from many rounds at once: arrays by node name, or a data frame of all of them, passed for each.

        Missing values (None, NaN) were not seen.

        >>> d = Diagram("coins")
        >>> d.reward(d.observed("heads", [d.decision("coin", 3)]))
        >>> agent = Thompson(d, inference="exact")
        >>> agent.update_many({"coin": [0, 0, 2]}, {"heads": [1, 0, 1]})
        >>> agent.posterior()["heads"].alpha.tolist()
        [[2.0, 2.0], [1.0, 1.0], [1.0, 2.0]]
        """
        columns = encode_rounds(self._model, actions, observations, contexts)
        with self._all_or_nothing():
            for first in range(0, len(columns[0]) if columns else 0, CHUNK):
                self._take_in_all(np.stack([c[first : first + CHUNK] for c in columns], axis=1), first)
            self._take_in(self._solver.blank, self._nothing_seen, 0, THOROUGHLY)

    @contextlib.contextmanager
    def _all_or_nothing(self) -> Iterator[None]:
        """Restore the agent if what is done inside fails."""
        kept = State(self._state.ints.copy(), self._state.floats.copy()), self._rng.bit_generator.state
        try:
            yield
        except BaseException:
            self._state, self._rng.bit_generator.state = kept
            raise

    def _take_in_all(self, rounds: Ints, number: int) -> None:
        evidence = self._evidence
        width = len(self._solver.blank)
        done = 0
        while done < len(rounds):
            if is_full(self._state.ints):
                self._state = grown(self._state)
            ints, floats = self._state
            if is_compiled(self.inference):
                done = (
                    ready(learn_all, LEARN_ALL)(
                        self._learn, evidence.program, evidence.numbers, ints, floats, self._rng, rounds[done:], width
                    )
                    + done
                )
            if done < len(rounds) and not is_full(ints):  # refused, or not compiled
                row = np.ascontiguousarray(rounds[done])
                self._take_in(row[:width], row[width:], 1, LATER, f"in round {number + done}, ")
                done += 1

    def revise(
        self,
        action: Action,
        old_observation: Mapping[str, Any],
        new_observation: Mapping[str, Any] | None,
        context: Action | None = None,
    ) -> None:
        """Complete or correct a round that was learned from; take it back if the new observation is None."""
        if not getattr(self.inference, "revisable", False):
            raise IdbanditsError(
                f"inference {self._name()!r} cannot take a round back exactly; exact, variational and gibbs can"
            )
        vector = self._model.action_vector(action, context)
        old = self._seen(old_observation)
        new = None if new_observation is None else self._seen(new_observation)
        with self._all_or_nothing():
            self._take_in(vector, old, -1, NOW if new is None else LATER)
            if new is not None:
                self._take_in(vector, new, 1, NOW)

    def _encoded(self, action: Action, context: Action | None) -> Ints:
        taken, given, vector = self._latest
        try:
            if action == taken and context == given:  # faster than checking again what `act` chose
                return vector
        except ValueError:  # an array where a value is expected
            pass
        return self._model.action_vector(action, context)

    def _seen(self, observation: Mapping[str, Any]) -> Ints:
        if type(observation) is dict and len(observation) == len(self._states):
            try:
                found = [places[type(v := observation[name]), v] for name, places in self._states]
            except (KeyError, TypeError):
                pass  # something is missing, or to be refused
            else:
                return np.array(found, dtype=np.int64)
        states = self._model.observation_states(observation)
        return np.array([states.get(n.name, -1) for n in self._model.observed], dtype=np.int64)

    def _take_in(self, vector: Ints, seen: Ints, times: int, effort: int, where: str = "") -> None:
        if is_full(self._state.ints):
            self._state = grown(self._state)
        ints, floats = self._state
        evidence = self._evidence
        learn = direct(self.inference.learn, LEARN) if is_compiled(self.inference) else self.inference.learn
        status = learn(evidence.program, evidence.numbers, ints, floats, self._rng, vector, seen, times, effort)
        if status != DONE:
            self._refuse(status, vector, seen, where)

    def _refuse(self, status: int, vector: Ints, seen: Ints, where: str) -> None:
        model = self._model
        action = model.action_of(vector)
        shown = ", ".join(
            f"{n.name} = {n.values[s]!r}" for n, s in zip(model.observed, seen.tolist(), strict=True) if s >= 0
        )
        if status == IMPOSSIBLE:
            raise ImpossibleObservationError(
                f"{where}observation {shown}: diagram {model.name!r} gives it probability zero for action {action!r}, "
                "whatever the means"
            )
        if status == AMBIGUOUS:
            refuse_ambiguous(model, self._evidence, vector, seen, where)
        raise ObservationError(
            f"{where}observation {shown or '(nothing seen)'} for action {action!r} was not learned before"
        )

    # -- what it believes ------------------------------------------------------------------------------------------

    @property
    def rounds(self) -> int:
        """How many rounds were learned from."""
        return int(self._state.ints[ROUNDS])

    def sample(self) -> dict[str, Floats]:
        """One draw of the means of all learned tables."""
        ints, floats = self._state
        drawn = floats[: self._evidence.learned].copy()
        if not ints[MEANS_GIVEN]:
            direct(draw_once, DRAW)(self._evidence.program, floats, self._rng, drawn)
        return {name: part[..., 1] if part.shape[-1] == 2 else part for name, part in self._tables(drawn)}

    def posterior(self) -> dict[str, Posterior]:
        """The belief of every learned table."""
        belief = self.inference.belief(self._evidence, self._state, copy.deepcopy(self._rng))
        ends = np.cumsum([0, *(t.size for t in self._model.learned.values())]).tolist()
        return {
            t.name: Posterior(t, belief[..., first:last])
            for t, first, last in zip(self._model.learned.values(), ends, ends[1:], strict=False)
        }

    def _tables(self, flat: Floats) -> list[tuple[str, Floats]]:
        at = 0
        found = []
        for name, table in self._model.learned.items():
            found.append((name, flat[at : at + table.size].reshape(*table.shape, table.states)))
            at += table.size
        return found

    def elbo(self) -> float:
        """The evidence lower bound L(q) of the paper, for variational inference."""
        if not hasattr(self.inference, "elbo"):
            raise IdbanditsError(f"inference {self._name()!r} has no ELBO; variational has")
        return float(self.inference.elbo(self._evidence, self._state))

    def _name(self) -> str:
        return name_of(self.inference) or type(self.inference).__name__

    def __repr__(self) -> str:
        settings = "".join(f", {name}={value!r}" for name, value in self.inference.settings.items())
        rounds = "1 round" if self.rounds == 1 else f"{self.rounds:,} rounds"
        return f"Thompson({self.diagram.name!r}, {self._name()}{settings}; {rounds})"

    # -- keeping it ------------------------------------------------------------------------------------------------

    def copy(self, seed: Any = None) -> Thompson:
        """An agent that knows the same; with its own random numbers if a seed is given."""
        other = object.__new__(Thompson)
        other.diagram = self.diagram.copy()
        other._bind(self._model, self.inference)
        other._rng = copy.deepcopy(self._rng) if seed is None else generator(seed)
        other._state = State(self._state.ints.copy(), self._state.floats.copy())
        if seed is not None and self.rounds == 0:
            other._state = other._beginning()
        return other

    def __deepcopy__(self, memo: dict[int, Any]) -> Thompson:
        return self.copy()

    def save(self, path: str | Path) -> None:
        """Write all that the agent knows to a file, whole or not at all; `load` goes on as if nothing happened."""
        head = {
            "format": FORMAT,
            "diagram": self.diagram.to_dict(),
            "inference": name_of(self.inference),
            "class": type(self.inference).__name__,
            "settings": self.inference.settings,
            "rng": self._rng.bit_generator.state,
        }
        buffer = io.BytesIO()
        np.savez_compressed(
            buffer, head=np.array(json.dumps(head, default=_plain)), ints=self._state.ints, floats=self._state.floats
        )
        write_whole(Path(path), buffer.getvalue())

    @staticmethod
    def load(path: str | Path, *, diagram: Diagram | None = None, inference: Inference | None = None) -> Thompson:
        """An agent from a file. With `diagram`, one of another diagram is refused; own inferences are passed again."""
        head, ints, floats = _read(Path(path))
        try:
            d = Diagram.from_dict(head["diagram"])
            made = type(named(head["inference"]))(**head["settings"]) if head["inference"] is not None else None
            rng = np.random.Generator(getattr(np.random, head["rng"]["bit_generator"])())
            rng.bit_generator.state = head["rng"]
        except Exception as broken:
            raise FormatError(
                f"{path}: what it says of the agent is broken ({type(broken).__name__}: {broken})"
            ) from None
        if diagram is not None and diagram.to_dict() != d.to_dict():
            raise FormatError(
                f"{path}: the agent in it learned in another diagram, {d.name!r}, not in {diagram.name!r}"
            )
        if inference is not None:
            made = named(inference)
        if made is None:
            raise FormatError(f"{path}: its inference {head.get('class')!r} is not built in: pass it as inference=…")
        if type(made).__name__ != head.get("class") or made.settings != head.get("settings"):
            raise FormatError(
                f"{path}: the agent in it learned by {head.get('class')} with settings {head.get('settings')}, "
                f"not by {type(made).__name__} with {made.settings}"
            )
        agent = object.__new__(Thompson)
        agent.diagram, agent._rng, agent._state = d, rng, State(ints, floats)
        agent._bind(compile(d), made)
        if not _fits(made.start(agent._model, agent._evidence, np.random.default_rng(0)), ints, floats):
            raise FormatError(f"{path}: what was learned does not fit the diagram {d.name!r} in it")
        return agent


def is_compiled(inference: Inference) -> bool:
    """Whether an inference runs inside compiled loops."""
    return hasattr(inference.learn, "disable_compile")


def encode_rounds(model: Model, actions: Any, observations: Any, contexts: Any) -> list[Ints]:
    """Rounds as columns of numbers: decisions, contexts, observed nodes (-1 where missing)."""
    columns: list[Ints | None] = []
    length: int | None = None
    for what, nodes, given, error in (
        ("actions", model.decisions, actions, ActionError),
        ("contexts", model.contexts, contexts, ContextError),
        ("observations", model.observed, observations, ObservationError),
    ):
        names = _columns(what, {} if given is None else given, error)
        allowed = ", ".join(n.name for n in nodes) or "none"
        for name in names:
            of_others = hasattr(given, "columns") and name in model.nodes  # one frame may hold the whole log
            if not of_others and all(n.name != name for n in nodes):
                raise error(f"{what}: {name!r} is no such node of diagram {model.name!r}; these are {allowed}")
        for node in nodes:
            if node.name not in names:
                if what != "observations":
                    raise error(f"{what}: {node.name!r} is missing; needed are {allowed}")
                columns.append(None)
                continue
            column = encode_column(what, node, given[node.name], error)
            if length is not None and len(column) != length:
                raise error(f"{what}: {node.name!r} has {len(column)} rounds, others have {length}")
            length = len(column)
            columns.append(column)
    whole = [np.full(length or 0, -1, dtype=np.int64) if c is None else c for c in columns]
    _check_different(model, whole)
    return whole


def _columns(what: str, given: Any, error: type[IdbanditsError]) -> list[str]:
    if isinstance(given, Mapping):
        return list(given)
    if hasattr(given, "columns"):
        return list(given.columns)
    raise error(f"{what}: arrays by node name or a data frame are needed, not {brief(given)}")


def encode_column(what: str, node: Any, given: Any, error: type[IdbanditsError]) -> Ints:
    """The places of values among a node's; -1 for None and NaN where they may be missing."""
    try:
        values = np.asarray(given, dtype=object if isinstance(given, (list, tuple)) else None)
    except ValueError:
        raise error(f"{what}: {node.name!r} is one value a round, a flat array; given {brief(given)}") from None
    if values.ndim != 1:
        raise error(f"{what}: {node.name!r} is one value a round, a flat array; given shape {values.shape}")
    if values.dtype.kind in "iu" and node.values == tuple(range(node.states)):
        found = values.astype(np.int64)
        wrong = (found < 0) | (found >= node.states)
    else:
        try:
            codes, distinct = pandas.factorize(values, use_na_sentinel=True)
        except TypeError:
            raise error(f"{what}: {node.name!r} is one value a round, a flat array; given {brief(given)}") from None
        places = [node.index(_whole(value)) for value in np.asarray(distinct).tolist()]
        missing = -1 if what == "observations" else -2
        table = np.array([*(-2 if p is None else p for p in places), missing], dtype=np.int64)
        found = table[codes]
        wrong = found == -2
    if wrong.any():
        at = int(np.argmax(wrong))
        raise error(f"{what}: {node.name!r} in round {at} cannot be {values[at]!r}; allowed: {node.allowed()}")
    return found


def _whole(value: Any) -> Any:
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _check_different(model: Model, columns: list[Ints]) -> None:
    names = [n.name for n in model.decisions]
    for group in model.different:
        for i, first in enumerate(group):
            for second in group[i + 1 :]:
                a, b = names.index(first), names.index(second)
                labels = model.decisions[b].values
                places = np.array([labels.index(x) if x in labels else -1 for x in model.decisions[a].values])
                same = places[columns[a]] == columns[b]
                if same.any():
                    at = int(np.argmax(same))
                    what = model.decisions[b].values[columns[b][at]]
                    raise ActionError(
                        f"actions: {first!r} and {second!r} in round {at} are both {what!r}; "
                        "all_different forbids repeats"
                    )


def _plain(value: Any) -> Any:
    return value.tolist()


def _read(path: Path) -> tuple[dict[str, Any], Ints, Floats]:
    content = path.read_bytes()
    try:
        with zipfile.ZipFile(io.BytesIO(content)), np.load(io.BytesIO(content), allow_pickle=False) as file:
            head = json.loads(str(file["head"]))
            ints, floats = file["ints"], file["floats"]
    except Exception as broken:  # NumPy and zipfile raise all sorts of things for damaged files
        raise FormatError(f"{path}: this is no whole file of an agent ({type(broken).__name__}: {broken})") from None
    if not isinstance(head, dict) or head.get("format") != FORMAT:
        kind = head.get("format") if isinstance(head, dict) else None
        raise FormatError(f"{path}: the format is {kind!r}; this version reads {FORMAT!r}")
    if ints.dtype != np.int64 or floats.dtype != np.float64 or ints.ndim != 1 or floats.ndim != 1:
        raise FormatError(f"{path}: the arrays in it are not those of an agent")
    return head, np.ascontiguousarray(ints), np.ascontiguousarray(floats)


def _fits(fresh: State, ints: Ints, floats: Floats) -> bool:
    """Whether arrays have the layout of a state, with room for any number of groups."""
    if (
        len(ints) < HEADER
        or (ints[[PER_ROUND, WIDTH, EACH, BEFORE]] != fresh.ints[[PER_ROUND, WIDTH, EACH, BEFORE]]).any()
    ):
        return False
    capacity, used = int(ints[CAPACITY]), int(ints[USED])
    if not 0 <= used <= capacity:
        return False
    if capacity == 0:
        return len(ints) == len(fresh.ints) and len(floats) == len(fresh.floats)
    return len(ints) == HEADER + capacity * (3 + int(ints[WIDTH])) and len(floats) == int(
        ints[BEFORE] + capacity * ints[EACH]
    )
