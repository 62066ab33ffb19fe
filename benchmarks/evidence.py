"""docs/evidence.md and its pictures, from what is kept in benchmarks/results: `make evidence`."""

from __future__ import annotations

import json
from pathlib import Path

from benchmarks.artefacts import ARTEFACTS
from benchmarks.artefacts.artefact import PICTURES, REPO, RESULTS, Artefact, picture

PAGE = REPO / "docs" / "evidence.md"
TOP = """# Evidence

The papers' experiments and every peer we could install, rerun on our own recordings and on the
recorded tables of others. Every section is made by the command in it, from the runs kept in
`benchmarks/results`; losses are in the tables with the rest. `make evidence` writes this page and
its pictures from the kept numbers; [benchmarks/README.md](../benchmarks/README.md) says how the
runs are made, what the measures are, and how to add a problem or a peer.

| artefact | verdict |
| --- | --- |
"""


def build(page: Path = PAGE, results: Path = RESULTS, pictures: Path = PICTURES) -> Path:
    """Write the page; an artefact that has never been run is listed as such."""
    index, sections, missing, fewer = [], [], [], []
    for artefact in ARTEFACTS:
        path = results / f"{artefact.name}.json"
        if not path.exists():
            missing.append(artefact.name)
            continue
        kept = json.loads(path.read_text())
        drawn = picture(artefact, kept["numbers"], pictures)
        index.append(
            f"| [{artefact.name}](#{artefact.name}) | {artefact.verdict(kept['numbers'])} |"
        )
        sections.append(_section(artefact, kept, drawn.name))
        if kept["about"].get("seeds") is not None:
            fewer.append(f"{artefact.name} ({kept['about']['seeds']})")
    text = TOP + "\n".join(index) + "\n\n"
    if missing:
        text += f"Not run yet: {', '.join(missing)}.\n\n"
    if fewer:
        text += (
            "Run so far with another number of seeds than planned (given in brackets; the same "
            f"command without `--seeds` runs the rest): {', '.join(fewer)}.\n\n"
        )
    page.write_text(text + "\n".join(sections))
    return page


def _section(artefact: Artefact, kept: dict[str, object], drawn: str) -> str:
    about, numbers = kept["about"], kept["numbers"]
    assert isinstance(about, dict)
    assert isinstance(numbers, dict)
    seeds = "" if about.get("seeds") is None else f" --seeds {about['seeds']}"
    made = f"{about['date']}, farthing {about['farthing']} at {about['commit']}, {about['cpu']}"
    quick = " **A quick run: no evidence.**" if about["quick"] else ""
    return (
        f"## {artefact.name}\n\n"
        f"`python -m benchmarks {artefact.name}{seeds}` ({made}){quick}\n\n"
        f"The question: {artefact.claim}.\n\n"
        f"**{artefact.verdict(numbers)}**\n\n"
        f"![{artefact.name}](evidence/{drawn})\n\n"
        f"{artefact.table(numbers)}\n"
    )
