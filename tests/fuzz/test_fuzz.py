"""Short fuzz tests with fixed seeds; CONTRIBUTING.md describes longer runs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def run(*arguments: object, limit: float = 900) -> None:
    """Run a fuzz test in a separate process, which must find nothing; the timeout detects hangs."""
    command = [sys.executable, "-m", "tests.fuzz", *map(str, arguments)]
    attack = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, errors="replace", timeout=limit, check=False
    )
    assert attack.returncode == 0, f"{attack.stdout[-6000:]}\n{attack.stderr[-3000:]}"


@pytest.mark.parametrize("seed", [1, 2])
def test_no_call_crashes_hangs_raises_a_raw_exception_or_changes_anything_when_it_fails(seed: int) -> None:
    run("calls", "--seed", seed, "--calls", 4_000, "--workers", 1, "--patience", 120)


def test_interruptions_end_calls_as_exceptions_and_leave_no_round_half_learned() -> None:
    # When compiled code received a Generator, 88 of 200 processes died by a signal, and all that got 100 alarms.
    # A failure rate of one in fifty would be detected in 98 of 100 runs.
    run("interruptions", "--processes", 200, "--alarms", 100)


def test_threads_share_an_agent_as_if_there_were_only_one() -> None:
    run("threads", "--rounds", 80)


def test_malformed_logs_are_read_or_rejected_by_errors_that_name_them() -> None:
    run("logs", "--cases", 120, "--bombs", 0)


@pytest.mark.parametrize("name", ["line.csv.zst", "header.csv.zst", "nested.jsonl.zst", "long.parquet"])
def test_small_files_that_expand_to_gigabytes_are_rejected_with_little_memory(name: str, tmp_path: Path) -> None:
    from .log_attacks import bomb

    wrong, _ = bomb(name, "wide", 2_000, tmp_path, limit=1_200)
    assert wrong is None
