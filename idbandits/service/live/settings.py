"""Settings of an experiment, validated: when rounds are complete, who chooses, what is learned."""

from __future__ import annotations

import datetime
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from idbandits.circuit.model import compile
from idbandits.diagram.diagram import Diagram
from idbandits.errors import ODD, IdbanditsError, brief
from idbandits.inference import BY_NAME, Forget, Inference, default_inference, name_of
from idbandits.inference.forgetting import DURATION, UNITS
from idbandits.service.service_errors import ServiceError

MODES = ("online", "shadow", "frozen")
BASELINES = ("uniform", "caller")
DELAYED = re.compile(r"(?P<outcome>.*) by (?P<age>.*)", re.DOTALL)
HORIZON, ACCEPTED = "30m", "7d"  # defaults
LONGEST = 10 * 365 * UNITS["d"]


class Settings(NamedTuple):
    """Settings of a version, as plain data that can be stored as JSON."""

    inference: Any = None  # a name, or {"name": …} with its settings; None: the default of the diagram
    forget: str | None = None  # half-life
    effort: float = 1.0
    mode: str = "online"
    horizon: Any = HORIZON  # duration, or durations by observed node
    age_unit: str = "1d"  # of the ages of `idb.delayed`
    absent: Mapping[str, Any] | None = None  # value of nodes without an event by their horizon; None: not seen
    accept: str = ACCEPTED  # how long after its last horizon a round may be corrected
    holdout: float = 0.0
    baseline: Any = "uniform"  # of the holdout: "uniform", "caller", or an action
    learn_holdout: bool = False
    sticky: str | None = None  # how long a unit gets its action again

    def to_data(self) -> dict[str, Any]:
        """Return the settings that differ from their defaults."""
        return {name: own for name, own in self._asdict().items() if own != self._field_defaults[name]}


def seconds_of(name: str, value: Any) -> float:
    """Return a duration ("30m", "7d", a timedelta or a number of seconds) in seconds."""
    if isinstance(value, datetime.timedelta):
        seconds = value.total_seconds()
    elif isinstance(value, str) and (match := DURATION.fullmatch(value)):
        seconds = float(match[1]) * UNITS[match[2]]
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        seconds = float(value)
    else:
        seconds = -1.0
    if not 0 <= seconds <= LONGEST:
        raise ServiceError("invalid", f'{name} must be a duration such as "30m" or "7d", got {brief(value)}', name)
    return seconds


def checked_settings(d: Diagram, given: Mapping[str, Any]) -> Settings:
    """Return settings for a diagram, or raise for those that are not valid."""
    if unknown := [name for name in given if name not in Settings._fields]:
        listed = ", ".join(Settings._fields)
        raise ServiceError("invalid", f"settings must be among {listed}, got {brief(unknown[0])}", str(unknown[0]))
    own = Settings(**{name: _plain(value) for name, value in given.items()})
    if own.mode not in MODES:
        raise ServiceError("invalid", f"mode must be one of {', '.join(MODES)}, got {brief(own.mode)}", "mode")
    for name, value, most in (("holdout", own.holdout, 0.9), ("effort", own.effort, 1000.0)):
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= most:
            raise ServiceError("invalid", f"{name} must be a number from 0 to {most:g}, got {brief(value)}", name)
    for name in ("learn_holdout",):
        if not isinstance(getattr(own, name), bool):
            raise ServiceError("invalid", f"{name} must be true or false, got {brief(getattr(own, name))}", name)
    seconds_of("accept", own.accept)
    seconds_of("age_unit", own.age_unit)
    if own.sticky is not None:
        seconds_of("sticky", own.sticky)
    _check_baseline(d, own.baseline)
    inference_of(d, own)
    forget_of(own)
    observed = {node.name: node for node in d.of_kind("observed")}
    if isinstance(own.horizon, Mapping):
        for name in own.horizon:
            _check_node("horizon", name, observed)
    if own.absent is not None:
        if not isinstance(own.absent, Mapping):
            raise ServiceError("invalid", f"absent must be values by node, got {brief(own.absent)}", "absent")
        for name, value in own.absent.items():
            node = observed[_check_node("absent", name, observed)]
            if value is not None and node.index(value) is None:
                message = f"absent: {name!r} must be null or one of {node.allowed()}, got {brief(value)}"
                raise ServiceError("invalid", message, "absent")
    horizons_of(d, own)
    return own


def _plain(value: Any) -> Any:
    """Return a setting as JSON has it."""
    if isinstance(value, datetime.timedelta):
        return value.total_seconds()
    if isinstance(value, Forget):
        return value.settings["half_life"]
    if isinstance(value, Inference):
        return {"name": name_of(value), **value.settings}
    if isinstance(value, Mapping):
        return {str(key): _plain(own) for key, own in value.items()}
    return value


def _check_node(setting: str, name: Any, observed: Mapping[str, Any]) -> str:
    if name not in observed:
        listed = ", ".join(observed) or "none"
        message = f"{setting} must name observed nodes ({listed}), got {brief(name)}"
        raise ServiceError("invalid", message, setting)
    return str(name)


def _check_baseline(d: Diagram, baseline: Any) -> None:
    if isinstance(baseline, Mapping):
        try:
            model = compile(d)
            contexts = {n.name: n.values[0] for n in model.contexts if n.features is None}
            if not any(n.features is not None for n in model.contexts):
                model.action_vector(dict(baseline), contexts)
        except IdbanditsError as error:
            raise ServiceError("invalid", f"baseline: {error}", "baseline") from None
    elif baseline not in BASELINES:
        message = f"baseline must be 'uniform', 'caller' or an action, got {brief(baseline)}"
        raise ServiceError("invalid", message, "baseline")


def inference_of(d: Diagram, own: Settings) -> Inference:
    """Return the inference of an experiment."""
    given = default_inference(d) if own.inference is None else own.inference
    name, settings = (given, {}) if isinstance(given, str) else (given.get("name"), {**given})
    settings.pop("name", None)
    if name not in BY_NAME:
        raise ServiceError("invalid", f"inference must be one of {', '.join(BY_NAME)}, got {brief(name)}", "inference")
    try:
        return BY_NAME[name](**settings)
    except ODD as error:
        raise ServiceError("invalid", f"inference {name!r}: {error}", "inference") from None


def forget_of(own: Settings) -> Forget | None:
    """Return how an experiment forgets."""
    if own.forget is None:
        return None
    try:
        forget = Forget(own.forget)
    except IdbanditsError as error:
        raise ServiceError("invalid", f"forget: {error}", "forget") from None
    if not forget.by_time:
        raise ServiceError("invalid", f"forget must be a duration such as '14d', got {own.forget!r}", "forget")
    return forget


class Horizons(NamedTuple):
    """When each observed node of a round is known, in seconds after it was shown."""

    by_node: dict[str, float]
    stages: tuple[float, ...]  # different horizons, ascending
    delayed: dict[str, list[str]]  # by latent outcome: the nodes that show whether it has come


def horizons_of(d: Diagram, own: Settings) -> Horizons:
    """Return the horizons of a diagram; those of `idb.delayed` nodes are their ages, unless they are given."""
    observed, delayed = [node.name for node in d.of_kind("observed")], dict[str, list[str]]()
    given = own.horizon if isinstance(own.horizon, Mapping) else {}
    usual = seconds_of("horizon", HORIZON if isinstance(own.horizon, Mapping) else own.horizon)
    unit, by_node = seconds_of("age_unit", own.age_unit), dict[str, float]()
    for name in observed:
        match = DELAYED.fullmatch(name)
        outcome = d.nodes.get(match["outcome"]) if match else None
        is_delayed = outcome is not None and outcome.kind == "latent" and f"{outcome.name} delay" in d.nodes
        if match is not None and outcome is not None and is_delayed:
            delayed.setdefault(outcome.name, []).append(name)
        if name in given:
            by_node[name] = seconds_of("horizon", given[name])
        elif match is not None and is_delayed:
            by_node[name] = _age(name, match["age"], unit)
        else:
            by_node[name] = usual
    return Horizons(by_node, tuple(sorted(set(by_node.values()))), delayed)


def _age(name: str, text: str, unit: float) -> float:
    try:
        return float(text) * unit
    except ValueError:
        message = f"horizon must have the age of {name!r}, as {text!r} is not a number"
        raise ServiceError("invalid", message, "horizon") from None
