"""Requests with choices of their own: how agents act, and what they tell about it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.stats import beta, binom

import idbandits as idb
from error_checks import assert_raises, assert_rejected_by
from idbandits.errors import ActionError, IdbanditsError, InfeasibleError
from inferences import agent_of, every, position_based, position_based_world, taught

DRAWS = 4000
NOTHING = "(nothing)"


def close(p: Any, q: Any, draws: int = DRAWS) -> None:
    """Shares of draws agree, up to 5 standard errors of both."""
    p, q = np.asarray(p, float), np.asarray(q, float)
    assert (np.abs(p - q) < 5 * np.sqrt(2 * 0.25 / draws)).all(), (p, q)


def ranking(inference: str = "exact") -> idb.Thompson:
    """An agent with a belief of its own for each of six items, of which it shows two."""
    agent = idb.Thompson(idb.models.semi_bandit([*"abcdef"], 2), inference, seed=0)
    rng = np.random.default_rng(0)
    for _ in range(40):
        first, second = rng.choice([*"abcdef"], size=2, replace=False)
        seen = {"X1": int(rng.random() < 0.4), "X2": int(rng.random() < 0.6)}
        agent.update({"A1": first, "A2": second}, seen)
    return agent


def simulated(agent: idb.Thompson, first: list[int], second: list[int]) -> dict[str, np.ndarray]:
    """Return the share of each item at each position, by draws of all means from the posterior: the best pair of each."""
    alpha = agent.posterior()["mean"].alpha
    rng, shares = np.random.default_rng(1), {"A1": np.zeros(6), "A2": np.zeros(6)}
    for _ in range(DRAWS):
        means = rng.beta(alpha[:, 1], alpha[:, 0])
        pairs = [(means[a] + means[b], a, b) for a in first for b in second if a != b]
        best = max(pair[0] for pair in pairs)
        chosen = [pair[1:] for pair in pairs if pair[0] >= best - 1e-12]
        for a, b in chosen:
            shares["A1"][a] += 1 / len(chosen) / DRAWS
            shares["A2"][b] += 1 / len(chosen) / DRAWS
    return shares


def test_actions_have_the_distribution_of_draws_from_the_posterior() -> None:
    """One list is the whole table's draw restricted; with lists by decision, items compete where they may be."""
    agent = ranking()
    for allowed, first, second in [
        (["b", "d", "f"], [1, 3, 5], [1, 3, 5]),
        ({"A1": ["a", "b"], "A2": ["b", "c", "e"]}, [0, 1], [1, 2, 4]),
        (None, [*range(6)], [*range(6)]),
    ]:
        expected = simulated(agent, first, second)
        marginals = agent.marginals(allowed=allowed, draws=DRAWS)
        taken = [agent.act(allowed=allowed) for _ in range(DRAWS)]
        shown = {name: np.array([[a[name] for a in taken].count(v) / DRAWS for v in "abcdef"]) for name in expected}
        both = first == second  # then either order is as good
        for counts in (shown, {name: marginals.probability[name].reindex([*"abcdef"]).fillna(0) for name in expected}):
            if both:
                close(np.asarray(counts["A1"]) + counts["A2"], expected["A1"] + expected["A2"])
            else:
                close(counts["A1"], expected["A1"])
                close(counts["A2"], expected["A2"])


@every
def test_every_inference_acts_on_eligible_choices_only(name: str) -> None:
    agent = taught(name, idb.models.position_based(8, 3))
    allowed = {"A1": [1, 5, 7], "A2": [0, 1, 5], "A3": [5, 6]}
    for _ in range(30):
        action = agent.act(allowed=allowed)
        assert all(action[k] in own for k, own in allowed.items())
        assert len(set(action.values())) == 3
    best = agent.best_action(allowed=allowed)
    assert best.exact
    assert all(best.action[k] in own for k, own in allowed.items())
    marginals = agent.marginals(allowed=allowed, draws=200)
    assert marginals.probability.sum().tolist() == pytest.approx([1, 1, 1])
    assert set(marginals.probability["A3"].dropna().index) == {5, 6}


def test_what_is_listed_in_full_is_drawn_as_without_a_list() -> None:
    one, two = ranking(), ranking()
    assert [one.act() for _ in range(20)] == [two.act(allowed=[*"fedcba"]) for _ in range(20)]


def test_rows_of_a_context_and_tables_that_are_shared() -> None:
    """Rows that are drawn depend on contexts, on other decisions and on lookups; the means that are read do not change."""
    d = idb.Diagram("several axes")
    who, a, b = d.context("who", 2), d.decision("A", 3), d.decision("B", 3)
    rows = idb.Learned("rows", rows=5)
    d.reward(d.observed("X", [a, b, who], states=3))
    d.reward(d.observed("Y", [who, b], rows.select(lambda w, b: w + b + 1)))
    d.reward(d.observed("Z", cpd=rows[0]), lambda z: 0.1 * z)
    agent = idb.Thompson(d, "exact", seed=0)
    rng = np.random.default_rng(0)
    for _ in range(60):
        action, context = {"A": int(rng.integers(3)), "B": int(rng.integers(3))}, {"who": int(rng.integers(2))}
        agent.update(action, {"X": int(rng.integers(3)), "Y": int(rng.integers(2)), "Z": 1}, context)
    allowed = {"A": [0, 2], "B": [1, 2]}
    for context in ({"who": 0}, {"who": 1}):
        expected = {(x, y): 0.0 for x in (0, 2) for y in (1, 2)}
        draws = agent.draws(DRAWS)
        x, y = draws["X"][:, :, :, context["who"]] @ np.arange(3.0), draws["rows"]
        values = np.stack([x[:, i, j] + y[:, context["who"] + j + 1] for i, j in expected], axis=1)
        shares = np.bincount(values.argmax(axis=1), minlength=4) / DRAWS
        taken = [agent.act(context, allowed=allowed) for _ in range(DRAWS)]
        close([sum((t["A"], t["B"]) == pair for t in taken) / DRAWS for pair in expected], shares)
        marginals = agent.marginals(context, allowed=allowed, draws=DRAWS).probability
        close(marginals["A"].dropna(), [shares[0] + shares[1], shares[2] + shares[3]])
        close(marginals["B"].dropna(), [shares[0] + shares[2], shares[1] + shares[3]])


def test_the_best_action_is_that_of_the_mean() -> None:
    agent = ranking()
    means = {"mean": agent.posterior()["mean"].mean}
    for allowed in (None, ["c", "d", "e"], {"A1": ["f"]}):
        assert agent.best_action(allowed=allowed) == idb.best_action(agent.diagram, means, allowed=allowed)


@every
def test_every_inference_finds_what_is_clicked_most(name: str) -> None:
    agent = agent_of(name, position_based())
    world = position_based_world()
    rng = np.random.default_rng(0)
    for _ in range(300):
        a, b = rng.permutation(4)[:2].tolist()
        outcome = world.step({"A1": a, "A2": b})
        agent.update({"A1": a, "A2": b}, outcome.seen_by(agent.diagram))
    before = agent.rng.bit_generator.state
    if name != "particles":  # twenty of them know little
        assert agent.best_action().action["A1"] == 0
    assert set(agent.best_action(allowed=[1, 2]).action.values()) == {1, 2}
    assert agent.rng.bit_generator.state == before


def test_propensities_have_an_upper_bound() -> None:
    agent = idb.Thompson(idb.models.position_based(50, 5), seed=0)
    never = agent.propensity({f"A{k}": k for k in range(1, 6)}, draws=1000)
    assert never.probability == 0.0
    assert never.upper == pytest.approx(1 - 0.05 ** (1 / 1000))  # about 3 / draws
    one = agent.propensity({"A1": 0, "A2": 1, "A3": 2, "A4": 3, "A5": 4}, draws=1)
    assert one.upper == pytest.approx(0.95)
    coin = idb.Thompson(idb.models.cascade(2, 1), seed=0).propensity({"A1": 0}, draws=400)
    hits = round(coin.probability * 400)
    assert binom.cdf(hits, 400, coin.upper) == pytest.approx(0.05)
    assert coin.upper == pytest.approx(beta.ppf(0.95, hits + 1, 400 - hits))
    sure = idb.Thompson(idb.models.cascade(2, 1), seed=0).propensity({"A1": 0}, allowed=[0], draws=100)
    assert (sure.probability, sure.upper) == (1.0, 1.0)


def test_propensities_of_what_may_not_be() -> None:
    agent = ranking()
    assert agent.propensity({"A1": "a", "A2": "b"}, allowed=["a", "c", "d"]) == (0.0, 0.0, 0.0)
    p = agent.propensity({"A1": "a", "A2": "c"}, allowed={"A1": ["a"], "A2": ["b", "c"]}, draws=DRAWS)
    q = agent.marginals(allowed={"A1": ["a"], "A2": ["b", "c"]}, draws=DRAWS)
    close(p.probability, q.probability.loc["c", "A2"])


def test_marginals_read_well() -> None:
    agent = ranking()
    marginals = agent.marginals(allowed={"A1": ["a", "b"], "A2": ["b", "c", "e"]}, draws=500)
    assert marginals.draws == 500
    assert marginals.probability.index.tolist() == ["a", "b", "c", "e"]
    assert marginals.probability.isna().to_numpy().tolist() == [
        [False, True],
        [False] * 2,
        [True, False],
        [True, False],
    ]
    p, error = marginals.probability.loc["a", "A1"], marginals.standard_error.loc["a", "A1"]
    assert error == pytest.approx(np.sqrt(p * (1 - p) / 500), rel=0.1)
    frame = marginals.to_frame()
    assert frame.columns.tolist() == ["decision", "choice", "probability", "standard_error"]
    assert frame[["decision", "choice"]].to_numpy().tolist() == [
        ["A1", "a"],
        ["A1", "b"],
        ["A2", "b"],
        ["A2", "c"],
        ["A2", "e"],
    ]
    assert frame.groupby("decision").probability.sum().tolist() == pytest.approx([1, 1])
    assert repr(marginals).startswith("Marginals by 500 draws:\n")


def test_several_structures() -> None:
    """Structures that number the choices differently and want opposite things; shares are their weights."""
    likes = {}
    for name, labels in (("low", ["x", "y", "z"]), ("high", ["z", "y", "x"])):
        d = idb.Diagram(name)
        d.observed("C", [d.decision("A", labels)], 0.5)
        d.reward("A", lambda a, low=name == "low": float("xyz".index(a)) * (-1 if low else 1))
        likes[name] = d
    agent = idb.Structures(likes, seed=2)
    for allowed, shares in ((None, [0.5, 0, 0.5]), (["x", "y"], [0.5, 0.5, np.nan])):
        marginals = agent.marginals(allowed=allowed, draws=DRAWS).probability["A"].reindex(["x", "y", "z"]).to_numpy()
        assert np.isnan(marginals).tolist() == np.isnan(shares).tolist()
        close(np.nan_to_num(marginals), np.nan_to_num(shares))
        taken = [agent.act(allowed=allowed)["A"] for _ in range(DRAWS)]
        close([taken.count(v) / DRAWS for v in "xyz"], np.nan_to_num(shares))
    close(agent.propensity({"A": "y"}, allowed=["x", "y"], draws=DRAWS).probability, 0.5)
    assert agent.propensity({"A": "z"}, allowed=["x", "y"]).upper == 0.0
    assert agent.best_action(allowed=["y", "z"]).action["A"] in ("y", "z")


def test_empty_slots() -> None:
    d = idb.Diagram("slots")
    attraction = idb.Learned("attraction")
    for k in (1, 2, 3):
        d.reward(d.observed(f"X{k}", [d.decision(f"A{k}", ["a", "b", NOTHING])], attraction))
    d.all_different(except_=[NOTHING])
    agent = idb.Thompson(d, "exact", seed=0)
    agent.update({"A1": "a", "A2": NOTHING, "A3": NOTHING}, {"X1": 1, "X2": 0, "X3": 0})
    agent.update_many({"A1": [NOTHING], "A2": [NOTHING], "A3": ["b"]}, {"X1": [0], "X2": [0], "X3": [1]})
    for allowed, most in ((["a"], 1), ([], 0), (None, 2)):
        action = [*agent.act(allowed=allowed).values()]
        assert action.count("a") <= 1
        assert 3 - action.count(NOTHING) <= most
    assert_rejected_by(agent, ActionError, ("'a'",), lambda: agent.update({"A1": "a", "A2": "a", "A3": "b"}, {}))


MISTAKES: list[tuple[Any, type[Exception], str]] = [
    (["a"], InfeasibleError, "'A"),
    (["a", "x"], ActionError, "'x'"),
    ("ab", ActionError, "'ab'"),
    ([], ActionError, "empty"),
    ({"A9": ["a"]}, ActionError, "'A9'"),
]


@pytest.mark.parametrize(("allowed", "error", "word"), MISTAKES)
@pytest.mark.parametrize("several", [False, True])
def test_mistakes_change_nothing(allowed: Any, error: type[Exception], word: str, several: bool) -> None:
    diagrams = [idb.models.cascade([*"abc"], 2), idb.models.position_based([*"abc"], 2)]
    agent = idb.Thompson(diagrams if several else diagrams[0], seed=0)
    action = {"A1": "a", "A2": "b"}
    before = agent.rng.bit_generator.state
    for call in (agent.act, agent.best_action, agent.marginals, lambda **k: agent.propensity(action, **k)):
        assert_raises(error, (word,), lambda call=call: call(allowed=allowed))
    for draws in (0, 1.5, "many"):
        assert_raises(IdbanditsError, ("draws",), lambda draws=draws: agent.marginals(draws=draws))
    assert agent.rng.bit_generator.state == before
