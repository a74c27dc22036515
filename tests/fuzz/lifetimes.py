"""Lifetimes of agents: random sequences of calls, compared with a plain list of the remaining rounds.

A failing lifetime is shortened by removing steps, and printed as a call of `lifetime.live`.
"""

from __future__ import annotations

import itertools
import time
import traceback
import warnings
from collections.abc import Sequence

import numpy as np

from lifetime import OPERATIONS, SETTINGS, Step, live
from lifetime_rounds import Setting
from lifetime_threads import learn_while_learning, learning_of, read_while_learning, reading_of

LENGTH = 60  # steps of a life
CALLS = 10  # calls of a thread


def steps_of(seed: int, number: int, without: Sequence[str]) -> list[Step]:
    """Return the steps of a lifetime, without some operations."""
    rng = np.random.default_rng([seed, number])
    names = sorted(OPERATIONS.keys() - {*without})
    return [Step(names[int(rng.integers(len(names)))], int(rng.integers(2**31))) for _ in range(LENGTH)]


def failure_of(setting: Setting, steps: Sequence[Step]) -> BaseException | None:
    """Return the failure of a lifetime, if any."""
    try:
        live(setting, steps)
    except Exception as error:
        return error
    return None


def shortened(setting: Setting, steps: list[Step]) -> list[Step]:
    """Return a lifetime that still fails and from which no step can be removed."""
    size = len(steps)
    while size:
        first = 0
        while first < len(steps):
            fewer = steps[:first] + steps[first + size :]
            if failure_of(setting, fewer) is not None:
                steps = fewer
            else:
                first += size
        size //= 2
    return steps


def main(inference: list[str], kinds: list[str], without: list[str], steps: int, seed: int, first: int) -> int:
    """Run lifetimes until a number of steps is reached for each inference; return 0 if nothing was found."""
    warnings.simplefilter("ignore")
    failed = False
    for name in inference or dict.fromkeys(setting.inference for setting in SETTINGS):
        settings = [s for s in SETTINGS if s.inference == name and (not kinds or s.kind in kinds)]
        done, wrong, start = 0, dict[Setting, int](), time.monotonic()
        for number in itertools.count(first):
            left = [setting for setting in settings if setting not in wrong]
            if done >= steps or not left:
                break
            for setting in left:
                life = steps_of(seed, number, without)
                done += len(life)
                if failure_of(setting, life) is not None:
                    wrong[setting] = number
                    show(
                        setting,
                        shortened(setting, life),
                        f"--seed {seed} --first {number}" + "".join(f" --without {w}" for w in without),
                    )
        failed |= bool(wrong)
        print(
            f"{name}: {done:,} steps in {len(settings)} settings, {len(wrong)} of them failed "
            f"({time.monotonic() - start:.0f} s)",
            flush=True,
        )
    return failed


def main_in_threads(inference: list[str], kinds: list[str], steps: int, seed: int) -> int:
    """Run random pairs of calls in threads until a number of calls is reached; return 0 if nothing was found."""
    warnings.simplefilter("ignore")
    failed, rng = False, np.random.default_rng(seed)
    for name in inference or dict.fromkeys(setting.inference for setting in SETTINGS):
        settings = [s for s in SETTINGS if s.inference == name and s.forget is None and (not kinds or s.kind in kinds)]
        done, wrong, start = 0, set[str](), time.monotonic()
        while settings and done < steps:
            setting, number = settings[int(rng.integers(len(settings)))], int(rng.integers(2**31))
            first, second = (str(rng.choice(learning_of(setting))) for _ in range(2))
            reading = str(rng.choice(reading_of(setting)))
            done += 3 * CALLS
            try:
                learn_while_learning(setting, [first, second], CALLS, number)
                second = reading
                read_while_learning(setting, first, reading, CALLS, number)
            except Exception as error:
                found = f"{setting}: {first} and {second}: {type(error).__name__}"
                if found not in wrong:
                    print(f"{found}: {' '.join(str(error).split())[:200]} (seed {number})", flush=True)
                wrong.add(found)
        failed |= bool(wrong)
        seconds = time.monotonic() - start
        print(f"{name}: {done:,} calls in two threads, {len(wrong)} sorts of failures ({seconds:.0f} s)", flush=True)
    return failed


def show(setting: Setting, steps: Sequence[Step], options: str) -> None:
    """Print a failure and how to reproduce it."""
    error = failure_of(setting, steps)
    last = traceback.extract_tb(error.__traceback__)[-1] if error is not None else None
    where = "" if last is None else f" in {last.name} ({last.filename.rsplit('/', 1)[-1]}:{last.lineno})"
    text = " ".join(str(error).split())[:300]
    calls = ", ".join(f"Step({step.operation!r}, {step.seed})" for step in steps)
    print(f"\n{setting}: {type(error).__name__}{where}: {text}")
    print(f"  live({setting!r}, [{calls}])")
    print(f"  python -m tests.fuzz lifetimes --inference {setting.inference} --kind {setting.kind} {options}")
