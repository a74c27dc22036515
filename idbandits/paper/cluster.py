"""Independent jobs on the workers of a Dask cluster."""

from __future__ import annotations

import gc
import logging
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import CancelledError
from typing import Any, TypeVar

from idbandits.errors import IdbanditsError

PATIENCE = 20  # seconds that a cluster has to answer, and to replace workers that have died

Job = TypeVar("Job", bound=tuple[Any, ...])
Made = TypeVar("Made")


def run_on_cluster(
    address: str, jobs: Iterable[Job], work: Callable[..., Made], keep: Callable[[Job, Made], None]
) -> None:
    """Call `work(*job)` for every job on the workers of a Dask scheduler, and `keep` each result in this thread.

    When a worker dies, others do its jobs.
    """
    try:
        import distributed
    except ImportError:
        raise IdbanditsError("--cluster needs Dask: pip install 'idbandits[cluster]'") from None
    if not address.strip():  # Dask would start a cluster of its own
        raise IdbanditsError(f"--cluster {address!r} is not the address of a Dask scheduler")
    with _connected(address) as client:
        try:
            client.wait_for_workers(1, timeout=PATIENCE)
        except TimeoutError:
            raise IdbanditsError(f"--cluster: the Dask scheduler at {address!r} has no workers") from None
        futures = {client.submit(work, *job, pure=False, retries=3): job for job in jobs}
        try:
            for job, made in _finished(client, futures, address):
                keep(job, made)
        except (distributed.KilledWorker, CancelledError, ImportError) as error:
            raise IdbanditsError(f"the workers of {address!r} failed: {' '.join(str(error).split())}") from None
        finally:
            client.cancel(list(futures))


def _connected(address: str) -> Any:
    """A client of the scheduler at an address."""
    import distributed

    for name in ("distributed", "distributed.client"):
        logging.getLogger(name).setLevel(logging.CRITICAL)  # our errors say in one line what went wrong
    message = ""
    try:
        return distributed.Client(address, timeout=PATIENCE, set_as_default=False)
    except (OSError, ValueError, TimeoutError) as error:
        message = str(error)
    gc.collect()  # a client that failed is closed when it is collected, which locks up if another one is starting
    raise IdbanditsError(f"--cluster: no Dask scheduler answers at {address!r}: {message}")


def _finished(client: Any, futures: dict[Any, Job], address: str) -> Iterator[tuple[Job, Any]]:
    """Jobs and their results as they are finished. If all workers have died, Dask would wait for new ones forever."""
    import distributed

    arriving: Any = distributed.as_completed(futures, loop=client.loop)
    asked = alive = time.monotonic()
    while futures:
        if not arriving.has_ready():
            time.sleep(0.02)
        else:
            future = next(arriving)
            try:
                made = future.result(timeout=PATIENCE)
            except TimeoutError:  # the result died with its worker; another worker makes it again, if there is one
                arriving.add(future)
            else:
                yield futures.pop(future), made
                future.release()
        if time.monotonic() - asked > 1.0:
            asked = time.monotonic()
            if client.nthreads():
                alive = asked
            elif asked - alive > PATIENCE:
                raise IdbanditsError(f"--cluster: the Dask scheduler at {address!r} has no workers left")
