"""Commands with invalid arguments, run in this process; they must end with a status and at most one line."""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys
from pathlib import Path
from typing import Any
from unittest import mock

import idbandits as idb
from diagrams import shop
from idbandits.cli import main as cli

from .attempts import Call, Session
from .invalid_values import Rng

# No argument names a device, so that a command that replaces its output file does no harm.
WORDS = [
    "", "-", "--", "---", "-1", "0", "1", "2", "nan", "inf", "-inf", "1e5", "1.5", "99999999999999999999", "0x10", "1_0", "²", "٣", " 2 ",
    "\ud800", "\udcff", "x" * 5000, "é", "\n", "a\nb", "/", ".", "..", "/nonexistent/x", "nul\0", "{", "[", "{}", "[]", "null", "=", "==", "a=b", "attraction=",
    "attraction=nan,1,2,3", "attraction=0.1,0.2,0.3,0.4", "attraction=1e400", "attraction=" + "[" * 100_000, '{"attraction": [0.1, 0.2, 0.3, 0.4]}',
    '{"attraction": ' + "[" * 5000, '{"attraction": NaN}', '{"attraction": {"a": 1}}', '{"attraction": [0.1], "attraction": [0.2]}', "random",
    "segment=new", '{"segment": "new", "hour": 0}', '{"segment": null}', '{"segment": [0.5, 0.5]}', "segment=", "ep", "ep:", "ep:sweeps=0", "ep:sweeps=1e3",
    "ep:sweeps=2,sweeps=3", "particles:number=99999999999999", "particles:width=nan", "uniform", "full", "variational:start=odd", "variational:literal=maybe",
    "gibbs:steps=x", "own", "UCB1", "toprank:delta=2", "exact", "--help", "--out", "--json", "--seed", "--means", "--rounds", "zero", "full", "null",
    "folder", "folder/x.json", "diagram.json", "shop.json", "damaged.json", "deep.json", "huge.json", "x.png", "x.svg", "x.mmd", "x.exe", "table 1", "2a", "theory9",
]  # fmt: skip
LONG = {
    "--rounds",
    "--runs",
    "--items",
    "--positions",
    "--rows",
    "--columns",
}  # options without huge numbers; no `paper`
NUMBERS = ["-1", "0", "1", "2", "x", "", "1.5", "nan", "99999999999999999999999", "1e2", "٣"]
LINES = [
    "models", "models cascade --items 4 --positions 2", "models rank1 --rows 2 --columns x,y", "models cascade --items a,b --positions 2 --out out.json",
    "models position_based --help", "draw diagram.json", "draw diagram.json --out x.mmd", "draw shop.json --out x.svg", "learners", "--help", "",
    "solve diagram.json --means attraction=0.1,0.4,0.2,0.3", "solve diagram.json --means random --seed 3 --json --effort 0.5",
    "solve shop.json --means random --context segment=new --context hour=0", "solve - --means random",
    "simulate diagram.json --means random --rounds 5 --runs 1 --workers 1 --no-progress", "simulate diagram.json --means random --learner ep --learner uniform --rounds 3 --runs 2",
    "simulate shop.json --means random --rounds 3 --runs 1 --contexts {}", "theory --runs 1 --rounds 3 --workers 1 --seed x", "paper --figure nonsense", "paper --quick --runs 0",
    "solve zero --means random", "solve diagram.json --means zero", "simulate shop.json --means random --contexts zero --rounds 2 --runs 1", "draw deep.json",
]  # fmt: skip


class Commands(Session):
    """Files, and commands that read them."""

    def __init__(self, rng: Rng) -> None:
        super().__init__(rng)
        idb.models.cascade(4, 2).save("diagram.json")
        shop().save("shop.json")
        text = Path("diagram.json").read_text()
        at = self.number(0, len(text) - 1)
        Path("damaged.json").write_text(
            text[:at] + self.one(["", "NaN", "[", "}", "9" * 5000, "\\ud800"]) + text[at + 1 :]
        )
        Path("deep.json").write_text("[" * 100_000)
        Path("huge.json").write_text(json.dumps({"a": "b" * 10**6}))
        os.makedirs("folder", exist_ok=True)
        for name in ("zero", "full", "null"):
            with contextlib.suppress(OSError):
                os.symlink(f"/dev/{name}", name)

    def call_command(self) -> Call:
        words = self.one(LINES).split()
        standard_input = self.one(["", "{}", "[" * 100_000, "\0", '{"name": 1}', Path("diagram.json").read_text()])
        for _ in range(self.number(0, 2)):
            words = self._spoiled(words)

        def run(words: list[str], standard_input: str) -> None:
            out, err = io.StringIO(), io.StringIO()
            source = io.StringIO(standard_input)
            with (
                contextlib.redirect_stdout(out),
                contextlib.redirect_stderr(err),
                mock.patch.object(sys, "stdin", source),
            ):
                status = cli.main(words)
            lines = [line for line in err.getvalue().splitlines() if not line.startswith("idbandits: compil")]
            errors = [line for line in lines if line.startswith("idbandits: error: ")]
            assert status in (0, 2), (status, lines[-3:])
            assert "Traceback" not in err.getvalue(), lines[-3:]
            assert status == 0 or not words or len(errors) == 1, (status, lines[-3:])

        call = Call(f"idbandits {words[0] if words else ''}", run, {"words": words, "standard_input": standard_input})
        call.spoil = lambda rng: None  # type: ignore[method-assign]  # arguments are already invalid
        return call

    def _spoiled(self, words: list[str]) -> list[str]:
        spoiled, at = list(words), self.number(0, len(words))
        kind = self.number(0, 3)
        word = self.one(NUMBERS if at and words[at - 1] in LONG else WORDS)
        if kind == 0 and at < len(spoiled):
            del spoiled[at]
        elif kind == 1:
            spoiled.insert(at, word)
        elif at < len(spoiled):
            spoiled[at] = word
        if {"paper", "theory"} & set(spoiled) and not {"nonsense", "x", "0"} & set(spoiled):
            return list(words)  # would take minutes
        if "simulate" in spoiled and not {"--rounds", "--runs"} <= set(spoiled):
            return list(words)
        return spoiled

    def objects(self) -> list[Any]:
        return []
