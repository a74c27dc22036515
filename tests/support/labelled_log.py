"""Diagram with labels of all kinds, and a log of four rounds."""

from __future__ import annotations

from idbandits import Diagram


def tea_room() -> Diagram:
    """Return a diagram with labelled decisions and states, a context, a latent node and a node of three states."""
    d = Diagram("tea room")
    segment = d.context("segment", ["new", "loyal"])
    first = d.decision("first", ["tea", "coffee", "juice"])
    second = d.decision("second", ["juice", "tea", "water"])
    taste = d.latent("taste", [first, segment])
    d.reward(d.observed("sip", [taste], [0.1, 0.9]))
    mood = d.observed("mood", [second], states=["bad", "fair", "good"])
    d.reward(mood, lambda m: {"bad": 0.0, "fair": 0.5, "good": 1.0}[m])
    d.observed("size", [first], states=[10, 20])
    d.all_different()
    return d


ACTIONS = {"first": ["tea", "coffee", "tea", "juice"], "second": ["juice", "water", "water", "tea"]}
SEEN = {"sip": [1, 0, None, 1], "mood": ["bad", None, "good", "fair"], "size": [10, 20, 20, None]}
CONTEXTS = {"segment": ["new", "new", "loyal", "new"]}
