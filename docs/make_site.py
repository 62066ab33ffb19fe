"""Hooks of mkdocs: the site contains the files that pages link to.

A page links to `../examples/svm.py`, which is right in the repository. In the site, the link
goes to `repository/examples/svm.py.txt`, a text file that every browser shows.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

DOCS = Path(__file__).parent
LINK = re.compile(r"\]\(\.\./([^)#\s]+)")


def on_files(files: Files, config: Any) -> Files:
    """Add the files that pages link to, as text files."""
    pages = [page.read_text(encoding="utf-8") for page in DOCS.glob("*.md")]
    for path in sorted({path for page in pages for path in LINK.findall(page)}):
        source = (DOCS.parent / path).read_text(encoding="utf-8")
        files.append(File.generated(config, f"repository/{path}.txt", content=source))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Redirect the links to these files."""
    return LINK.sub(r"](repository/\1.txt", markdown)
