"""The interface over both kinds of stores, with two workers on one store."""

from __future__ import annotations

import time

import httpx

import idbandits as idb
from http_service import cascade, put, served

ONE = "/v1/experiments/shop"


def test_two_workers_on_one_store(url: str) -> None:
    with served(url) as first, served(url) as second:
        put(first)
        with idb.Client(first, timeout=60) as one, idb.Client(second, timeout=60) as other:
            made = one.decide_many("shop", [{} for _ in range(100)])
            ids = [own.id for own in made if not isinstance(own, Exception)]
            assert len(ids) == 100
            reports = [{"id": id, "values": {"C1": 1}, "complete": True} for id in ids]  # at once, to the other worker
            assert other.report_many("shop", reports) == ["accepted"] * 100
            assert one.report_many("shop", reports) == ["unchanged"] * 100
            assert one.put("shop", cascade(), horizon="1h") == 2
            new = one.decide("shop")
            assert other.report(new, {"C2": 1}, complete=True) == "accepted"  # of a version it has not seen
            until = time.monotonic() + 60
            while {own.show("shop")["rounds"] for own in (one, other)} != {101}:
                assert time.monotonic() < until
                time.sleep(0.05)
            assert one.posterior("shop") == other.posterior("shop")


def test_texts_that_stores_cannot_have_are_problems(url: str) -> None:
    with served(url) as address:
        put(address)
        for path, body in (
            ("decisions", {"id": "a\x00"}), ("decisions", {"unit": "a\x00"}), ("outcomes", {"decision": "\x00"}),
            ("outcomes", {"decision": "x", "values": {"\x00": 1}}), ("decisions", {"context": {"\x00": "\x00"}}),
            ("shown", {"decision": "\x00"}),
        ):  # fmt: skip
            answer = httpx.post(f"{address}{ONE}/{path}", json=body)
            assert 400 <= answer.status_code < 500, answer.text
        assert httpx.get(f"{address}{ONE}/decisions/%00").status_code == 422
        assert httpx.get(f"{address}/v1/experiments/%00").status_code == 404
        assert httpx.get(f"{address}{ONE}").status_code == 200
