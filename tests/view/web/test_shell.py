"""The frames of pages: each has the places that its scripts look for."""

import re
from importlib.resources import files
from xml.etree import ElementTree

import pytest

from farthing.view.web import shell


@pytest.mark.parametrize(
    ("script", "make"),
    [("studies.js", lambda: shell.studies_shell("Studies")), ("live.js", shell.error_banner)],
)
def test_the_places_that_a_script_looks_for_are_in_its_page(script, make):
    source = files("farthing.view.web").joinpath(script).read_text("utf-8")
    wanted = set(re.findall(r'getElementById\("([\w-]+)"\)', source))
    page = ElementTree.fromstring(f"<body>{make()}</body>".replace(" hidden", ' hidden=""'))
    assert wanted
    assert wanted <= {each.get("id") for each in page.iter("*")}


def test_an_empty_comparison_is_hidden():
    page = f"<body>{shell.studies_shell('Studies')}</body>".replace(" hidden", ' hidden=""')
    (comparison,) = ElementTree.fromstring(page).findall(".//*[@id='comparison']")
    assert "hidden" in comparison.attrib
