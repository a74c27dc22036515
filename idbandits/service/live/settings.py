"""Settings of an experiment and their validation."""

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
    """Settings of a version, as JSON data."""

    inference: Any = None  # a name, or {"name": …} with its settings; None: the default of the diagram
    forget: str | None = None  # half-life
    effort: float = 1.0
    mode: str = "online"
    horizon: Any = HORIZON  # duration, or durations by observed node
    age_unit: str = "1d"  # of the ages of `idb.delayed`
    absent: Mapping[str, Any] | None = None  # value by node without an event by its horizon; None: not observed
    accept: str = ACCEPTED  # duration after the last horizon in which a round may be corrected
    holdout: float = 0.0
    baseline: Any = "uniform"  # of the holdout: "uniform", "caller", or an action
    learn_holdout: bool = False
    sticky: str | None = None  # duration for which a unit gets its action again

    def to_data(self) -> dict[str, Any]:
        """Return the settings that differ from their defaults."""
        return {name: value for name, value in self._asdict().items() if value != self._field_defaults[name]}


def seconds_of(name: str, value: Any) -> float:
    """Convert a duration ("30m", "7d", a timedelta or a number of seconds) to seconds; `name` is the setting."""
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


def duration_text(seconds: float) -> str:
    """Return a duration in its largest unit, such as "15 d"."""
    unit = next((name for name in "dhm" if seconds >= UNITS[name]), "s")
    return f"{seconds / UNITS[unit]:.3g} {unit}"


def checked_settings(d: Diagram, values: Mapping[str, Any]) -> Settings:
    """Validate settings for a diagram; `values` are those that differ from the defaults."""
    if unknown := [name for name in values if name not in Settings._fields]:
        listed = ", ".join(Settings._fields)
        raise ServiceError("invalid", f"settings must be among {listed}, got {brief(unknown[0])}", str(unknown[0]))
    settings = Settings(**{name: _json_value(value) for name, value in values.items()})
    if settings.mode not in MODES:
        raise ServiceError("invalid", f"mode must be one of {', '.join(MODES)}, got {brief(settings.mode)}", "mode")
    for name, value, most in (("holdout", settings.holdout, 0.9), ("effort", settings.effort, 1000.0)):
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= most:
            raise ServiceError("invalid", f"{name} must be a number from 0 to {most:g}, got {brief(value)}", name)
    for name in ("learn_holdout",):
        if not isinstance(getattr(settings, name), bool):
            raise ServiceError("invalid", f"{name} must be true or false, got {brief(getattr(settings, name))}", name)
    seconds_of("accept", settings.accept)
    seconds_of("age_unit", settings.age_unit)
    if settings.sticky is not None:
        seconds_of("sticky", settings.sticky)
    _check_baseline(d, settings.baseline)
    inference_of(d, settings)
    forget_of(settings)
    observed = {node.name: node for node in d.of_kind("observed")}
    if not observed:
        raise ServiceError("invalid", "diagram must have an observed node, or there is nothing to learn", "diagram")
    if isinstance(settings.horizon, Mapping):
        for name in settings.horizon:
            _check_node("horizon", name, observed)
    if settings.absent is not None:
        if not isinstance(settings.absent, Mapping):
            raise ServiceError("invalid", f"absent must be values by node, got {brief(settings.absent)}", "absent")
        for name, value in settings.absent.items():
            node = observed[_check_node("absent", name, observed)]
            if value is not None and node.index(value) is None:
                message = f"absent: {name!r} must be null or one of {node.allowed()}, got {brief(value)}"
                raise ServiceError("invalid", message, "absent")
    horizons_of(d, settings)
    return settings


def _json_value(value: Any) -> Any:
    """Convert the value of a setting to JSON data."""
    if isinstance(value, datetime.timedelta):
        return value.total_seconds()
    if isinstance(value, Forget):
        return value.settings["half_life"]
    if isinstance(value, Inference):
        return {"name": name_of(value), **value.settings}
    if isinstance(value, Mapping):
        return {str(key): _json_value(element) for key, element in value.items()}
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


def inference_of(d: Diagram, settings: Settings) -> Inference:
    """Return the inference of an experiment."""
    setting = default_inference(d) if settings.inference is None else settings.inference
    arguments = {**setting} if isinstance(setting, Mapping) else {"name": setting}
    name = arguments.pop("name", None)
    if not isinstance(name, str) or name not in BY_NAME:
        raise ServiceError("invalid", f"inference must be one of {', '.join(BY_NAME)}, got {brief(name)}", "inference")
    try:
        return BY_NAME[name](**arguments)
    except ODD as error:
        raise ServiceError("invalid", f"inference {name!r}: {error}", "inference") from None


def forget_of(settings: Settings) -> Forget | None:
    """Return the forgetting of an experiment; None if nothing is forgotten."""
    if settings.forget is None:
        return None
    try:
        forget = Forget(settings.forget)
    except IdbanditsError as error:
        raise ServiceError("invalid", f"forget: {error}", "forget") from None
    if not forget.by_time:
        raise ServiceError("invalid", f"forget must be a duration such as '14d', got {settings.forget!r}", "forget")
    return forget


class Horizons(NamedTuple):
    """Ages at which observed nodes of a round are known, in seconds since the decision was shown."""

    by_node: dict[str, float]
    stages: tuple[float, ...]  # distinct horizons, ascending
    delayed: dict[str, list[str]]  # observed nodes of each latent outcome of `idb.delayed`


def horizons_of(d: Diagram, settings: Settings) -> Horizons:
    """Return the horizons of the nodes of a diagram.

    The setting `horizon` comes first; the default of an `idb.delayed` node is its age.
    """
    observed, delayed = [node.name for node in d.of_kind("observed")], dict[str, list[str]]()
    durations = settings.horizon if isinstance(settings.horizon, Mapping) else {}
    default = seconds_of("horizon", HORIZON if isinstance(settings.horizon, Mapping) else settings.horizon)
    unit, by_node = seconds_of("age_unit", settings.age_unit), dict[str, float]()
    for name in observed:
        match = DELAYED.fullmatch(name)
        outcome = d.nodes.get(match["outcome"]) if match else None
        is_delayed = outcome is not None and outcome.kind == "latent" and f"{outcome.name} delay" in d.nodes
        if match is not None and outcome is not None and is_delayed:
            delayed.setdefault(outcome.name, []).append(name)
        if name in durations:
            by_node[name] = seconds_of("horizon", durations[name])
        elif match is not None and is_delayed:
            by_node[name] = _age(name, match["age"], unit)
        else:
            by_node[name] = default
    return Horizons(by_node, tuple(sorted(set(by_node.values()))), delayed)


def _age(name: str, text: str, unit: float) -> float:
    try:
        return float(text) * unit
    except ValueError:
        message = f"horizon must have the age of {name!r}, as {text!r} is not a number"
        raise ServiceError("invalid", message, "horizon") from None
