"""The web application: routes for pages, parts of pages, stamps and changes."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from importlib.resources import files
from urllib.parse import parse_qsl

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import (
    HTMLResponse,
    JSONResponse,
    PlainTextResponse,
    RedirectResponse,
    Response,
)
from starlette.routing import Route

from farthing.dashboard import pages
from farthing.dashboard.watcher import Snapshot, Watcher
from farthing.errors import FarthingError, InvalidInput
from farthing.study import Study
from farthing.view.facts import explanation
from farthing.view.figures import front_figure
from farthing.view.html import Html, element
from farthing.view.report.page import STYLE
from farthing.view.report.parts import figure_or_reason

__all__ = ["make_app"]

MAX_FORM = 20_000  # bytes
SCRIPT = files("farthing.dashboard").joinpath("live.js").read_text("utf-8")

# The changes to a study, by the name of the button.
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
        changes: whether users may stop studies and change their budgets.
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
            return HTMLResponse(element("p", seen.error, class_="empty"))
        return HTMLResponse(await _part(watcher, seen, which, request))

    async def stamp(request: Request) -> Response:
        return JSONResponse(watcher.polled(_name(request)).stamp())

    async def change(request: Request) -> Response:
        form = await _form(request)
        name, action = _name(request), form.get("action", "")
        if action not in CHANGES:
            raise InvalidInput(f"Unknown action {action!r}; expected one of {', '.join(CHANGES)}.")
        await watcher.change(name, lambda study: CHANGES[action](study, form))
        return RedirectResponse(pages.address("study", name=name), status_code=303)

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
            Route("/stamp", stamp),
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
    number = request.query_params.get("number", "")
    if not number.isdecimal() or len(number) > 9:
        raise InvalidInput("The address needs the number of a trial, such as number=12.")
    return int(number)


async def _form(request: Request) -> dict[str, str]:
    """Read the fields of a form."""
    body = b""
    async for piece in request.stream():
        body += piece
        if len(body) > MAX_FORM:
            raise InvalidInput(f"The request is too long; a form has at most {MAX_FORM:,} bytes.")
    return dict(parse_qsl(body.decode("utf-8", "replace")))


async def _seen(watcher: Watcher, name: str) -> Snapshot:
    """The latest snapshot if a page is polling, because then it is fresh; else a new one."""
    seen = watcher.seen(name)
    fresh = seen.is_watched and (seen.facts is not None or seen.error)
    return seen if fresh else await watcher.look(name)


async def _list(watcher: Watcher) -> Html:
    rows = []
    for name in await watcher.names():
        try:
            seen = await watcher.look(name)
        except FarthingError as error:
            rows.append(pages.list_row(name, None, str(error)))
        else:
            rows.append(pages.list_row(name, seen.facts, seen.error))
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
        raise InvalidInput(
            f"There is no trial {number} in this study; it has {len(state.history)} trials."
        )
    if which == "log":
        printed = await watcher.printed(name, number)
        return pages.log_part(settings, state, state.history[number], printed)
    if which != "explanation":
        return pages.trial_part(state.history[number])

    def explain() -> Html:
        title = "Expected improvement against cost"
        figure = figure_or_reason("pareto", title, front_figure, settings, state, number)
        return pages.explanation_part(explanation(settings, state, number), figure)

    return await watcher.explain(explain)
