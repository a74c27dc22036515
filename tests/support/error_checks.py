"""Checks of errors that the library raises."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from idbandits.errors import IdbanditsError
from internals import knowledge


def assert_raises(error: type[Exception], words: Sequence[str], do: Callable[[], Any]) -> None:
    """Assert that a call raises exactly this error, with a short message that contains these words."""
    with pytest.raises(IdbanditsError) as raised:
        do()
    assert raised.type is error, raised.value
    message = str(raised.value)
    missing = [word for word in words if word not in message]
    assert not missing, (missing, message)
    assert len(message) < 600


def assert_rejected_by(learner: Any, error: type[Exception], words: Sequence[str], do: Callable[[], Any]) -> None:
    """Assert that a call raises this error and leaves the learner unchanged."""
    before = knowledge(learner)
    assert_raises(error, words, do)
    assert knowledge(learner) == before
