"""What is known of earlier diagrams, in files: every number and name is checked."""

from typing import Any

import numpy as np

from idbandits.agent.learner import MOST_EARLIER, Past
from idbandits.circuit.model import Model
from idbandits.diagram.diagram import MOST_STATES, Diagram
from idbandits.diagram.tables import LEAST_PRIOR, MOST_PRIOR, Label
from idbandits.diagram.values import check_hashes
from idbandits.errors import FormatError, brief, check_number, check_whole
from idbandits.inference.rounds.evidence import Longest
from idbandits.inference.transfer.row_index import Entries, RetiredRow, names_of

MOST_LONG = 1_000_000  # nodes or terms of a factor
FIELDS = {"retired", "constants", "longest", "earlier"}
ROW = {"table", "row", "prior", "features"}


def past_to_data(past: Past) -> dict[str, Any]:
    """What is known of earlier diagrams, as plain data."""
    return {
        "retired": [
            {"table": r.table, "row": list(r.labels), "prior": r.prior.tolist(), "features": r.line}
            for r in past.retired
        ],
        "constants": list(past.constants),
        "longest": list(past.longest),
        "earlier": [d.to_dict() for d in past.earlier],
    }


def past_from_data(data: Any, model: Model) -> Past:
    """The same from plain data, which need not be what it should be."""
    if not isinstance(data, dict) or set(data) != FIELDS:
        raise FormatError(f"past: it has the keys {', '.join(sorted(FIELDS))}, not {brief(data)}")
    retired = tuple(_retired_row(row) for row in _list("past.retired", data["retired"]))
    names = [row.name for row in retired]
    check_hashes("past.retired: names of rows", [*names, *names_of(model)])
    if len(set(names)) < len(names) or not Entries(model).rows.keys().isdisjoint(names):
        raise FormatError("past.retired: a row occurs twice, or is one of the diagram")
    constants = [check_number("past.constants", x, 0, 1) for x in _list("past.constants", data["constants"])]
    longest = [check_whole("past.longest", n, 0, MOST_LONG) for n in _list("past.longest", data["longest"])]
    if len(longest) != 2:
        raise FormatError(f"past.longest: two numbers, not {brief(longest)}")
    earlier = _list("past.earlier", data["earlier"])
    check_whole("past.earlier: the number of diagrams", len(earlier), 0, MOST_EARLIER)
    return Past(retired, tuple(constants), Longest(*longest), tuple(map(Diagram.from_dict, earlier)))


def _retired_row(data: Any) -> RetiredRow:
    if not isinstance(data, dict) or set(data) != ROW or not isinstance(data["table"], str):
        raise FormatError(f"past.retired: a row has a table, labels, a prior and features, not {brief(data)}")
    labels: list[Label] = _list("past.retired: the labels of a row", data["row"])
    if not all(isinstance(label, (str, int, float)) for label in labels):
        raise FormatError(f"past.retired: the labels of a row are texts and numbers, not {brief(labels)}")
    what = f"past.retired: the prior of a row of {data['table']!r}"
    prior = [check_number(what, x, LEAST_PRIOR, MOST_PRIOR) for x in _list(what, data["prior"])]
    check_whole(f"{what}: the number of states", len(prior), 2, MOST_STATES)
    return RetiredRow(data["table"], tuple(labels), np.array(prior), data["features"])


def _list(what: str, data: Any) -> list[Any]:
    if not isinstance(data, list):
        raise FormatError(f"{what}: a list is needed, not {brief(data)}")
    return data
