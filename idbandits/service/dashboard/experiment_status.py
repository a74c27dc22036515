"""Status of experiments as numbers and as a sentence, from statistics and short queries of the journal."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from idbandits.service.dashboard import formatting as show
from idbandits.service.dashboard.time_series import kind_of
from idbandits.service.journal.records import CALLER, HOLDOUT, POLICY
from idbandits.service.journal.store import Store
from idbandits.service.json_text import decoded
from idbandits.service.live.gain import Gain, SampleRatio
from idbandits.service.live.live import Live
from idbandits.service.live.statistics import HOUR, Cell, Statistics

LATEST = 2000  # closed decisions whose reports are examined
BEHIND = 60.0  # seconds of lag above which an experiment is not up to date
ALARM = 0.01  # p-value of the sample-ratio test


class Mean(NamedTuple):
    """Mean reward of an arm, of rounds whose reward is known."""

    value: float | None
    half: float | None  # half the width of the pointwise interval of 95 %
    rounds: int


class Received(NamedTuple):
    """Reports on the latest closed decisions."""

    closed: int
    reported: int
    ages: dict[str, list[float]]  # seconds from showing to an event, by kind of node, of closed rounds


class Status(NamedTuple):
    """Status of an experiment, as displayed on its pages."""

    name: str
    version: int
    state: str  # active, paused, retired
    mode: str
    rounds: int  # closed
    totals: dict[str, int]
    arms: dict[str, Mean]
    gain: Gain
    ratio: SampleRatio
    holdout: float
    behind: int
    lag: float  # seconds for which the oldest due round has waited
    agreed: tuple[int, int]
    rejected: int  # rounds that the agent did not accept
    hidden: bool  # rewards are not observed
    horizon: float  # last horizon, in seconds

    @property
    def sentence(self) -> str:
        """Summary of the status in one sentence."""
        if self.totals["decisions"] == 0:
            return "No decisions yet."
        parts = [self.reward_words, self.gain_words]
        if self.totals["pending"]:
            parts.append(f"{show.plural(self.totals['pending'], 'round')} pending")
        parts.append("up to date" if self.is_current else f"learning is {show.duration(self.lag)} late")
        text = "; ".join(part for part in parts if part)
        return f"{text[0].upper()}{text[1:]}."

    @property
    def is_current(self) -> bool:
        """True if no due round has waited longer than `BEHIND` seconds."""
        return self.lag <= BEHIND

    @property
    def reward_words(self) -> str:
        """Mean reward, as a part of the sentence."""
        mean = self.arms.get(POLICY) or self.arms.get(CALLER)
        if self.hidden:
            return "rewards are not observed"
        if mean is None or mean.value is None:
            return "no rewards are known yet"
        return f"{show.number(mean.value)} reward per round"

    @property
    def gain_words(self) -> str:
        """Gain over the holdout, or agreement in shadow mode, as a part of the sentence."""
        if self.mode == "shadow":
            agreed, compared = self.agreed
            if not compared:
                return "shadow mode, no closed rounds to compare yet"
            return f"agrees with the caller in {show.percent(agreed / compared)} of {show.plural(compared, 'round')}"
        if not self.holdout and not self.gain.rounds.get(HOLDOUT):
            return "no holdout to compare with"
        if self.hidden:
            return ""
        gain = self.gain
        if gain.low is None or gain.high is None:
            return "gain over the holdout undecided, with too few rounds for an interval yet"
        between = f"{show.signed(gain.low)} to {show.signed(gain.high)}"
        if not gain.is_decided:
            return f"gain over the holdout undecided ({between})"
        verb = "gains" if gain.low > 0 else "loses"
        assert gain.estimate is not None
        return f"{verb} {show.number(abs(gain.estimate))} per round against the holdout ({between})"


def status_of(live: Live, name: str) -> Status:
    """Return the status of an experiment."""
    view, replica = live.view(name), live.replica(name)
    statistics, settings, now = replica.statistics, view.version.settings, live.clock()
    behind = live.journal.behind(name, view.position)
    state = live.journal.experiments()[name][0]
    arms = means_by_arm(live, name)
    rounds = statistics.rounds
    rewarded = sum(cell.rewarded for cell in dict(statistics.cells).values())
    is_old = now - view.version.stages[-1] > min((_hour(key) for key in dict(statistics.cells)), default=now)
    return Status(
        name, view.version.number, state, settings.mode, rounds, live.journal.totals(name), arms, live.gain(name),
        live.sample_ratio(name), settings.holdout, behind, live.lag(name),
        (statistics.agreed, statistics.compared), replica.rejected, rounds > 0 and rewarded == 0 and is_old,
        view.version.stages[-1],
    )  # fmt: skip


def _hour(key: str) -> float:
    return int(key.split("|")[0]) * HOUR


def is_complete_in(live: Live, name: str) -> Any:
    """Return a function (version, end of an hour): True if all rounds of the hour have reached their last horizon."""
    now = live.clock()
    return lambda version, end: end + live.version(name, version).stages[-1] <= now


def means_by_arm(live: Live, name: str) -> dict[str, Mean]:
    """Return the mean reward of each arm over hours whose rewards are complete."""
    is_complete, sums = is_complete_in(live, name), dict[str, Any]()
    for key, cell in dict(live.replica(name).statistics.cells).items():
        hour, arm, version = key.split("|")
        if is_complete(int(version), (int(hour) + 1) * HOUR):
            sums[arm] = sums.get(arm, 0.0) + np.array([cell.rewarded, cell.reward, cell.square])
    return {arm: _mean(*total.tolist()) for arm, total in sorted(sums.items(), reverse=True)}


def _mean(count: float, reward: float, square: float) -> Mean:
    if count < 1:
        return Mean(None, None, 0)
    mean = reward / count
    half = None if count < 2 else 1.96 * float(np.sqrt(max(square / count - mean**2, 0.0) / (count - 1)))
    return Mean(mean, half, int(count))


def cells_of(statistics: Statistics) -> dict[str, Cell]:
    """Return a copy of the cells of statistics that another thread updates."""
    return dict(statistics.cells)


LATEST_ROUNDS = (
    "SELECT o.shown, d.at, o.events FROM decisions AS d JOIN outcomes AS o ON o.n = d.n "
    "WHERE d.experiment = ? AND {} ORDER BY d.n DESC LIMIT ?"
)
LATEST_LEARNED = LATEST_ROUNDS.format("(o.learned IS NOT NULL OR o.state = 'closed')")
LATEST_CLOSED = LATEST_ROUNDS.format("o.state = 'closed'")  # others lack late events


def received_of(store: Store, name: str) -> Received:
    """Return what was reported of the latest rounds that were learned, and when it happened in closed ones."""
    with store.transaction(write=False) as transaction:
        learned = transaction.all(LATEST_LEARNED, (name, LATEST))
        closed = transaction.all(LATEST_CLOSED, (name, LATEST))
    ages: dict[str, list[float]] = {}
    for shown, at, events in closed:
        for node, value, when, _ in decoded(events) or ():
            if value not in (None, 0, False):
                ages.setdefault(kind_of(node), []).append(when - (at if shown is None else shown))
    return Received(len(learned), sum(events is not None for _, _, events in learned), ages)
