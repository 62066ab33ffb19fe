"""The application: addresses to pages, parts, events and changes."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from importlib.resources import files
from typing import Any
from urllib.parse import parse_qsl

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import (
    HTMLResponse,
    PlainTextResponse,
    RedirectResponse,
    Response,
    StreamingResponse,
)
from starlette.routing import Route

from farthing.dashboard import pages
from farthing.dashboard.watcher import Snapshot, Watcher
from farthing.errors import FarthingError, InvalidInput
from farthing.study import Study
from farthing.view.figures import front_figure
from farthing.view.html import Html, element
from farthing.view.report.page import STYLE
from farthing.view.report.parts import or_why
from farthing.view.result import explanation

__all__ = ["make_app"]

EVERY = 0.5  # seconds between looks whether it is time to end
STILL_HERE = 10.0  # seconds after which a silent connection says that it lives
MOST_SENT = 20_000  # bytes
SCRIPT = files("farthing.dashboard").joinpath("live.js").read_text("utf-8")

# What may be done to a study, by the name of the button.
STOPPED = "a stop was requested in the dashboard"
CHANGES: dict[str, Callable[[Study, Mapping[str, str]], object]] = {
    "stop": lambda study, _: study.request_stop(STOPPED),
    "stop now": lambda study, _: study.request_stop(STOPPED, now=True),
    "budget": lambda study, form: study.change(budget=form.get("budget", "").strip()),
}


def make_app(watcher: Watcher, *, shown: str, changes: bool) -> Starlette:
    """The dashboard of one database, without its guard.

    Args:
        shown: the address of the database, without passwords.
        changes: whether studies may be stopped, and given another budget.
    """

    async def home(request: Request) -> Response:
        return HTMLResponse(pages.list_page(shown))

    async def study(request: Request) -> Response:
        return HTMLResponse(pages.study_page(_name(request), changes=changes))

    async def trial(request: Request) -> Response:
        return HTMLResponse(pages.trial_page(_name(request), _number(request)))

    async def part(request: Request) -> Response:
        which = request.query_params.get("part", "")
        if which == "list":
            return HTMLResponse(await _list(watcher))
        seen = await _seen(watcher, _name(request))
        if seen.facts is None:
            return HTMLResponse(element("p", seen.trouble, class_="empty"))
        return HTMLResponse(await _part(watcher, seen, which, request))

    async def events(request: Request) -> Response:
        # A proxy that collects what is sent would keep it from the page.
        quick = {"x-accel-buffering": "no"}
        stream = _events(watcher, request.query_params.get("name", ""))
        return StreamingResponse(stream, media_type="text/event-stream", headers=quick)

    async def change(request: Request) -> Response:
        form = await _form(request)
        name, action = _name(request), form.get("action", "")
        if action not in CHANGES:
            raise InvalidInput(f"There is no change {action!r}: {', '.join(CHANGES)}.")
        await watcher.change(name, lambda study: CHANGES[action](study, form))
        return RedirectResponse(pages.address("/study", name=name), status_code=303)

    async def static(request: Request) -> Response:
        kind = {"style.css": ("text/css", STYLE), "live.js": ("text/javascript", SCRIPT)}
        found = kind.get(request.path_params["file"])
        if found is None:
            return PlainTextResponse("There is no such file.", 404)
        return Response(found[1], media_type=found[0])

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        async with watcher.watching():
            yield

    return Starlette(
        routes=[
            Route("/", home),
            Route("/study", study),
            Route("/trial", trial),
            Route("/part", part),
            Route("/events", events),
            Route("/change", change, methods=["POST"]),
            Route("/static/{file}", static),
        ],
        exception_handlers={FarthingError: _refused},
        lifespan=lifespan,
    )


async def _refused(request: Request, error: Exception) -> Response:
    return PlainTextResponse(str(error), 400)


def _name(request: Request) -> str:
    return request.query_params.get("name", "")


def _number(request: Request) -> int:
    told = request.query_params.get("number", "")
    if not told.isdecimal() or len(told) > 9:
        raise InvalidInput("Say which trial: number=12.")
    return int(told)


async def _form(request: Request) -> dict[str, str]:
    """What a form of ours sends."""
    body = b""
    async for piece in request.stream():
        body += piece
        if len(body) > MOST_SENT:
            raise InvalidInput("That is more than a form of this dashboard sends.")
    return dict(parse_qsl(body.decode("utf-8", "replace")))


async def _seen(watcher: Watcher, name: str) -> Snapshot:
    """As it was seen a moment ago where somebody listens, else as it is."""
    seen = watcher.seen(name)
    fresh = seen.listeners and (seen.facts is not None or seen.trouble)
    return seen if fresh else await watcher.look(name)


async def _list(watcher: Watcher) -> Html:
    rows = []
    for name in await watcher.names():
        try:
            seen = await watcher.look(name)
        except FarthingError as error:
            rows.append(pages.list_row(name, None, str(error)))
        else:
            rows.append(pages.list_row(name, seen.facts, seen.trouble))
    return pages.list_table(rows)


async def _part(watcher: Watcher, seen: Snapshot, which: str, request: Request) -> Html:
    assert seen.facts is not None
    name, (settings, state) = _name(request), seen.facts
    if which == "models":
        behind = seen.version - seen.figures_of if seen.figures_of >= 0 else None
        return pages.figures_part(seen.figures, behind=behind)
    if which in pages.PARTS:
        query = dict(request.query_params)
        return pages.study_part(name, which, settings, state, query)
    number = _number(request)
    if number >= len(state.history):
        raise InvalidInput(f"There is no trial {number} in this study.")
    if which == "log":
        printed = await watcher.printed(name, number)
        return pages.log_part(settings, state, state.history[number], printed)
    if which != "explanation":
        return pages.trial_part(state.history[number])

    def explain() -> Html:
        why = "Improvement against cost"
        figure = or_why("pareto", why, front_figure, settings, state, number)
        return pages.explanation_part(explanation(settings, state, number), figure)

    return await watcher.explain(explain)


async def _events(watcher: Watcher, name: str) -> AsyncIterator[str]:
    """The stamp of a study whenever it is another, and a sign of life in between."""
    async with watcher.listening(name) as seen:
        told: dict[str, Any] | None = None
        last = time.monotonic()
        while not watcher.closing:
            now = seen.stamp()
            if now != told or time.monotonic() - last > STILL_HERE:
                yield ": still here\n\n" if now == told else f"data: {json.dumps(now)}\n\n"
                told, last = now, time.monotonic()
            await watcher.wait(EVERY)
