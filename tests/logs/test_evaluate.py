"""Values of policies from logs, checked by published formulas as plain loops and by enumeration of small worlds."""

import re
import warnings

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

import idbandits as idb
from evaluation_worlds import list_log, list_policy, published, true_value, world_of
from idbandits.errors import IdbanditsError
from idbandits.logs.evaluate.policy_value import PropensityWarning, evaluate
from idbandits.logs.evaluate.propensity_sums import cells_of, sum_error

ITEMS = ("a", "b", "c", "e")
BEST = ("a", "b", "c")


@pytest.fixture(scope="module")
def case():
    """Return a position-based world with a log of 1,500 rounds."""
    d = idb.models.position_based(ITEMS, 3)
    means, logging = world_of(d, 1), list_policy(ITEMS, 3, 2)
    return d, means, list_log(d, means, logging, 1500, seed=3).assign(s=np.arange(1500) // 3), logging


def columns(frame):
    """Return a frame as the mapping of columns that all readers accept."""
    return {name: frame[name].tolist() for name in frame.columns}


def values(result):
    """Return estimates by name."""
    return dict(zip(result.frame["estimator"], result.frame["value"], strict=True))


@pytest.mark.parametrize("name", ["position_based", "cascade", "user_browsing"])
def test_weighted_estimates_are_the_published_ones(name):
    d = getattr(idb.models, name)(ITEMS, 3)
    frame = list_log(d, world_of(d, 1), list_policy(ITEMS, 3, 2), 400, seed=3)
    target = list_policy(ITEMS, 3, 9)
    sets = {"A1": "m1", "A2": "m2", "A3": "m3", ("A1", "A2"): "r2", ("A1", "A2", "A3"): "p"}
    ours = values(evaluate(lambda: target, columns(frame), d, propensity=sets, seed=0))
    for estimator, value in published(frame, target, 3).items():
        assert ours[estimator] == pytest.approx(value, rel=1e-12)
    own = {"position_based": "IIPS", "cascade": "RIPS", "user_browsing": "RIPS"}[name]
    assert ours["IPS"] == ours[own]


def test_weighted_estimates_are_those_of_the_open_bandit_pipeline(case):
    ope = pytest.importorskip("obp.ope")
    d, _, frame, _ = case
    target = list_policy(ITEMS, 3, 9)
    sets = {"A1": "m1", "A2": "m2", "A3": "m3", ("A1", "A2"): "r2", ("A1", "A2", "A3"): "p"}
    ours = values(evaluate(lambda: target, columns(frame), d, propensity=sets, seed=0))
    rows, k = len(frame), 3
    from evaluation_worlds import marginal

    lists = frame[["A1", "A2", "A3"]].to_numpy().tolist()
    clicks = frame[["C1", "C2", "C3"]].to_numpy(float).ravel()
    common = {"slate_id": np.repeat(np.arange(rows), k), "reward": clicks, "position": np.tile(np.arange(k), rows)}
    cells = [(own, j) for own in lists for j in range(k)]
    for kind, name, word, logged, places in [
        ("SlateStandardIPS", "SIPS", "", [["p"] * 3] * rows, lambda j: range(3)),
        ("SlateIndependentIPS", "IIPS", "_item_position", [["m1", "m2", "m3"]] * rows, lambda j: [j]),
        ("SlateRewardInteractionIPS", "RIPS", "_cascade", [["r1", "r2", "r3"]] * rows, lambda j: range(j + 1)),
    ]:
        below = np.array(
            [row[own] for row, names in zip(frame.to_dict("records"), logged, strict=True) for own in names]
        )
        above = np.array([marginal(target, places(j), own) for own, j in cells])
        given = {f"pscore{word}": below, f"evaluation_policy_pscore{word}": above}
        theirs = getattr(ope, kind)(len_list=k).estimate_policy_value(**common, **given)
        assert ours[name] == pytest.approx(theirs, rel=1e-12)


def test_the_pseudo_inverse_estimate_is_that_of_vowpal_wabbit():
    estimators = pytest.importorskip("estimators.slates.pseudo_inverse", reason="vw-estimators is a test dependency")
    d = idb.Diagram("slate")
    first, second = d.decision("A1", ["x", "y"]), d.decision("A2", ["p", "q", "r"])
    d.reward(d.observed("bought", [first, second], idb.Learned("bought")))
    logged = {"x": 0.3, "y": 0.7}, {"p": 0.2, "q": 0.5, "r": 0.3}
    wanted = {"x": 0.9, "y": 0.1}, {"p": 0.25, "q": 0.25, "r": 0.5}
    rng, theirs, rows = np.random.default_rng(0), estimators.Estimator(), []
    for _ in range(500):
        own = [rng.choice(list(shares), p=list(shares.values())) for shares in logged]
        below = [float(shares[item]) for shares, item in zip(logged, own, strict=True)]
        bought = int(rng.random() < 0.2 + 0.4 * (own[0] == "x") + 0.2 * (own[1] == "r"))
        theirs.add_example(below, bought, [shares[item] for shares, item in zip(wanted, own, strict=True)])
        rows.append([*own, bought, *below])
    log = columns(pd.DataFrame(rows, columns=["A1", "A2", "bought", "p1", "p2"]))
    policy = [({"A1": a, "A2": b}, p * q) for a, p in wanted[0].items() for b, q in wanted[1].items()]
    ours = values(evaluate(lambda: policy, log, d, propensity=["p1", "p2"], seed=0))
    assert ours["pseudo-inverse"] == pytest.approx(theirs.get(), rel=1e-12)


PROPENSITIES = {
    "per list": "p",
    "given those above": ["c1", "c2", "c3"],
    "marginal": {"A1": "m1", "A2": "m2", "A3": "m3"},
    "a policy": lambda: list_policy(ITEMS, 3, 2),
}


@pytest.mark.parametrize("kind", PROPENSITIES)
def test_propensities_in_all_forms_give_the_same_weights(case, kind):
    d, _, frame, _ = case
    result = values(evaluate(BEST, columns(frame), d, propensity=PROPENSITIES[kind], seed=0))
    assert result["IPS"] == pytest.approx(published(frame, {BEST: 1.0}, 3)["IIPS"], rel=1e-9)
    assert ("SIPS" in result) == (kind != "marginal")


def test_uniform_propensities_count_feasible_lists():
    d = idb.models.cascade(ITEMS, 2)
    lists = dict.fromkeys(list_policy(ITEMS, 2, 0), 1 / 12)
    frame = list_log(d, world_of(d, 1), lists, 300, seed=3)
    ours = values(evaluate(("a", "b"), columns(frame), d, propensity="uniform", seed=0))
    for name, value in published(frame, {("a", "b"): 1.0}, 2).items():
        assert ours[name] == pytest.approx(value, rel=1e-12)


def test_estimated_propensities_warn_and_are_not_trusted(case):
    d, _, frame, _ = case
    with pytest.warns(PropensityWarning, match="estimated from the log"):
        result = evaluate(BEST, columns(frame), d, propensity="estimated", seed=0)
    assert "propensities are estimated" in result.verdict
    assert str(result).startswith("WARNING: Propensities are estimated")
    own = frame[(frame[["A1", "A2", "A3"]] == list(BEST)).all(axis=1)]
    assert values(result)["SIPS"] == pytest.approx(own[["C1", "C2", "C3"]].sum(axis=1).mean(), rel=1e-12)


ACTION = {"A1": "a", "A2": "b", "A3": "c"}
POLICIES = {
    "an action": ACTION,
    "a list": BEST,
    "a function": lambda: ACTION,
    "a function of the context": lambda context: BEST,
    "a function of eligible items": lambda context, allowed: [allowed[f"A{k + 1}"][k] for k in range(3)],
    "a distribution": lambda: [(ACTION, 0.25), (BEST, 0.75)],
    "a table": {(): BEST},
    "a frame": pd.DataFrame([ACTION]),
    "a random frame": pd.DataFrame([ACTION | {"probability": 0.4}, ACTION | {"probability": 0.6}]),
    "columns": ["x1", "x2", "x3"],
    "named columns": {"A1": "x1", "A2": "x2", "A3": "x3"},
}


@pytest.mark.parametrize("kind", POLICIES)
def test_policies_in_all_forms_have_the_same_value(case, kind):
    d, _, frame, _ = case
    log = columns(frame.assign(x1="a", x2="b", x3="c"))
    result = values(evaluate(POLICIES[kind], log, d, propensity="p", seed=0))
    for name, value in published(frame, {BEST: 1.0}, 3).items():
        assert result[name] == pytest.approx(value, rel=1e-12)
    assert {"direct method", "doubly robust", "CDR"} <= result.keys()


def test_policy_of_probabilities_in_a_column(case):
    d, _, frame, _logging = case
    log = columns(frame.assign(own=frame["p"] / 2 + 0.25))
    result = values(evaluate("own", log, d, propensity="p", seed=0))
    weights = (frame["p"] / 2 + 0.25) / frame["p"]
    expected = (weights * frame[["C1", "C2", "C3"]].sum(axis=1)).mean()
    assert result["SIPS"] == pytest.approx(expected, rel=1e-12)
    assert "direct method" not in result


def test_logs_from_files_and_frames_give_the_same_estimates(case, tmp_path):
    d, _, frame, _ = case
    frame.to_parquet(tmp_path / "log.parquet")
    results = [
        evaluate(BEST, log, d, propensity="p", session="s", seed=0)
        for log in (columns(frame), tmp_path / "log.parquet", frame)
    ]
    for result in results[1:]:
        pd.testing.assert_frame_equal(result.frame, results[0].frame)
    assert results[0].report is not None


def test_sessions_widen_intervals_of_repeated_rounds(case):
    d, _, frame, _ = case
    log = columns(pd.concat([frame.assign(s=np.arange(len(frame)))] * 4))
    single = evaluate(BEST, log, d, propensity="p", seed=0).frame.set_index("estimator").loc["IPS"]
    by_session = evaluate(BEST, log, d, propensity="p", session="s", seed=0).frame.set_index("estimator").loc["IPS"]
    assert by_session["value"] == pytest.approx(single["value"])
    ratio = (by_session["high"] - by_session["low"]) / (single["high"] - single["low"])
    assert 1.7 < ratio < 2.3  # 2: each round counts once instead of 4 times


def test_weights_of_rounds_stand_for_copies(case):
    d, _, frame, _ = case
    copies = np.random.default_rng(0).integers(0, 4, len(frame))
    log = columns(frame.assign(n=copies))
    repeated = columns(frame.loc[np.repeat(frame.index, copies)])
    ours = values(evaluate(BEST, log, d, propensity="p", weight="n", seed=0))
    theirs = values(evaluate(BEST, repeated, d, propensity="p", seed=0))
    for name in ("IPS", "self-normalised IPS", "SIPS", "IIPS", "RIPS", "clipped IPS"):
        assert ours[name] == pytest.approx(theirs[name], rel=1e-9)


def test_self_normalised_and_clipped_weights(case):
    d, _, frame, _ = case
    ours = values(evaluate(BEST, columns(frame), d, propensity="p", clip=3.0, seed=0))
    normalised = limited = 0.0
    for k in range(3):
        weights = (frame[f"A{k + 1}"] == BEST[k]) / frame[f"m{k + 1}"]
        normalised += (weights * frame[f"C{k + 1}"]).sum() / weights.sum()
        limited += (weights.clip(upper=3.0) * frame[f"C{k + 1}"]).mean()
    assert ours["self-normalised IPS"] == pytest.approx(normalised, rel=1e-9)
    assert ours["clipped IPS"] == pytest.approx(limited, rel=1e-9)


def test_contexts_select_actions_of_tables():
    d = idb.Diagram("greeting")
    d.context("device", ["phone", "desk"])
    d.decision("A", ["x", "y"])
    d.observed("C", ["device", "A"], idb.Learned("click"))
    d.reward(["C"], [0.0, 1.0])
    rng = np.random.default_rng(0)
    devices, actions = rng.choice(["phone", "desk"], 800), rng.choice(["x", "y"], 800)
    clicks = (rng.random(800) < 0.2 + 0.5 * ((devices == "phone") == (actions == "x"))).astype(int)
    frame = pd.DataFrame({"device": devices, "A": actions, "C": clicks})
    log = columns(frame)
    wanted = np.where(devices == "phone", "x", "y")
    expected = (2 * (actions == wanted) * clicks).mean()
    tables = [
        {"phone": "x", "desk": {"A": "y"}},
        {("phone",): {"x": 1.0}, ("desk",): [({"A": "y"}, 1.0)]},
        pd.DataFrame({"device": ["phone", "desk"], "A": ["x", "y"]}),
        lambda context: "x" if context["device"] == "phone" else "y",
    ]
    for table in tables:
        result = evaluate(table, log, d, propensity="uniform", seed=0)
        assert values(result)["IPS"] == pytest.approx(expected, rel=1e-12)
        for name in ("direct method", "doubly robust", "CDR"):
            assert values(result)[name] == pytest.approx(0.7, abs=0.08)
    with pytest.raises(IdbanditsError, match="entry for each context of the log, got none for"):
        evaluate({"phone": "x"}, log, d, propensity="uniform")


def test_frozen_agent_acts_by_its_beliefs_and_is_not_changed(case):
    d, means, frame, logging = case
    agent = idb.Thompson(d, seed=0)
    frozen = evaluate(agent, columns(frame), propensity="p", seed=0)
    assert agent.rounds == 0
    uniform = {own: 1 / len(logging) for own in logging}
    assert frozen.low < true_value(d, means, uniform) < frozen.high  # symmetric beliefs: all lists alike


@pytest.mark.parametrize("logging", ["uniform", "skewed"])
def test_learning_agent_has_the_reward_of_one_in_the_world(logging):
    d = idb.models.cascade(("a", "b", "c"), 1)
    means = {"attraction": np.array([0.1, 0.3, 0.8])}
    shares = [1 / 3] * 3 if logging == "uniform" else [0.6, 0.3, 0.1]
    frame = list_log(d, means, dict(zip([("a",), ("b",), ("c",)], shares, strict=True)), 900, seed=3)
    agent = idb.Thompson(d, seed=0)
    replays = [evaluate(agent, columns(frame), propensity="p", learning=True, seed=seed) for seed in range(4)]
    assert agent.rounds == 0
    assert all(result.best == "replay" for result in replays)
    rounds = [int(result.notes[-1].split()[4]) for result in replays]  # "The agent learned from 300 of 900 rounds."
    rewards = []
    for seed in range(20):
        own, world = agent.copy(seed), idb.World(d, means, seed=100 + seed)
        for _ in range(int(np.mean(rounds))):
            outcome = world.step(action := own.act())
            own.update(action, outcome.observation)
            rewards.append(sum(outcome.observation.values()))
    widths = [result.high - result.low for result in replays]
    error = np.mean(widths) / 3.92  # of one replay; all replay one log, so that their mean is not much better
    assert np.mean([result.value for result in replays]) == pytest.approx(np.mean(rewards), abs=4 * error)  # 1e-4
    assert min(result.value for result in replays) > 0.5  # uniform choices earn 0.4


def test_result_has_table_plot_verdict_and_text(case):
    d, _, frame, _ = case
    result = evaluate(BEST, columns(frame), d, propensity="p", seed=0)
    assert result.frame.columns[:5].tolist() == ["estimator", "value", "low", "high", "effective_sample_size"]
    assert (result.frame["low"] <= result.frame["value"]).all()
    assert (result.frame["value"] <= result.frame["high"]).all()
    figure = Figure(figsize=(6, 4), layout="constrained")
    ax = result.plot(figure.subplots())
    assert [label.get_text() for label in ax.get_yticklabels()] == [*result.frame["estimator"], "log"]
    figure.draw_without_rendering()
    assert ax.xaxis.label.get_window_extent().x1 <= figure.bbox.x1
    assert result.verdict in str(result)
    assert "doubly robust" in str(result)
    checks = result.diagnostics_frame.set_index("estimator").loc["SIPS"]
    weights = (frame[["A1", "A2", "A3"]] == list(BEST)).all(axis=1) / frame["p"]
    assert checks["effective_sample_size"] == pytest.approx(weights.sum() ** 2 / (weights**2).sum())
    assert checks["largest_weight"] == weights.max()
    assert checks["mean_weight"] == pytest.approx(weights.mean())


def test_wrong_propensities_are_found(case):
    d, _, frame, logging = case
    common = max(logging, key=logging.get)
    for policy, propensity, reason in [
        (common, "p", "the mean weight is .* instead of 1"),
        (BEST, "p", "choices in the log have the sum 0.5 instead of 1"),
        (BEST, {"A1": "m1", "A2": "m2", "A3": "m3"}, "choices in the log have the sum 0.5 instead of 1"),
    ]:
        names = [propensity] if isinstance(propensity, str) else list(propensity.values())
        log = columns(frame.assign(**{name: frame[name] / 2 for name in names}))
        result = evaluate(policy, log, d, propensity=propensity, seed=0)
        assert result.verdict.startswith("Not to be trusted")
        assert re.search(reason, result.verdict)
        right = evaluate(policy, columns(frame), d, propensity=propensity, seed=0)
        assert "instead of" not in right.verdict


def test_propensities_of_actions_that_did_not_occur_are_missing_in_sums():
    rng = np.random.default_rng(0)
    shares = rng.dirichlet(np.full(2000, 0.5))
    choices = rng.choice(2000, 500, p=shares)[:, np.newaxis]
    group, weights = np.zeros(500, np.int64), np.ones(500)
    cells = cells_of(group, choices)
    right = shares[choices[:, 0]]
    assert right[cells.example].sum() < 0.7
    assert sum_error(right, weights, group, cells) is None
    for factor in (0.5, 1.6):
        assert "instead of" in sum_error(factor * right, weights, group, cells)
    assert sum_error(rng.random(500), weights, group, cells) is None  # a policy that changed is not checked


def test_lists_that_the_log_does_not_show_are_reported():
    d = idb.models.position_based(ITEMS, 2)
    shown = {("a", "b"): 0.5, ("b", "a"): 0.5}
    frame = list_log(d, world_of(d, 0), shown, 300, seed=0)
    result = evaluate(("c", "e"), columns(frame), d, propensity="p", seed=0)
    assert "Not to be trusted" in result.verdict
    assert result.diagnostics["IPS"].overlap == 0.0


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"d": None}, "d must be a diagram"),
        ({"policy": {"A1": "a", "A2": "b", "A3": "nowhere"}}, "policy: 'A3' must be one of .*, got 'nowhere'"),
        ({"policy": ("a", "a", "b")}, "A1"),
        ({"policy": 3.5}, "policy must be an agent, an action"),
        ({"policy": "nowhere"}, "policy must name columns of the log, got 'nowhere'"),
        ({"policy": lambda: [(BEST, 0.7)]}, "probabilities of actions must be >= 0 with sum 1, got"),
        ({"policy": lambda: 7}, "must return an action, or a list of"),
        ({"propensity": "nowhere"}, "propensity must name columns of the log, got 'nowhere'"),
        ({"policy": {"A1": "a"}}, "policy must have a choice for each of A1, A2, A3, got none for 'A2'$"),
        ({"policy": {"A1": "a", "A2": "b", "B3": "c"}}, "A1, A2, A3, got none for 'A3' and the unknown 'B3'$"),
        ({"policy": {"A1": "a", "A2": "b", "A3": "c", "A4": "d"}}, "for each of A1, A2, A3, got the unknown 'A4'$"),
        ({"policy": {}}, "policy must have a choice for each of A1, A2, A3, got none for 'A1'$"),
        ({"policy": {"X": "a"}}, "for each of A1, A2, A3, got none for 'A1' and the unknown 'X'$"),
        ({"propensity": ["m1", "m2"]}, r"propensity must name 3 columns, one per decision, got \['m1', 'm2'\]; a text"),
        ({"propensity": ["p"]}, r"propensity must name 3 columns, one per decision, got \['p'\]; a text"),
        ({"propensity": {"A1": "m1"}}, "propensity must give probabilities of whole actions or of each decision"),
        ({"propensity": {"A1": "nowhere"}}, "propensity must name columns of the log, got 'nowhere'"),
        ({"propensity": "zero"}, "'zero' must have probabilities > 0 and <= 1, got 0.0 in row 0"),
        ({"propensity": "A1"}, "column 'A1' must have numbers"),
        ({"clip": 0}, "clip must be"),
        ({"folds": 1}, "folds must be"),
        ({"learning": "yes"}, "learning must be True or False"),
        ({"learning": True}, "policy must be an agent if learning=True"),
        ({"session": "nowhere"}, "nowhere"),
        ({"unknown": 1}, "unknown"),
    ],
)
def test_invalid_input_is_named(case, changes, message):
    d, _, frame, _ = case
    given = {"policy": BEST, "d": d, "propensity": "p"} | changes
    policy, diagram = given.pop("policy"), given.pop("d")
    with pytest.raises(IdbanditsError, match=message), warnings.catch_warnings():
        evaluate(policy, columns(frame.assign(zero=0.0)), diagram, **given)


def test_short_logs_are_rejected(case):
    d, _, frame, _ = case
    with pytest.raises(IdbanditsError, match="at least 10 complete rounds, got 4"):
        evaluate(BEST, columns(frame.iloc[:4]), d, propensity="p")


def test_intervals_do_not_shrink_where_no_list_of_the_policy_was_logged():
    d = idb.models.position_based(12, 4)
    means, covered, widths = world_of(d, 5), 0, []
    policy = {"A1": 3, "A2": 1, "A3": 7, "A4": 0}
    truth = idb.expected_reward(d, policy, means)
    for seed in range(20):
        rng, world = np.random.default_rng(seed), idb.World(d, means, seed=seed)
        rows = [dict(zip(policy, rng.permutation(12)[:4].tolist(), strict=True)) for _ in range(400)]
        log = columns(pd.DataFrame([row | dict(world.step(row).observation) for row in rows]))
        frame = evaluate(policy, log, d, propensity="uniform", seed=seed).frame.set_index("estimator")
        own = frame.loc["doubly robust"]
        covered += own["low"] <= truth <= own["high"]
        widths.append(
            (own["high"] - own["low"]) / (frame.loc["direct method", "high"] - frame.loc["direct method", "low"])
        )
    assert covered >= 15  # of 20 intervals of 95 %: fewer have probability 3e-4
    assert min(widths) > 0.5
