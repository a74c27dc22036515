"""The commands and the Python client of docs/how-to/serving.md, run as they are written, against a real server."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "serving.md"
SECONDS = 180


def blocks(language: str) -> list[str]:
    """Return the code blocks of a language."""
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE.read_text(), flags=re.MULTILINE | re.DOTALL)


@pytest.fixture
def port() -> str:
    """Return a port that nobody listens on."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return str(free.getsockname()[1])


def test_the_commands_of_the_page_work_one_after_the_other(port: str, tmp_path: Path) -> None:
    start, *others = (block.replace("8080", port) for block in blocks("sh"))
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = os.environ | {"PATH": path, "PYTHONPATH": str(PAGE.parents[1])}
    command = start.strip().removesuffix("&").split()
    server = subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=subprocess.DEVNULL)
    try:
        ends = time.monotonic() + SECONDS
        while not is_ready(port):
            assert server.poll() is None, "the server ended"
            assert time.monotonic() < ends, "the server did not become ready"
            time.sleep(0.1)
        answers = list[str]()
        for block in others:
            script = f"set -euo pipefail\n{block}"
            done = subprocess.run(
                ["bash", "-c", script], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=SECONDS
            )
            assert done.returncode == 0, done.stderr
            answers.append(done.stdout)
        assert json.loads(answers[0])["version"] == 1
        decision, outcome, shown = (json.loads(text) for text in split(answers[1]))
        assert decision["id"] == "request-1"
        assert sorted(decision["action"].values()) == ["milk", "tea"]
        assert outcome["status"] == "accepted"
        assert shown["status"] == "online"
        (client,) = blocks("py")
        code = client.replace("8080", port)
        done = subprocess.run(
            [sys.executable, "-c", code], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=SECONDS
        )
        assert done.returncode == 0, done.stderr
        ends = time.monotonic() + SECONDS
        address = f"http://127.0.0.1:{port}/v1/experiments/shop"
        while (known := json.load(urllib.request.urlopen(address)))[
            "closed"
        ] < 2:  # of the two rounds that are complete
            assert time.monotonic() < ends, known
            time.sleep(0.1)
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait(SECONDS)


def split(text: str) -> list[str]:
    """Return the JSON values that commands wrote one after the other."""
    decoder, values, at = json.JSONDecoder(), list[str](), 0
    while at < len(text):
        _, end = decoder.raw_decode(text, at)
        values.append(text[at:end])
        at = end + len(text[end:]) - len(text[end:].lstrip())
    return values


def is_ready(port: str) -> bool:
    """Return whether the server can decide."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=5) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False
