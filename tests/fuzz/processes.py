"""Random calls in separate processes, and the process that watches them.

A case is a problem and a number of calls, determined by a seed and a number, so that it can be repeated alone. Before
each call, a line is written to a file, so that the parent knows the last call of a process that died or hung.
"""

from __future__ import annotations

import faulthandler
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from . import ROOT

CALLS = 50  # calls of a case
SLOW = 5.0  # seconds after which a slow call is reported
MEMORY = 12 * 2**30  # address space of a process in bytes
RECORD = 600  # bytes of the line about the current call
KINDS = {
    "Agents": 60,
    "Building": 18,
    "Worlds": 8,
    "Baselines": 8,
    "Theory": 3,
    "Commands": 3,
}  # kinds of cases with weights
ONLY = "FUZZ_ONLY"  # environment variable: run cases of these kinds only


# -- child process ---------------------------------------------------------------------------------------------------


def run_cases(seed: int, numbers: Iterator[int], folder: Path, show: Callable[[str], Any] | None = None) -> None:
    """Run cases in a separate folder; write findings to files in `folder`."""
    faulthandler.enable()
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.environ["MPLBACKEND"] = "agg"
    warnings.simplefilter("ignore")
    present = os.open(folder / "present", os.O_RDWR | os.O_CREAT)
    findings = (folder / "findings").open("a", encoding="utf-8", errors="backslashreplace")

    def tell(case: int, call: int, text: str) -> None:
        line = f"{case} {call} {text}".encode("utf-8", "backslashreplace")[: RECORD - 1]
        os.pwrite(present, line.ljust(RECORD - 1) + b"\n", 0)
        if show is not None:
            show(line.decode("utf-8", "replace"))

    def find(finding: Finding) -> None:
        print(json.dumps(asdict(finding)), file=findings, flush=True)

    warm_up()
    parent = os.getppid()
    for case in numbers:
        if os.getppid() != parent:  # the parent is gone
            return
        work = folder / "work"
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir()
        os.chdir(work)
        run_case(seed, case, tell, find)
    os.chdir(folder)
    tell(-1, 0, "done")


def warm_up() -> None:
    """Compile all kernels that calls may need."""
    from feature_diagrams import menu, shop
    from idbandits import best_action, models, simulate
    from inferences import INFERENCES, taught

    from .agents import is_able
    from .worlds import Baselines, fitting

    for featured in (menu(), shop()):
        for name in INFERENCES:
            if is_able(name, featured):
                taught(name, featured, 2).posterior()
    d = models.position_based(3, 2)
    for name in INFERENCES:
        agent = taught(name, d, 2)
        agent.update_many({n.name: [] for n in agent.diagram.of_kind("decision")}, {})
        agent.posterior()
        best_action(agent.diagram, agent.sample(), effort=0.5)
    for name in Baselines.FIT:
        world, learner = fitting(name)
        simulate(world, {name: learner}, rounds=2, runs=1, workers=1, progress=False)


def run_case(seed: int, case: int, tell: Callable[[int, int, str], None], find: Callable[[Finding], None]) -> None:
    """Make the calls of a case until one fails."""
    import numpy as np

    from . import agents, building, commands, worlds
    from .attempts import _failure, attempt

    rng = np.random.default_rng([seed, case])
    homes = (agents, building, commands, worlds)
    classes = {name: getattr(home, name) for home in homes for name in KINDS if hasattr(home, name)}
    weights = np.array(list(KINDS.values()), float)
    kind = str(rng.choice(list(KINDS), p=weights / weights.sum()))
    if kind not in os.environ.get(ONLY, kind):
        return
    tell(case, -1, f"{kind}: beginning")
    number, text = -1, f"{kind}: beginning"
    try:
        session = classes[kind](rng)
        for number in range(CALLS):
            call = session.next_call()
            text = f"{kind}: {call}"
            tell(case, number, text)
            failure, harmless, seconds = attempt(session, call)
            if seconds > SLOW:
                find(Finding(seed, case, number, text, f"slow: {call.name}", f"{seconds:.0f} s"))
            if failure is not None:
                find(Finding(seed, case, number, text, failure.what, failure.where, failure.details))
                if not harmless:
                    return
    except Exception as error:  # failure of a valid call
        failure = _failure("an error in what is valid", error)
        find(Finding(seed, case, number, text, failure.what, failure.where, failure.details))


@dataclass
class Finding:
    """Result of a call, and how to reproduce it."""

    seed: int
    case: int
    call: int
    text: str
    what: str
    where: str
    details: str = ""

    @property
    def is_failure(self) -> bool:
        """True if the finding is a failure."""
        return not self.what.startswith("slow")

    @property
    def sort(self) -> str:
        """Key that findings of one cause share."""
        return f"{self.what.partition(':')[0]} {self.what.split(':')[1].split()[0] if ':' in self.what else ''} {self.where}"

    def __str__(self) -> str:
        again = f"python -m tests.fuzz calls --seed {self.seed} --replay {self.case}"
        return f"{self.what}\n  at   {self.where}\n  call {self.text}\n  see  {again}"


# -- parent process --------------------------------------------------------------------------------------------------


@dataclass
class Watched:
    """Process that runs every n-th case and is restarted after each death."""

    seed: int
    next: int
    step: int
    last: int
    folder: Path
    process: subprocess.Popen[bytes] | None = None
    seen: bytes = b""
    since: float = field(default_factory=time.monotonic)

    def start(self) -> None:
        """Start at the next case."""
        (self.folder / "present").write_bytes(b"")
        numbers = [str(n) for n in (self.next, self.last, self.step)]
        command = [
            sys.executable,
            "-m",
            "tests.fuzz",
            "child",
            "--seed",
            str(self.seed),
            "--cases",
            *numbers,
            "--folder",
            str(self.folder),
        ]
        with (self.folder / "stderr").open("wb") as errors:
            self.process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=errors)
        self.seen, self.since = b"", time.monotonic()

    def look(self, patience: float) -> Finding | bool | None:
        """Return the status: True if running, None if done, else the cause of death."""
        assert self.process is not None
        status = self.process.poll()
        record = (self.folder / "present").read_bytes()
        if status is None:
            if record != self.seen:
                self.seen, self.since = record, time.monotonic()
            if time.monotonic() - self.since < patience * (1 if record else 10):  # longer before the first call
                return True
            self.process.send_signal(signal.SIGABRT)  # prints its stack
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        case, call, text = (*record.decode("utf-8", "replace").strip().split(" ", 2), "0", "0", "")[:3]
        if status == 0 and text.strip() == "done":
            return None
        what = (
            "hang: "
            if status is None
            else f"death by {signal.Signals(-status).name}: "
            if status < 0
            else f"exit {status}: "
        )
        self.next = (int(case) if text else self.next) + self.step
        errors = (self.folder / "stderr").read_text(errors="replace")
        lines = [line.strip() for line in errors.splitlines() if "idbandits/" in line and "File" in line]
        where = lines[0].rpartition("/idbandits/")[2] if lines else ""
        return Finding(self.seed, int(case), int(call), text.strip(), what + text[:40], where, errors[-6000:])


def watch(
    seed: int, cases: range, workers: int, patience: float, minutes: float | None, say: Callable[[str], Any]
) -> list[Finding]:
    """Run cases in several processes and return all findings."""
    findings: list[Finding] = []
    end = None if minutes is None else time.monotonic() + 60 * minutes
    memory = Path("/dev/shm")  # in memory if possible
    folder = Path(tempfile.mkdtemp(prefix="fuzz-", dir=memory if memory.is_dir() else None))
    watched = []
    for k in range(workers):
        own = folder / str(k)
        own.mkdir()
        watched.append(Watched(seed, cases.start + k, workers, cases.stop, own))
        watched[-1].start()
    running = list(watched)
    try:
        while running:
            time.sleep(0.1)
            for one in list(running):
                found = one.look(patience)
                if isinstance(found, Finding):
                    findings.append(found)
                    say(str(found))
                if found is None or (isinstance(found, Finding) and one.next >= one.last):
                    running.remove(one)
                elif isinstance(found, Finding):
                    one.start()
            if end is not None and time.monotonic() > end:
                break
    finally:
        for one in watched:
            if one.process is not None and one.process.poll() is None:
                one.process.kill()
                one.process.wait()
        for one in watched:
            path = one.folder / "findings"
            if path.exists():
                findings += [Finding(**json.loads(line)) for line in path.read_text(errors="replace").splitlines()]
        shutil.rmtree(folder, ignore_errors=True)
    return findings
