"""After `warm_up`, no method of an agent asks for a kernel that was not compiled before."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

import idbandits as idb
from error_checks import assert_raises
from idbandits import models
from idbandits.errors import IdbanditsError
from idbandits.kernel.compile import Kernel
from inferences import agent_of, every, seen_without_clicks


@contextmanager
def kernels_asked_for() -> Iterator[set[Kernel]]:
    """The kernels that are asked for meanwhile, also those that were in use before."""
    asked: set[Kernel] = set()
    compile_kernel = Kernel.compile

    def noting(kernel: Kernel) -> None:
        asked.add(kernel)
        compile_kernel(kernel)

    kept = [
        (k, {n: vars(k).pop(n) for n in ("entry", "handle") if n in vars(k)})
        for k in gc.get_objects()
        if type(k) is Kernel
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Kernel, "compile", noting)
        yield asked
    for kernel, attributes in kept:
        vars(kernel).update(attributes)


def use_everything(agent: Any, folder: Path) -> None:
    """Call every method that may run compiled code."""
    seen: dict[str, Any] = {n.name: 0 for n in agent.diagram.of_kind("observed")}
    if not isinstance(agent, idb.Structures):
        seen = seen_without_clicks(agent)
    agent.act(seed=1)
    for _ in range(100):
        action = agent.act()
        agent.update(action, seen)
    agent.update_many(
        {name: [value] * 30 for name, value in action.items()}, {name: [value] * 30 for name, value in seen.items()}
    )
    with suppress(IdbanditsError):
        agent.revise(action, seen, {name: 0 for name in seen if name.startswith("C")})
    agent.posterior()
    agent.sample()
    agent.propensity(action, draws=3)
    for name in ("draws", "fit_report", "elbo"):
        with suppress(IdbanditsError, AttributeError):
            getattr(agent, name)(*([5] if name == "draws" else []))
    agent.save(folder / "agent")
    loaded = idb.Thompson.load(folder / "agent", inference=getattr(agent, "inference", None))
    for other in (loaded, agent.copy(), agent.copy(seed=1)):
        other.update(other.act(), seen)


@every
def test_no_method_needs_a_kernel_that_was_not_warmed_up(name: str, tmp_path: Path) -> None:
    agent = agent_of(name, models.position_based(4, 2))
    with kernels_asked_for() as asked:
        use_everything(agent, tmp_path)
    assert asked
    assert {k.__qualname__ for k in asked - set(agent.kernels)} == set()


def test_several_structures_are_warmed_up_too(tmp_path: Path) -> None:
    agent = idb.Thompson([models.cascade(4, 2), models.position_based(4, 2)], seed=0)
    with kernels_asked_for() as asked:
        use_everything(agent, tmp_path)
    assert {k.__qualname__ for k in asked - set(agent.kernels)} == set()


def test_what_only_other_inferences_need_is_left_alone() -> None:
    gibbs, exact = (set(idb.Thompson(models.cascade(4, 2), name).kernels) for name in ("gibbs", "exact"))
    assert {"run_chain", "restore"} <= {k.__qualname__ for k in gibbs - exact}
    assert "unclear" in {k.__qualname__ for k in exact - gibbs}


def test_warming_up_compiles_each_kernel_once(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[Kernel] = []
    monkeypatch.setattr(Kernel, "compile", lambda kernel: compiled.append(kernel))
    monkeypatch.setattr(Kernel, "is_on_disk", lambda kernel: kernel.__qualname__ != "draw")
    agent = idb.Thompson(models.cascade(4, 2), seed=0)
    warmth = agent.warm_up()
    assert compiled == agent.kernels
    assert (warmth.kernels, warmth.new) == (len(compiled), 1)
    assert_raises(IdbanditsError, ("processes", "0"), lambda: agent.warm_up(processes=0))
