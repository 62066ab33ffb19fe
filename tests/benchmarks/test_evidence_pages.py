"""The pages of the evidence: what they say follows from the kept results."""

import csv
import re
import struct

import pytest

from benchmarks.evidence import claims, findings, page, scoreboard
from benchmarks.evidence.artefacts import ARTEFACTS, comparison
from benchmarks.evidence.artefacts.artefact import DPI, WIDTH, Settings, read, run
from benchmarks.evidence.artefacts.unused_tables import LESS, MUCH
from benchmarks.evidence.claims import Claim

BY_NAME = {artefact.name: artefact for artefact in ARTEFACTS}
FIRST = page.DOCS / "evidence.md"
FOLDER = page.DOCS / page.FOLDER
LINK = re.compile(r"\]\(([^)\s]+)\)")


def drawn_before(artefact, _, folder):
    """The pictures of an artefact, without drawing them again."""
    tails = ("", "-panels") if artefact.appendix else ("",)
    return [folder / f"{artefact.name}{tail}.png" for tail in tails]


@pytest.mark.slow
def test_the_pages_are_what_the_kept_results_give(tmp_path):
    """Text and CSV files are identical; pictures are not drawn."""
    page.build(tmp_path, draw=drawn_before)
    assert (tmp_path / "evidence.md").read_text() == FIRST.read_text()
    made = {path.name: path.read_text() for path in (tmp_path / page.FOLDER).iterdir()}
    there = {p.name: p.read_text() for p in FOLDER.iterdir() if p.suffix in (".md", ".csv")}
    for name in page.WRITTEN:
        del there[f"{name}.md"]
    assert made == there
    assert not [text for text in made.values() if "A quick run" in text]


@pytest.mark.slow
def test_the_first_page_and_a_page_of_one_artefact(tmp_path):
    run(BY_NAME["carbo-figure-4"], Settings(), tmp_path / "results")
    old = tmp_path / "docs" / page.FOLDER / "carbo-table-9.md"
    old.parent.mkdir(parents=True)
    old.write_text("of an artefact that is not there any more")
    text = page.build(tmp_path / "docs", tmp_path / "results").read_text()
    assert (old.parent / "carbo-figure-4.png").exists()
    assert not old.exists()
    assert "Not yet run: default, peers," in text
    assert "- Not yet run: default." in text
    assert "Of 1 claims 0 agree, 1 differ and 0 are too thin." in " ".join(text.split())
    own = (old.parent / "carbo-figure-4.md").read_text()
    assert own.startswith("# carbo-figure-4\n\nThe question: a cost-effective design")
    assert "`python -m benchmarks carbo-figure-4`" in own


def test_the_first_page_is_short():
    words = [word for word in FIRST.read_text().split() if word.strip("|-")]
    assert len(words) <= page.WORDS


def test_every_link_leads_somewhere_and_every_number_has_its_file():
    pages = sorted(FOLDER.glob("*.md"))
    linked = set(LINK.findall(FIRST.read_text()))
    for path in pages:
        assert f"{page.FOLDER}/{path.name}" in linked
        links = [link for link in LINK.findall(path.read_text()) if "://" not in link]
        assert "../evidence.md" in links
        assert [link for link in links if not (FOLDER / link.split("#")[0]).exists()] == []
        if path.stem not in page.WRITTEN:
            (kept,) = re.findall(r"`(benchmarks/results/[\w.-]+\.json)`", path.read_text())
            assert "numbers" in read(page.REPO / kept)
    links = [link for link in linked if "://" not in link]
    assert [link for link in links if not (page.DOCS / link.split("#")[0]).exists()] == []
    named = {path.stem for path in pages} - {*page.WRITTEN}
    assert {path.stem.removesuffix("-panels") for path in FOLDER.glob("*.png")} == named


def test_every_picture_fits_a_page():
    for path in FOLDER.glob("*.png"):
        width, height = struct.unpack(">II", path.read_bytes()[16:24])
        assert width <= WIDTH * DPI + 1, path.name
        assert height > 150, path.name


def test_every_claim_is_of_an_artefact():
    assert set(scoreboard.CLAIMS) <= set(BY_NAME)
    papers = {name for name in BY_NAME if re.match("(carbo|pareto|rollout|stopping)-", name)}
    assert papers - set(scoreboard.CLAIMS) == {"carbo-surrogates"}  # a question of our own


@pytest.mark.parametrize(
    ("low", "high", "seeds", "verdict"),
    [
        (1.0, 2.0, 9, "agrees"),
        (-2.0, -1.0, 9, "differs"),
        (-1.0, 1.0, 9, "too thin"),
        (0.0, 0.0, 9, "differs"),
        (1.0, 2.0, 8, "too thin (so far: agrees)"),
        (-1.0, 1.0, 8, "too thin"),
        (1.0, 2.0, None, "agrees"),
    ],
)
def test_the_verdict_of_a_claim(low, high, seeds, verdict):
    assert claims.judge(low, high, claims.ABOVE_ZERO, seeds, 9) == verdict


def test_counts_have_wilsons_interval():
    assert claims.of_count(14, 20) == "14 of 20 [10, 17]"
    assert claims.share(3, 3)[1:] == pytest.approx([0.4385, 1.0], abs=1e-4)


def test_a_row_as_printed_has_farthings_version_beside_it(monkeypatch):
    def say(part):
        return [Claim("it is so", "9 %", f"{part['x']} %", 5, "differs")]

    monkeypatch.setattr(scoreboard, "CLAIMS", {"carbo-figure-1": say, "carbo-figure-2": say})
    one = {"carbo-figure-1": {"x": 1}}
    own = scoreboard.board(one, scoreboard.of_all(one))
    assert "Farthing's version" not in own
    assert own.endswith("(evidence/carbo-figure-1.md) | it is so | 9 % | 1 % | 5 | differs |")
    two = one | {"carbo-figure-2": {"x": 2, "as_printed": True, "farthing": {"x": 3}}}
    both = scoreboard.board(two, scoreboard.of_all(two))
    assert "| it is so | 9 % | 1 % | - | 5 | differs |" in both
    assert "| it is so | 9 % | 2 % * | 3 % | 5 | differs |" in both
    counts = scoreboard.verdicts(scoreboard.of_all(two))
    assert counts == {"agrees": 0, "differs": 2, "too thin": 0}


def test_a_claim_that_only_farthings_version_has_run_is_a_row(monkeypatch):
    def say(kept):
        return [Claim(text, "more", ours, 3, "too thin") for text, ours in kept["said"].items()]

    monkeypatch.setattr(scoreboard, "CLAIMS", {"carbo-table-1": say})
    own = {"said": {"one by one": "14 of 20", "in batches": "16 of 20"}}
    kept = {"carbo-table-1": {"said": {"one by one": "15"}, "as_printed": True, "farthing": own}}
    text = scoreboard.board(kept, found := scoreboard.of_all(kept))
    assert "| one by one | more | 15 * | 14 of 20 | 3 |" in text
    assert "| in batches | more | - | 16 of 20 | 3 |" in text
    assert sum(scoreboard.verdicts(found).values()) == 2


def test_a_long_table_of_problems_is_a_file():
    rows = "\n".join(f"| p{i} | **{i}** |" for i in range(13))
    short_one = "| a | b |\n| --- | --- |\n| 1 | 2 |"
    text = f"Before.\n\n| problem | error |\n| --- | --- |\n{rows}\n\n{short_one}"
    short, files = page.split_tables(text, "carbo-table-1")
    assert short == f"Before.\n\n[13 rows by problem](carbo-table-1.csv): error.\n\n{short_one}"
    (name,) = files
    table = list(csv.reader(files[name].splitlines()))
    assert (name, table[0], table[-1]) == ("carbo-table-1.csv", ["problem", "error"], ["p12", "12"])


def test_figures_are_listed_in_the_order_of_their_numbers():
    (links,) = page._links(["carbo-figure-10", "carbo-table-1", "carbo-figure-2"])
    assert re.findall(r"\[([\w-]+)\]", links) == ["figure-2", "figure-10", "table-1"]


def test_a_finding_follows_its_numbers():
    def finding(mean, low, high):
        kept = {
            "methods": ["random", "EI", comparison.DEFAULT],
            "budgets": {"60": {"groups": 9}},
            "families": {"a": {}},
            **{"mean": mean, "low": low, "high": high},
        }
        return findings.findings({"default": kept})[2]

    clear = finding([3, 2, 1], [2.5, 1.5, 0.5], [3.5, 2.5, 1.2])
    assert clear.startswith(f"**{comparison.DEFAULT} is the best policy")
    assert finding([3, 2, 1], [2.5, 1.1, 0.5], [3.5, 2.5, 1.2]).startswith("**No policy")
    assert "Not yet run: ablation, unused-tables." in findings.findings({})
    parts = {arm: duel(0.7) for arm in ("default-costs", "default-start")} | {
        "default-kills": duel(0.3)
    }
    unused = {
        "duels": {
            "default-costs": {
                "all": {"60": duel(0.6)},
                MUCH: {"60": duel(0.8)},
                LESS: {"60": duel(0.45)},
            },
            "optuna-tpe": {"all": {"60": duel(0.65)}},
        },
        "tables": {"all": ["a"] * 42},
    }
    said = findings.findings({"ablation": {"duels": {"60": parts}}, "unused-tables": unused})[3]
    assert "**Learnt costs are worth something with 60**: against itself without them" in said
    assert (
        "the default wins 70 % [60, 80] with 60 median costs. On 42 other tables "
        f"it wins 60 % [50, 70] with 60 (80 % [70, 90] where {MUCH}, 45 % [35, 55] where {LESS}). "
    ) in said
    assert "start in the middle with 60 surely helps; kills at limits with 60 surely harms" in said
    alone = {"60": {"default-costs": duel(0.55)}}
    unsure = findings.findings({"ablation": {"duels": alone}, "unused-tables": unused})[3]
    assert "Learnt costs are not surely worth anything" in unsure
    assert unsure.endswith("none is surely worth anything.")
    here = findings.weak_points({"unused-tables": unused})[-1]
    assert "On 42 other tables, with 60, it wins a share not yet measured against random" in here
    assert "65 % [55, 75] against optuna-tpe, a share" in here


def duel(won):
    bounds = {"won": won, "low": won - 0.1, "high": won + 0.1}
    return {name: [bound] * 3 for name, bound in bounds.items()} | {"duels": 290, "problems": 29}


def test_missing_runs_are_counted_once_for_artefacts_with_the_same_runs():
    def found(name, runs, hours):
        about = {"missing_runs": runs, "missing_hours": hours}
        return page.Found(BY_NAME[name], about, {}, "")

    there = [found("carbo-table-1", 10, 2.0), found("carbo-table-2", 10, 2.0)]
    there += [found("carbo-figure-6", 3, 1.0), found("peers", 5, 0.5)]
    hours = page.hours_missing(there)
    assert hours == {"CArBO": 3.0, "Farthing": 0.5}
    assert "CArBO 3.0, Farthing 0.5" in " ".join(page.first_page({}, [], hours).split())
