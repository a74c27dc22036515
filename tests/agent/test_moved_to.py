"""Agents that move to another diagram: what they know goes along, by names and labels."""

from __future__ import annotations

import json
import pickle
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import idbandits as idb
from diagrams import with_fixed_means
from idbandits import models
from idbandits.errors import ActionError, DiagramError, FormatError, IdbanditsError, ImpossibleObservationError
from inferences import INFERENCES, agent_of
from internals import groups, knowledge, sampled

OLD, NEW = ["a", "b", "c", "d"], ["d", "b", "e"]  # another order, two gone, one new


def played(d: idb.Diagram, agent: Any, rounds: int = 60, seed: int = 0) -> Any:
    """The agent after some rounds in a world of this diagram."""
    rng = np.random.default_rng(seed)
    means = with_fixed_means(d, {t.name: rng.uniform(0.2, 0.8, t.means_shape) for t in d.learned.values()})
    world = idb.World(d, means, seed=seed)
    for _ in range(rounds):
        action = agent.act()
        agent.update(action, world.step(action).observation)
    return agent


def counts(agent: idb.Thompson) -> dict[tuple[Any, ...], list[float]]:
    """The pseudo-counts that an agent acts by, by the name of the table and the label of the row."""
    found, first = {}, 0
    for name, table in agent.diagram.learned.items():
        labels = agent.diagram.nodes["A1"].values if name == "attraction" else range(table.shape[0])
        for label in labels:
            found[name, label] = agent.state.floats[first : first + table.states].tolist()
            first += table.states
    return found


def list_model(items: Any, positions: int = 2, **settings: Any) -> idb.Diagram:
    return models.position_based(items, positions, **settings)


@pytest.mark.parametrize("name", [name for name in INFERENCES if name not in ("exact", "own")])
def test_nothing_changes_about_rows_that_both_have(name: str) -> None:
    agent = played(list_model(OLD), agent_of(name, list_model(OLD)))
    moved = agent.moved_to(list_model(NEW))
    before, after = counts(agent), counts(moved)
    for key in before.keys() & after.keys():
        assert before[key] == after[key]
    assert {key for key in after if key not in before} == {("attraction", "e")}
    assert moved.rounds == agent.rounds
    assert str(moved.rng.bit_generator.state) == str(agent.rng.bit_generator.state)
    if name not in ("particles", "ep", "moments"):  # those start at random, or a little off the prior
        assert after["attraction", "e"] == [1.0, 1.0]


@pytest.mark.parametrize("name", [name for name in INFERENCES if name not in ("exact", "own")])
def test_to_the_same_diagram_nothing_changes(name: str) -> None:
    agent = played(list_model(OLD), agent_of(name, list_model(OLD)))
    moved = agent.moved_to(list_model(OLD))
    learner = agent.copy()
    for _ in range(20):
        action = learner.act()
        assert moved.act() == action
        for one in (learner, moved):
            one.update(action, {"C1": 0, "C2": 1})


def test_rows_that_are_gone_inform_the_rest_and_may_come_back() -> None:
    d = list_model(OLD, fixed={"examination": {0: 1.0}})
    agent = played(d, idb.Thompson(d, "variational", seed=0), 300)
    moved = agent.moved_to(list_model(["x", "y"], fixed={"examination": {0: 1.0}}))
    moved.update_many({"A1": [], "A2": []}, {"C1": [], "C2": []})
    agent.update_many({"A1": [], "A2": []}, {"C1": [], "C2": []})
    assert sorted(groups(moved).values()) == sorted(groups(agent).values())
    before, after = agent.posterior()["examination"], moved.posterior()["examination"]
    np.testing.assert_allclose(after.alpha, before.alpha, rtol=1e-9)
    assert moved.carried.tables["attraction"] == (0, 2, 4)
    assert "attraction: rows 2 new, 4 retired" in repr(moved.carried)
    back = moved.moved_to(d)
    assert counts(back) == counts(agent)
    assert back.carried.tables["attraction"] == (4, 0, 0)


@pytest.mark.parametrize("name", ["gibbs", "variational", "ep"])
def test_groups_go_along_whatever_the_numbers_of_their_entries(name: str) -> None:
    """After a move there and back, the belief is as if there had been no move: every latent count is in its place."""
    wide = models.dynamic_bayesian(["p", "q", "r"], 3)
    agent = played(wide, agent_of(name, wide), 80)
    there = agent.moved_to(models.dynamic_bayesian(["r", "z", "q", "p", "y"], 3))
    back = there.moved_to(wide)
    assert groups(back) == groups(agent)
    np.testing.assert_array_equal(
        back.state.floats[: back.learner.evidence.live], agent.state.floats[: agent.learner.evidence.live]
    )
    for one in (agent, back):
        one.update({"A1": "p", "A2": "q", "A3": "r"}, {"C1": 0, "C2": 1, "C3": 0})
    assert groups(back) == groups(agent)


@pytest.mark.parametrize("name", ["gibbs", "variational", "ep"])
def test_late_rounds_of_retired_items_are_learned_and_revised(name: str) -> None:
    late = {"A1": "a", "A2": "d"}, {"C1": 0, "C2": 1}
    stayed = played(list_model(OLD), agent_of(name, list_model(OLD)))
    moved = stayed.moved_to(list_model(NEW))
    for agent in (stayed, moved):
        agent.update(*late)
        assert agent.rounds == 61
    assert groups(moved.moved_to(list_model(OLD))) == groups(stayed)
    moved.revise(*late, None)
    assert moved.rounds == 60


def test_items_never_shown_before_they_were_retired_are_learned_from_too() -> None:
    agent = idb.Thompson(list_model(OLD), seed=0).moved_to(list_model(NEW))
    agent.update({"A1": "a", "A2": "c"}, {"C1": 1, "C2": 0})
    assert agent.rounds == 1
    back = agent.moved_to(list_model(OLD))
    assert counts(back)["attraction", "a"] == [1.0, 2.0]


def test_logs_may_mix_rounds_of_all_diagrams() -> None:
    log = {"A1": ["a", "d", "e", "c"], "A2": ["b", "e", "b", "d"]}, {"C1": [1, 1, 1, 1], "C2": [1, 1, 1, 1]}
    agent = idb.Thompson(list_model(OLD), seed=0).moved_to(list_model(NEW))
    report = agent.update_many(*log)
    assert report.rounds == agent.rounds == 4
    assert counts(agent)["attraction", "d"] == [1.0, 3.0]  # clicks leave nothing in doubt
    assert counts(agent.moved_to(list_model(OLD)))["attraction", "c"] == [1.0, 2.0]
    with pytest.raises(ActionError, match="'A1' in round 1 cannot be 'w', neither in this diagram nor in an earlier"):
        agent.update_many({"A1": ["a", "w"], "A2": ["b", "b"]}, {"C1": [1, 1]})
    assert agent.rounds == 4


def test_impossible_late_rounds_are_reported_by_their_numbers() -> None:
    agent = idb.Thompson(models.cascade(OLD, 2), seed=0).moved_to(models.cascade(NEW, 2))
    log = {"A1": ["a", "d", "a"], "A2": ["c", "b", "c"]}, {"C1": [0, 1, 1], "C2": [1, 0, 1]}
    with pytest.raises(ImpossibleObservationError, match="in round 2, "):
        agent.update_many(*log)
    assert agent.rounds == 0
    report = agent.update_many(*log, impossible="skip")
    assert (report.rounds, report.impossible.tolist()) == (2, [2])


def test_positions_and_nodes_may_differ() -> None:
    agent = played(list_model(OLD, 3), idb.Thompson(list_model(OLD, 3), seed=0))
    moved = agent.moved_to(list_model(NEW, 2))
    assert moved.carried.tables["examination"] == (2, 0, 1)
    assert counts(moved)["examination", 1] == counts(agent)["examination", 1]
    moved.update({"A1": "a", "A2": "b", "A3": "c"}, {"C1": 0, "C2": 0, "C3": 1})  # played with three positions
    wider = moved.moved_to(list_model([*NEW, "f"], 4))
    assert wider.carried.tables["examination"] == (3, 1, 0)
    other = wider.moved_to(models.cascade(NEW, 2))
    assert counts(other)["attraction", "b"] == counts(wider)["attraction", "b"]
    played(models.cascade(NEW, 2), other, 20)


def test_a_new_prior_takes_the_place_of_the_old_one() -> None:
    agent = idb.Thompson(models.cascade(OLD, 1), "exact", seed=0)
    agent.update({"A1": "b"}, {"C1": 1})
    moved = agent.moved_to(models.cascade(NEW, 1, prior={"attraction": [5.0, 2.0]}))
    assert counts(moved) == {("attraction", "d"): [5, 2], ("attraction", "b"): [5, 3], ("attraction", "e"): [5, 2]}


@pytest.mark.parametrize("name", ["gibbs", "ep", "variational", "moments", "particles"])
def test_files_copies_and_pickles_know_the_past(name: str, tmp_path: Path) -> None:
    agent = played(list_model(OLD), agent_of(name, list_model(OLD))).moved_to(list_model(NEW))
    agent.update({"A1": "a", "A2": "c"}, {"C1": 0, "C2": 0})
    agent.save(tmp_path / "agent")
    others = [idb.Thompson.load(tmp_path / "agent"), pickle.loads(pickle.dumps(agent)), agent.copy()]
    late = {"A1": "c", "A2": "a"}, {"C1": 0, "C2": 0}
    agent.update(*late)
    for other in others:
        other.update(*late)
        assert [other.act() for _ in range(10)] == [one.act() for one in [agent.copy()] for _ in range(10)]
        assert other.rounds == agent.rounds


def test_the_remembered_rounds_are_those_that_both_diagrams_have() -> None:
    agent = idb.Thompson(list_model(OLD), seed=0)
    agent.update({"A1": "d", "A2": "b"}, {"C1": 1, "C2": None})
    agent.update({"A1": "a", "A2": "b"}, {"C1": 1, "C2": 0})
    moved = agent.moved_to(list_model(NEW))
    assert sampled(moved).rounds.tolist() == [[0, 1, 1, -1]]
    assert moved.fit_report().rounds == 1


def test_several_structures_move_together() -> None:
    def structures(items: list[str]) -> list[idb.Diagram]:
        return [models.cascade(items, 2), models.position_based(items, 2)]

    agent = idb.Thompson(structures(OLD), seed=0)
    for _ in range(20):
        agent.update({"A1": "d", "A2": "b"}, {"C1": 0, "C2": 1})
    moved = agent.moved_to(structures(NEW))
    assert moved.weights() == agent.weights()
    assert moved.rounds == 20
    assert moved.act()["A1"] in NEW
    with pytest.raises(IdbanditsError, match="d must have the structures 'cascade', 'position-based'"):
        agent.moved_to([models.cascade(NEW, 2), models.saturated(NEW, 2)])


def test_agents_that_forget_move_too() -> None:
    d = list_model(OLD)
    agent = played(d, idb.Thompson(d, seed=0, forget=idb.Forget(half_life=30)))
    moved = agent.moved_to(list_model(NEW))
    assert counts(moved)["attraction", "b"] == counts(agent)["attraction", "b"]
    for _ in range(300):
        moved.update({"A1": "d", "A2": "e"}, {"C1": 1, "C2": 1})
    assert sum(counts(moved)["attraction", "b"]) == pytest.approx(2.0, abs=0.1)  # back at the prior
    for _ in range(1000):
        moved.update({"A1": "d", "A2": "e"}, {"C1": 1, "C2": 1})
    again = moved.moved_to(list_model([*NEW, "f"]))
    assert again.carried.tables["attraction"] == (3, 1, 0)  # what has faded is not kept


def test_mistakes_are_named(tmp_path: Path) -> None:
    agent = idb.Thompson(list_model(OLD), seed=0)
    with pytest.raises(DiagramError, match="d must be a Diagram, got 3"):
        agent.moved_to(3)  # type: ignore[arg-type]
    exact = idb.Thompson(models.cascade(OLD, 2), "exact")
    with pytest.raises(DiagramError, match="'exact' cannot learn from"):
        exact.moved_to(list_model(OLD))
    own = agent_of("own", models.semi_bandit(3, 1))
    with pytest.raises(IdbanditsError, match="cannot move to another diagram"):
        own.moved_to(models.semi_bandit(4, 1))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("retired", 3),
        ("retired", [{"table": "attraction", "row": ["d"], "prior": [1.0, 1.0]}]),
        ("retired", [{"table": "attraction", "row": ["z"], "prior": [1.0]}]),
        ("retired", [{"table": "attraction", "row": ["z"], "prior": [1.0, -1.0]}]),
        ("retired", [{"table": "attraction", "row": [["z"]], "prior": [1.0, 1.0]}]),
        ("retired", []),
        ("constants", [2.0]),
        ("constants", ["x"]),
        ("longest", [1]),
        ("longest", [10**9, 10**9]),
        ("earlier", [{}]),
        ("earlier", {"a": 1}),
    ],
)
def test_a_past_that_cannot_be_is_rejected(field: str, value: Any, tmp_path: Path) -> None:
    agent = played(list_model(OLD), idb.Thompson(list_model(OLD), seed=0)).moved_to(list_model(NEW))
    agent.save(path := tmp_path / "agent.npz")
    with np.load(path) as file:
        parts = dict(file)
    head = json.loads(str(parts["head"]))
    head["past"][field] = value
    parts["head"] = np.array(json.dumps(head))
    with path.open("wb") as file:
        np.savez(file, **parts)
    with pytest.raises(FormatError):
        idb.Thompson.load(path)


def test_knowledge_is_not_shared() -> None:
    agent = played(list_model(OLD), idb.Thompson(list_model(OLD), seed=0))
    before = knowledge(agent)
    played(list_model(NEW), agent.moved_to(list_model(NEW)))
    assert knowledge(agent) == before


def test_a_log_may_have_columns_of_nodes_that_are_gone(tmp_path: Path) -> None:
    log = pd.DataFrame({
        "A1": ["a", "a", "c", "b"], "A2": ["b", "x", "d", "x"], "A3": [None, None, "a", None],
        "C1": [0, 1, 0, 0], "C2": [1, None, 0, 0], "C3": [None, None, 1, None],
    })  # fmt: skip
    agent = idb.Thompson(models.cascade(["a", "b", "c", "d"], 3), "exact", seed=0)
    for other, columns in ((log, None), (log.rename(columns={"A3": "third"}), {"A3": "third"})):
        moved = agent.moved_to(models.cascade(["a", "b", "x"], 2))
        assert moved.update_many(other, columns=columns).rounds == 4
        assert moved.posterior()["attraction"].alpha.tolist() == [[2, 3], [2, 2], [2, 1]]
        back = moved.moved_to(models.cascade(["a", "b", "c", "d"], 3))
        assert back.posterior()["attraction"].alpha.tolist() == [[2, 3], [2, 2], [2, 1], [2, 1]]
    with pytest.raises(ActionError, match="'A1' in round 2 cannot be 'q', neither in this diagram"):
        moved.update_many(log.assign(A1=["a", "a", "q", "b"]))
    with pytest.raises(ActionError, match="round 1 fits neither this diagram nor an earlier one"):
        moved.update_many(log.assign(A3=[None, "a", "a", None]))


def test_several_structures_learn_late_rounds() -> None:
    def both(items: list[str]) -> list[idb.Diagram]:
        return [models.cascade(items, 2), models.position_based(items, 2)]

    old, new = ["a", "b", "c"], ["b", "c", "d"]
    rounds = [({"A1": "a", "A2": "b"}, {"C1": 0, "C2": 1}), ({"A1": "b", "A2": "c"}, {"C1": 1, "C2": 0})] * 20
    early = idb.Thompson(both(old), seed=0)
    late = early.moved_to(both(new))
    for action, seen in rounds:
        early.update(action, seen)
        late.update(action, seen)
    assert late.rounds == early.rounds == 40
    early = early.moved_to(both(new))
    np.testing.assert_allclose(
        late.posterior()["cascade"]["attraction"].alpha, early.posterior()["cascade"]["attraction"].alpha
    )
    assert abs(late.weights()["cascade"] - early.weights()["cascade"]) < 0.05  # that of a chain is drawn
    late.revise({"A1": "a", "A2": "b"}, {"C1": 0, "C2": 1}, None)
    assert late.rounds == 39
    for action, seen in rounds:  # two clicks are impossible in a cascade
        late.update(action, seen | {"C1": 1, "C2": 1})
        break
    assert late.weights() == {"cascade": 0.0, "position-based": 1.0}


def test_the_belief_of_late_rounds_with_features_is_that_of_early_ones() -> None:
    """Item features: a fit of the regression after a late round shifts the rows that it is about."""
    rng = np.random.default_rng(3)
    frame = pd.DataFrame(rng.normal(size=(35, 4)), index=[f"i{k}" for k in range(35)], columns=list("abcd"))
    logits = frame.to_numpy() @ np.array([1.5, -1.0, 0.5, 0.0])
    means = 1 / (1 + np.exp(-logits))

    def diagram(items: list[str]) -> idb.Diagram:
        d = idb.Diagram("page")
        d.reward(d.observed("click", [d.decision("item", items)], idb.Learned("appeal", features=frame.loc[items])))
        return d

    old, new = list(frame.index[:20]), list(frame.index[5:])
    rounds = [(int(k), int(rng.random() < means[k])) for k in rng.integers(20, size=600)]
    early = idb.Thompson(diagram(old), seed=0)
    for k, click in rounds[:250]:
        early.update({"item": f"i{k}"}, {"click": click})
    late = early.moved_to(diagram(new))
    for k, click in rounds[250:]:
        early.update({"item": f"i{k}"}, {"click": click})
        late.update({"item": f"i{k}"}, {"click": click})
    early = early.moved_to(diagram(new))
    ours, theirs = (agent.posterior()["appeal"].mean for agent in (late, early))
    assert np.abs(ours - theirs).max() < 0.03


# -- what rounds of earlier diagrams still say -------------------------------------------------------------------------


def segments(*, marked: bool) -> idb.Diagram:
    """A latent class, which only a mark tells apart."""
    d = idb.Diagram("segments")
    z = d.latent("Z", cpd=idb.Learned("class"))
    if marked:
        d.observed("M", [z], [0.05, 0.95])
    d.reward(d.observed("X", [d.decision("A", 1), z], idb.Learned("appeal")))
    return d


def test_states_that_earlier_rounds_tell_apart_are_not_exchanged() -> None:
    rng, number = np.random.default_rng(0), 3000
    z = rng.integers(2, size=number)
    marks, clicks = (rng.random((2, number)) < np.array([[0.05, 0.95], [0.1, 0.8]])[:, z]).astype(int)
    agent = idb.Thompson(segments(marked=True), "gibbs", seed=0)
    agent.update_many({"A": np.zeros(number, int)}, {"M": marks, "X": clicks})
    moved = agent.moved_to(segments(marked=False))
    # 1,500 rounds of each class: a standard deviation of about .012, and six of these
    for means in (moved.posterior()["appeal"].mean, moved.draws(1000)["appeal"].mean(axis=0)):
        np.testing.assert_allclose(means, [[0.1, 0.8]], atol=0.07)
    assert (moved.posterior()["appeal"].sd < 0.03).all()
    back = moved.moved_to(segments(marked=True))
    np.testing.assert_allclose(back.posterior()["appeal"].mean, [[0.1, 0.8]], atol=0.07)


def without_tables() -> idb.Diagram:
    d = idb.Diagram("without tables")
    d.reward(d.observed("Y", [d.decision("B", 2)], [0.2, 0.4]))
    return d


@pytest.mark.parametrize("is_fresh", [False, True], ids=["taught", "fresh"])
@pytest.mark.parametrize("name", ["gibbs", "ep", "variational", "moments", "incremental"])
def test_an_agent_may_move_to_a_diagram_without_learned_tables_and_back(name: str, is_fresh: bool) -> None:
    early, late = ({"A": 0}, {"M": 1, "X": 1}), ({"A": 0}, {"M": 0, "X": 1})
    direct = idb.Thompson(segments(marked=True), name, seed=0)
    agent, played = direct.copy(), [late] if is_fresh else [early, late]
    if not is_fresh:
        agent.update(*early)
    agent = agent.moved_to(without_tables())
    assert agent.posterior() == {}
    agent.update({"B": agent.act()["B"]}, {"Y": 1})
    agent.update(*late)
    agent = agent.moved_to(segments(marked=True))
    assert agent.rounds == len(played) + 1
    for action, observation in played:
        direct.update(action, observation)
    if INFERENCES[name].grouped:  # all that was learned, not only what is believed
        assert groups(agent) == groups(direct)
    else:
        np.testing.assert_allclose(agent.posterior()["appeal"].mean, direct.posterior()["appeal"].mean, atol=0.2)


def test_many_moves_neither_bias_the_posterior_nor_make_it_expensive() -> None:
    """An agent whose items come and go knows as much as one that has all of them from the start."""
    rng, moves, rounds, items = np.random.default_rng(0), 60, 60, 30
    every = list(range(items + 3 * moves))
    attraction, examination = rng.beta(1, 3, len(every)), np.array([0.9, 0.6, 0.4])
    agent, whole = (idb.Thompson(models.position_based(own, 3), "gibbs", seed=0) for own in (every[:items], every))
    peaks, log = list[int](), list[tuple[dict[str, Any], dict[str, Any]]]()
    for move in range(moves + 1):
        lists = np.array([3 * move + rng.permutation(items)[:3] for _ in range(rounds)])
        clicks = (rng.random(lists.shape) < attraction[lists] * examination).astype(int)
        log.append(({f"A{k + 1}": lists[:, k] for k in range(3)}, {f"C{k + 1}": clicks[:, k] for k in range(3)}))
        agent.update_many(*log[-1])
        if move in (1, moves):
            tracemalloc.start()
            belief = agent.posterior()
            peaks.append(tracemalloc.get_traced_memory()[1])
            tracemalloc.stop()
        if move < moves:
            agent = agent.moved_to(models.position_based(every[3 * move + 3 : 3 * move + 3 + items], 3))
    assert peaks[1] < 2 * peaks[0]
    columns = [
        {key: np.concatenate([part[key] for part in parts]) for key in parts[0]} for parts in zip(*log, strict=True)
    ]
    whole.update_many(*columns)
    draws = whole.draws(6000)
    # chains of at least 40 effective draws: 33 comparisons, 5 standard errors of a difference, below 1e-4
    for name, own in (("examination", slice(None)), ("attraction", slice(3 * moves, None))):
        other = draws[name][:, own]
        assert (abs(belief[name].mean - other.mean(axis=0)) < 5 * other.std(axis=0) * np.sqrt(2 / 40)).all()
        assert (abs(np.log(belief[name].sd / other.std(axis=0))) < 0.7).all()


@pytest.mark.parametrize("inference", ["exact", "variational", "gibbs", "moments"])
@pytest.mark.parametrize("featured", [False, True])
def test_rounds_of_any_earlier_diagram_are_learned_if_they_name_it(
    inference: str, featured: bool, tmp_path: Path
) -> None:
    def version(number: int) -> idb.Diagram:
        items = [f"i{k}" for k in range(number, number + 5)]
        frame = pd.DataFrame({"price": [float(item[1:]) % 7 for item in items]}, index=items)
        d, table = idb.Diagram("version"), idb.Learned("attraction", features=frame if featured else None)
        for position in (1, 2):
            d.reward(d.observed(f"C{position}", [d.decision(f"A{position}", items)], table))
        d.all_different()
        return d

    versions = [version(number) for number in range(40)]  # more than the 16 that an agent remembers
    agent = idb.Thompson(versions[0], inference, seed=0)
    for d in versions[1:]:
        agent = agent.moved_to(d)
    late = {"A1": "i0", "A2": "i3"}
    with pytest.raises(ActionError):
        agent.update(late, {"C1": 1, "C2": 0})
    for _ in range(3):
        agent.update(late, {"C1": 1, "C2": 0}, diagram=versions[0])
    if inference != "moments":
        agent.revise(late, {"C1": 1, "C2": 0}, {"C1": 1, "C2": 1}, diagram=versions[0])
    agent.save(tmp_path / "agent.npz")
    agent = idb.Thompson.load(tmp_path / "agent.npz")
    agent.update({"A1": "i9", "A2": "i10"}, {"C1": 0, "C2": 0}, diagram=versions[9])
    agent = agent.moved_to(versions[0])
    other = idb.Thompson(versions[0], inference, seed=0)
    other.update_many({"A1": ["i0"] * 3, "A2": ["i3"] * 3}, {"C1": [1] * 3, "C2": [0, 0, int(inference != "moments")]})
    if not featured:  # one belief for all items: that of i9 and i10 informs the others as well
        np.testing.assert_allclose(agent.posterior()["attraction"].alpha, other.posterior()["attraction"].alpha)
    assert agent.rounds == other.rounds + 1
    with pytest.raises(DiagramError, match="d must be a Diagram, got 3"):
        agent.update(late, {"C1": 1}, diagram=3)  # type: ignore[arg-type]
    with pytest.raises(ActionError):
        agent.update({"A1": "i30", "A2": "i31"}, {"C1": 1}, diagram=versions[0])


def test_actions_by_a_seed_depend_on_the_belief_and_the_seed_alone() -> None:
    d = models.position_based(20, 3)
    agent, other = (played(d, idb.Thompson(d, seed=1), 50) for _ in range(2))
    before = agent.rng.bit_generator.state
    actions = [agent.act(seed=seed) for seed in range(30)]
    assert agent.rng.bit_generator.state == before
    other.act()
    assert [other.act(seed=seed) for seed in range(30)] == actions
    assert len({tuple(action.items()) for action in actions}) > 10
    several = idb.Thompson([models.cascade(5, 2), models.position_based(5, 2)], seed=1)
    assert several.act(seed=3) == several.act(seed=3)
