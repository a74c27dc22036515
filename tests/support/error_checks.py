"""What is expected of every error that the library raises."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from idbandits.errors import IdbanditsError
from internals import knowledge


def assert_raises(error: type[Exception], words: Sequence[str], do: Callable[[], Any]) -> None:
    """A mistake raises exactly this error; its message is short and contains these words."""
    with pytest.raises(IdbanditsError) as raised:
        do()
    assert raised.type is error, raised.value
    message = str(raised.value)
    missing = [word for word in words if word not in message]
    assert not missing, (missing, message)
    assert len(message) < 600


def assert_rejected_by(learner: Any, error: type[Exception], words: Sequence[str], do: Callable[[], Any]) -> None:
    """A mistake raises an error as above, and leaves the learner as it was."""
    before = knowledge(learner)
    assert_raises(error, words, do)
    assert knowledge(learner) == before
