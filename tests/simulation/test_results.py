"""Results against calculations by hand, plots as data, and files."""

import json
import math

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from matplotlib import pyplot
from matplotlib.figure import Figure
from pyarrow import parquet

import idbandits as idb
from idbandits.errors import FormatError, IdbanditsError
from idbandits.simulation import results
from idbandits.simulation.plots import Curve, curves, draw_curves, limits, line_style, settled
from idbandits.simulation.results import Result

COLUMNS = ["learner", "run", "round", "reward", "regret", "seconds"]
ROWS = [
    ("B", 0, 5, 1.0, 2.0, 0.1), ("B", 0, 10, 2.0, 6.0, 0.2),
    ("B", 1, 5, 2.0, 3.0, 0.3), ("B", 1, 10, 4.0, 1.0, 0.4),
    ("B", 2, 5, 0.0, 1.0, 0.5), ("B", 2, 10, 9.0, 2.0, 0.9),
    ("A", 0, 5, 4.0, 0.5, 1.0), ("A", 0, 10, 7.0, 1.5, 2.0),
    ("A", 1, 5, 3.0, 0.5, 1.0), ("A", 1, 10, 9.0, 2.5, 4.0),
]  # fmt: skip


def result(rows=ROWS, learners=("A", "B"), **settings):
    defaults = {"world": "cascade", "learners": [*learners], "rounds": 10, "runs": 3, "seed": 7, "interrupted": False}
    return Result(pd.DataFrame(rows, columns=COLUMNS), defaults | settings)


def curve(rounds, mean, error=0.0, name="A"):
    mean = np.array(mean, dtype=float)
    return Curve(name, np.array(rounds), mean, mean - error, mean + error)


# -- summaries ---------------------------------------------------------------------------------------------------------


def test_summary_by_hand_in_the_order_of_the_settings():
    summary = result().summary()
    assert list(summary.columns) == [
        "learner", "runs", "rounds", "reward_mean", "reward_se",
        "regret_mean", "regret_se", "worst_regret", "seconds_mean",
    ]  # fmt: skip
    assert summary["learner"].tolist() == ["A", "B"]
    # A: rewards 0.7, 0.9 per round, regrets 1.5, 2.5; B: rewards 0.2, 0.4, 0.9, regrets 6, 1, 2
    assert summary.loc[0].tolist()[1:] == pytest.approx([2, 10, 0.8, 0.1, 2.0, 0.5, 2.5, 3.0])
    assert summary.loc[1].tolist()[1:] == pytest.approx(
        [3, 10, 0.5, math.sqrt(0.13 / 3), 3.0, math.sqrt(7 / 3), 6.0, 0.5]
    )


def test_summary_prints_all_columns_in_a_narrow_terminal():
    with pd.option_context("display.max_columns", 0, "display.width", 40, "display.max_colwidth", 8):
        text, html = repr(result().summary()), result().summary()._repr_html_()
        plain = repr(pd.DataFrame(result().summary()))
    assert "..." in plain  # as pandas would print it
    for shown in (text, html):
        assert all(column in shown for column in result().summary().columns)
    assert "..." not in text
    assert type(result().summary()[["learner", "runs"]]) is pd.DataFrame


def test_one_run_has_no_standard_error():
    row = result(ROWS[:2], ["B"]).summary().loc[0]
    assert (row["runs"], row["reward_mean"], row["regret_mean"], row["worst_regret"]) == (1, 0.2, 6.0, 6.0)
    assert np.isnan([row["reward_se"], row["regret_se"]]).all()


def test_a_run_that_was_cut_short_is_left_out_if_half_got_further():
    without, cut = result().summary().loc[1], [*ROWS, ("B", 3, 5, 5.0, 99.0, 9.0)]
    pd.testing.assert_series_equal(result(cut, interrupted=True).summary().loc[1], without)
    [b] = [c for c in curves(result(cut).frame, "regret") if c.learner == "B"]
    assert (b.rounds.tolist(), b.mean.tolist()) == ([5, 10], [2.0, 3.0])


def test_a_run_that_is_ahead_of_most_is_cut_to_where_they_are():
    rows = [row for row in ROWS if row[:3] not in [("B", 1, 10), ("B", 2, 10)]]
    row = result(rows, interrupted=True).summary().loc[1]
    assert (row["runs"], row["rounds"], row["worst_regret"]) == (3, 5, 3.0)
    assert row["reward_mean"] == pytest.approx(0.2)
    [b] = [c for c in curves(result(rows).frame, "reward") if c.learner == "B"]
    assert b.rounds.tolist() == [5]


def test_checkpoints_that_only_some_runs_have_are_left_out():
    rows = [*ROWS, ("A", 0, 7, 5.0, 1.0, 1.0), ("B", 3, 4, 1.0, 1.0, 1.0)]
    assert [c.rounds.tolist() for c in curves(result(rows).frame, "regret")] == [[5, 10], [5, 10]]
    pd.testing.assert_frame_equal(result(rows).summary(), result().summary())


def test_a_learner_that_never_ran_is_listed_with_no_runs_and_not_drawn():
    unrun = result(learners=["A", "C", "B"], interrupted=True)
    row = unrun.summary().loc[1]
    assert (row["learner"], row["runs"], row["rounds"]) == ("C", 0, 0)
    assert np.isnan(row.iloc[3:].astype(float)).all()
    assert unrun.summary()["runs"].dtype == unrun.summary()["rounds"].dtype == np.int64
    assert [line.get_label() for line in unrun.plot().lines] == ["A", "B"]


# -- LaTeX -------------------------------------------------------------------------------------------------------------


def test_latex_has_errors_and_escaped_names():
    name = "idTS_100% & $\\{x}~^#"
    rows = [(name, run, 10, reward, 1234.5 + run, 0.1) for run, reward in enumerate((2.0, 4.0))]
    assert result(rows, [name]).to_latex().splitlines() == [
        r"\begin{tabular}{lrr}",
        r"\toprule",
        r"learner & average reward & total regret \\",
        r"\midrule",
        r"idTS\_100\% \& \$\textbackslash{}\{x\}\textasciitilde{}\textasciicircum{}\# & "
        r"$0.30 \pm 0.10$ & $1{,}235.0 \pm 0.5$ \\",
        r"\bottomrule",
        r"\end{tabular}",
    ]
    assert "$0.2000$ & $6.0$" in result(ROWS[:2], ["B"]).to_latex()  # a single run has no standard error


# -- differences -------------------------------------------------------------------------------------------------------


def test_differences_by_hand():
    rows = [("A", run, 10, reward, 10 - reward, 0.1) for run, reward in enumerate((1.0, 5.0, 9.0, 3.0))]
    rows += [("B", run, 10, reward, 10 - reward, 0.1) for run, reward in enumerate((2.0, 6.0, 11.0, 5.0))]
    frame = result(rows).differences()
    assert frame[["learner", "to", "measure", "runs", "rounds"]].to_numpy().tolist() == [
        ["B", "A", "reward", 4, 10], ["B", "A", "regret", 4, 10],
    ]  # fmt: skip
    # regrets of B minus those of A: -1, -1, -2, -2; t of 95 % with 3 degrees of freedom: 3.182446
    error = math.sqrt(4 * 0.25 / 3) / 2
    expected = [-1.5, error, -1.5 - 3.182446 * error, -1.5 + 3.182446 * error]
    assert frame.loc[1, ["difference", "se", "low", "high"]].tolist() == pytest.approx(expected)
    scaled = [0.15, error / 10, 0.15 - 0.3182446 * error, 0.15 + 0.3182446 * error]
    assert frame.loc[0, ["difference", "se", "low", "high"]].tolist() == pytest.approx(scaled)
    swapped = result(rows).differences(to="B")
    assert swapped["learner"].tolist() == ["A", "A"]
    assert swapped["difference"].tolist() == pytest.approx([-0.15, 1.5])


def test_differences_are_of_common_runs_and_rounds():
    frame = result().differences(to="A")  # B has a run more than A
    assert frame["runs"].tolist() == [2, 2]
    assert frame["difference"].tolist() == pytest.approx([-0.5, 1.5])
    early = [row for row in ROWS if row[0] == "B" or row[2] == 5]  # A was interrupted
    assert result(early, interrupted=True).differences(to="A")["rounds"].tolist() == [5, 5]
    alone = result([*ROWS[:2], *ROWS[6:8]]).differences()
    assert alone["difference"].tolist() == pytest.approx([-0.5, 4.5])
    assert alone[["se", "low", "high"]].isna().all(axis=None)
    assert result(ROWS[:6]).differences()["runs"].tolist() == [0, 0]
    assert result(ROWS[:6], ["B"]).differences().empty
    with pytest.raises(IdbanditsError, match="to must be None or one of the learners"):
        result().differences(to="C")


def test_pairing_narrows_the_interval():
    d = idb.models.position_based(4, 2)
    world = idb.World(d, {"attraction": [0.1, 0.2, 0.5, 0.8], "examination": [0.9, 0.4]})
    learners = {"all revealed": idb.Thompson(d.revealed(), "exact"), "moments": idb.Thompson(d, "moments")}
    simulated = idb.simulate(world, learners, rounds=500, runs=40, progress=False)
    summary, paired = simulated.summary(), simulated.differences()
    apart = math.hypot(*summary["reward_se"])
    assert paired.loc[0, "difference"] == pytest.approx(summary["reward_mean"][1] - summary["reward_mean"][0])
    assert paired.loc[0, "se"] < 0.8 * apart


# -- plots -------------------------------------------------------------------------------------------------------------


def test_curves_by_hand():
    b, a = curves(result().frame, "reward")
    assert (b.learner, a.learner) == ("B", "A")
    assert b.rounds.tolist() == a.rounds.tolist() == [5, 10]
    assert a.mean == pytest.approx([0.7, 0.8])
    assert a.low == pytest.approx([0.6, 0.7])
    assert a.high == pytest.approx([0.8, 0.9])
    b, a = curves(result().frame, "regret")
    assert b.mean == pytest.approx([2.0, 3.0])
    assert b.high - b.mean == pytest.approx([1 / math.sqrt(3), math.sqrt(7 / 3)])
    assert b.mean - b.low == pytest.approx(b.high - b.mean)


@pytest.mark.parametrize("dtype", ["str", "category"])
def test_the_order_of_rows_and_the_type_of_names_do_not_matter(dtype):
    frame = result().frame.sample(frac=1, random_state=3).astype({"learner": dtype})
    shuffled = Result(frame, result().settings)
    pd.testing.assert_frame_equal(shuffled.summary(), result().summary())
    assert [line.get_label() for line in shuffled.plot().lines] == ["A", "B"]
    for line, before in zip(shuffled.plot().lines, result().plot().lines, strict=True):
        assert np.array_equal(line.get_xydata(), before.get_xydata())


def test_early_rewards_do_not_squash_the_late_ones():
    noisy = [curve([20, 50, 100, 500, 1000], [9.0, -5.0, 0.4, 0.5, 0.6])]
    assert limits(noisy, "reward") == pytest.approx((0.3, 0.7))
    assert limits(noisy, "regret") == (-5.0, 9.0)
    calm = [curve([20, 100, 1000], [0.35, 0.4, 0.6])]
    assert limits(calm, "reward") == (0.35, 0.6)
    assert limits([curve([20, 1000], [0.2, 0.6])], "reward") == (0.2, 0.6)
    assert limits([curve([20, 1000], [0.5, 0.6], error=0.1)], "regret") == pytest.approx((0.0, 0.7))
    assert settled(curve([1, 9, 10, 1000], [7.0, 8.0, 1.0, 2.0])).rounds.tolist() == [10, 1000]


def test_axes_are_labelled_and_tight():
    reward, regret = result().plot(), result().plot("regret")
    assert (reward.get_xlabel(), reward.get_ylabel()) == ("round", "average reward")
    assert (regret.get_xlabel(), regret.get_ylabel()) == ("round", "total regret")
    assert regret.get_xlim() == (0, 10)
    assert regret.get_ylim()[0] == 0
    assert 3 + math.sqrt(7 / 3) < regret.get_ylim()[1] < 5
    assert regret.get_legend().get_title().get_visible()
    assert regret.get_legend().get_title().get_text() == "mean ± 1 standard error"
    long = draw_curves([curve([10_000, 1_000_000], [1.0, 20_000.0])], "regret")
    assert [long.xaxis.get_major_formatter()(10_000), long.yaxis.get_major_formatter()(2500)] == ["10,000", "2,500"]


def test_bands_are_drawn_one_standard_error_wide():
    ax = result().plot("regret")
    for band, line in zip(ax.collections, reversed(curves(result().frame, "regret")), strict=True):
        corners = band.get_paths()[0].vertices
        for x, low, high in zip(line.rounds, line.low, line.high, strict=True):
            ys = corners[corners[:, 0] == x, 1]
            assert (ys.min(), ys.max()) == pytest.approx((low, high))


@pytest.mark.parametrize("what", ["reward", "regret"])
def test_one_run_is_drawn_without_a_band(what):
    ax = result(ROWS[:2], ["B"]).plot(what)
    assert not ax.get_legend().get_title().get_visible()  # nothing about standard errors
    ax.figure.draw_without_rendering()


@pytest.mark.parametrize("value", [0.0, 0.5, -2.0])
def test_a_single_checkpoint_and_constant_curves_can_be_drawn(value):
    for what in ("reward", "regret"):
        for rounds in ([1], [1, 2, 3]):
            ax = draw_curves([curve(rounds, [value] * len(rounds))], what)
            ax.figure.draw_without_rendering()
            assert ax.get_ylim()[0] <= value < ax.get_ylim()[1]


def test_many_learners_look_different_without_colour_too():
    looks = [line_style(i) for i in range(30)]
    assert len({(look["marker"], look["linestyle"]) for look in looks}) == 30
    assert len({look["color"] for look in looks[:7]}) == 7
    lines = draw_curves([curve([1, 2], [i, i], name=str(i)) for i in range(30)], "regret").lines
    assert [(line.get_marker(), line.get_color()) for line in lines] == [(k["marker"], k["color"]) for k in looks]


@pytest.mark.parametrize("width", [3.4, 6.4])
def test_the_legend_hides_no_curve_and_stays_in_the_picture(width):
    names = ["idTSvi", "idTSinc", "CascadeKL-UCB", "_hidden", "$x_1$", "a_b", "TopRank", "ε-greedy", "UCB1"]
    figure = Figure(figsize=(width, 2.8), layout="constrained")
    ax = draw_curves([curve([1, 2], [i, i], name=n) for i, n in enumerate(names)], "regret", figure.subplots())
    figure.draw_without_rendering()
    legend, axes = ax.get_legend().get_window_extent(), ax.get_window_extent()
    assert [text.get_text() for text in ax.get_legend().get_texts()] == names
    assert not any(text.get_parse_math() for text in ax.get_legend().get_texts())
    assert legend.y0 >= axes.y1
    assert legend.x1 <= figure.bbox.x1
    assert legend.y1 <= figure.bbox.y1
    assert axes.height > 0.35 * figure.bbox.height


def test_plotting_leaves_no_global_state():
    ax = Figure().subplots()
    assert result().plot("reward", ax) is ax
    assert result().plot().figure is not result().plot().figure
    assert pyplot.get_fignums() == []


@pytest.mark.parametrize("what", ["rewards", "", None, 5, ["reward"], b"reward", "seconds"])
def test_nothing_but_reward_and_regret_can_be_plotted(what):
    with pytest.raises(IdbanditsError) as caught:
        result().plot(what)
    assert str(caught.value) == f"what must be 'reward' or 'regret', got {what!r}"


def test_nothing_to_plot():
    with pytest.raises(IdbanditsError, match="no learner has a reward to plot"):
        result([]).plot()
    unknown = result([(*row[:4], math.nan, 0.0) for row in ROWS])
    with pytest.raises(IdbanditsError, match="no learner has a regret to plot"):
        unknown.plot("regret")


# -- results and files -------------------------------------------------------------------------------------------------


def test_a_result_has_all_columns_settings_and_learners():
    frame, settings = result().frame, result().settings
    with pytest.raises(IdbanditsError, match=r"must have the columns learner, .*, seconds once each; see 'regret'$"):
        Result(frame[COLUMNS[:4]], settings)
    with pytest.raises(IdbanditsError, match=r"settings of the result: 'learners' is a required property$"):
        Result(frame, {key: value for key, value in settings.items() if key != "learners"})
    with pytest.raises(IdbanditsError, match=r"learner 'B' is not one of \['A'\]"):
        result(learners=["A"])


def test_repr():
    assert repr(result()) == "Result('cascade', learners=['A', 'B'], runs=3, rounds=10, seed=7)"
    assert repr(result(interrupted=True)).endswith("seed=7, interrupted=True)")


@pytest.mark.parametrize("types", [{}, {"learner": "category"}, {"run": "int32", "regret": "float32"}])
def test_round_trip_is_exact(tmp_path, types):
    values = [math.pi, 1e-300, -0.0, math.nan, 1 / 3, 1e22, 5e-324, 0.1, 2.0, 7.0]
    frame = result().frame.assign(reward=values).astype(types)[::-1]  # with a custom index
    before = Result(frame, result(seed=[1, 2], extra={"ε": None}).settings)
    before.save(tmp_path / "result.parquet")
    after = Result.load(str(tmp_path / "result.parquet"))
    pd.testing.assert_frame_equal(after.frame, before.frame, check_exact=True)
    assert after.settings == before.settings
    before.save(str(tmp_path / "result.parquet"))  # over the old one
    assert [file.name for file in tmp_path.iterdir()] == ["result.parquet"]


def test_a_failed_save_leaves_the_old_file(tmp_path):
    path = tmp_path / "result.parquet"
    result().save(path)
    old = path.read_bytes()
    with pytest.raises(IdbanditsError, match="plain data"):
        result(seed=object()).save(path)
    assert path.read_bytes() == old


def test_a_truncated_file_is_an_error_that_names_it(tmp_path):
    path = tmp_path / "result.parquet"
    result().save(path)
    content = path.read_bytes()
    for length in [*range(0, len(content), 97), len(content) - 1]:
        path.write_bytes(content[:length])
        with pytest.raises(FormatError, match=r"result\.parquet: not a Parquet file, or damaged: "):
            Result.load(path)


def test_a_flipped_bit_is_noticed_or_harmless(tmp_path):
    path = tmp_path / "result.parquet"
    result().save(path)
    content, noticed = path.read_bytes(), 0
    for place in range(4, len(content), 11):
        path.write_bytes(content[:place] + bytes([content[place] ^ 4]) + content[place + 1 :])
        try:
            pd.testing.assert_frame_equal(Result.load(path).frame, result().frame, check_exact=True)
        except FormatError as error:
            assert str(path) in str(error)
            noticed += 1
    assert noticed > 50


def test_errors_of_other_files_say_what_is_wrong(tmp_path):
    path = tmp_path / "other"
    path.write_text("learner,run,round\nA,0,1\n" * 9)
    with pytest.raises(FormatError, match="other: not a Parquet file, or damaged: "):
        Result.load(path)
    result().frame.to_parquet(path)
    with pytest.raises(FormatError, match=r"other: a Parquet file without the settings of a result$"):
        Result.load(path)
    with pytest.raises(FileNotFoundError):
        Result.load(tmp_path / "none")


@pytest.mark.parametrize(
    ("columns", "note", "message"),
    [
        (
            ["run"],
            {"version": 1, "settings": result().settings},
            "must have the columns learner, run, round, reward, regret, seconds once each; see 'learner'",
        ),
        (COLUMNS, {"version": 1, "settings": {}}, "other: settings of the result: 'world' is a required property"),
        (COLUMNS, {"version": 2}, "other: version 2 is newer than this library, which reads up to version 1"),
        (COLUMNS, {"version": 1}, "other: metadata: 'settings' is a required property"),
    ],
)
def test_files_of_other_versions(tmp_path, columns, note, message):
    table = pa.Table.from_pandas(result().frame[columns])
    parquet.write_table(table.replace_schema_metadata({"idbandits": json.dumps(note)}), tmp_path / "other")
    with pytest.raises(FormatError) as caught:
        Result.load(tmp_path / "other")
    assert str(caught.value).endswith(message)


# -- invalid results --------------------------------------------------------------------------------------------------


ODD_COLUMNS = {
    "learner": [5, None, math.nan, b"A", ["A"], {"A": 1}, True, "C"],
    "run": ["x", None, math.nan, 1.5, -1, [1], True, 1j, pd.NA],
    "round": ["x", None, math.nan, 1.5, -1, 0, [1], True, pd.Timestamp(0)],
    "reward": ["x", [1.0], {"a": 1}, True, 1j, pd.Timestamp(0), pd.Timedelta(1), 2**70],
    "regret": ["x", [1.0], True, b"x", pd.NaT],
    "seconds": ["x", [1.0], True, object()],
}


@pytest.mark.parametrize(("column", "value"), [(name, value) for name, odd in ODD_COLUMNS.items() for value in odd])
def test_columns_of_other_types_are_rejected(column, value):
    frame = result().frame
    frame = frame.assign(**{column: pd.Series([value] * len(frame), index=frame.index)})
    with pytest.raises(IdbanditsError, match=rf"learner 'C'|column {column} "):
        Result(frame, result().settings)


def test_columns_or_checkpoints_that_occur_twice_are_rejected():
    frame, settings = result().frame, result().settings
    with pytest.raises(IdbanditsError, match="once each; see 'run'"):
        Result(pd.concat([frame, frame["run"]], axis=1), settings)
    with pytest.raises(IdbanditsError, match="run 0 of learner 'B' at round 5 more than once"):
        Result(pd.concat([frame, frame[:1]]), settings)


@pytest.mark.parametrize(
    ("name", "odd"),
    [
        ("world", [None, 5, ["a"]]), ("learners", [None, 5, "AB", {"A": 1, "B": 2}, [1], ["A", "B", "A"], ["A", ["B"]]]),
        ("rounds", [None, "x", 0, -1, 1.5, True, [1]]), ("runs", [None, "x", 0, -1, math.nan]),
        ("interrupted", [None, "no", 5, []]),
    ],
)  # fmt: skip
def test_settings_of_other_types_are_rejected(name, odd):
    for value in odd:
        with pytest.raises(IdbanditsError, match=name.rstrip("s")):
            Result(result().frame, result().settings | {name: value})


@pytest.mark.parametrize(("frame", "settings"), [(None, {}), ([], {}), (result().frame, None), (result().frame, [1])])
def test_a_result_is_made_of_a_frame_and_settings(frame, settings):
    with pytest.raises(IdbanditsError, match="a data frame and a dictionary"):
        Result(frame, settings)


def written(path, table=None, **metadata):
    """Write a Parquet file with this table and metadata, which replaces that of idbandits and pandas."""
    table = pa.Table.from_pandas(result().frame) if table is None else table
    note = json.dumps({"version": 1, "settings": result().settings}).encode()
    added = {b"idbandits": note} | {key.encode(): text for key, text in metadata.items()}
    parquet.write_table(table.replace_schema_metadata((table.schema.metadata or {}) | added), path)
    return path


@pytest.mark.parametrize("column", COLUMNS)
@pytest.mark.parametrize(
    "kind",
    [pa.list_(pa.int64()), pa.struct([("a", pa.int64())]), pa.null(), pa.binary(), pa.date32(), pa.decimal128(5),
     pa.map_(pa.string(), pa.int64()), pa.bool_(), pa.timestamp("ns"), pa.dictionary(pa.int8(), pa.binary())],
    ids=str,
)  # fmt: skip
def test_columns_of_other_types_in_a_file_are_rejected(tmp_path, column, kind):
    table = pa.table({name: result().frame[name].to_numpy() for name in COLUMNS})
    place, empty = COLUMNS.index(column), pa.nulls(len(table), kind)
    with pytest.raises(FormatError, match=rf"file: column {column} "):
        Result.load(written(tmp_path / "file", table.set_column(place, column, empty)))


def test_a_column_that_a_file_has_twice_is_rejected(tmp_path):
    table = pa.Table.from_pandas(result().frame)
    with pytest.raises(FormatError, match="file: "):
        Result.load(written(tmp_path / "file", table.append_column("run", table["run"])))


DEEP = "[" * 100_000 + "]" * 100_000


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("idbandits", DEEP), ("idbandits", "[" * 900 + "]" * 900), ("idbandits", "[1]"), ("idbandits", "null"),
        ("idbandits", b"\xff\xfe"), ("idbandits", '{"version": "x", "settings": {}}'),
        ("idbandits", '{"version": [1], "settings": {}}'), ("idbandits", '{"version": 1, "settings": [1]}'),
        ("idbandits", json.dumps({"version": 1, "settings": result().settings})[:-2] + f', "extra": {"[" * 200 + "]" * 200}}}}}'),
        ("pandas", DEEP), ("pandas", "junk"), ("pandas", b"\xff"), ("pandas", "[]"),
        ("pandas", '{"index_columns": [5], "columns": [{"name": null}], "column_indexes": [{}]}'),
    ],
)  # fmt: skip
def test_odd_metadata_is_rejected(tmp_path, key, text):
    with pytest.raises(FormatError, match="file: ") as raised:
        Result.load(written(tmp_path / "file", **{key: text}))
    assert len(str(raised.value)) < 600 + len(str(tmp_path))


def test_a_small_file_with_a_huge_table_is_rejected_before_it_is_unpacked(tmp_path, monkeypatch):
    monkeypatch.setattr(results, "MOST_VALUES", 59)
    with pytest.raises(FormatError, match="at most 59 values"):
        Result.load(written(tmp_path / "file"))
    monkeypatch.setattr(results, "MOST_VALUES", 60)
    assert len(Result.load(written(tmp_path / "file")).frame) == len(ROWS)


def test_columns_that_parquet_cannot_hold(tmp_path):
    odd = Result(result().frame.assign(own=[object()] * len(ROWS)), result().settings)
    with pytest.raises(IdbanditsError, match="does not fit into a Parquet file"):
        odd.save(tmp_path / "file")
    assert not list(tmp_path.iterdir())
