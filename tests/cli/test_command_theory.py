"""`idbandits theory`: what it prints and writes."""

import pandas as pd
import pytest

import idbandits as idb


def test_theory_prints_and_writes(call, tmp_path):
    status, out, err = call("theory", "--runs", 2, "--rounds", 50, "--seed", 3)
    assert (status, err) == (0, "")
    assert out.split()[:4] == ["model", "items", "positions", "rounds"]
    status, again, err = call("theory", "--runs", 2, "--rounds", 50, "--seed", 3, "--workers", 1, "--out", "new/theory")
    assert (status, again) == (0, out)
    assert err == "idbandits: wrote theory.csv, theory.png, theory.svg to new/theory\n"
    frame = pd.read_csv(tmp_path / "new" / "theory" / "theory.csv")
    table, about = out.split("\n\n")
    assert len(frame) == len(table.splitlines()) - 1
    assert [line.split()[0] for line in about.splitlines()] == ["bound", "trivial", "useful_from"]
    assert "n B, which no learner exceeds" in about
    assert (frame.loc[frame["model"] == "cascade", "trivial"] == frame.loc[frame["model"] == "cascade", "rounds"]).all()
    assert (frame["regret_mean"] < frame["bound"]).all()
    assert (tmp_path / "new" / "theory" / "theory.png").read_bytes().startswith(b"\x89PNG")
    assert call("theory", "--runs", 1, "--rounds", 1)[0] == 0


def test_theory_makes_its_folder_before_the_work(call, monkeypatch, tmp_path):
    (tmp_path / "file").write_text("mine")
    monkeypatch.setattr(idb.theory, "study", lambda *_, **__: pytest.fail("the work began"))
    assert call("theory", "--out", "file") == (2, "", "idbandits: error: file: File exists\n")
