"""The scripts and the style sheet that pages load."""

import hashlib
import re
from importlib.resources import files

from farthing.view.primitives import STYLES
from farthing.view.web import SCRIPTS, SHEET, hash_of, script, source_of
from farthing.view.web.assets import CARD_SCRIPTS

FOLDER = files("farthing.view.web")

# uPlot 1.6.32 as npm distributes it (`npm pack uplot@1.6.32`).
VENDORED = {
    "LICENSE": "8f989229699b4fe2f1a0432d0e9edc338a8a911e250e2d1b01ecd770a5f5b1bd",
    "uPlot.iife.min.js": "19c8d4c6ad88929a79f4ae49d6f7161566dfd0ba3d15cc495e974f787eb78f1f",
    "uPlot.min.css": "df630c6a8d6f8eeaff264b50f73ce5b114f646ffd9a0bb74f049b0a00135fa04",
}
ALL = dict.fromkeys((*SCRIPTS, *CARD_SCRIPTS))
OURS = [name for name in ALL if not name.startswith("vendor/")]


def test_the_chart_library_is_unchanged_and_has_its_licence():
    vendor = FOLDER / "vendor"
    found = {f.name: hashlib.sha256(f.read_bytes()).hexdigest() for f in vendor.iterdir()}
    assert found == VENDORED
    assert "The MIT License" in source_of("vendor/LICENSE")
    assert "v1.6.32" in source_of("vendor/uPlot.iife.min.js")[:80]


def test_every_script_is_loaded():
    beside = {file.name for file in FOLDER.iterdir() if file.name.endswith(".js")}
    assert beside == set(OURS)
    assert all(source_of(name) in script() for name in SCRIPTS)


def test_no_script_turns_data_into_markup_or_code():
    forbidden = (
        r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|srcdoc"
    )
    for name in ALL:
        assert not re.search(forbidden, source_of(name)), name


def test_no_script_or_style_names_another_host():
    for name in ALL:
        lines = source_of(name).splitlines()
        addresses = [found for line in lines for found in re.findall(r"https?://[^\s\"')]+", line)]
        # The comment of uPlot's licence, and the name of the namespace of SVG.
        known = {"https://github.com/leeoniya/uPlot", "http://www.w3.org/2000/svg"}
        assert set(addresses) <= known, name
    assert "url(" not in SHEET
    assert "@import" not in SHEET


def test_every_style_of_a_layer_has_its_colours_marks_and_dashes():
    light, dark = SHEET.split("@media (prefers-color-scheme:dark)", 2)[:2]
    for name, style in STYLES.items():
        assert f"--{name}:{style.light};" in light
        assert f"--{name}:{style.dark};" in dark
        assert f'--{name}-mark:"{style.marker}";' in light


def test_the_scripts_are_short():
    """One concept for each file, as in the rest of the package."""
    assert all(len(source_of(name).splitlines()) <= 500 for name in OURS)


def test_a_hash_of_a_content_security_policy():
    # The example of https://www.w3.org/TR/CSP3/ (alert of a text).
    assert hash_of("alert('Hello, world.');") == (
        "'sha256-qznLcsROx4GACP2dm0UCKCzCG+HiZ1guq6ZZDob/Tng='"
    )


def test_areas_have_lines_for_readers_who_do_not_see_their_colours():
    hatched = {name for name, style in STYLES.items() if style.hatch}
    assert {"failed", "killed", "lost", "paused", "running"} <= hatched
    assert set(re.findall(r"--(\w+)-lines:", SHEET)) == hatched
    found = dict(re.findall(r"--(\w+)-hatch:(repeating-linear-gradient[^;]+);", SHEET))
    assert set(found) == hatched
    directions = {name: re.findall(r"\((\d+)deg", hatch) for name, hatch in found.items()}
    assert directions["failed"] == ["135", "45"]
    assert directions["killed"] != directions["running"]
