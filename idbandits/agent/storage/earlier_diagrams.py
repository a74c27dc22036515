"""Earlier diagrams in files: their rows that are retired, constants, and the diagrams themselves."""

from typing import Any

import numpy as np

from idbandits.agent.learner import MOST_EARLIER, Past
from idbandits.agent.storage.head import lists, numbers, objects
from idbandits.circuit.model import Model
from idbandits.diagram.diagram import MOST_STATES, Diagram
from idbandits.diagram.tables import LEAST_PRIOR, MOST_PRIOR
from idbandits.diagram.values import check_hashes
from idbandits.errors import FormatError, brief
from idbandits.inference.rounds.evidence import Longest
from idbandits.inference.transfer.row_index import Entries, RetiredRow, names_of

MOST_LONG = 1_000_000  # nodes or terms of a factor
ROW = {"table", "row", "prior", "features"}
SCHEMA = objects({
    "retired": {"type": "array"},  # many: checked row by row, which is faster than by a schema
    "constants": {"type": "array", "items": numbers(0, 1)},
    "longest": lists(numbers(0, MOST_LONG, "integer"), 2, 2),
    "earlier": lists({"type": "object"}, 0, MOST_EARLIER),
})  # fmt: skip


def past_to_data(past: Past) -> dict[str, Any]:
    """Return what is known of earlier diagrams as plain data."""
    return {
        "retired": [
            {"table": r.table, "row": list(r.labels), "prior": r.prior.tolist(), "features": r.line}
            for r in past.retired
        ],
        "constants": list(past.constants),
        "longest": list(past.longest),
        "earlier": [d.to_dict() for d in past.earlier],
    }


def past_from_data(data: dict[str, Any], model: Model) -> Past:
    """Return what is known of earlier diagrams from data that fits SCHEMA; raise if its rows are not sound."""
    retired = tuple(map(_retired_row, data["retired"]))
    names = [row.name for row in retired]
    check_hashes("head.past.retired: names of rows", [*names, *names_of(model)])
    if len(set(names)) < len(names) or not Entries(model).rows.keys().isdisjoint(names):
        raise FormatError("head.past.retired must have rows that are different, and none of the diagram")
    longest, earlier = map(int, data["longest"]), map(Diagram.from_dict, data["earlier"])
    return Past(retired, tuple(map(float, data["constants"])), Longest(*longest), tuple(earlier))


def _retired_row(data: Any) -> RetiredRow:
    if not (isinstance(data, dict) and set(data) == ROW and isinstance(data["table"], str)):
        raise FormatError(f"head.past.retired must have rows with the keys {sorted(ROW)}, got {brief(data)}")
    labels, prior = data["row"], data["prior"]
    if not (isinstance(labels, list) and all(isinstance(label, (str, int, float)) for label in labels)):
        raise FormatError(f"head.past.retired: the labels of a row must be texts and numbers, got {brief(labels)}")
    is_prior = isinstance(prior, list) and 2 <= len(prior) <= MOST_STATES
    if not (is_prior and all(type(x) in (int, float) and LEAST_PRIOR <= x <= MOST_PRIOR for x in prior)):
        needed = f"2 to {MOST_STATES} numbers from {LEAST_PRIOR:g} to {MOST_PRIOR:g}"
        raise FormatError(f"head.past.retired: the prior of a row must be {needed}, got {brief(prior)}")
    return RetiredRow(data["table"], tuple(labels), np.array(prior, np.float64), data["features"])
