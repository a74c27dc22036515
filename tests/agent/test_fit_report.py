"""Reports of whether a structure fits: right numbers, few false alarms, wrong structures found."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure

import idbandits as idb
import reference
from diagrams import random_diagram, random_means
from idbandits.agent.fit_report.fit_plot import points
from idbandits.agent.fit_report.fit_report import FEW, LEVEL, doublings, fit_report
from idbandits.agent.fit_report.residuals import RESIDUAL, SPREAD, compare, log_bets
from idbandits.agent.fit_report.sample import ROOM, Sample
from idbandits.circuit.likelihood import Fitting
from idbandits.errors import IdbanditsError, ImpossibleObservationError
from internals import sampled
from played_rounds import columns, play

Rng = np.random.Generator
Model = Callable[..., idb.Diagram]


def report_of(d: idb.Diagram, rng: Rng, rounds: int, world: idb.Diagram | None = None, unseen: float = 0.0) -> Any:
    """The report of an agent that saw rounds of random actions."""
    agent = idb.Thompson(d, inference="moments", seed=0)
    agent.update_many(*columns(d, play(d, rng, rounds, unseen, world)))
    return agent.fit_report()


# -- numbers -------------------------------------------------------------------------------------------------------


def test_expectations_are_those_of_enumeration() -> None:
    d = idb.models.user_browsing(3, 2)
    rng = np.random.default_rng(0)
    means = random_means(rng, d)
    played = play(d, rng, 60)
    model = idb.compile(d)
    parameters = model.parameter_vector(means)[: model.parameters.learned_size]
    rows = np.array([[*p.round[0].values(), p.round[1]["C1"], p.round[1]["C2"]] for p in played], dtype=np.int64)
    c = compare(model, Fitting(model), parameters, rows, np.ones(60))
    found = {tuple(map(int, key)): sums for *key, sums in zip(c.node, c.family, c.by, c.value, c.sums, strict=True)}

    def expected(node: str, chosen: Callable[[reference.Round], bool]) -> list[float]:
        wanted = [round for round in (p.round for p in played) if chosen(round)]
        total = 0.0
        for given, seen in wanted:
            before = {"C1": seen["C1"]} if node == "C2" else {}
            joint = reference.likelihood(d, given, before | {node: 1}, means)
            total += joint / reference.likelihood(d, given, before, means)
        return [len(wanted), total, sum(seen[node] for _, seen in wanted)]

    np.testing.assert_allclose(found[0, 0, -1, 0][:3], expected("C1", lambda r: True))
    np.testing.assert_allclose(found[1, 1, 0, 2][:3], expected("C2", lambda r: r[0]["A1"] == 2))
    np.testing.assert_allclose(found[1, 2, 0, 1][:3], expected("C2", lambda r: r[1]["C1"] == 1))
    np.testing.assert_allclose(found[-1, 3, 1, 0][:3], expected("C2", lambda r: r[1]["C1"] == 0))


def test_shares_of_the_stake_are_no_more_than_the_stake() -> None:
    for seed in range(20):
        rng = np.random.default_rng([seed, 1])
        d = random_diagram(rng)
        if not d.of_kind("observed"):
            continue
        model, played = idb.compile(d), play(d, rng, 50)
        agent = idb.Thompson(d, inference="moments", seed=0)
        agent.update_many(*columns(d, played))
        fitting = Fitting(model)
        rows = sampled(agent).rounds
        c = compare(model, fitting, fitting.normalised(fitting.prior, fitting.prior), rows, np.ones(len(rows)))
        shares = np.exp(c.log_bet - log_bets(c.sums[:, RESIDUAL], c.sums[:, SPREAD]))
        assert shares.sum() <= 1 + 1e-9


@pytest.mark.parametrize("chance", [0.5, 0.03])
def test_bets_against_the_truth_rarely_win_at_any_time(chance: float) -> None:
    """Of 1,000 sequences, looked at every fifth round, at most 50 are expected ever to reach 20; 80 is beyond 4 sd."""
    rng = np.random.default_rng(0)
    residuals = (rng.random((1000, 2000)) < chance) - chance
    sums = np.cumsum(residuals, axis=1)[:, ::5]
    variances = np.arange(1, 2001)[::5] * chance * (1 - chance)
    ever = (log_bets(sums, np.broadcast_to(variances, sums.shape)) > np.log(20)).any(axis=1).sum()
    assert ever <= 80
    wrong = log_bets(sums[:, -1] + 6 * np.sqrt(variances[-1]), np.full(1000, variances[-1]))  # 6 sd more are seen
    assert (wrong > np.log(20)).mean() > 0.99


def test_p_values_of_later_doublings_cost_more() -> None:
    sample = Sample(1)
    sample.kept = ROOM
    for count, wanted in ((ROOM, 0), (ROOM + 1, 1), (2 * ROOM, 1), (2 * ROOM + 1, 2), (64 * ROOM, 6)):
        sample.count = count
        assert doublings(sample) == wanted
    for kept in (0, 1, 50):
        sample.count = sample.kept = kept
        assert doublings(sample) == 0


# -- false alarms and power ----------------------------------------------------------------------------------------

OWN: list[tuple[Model, tuple[Any, ...]]] = [
    (idb.models.cascade, (6, 3)),
    (idb.models.cascade_inverted, (6, 3)),
    (idb.models.position_based, (6, 3)),
    (idb.models.semi_bandit, (6, 3)),
    (idb.models.rank1, (4, 5)),
    (idb.models.dependent_click, (6, 3)),
    (idb.models.dynamic_bayesian, (6, 3)),
    (idb.models.click_chain, (6, 3)),
    (idb.models.user_browsing, (6, 3)),
    (idb.models.position_based, (1, 1)),
    (idb.models.cascade, (8, 1)),
]


@pytest.mark.parametrize(("model", "sizes"), OWN)
def test_a_right_structure_is_not_blamed(model: Model, sizes: tuple[Any, ...]) -> None:
    """A false alarm has probability 5 % at most; in these 3 runs there is none, and seldom would be."""
    for seed in range(3):
        report = report_of(model(*sizes), np.random.default_rng([seed, 2]), 600)
        assert report.fits, report
        assert "Nothing speaks against the structure (600 rounds" in repr(report)


def test_right_structures_of_any_kind_are_not_blamed() -> None:
    """Contexts, several states, missing observations: of 25 diagrams, 2 false alarms would have probability 13 %."""
    alarms = 0
    for seed in range(25):
        rng = np.random.default_rng([seed, 3])
        d = random_diagram(rng)
        alarms += bool(d.of_kind("observed")) and not report_of(d, rng, 300, unseen=0.3).fits
    assert alarms <= 1


@pytest.mark.parametrize("world", [idb.models.user_browsing, idb.models.click_chain])
def test_a_wrong_structure_is_said(world: Model) -> None:
    """With random means and actions nearly all are found; that 4 of 4 are was tried with these seeds."""
    for seed in range(4):
        rng = np.random.default_rng([seed, 4])
        report = report_of(idb.models.position_based(6, 3), rng, 2000, world(6, 3))
        assert not report.fits
        assert report.p_value < LEVEL
        assert "does not fit" in repr(report)


def browsing_rounds(rng: Rng, rounds: int, items: int, positions: int, after_click: float) -> np.ndarray:
    """Random lists and their clicks; positions below the last click are examined a little more often."""
    attraction = rng.beta(1, 5, items)
    shown = np.argsort(rng.random((rounds, items)), axis=1)[:, :positions]
    clicks, before = np.zeros((rounds, positions), np.int64), np.zeros(rounds, np.bool_)
    for k in range(positions):
        examination = 0.9 - 0.1 * k + after_click * before
        clicks[:, k] = rng.random(rounds) < attraction[shown[:, k]] * examination
        before |= clicks[:, k] == 1
    return np.concatenate([shown, clicks], axis=1)


def test_more_of_a_long_log_finds_what_a_short_sample_misses() -> None:
    """A small misfit in 150,000 rounds: 8,192 of them do not show it, 65,536 do; the report says what it examined."""
    model = idb.compile(idb.models.position_based(8, 4))
    rounds, start = browsing_rounds(np.random.default_rng(0), 150_000, 8, 4, 0.06), Fitting(model).prior
    reports = []
    for room in (8192, ROOM):
        sample = Sample(8)
        sample.room = room
        sample.add_many(rounds)
        reports.append(fit_report(model, start, sample))
        assert f"examined {room:,} of 150,000 rounds" in repr(reports[-1])
    assert [report.fits for report in reports] == [True, False]


@pytest.mark.parametrize("distinct", [8, 40])
def test_a_right_structure_is_not_blamed_for_a_long_log(distinct: int) -> None:
    """The fit begins with few rounds; what was never seen in these is not impossible. Some tables are near 0."""
    model = idb.compile(idb.models.position_based(distinct, 4))
    rounds = browsing_rounds(np.random.default_rng(1), 80_000, distinct, 4, 0.0)
    sample = Sample(8)
    sample.add_many(rounds)
    report = fit_report(model, Fitting(model).prior, sample)
    assert report.p_value == 1.0


def test_a_constant_list_is_enough() -> None:
    """Position by position, a constant list fits; the clicks of a cascade exclude each other all the same."""
    d, rng = idb.models.position_based(2, 2), np.random.default_rng(0)
    first = rng.random(1000) < 0.4
    second = ~first & (rng.random(1000) < 0.5)
    agent = idb.Thompson(d, inference="moments", seed=0)
    agent.update_many({"A1": np.zeros(1000, int), "A2": np.ones(1000, int)}, {"C1": first * 1, "C2": second * 1})
    report = agent.fit_report()
    line = report.frame[(report.frame["node"] == "C2") & (report.frame["by"] == "C1")].set_index("value")
    assert report.p_value < 1e-12
    assert line.loc[1, "observed"] == 0
    assert line.loc[1, "expected"] == pytest.approx(second.mean() * first.sum(), rel=0.02)
    assert f"0 of {first.sum()}, expected" in repr(report)


def test_several_states_and_contexts_are_compared() -> None:
    """The outcome depends on the context, which the diagram does not know."""
    d = idb.Diagram("shop")
    item, _ = d.decision("item", ["tea", "rum"]), d.context("who", ["new", "old"])
    d.reward(d.observed("mood", [item], states=["bad", "fair", "good"]), lambda mood: mood == "good")
    rng = np.random.default_rng(0)
    who, items = rng.choice(["new", "old"], 500), rng.choice(["tea", "rum"], 500)
    mood = np.where(who == "new", rng.choice(["bad", "fair"], 500), rng.choice(["fair", "good"], 500))
    agent = idb.Thompson(d, inference="exact", seed=0)
    agent.update_many({"item": items}, {"mood": mood}, {"who": who})
    report = agent.fit_report()
    assert not report.fits
    assert set(report.frame["state"]) == {"bad", "fair", "good"}
    first = report.frame.iloc[0]
    assert (first["node"], first["by"]) == ("mood", "who")
    assert first["p"] >= report.p_value
    assert "mood = 'good' is seen" in repr(report)
    assert "where who = '" in repr(report)


def test_a_stuck_belief_is_not_the_structures_fault() -> None:
    """The fit starts again elsewhere before a structure is blamed."""
    d = idb.Diagram("two moods")
    mood = d.latent("mood", cpd=idb.Learned("mood", prior=(1, 1)))
    appeal = idb.Learned("appeal")
    cards = [d.observed(f"X{k}", [d.decision(f"A{k}", 3), mood], appeal) for k in range(2)]
    for card in cards:
        d.reward(card)
    means = {"mood": np.array(0.5), "appeal": np.array([[0.05, 0.9], [0.1, 0.8], [0.85, 0.05]])}
    world, agent, rng = (
        idb.World(d, means, seed=0),
        idb.Thompson(d, inference="moments", seed=0),
        np.random.default_rng(0),
    )
    for _ in range(800):
        action = {"A0": int(rng.integers(3)), "A1": int(rng.integers(3))}
        agent.update(action, world.step(action).observation)
    agent.state.floats[: agent.learner.evidence.learned] = 100.0  # all alike: EM does not leave that
    assert agent.fit_report().fits


# -- words ---------------------------------------------------------------------------------------------------------


def test_few_rounds_are_not_judged() -> None:
    agent = idb.Thompson(idb.models.cascade(3, 2), inference="exact", seed=0)
    assert repr(agent.fit_report()) == f"0 rounds: too few to judge the structure by; {FEW} are needed."
    for _ in range(FEW - 1):
        agent.update({"A1": 0, "A2": 1}, {"C1": 1, "C2": 0})
    report = agent.fit_report()
    assert (report.fits, report.p_value, len(report.frame)) == (True, 1.0, 0)
    assert "99 rounds: too few" in str(report)


def test_impossible_rounds_are_a_misfit_by_themselves() -> None:
    agent = idb.Thompson(idb.models.cascade(3, 2), inference="exact", seed=0)
    agent.update({"A1": 0, "A2": 1}, {"C1": 1, "C2": 0})
    with pytest.raises(ImpossibleObservationError):
        agent.update({"A1": 0, "A2": 1}, {"C1": 1, "C2": 1})
    report = agent.fit_report()
    assert (report.fits, report.p_value, report.impossible) == (False, 0.0, 1)
    assert "A round was rejected: the diagram 'cascade' gives what was seen probability zero." in str(report)


def test_diagrams_in_which_nothing_is_observed_or_learned() -> None:
    blind = idb.Diagram("blind")
    blind.latent("Z", [blind.decision("A", 2)])
    blind.reward("A")
    agent = idb.Thompson(blind, inference="moments", seed=0)
    agent.update_many({"A": [0] * 200}, {})
    assert agent.fit_report().fits
    known = idb.Diagram("known")
    known.reward(known.observed("X", [known.decision("A", 2)], [0.2, 0.8]))
    agent = idb.Thompson(known, inference="exact", seed=0)
    agent.update_many({"A": [0] * 200}, {"X": [0, 0, 0, 0, 1] * 40})
    assert agent.fit_report().fits
    agent.update_many({"A": [0] * 200}, {"X": [1] * 200})
    assert not agent.fit_report().fits


def test_a_prior_that_outweighs_all_rounds_is_kept_to() -> None:
    for strength, fits in ((10.0, True), (1e6, False)):
        d = idb.Diagram("coin")
        table = idb.Learned("heads", prior=(strength, strength))
        d.reward(d.observed("X", [d.decision("A", 2)], table))
        agent = idb.Thompson(d, inference="exact", seed=0)
        agent.update_many({"A": [0] * 400}, {"X": [1, 1, 1, 0] * 100})
        assert agent.fit_report().fits is fits


def test_the_plot_shows_what_the_frame_says() -> None:
    rng = np.random.default_rng([0, 4])
    report = report_of(idb.models.position_based(6, 3), rng, 2000, idb.models.click_chain(6, 3))
    shown = points(report.frame, LEVEL)
    assert len(shown.labels) == len(set(shown.labels)) == 12
    assert ((shown.low <= shown.observed) & (shown.observed <= shown.high)).all()
    assert (shown.misfit == (shown.p < LEVEL)).all()
    assert shown.expected[0] == report.frame["expected"][0] / report.frame["rounds"][0]
    axes = report.plot()
    assert [label.get_text() for label in axes.get_yticklabels()] == shown.labels
    own = Figure().subplots()
    assert report.plot(own) is own
    with pytest.raises(IdbanditsError, match="axes of Matplotlib"):
        report.plot(3)
    idb.Thompson(idb.models.cascade(3, 2), seed=0).fit_report().plot()  # nothing to show


def test_threads_may_ask_while_others_learn() -> None:
    d = idb.models.position_based(4, 2)
    agent = idb.Thompson(d, inference="moments", seed=0)
    errors: list[BaseException] = []

    def learn() -> None:
        try:
            for t in range(1500):
                agent.update({"A1": t % 4, "A2": (t + 1) % 4}, {"C1": t % 2, "C2": t % 3 == 0})
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=learn) for _ in range(2)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        report = agent.fit_report()
        assert report.looked_at == report.rounds
    for thread in threads:
        thread.join()
    assert not errors
    assert agent.fit_report().rounds == 3000
