"""Verdicts of comparisons: which model predicts best, or that this is undecided."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from idbandits.kernel.array_types import Floats

CLEAR = 3.0  # standard errors of a difference that decide


class Candidate(NamedTuple):
    """A model with its held-out and fitted log-likelihoods, one number per round."""

    name: str
    parameters: int
    impossible: int
    held_out: Floats
    is_baseline: bool = False


class Gap(NamedTuple):
    """Mean difference of held-out log-likelihoods per round, with its standard error."""

    difference: float
    se: float

    @property
    def is_clear(self) -> bool:
        """True if the difference is not noise."""
        return abs(self.difference) > CLEAR * self.se and self.difference != 0.0


class Verdict(NamedTuple):
    """Name of the best model, or None; and why."""

    best: str | None
    sentence: str


def leader_of(candidates: Sequence[Candidate], means: Sequence[float]) -> int:
    """Return the model with the best mean among those in which the fewest rounds are impossible."""
    least = min(candidate.impossible for candidate in candidates)
    allowed = [i for i, candidate in enumerate(candidates) if candidate.impossible == least]
    return max(allowed, key=lambda i: means[i])


def judged(candidates: Sequence[Candidate], leader: int, gaps: Sequence[Gap]) -> Verdict:
    """Return the verdict; `gaps` are from the leader to each model.

    A rival within noise leaves it undecided, even if it is richer: its additional parameters may be nearly idle in this
    log, and still be those of the truth. A baseline with more parameters is no rival unless it predicts better.
    """
    best, rivals, idle = candidates[leader], list[Candidate](), list[int]()
    for i, (rival, gap) in enumerate(zip(candidates, gaps, strict=True)):
        if i == leader or rival.impossible > best.impossible or gap.is_clear:
            continue
        if rival.is_baseline and rival.parameters > best.parameters and gap.difference >= 0:
            idle.append(i)
        else:
            rivals.append(rival)
    if rivals:
        names = " and ".join(repr(own.name) for own in (best, *rivals))
        sentence = f"Undecided between {names}: differences are within {CLEAR:g} standard errors"
        fewest = [own.name for own in (best, *rivals) if own.parameters == min(c.parameters for c in (best, *rivals))]
        return Verdict(None, sentence + (f"; {fewest[0]!r} has the fewest parameters." if len(fewest) == 1 else "."))
    others = [i for i in range(len(candidates)) if i != leader]
    if not others:
        return Verdict(best.name, f"{best.name!r} is the only model.")
    clear = [i for i in others if i not in idle]
    sentence = f"{best.name!r} predicts best"
    if clear:
        next_best = min(clear, key=lambda i: (candidates[i].impossible, gaps[i].difference))
        gap, other = gaps[next_best], candidates[next_best]
        lead = f"{gap.difference:.2g} ± {gap.se:.1g} per round over {other.name!r}"
        if other.impossible > best.impossible:
            lead = f"{other.name!r} rules out {_counted(other.impossible - best.impossible)} that it does not"
        sentence += f": {lead}"
    if idle:
        names = " and ".join(repr(candidates[i].name) for i in idle)
        verb = "has more parameters and predicts" if len(idle) == 1 else "have more parameters and predict"
        sentence += f"; {names} {verb} no better"
    return Verdict(best.name, sentence + ".")


def _counted(rounds: int) -> str:
    return "1 round" if rounds == 1 else f"{rounds:,} rounds"
