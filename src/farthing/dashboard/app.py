"""The web application: routes for pages, for what they show, for stamps and for changes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any
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

from farthing.core.settings import Settings
from farthing.core.state import State
from farthing.dashboard import pages
from farthing.dashboard.watcher import Snapshot, Watcher
from farthing.errors import FarthingError, InvalidInput
from farthing.history import Trial
from farthing.study import Study
from farthing.view.facts import trial_of
from farthing.view.primitives import visible
from farthing.view.web import SCRIPTS, SHEET, answers, source_of

__all__ = ["make_app"]

MAX_FORM = 20_000  # bytes
MAX_COMPARED = 8  # studies on one axis: more lines cannot be told apart
MAX_OUTPUTS = 16  # running trials whose output is shown together
MAX_DIGITS = 9  # of the number of a trial or a version
FILES = {name: ("text/javascript", source_of(name)) for name in SCRIPTS}
FILES["style.css"] = "text/css", SHEET

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

    async def studies(request: Request) -> Response:
        return JSONResponse([await _list_entry(watcher, name) for name in await watcher.names()])

    async def comparison(request: Request) -> Response:
        names = list(dict.fromkeys(request.query_params.getlist("name")))[:MAX_COMPARED]
        found = {name: await _facts(watcher, name) for name in names}
        return _json(await watcher.answer(answers.comparison_answer, found))

    async def of_study(request: Request) -> Response:
        seen, since = await _seen(watcher, _name(request)), request.query_params.get("since", "")
        is_known = request.query_params.get("epoch") == watcher.epoch and since.isdecimal()
        numbers = seen.since(int(since[:MAX_DIGITS]) if is_known else 0)
        about = {"version": seen.version, "epoch": watcher.epoch, "forecast": seen.forecast}
        return _json(await watcher.answer(answers.study_answer, about, *_facts_of(seen), numbers))

    async def of_figures(request: Request) -> Response:
        seen, tab = await _seen(watcher, _name(request)), request.query_params.get("tab", "")
        behind = seen.version - seen.figures_of if seen.figures_of >= 0 else None
        facts, slow = _facts_of(seen), list(seen.figures)
        return _json(await watcher.answer(answers.figures_answer, tab, *facts, slow, behind))

    async def of_settings(request: Request) -> Response:
        settings, _ = await _facts(watcher, _name(request))
        return _json(await watcher.answer(answers.settings_answer, settings))

    async def of_trial(request: Request) -> Response:
        settings, _, trial = await _trial(watcher, request)
        return _json(await watcher.answer(answers.trial_answer, settings, trial))

    async def why(request: Request) -> Response:
        settings, state, trial = await _trial(watcher, request)
        return _json(await watcher.explain(answers.why_answer, settings, state, trial.number))

    async def log(request: Request) -> Response:
        facts, name = await _trial(watcher, request), _name(request)
        printed = await watcher.printed(name, facts[2].number)
        return _json(await watcher.answer(answers.log_answer, *facts, printed))

    async def outputs(request: Request) -> Response:
        _, state = await _facts(watcher, name := _name(request))
        running = state.history.running[:MAX_OUTPUTS]
        printed = [await watcher.printed(name, trial.number) for trial in running]
        return _json(await watcher.answer(answers.outputs_answer, running, printed))

    async def old_trial(request: Request) -> Response:
        where = pages.address("study", name=_name(request), trial=_number(request))
        return RedirectResponse(where)

    async def stamp(request: Request) -> Response:
        return JSONResponse((await watcher.poll(_name(request))).stamp())

    async def change(request: Request) -> Response:
        form = await _form(request)
        name, action = _name(request), form.get("action", "")
        if action not in CHANGES:
            raise InvalidInput(f"Unknown action {action!r}; expected one of {', '.join(CHANGES)}.")
        await watcher.change(name, lambda study: CHANGES[action](study, form))
        return RedirectResponse(pages.address("study", name=name), status_code=303)

    async def static(request: Request) -> Response:
        found = FILES.get(request.path_params["file"])
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
            Route("/trial", old_trial),  # links that were sent before a trial was part of this page
            Route("/data/studies", studies),
            Route("/data/comparison", comparison),
            Route("/data/study", of_study),
            Route("/data/figures", of_figures),
            Route("/data/settings", of_settings),
            Route("/data/trial", of_trial),
            Route("/data/why", why),
            Route("/data/log", log),
            Route("/data/outputs", outputs),
            Route("/stamp", stamp),
            Route("/change", change, methods=["POST"]),
            Route("/static/{file:path}", static),
        ],
        exception_handlers={FarthingError: _refused},
        lifespan=lifespan,
    )


async def _refused(request: Request, error: Exception) -> Response:
    return PlainTextResponse(str(error), 400)


def _json(body: bytes) -> Response:
    return Response(body, media_type="application/json")


def _name(request: Request) -> str:
    return request.query_params.get("name", "")


def _number(request: Request) -> int:
    number = request.query_params.get("number", "")
    if not number.isdecimal() or len(number) > MAX_DIGITS:
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
    """The latest snapshot if a page that polls has just read it; else a new one."""
    seen = watcher.seen(name)
    fresh = seen.is_fresh and (seen.facts is not None or seen.error)
    return seen if fresh else await watcher.look(name)


def _facts_of(seen: Snapshot) -> tuple[Settings, State]:
    if seen.facts is None:
        raise InvalidInput(seen.error)
    return seen.facts


async def _facts(watcher: Watcher, name: str) -> tuple[Settings, State]:
    return _facts_of(await _seen(watcher, name))


async def _trial(watcher: Watcher, request: Request) -> tuple[Settings, State, Trial]:
    """The study and the trial that a request names."""
    number = _number(request)
    settings, state = await _facts(watcher, _name(request))
    return settings, state, trial_of(state.history, number)


async def _list_entry(watcher: Watcher, name: str) -> dict[str, Any]:
    try:
        seen = await watcher.look(name)
        if seen.entry is None:
            facts = _facts_of(seen)
            seen.entry = await asyncio.to_thread(answers.list_entry, name, *facts)
        return {**seen.entry, "error": seen.error}
    except FarthingError as error:
        return {"name": name, "shown": visible(name, 120), "error": visible(error, 300)}
