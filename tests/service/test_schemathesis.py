"""Requests that Schemathesis makes from the OpenAPI document, stateful links included: none is answered by a 500.

By hand: `python -m pytest tests/service/test_schemathesis.py` with IDBANDITS_REQUESTS=10000 in the environment.
"""

from __future__ import annotations

import contextlib
import os
from collections import Counter
from collections.abc import Callable, Iterator

import httpx
import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from hypothesis.errors import FlakyStrategyDefinition
from hypothesis.stateful import run_state_machine_as_test

from database_servers import missing
from http_service import cascade, put, served

if reason := missing("schemathesis"):
    pytest.skip(reason, allow_module_level=True)
import schemathesis
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

REQUESTS = int(os.environ.get("IDBANDITS_REQUESTS", "300"))
SEEDS = 4  # of sequences
STEPS = 12  # of a sequence of linked requests
CHECKS = [not_a_server_error, content_type_conformance, response_schema_conformance, status_code_conformance]
UNHURRIED = settings(
    deadline=None, database=None, derandomize=True, phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)  # fmt: skip
DIAGRAM = cascade().to_dict()


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with served(f"sqlite:///{tmp_path_factory.mktemp('schema')}/a.db") as own:
        put(own)
        put(own, "paused")
        yield own
        counts, routes = Counter[str](), Counter[tuple[str, str]]()
        for line in httpx.get(f"{own}/metrics").text.splitlines():
            if line.startswith("idbandits_requests_total{"):
                routes[line.split('route="')[1].split('"')[0], line.split('status="')[1][0]] += int(
                    float(line.split()[-1])
                )
                counts[line.split('status="')[1][0]] += int(float(line.split()[-1]))
        print(f"answers by first digit of the status: {dict(counts)}, {dict(routes)}")
        assert counts["5"] == 0, counts
        assert counts["2"] > 0
        assert counts.total() >= REQUESTS * 0.5, counts


@schemathesis.hook
def map_body(context: object, body: object) -> object:
    """Replace most diagrams by one that is valid."""
    if isinstance(body, dict) and isinstance(body.get("diagram"), dict) and len(body["diagram"]) < 3:
        body["diagram"] = DIAGRAM
    return body


@schemathesis.hook
def map_path_parameters(context: object, path_parameters: dict[str, object]) -> dict[str, object]:
    """Replace most names of experiments by the one that exists."""
    if path_parameters and "name" in path_parameters and len(str(path_parameters["name"])) < 12:
        ends = str(context.operation.path).endswith(("/pause", "/retire"))  # type: ignore[attr-defined]
        path_parameters["name"] = "paused" if ends else "shop"
    return path_parameters


@schemathesis.hook
def before_call(context: object, case: schemathesis.Case, kwargs: object) -> None:
    """Send no random token: there is none, so that every caller on this machine may do everything."""
    for name in [name for name in case.headers or {} if name.lower() == "authorization"]:
        case.headers.pop(name)


def test_single_requests(address: str) -> None:
    schema = schemathesis.openapi.from_url(f"{address}/openapi.json")
    operations = [own.ok() for own in schema.get_all_operations()]
    assert len(operations) == 20

    for operation in operations:
        checked(operation.as_strategy(), address, max(3, REQUESTS // 2 // len(operations)))()


def checked(cases: st.SearchStrategy[schemathesis.Case], address: str, number: int) -> Callable[[], None]:
    """Return a test that sends requests of one route."""

    @settings(UNHURRIED, max_examples=number)
    @given(cases)
    def check(case: schemathesis.Case) -> None:
        case.validate_response(case.call(base_url=address, timeout=60), checks=CHECKS)

    return check


def test_linked_requests(address: str) -> None:
    schema = schemathesis.openapi.from_url(f"{address}/openapi.json")
    machine = schema.as_state_machine()

    class Checked(machine):  # type: ignore[misc, valid-type]
        def get_call_kwargs(self, case: schemathesis.Case) -> dict[str, object]:
            return {"base_url": address, "timeout": 60}

        def validate_response(self, response: object, case: schemathesis.Case, **_: object) -> None:
            case.validate_response(response, checks=CHECKS)

    own = settings(UNHURRIED, max_examples=max(3, REQUESTS // 2 // STEPS // SEEDS), stateful_step_count=STEPS)
    for number in range(SEEDS):
        with contextlib.suppress(FlakyStrategyDefinition):  # the service changes, so that no sequence can be repeated
            run_state_machine_as_test(seed(number)(Checked), settings=own)
