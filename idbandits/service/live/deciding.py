"""Decisions: draw the arm, choose an action, and build the row to store."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, final

import numpy as np

from idbandits.errors import ActionError
from idbandits.kernel.array_types import Rng
from idbandits.service.journal.journal import Journal
from idbandits.service.journal.records import CALLER, DEFERRED, HOLDOUT, OPEN, POLICY, DecisionRow
from idbandits.service.json_text import decoded, digest_of, encoded
from idbandits.service.live.choosing import fixed_action, uniform_action
from idbandits.service.live.replica import LIBRARY, View
from idbandits.service.live.settings import Settings, seconds_of
from idbandits.service.service_errors import ServiceError


class Request(NamedTuple):
    """Arguments of `Live.decide`."""

    context: Mapping[str, Any] | None = None
    allowed: Any = None
    id: str | None = None
    unit: str | None = None
    action: Mapping[str, Any] | None = None  # the caller's action, in shadow mode or for a holdout
    deferred: bool = False  # learn only if the decision is reported as shown


def digest_of_request(request: Request) -> str:
    """Return a digest of a request without its id."""
    return digest_of([request.context, request.allowed, request.unit, request.action, request.deferred])


@final
class Decider:
    """Makes decisions with the random numbers of one process; other processes have different random numbers."""

    def __init__(self, journal: Journal, clock: Callable[[], float], random: Rng) -> None:
        self._journal, self._clock, self._random = journal, clock, random

    def row(self, experiment: str, seed: int, id: str, view: View, request: Request) -> DecisionRow:
        """Return the row of a new decision."""
        version, settings, now = view.version, view.version.settings, self._clock()
        context = None if request.context is None else dict(request.context)
        draw = self._random.bit_generator.random_raw() >> 1  # equals `integers(2**63)`, which takes five times as long
        if settings.sticky is not None and request.unit is not None:
            earlier = self._repeated(experiment, view, request, now)
        else:
            earlier = None
        arm = self._arm(seed, settings, request.unit)
        proposed, learns = None, int(settings.mode != "frozen")
        if settings.mode == "shadow":
            arm = CALLER
        if earlier is not None and arm != CALLER:
            action, policy_seed, arm = decoded(earlier.action), None, earlier.arm
        elif arm == POLICY:
            action, policy_seed = view.agent.act(context, allowed=request.allowed, seed=draw), draw
        else:
            proposed_action = view.agent.act(context, allowed=request.allowed, seed=draw)
            proposed, policy_seed = encoded(proposed_action), draw
            action = self._other_action(arm, view, request, context, draw)
        if arm == HOLDOUT and not settings.learn_holdout:
            learns = 0
        shown = None if request.deferred else now
        due = None if shown is None else now + version.stages[0]
        return DecisionRow(
            n=0, experiment=experiment, id=id, version=version.number, arm=arm, learns=learns, unit=request.unit,
            action=encoded(action), proposed=proposed, context=None if context is None else encoded(context),
            allowed=None if request.allowed is None else encoded(request.allowed), at=now, shown=shown,
            position=view.position, seed=policy_seed, library=LIBRARY, digest=digest_of_request(request), due=due,
            state=DEFERRED if request.deferred else OPEN,
        )  # fmt: skip

    def _arm(self, seed: int, settings: Settings, unit: str | None) -> str:
        """Draw the policy or the holdout; a unit always gets one arm."""
        if settings.holdout == 0.0:
            return POLICY
        if unit is None:
            return HOLDOUT if self._random.random() < settings.holdout else POLICY
        text = f"{seed}|{unit}".encode()
        share = int.from_bytes(hashlib.blake2b(text, digest_size=8).digest()) / 2**64
        return HOLDOUT if share < settings.holdout else POLICY

    def _other_action(
        self, arm: str, view: View, request: Request, context: dict[str, Any] | None, seed: int
    ) -> dict[str, Any]:
        """Return the caller's action or the action of the baseline."""
        model, baseline = view.version.model, view.version.settings.baseline
        eligible = view.agent.eligible(request.allowed)
        if arm == CALLER or baseline == "caller":
            if request.action is None:
                raise ServiceError(
                    "invalid", "action must be the caller's action in this experiment, got none", "action"
                )
            try:
                model.action_vector(dict(request.action), context)
            except ActionError as error:
                raise ServiceError("invalid", str(error), "action") from None
            return {node.name: request.action[node.name] for node in model.decisions}
        fixed = None if baseline == "uniform" else fixed_action(model, dict(baseline), eligible)
        action = fixed or uniform_action(model, eligible, np.random.default_rng(seed))
        return action or view.agent.act(context, allowed=request.allowed, seed=seed)

    def _repeated(self, experiment: str, view: View, request: Request, now: float) -> DecisionRow | None:
        """Return the decision whose action the unit gets again; None if the unit gets a new action.

        The decision is recent, of the present version and with an equal context, and its action is eligible.
        """
        assert request.unit is not None
        since = now - seconds_of("sticky", view.version.settings.sticky)
        earlier = self._journal.latest_of_unit(experiment, request.unit, since)
        if earlier is None or earlier.version != view.version.number:
            return None
        if earlier.context != (None if request.context is None else encoded(request.context)):
            return None
        eligible = view.agent.eligible(request.allowed)
        return earlier if fixed_action(view.version.model, decoded(earlier.action), eligible) is not None else None
