"""docs/references.md has every cited work, and no file cites what readers do not have."""

import re
from pathlib import Path

import pytest

REPO = Path(__file__).resolve().parents[2]
PACKAGE = REPO / "src" / "farthing"
REFERENCES = REPO / "docs" / "references.md"
PAGES = [REPO / "README.md", *sorted((REPO / "docs").rglob("*.md"))]
SOURCES = sorted(PACKAGE.rglob("*.py"))

# "Lee et al. 2020", "Lee et al. (2020, eq. 3)", "Rasmussen and Williams, 2006", "Weitzman 1979"
NAME = r"(?:van )?[A-Z][^\W\d_]+(?:-[A-Z][^\W\d_]+)*"
GAP = r"(?:\s|#)+"  # a citation may continue on the next line of a comment
CITATION = re.compile(
    rf"\b({NAME})({GAP}et{GAP}al\.?|{GAP}(?:and|&){GAP}{NAME})?'?,?{GAP}\(?((?:19|20)\d\d)\b(?![-:]\d)"
)
NO_NAMES = {
    *("January", "February", "March", "April", "May", "June", "July", "August", "September"),
    *("October", "November", "December", "In", "Since", "Until", "Of", "From"),
    *("ICML", "NIPS", "UAI", "AISTATS"),  # a venue
}

# Built from parts so that this file does not contain what the test searches for.
UNSEEN = ["".join(parts) for parts in (("dos", "sier"), ("design", ".md"), ("algorithms", ".md"))]


def text(path):
    return path.read_text(encoding="utf-8")


def keys_in(written):
    """The keys of the works that a text cites."""
    found = set()
    for name, others, year in CITATION.findall(written):
        if name not in NO_NAMES:
            words = " ".join(others.replace("#", " ").replace("&", "and").split())
            if words.startswith("et"):
                words = "et al."
            found.add(" ".join(part for part in (name, words, year) if part))
    return found


def rows():
    """The key, the place and the files of every work in docs/references.md."""
    for line in text(REFERENCES).splitlines():
        cells = [cell.strip() for cell in line.split("|")[1:-1]]
        if len(cells) == 4 and re.search(r" \d{4}$", cells[0]):
            yield cells[0], cells[2], re.findall(r"`([\w/]+\.py)`", cells[3])


def test_every_citation_is_in_the_references():
    known = {key for key, _, _ in rows()}
    missing = {
        f"{path.relative_to(REPO)}: {key}"
        for path in [*SOURCES, *PAGES]
        if path != REFERENCES
        for key in keys_in(text(path)) - known
    }
    assert missing == set()


def test_a_file_that_cites_a_work_is_in_its_row():
    files = {key: named for key, _, named in rows()}
    missing = {
        f"{key}: add `{name}`"
        for path in SOURCES
        for name in [path.relative_to(PACKAGE).as_posix()]
        for key in keys_in(text(path)) & set(files)
        if name not in files[key]
    }
    assert missing == set()


def test_the_rows_are_complete():
    found = list(rows())
    keys = [key for key, _, _ in found]
    assert len(keys) > 25
    assert len(set(keys)) == len(keys)
    assert {key for key in keys if keys_in(key) != {key}} == set()
    for _, place, files in found:
        links = re.findall(r"\[arXiv:(\d{4}\.\d{4,5})\]\(https://arxiv\.org/abs/(\S+)\)", place)
        assert place == "" or links or place.startswith(("[doi:10.", "[PMLR", "[gaussianprocess"))
        assert all(shown == target for shown, target in links)
        assert [file for file in files if not (PACKAGE / file).exists()] == []


@pytest.mark.parametrize(
    ("written", "keys"),
    [
        ("(Lee et al. 2020, eq. 3)", {"Lee et al. 2020"}),
        ("Lee et al. (2021) and Xie et al., 2025", {"Lee et al. 2021", "Xie et al. 2025"}),
        ("by Rasmussen and Williams 2006", {"Rasmussen and Williams 2006"}),
        ("Klein & Hutter (2019)", {"Klein and Hutter 2019"}),
        ("Pandora's box (Weitzman 1979)", {"Weitzman 1979"}),
        ("# as Lee et\n# al. 2020 do", {"Lee et al. 2020"}),
        ("van Werkhoven 2019", {"van Werkhoven 2019"}),
        ("In 2020, in May 2021, at NIPS 2012; Int(1, 2000), seed 1998, v2024", set()),
    ],
)
def test_citations_are_found(written, keys):
    assert keys_in(written) == keys


@pytest.mark.parametrize("word", UNSEEN)
def test_no_file_cites_what_readers_do_not_have(word):
    citing = [p for p in [*SOURCES, *PAGES] if word in text(p).lower()]
    assert [path.relative_to(REPO).as_posix() for path in citing] == []
