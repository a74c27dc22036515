"""Verdicts of comparisons: which model predicts best, or that this is undecided."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from idbandits.kernel.array_types import Floats

CLEAR = 3.0  # standard errors of a difference that decide


class Candidate(NamedTuple):
    """A model with its held-out and fitted log-likelihoods, one number per round."""

    name: str
    parameters: int
    impossible: int
    held_out: Floats
    fitted: float  # total log-likelihood of the rounds that it was fitted to, per fold


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

    A rival within noise leaves it undecided, unless it is richer and its additional parameters fit noise alone: then
    twice the gain of the log-likelihood that was fitted is like chi-squared with as many degrees of freedom.
    """
    best, rivals, idle = candidates[leader], list[str](), list[int]()
    for i, (rival, gap) in enumerate(zip(candidates, gaps, strict=True)):
        if i == leader or rival.impossible > best.impossible or gap.is_clear:
            continue
        extra = rival.parameters - best.parameters
        gain = 2 * (rival.fitted - best.fitted)
        if extra > 0 and gap.difference >= 0 and gain <= extra + CLEAR * np.sqrt(2 * extra):
            idle.append(i)
        else:
            rivals.append(rival.name)
    if rivals:
        names = " or ".join(map(repr, [best.name, *rivals]))
        return Verdict(None, f"Undecided between {names}: differences are within {CLEAR:g} standard errors.")
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
