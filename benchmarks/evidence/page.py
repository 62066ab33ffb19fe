"""Write docs/evidence.md, a page per artefact and their pictures from the kept results.

The first page has the picture of the peers, the claims of the papers, five findings and links. A
page of an artefact has its question, verdict, picture and tables; a long table of problems is a CSV
file beside it. `make evidence` calls `build`.
"""

from __future__ import annotations

import csv
import io
import re
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.evidence import claims, scoreboard
from benchmarks.evidence.artefacts import ARTEFACTS, comparison
from benchmarks.evidence.artefacts.artefact import (
    REPO,
    RESULTS,
    Artefact,
    Json,
    pictures,
    read,
)
from benchmarks.evidence.findings import findings, weak_points

DOCS = REPO / "docs"
FOLDER = "evidence"  # of the artefacts' pages, beside the first page
WRITTEN = ("words",)  # pages of that folder that are written by hand
WORDS = 1_500  # of the first page, at most
LONG, LONGEST = 12, 32  # rows beyond which a table (of problems; any) is a CSV file
GROUPS = {
    "Farthing": "",
    "CArBO": "carbo-",
    "Pareto": "pareto-",
    "Stopping": "stopping-",
    "CMDP": "rollout-",
}

TOP = """# Evidence

We compared Farthing's default policy, `Cooling(first=0.5)` ({default} in tables), with {peers}
tuners and random search on {problems} problems, and repeated experiments of four
[papers](references.md). `make evidence` writes these pages.

![Duels of the default with other tuners](evidence/peers.png)

In a duel, two tuners have the same problem, budget (in median costs) and seed number, and the lower
final value wins. Families weigh equally, and 95 % intervals come from resampling families, problems
and seeds.

## Five findings

"""
CLAIMS = (
    "A claim *agrees* if our 95 % interval lies where the claim holds, and *differs* if it lies "
    "where it does not. It is *too thin* if the interval has both, or if there are fewer seeds "
    "than planned. Of {total} claims {agrees} agree, {differs} differ and {thin} are too thin."
)
PRINTED = " In rows with * the methods are as the papers print them."
UNLIKE = """
## What is not like the papers

"""
FARTHINGS = (
    "{rows} the methods are Farthing's. They start in the middle of the space, not at five uniform "
    "points, avoid what is not affordable, and explored once EI was negligible. Rollout restricts "
    "its steps where the paper truncates them."
)
SETTINGS = (
    "We trained the models again on our machines; surrogates make the recordings continuous. "
    "Budgets are 60 mean costs. Pareto has 12 of its 144 problems.",
    "Stopping uses NATS-Bench's topology space. Its synthetic experiments were not rerun.",
    "CMDP's toy, trees and weather are similar problems, not the paper's.",
)
THIN = """
## Thin or lost

"""
MORE = """
## All pages

[Words, and how it was planned](evidence/words.md) ·
[how to make runs](../benchmarks/README.md) · [cost to target](cost_to_target.md) ·
[learning curves](learning_curves.md) · [earlier studies](earlier_studies_model.md)

"""


@dataclass(frozen=True)
class Found:
    """An artefact with its kept file and its verdict."""

    artefact: Artefact
    about: Json
    numbers: Json
    verdict: str

    @property
    def was_run(self) -> bool:
        """Whether there is something to show."""
        return not self.verdict.startswith("Not yet run")


def build(
    docs: Path = DOCS,
    results: Path = RESULTS,
    *,
    draw: Callable[[Artefact, Json, Path], list[Path]] = pictures,
) -> Path:
    """Write all pages, and remove those of artefacts that are not there any more."""
    there = [found for artefact in ARTEFACTS if (found := _found(artefact, results)) is not None]
    shown = [found for found in there if found.was_run]
    folder = docs / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    written = {folder / f"{name}.md" for name in WRITTEN}
    for found in shown:
        drawn = draw(found.artefact, found.numbers, folder)
        files = files_of(found, [path.name for path in drawn])
        for name, text in files.items():
            (folder / name).write_text(text)
        written |= {*drawn, *(folder / name for name in files)}
    for path in {*folder.iterdir()} - written:
        if path.suffix in (".md", ".csv", ".png"):
            path.unlink()
    names = {found.artefact.name for found in shown}
    missing = [artefact.name for artefact in ARTEFACTS if artefact.name not in names]
    page = docs / "evidence.md"
    numbers = {found.artefact.name: found.numbers for found in shown}
    page.write_text(first_page(numbers, missing, hours_missing(there)))
    return page


def hours_missing(there: Sequence[Found]) -> dict[str, float]:
    """The CPU hours of the planned runs that are missing, by group of artefacts.

    Artefacts with the same runs (tables 1 and 2 of CArBO) count once.
    """
    hours: dict[str, dict[tuple[int, float], float]] = {}
    for found in there:
        name, about = found.artefact.name, found.about
        group = next(g for g, prefix in reversed(GROUPS.items()) if name.startswith(prefix))
        key = (about.get("missing_runs", 0), about.get("missing_hours", 0.0))
        hours.setdefault(group, {})[key] = key[1]
    return {group: sum(parts.values()) for group, parts in hours.items()}


def _found(artefact: Artefact, results: Path) -> Found | None:
    path = results / f"{artefact.name}.json"
    if not path.exists():
        return None
    kept = read(path)
    return Found(artefact, kept["about"], kept["numbers"], artefact.verdict(kept["numbers"]))


# ── the first page ─────────────────────────────────────────────────────────────────────────────


def first_page(
    numbers: Mapping[str, Json], missing: list[str], hours: Mapping[str, float] = {}
) -> str:
    """The picture of the peers, findings, claims, what is unlike the papers, and links."""
    peers = numbers.get("peers", {"duels": {}, "problems": {}})
    said = scoreboard.of_all(numbers)
    counts = scoreboard.verdicts(said)
    printed = any(part.get("as_printed") for part in numbers.values())
    text = TOP.format(
        default=comparison.DEFAULT,
        peers=len([peer for peer in peers["duels"] if peer != "random"]),
        problems=max(map(len, peers["problems"].values()), default=0),
    )
    text += "\n".join(map(_item, findings(numbers))) + "\n"
    rule = CLAIMS.format(
        total=sum(counts.values()),
        agrees=counts[claims.AGREES],
        differs=counts[claims.DIFFERS],
        thin=counts[claims.THIN],
    )
    text += "\n## The claims of the papers\n\n" + _filled(rule + (PRINTED if printed else ""))
    text += f"\n\n{scoreboard.board(numbers, said)}\n"
    own = FARTHINGS.format(rows="In rows without *" if printed else "In all rows")
    text += UNLIKE + "\n".join(map(_item, (own, *SETTINGS))) + "\n"
    weak = [*weak_points(numbers), *_too_long(hours)]
    text += THIN + "\n".join(map(_item, weak)) + "\n"
    text += MORE + "\n".join(map(_item, _links(list(numbers))))
    not_run = f"Not yet run: {', '.join(missing)}." if missing else ""
    return text + ("\n" + _item(not_run) if not_run else "") + "\n"


def _too_long(hours: Mapping[str, float]) -> Iterator[str]:
    """Why planned runs are missing."""
    parts = ", ".join(f"{group} {left:.1f}" for group, left in hours.items() if left >= 0.05)
    if parts:
        yield (f"CPU hours of the planned runs that are missing: {parts}.")


def _item(sentence: str) -> str:
    """One item of a list, wrapped at 100 columns."""
    return _filled(f"- {sentence}", "  ")


def _filled(text: str, indent: str = "") -> str:
    """Wrapped at 100 columns, links and hyphens whole."""
    return textwrap.fill(
        text, 100, subsequent_indent=indent, break_on_hyphens=False, break_long_words=False
    )


def _links(names: list[str]) -> Iterator[str]:
    """The pages of the artefacts, by paper."""
    papers = [prefix for prefix in GROUPS.values() if prefix]
    for group, prefix in GROUPS.items():
        if prefix:
            mine = sorted((n for n in names if n.startswith(prefix)), key=_in_order)
        else:
            mine = [name for name in names if not name.startswith(tuple(papers))]
        if mine:
            links = (f"[{name.removeprefix(prefix)}]({FOLDER}/{name}.md)" for name in mine)
            yield f"{group}: {', '.join(links)}."


def _in_order(name: str) -> list[tuple[bool, int, str]]:
    """Figure 2 before figure 10."""
    return [
        (part.isdigit(), int(part or 0) if part.isdigit() else 0, part)
        for part in re.split(r"(\d+)", name)
    ]


# ── the pages of the artefacts ─────────────────────────────────────────────────────────────────


def files_of(found: Found, drawn: list[str]) -> dict[str, str]:
    """The page of an artefact and its CSV files, by name."""
    name = found.artefact.name
    tables, files = split_tables(found.artefact.table(found.numbers), name)
    tables = re.sub(r"^(?!\|).{101,}$", lambda line: _filled(line[0]), tables, flags=re.MULTILINE)
    parts = [
        f"# {name}",
        _filled(f"The question: {found.artefact.claim}."),
        _filled(f"**{found.verdict}**"),
        *(f"![{Path(file).stem}]({file})" for file in drawn[:1]),
        tables,
        *(["## Every panel"] if drawn[1:] else []),
        *(f"![{Path(file).stem}]({file})" for file in drawn[1:]),
        "## How it was made",
        _made(found),
        "[All evidence](../evidence.md)",
    ]
    return {f"{name}.md": "\n\n".join(parts) + "\n", **files}


def _made(found: Found) -> str:
    """The command, date, version and machine, and what the numbers say about the methods."""
    name, about, numbers = found.artefact.name, found.about, found.numbers
    options = "" if about.get("seeds") is None else f" --seeds {about['seeds']}"
    options += " --kept" if about.get("kept_only") else ""
    options += " --any-source" if about.get("any_source") else ""
    planned = found.artefact.seeds
    said = [
        f"`python -m benchmarks {name}{options}` ({about['date']}, farthing {about['farthing']} at "
        f"{about['commit']}, {about['cpu']}); kept in `benchmarks/results/{name}.json`.",
        "**A quick run: no evidence.**" if about["quick"] else "",
        f"Planned seeds: {planned}." if planned is not None else "",
        "The methods are as the paper prints them." if numbers.get("as_printed") else "",
        numbers.get("differs", ""),
        "The runs are of an older version of the code." if numbers.get("older") else "",
        f"{numbers['left_out']} kept runs of other versions of the code are left out."
        if numbers.get("left_out")
        else "",
        f"{about['missing_runs']:,} planned runs are missing; they would take about "
        f"{about['missing_hours']:.1f} CPU hours."
        if about.get("missing_runs")
        else "",
    ]
    return _filled(" ".join(filter(None, said)))


def split_tables(text: str, name: str) -> tuple[str, dict[str, str]]:
    """The text with a link in place of each long table of problems, and these tables as CSV."""
    files: dict[str, str] = {}

    def short(match: re.Match[str]) -> str:
        table = match[0]
        rows = [_cells(line) for line in table.splitlines() if not line.startswith("| ---")]
        if len(rows) <= (LONG if rows[0][0] == "problem" else LONGEST):
            return table
        file = f"{name}.csv" if not files else f"{name}-{len(files) + 1}.csv"
        out = io.StringIO()
        csv.writer(out, lineterminator="\n").writerows(rows)
        files[file] = out.getvalue()
        return f"[{len(rows) - 1} rows by {rows[0][0]}]({file}): {', '.join(rows[0][1:])}."

    return re.sub(r"^\|.*(?:\n\|.*)*", short, text, flags=re.MULTILINE), files


def _cells(line: str) -> list[str]:
    """The cells of a row of a Markdown table, without emphasis."""
    return [cell.strip().replace("**", "") for cell in line.strip("|").split("|")]
