"""Kernels that an agent may need, compiled before the first request.

Nobody keeps a list: kernels are found where Python finds them, in the modules that can be reached from that of the
agent and that of its inference by the names in them.
"""

import sys
import time
from collections.abc import Iterable, Sequence
from types import ModuleType
from typing import Any, NamedTuple, final

from idbandits.agent.learner import Learner
from idbandits.errors import check_whole
from idbandits.inference import BY_NAME
from idbandits.kernel.compile import Kernel, compile_together
from idbandits.notebook import html_table

PACKAGE = __name__.partition(".")[0]
MOST_PROCESSES = 1000
AGENT = f"{PACKAGE}.agent.thompson"


@final
class WarmUpReport(NamedTuple):
    """Report of a warm-up.

    Attributes
    ----------
    kernels : int
        Number of kernels, compiled functions, that the agent may need.
    new : int
        Number of kernels that were compiled; the others were on the disk.
    seconds : float
        Time that it took, in seconds.

    Examples
    --------
    >>> import idbandits as idb
    >>> report = idb.Thompson(idb.models.cascade(3, 2), "exact").warm_up()
    >>> report.new <= report.kernels, report.seconds > 0
    (True, True)
    """

    kernels: int
    new: int
    seconds: float

    def _repr_html_(self) -> str:
        return html_table([self._asdict()])


def warm_up(kernels: Iterable[Kernel], processes: Any) -> WarmUpReport:
    """Compile kernels, or read their machine code from the disk, in several processes at once (None: one per core)."""
    number = None if processes is None else check_whole("processes", processes, 1, MOST_PROCESSES)
    needed, started = list(kernels), time.perf_counter()
    new = sum(not kernel.is_on_disk() for kernel in needed)
    if number != 1:
        compile_together([k for k in needed if _is_ours(k.function.__module__)], number)
    for kernel in needed:
        kernel.compile()
    return WarmUpReport(len(needed), new, time.perf_counter() - started)


def kernels_behind(module: str, inference: str | None = None) -> list[Kernel]:
    """Return all kernels that the code of a module and of an inference's module may call, without class bodies."""
    apart = {kind.__module__ for kind in BY_NAME.values()} - {inference}  # what only other inferences need
    waiting, found = [module] if inference is None else [module, inference], list[Kernel]()
    for home in waiting:  # grows on the way
        for value in list(vars(sys.modules[home]).values()):
            found += [value] if isinstance(value, Kernel) else []
            origin = value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", None)
            if isinstance(origin, str) and _is_ours(origin) and origin in sys.modules and origin not in waiting:
                waiting += [origin] if origin not in apart or home == inference else []
    return list(dict.fromkeys(found))


def _is_ours(module: str) -> bool:
    return module.startswith(f"{PACKAGE}.")


def kernels_of(learners: Sequence[Learner]) -> list[Kernel]:
    """Return all kernels that an agent with these learners may need."""
    kernels = list[Kernel]()
    for learner in learners:
        own = [learner.solve, *([learner.learn] if learner.is_compiled else [])]
        kernels += [*own, *kernels_behind(AGENT, type(learner.inference).__module__)]
    return list(dict.fromkeys(kernels))
