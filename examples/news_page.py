"""Serve a news page whose stories are ranked by a live experiment with a durable journal.

Open http://127.0.0.1:8000 and click. A story that is read is a click at its position; positions without a click count
as not clicked after half an hour. Lower positions are looked at less, so the page learns the attraction of stories and
the examination of positions apart. /report prints both tables. Stopped and started again, also with other stories, the
page continues with what it has learned.
"""

from __future__ import annotations

import argparse
import contextlib
from html import escape

import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route

import idbandits as idb

STORIES = {
    "budget": "Parliament agrees on the budget",
    "derby": "Late goal decides the derby",
    "storm": "Storm reaches the coast tonight",
    "recipe": "Three soups for cold evenings",
    "film": "A film without a single word",
    "vote": "City votes on new tram lines",
}
POSITIONS = 4
PAGE = "<!doctype html><html lang=en><meta charset=utf-8><title>{title}</title><h1>{title}</h1>{body}</html>"


def diagram(stories: list[str]) -> idb.Diagram:
    """Return the model of a reader: a click needs an attractive story at a position that is looked at."""
    return idb.models.position_based(stories, POSITIONS, fixed={"examination": {0: 1.0}})


def news_app(live: idb.Live, stories: dict[str, str]) -> Starlette:
    """Return the web application. Its functions wait for the journal, so Starlette runs them in threads."""
    live.put("news", diagram(list(stories)), horizon="30m")  # with other stories, this adds a version

    def front_page(request: Request) -> Response:
        decision = live.decide("news", allowed=list(stories))
        links = "".join(
            f'<li><a href="/read/{decision.id}/{position}" rel=nofollow>{escape(stories[str(story)])}</a></li>'
            for position, story in enumerate(decision.action.values(), start=1)
        )
        page = PAGE.format(title="News", body=f"<ol>{links}</ol>")
        return HTMLResponse(page, headers={"Cache-Control": "no-store"})  # every visit is a decision

    def read(request: Request) -> Response:
        decision, position = request.path_params["decision"], request.path_params["position"]
        try:
            story = live.decision("news", decision)["action"][f"A{position}"]
        except (idb.errors.IdbanditsError, KeyError):
            raise HTTPException(404) from None
        with contextlib.suppress(idb.errors.IdbanditsError):  # after half an hour it is too late to learn
            live.report(decision, {f"C{position}": 1}, experiment="news")
        return RedirectResponse(f"/story/{story}", status_code=303)

    def story(request: Request) -> Response:
        if (headline := stories.get(request.path_params["story"])) is None:
            raise HTTPException(404)
        return HTMLResponse(PAGE.format(title=escape(headline), body='<p>…</p><a href="/">All news</a>'))

    def report(request: Request) -> Response:
        tables = [table.to_frame().round(2).to_string(index=False) for table in live.posterior("news").values()]
        return PlainTextResponse("\n\n".join([f"{live.show('news')['rounds']:,} rounds learned", *tables]))

    pages = {"/": front_page, "/read/{decision}/{position:int}": read, "/story/{story}": story, "/report": report}
    return Starlette(routes=[Route(path, page) for path, page in pages.items()])


def main(arguments: list[str] | None = None) -> None:
    """Read the arguments and serve the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--store", default="sqlite:///news.db", help="journal, also postgresql://… (%(default)s)")
    parser.add_argument("--port", type=int, default=8000, help="port on this machine (%(default)s)")
    options = parser.parse_args(arguments)
    with idb.Live(options.store) as live:
        uvicorn.run(news_app(live, STORIES), host="127.0.0.1", port=options.port)


if __name__ == "__main__":
    main()
