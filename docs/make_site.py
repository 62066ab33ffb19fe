"""Hooks of mkdocs: the site contains the files that pages link to.

A page links to `../examples/svm.py`, which is right in the repository. In the site, the link
goes to `repository/examples/svm.py.txt`, a text file that every browser shows.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

DOCS = Path(__file__).parent
LINK = re.compile(r"\]\(((?:\.\./)+[^)#\s]+)")


def on_files(files: Files, config: Any) -> Files:
    """Add the files that pages link to, as text files."""
    linked = {
        path
        for page in DOCS.rglob("*.md")
        for link in LINK.findall(page.read_text(encoding="utf-8"))
        if (path := outside(page.parent, link)) is not None
    }
    for path in sorted(linked):
        source = (DOCS.parent / path).read_text(encoding="utf-8")
        files.append(File.generated(config, f"repository/{path}.txt", content=source))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Redirect the links to these files."""
    folder = (DOCS / page.file.src_uri).parent
    up = "../" * len(folder.relative_to(DOCS).parts)

    def redirected(link: re.Match[str]) -> str:
        path = outside(folder, link[1])
        return link[0] if path is None else f"]({up}repository/{path}.txt"

    return LINK.sub(redirected, markdown)


def outside(folder: Path, link: str) -> str | None:
    """The path in the repository that a link of a page in `folder` leads to; None inside docs."""
    target = Path(os.path.normpath(folder / link))
    if target.is_relative_to(DOCS):
        return None
    return target.relative_to(DOCS.parent).as_posix()
