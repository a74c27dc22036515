"""Scores of agents on logs, checked by plain sums over `idb.log_likelihood` and by hand."""

import numpy as np
import pandas as pd
import pytest

import idbandits as idb
from click_logs import log_of, rounds_of
from idbandits.errors import IdbanditsError
from idbandits.logs.count import count_batches
from idbandits.logs.rounds import Rounds
from idbandits.logs.score import score_rounds
from idbandits.logs.score_belief import Prediction

MODELS = ["cascade", "position_based", "user_browsing", "dependent_click", "dynamic_bayesian", "click_chain"]


def trained(d, rounds, inference=None):
    agent = idb.Thompson(d, inference, seed=0)
    agent.learn(count_batches(d, [rounds]))
    return agent


def labelled(model, rounds, i, nodes):
    """Return action and observation of a round, of some observed nodes."""
    action = {n.name: n.values[k] for n, k in zip(model.decisions, rounds.choices[i].tolist(), strict=True)}
    states = zip(model.observed, rounds.seen[i].tolist(), strict=True)
    return action, {n.name: n.values[k] for j, (n, k) in enumerate(states) if k >= 0 and j in nodes}


@pytest.mark.parametrize("name", MODELS)
def test_probabilities_of_nodes_are_those_of_single_rounds(name):
    d = getattr(idb.models, name)(5, 3)
    rounds, _ = log_of(name, 300, 5, 3, seed=1)
    agent, model = trained(d, rounds), idb.compile(d)
    means = {table: own.mean for table, own in agent.posterior().items()}
    logs = Prediction(agent, None).logs(rounds.part(slice(0, 20)))
    for i in range(20):
        before = 0.0
        for k in range(3):
            prefix = idb.log_likelihood(d, *labelled(model, rounds, i, range(k + 1)), means)
            assert logs.conditional[i, k] == pytest.approx(prefix - before, abs=1e-9)
            alone = idb.log_likelihood(d, *labelled(model, rounds, i, [k]), means)
            assert logs.marginal[i, k] == pytest.approx(alone, abs=1e-9)
            before = prefix


def test_shorter_lists_count_where_they_are_shown():
    d = idb.models.user_browsing(6, 4)
    rounds, _ = log_of("user_browsing", 400, 6, 4, seed=2, shorter=0.5)
    agent = trained(d, rounds)
    score, model = score_rounds(agent, [rounds]), idb.compile(d)
    means = {table: own.mean for table, own in agent.posterior().items()}
    shown = rounds.seen >= 0
    assert score.frame["rounds"].tolist()[:-1] == shown.sum(axis=0).tolist()
    assert shown.sum(axis=0)[-1] < 400
    nodes = Prediction(agent, None).logs(rounds)
    by_rank = [2 ** -np.mean(nodes.conditional[shown[:, k], k] / np.log(2)) for k in range(4)]
    assert score.conditional_perplexity == pytest.approx(np.mean(by_rank), rel=1e-12)
    short = np.flatnonzero(~shown[:, 3])[0]
    filled = rounds.choices[short].copy()
    filled[filled < 0] = [item for item in range(6) if item not in filled][: (filled < 0).sum()]
    action, seen = labelled(model, rounds_of(filled[None], rounds.seen[[short]]), 0, range(4))
    assert np.nansum(nodes.conditional[short]) == pytest.approx(idb.log_likelihood(d, action, seen, means), abs=1e-9)


def coin_log(heads, coins, **columns):
    number = len(heads)
    return Rounds(np.array(coins)[:, None], np.array(heads)[:, None], np.arange(number), **columns)


def coins():
    d = idb.Diagram("coins")
    d.reward(d.observed("heads", [d.decision("coin", 2)]))
    return d


def test_errors_are_clustered_by_session():
    d = coins()
    heads, which = [1, 1, 0, 1, 0, 0], [0, 0, 0, 1, 1, 1]
    agent = idb.Thompson(d, "exact", seed=0)
    agent.update_many({"coin": [0, 0, 1]}, {"heads": [1, 1, 0]})  # P(heads) is 3/4 and 1/3
    p = np.where(np.array(which) == 0, 0.75, 1 / 3)
    logs = np.log(np.where(heads, p, 1 - p))
    sessions = np.array([7, 7, 3, 3, 5, 5])
    score = score_rounds(
        agent,
        [coin_log(heads[:3], which[:3], sessions=sessions[:3]), coin_log(heads[3:], which[3:], sessions=sessions[3:])],
    )
    sums = np.array([(logs - logs.mean())[sessions == s].sum() for s in (7, 3, 5)])
    assert score.log_likelihood == pytest.approx(logs.mean())
    assert score.log_likelihood_se == pytest.approx(np.sqrt(3 / 2 * (sums**2).sum()) / 6)
    assert score_rounds(agent, [coin_log(heads, which)]).log_likelihood_se == pytest.approx(
        logs.std(ddof=1) / np.sqrt(6)
    )


def test_weights_stand_for_repeated_rounds():
    agent = idb.Thompson(coins(), "exact", seed=0)
    agent.update({"coin": 0}, {"heads": 1})
    weighted = score_rounds(agent, [coin_log([1, 0], [0, 1], weights=np.array([3.0, 2.0]))])
    repeated = score_rounds(agent, [coin_log([1, 1, 1, 0, 0], [0, 0, 0, 1, 1])])
    pd.testing.assert_frame_equal(weighted.frame, repeated.frame)


def test_impossible_rounds_are_reported_and_left_out():
    d = idb.models.cascade(4, 2)
    rounds = rounds_of(np.array([[0, 1], [1, 2], [2, 3]]), np.array([[0, 1], [1, 1], [1, 0]]))
    agent = trained(d, rounds)
    score, other = score_rounds(agent, [rounds]), score_rounds(agent, [rounds.part([0, 2])])
    assert (score.impossible, score.examples, score.rounds) == (1, (1,), 2.0)
    assert score.log_likelihood == other.log_likelihood
    assert "1 round is impossible" in str(score)
    assert np.isfinite(score.frame["conditional_perplexity"]).all()


def test_posterior_predictive_averages_probabilities():
    agent = idb.Thompson(coins(), "exact", seed=0)
    agent.update({"coin": 0}, {"heads": 1})
    plain = score_rounds(agent, [coin_log([1], [0])])
    drawn = score_rounds(agent, [coin_log([1], [0])], predictive="posterior", draws=4000)
    assert plain.log_likelihood == pytest.approx(np.log(2 / 3))
    # mean of Beta(2, 1) by 4,000 draws: standard error 0.0056 of the logarithm; 5 of these
    assert drawn.log_likelihood == pytest.approx(np.log(2 / 3), abs=0.028)


def test_several_structures_are_mixed_by_weight():
    structures = {"pbm": idb.models.position_based(4, 2), "dcm": idb.models.dependent_click(4, 2)}
    agent = idb.Thompson(structures, seed=0)
    rounds, _ = log_of("position_based", 60, 4, 2, seed=3)
    model = idb.compile(structures["pbm"])
    for i in range(40):
        agent.update(*labelled(model, rounds, i, range(2)))
    weights, beliefs = agent.weights(), agent.posterior()
    assert 0.001 < weights["pbm"] < 0.999
    expected = [
        np.log(
            sum(
                weights[name] * np.exp(idb.log_likelihood(d, *labelled(model, rounds, i, range(2)), beliefs[name]))
                for name, d in structures.items()
            )
        )
        for i in range(40, 60)
    ]
    assert score_rounds(agent, [rounds.part(slice(40, 60))]).log_likelihood == pytest.approx(
        np.mean(expected), rel=1e-9
    )


def test_nodes_with_several_states_and_contexts():
    d = idb.Diagram("shop")
    user, item = d.context("user", ["new", "old"]), d.decision("item", 3)
    stars = d.observed("stars", [item, user], states=3)
    d.reward(d.observed("again", [stars], states=2))
    rng = np.random.default_rng(0)
    rounds = Rounds(
        np.stack([rng.integers(3, size=80), rng.integers(2, size=80)], axis=1),
        np.stack([rng.integers(3, size=80), rng.integers(-1, 2, size=80)], axis=1), np.arange(80),
    )  # fmt: skip
    agent, model = trained(d, rounds), idb.compile(d)
    means = {table: own.mean for table, own in agent.posterior().items()}
    expected = []
    for i in range(80):
        action = {"item": int(rounds.choices[i, 0])}
        seen = {n.name: n.values[k] for n, k in zip(model.observed, rounds.seen[i].tolist(), strict=True) if k >= 0}
        expected.append(idb.log_likelihood(d, action, seen, means, {"user": ["new", "old"][rounds.choices[i, 1]]}))
    assert score_rounds(agent, [rounds]).log_likelihood == pytest.approx(np.mean(expected))


def test_rankings_are_judged_by_labels():
    d = idb.models.cascade(["a", "b", "c"], 2)
    agent = idb.Thompson(d, seed=0)
    agent.update_many(
        {"A1": ["a", "b", "c"] * 30, "A2": ["b", "c", "a"] * 30}, {"C1": [1, 0, 0] * 30, "C2": [0, 1, 0] * 30}
    )
    # a and c were clicked more often than b: ranked a, c, b
    rounds = rounds_of(np.array([[0, 1]]), np.array([[1, 0]]))
    order = np.argsort(-agent.posterior()["attraction"].mean).tolist()
    grades = {"a": 0, "b": 2, "c": 1}
    ranked = [grades["abc"[k]] for k in order]
    dcg = (2 ** ranked[0] - 1) + (2 ** ranked[1] - 1) / np.log2(3)
    most = 3 + 1 / np.log2(3)
    score = score_rounds(agent, [rounds], labels=grades)
    assert score.ranking.dcg == pytest.approx(dcg)
    assert score.ranking.ndcg == pytest.approx(dcg / most)
    frame = pd.DataFrame({"item": list(grades), "grade": list(grades.values())})
    assert score_rounds(agent, [rounds], labels=frame).ranking == score.ranking


def test_wrong_arguments():
    agent, rounds = idb.Thompson(coins(), seed=0), coin_log([1], [0])
    with pytest.raises(IdbanditsError, match="predictive must be 'plug-in' or 'posterior', got 'mean'"):
        score_rounds(agent, [rounds], predictive="mean")
    with pytest.raises(IdbanditsError, match="agent must be an agent"):
        score_rounds(coins(), [rounds])
    with pytest.raises(IdbanditsError, match="labels: items must be choices of 'coin'"):
        score_rounds(agent, [rounds], labels={"x": 1})


def test_plot_shows_both_perplexities():
    d = idb.models.position_based(4, 3)
    rounds, _ = log_of("position_based", 50, 4, 3, seed=0)
    ax = score_rounds(trained(d, rounds), [rounds]).plot()
    assert ax.get_ylabel() == "perplexity, with 95 % intervals"
    assert [t.get_text() for t in ax.get_legend().get_texts()] == ["perplexity", "conditional perplexity"]
