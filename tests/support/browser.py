"""Headless Chromium, controlled through pipes by the DevTools protocol."""

from __future__ import annotations

import json
import os
import selectors
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome")
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--remote-debugging-pipe",
]
SECONDS = 60.0  # that an answer may take


def chromium() -> str | None:
    """Return the path of Chromium, None if it is not installed."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


class Browser:
    """One tab of a browser."""

    def __init__(self, process: subprocess.Popen[bytes], write: int, read: int) -> None:
        self._process, self._write, self._read = process, write, read
        self._number, self._session, self._rest = 0, None, b""
        self.events: list[dict[str, Any]] = []
        self._selector = selectors.DefaultSelector()
        self._selector.register(read, selectors.EVENT_READ)
        target = self.do("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.do("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.do(f"{domain}.enable")

    def do(self, method: str, **values: Any) -> dict[str, Any]:
        """Run a command of the protocol; return its result."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": values}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        end = time.monotonic() + SECONDS
        while time.monotonic() < end:
            own = self._next(end)
            if own.get("id") == self._number:
                if "error" in own:
                    raise AssertionError(own["error"])
                return own["result"]
            self.events.append(own)
        raise TimeoutError(method)

    def _next(self, end: float) -> dict[str, Any]:
        while b"\0" not in self._rest:
            if not self._selector.select(max(0.0, end - time.monotonic())):
                raise TimeoutError
            part = os.read(self._read, 2**20)
            if not part:
                raise EOFError("the browser ended")
            self._rest += part
        text, self._rest = self._rest.split(b"\0", 1)
        return json.loads(text)

    def look(self, *, width: int = 1280, height: int = 1600, dark: bool = False) -> None:
        """Set the size of the page, and light or dark."""
        self.do("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.do("Emulation.setEmulatedMedia", features=[scheme])

    def open(self, address: str) -> None:
        """Open a page and wait until it is loaded."""
        self.do("Page.navigate", url=address)
        self.until("document.readyState === 'complete' && location.href !== 'about:blank'")

    def value(self, expression: str) -> Any:
        """Return the value of an expression of JavaScript."""
        answer = self.do("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise AssertionError(answer["exceptionDetails"])
        return answer["result"].get("value")

    def until(self, expression: str, seconds: float = 30.0) -> None:
        """Wait until an expression is true."""
        end = time.monotonic() + seconds
        while not self.value(expression):
            assert time.monotonic() < end, f"{expression} is not true after {seconds:g} s"
            time.sleep(0.1)

    def errors(self) -> list[str]:
        """Return messages of errors, violated policies and failed requests by now."""
        self.value("1")
        found = []
        for own in self.events:
            params = own.get("params", {})
            if own["method"] == "Runtime.exceptionThrown":
                found.append(str(params["exceptionDetails"]))
            elif own["method"] == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
                found.append(params["entry"]["text"])
            elif own["method"] == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning"):
                found.append(str(params["args"]))
        return found

    def requests(self) -> list[str]:
        """Return the addresses of all requests by now."""
        return [own["params"]["request"]["url"] for own in self.events if own["method"] == "Network.requestWillBeSent"]


@contextmanager
def browser(folder: Path) -> Iterator[Browser]:
    """Start a browser with a profile in a folder."""
    path = chromium()
    assert path is not None
    command_read, command_write = os.pipe()
    answer_read, answer_write = os.pipe()
    shell = f'exec "$0" "$@" 3<&{command_read} 4>&{answer_write}'
    process = subprocess.Popen(
        ["bash", "-c", shell, path, *FLAGS, f"--user-data-dir={folder}"],
        pass_fds=(command_read, answer_write), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    os.close(command_read)
    os.close(answer_write)
    try:
        own = Browser(process, command_write, answer_read)
        yield own
        own.do("Browser.close")
        process.wait(SECONDS)
    finally:
        process.kill()
        process.wait()
        os.close(command_write)
        os.close(answer_read)
