"""Encodings of features: fixed when an agent first meets a table, kept by moves and files, and declared if wanted."""

from __future__ import annotations

import pickle
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import idbandits as idb
from idbandits.errors import ContextError, DiagramError, DiagramWarning, FormatError, IdbanditsError, TableError
from idbandits.inference.regression.logistic_setup import coefficients_of
from inferences import agent_of

KINDS = {"p1": "pol", "p2": "pol", "p3": "pol", "s1": "sport", "s2": "sport"}
LATER = {"p1": "pol", "p2": "pol", "s1": "sport", "s2": "sport", "s3": "sport"}  # sport is the most frequent one now
USER = {"age": (40, 15), "country": ["de", "fr"]}


def kinds(items: Mapping[str, str]) -> pd.DataFrame:
    return pd.DataFrame({"kind": list(items.values())}, index=list(items))


def page(features: Any, items: Sequence[str] | None = None, *, users: bool = False, **options: Any) -> idb.Diagram:
    """One position; clicks depend on features of items and, perhaps, of users."""
    d = idb.Diagram("page")
    parents = [d.decision("A", list(features.index if items is None else items))]
    parents += [d.context("user", features=USER)] if users else []
    d.reward(d.observed("C", parents, idb.Learned("click", features=features, **options)))
    return d


def examined(features: pd.DataFrame, **options: Any) -> idb.Diagram:
    """Two positions, the second of which may not be examined; users have features."""
    d = idb.Diagram("examined")
    user, items = d.context("user", features=USER), list(features.index)
    click = idb.Learned("click", features=features, **options)
    d.reward(d.observed("C1", [d.decision("A1", items), user], click))
    attracted, seen = d.latent("W2", [d.decision("A2", items), user], click), d.latent("E2", [], idb.Learned("seen"))
    d.reward(d.observed("C2", [attracted, seen], lambda w, e: float(w and e)))
    return d


def user_of(rng: np.random.Generator) -> dict[str, Any]:
    return {"user": {"age": float(rng.normal(40, 15)), "country": ["de", "fr"][rng.integers(2)]}}


def taught(agent: idb.Thompson, items: Sequence[str], rates: Mapping[str, float], *, rounds: int, users: bool) -> Any:
    rng = np.random.default_rng(1)
    for t in range(rounds):
        item = items[t % len(items)]
        clicked = int(rng.random() < rates[item])
        agent.update({"A": item}, {"C": clicked}, user_of(rng) if users else None)
    return agent


def means(agent: idb.Thompson) -> dict[Any, float]:
    """The mean of every item, for a request whose features are all 0."""
    items = agent.diagram.nodes["A"].values
    return dict(zip(items, agent.posterior()["click"].mean.ravel().tolist(), strict=True))


def assert_kept(before: Mapping[Any, float], after: Mapping[Any, float], within: float) -> None:
    for item in before.keys() & after.keys():
        assert after[item] == pytest.approx(before[item], abs=within), item


# -- what kept items are believed to be does not depend on those that come and go ---------------------------------------


@pytest.mark.parametrize(("users", "name"), [(True, "moments"), (True, "exact"), (False, "exact"), (False, "gibbs")])
def test_another_most_frequent_category_changes_nothing(users: bool, name: str) -> None:
    rates = {item: 0.6 if kind == "pol" else 0.1 for item, kind in KINDS.items()}
    agent = taught(agent_of(name, page(kinds(KINDS), users=users)), list(KINDS), rates, rounds=1500, users=users)
    moved = agent.moved_to(page(kinds(LATER), users=users))
    before, after = means(agent), means(moved)
    assert before["p1"] > 0.5 > 0.2 > before["s1"]
    assert_kept(before, after, 1e-12 if users else 1e-6)
    assert after["s3"] == pytest.approx(before["s1"], abs=1e-12 if users else 0.03)
    assert moved.diagram.learned["click"].features.names == ("(constant)", "kind=sport")  # type: ignore[union-attr]


@pytest.mark.parametrize(("users", "name"), [(True, "moments"), (False, "exact"), (False, "gibbs")])
def test_an_expensive_dish_that_leaves_does_not_move_another(users: bool, name: str) -> None:
    dishes = pd.DataFrame({"price": [8.0, 9.0, 10.0, 11.0, 95.0]}, index=["soup", "rice", "curry", "pho", "lobster"])
    rates = {"soup": 0.9, "rice": 0.7, "curry": 0.5, "pho": 0.3, "lobster": 0.05}
    agent = agent_of(name, page(dishes, users=users))
    taught(agent, list(dishes.index), rates, rounds=1000, users=users)
    moved = agent.moved_to(page(dishes[:-1], users=users))
    assert_kept(means(agent), means(moved), 1e-12 if users else 1e-6)
    back = moved.moved_to(page(dishes, users=users))
    assert_kept(means(agent), means(back), 1e-12 if users else 1e-6)


def test_the_latest_encoding_goes_through_files_copies_and_pickles(tmp_path: Path) -> None:
    agent = agent_of("exact", page(kinds(KINDS))).moved_to(page(kinds(LATER)))
    agent.save(tmp_path / "agent")
    others = [idb.Thompson.load(tmp_path / "agent"), pickle.loads(pickle.dumps(agent)), agent.copy()]
    others.append(idb.Thompson.load(tmp_path / "agent", diagram=page(kinds(LATER))))  # as the user declares it
    with pytest.raises(FormatError, match="learned in another diagram"):
        idb.Thompson.load(tmp_path / "agent", diagram=page(kinds(KINDS)))
    other_base = idb.Features(kinds(LATER), categories={"kind": ["sport"]})
    with pytest.raises(FormatError, match="learned in another diagram"):
        idb.Thompson.load(tmp_path / "agent", diagram=page(other_base, list(LATER)))
    only_sport = {"s1": "sport", "s4": "sport"}
    for other in others:
        assert other.diagram.to_dict() == agent.diagram.to_dict()
        further = other.moved_to(page(kinds(only_sport))).diagram.learned["click"].features
        assert further is not None
        assert further.names == ("(constant)", "kind=sport")
        assert further.design.tolist() == [[1, 1], [1, 1]]


def test_several_structures_keep_their_encodings(tmp_path: Path) -> None:
    def structures(items: Mapping[str, str]) -> dict[str, idb.Diagram]:
        return {"one": page(kinds(items)), "plain": page(kinds(items), pooled=False, prior=[1, 2])}

    agent: Any = idb.Thompson(structures(KINDS), seed=0)  # type: ignore[arg-type]
    agent = agent.moved_to(structures(LATER))
    agent.save(tmp_path / "agent")
    loaded: Any = idb.Thompson.load(tmp_path / "agent", diagram=structures(LATER))
    for d in loaded.diagrams.values():
        assert d.learned["click"].features.names == ("(constant)", "kind=sport")


def test_new_categories_columns_and_missing_values_have_columns_of_their_own() -> None:
    first = pd.DataFrame({"kind": ["b", "b", "a"], "size": [1.0, 2.0, 6.0], "same": [3.0] * 3}, index=["x", "y", "z"])
    later = pd.DataFrame(
        {
            "kind": ["b", "c", None, "a"],
            "size": [1.0, 9.0, None, 6.0],
            "same": [3.0, 5.0, 3.0, 3.0],
            "new": [0.0, 1, 2, 3],
        },
        index=["x", "v", "w", "z"],
    )
    agent = taught(
        agent_of("exact", page(first)), ["x", "y", "z"], {"x": 0.2, "y": 0.5, "z": 0.8}, rounds=90, users=False
    )
    moved = agent.moved_to(page(later))
    before, own = agent.diagram.learned["click"].features, moved.diagram.learned["click"].features
    assert before is not None
    assert own is not None
    names = ("(constant)", "kind=a", "kind=c", "kind missing", "size", "size missing", "same", "new")
    assert own.names == names
    shared = [names.index(name) for name in before.names]
    np.testing.assert_array_equal(own.design[[0, 3]][:, shared], before.design[[0, 2]])
    assert own.design[1, names.index("size")] == pytest.approx((9 - 3) / np.std([1, 2, 6]))
    assert own.design[:, names.index("same")].tolist() == [0, 2, 0, 0]  # no scale before: kept rows stay at 0
    retired = moved.learner.past.retired
    assert [(row.labels, own.encoded([row.line])[0, shared].tolist()) for row in retired if row.line] == [
        (("y",), before.design[1].tolist())
    ]
    few = moved.moved_to(page(first[:1])).diagram.learned["click"].features
    assert few is not None
    assert few.names == names[:-1]  # categories stay, even if no row has them
    np.testing.assert_array_equal(few.design[0], own.design[0, :-1])


def test_a_table_or_a_column_that_returns_has_its_encoding_back() -> None:
    frame = pd.DataFrame({"kind": ["b", "b", "a"], "size": [1.0, 2.0, 6.0]}, index=["x", "y", "z"])
    agent = agent_of("exact", page(frame))
    other = idb.Diagram("other")
    other.reward(other.observed("C", [other.decision("A", list("xyz"))], idb.Learned("something")))
    for between in (other, page(frame[["size"]]), page(frame[["kind"]])):
        back = agent.moved_to(between).moved_to(page(frame[1:])).diagram.learned["click"].features
        assert back is not None
        np.testing.assert_array_equal(back.design, agent.diagram.learned["click"].features.design[1:])  # type: ignore[union-attr]


def test_features_of_several_parents_keep_their_encodings() -> None:
    def grid(items: pd.DataFrame, people: Any) -> idb.Diagram:
        d = idb.Diagram("grid")
        parents = [d.decision("A", list(items.index)), d.context("who", ["old", "young"])]
        table = idb.Learned("click", features={"A": items, "who": people}, products=True)
        d.reward(d.observed("C", parents, table))
        return d

    people = pd.DataFrame({"age": [70.0, 20.0]}, index=["old", "young"])
    moved = agent_of("exact", grid(kinds(KINDS), people)).moved_to(grid(kinds(LATER), people * 2))
    own = moved.diagram.learned["click"].features
    assert own is not None
    assert own.names == ("(constant)", "A.kind=sport", "who.age", "A.kind=sport × who.age")
    np.testing.assert_allclose(own.design[[0, 5], 1:], [[0, 95 / 25, 0], [1, -5 / 25, -5 / 25]])


def test_the_same_features_may_be_given_for_rows_or_for_a_parent() -> None:
    agent = agent_of("exact", page(kinds(KINDS)))
    own = agent.moved_to(page({"A": kinds(LATER)}, list(LATER))).diagram.learned["click"].features
    assert own is not None
    assert own.names == ("(constant)", "kind=sport")


def test_texts_of_which_all_are_missing_now_are_still_texts() -> None:
    agent = agent_of("exact", page(pd.DataFrame({"kind": ["a", "b", None]}, index=list("xyz"))))
    moved = agent.moved_to(page(pd.DataFrame({"kind": [None, None]}, index=list("xv"))))
    own = moved.diagram.learned["click"].features
    assert own is not None
    assert own.names == ("(constant)", "kind=b", "kind missing")
    assert own.design.tolist() == [[1, 0, 1], [1, 0, 1]]
    again = idb.Diagram.from_dict(moved.diagram.to_dict()).learned["click"].features
    assert again is not None
    np.testing.assert_array_equal(again.design, own.design)


def test_an_encoding_that_is_declared_otherwise_is_an_error() -> None:
    frame = pd.DataFrame({"kind": ["a", "b"], "size": [1.0, 3.0]}, index=["x", "y"])
    agent = agent_of("exact", page(frame))
    for declaration, words in (
        ({"categories": {"kind": ["b"]}}, "'kind': its base level must be 'a'.*got 'b'"),
        ({"center": {"size": 0}}, "'size': its center must be 2.0.*got 0.0"),
        ({"scale": {"size": 2}}, "'size': its scale must be 1.0.*got 2.0"),
    ):
        with pytest.raises(DiagramError, match=words):
            agent.moved_to(page(idb.Features(frame, **declaration), ["x", "y"]))
    same = idb.Features(frame, categories={"kind": ["a", "c"]}, center={"size": 2}, scale={"size": 1})
    own = agent.moved_to(page(same, ["x", "y"])).diagram.learned["click"].features
    assert own is not None
    assert own.names == ("(constant)", "kind=b", "kind=c", "size")
    for user in ({"age": (30, 15)}, {"age": (40, 10)}, {"country": ["fr", "de"]}):
        d = idb.Diagram("page")
        parents = [d.decision("A", ["x", "y"]), d.context("user", features=user)]
        d.reward(d.observed("C", parents, idb.Learned("click", features=frame)))
        with pytest.raises(DiagramError, match=r"context 'user': feature '(age|country)': its .* must be"):
            agent_of("exact", page(frame, users=True)).moved_to(d)


def test_values_that_are_far_from_those_of_the_first_items_are_warned_of() -> None:
    frame = pd.DataFrame({"price": [8.0, 8.01]}, index=["x", "y"])
    later = pd.concat([frame, pd.DataFrame({"price": [95.0]}, index=["z"])])
    agent = agent_of("exact", page(frame))
    with pytest.warns(
        DiagramWarning, match=r"'price': values must be within 50 scales .*, got one at 10,000"
    ) as warned:
        agent.moved_to(page(later))
    assert warned[0].filename == __file__
    start = agent_of("exact", page(idb.Features(frame, center={"price": 10}, scale={"price": 5}), ["x", "y"]))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        start.moved_to(page(later))


# -- residuals and late rounds with context features --------------------------------------------------------------------

MENU = pd.DataFrame(
    {"kind": ["a", "b", "a", "b", "c", "a"], "size": [1.0, 2.0, 4.0, None, 3.0, 2.0]}, index=[f"i{k}" for k in range(6)]
)


def declared(items: Sequence[str]) -> idb.Features:
    """Features in one encoding, whatever the items."""
    return idb.Features(
        MENU.loc[list(items)],
        categories={"kind": ["a", "b", "c"]},
        center={"size": 2},
        scale={"size": 2},
        missing=["size"],
    )


def shop(items: Sequence[str], residuals: float = 0.7) -> idb.Diagram:
    return page(declared(items), items, users=True, products=True, residuals=residuals)


def assert_same_belief(one: idb.Thompson, other: idb.Thompson, rtol: float = 1e-9, table: str = "click") -> None:
    """Equal coefficients, and equal residuals of the items that both have."""
    first, second = (coefficients_of(agent.learner.evidence, agent.state, table) for agent in (one, other))
    order = [second.names.index(name) for name in first.names]
    np.testing.assert_allclose(first.mean, second.mean[order], rtol=rtol, atol=rtol)
    np.testing.assert_allclose(first.covariance, second.covariance[np.ix_(order, order)], rtol=rtol, atol=rtol)
    items = [agent.diagram.nodes[agent.diagram.of_kind("decision")[0].name].values for agent in (one, other)]
    for k, item in enumerate(items[0]):
        if item in items[1]:
            j = items[1].index(item)  # type: ignore[arg-type]
            assert first.residual_mean[k] == pytest.approx(second.residual_mean[j], rel=rtol, abs=rtol)
            assert first.residual_variance[k] == pytest.approx(second.residual_variance[j], rel=rtol, abs=rtol)


def test_residuals_of_items_that_leave_and_return(tmp_path: Path) -> None:
    items = list(MENU.index)
    rates = dict(zip(items, [0.9, 0.2, 0.3, 0.5, 0.6, 0.1], strict=True))
    agent = taught(agent_of("moments", shop(items)), items, rates, rounds=300, users=True)
    away = agent.moved_to(shop(items[2:]))
    assert away.carried is not None
    assert away.carried.tables["click"] == (4, 0, 2)
    away.save(tmp_path / "agent")
    for other in (away, idb.Thompson.load(tmp_path / "agent"), pickle.loads(pickle.dumps(away))):
        assert_same_belief(other.moved_to(shop(items)), agent)
    further = away.moved_to(shop(items[4:])).moved_to(shop(items[3:]))
    assert_same_belief(further.moved_to(shop(items)), agent)
    none = agent_of("moments", shop(items, 0.0)).moved_to(shop(items[2:], 0.0))
    assert none.carried is not None
    assert none.carried.tables["click"] == (4, 0, 0)


def test_residuals_that_faded_are_not_kept() -> None:
    agent = idb.Thompson(shop(list(MENU.index)), "exact", seed=0, forget=idb.Forget(half_life=2))
    rng = np.random.default_rng(0)
    agent.update({"A": "i0"}, {"C": 1}, user_of(rng))
    assert agent.moved_to(shop(["i1", "i2"])).carried.tables["click"].retired == 1  # type: ignore[union-attr]
    moved = agent.moved_to(shop(["i1", "i2"]))
    for _ in range(60):
        for one in (agent, moved):
            one.update({"A": "i1"}, {"C": 0}, {"user": {"age": 30}})
    assert_same_belief(moved.moved_to(shop(list(MENU.index))), agent, 1e-6)
    assert agent.moved_to(shop(["i1", "i2"])).carried.tables["click"].retired == 0  # type: ignore[union-attr]


@pytest.mark.parametrize("residuals", [0.0, 0.7])
@pytest.mark.parametrize("how", ["update", "update_many"])
def test_late_rounds_with_context_features(how: str, residuals: float) -> None:
    """Rounds of items that are gone, or were never shown, are learned as if the agent had not moved."""
    items, rng = list(MENU.index), np.random.default_rng(3)
    stayed = agent_of("moments", shop(items, residuals))
    for _ in range(50):
        stayed.update({"A": items[rng.integers(2, 5)]}, {"C": int(rng.integers(2))}, user_of(rng))
    moved = stayed.moved_to(shop(items[3:], residuals))
    log = [(items[rng.integers(6)], int(rng.integers(2)), user_of(rng)) for _ in range(40)]
    if how == "update":
        for agent in (stayed, moved):
            for item, click, user in log:
                agent.update({"A": item}, {"C": click}, user)
    else:
        log.sort(key=lambda played: items.index(played[0]) < 3)  # late rounds of a log are learned after the others
        frame = pd.DataFrame([{"A": item, "C": click} | user["user"] for item, click, user in log])
        for agent in (stayed, moved):
            agent.update_many(frame)
    assert stayed.rounds == moved.rounds == 90
    assert_same_belief(moved, stayed)
    assert_same_belief(moved.moved_to(shop(items, residuals)), stayed)


def test_late_rounds_behind_latent_nodes_and_with_fewer_features_of_requests() -> None:
    rng, items = np.random.default_rng(5), list(MENU.index)
    stayed = idb.Thompson(examined(MENU[["size"]], residuals=0.5), "incremental", seed=0)
    moved = stayed.moved_to(examined(MENU[["size"]][3:], residuals=0.5))
    for _ in range(60):
        one, two = rng.choice(items, 2)
        played = {"A1": str(one), "A2": str(two)}, {"C1": int(rng.integers(2)), "C2": int(rng.integers(2))}
        user = user_of(rng)
        for agent in (stayed, moved):
            agent.update(*played, user)
    assert_same_belief(moved, stayed)
    np.testing.assert_allclose(moved.posterior()["seen"].alpha, stayed.posterior()["seen"].alpha, rtol=1e-9)


def two_tables(which: str, items: Sequence[str]) -> idb.Diagram:
    """Clicks, purchases or both, each by a table that depends on the user; users are known only where one is there."""
    d = idb.Diagram(which)
    item = d.decision("A", list(items))
    user = d.context("user", features=USER) if which != "none" else None
    if user is not None and "c" in which:
        d.reward(d.observed("C", [item, user], idb.Learned("click", features=declared(items), residuals=0.7)))
    if user is not None and "b" in which:
        d.reward(d.observed("B", [item, user], idb.Learned("buy", residuals=0.4)))
    d.reward(d.observed("S", [item], idb.Learned("seen")))
    return d


@settings(max_examples=20, deadline=None)
@given(
    steps=st.lists(
        st.tuples(st.sampled_from(["cb", "c", "b", "none"]), st.sets(st.sampled_from(list(MENU.index)), min_size=1)),
        min_size=1, max_size=5,
    ),
    seed=st.integers(0, 99), half_life=st.sampled_from([None, 20]),
)  # fmt: skip
def test_tables_that_leave_and_return_have_their_coefficients_back(steps: Any, seed: int, half_life: Any) -> None:
    rng, items = np.random.default_rng(seed), list(MENU.index)
    forget = None if half_life is None else idb.Forget(half_life=half_life)
    stayed = idb.Thompson(two_tables("cb", items), "exact", seed=0, forget=forget)
    moving = stayed.copy()
    for which, chosen in steps:
        moving = moving.moved_to(two_tables(which, [item for item in items if item in chosen]))
        for _ in range(4):  # most of them are late ones
            seen = {"C": int(rng.integers(2)), "B": int(rng.integers(2)), "S": int(rng.integers(2))}
            played = {"A": items[rng.integers(6)]}, seen, user_of(rng)
            for agent in (stayed, moving):
                agent.update(*played)
    moving = pickle.loads(pickle.dumps(moving)).moved_to(two_tables("cb", items))
    for table in ("click", "buy"):
        assert_same_belief(moving, stayed, 1e-6, table)
    np.testing.assert_allclose(moving.posterior()["seen"].alpha, stayed.posterior()["seen"].alpha, rtol=1e-9)


def test_late_rounds_whose_requests_had_other_features() -> None:
    def users(features: Any) -> idb.Diagram:
        d = idb.Diagram("users")
        d.reward(d.observed("C", [d.decision("A", ["x", "y"]), d.context("user", features=features)],
                            idb.Learned("click", residuals=1.0)))  # fmt: skip
        return d

    agent = idb.Thompson(users(["age", "premium", "kind"]), "exact", seed=0)
    moved = agent.moved_to(users({"age": None, "kind": ["a", "b"], "new": None}))
    alone = moved.copy()
    moved.update({"A": "x"}, {"C": 1}, {"user": {"age": 2.0, "premium": 1.0, "kind": 3.0}})  # of the earlier diagram
    alone.update({"A": "x"}, {"C": 1}, {"user": {"age": 2.0}})
    assert_same_belief(moved, alone)
    for wrong in ({"age": "much"}, {"size": 1.0}):
        with pytest.raises(ContextError):
            moved.update({"A": "x"}, {"C": 1}, {"user": wrong})


# -- any sequence of moves ----------------------------------------------------------------------------------------------

STEPS = st.lists(
    st.tuples(st.sets(st.sampled_from(list(MENU.index)), min_size=1), st.integers(0, 8)), min_size=1, max_size=5
)


@settings(max_examples=25, deadline=None)
@given(steps=STEPS, seed=st.integers(0, 99))
def test_after_any_moves_counts_and_regressions_are_those_of_one_diagram(steps: Any, seed: int) -> None:
    """An agent that moved, and one that knew all items from the start, in the encoding that the first one ended with."""
    rng, played, seen = np.random.default_rng(seed), list[Any](), set[str]()
    agent: idb.Thompson | None = None
    for chosen, rounds in steps:
        items = [item for item in MENU.index if item in chosen]
        seen |= chosen
        d = page(MENU.loc[items])
        agent = agent_of("exact", d) if agent is None else agent.moved_to(d)
        for _ in range(rounds):
            played.append(({"A": sorted(seen)[rng.integers(len(seen))]}, {"C": int(rng.integers(2))}))
            agent.update(*played[-1])
    assert agent is not None
    encodings = {c.name: c.encoding for block in agent.diagram.learned["click"].features.blocks for c in block.columns}  # type: ignore[union-attr]
    all_items = sorted(seen)
    kind, size = encodings["kind"], encodings["size"]
    own = idb.Features(
        MENU.loc[all_items], categories={"kind": kind.categories} if kind.categories else None,
        center={} if size.center is None else {"size": size.center},
        scale={} if size.scale is None else {"size": size.scale}, missing=[n for n, e in encodings.items() if e.missing],
    )  # fmt: skip
    other = agent_of("exact", page(own, all_items))
    for round_ in played:
        other.update(*round_)
    last = [item for item in MENU.index if item in steps[-1][0]]
    places = [all_items.index(item) for item in last]
    counts = [
        a.learner.with_declared_priors(a.state).floats[: a.learner.evidence.live].reshape(-1, 2) for a in (agent, other)
    ]
    np.testing.assert_allclose(counts[0], counts[1][places], atol=1e-9)
    one, two = agent.posterior()["click"].regression, other.posterior()["click"].regression
    assert one is not None
    assert two is not None
    has_missing = "size missing" in two.names and "size missing" not in one.names
    if size.scale is not None and not has_missing:  # else only the diagram of all items may have them
        assert sorted(one.names) == sorted(two.names)
        order = [two.names.index(name) for name in one.names]
        assert (abs(one.coefficients - two.coefficients[order]) < 0.15 * one.sd).all()  # a fit stops near its mode


@settings(max_examples=25, deadline=None)
@given(steps=STEPS, seed=st.integers(0, 99), residuals=st.sampled_from([0.0, 0.7]))
def test_after_any_moves_coefficients_and_residuals_are_those_of_one_diagram(
    steps: Any, seed: int, residuals: float
) -> None:
    rng, items = np.random.default_rng(seed), list(MENU.index)
    stayed = agent_of("exact", shop(items, residuals))
    moving = stayed.copy()
    for chosen, rounds in steps:
        moving = moving.moved_to(shop([item for item in items if item in chosen], residuals))
        for _ in range(rounds):
            played = {"A": items[rng.integers(6)]}, {"C": int(rng.integers(2))}, user_of(rng)
            for agent in (stayed, moving):
                agent.update(*played)
    assert_same_belief(moving, stayed, 1e-6)
    assert_same_belief(moving.moved_to(shop(items, residuals)), stayed, 1e-6)


# -- declarations -------------------------------------------------------------------------------------------------------


def test_declared_encodings_are_those_of_the_design_and_of_files(tmp_path: Path) -> None:
    frame = pd.DataFrame({"kind": ["b", "c", "b"], "size": [1.0, 2.0, 4.0]}, index=["x", "y", "z"])
    own = idb.Features(frame, categories={"kind": ["a", "b"]}, center={"size": 2}, missing=["kind"])
    d = page(own, ["x", "y", "z"])
    features = d.learned["click"].features
    assert features is not None
    assert features.names == ("(constant)", "kind=b", "kind=c", "kind missing", "size")
    scale = np.sqrt((1 + 0 + 4) / 3)  # around the declared center
    np.testing.assert_allclose(features.design[:, 4], [-1 / scale, 0, 2 / scale])
    d.save(tmp_path / "d.json")
    again = idb.Diagram.load(tmp_path / "d.json")
    assert again.to_dict() == d.to_dict()
    np.testing.assert_array_equal(again.learned["click"].features.design, features.design)  # type: ignore[union-attr]
    assert repr(own) == "Features(2 columns; kind: categories=('a', 'b'), missing=True; size: center=2.0)"
    assert repr(idb.Features(frame, center={"size": 0})) == "Features(2 columns; size: center=0.0)"
    assert repr(idb.Features(frame)) == "Features(2 columns)"
    by_parent = page({"A": own}, ["x", "y", "z"]).learned["click"].features
    assert by_parent is not None
    np.testing.assert_array_equal(by_parent.design, features.design)
    model = idb.models.cascade(["x", "y"], 1, features={"attraction": idb.Features(frame, scale={"size": 10})})
    assert model.learned["attraction"].features.design[:, 2].tolist() == pytest.approx([-0.05, 0.05])  # type: ignore[union-attr]


FRAME = pd.DataFrame({"kind": ["a", "b"], "size": [1.0, 2.0]}, index=["x", "y"])


@pytest.mark.parametrize(
    ("declaration", "words"),
    [
        ({"categories": {"sort": ["a"]}}, "'sort' must be a column, got 'kind', 'size'"),
        ({"center": {"sort": 1}}, "'sort' must be a column"),
        ({"missing": ["sort"]}, "'sort' must be a column"),
        ({"missing": "kind"}, "missing must be a list of names"),
        ({"missing": 3}, "missing must be a list of names"),
        ({"categories": {"kind": []}}, "Features: column 'kind': categories must not be empty"),
        ({"categories": {"kind": "ab"}}, "categories must be a list, got 'ab'"),
        ({"categories": {"kind": ["a", "a"]}}, "labels must be different, got 'a' twice"),
        ({"categories": {"kind": ["a", 1]}}, "categories of column 'kind' must be texts"),
        ({"categories": {"kind": 3}}, "categories must be a list, got 3"),
        ({"categories": ["kind"]}, r"Features: categories must map names of columns to values, got \['kind'\]"),
        ({"center": 3}, "Features: center must map names of columns to values, got 3"),
        ({"center": {"size": "much"}}, "Features: column 'size': center must be a finite number, got 'much'"),
        ({"center": {"size": np.inf}}, "Features: column 'size': center must be a finite number, got inf"),
        ({"scale": {"size": 0}}, "Features: column 'size': scale must be a number >= 1e-305, got 0"),
        ({"scale": {"size": -1}}, "Features: column 'size': scale must be a number >= 1e-305"),
        ({"scale": {"size": 10**400}}, "Features: column 'size': scale must be a number >= 1e-305"),
        ({"scale": {"size": np.nan}}, "Features: column 'size': scale must be a number >= 1e-305"),
        ({"categories": {"size": ["a"]}, "scale": {"size": 1}}, "must have categories, or center and scale, got both"),
    ],
)  # fmt: skip
def test_declarations_that_are_none_are_errors(declaration: Any, words: str) -> None:
    with pytest.raises(DiagramError, match=words):
        idb.Features(FRAME, **declaration)


def test_declarations_that_do_not_fit_their_column_are_errors() -> None:
    for declaration, words in (
        ({"categories": {"size": ["a"]}}, "column 'size' must have texts"),
        ({"center": {"kind": 1}}, "column 'kind' must have numbers"),
    ):
        with pytest.raises(TableError, match=words):
            page(idb.Features(FRAME, **declaration), ["x", "y"])
    labelled = idb.Features(FRAME.rename_axis("A").reset_index(), categories={"A": ["x"]})
    with pytest.raises(TableError, match="column 'A' has the labels"):
        page(labelled, ["x", "y"])
    for frame in (idb.Features(FRAME), {"A": FRAME}, [FRAME, None], 3, "x"):
        with pytest.raises(TableError, match="Features: frame"):
            idb.Features(frame)


@pytest.mark.parametrize(
    ("key", "value"),
    [("categories", []), ("categories", ["a", "a"]), ("categories", [1]), ("categories", "a"), ("centre", "x"), ("centre", None),
     ("scale", 0), ("scale", -1), ("scale", 1e-320), ("missing", 3), ("scale", True), ("center", 1.0)],
)  # fmt: skip
def test_encodings_in_files_are_checked(key: str, value: Any) -> None:
    data = page(FRAME).to_dict()
    column = data["learned"][0]["features"]["rows"]["columns"][0 if key == "categories" else 1]
    column[key] = value
    with pytest.raises(FormatError, match="learned"):
        idb.Diagram.from_dict(data)


def test_columns_of_a_design_have_different_names() -> None:
    frame = pd.DataFrame({"a": ["x", "y"], "a=y": [1, 2]}, index=["i", "j"])
    with pytest.raises(DiagramError, match="different names, got 'a=y' twice"):
        page(frame)
    frame = pd.DataFrame({"a": [1.0, None], "a missing": [1, 2]}, index=["i", "j"])
    with pytest.raises(DiagramError, match="different names, got 'a missing' twice"):
        page(frame)
    with pytest.raises(DiagramError, match="different names, got 'a=y' twice"):
        idb.Diagram("d").context("user", features={"a": ["x", "y"], "a=y": None})
    d = idb.Diagram("d")
    user = d.context("user", features=["age"])
    table = idb.Learned("t", features=pd.DataFrame({"user.age": [1, 2]}, index=["i", "j"]))
    with pytest.raises(DiagramError, match=r"different names, got 'user\.age' twice"):
        d.observed("C", [d.decision("A", ["i", "j"]), user], table)


def test_contexts_are_declared_by_typical_values() -> None:
    people = pd.DataFrame({"age": [20.0, 40.0, None], "country": ["fr", "fr", "de"], "same": [2, 2, 2]})
    d = idb.Diagram("shop")
    user = d.context("user", features=idb.Features(people, categories={"country": ["de"]}, scale={"age": 5}))
    assert user.features is not None
    assert user.features.columns == ("age", "country=fr", "same")
    assert user.features.encoded("user", {"age": 35, "country": "fr", "same": 3}) == [1.0, 1.0, 1.0]
    assert idb.Diagram.from_dict(d.to_dict()).to_dict() == d.to_dict()
    with pytest.raises(DiagramError, match="'age' must have no indicator of missing values"):
        d.context("other", features=idb.Features(people, missing=["age"]))
    with pytest.raises(IdbanditsError, match="node 'other': feature 'c' must have at least two categories"):
        d.context("other", features=idb.Features(pd.DataFrame({"c": ["a", "a"]})))
