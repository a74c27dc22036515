"""Ctrl-C and SIGTERM during a command, including places where Python or a library would swallow the exception."""

import _thread
import contextlib
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

from idbandits.errors import IdbanditsError

PAUSE = 0.05  # seconds until a swallowed interruption is repeated


@contextlib.contextmanager
def interruptible() -> Iterator[None]:
    """Let SIGINT and SIGTERM raise KeyboardInterrupt; only in the main thread, where Python handles signals.

    During imports they wait, because libraries turn exceptions into other ones there. If Python only reports the
    exception and continues, as in destructors and in callbacks of C libraries, it is raised again after a pause.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    imports, report, ended, repeated, raised = _import_depth(sys._getframe()), sys.unraisablehook, False, False, False

    def repeat() -> None:
        nonlocal repeated
        if not ended:
            repeated = True
            _thread.interrupt_main()

    def interrupt(number: int, frame: FrameType | None) -> None:
        nonlocal repeated, raised
        is_handled = repeated and isinstance(sys.exc_info()[1], KeyboardInterrupt)  # code reacted during the pause
        repeated = False
        if is_handled:
            return
        if _import_depth(frame) <= imports:
            raised = True
            raise KeyboardInterrupt
        _after_pause(repeat)

    def notice(unraisable: Any) -> None:
        if issubclass(unraisable.exc_type, KeyboardInterrupt):
            _after_pause(repeat)
        else:
            report(unraisable)

    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    handlers = {number: handler for number, handler in handlers.items() if handler is not signal.SIG_IGN}
    try:
        sys.unraisablehook = notice
        for number in handlers:
            signal.signal(number, interrupt)
        yield
    except Exception as error:
        if raised and not isinstance(error, (IdbanditsError, OSError)):  # C libraries may convert the interruption
            raise KeyboardInterrupt from error
        raise
    finally:
        ended = True
        sys.unraisablehook = report
        for number, handler in handlers.items():
            signal.signal(number, handler)


def _after_pause(action: Callable[[], None]) -> None:
    """Call a function in another thread after a pause, without locks of `threading`, which a signal may interrupt."""

    def wait() -> None:
        time.sleep(PAUSE)
        action()

    _thread.start_new_thread(wait, ())


def _import_depth(frame: FrameType | None) -> int:
    """Return the number of calls of the import system above a frame."""
    number = 0
    while frame is not None:
        number += frame.f_code.co_filename.startswith("<frozen importlib")
        frame = frame.f_back
    return number
