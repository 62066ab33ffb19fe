"""A study and the notes of its trials, for the tests of clusters."""

import pytest
from integrations.clusters import TERMS, Notes

from farthing import Study


@pytest.fixture
def study(tmp_path):
    made = []

    def make(**settings):
        made.append(Study.create(tmp_path / "a.db", name="a", **TERMS | settings))
        return made[0]

    yield make
    made[0].close()


@pytest.fixture
def notes(tmp_path):
    folder = tmp_path / "notes"
    folder.mkdir()
    return Notes(folder)
