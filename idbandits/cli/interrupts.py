"""Ctrl-C and SIGTERM while a command runs: either ends it, also if it comes where an exception would get lost."""

import _thread
import contextlib
import signal
import sys
import threading
import time
from collections.abc import Iterator
from types import FrameType
from typing import Any

from idbandits.errors import IdbanditsError

PAUSE = 0.05  # seconds until an interruption that could not be obeyed is tried again


@contextlib.contextmanager
def interruptible() -> Iterator[None]:
    """Let SIGINT and SIGTERM raise KeyboardInterrupt; only in the main thread, where Python handles signals.

    During an import they wait, because libraries turn exceptions into others there. Where Python would only report an
    exception and go on, such as in destructors and in callbacks of C libraries, it is raised again a little later.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    imports, report, ended, repeated, raised = _imports(sys._getframe()), sys.unraisablehook, False, False, False

    def try_again() -> None:
        nonlocal repeated
        if not ended:
            repeated = True
            _thread.interrupt_main()

    def interrupt(number: int, frame: FrameType | None) -> None:
        nonlocal repeated, raised
        obeyed = repeated and isinstance(sys.exc_info()[1], KeyboardInterrupt)  # meanwhile: it is being handled
        repeated = False
        if obeyed:
            return
        if _imports(frame) <= imports:
            raised = True
            raise KeyboardInterrupt
        _after_a_pause(try_again)

    def notice(unraisable: Any) -> None:
        if issubclass(unraisable.exc_type, KeyboardInterrupt):
            _after_a_pause(try_again)
        else:
            report(unraisable)

    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM) if not ignored(number)}
    try:
        sys.unraisablehook = notice
        for number in handlers:
            signal.signal(number, interrupt)
        yield
    except Exception as error:  # C libraries may have turned the interruption into an exception of their own
        if raised and not isinstance(error, (IdbanditsError, OSError)):
            raise KeyboardInterrupt from error
        raise
    finally:
        ended = True
        sys.unraisablehook = report
        for number, handler in handlers.items():
            signal.signal(number, handler)


def ignored(number: signal.Signals) -> bool:
    """Whether who started this process wants a signal to be ignored, as shells do in the background."""
    return signal.getsignal(number) is signal.SIG_IGN


def _after_a_pause(action: Any) -> None:
    """Call a function in another thread; one without the locks of `threading`, which a signal may come between."""

    def wait() -> None:
        time.sleep(PAUSE)
        action()

    _thread.start_new_thread(wait, ())


def _imports(frame: FrameType | None) -> int:
    """How many calls of the import system a frame is below."""
    number = 0
    while frame is not None:
        number += frame.f_code.co_filename.startswith("<frozen importlib")
        frame = frame.f_back
    return number
