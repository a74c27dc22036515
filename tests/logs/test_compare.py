"""Comparisons of models on held-out rounds: folds, tables, verdicts, baselines and plots."""

import numpy as np
import pandas as pd
import pytest

import idbandits as idb
from click_logs import log_of, rounds_of
from idbandits.errors import IdbanditsError
from idbandits.logs.compare import compare
from idbandits.logs.compare_baselines import POPULARITY, SATURATED
from idbandits.logs.compare_folds import folds_of
from idbandits.logs.compare_plot import differences_of
from idbandits.logs.compare_verdict import Candidate, Gap, judged, leader_of
from idbandits.logs.fit_log import fit_rounds
from idbandits.logs.rounds import Rounds
from idbandits.logs.score import score_rounds

ITEMS, POSITIONS = 6, 3
COLUMNS = [
    "model", "log_likelihood", "log_likelihood_se", "difference", "difference_se", "perplexity",
    "conditional_perplexity", "impossible", "parameters", "fit_seconds", "elbo",
]  # fmt: skip


def diagrams(*names):
    return {name: getattr(idb.models, name)(ITEMS, POSITIONS) for name in names}


@pytest.fixture(scope="module")
def browsing():
    """Return a user browsing log and the comparison of three models on it."""
    rounds, _ = log_of("user_browsing", 4000, ITEMS, POSITIONS, seed=0)
    return rounds, compare(diagrams("cascade", "position_based", "user_browsing"), rounds, folds=2)


def by_model(result):
    return result.frame.set_index("model")


def test_frame_has_a_row_per_model_and_baseline_with_the_best_first(browsing):
    rounds, result = browsing
    assert list(result.frame.columns) == COLUMNS
    assert set(result.frame["model"]) == {"cascade", "position_based", "user_browsing", SATURATED, POPULARITY}
    first = result.frame.iloc[0]
    assert (first["model"], first["difference"], first["difference_se"]) == (result.best, 0.0, 0.0)
    frame = by_model(result)
    assert frame["parameters"].to_dict() == {
        "cascade": 6, "position_based": 9, "user_browsing": 12, SATURATED: 18, POPULARITY: 6,
    }  # fmt: skip
    impossible = int((rounds.seen.sum(axis=1) > 1).sum())
    assert frame["impossible"].to_dict() == dict.fromkeys(frame.index, 0) | {"cascade": impossible}
    assert frame.index[-1] == "cascade"  # models that rule rounds out come last
    assert (frame["fit_seconds"] > 0).all()


def test_scores_are_those_of_agents_fitted_to_the_other_folds(browsing):
    rounds, result = browsing
    d, sums = diagrams("position_based")["position_based"], []
    for fit, predict in folds_of(rounds, 2, "session", 0):
        score = score_rounds(fit_rounds(d, rounds.part(fit), None, 0), [rounds.part(predict)])
        sums.append(score.log_likelihood * score.rounds)
    row = by_model(result).loc["position_based"]
    assert row["log_likelihood"] == pytest.approx(sum(sums) / len(rounds), rel=1e-9)
    best = by_model(result).loc["user_browsing"]
    assert row["difference"] == pytest.approx(row["log_likelihood"] - best["log_likelihood"], rel=1e-9)


def test_the_true_model_is_named_with_a_reason(browsing):
    _, result = browsing
    assert result.best == "user_browsing"
    assert result.verdict.startswith("'user_browsing' predicts best: ")
    assert "per round over 'position_based'" in result.verdict
    assert result.agent.diagram.name == "user browsing"
    assert result.agent.rounds == 4000
    assert 0 < result.fit_report.p_value <= 1
    assert str(result).startswith(result.verdict)
    assert "elbo" not in str(result)  # no model has one


def test_models_that_predict_alike_are_undecided():
    rounds, _ = log_of("position_based", 60, ITEMS, POSITIONS, seed=1)
    result = compare(diagrams("position_based", "dependent_click"), rounds, folds=2)
    assert result.best is None
    assert result.verdict.startswith("Undecided between ")
    assert "within 3 standard errors" in result.verdict


def test_equal_models_are_undecided(browsing):
    rounds, _ = browsing
    d = idb.models.user_browsing(ITEMS, POSITIONS)
    result = compare({"one": d, "other": idb.models.user_browsing(ITEMS, POSITIONS)}, rounds, folds=2)
    assert result.best is None
    assert "'one' and 'other'" in result.verdict


def candidate(name, parameters, impossible=0, is_baseline=False):
    return Candidate(name, parameters, impossible, np.zeros(1), is_baseline)


CLEAR, NOISE = Gap(0.01, 0.001), Gap(0.001, 0.001)
SIMPLE = candidate("simple", 10)
VERDICTS = {
    "a clear gap decides": ([SIMPLE, candidate("other", 10)], [CLEAR], "simple"),
    "noise does not": ([SIMPLE, candidate("other", 10)], [NOISE], None),
    "parameters that fit noise": ([SIMPLE, candidate("rich", 20)], [NOISE], None),
    "a rich baseline": ([SIMPLE, candidate("table", 20, is_baseline=True)], [NOISE], "simple"),
    "a rich baseline that predicts better": (
        [candidate("table", 20, is_baseline=True), SIMPLE], [NOISE], None,
    ),
    "a simple baseline": ([SIMPLE, candidate("table", 5, is_baseline=True)], [NOISE], None),
    "ruled-out rounds": ([SIMPLE, candidate("narrow", 5, impossible=3)], [Gap(-0.1, 0.001)], "simple"),
    "one model": ([SIMPLE], [], "simple"),
}  # fmt: skip


@pytest.mark.parametrize("kind", VERDICTS)
def test_verdicts(kind):
    candidates, gaps, best = VERDICTS[kind]
    verdict = judged(candidates, 0, [Gap(0.0, 0.0), *gaps])
    assert verdict.best == best
    assert verdict.sentence.endswith(".")
    if kind == "ruled-out rounds":
        assert "'narrow' rules out 3 rounds" in verdict.sentence
    if kind == "a rich baseline":
        assert verdict.sentence == "'simple' predicts best; 'table' has more parameters and predicts no better."
    if kind == "parameters that fit noise":
        assert verdict.sentence.endswith("within 3 standard errors; 'simple' has the fewest parameters.")
    if kind == "a clear gap decides":
        assert verdict.sentence == "'simple' predicts best: 0.01 ± 0.001 per round over 'other'."


def test_leaders_rule_out_the_fewest_rounds():
    narrow = candidate("narrow", 5, impossible=1)
    assert leader_of([narrow, SIMPLE], [0.0, -5.0]) == 1
    assert leader_of([SIMPLE, candidate("other", 5)], [-5.0, -4.0]) == 1


def random_log(seed, overlapping):
    rng = np.random.default_rng(seed)
    sessions = rng.integers(40, size=300) + 7
    times = rng.random(300) + (0 if overlapping else 10) * sessions
    return Rounds(np.zeros((300, 1), int), np.zeros((300, 1), int), np.arange(300), times=times, sessions=sessions)


@pytest.mark.parametrize("seed", range(5))
def test_folds_by_session_keep_sessions_whole_and_predict_each_round_once(seed):
    rounds = random_log(seed, True)
    predicted = np.zeros(300, int)
    for fit, predict in folds_of(rounds, 4, "session", seed):
        assert not set(rounds.sessions[fit]) & set(rounds.sessions[predict])
        assert (fit | predict).all()
        predicted += predict
    assert (predicted == 1).all()


def test_folds_do_not_depend_on_the_labels_of_sessions(tmp_path):
    d, rng = idb.models.cascade(3, 2), np.random.default_rng(3)
    log = pd.DataFrame({"A1": 0, "A2": 1, "C1": rng.integers(0, 2, 60), "C2": 0, "session": np.arange(60) // 3})
    renamed = log.assign(session=log["session"].map(lambda k: f"folder {-7 * k % 20}/file"))
    frames = [idb.compare({"a": d}, own, session="session").frame for own in (log, renamed)]
    pd.testing.assert_frame_equal(*(own.drop(columns="fit_seconds") for own in frames))


@pytest.mark.parametrize("overlapping", [False, True])
@pytest.mark.parametrize("seed", range(5))
def test_folds_by_time_use_no_session_twice_and_nothing_from_the_future(seed, overlapping):
    rounds = random_log(seed, overlapping)
    predicted = np.zeros(300, int)
    for fit, predict in folds_of(rounds, 4, "time", seed):
        assert not set(rounds.sessions[fit]) & set(rounds.sessions[predict])
        assert rounds.times[fit].max() <= rounds.times[predict].min()
        if not overlapping:  # then all of the past is used
            assert fit.sum() == (rounds.times < rounds.times[predict].min()).sum()
        predicted += predict
    starts = pd.Series(rounds.times).groupby(rounds.sessions).min().sort_values()
    assert set(rounds.sessions[predicted == 0]) == set(starts.index[:8])  # the first of 5 parts
    assert predicted.max() == 1


def test_sessions_without_times_are_in_the_order_of_the_log():
    rounds = Rounds(np.zeros((10, 1), int), np.zeros((10, 1), int), np.arange(10))
    [(fit, predict)] = folds_of(rounds, 1, "time", 0)
    assert np.flatnonzero(fit).tolist() == [0, 1, 2, 3, 4]
    assert np.flatnonzero(predict).tolist() == [5, 6, 7, 8, 9]


def test_held_out_rounds_have_no_influence_on_predictions_of_themselves():
    """A table with a row for each item of its own cannot predict coins that it has not seen."""
    rng = np.random.default_rng(0)
    d = idb.Diagram("coins")
    d.reward(d.observed("heads", [d.decision("coin", 200)]))
    coins = rng.permutation(np.repeat(np.arange(200), 5))
    heads = rng.integers(2, size=200)[coins]  # a coin always falls alike
    rounds = Rounds(coins[:, None], heads[:, None], np.arange(1000), sessions=coins)
    by_coin = by_model(compare({"coins": d}, rounds, folds=5))  # each coin is in one fold
    assert by_coin.loc["coins", "log_likelihood"] == pytest.approx(np.log(0.5))
    unrelated = Rounds(coins[:, None], heads[:, None], np.arange(1000))
    mixed = by_model(compare({"coins": d}, unrelated, folds=5))
    assert mixed.loc["coins", "log_likelihood"] > -0.4


def test_errors_of_differences_are_clustered_by_session():
    rounds, _ = log_of("user_browsing", 1000, ITEMS, POSITIONS, seed=2)
    models = diagrams("position_based", "user_browsing")
    copies = np.repeat(np.arange(1000), 4)
    repeated = rounds_of(rounds.choices[copies], rounds.seen[copies], sessions=copies)
    grouped = by_model(compare(models, repeated, folds=2)).loc["position_based"]
    single = by_model(compare(models, rounds, folds=2)).loc["position_based"]
    # the same 1,000 sessions, each with 4 equal rounds, which add no information to the difference
    assert grouped["difference_se"] == pytest.approx(single["difference_se"], rel=0.25)
    assert grouped["log_likelihood_se"] == pytest.approx(single["log_likelihood_se"], rel=0.05)


def test_weights_stand_for_repeated_rounds():
    rounds, _ = log_of("position_based", 300, ITEMS, POSITIONS, seed=3)
    counts = np.random.default_rng(0).integers(1, 4, 300)
    copies = np.repeat(np.arange(300), counts)
    models = diagrams("cascade", "position_based")
    weighted = rounds_of(rounds.choices, rounds.seen, weights=counts.astype(float))
    repeated = rounds_of(rounds.choices[copies], rounds.seen[copies], sessions=copies)
    ours, theirs = (compare(models, own, folds=3, inference="ep").frame for own in (weighted, repeated))
    same = [name for name in COLUMNS if name not in ("fit_seconds", "impossible")]
    pd.testing.assert_frame_equal(ours[same], theirs[same], rtol=1e-6)


def test_impossible_rounds_do_not_hide_a_model_that_allows_them():
    rounds, _ = log_of("cascade", 500, ITEMS, POSITIONS, seed=4)
    seen = rounds.seen.copy()
    seen[17] = 1  # three clicks
    result = compare(diagrams("cascade", "user_browsing"), rounds_of(rounds.choices, seen), folds=2)
    frame = by_model(result)
    assert frame.loc["cascade", "impossible"] == 1
    assert frame.index[0] != "cascade"
    assert result.best != "cascade"
    assert np.isfinite(frame["log_likelihood"]).all()


def test_evidence_lower_bounds_where_the_inference_has_them(browsing):
    rounds, _ = browsing
    result = compare(diagrams("position_based"), rounds.part(slice(0, 500)), folds=2, inference="variational")
    agent = fit_rounds(idb.models.position_based(ITEMS, POSITIONS), rounds.part(slice(0, 500)), "variational", 0)
    assert by_model(result).loc["position_based", "elbo"] == pytest.approx(agent.elbo(), rel=1e-9)
    assert "elbo" in str(result)


def test_lists_of_diagrams_are_weighed_as_structures():
    rounds, _ = log_of("position_based", 200, 4, 2, seed=5)
    pair = [idb.models.position_based(4, 2), idb.models.dependent_click(4, 2)]
    frame = by_model(compare({"pair": pair, "alone": pair[0]}, rounds, folds=2))
    assert frame.loc["pair", "parameters"] == 6 + 6
    assert frame.loc["pair", "log_likelihood"] == pytest.approx(frame.loc["alone", "log_likelihood"], abs=0.05)
    assert np.isnan(frame.loc["pair", "elbo"])


def labelled(rounds, items):
    """Return a log as columns of labels."""
    names = np.array(items)
    shown = {f"A{k + 1}": names[rounds.choices[:, k]].tolist() for k in range(rounds.choices.shape[1])}
    return shown | {f"C{k + 1}": rounds.seen[:, k].tolist() for k in range(rounds.seen.shape[1])}


def test_functions_of_items_get_those_of_the_log():
    rounds, _ = log_of("cascade", 400, 4, 2, seed=6)
    asked = []

    def cascade(items):
        asked.append(list(items))
        return idb.models.cascade(items, 2)

    models = {"cascade": cascade, "pbm": lambda items: idb.models.position_based(items, 2)}
    result = compare(models, labelled(rounds, ["tea", "milk", "rice", "soup"]), folds=2)
    assert sorted(asked[-1]) == ["milk", "rice", "soup", "tea"]
    assert by_model(result).loc["cascade", "parameters"] == 4
    agent = result.agent
    assert sorted(agent.diagram.of_kind("decision")[0].values) == ["milk", "rice", "soup", "tea"]


def test_functions_of_items_may_add_an_empty_slot():
    log = {"A1": ["tea", "milk"] * 40, "A2": ["milk", None] * 40, "C1": [1, 0] * 40, "C2": [0, None] * 40}
    result = idb.compare(
        {"cascade": lambda items: idb.models.cascade(items, 2, empty=True)}, log, items="from log", folds=2
    )
    assert result.agent.diagram.nodes["A1"].values == ("milk", "tea", "(nothing)")


def test_logs_are_read_with_options(tmp_path):
    rounds, _ = log_of("position_based", 300, 4, 2, seed=7)
    frame = pd.DataFrame(labelled(rounds, list("abcd"))).assign(user=np.arange(300) // 3, when=np.arange(300)[::-1])
    frame.to_parquet(tmp_path / "log.parquet")
    models = {"pbm": idb.models.position_based(list("abcd"), 2)}
    from_file, from_frame = (
        compare(models, log, folds=2, session="user").frame for log in (tmp_path / "log.parquet", frame)
    )
    same = [name for name in COLUMNS if name != "fit_seconds"]
    pd.testing.assert_frame_equal(from_file[same], from_frame[same])
    backwards = compare(models, frame, folds=1, by="time", at="when", inference="ep")
    forwards = compare(models, frame[::-1], folds=1, by="time", inference="ep")  # EP depends on the order a little
    pd.testing.assert_frame_equal(backwards.frame[same], forwards.frame[same], rtol=1e-3)


def test_contexts_are_parents_of_the_saturated_table():
    d = idb.Diagram("greeting")
    user, item = d.context("user", ["new", "old"]), d.decision("item", 3)
    d.reward(d.observed("click", [user, item], idb.Learned("click")))
    other = idb.Diagram("greeting without users")
    other.context("user", ["new", "old"])
    other.reward(other.observed("click", [other.decision("item", 3)], idb.Learned("click")))
    rng = np.random.default_rng(0)
    choices = np.stack([rng.integers(3, size=2000), rng.integers(2, size=2000)], axis=1)
    clicks = rng.random(2000) < np.where(choices[:, 0] == choices[:, 1], 0.8, 0.2)
    rounds = Rounds(choices, clicks.astype(np.int64)[:, None], np.arange(2000))
    result = compare({"by user": d, "by item": other}, rounds, folds=2)
    frame = by_model(result)
    assert frame["parameters"].to_dict() == {"by user": 6, "by item": 3, SATURATED: 6, POPULARITY: 3}
    assert frame.loc["by user", "log_likelihood"] == pytest.approx(frame.loc[SATURATED, "log_likelihood"])
    assert frame.loc["by item", "difference"] < -3 * frame.loc["by item", "difference_se"]
    assert set(frame.index[:2]) == {"by user", SATURATED}


def test_features_of_contexts():
    d = idb.Diagram("shop")
    user, click = d.context("user", features=["age"]), idb.Learned("click", features=[[1.0], [-1.0]], products=True)
    d.reward(d.observed("click", [d.decision("item", 2), user], click))
    rng = np.random.default_rng(0)
    age, item = rng.normal(size=600), rng.integers(2, size=600)
    clicks = rng.random(600) < 1 / (1 + np.exp(-3 * age * (2 * item - 1)))
    log = {"user.age": age.tolist(), "item": item.tolist(), "click": clicks.astype(int).tolist()}
    result = compare({"by age": d}, log, folds=2)
    assert result.best == "by age"  # baselines do not know the age
    assert result.fit_report is None
    assert by_model(result).loc[SATURATED, "log_likelihood"] == pytest.approx(np.log(0.5), abs=0.03)


def test_plots_show_differences_with_intervals_but_not_of_models_that_rule_out_rounds(browsing):
    _, result = browsing
    shown, impossible = differences_of(result.frame), result.frame["impossible"].iloc[-1]
    assert shown.labels == [*result.frame["model"][:-1], f"cascade\n(rules out {impossible:,} rounds)"]
    assert shown.values[:-1].tolist() == result.frame["difference"].tolist()[:-1]
    assert np.isnan(shown.values[-1])
    assert shown.half == pytest.approx(1.96 * result.frame["difference_se"].to_numpy())
    ax = result.plot()
    assert [label.get_text() for label in ax.get_yticklabels()] == shown.labels
    assert "log-likelihood per held-out round (nats)" in ax.get_xlabel()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"models": {}}, "models must map names to diagrams"),
        ({"models": [1]}, "models must map names to diagrams, got"),
        ({"models": {"a": 3}}, "models must be diagrams, lists of diagrams or functions of items, got 3"),
        ({"folds": 1}, "folds must be"),
        ({"folds": 2.5}, "folds must be"),
        ({"folds": 50}, "at least 50 sessions for 50 folds, got 20"),
        ({"by": "user"}, "by must be 'session' or 'time', got 'user'"),
        ({"unknown": 1}, "options of logs must be among .*, got 'unknown'"),
        ({"session": "nowhere"}, "nowhere"),
    ],
)
def test_invalid_input_is_named(changes, message):
    rounds, _ = log_of("cascade", 20, 4, 2, seed=0)
    given = {"models": {"cascade": idb.models.cascade(4, 2)}} | changes
    with pytest.raises(IdbanditsError, match=message):
        compare(given.pop("models"), labelled(rounds, range(4)), **given)


def test_models_of_other_nodes_are_rejected():
    rounds, _ = log_of("cascade", 20, 4, 2, seed=0)
    for other in (idb.models.cascade(4, 3), idb.models.cascade(5, 2)):
        with pytest.raises(IdbanditsError, match=r"A3|A1"):
            compare({"one": idb.models.cascade(4, 2), "other": other}, rounds, folds=2)
