"""Exact inference: conjugate counts, and a refusal exactly where the posterior is not conjugate."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

import idbandits as idb
import reference
from diagrams import NAMED, random_learning_diagram, same_table_twice
from idbandits.errors import DiagramError
from inferences import diagram_of
from internals import ambiguous_observation
from played_rounds import alpha_of, assert_close, learn, play, rounds_of

# -- counting ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [*NAMED, *range(30)])
def test_exact_is_the_oracle_where_everything_is_seen(make: Callable[[], idb.Diagram] | int) -> None:
    hidden = diagram_of(make)
    d = hidden.revealed()
    played = play(d, np.random.default_rng(9), 12, world=hidden)
    agent = learn(idb.Thompson(d, "exact", seed=0), played)
    assert_close(alpha_of(agent), reference.exact_step(d, rounds_of(played), reference.prior_of(d)), rtol=1e-13)


def test_exact_counts_in_the_cascade_those_that_were_examined() -> None:
    agent = idb.Thompson(idb.models.cascade(4, 3), "exact", seed=0)
    for a, clicks in (((0, 1, 2), (0, 1, 0)), ((2, 1, 0), (1, 0, 0)), ((3, 0, 2), (0, 0, 0))):
        agent.update(dict(zip(("A1", "A2", "A3"), a, strict=True)), dict(zip(("C1", "C2", "C3"), clicks, strict=True)))
    wanted = [[1 + 2, 1], [1, 1 + 1], [1 + 1, 1 + 1], [1 + 1, 1]]
    np.testing.assert_array_equal(agent.posterior()["attraction"].alpha, wanted)


def test_exact_counts_in_the_inverted_cascade_those_that_were_examined() -> None:
    agent = idb.Thompson(idb.models.cascade_inverted(4, 3), "exact", seed=0)
    for a, clicks in (((0, 1, 2), (1, 0, 0)), ((2, 1, 0), (0, 0, 0)), ((3, 0, 2), (1, 1, 1))):
        agent.update(dict(zip(("A1", "A2", "A3"), a, strict=True)), dict(zip(("C1", "C2", "C3"), clicks, strict=True)))
    wanted = [[1 + 2, 1], [1, 1 + 1], [1 + 1, 1 + 1], [1 + 1, 1]]  # who clicks was not attracted, and goes on
    np.testing.assert_array_equal(agent.posterior()["attraction"].alpha, wanted)


def test_exact_counts_in_the_semi_bandit_all_that_were_shown() -> None:
    agent = idb.Thompson(idb.models.semi_bandit(3, 2), "exact", seed=0)
    agent.update({"A1": 0, "A2": 2}, {"X1": 1, "X2": 0})
    agent.update({"A1": 2, "A2": 0}, {"X1": 1, "X2": None})
    agent.update({"A1": 1, "A2": 0}, {"X2": 1})
    np.testing.assert_array_equal(agent.posterior()["mean"].alpha, [[1, 3], [1, 1], [2, 2]])


# -- refusals ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("d", "latent"),
    [(idb.models.position_based(4, 2), "W1"), (idb.models.rank1(2, 2), "Z1"), (same_table_twice(), "Z1")],
    ids=lambda x: getattr(x, "name", x),
)
def test_exact_is_rejected_where_what_is_seen_may_have_several_causes(d: idb.Diagram, latent: str) -> None:
    words = rf"'exact'.*observation .* = .*{d.name!r}.*latent .*{latent}.*variational.*moments.*revealed"
    with pytest.raises(DiagramError, match=words) as refused:
        idb.Thompson(d, "exact")
    assert any(f"{n.name} = " in str(refused.value) for n in d.of_kind("observed"))
    assert type(idb.Thompson(d).inference) is idb.Gibbs  # which the default can learn from


@pytest.mark.parametrize("seed", range(60))
def test_exact_is_rejected_exactly_where_it_would_be_wrong(seed: int) -> None:
    d = random_learning_diagram(seed)
    rng = np.random.default_rng(seed)
    try:
        agent = idb.Thompson(d, "exact", seed=0)
    except DiagramError:
        seen = ambiguous_observation(d)
        nodes = d.of_kind("decision") + d.of_kind("context")
        choices = [dict(zip((n.name for n in nodes), c, strict=True)) for c in np.ndindex(*(n.states for n in nodes))]
        rng.shuffle(choices)
        assert any(not is_single_product(d, chosen, seen, rng) for chosen in choices)
        return
    alpha: reference.Alpha = reference.prior_of(d)
    for p in play(d, rng, 10):
        learn(agent, [p])
        alpha = reference.moments_step(d, p.round, alpha)  # those of a Dirichlet distribution, if it is one
    assert_close(alpha_of(agent), alpha, rtol=1e-8)


def is_single_product(
    d: idb.Diagram, given: reference.Values, seen: reference.Values, rng: np.random.Generator
) -> bool:
    """Return whether the logarithm of the likelihood is linear in those of the learned entries, by its values at random means."""
    logs, likelihoods = [], []
    used = {e for z in reference.consistent(d, (given, seen)) for e in reference.entries_used(d, z)}
    rows = sorted({(name, at[:-1]) for name, at in used})
    if not used:
        return True
    for _ in range(8 * len(rows) + 10):
        full = {name: rng.dirichlet(np.ones(t.states), size=t.shape) for name, t in d.learned.items()}
        means = {name: a[..., 1] if a.shape[-1] == 2 else a for name, a in full.items()}
        logs.append([1.0, *(x for name, row in rows for x in np.log(full[name][row]))])
        likelihoods.append(math.log(reference.likelihood(d, given, seen, means)))
    coefficients, *_ = np.linalg.lstsq(np.array(logs), np.array(likelihoods), rcond=None)
    return bool(np.allclose(np.array(logs) @ coefficients, likelihoods, atol=1e-8))


def test_exact_is_not_rejected_because_of_an_action_that_shows_nothing() -> None:
    d = idb.Diagram("look or not")
    looks = d.decision("look", [True, False])
    z = d.latent("Z", cpd=idb.Learned("chance"))
    d.reward(d.observed("X", [z, looks], lambda z, look: z if look else 0.5))
    agent = idb.Thompson(d, "exact", seed=0)  # P(X | look) is a single product for either action: 1/2 for the second
    agent.update({"look": True}, {"X": 1})
    agent.update({"look": False}, {"X": 1})
    np.testing.assert_array_equal(agent.posterior()["chance"].alpha, [1, 2])


def test_exact_is_not_rejected_because_of_an_action_that_is_forbidden() -> None:
    d = idb.Diagram("never both")
    first, second = d.decision("A1", 3), d.decision("A2", 3)
    z = d.latent("Z", [first], idb.Learned("chance"))
    d.reward(d.observed("X", [z, first, second], lambda z, a, b: z if a != b else 0.2 + 0.6 * z))
    d.all_different()
    agent = idb.Thompson(d, "exact", seed=0)
    agent.update({"A1": 0, "A2": 1}, {"X": 1})
    np.testing.assert_array_equal(agent.posterior()["chance"].alpha, [[1, 2], [1, 1], [1, 1]])


def test_exact_rejects_what_is_ambiguous_only_because_it_was_not_seen() -> None:
    agent = idb.Thompson(idb.models.cascade(3, 2), "exact", seed=0)
    agent.update({"A1": 0, "A2": 1}, {"C1": 0, "C2": 1})
    before = alpha_of(agent)
    with pytest.raises(DiagramError, match=r"C2 = 1 \(C1 not seen\)|C2 = 0 \(C1 not seen\)"):
        agent.update({"A1": 0, "A2": 1}, {"C2": 0})
    assert_close(alpha_of(agent), before, rtol=0)
    assert agent.rounds == 1
    agent.update({"A1": 0, "A2": 1}, {"C1": 1})  # C2 cannot matter
    np.testing.assert_array_equal(agent.posterior()["attraction"].alpha, [[2, 2], [1, 2], [1, 1]])
