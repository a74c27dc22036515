"""Bodies of requests and answers as structs, which msgspec decodes and validates in one pass."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, UnsetType

from idbandits.service.live.inputs import LONGEST_ID, NAME

NUMBER = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
Label = str | NUMBER | float | bool
Id = Annotated[str, Meta(min_length=1, max_length=LONGEST_ID)]
Name = Annotated[str, Meta(pattern=f"^{NAME.pattern}$")]
Context = dict[str, Label | dict[str, Label | None] | None]
Allowed = list[Label] | dict[str, list[Label]]
Timed = Annotated[list[Label | None], Meta(min_length=2, max_length=2)]  # value and time; garbage collection of tuple
# types crashes msgspec 0.22
When = str | float  # ISO 8601 with a time zone, or seconds from 1970
MOST_BATCH = 1000


class Body(msgspec.Struct, forbid_unknown_fields=True):
    """Base of bodies of requests."""


class NewExperiment(Body, omit_defaults=True):
    """Diagram and settings of an experiment."""

    diagram: msgspec.Raw
    inference: str | dict[str, Any] | None = None
    forget: str | None = None
    effort: float | UnsetType = UNSET
    mode: str | UnsetType = UNSET
    horizon: str | float | dict[str, str | float] | UnsetType = UNSET
    age_unit: str | float | UnsetType = UNSET
    absent: dict[str, Label | None] | None = None
    accept: str | float | UnsetType = UNSET
    holdout: float | UnsetType = UNSET
    baseline: str | dict[str, Label] | UnsetType = UNSET
    learn_holdout: bool | UnsetType = UNSET
    sticky: str | float | None = None


class DecisionRequest(Body):
    """Request of a decision."""

    context: Context | None = None
    allowed: Allowed | None = None
    id: Id | None = None
    unit: Id | None = None
    action: dict[str, Label] | None = None
    deferred: bool = False


class OutcomeReport(Body):
    """Outcome of a decision: values by node; a time instead of a value means that the node took its last state then."""

    decision: Id
    values: dict[str, Label | Timed | None] | None = None
    at: When | None = None
    complete: bool = False


class ShownTime(Body):
    """Time at which a deferred decision was shown."""

    at: When | None = None


class ShownReport(Body):
    """Deferred decision that was shown, and the time."""

    decision: Id
    at: When | None = None


class DecisionBatch(Body):
    """Requests of several decisions."""

    decisions: Annotated[list[DecisionRequest], Meta(max_length=MOST_BATCH)]


class OutcomeBatch(Body):
    """Several outcomes."""

    outcomes: Annotated[list[OutcomeReport], Meta(max_length=MOST_BATCH)]


class ReplayRequest(Body):
    """Dead letters to report again."""

    limit: Annotated[int, Meta(ge=1, le=10_000)] = 1000


class Problem(msgspec.Struct, omit_defaults=True):
    """Error, as RFC 9457 describes it; `field` names the part of the request."""

    type: str
    title: str
    status: int
    detail: str
    field: str | None = None


class DecisionAnswer(msgspec.Struct):
    """Action to show; its arm says who chose it: policy, holdout or caller."""

    id: str
    action: dict[str, Label]
    version: int
    arm: str


class OutcomeAnswer(msgspec.Struct):
    """Answer to an outcome: accepted, or unchanged for a repeat."""

    status: str


class DecisionAnswers(msgspec.Struct):
    """A decision or a problem for each request, in their order."""

    decisions: list[Any]


class OutcomeAnswers(msgspec.Struct):
    """An answer or a problem for each outcome, in their order."""

    outcomes: list[Any]


class VersionAnswer(msgspec.Struct):
    """Version that the request created, or the latest version if it is equal."""

    name: str
    version: int
    created: bool


class ExperimentSummary(msgspec.Struct):
    """Entry of the list of experiments."""

    name: str
    status: str
    created: float


class ExperimentList(msgspec.Struct):
    """All experiments."""

    experiments: list[ExperimentSummary]


class ExperimentAnswer(msgspec.Struct):
    """State of an experiment."""

    name: str
    version: int
    status: str
    mode: str
    rounds: float
    closed: int
    decisions: int
    pending: int
    impossible: int
    letters: int
    behind: int
    lag: float
    position: int
    settings: dict[str, Any]
    created: float


class TableBelief(msgspec.Struct):
    """Belief of a learned table: an entry per row, or per row and state if there are more than two states."""

    axes: list[str]
    rows: list[list[Any]]
    mean: list[float]
    sd: list[float]
    low: list[float] = msgspec.field(name="5 %")
    high: list[float] = msgspec.field(name="95 %")
    rounds: list[float | None]


class Beliefs(msgspec.Struct):
    """Beliefs of all learned tables, by name."""

    version: int
    position: int
    tables: dict[str, TableBelief]


class StoredEvent(msgspec.Struct):
    """Reported value of an observed node."""

    node: str
    value: Any
    at: float
    received: float


class StoredDecision(msgspec.Struct):
    """Decision with everything that was reported about it."""

    experiment: str
    id: str
    version: int
    arm: str
    learns: bool
    unit: str | None
    action: dict[str, Any]
    proposed: dict[str, Any] | None
    context: dict[str, Any] | None
    allowed: Any
    at: float
    shown: float | None
    position: int
    seed: int | None
    library: str
    due: float | None
    complete: bool
    state: str
    learned: dict[str, Any] | None
    reward: float | None
    revision: int
    events: list[StoredEvent]


class ProbabilityAnswer(msgspec.Struct):
    """Probability of a decision's action, estimated by draws from the belief at its time."""

    id: str
    arm: str
    probability: float
    standard_error: float
    upper: float
    draws: int
    holdout: float
    position: int
    seed: int
    library: str
    reproduced: bool


class DeadLetter(msgspec.Struct):
    """Rejected outcome."""

    n: int
    received: float
    reason: str
    message: str
    body: Any
    replayed: float | None


class DeadLetters(msgspec.Struct):
    """Dead letters that were not replayed, the oldest first."""

    letters: list[DeadLetter]


class ReplayAnswer(msgspec.Struct):
    """Answers to dead letters that were reported again."""

    accepted: int
    unchanged: int
    rejected: dict[str, int]


class HealthAnswer(msgspec.Struct):
    """State of a worker: ok or ready; otherwise the answer is a problem."""

    status: str
