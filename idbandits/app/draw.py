"""`idbandits draw`: draw a diagram."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path

from idbandits.app.frame import Command, say, starting
from idbandits.app.options import add_file


def _add_options(parser: ArgumentParser) -> None:
    add_file(parser)
    parser.add_argument("--out", type=Path, metavar="FILE", help="write to this file (else Mermaid text to the output)")


def _run(arguments: Namespace) -> int:
    with starting():
        from idbandits.app.arguments import read_diagram

    picture = read_diagram(arguments.file).draw()
    if arguments.out is None:
        print(picture.mermaid(), end="")
    else:
        picture.save(arguments.out)
        say(f"wrote {arguments.out}")
    return 0


COMMAND = Command(
    name="draw",
    summary="draw a diagram",
    description="""
Draws a diagram: decisions red, latent nodes gray, observed nodes blue, each learned table in its own colour. The
suffix of the file says how: .svg, .png, .pdf, or .mmd for Mermaid text, which is also printed if no file is named.
""",
    example="""
idbandits models cascade --items 5 --positions 2 --out cascade.json
idbandits draw cascade.json --out cascade.png
idbandits models cascade --items 5 --positions 2 | idbandits draw - --out cascade.svg
""",
    add_options=_add_options,
    run=_run,
)
