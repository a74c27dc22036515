"""Reports of `check` on diagrams whose findings are known by reasoning."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
import pytest

import idbandits as idb
from idbandits import Diagram, Learned, models
from idbandits.diagram.findings import Report
from idbandits.errors import ComplexityError

FACTORS = {  # ready models in which only products are known
    "position_based": ("attraction", "examination"),
    "user_browsing": ("attraction", "examination"),
    "rank1": ("row", "column"),
}
MODELS: dict[str, Callable[..., Diagram]] = {
    "cascade": models.cascade,
    "cascade_inverted": models.cascade_inverted,
    "position_based": models.position_based,
    "semi_bandit": models.semi_bandit,
    "rank1": models.rank1,
    "dependent_click": models.dependent_click,
    "dynamic_bayesian": models.dynamic_bayesian,
    "dynamic_bayesian, clicks": lambda *a: models.dynamic_bayesian(*a, reward="clicks"),
    "dynamic_bayesian, simplified": lambda *a: models.dynamic_bayesian(*a, simplified=True),
    "click_chain": models.click_chain,
    "user_browsing": models.user_browsing,
}


def names(report: Report, kind: str) -> list[tuple[str, ...]]:
    return [finding.names for finding in report.findings if finding.kind == kind]


# -- the ready models -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [(5, 3), (9, 4), (1000, 20)], ids=str)
@pytest.mark.parametrize("name", MODELS)
def test_ready_models_have_nothing_serious_and_only_known_factors(name: str, size: tuple[int, int]) -> None:
    report = MODELS[name](*size).check()
    assert report.serious == ()
    assert names(report, "factor") == ([FACTORS[name]] if name in FACTORS else [])
    assert names(report, "combination") == names(report, "symmetry") == names(report, "reward") == []
    unseen = report.of_kind("unseen")
    assert len(unseen) == (name == "dependent_click")
    assert all(f"satisfaction[{size[1] - 1}]:" in finding.sentence for finding in unseen)


@pytest.mark.parametrize("size", [(5, 3), (9, 5), (1000, 20)], ids=str)
def test_satisfaction_at_the_last_position_is_rewarded_but_not_revealed(size: tuple[int, int]) -> None:
    report = models.dependent_click(*size, reward="satisfaction").check()
    (finding,) = report.serious
    assert finding.kind == "reward"
    assert finding.names == (f"S{size[1]}", "satisfaction")
    assert "linear" in finding.sentence
    assert finding.advice


def test_with_one_position_the_best_item_is_found_nevertheless() -> None:
    report = models.dependent_click(5, 1, reward="satisfaction").check()
    assert report.serious == ()
    assert names(report, "reward") == [("S1", "satisfaction")]


def test_learned_conditionals_leave_labels_and_combinations_open() -> None:
    report = models.cascade(5, 3, learn_conditionals=True).check()
    assert report.serious == ()
    assert names(report, "symmetry") == [("W1", "W2", "W3")]
    assert names(report, "combination") == [("attraction", "click")]


# -- products and anchors -------------------------------------------------------------------------------------------


def position_based(first_examination: float | None, rewarded: str = "C") -> Diagram:
    d, attraction, examination = Diagram("list"), Learned("attraction"), Learned("examination", rows=3)
    for k in range(3):
        item = d.decision(f"A{k}", 5)
        d.latent(f"W{k}", [item], attraction)
        known = k == 0 and first_examination is not None
        d.latent(f"E{k}", cpd=first_examination if known else examination[k])
        d.observed(f"C{k}", [f"W{k}", f"E{k}"], lambda w, e: w * e)
        d.reward(f"{rewarded}{k}")
    d.all_different()
    return d


def test_a_known_first_examination_is_an_anchor() -> None:
    assert names(position_based(None).check(), "factor") == [("attraction", "examination")]
    anchored = position_based(0.9).check()
    assert names(anchored, "factor") == names(anchored, "combination") == []
    (finding,) = anchored.of_kind("unseen")
    assert finding.sentence == "No node reads examination[0]."


def test_an_unknown_factor_is_harmless_if_the_best_action_does_not_depend_on_it() -> None:
    report = position_based(None, rewarded="W").check()
    assert report.serious == ()
    (finding,) = report.of_kind("reward")
    assert finding.names == ("W0", "W1", "W2", "attraction", "examination")
    assert position_based(0.9, rewarded="W").check().of_kind("reward") == ()


def rank_one(reward: Callable[[int, int], float]) -> Diagram:
    d = Diagram("rank one")
    row, column = (
        d.latent("Z1", [d.decision("A1", 3)], Learned("row")),
        d.latent("Z2", [d.decision("A2", 3)], Learned("column")),
    )
    d.observed("X", [row, column], lambda r, c: r * c)
    d.reward([row, column], reward)
    return d


def test_rewards_that_depend_on_an_unknown_factor() -> None:
    assert rank_one(lambda r, c: r * c).check().of_kind("reward") == ()
    harmless = rank_one(lambda r, c: r + c).check()  # the best row and the best column are known
    assert [finding.serious for finding in harmless.of_kind("reward")] == [False]
    d = Diagram("one or the other")  # is the row's factor larger, or the column's?
    row, column = d.latent("Z1", cpd=Learned("row")), d.latent("Z2", cpd=Learned("column"))
    d.observed("X", [row, column], lambda r, c: r * c)
    d.reward(["Z1", "Z2", d.decision("A", 2)], lambda r, c, a: r if a else c)
    (finding,) = d.check().serious
    assert finding.names == ("Z1", "Z2", "row", "column")


# -- latent classes -------------------------------------------------------------------------------------------------


def latent_class(cards: int, states: int = 2, mood: Learned | None = None, appeal: Learned | None = None) -> Diagram:
    d = Diagram("moods")
    hidden = d.latent("mood", [d.context("segment", 2)], mood or Learned("mood"), states=states)
    appeal = appeal or Learned("appeal")
    clicks = [d.observed(f"C{k}", [d.decision(f"A{k}", 6), hidden], appeal) for k in range(cards)]
    d.reward(clicks, max if cards > 1 else None)
    d.all_different()
    return d


@pytest.mark.parametrize("states", [2, 3])
def test_interchangeable_states_are_named(states: int) -> None:
    report = latent_class(3, states).check()
    (finding,) = report.of_kind("symmetry")
    assert finding.names == ("mood",)
    assert report.serious == ()


@pytest.mark.parametrize("table", ["mood", "appeal"])
def test_a_prior_that_tells_states_apart_names_them(table: str) -> None:
    prior = {table: Learned(table, prior=[2, 1] if table == "mood" else [[2, 1], [1, 2]])}
    assert latent_class(3, **prior).check().of_kind("symmetry") == ()


def test_three_cards_reveal_more_of_moods_than_two() -> None:
    """Pairs of clicks show means and products of differences, not how common a mood is; triples do."""
    for cards, open_to_combination in ((2, [("mood", "appeal")]), (3, [])):
        d, appeal = Diagram("one mood"), Learned("appeal")
        mood = d.latent("mood")
        for k in range(cards):
            d.reward(d.observed(f"C{k}", [d.decision(f"A{k}", 6), mood], appeal))
        d.all_different()
        assert names(d.check(), "combination") == open_to_combination


def test_a_mood_behind_a_copy_of_it_is_found_too() -> None:
    d = Diagram("copied")
    copy = d.latent("copy", [d.latent("mood", cpd=Learned("mood"))], lambda m: m)
    for k in range(3):
        d.reward(d.observed(f"C{k}", [d.decision(f"A{k}", 4), copy], Learned(f"appeal{k}")))
    assert names(d.check(), "symmetry") == [("mood",)]


def test_a_known_table_that_reads_a_state_breaks_the_symmetry() -> None:
    d = latent_class(3)
    d.observed("smile", ["mood"], [0.2, 0.7])
    assert d.check().of_kind("symmetry") == ()
    d = latent_class(3)
    d.observed("noise", ["mood"], [0.3, 0.3])
    assert names(d.check(), "symmetry") == [("mood",)]


def test_a_reward_of_arbitrary_labels_is_serious() -> None:
    d = latent_class(3)
    d.reward(["mood", "A0"], lambda mood, card: float(mood == card % 2))
    assert [finding.names for finding in d.check().serious] == [("C0", "C1", "C2", "mood", "mood")]
    named = latent_class(3, mood=Learned("mood", prior=[2, 1]))
    named.reward(["mood", "A0"], lambda mood, card: float(mood == card % 2))
    assert named.check().serious == ()


# -- unseen rows ----------------------------------------------------------------------------------------------------


def test_rewards_that_nothing_observed_depends_on() -> None:
    d = Diagram("luck")
    coin = d.decision("coin", 3)
    d.reward(d.latent("luck", [coin]))
    d.observed("noise", [coin], 0.5)
    report = d.check()
    assert [finding.names for finding in report.serious] == [("luck", "luck")]
    assert names(report, "unseen") == [("luck",)]


def test_rewards_that_are_equal_for_all_actions_do_not_matter() -> None:
    d = Diagram("offset")
    d.reward(d.observed("heads", [d.decision("coin", 3)]))
    d.reward(d.latent("weather"))
    report = d.check()
    assert report.of_kind("reward") == ()
    assert names(report, "unseen") == [("weather",)]


def test_contexts_reveal_what_they_show() -> None:
    """Taste is seen in one context only; the reward depends on it in both."""
    d = Diagram("contexts")
    where, item = d.context("where", ["shop", "street"]), d.decision("item", 4)
    taste = d.latent("taste", [item])
    d.observed("bought", [taste, where], lambda t, w: t * (w == "shop"))
    d.reward(taste)
    assert d.check().serious == ()
    d = Diagram("contexts, a table for each")
    where, item = d.context("where", ["shop", "street"]), d.decision("item", 4)
    taste = d.latent("taste", [item, where])
    d.observed("bought", [taste, where], lambda t, w: t * (w == "shop"))
    d.reward(taste)
    report = d.check()
    assert names(report, "reward") == [("taste", "taste")]
    assert "taste[0, 'street']" in report.serious[0].sentence
    assert "'shop'" not in report.serious[0].sentence


def test_states_that_look_alike() -> None:
    d = Diagram("weather")
    sky = d.latent("sky", [d.decision("place", 2)], states=["sun", "cloud", "rain"])
    wet = d.observed("wet", [sky], lambda s: float(s == "rain"))
    d.reward(wet)
    report = d.check()
    assert names(report, "combination") == [("sky",)]
    assert "in part" in report.findings[0].sentence
    assert report.serious == ()
    d.reward([sky], lambda s: float(s == "sun"))
    assert d.check().serious[0].names == ("sky", "sky")


def test_rows_that_cannot_be_read_are_no_finding() -> None:
    d = Diagram("pairs")
    pair = d.decision("A1", 3), d.decision("A2", 3)
    d.reward(d.observed("match", pair))  # nobody is matched with themselves
    d.all_different()
    assert {finding.kind for finding in d.check()} == {"size", "search"}


# -- sizes, and diagrams that cannot be checked ------------------------------------------------------------------------------


def test_sizes_and_searches_are_reported() -> None:
    report = models.cascade(4, 2).check()
    assert [finding.kind for finding in report.findings] == ["size", "search"]
    assert "2 decisions, 4 learned rows; the likelihood has 8 edges in 4 nodes" in report.findings[0].sentence
    assert "10 of 10" in report.findings[1].sentence


def test_a_diagram_too_large_to_compile_is_a_finding() -> None:
    d = Diagram("tangle")
    nodes = [d.latent(f"Z{k}", cpd=0.5) for k in range(24)]
    for pair in itertools.combinations(nodes, 2):
        d.observed("X" + "".join(node.name for node in pair), pair, 0.5)
    with pytest.raises(ComplexityError):
        idb.compile(d)
    (finding,) = d.check().findings
    assert (finding.kind, finding.serious) == ("size", True)


def test_too_many_rows_are_not_examined() -> None:
    d = Diagram("wide")
    d.observed("X", [d.observed(f"Z{k}", cpd=0.5) for k in range(10)])
    assert [finding.kind for finding in d.check()] == ["not examined", "size"]


def test_probabilities_too_small_for_floats_are_not_examined() -> None:
    d = Diagram("faint")
    rare = d.observed("rare", cpd=1e-290)
    d.reward(d.observed("X", [rare, d.decision("A", 2)]))
    assert "not examined" in {finding.kind for finding in d.check()}


@pytest.mark.parametrize("factor", [1e-300, 1e290])
def test_rewards_of_any_size(factor: float) -> None:
    d = position_based(None)
    d.reward(d.latent("luck", ["A0"]), lambda luck: factor * luck)
    assert len(d.check().serious) == (factor > 1)


@pytest.mark.parametrize("make", [Diagram, lambda: models.cascade(3, 2).revealed()])
def test_diagrams_without_rewards_or_latent_nodes(make: Callable[[], Diagram]) -> None:
    report = make().check()
    assert {finding.kind for finding in report} <= {"size", "search"}


def test_a_report_prints_serious_findings_first() -> None:
    lines = repr(models.dependent_click(4, 2, reward="satisfaction").check()).splitlines()
    assert lines[0] == "Diagram 'dependent click': 1 serious finding"
    assert lines[1].startswith("! The reward of S2 depends on satisfaction[1]")
    assert all(len(line) <= 100 for line in lines)
    assert repr(models.cascade(3, 2).check()).startswith("Diagram 'cascade': nothing serious\n- ")


def test_a_check_changes_nothing_and_is_reproducible() -> None:
    d = models.position_based(6, 2)
    before, model = d.to_dict(), idb.compile(d)
    state = np.random.get_state()[1].tolist()
    assert repr(d.check()) == repr(d.check()) == repr(Diagram.from_dict(before).check())
    assert d.to_dict() == before
    assert idb.compile(d) is model
    assert np.random.get_state()[1].tolist() == state
