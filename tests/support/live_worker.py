"""Worker with a client that retries: decides, reports, learns, and prints what was acknowledged. It may be killed.

Arguments: URL of the store, name of the worker, number of its first batch. A batch that was not acknowledged is sent
again with its ids.
"""

from __future__ import annotations

import sys
import time
from typing import Any

from idbandits.service.live.deciding import Request
from idbandits.service.live.live import Live
from idbandits.service.service_errors import ServiceError
from live_cases import shop

BATCH = 5
SETTINGS: dict[str, Any] = {"inference": "exact", "horizon": "1h", "holdout": 0.2}


def patiently(call: Any) -> Any:
    """Call until the store answers."""
    while True:
        try:
            answers = call()
        except ServiceError as error:
            if error.kind != "unavailable":
                raise
            answers = [error]
        if not isinstance(answers, list):
            return answers
        if not any(isinstance(own, ServiceError) for own in answers):
            return answers
        assert {own.kind for own in answers if isinstance(own, ServiceError)} == {"unavailable"}, answers
        time.sleep(0.02)


def main(url: str, name: str, first: int) -> None:
    """Work until the process is killed."""
    live: Live = patiently(lambda: Live(url, tick=0.005))
    patiently(lambda: live.put("shop", shop(), **SETTINGS))
    print("ready", flush=True)
    for k in range(first, 1_000_000):
        requests = [Request(id=f"{name}-{k}-{i}") for i in range(BATCH)]
        own = patiently(lambda: live.decide_many("shop", requests))  # noqa: B023
        print("\n".join(f"decided {one.id} {one.action['item']}" for one in own), flush=True)
        reports = [{"id": one.id, "values": {"buy": 1, "click": i % 2}, "complete": i < 3} for i, one in enumerate(own)]
        told = patiently(lambda: live.report_many("shop", reports[:4]))  # noqa: B023
        assert set(told) <= {"accepted", "unchanged"}, told
        print("\n".join(f"reported {one.id}" for one in own[:4]), flush=True)
        print(f"batch {k}", flush=True)
        if k % 3 == 2:
            patiently(live.save_snapshots)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
