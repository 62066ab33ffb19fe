"""Every method of Farthing has a name in databases, and every earlier name is read."""

import json
import sqlite3
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import get_args

import before
import before_0_2_0
import pytest
from methods import Circumstances, examples_in

from farthing import Settings, cost, policies, stopping
from farthing.space.parameters import Parameter
from farthing.storage import described, differing, restored, to_text
from farthing.storage import names as names_module
from farthing.storage.names import NAMES, STORED_KEYS, Named, current
from farthing.storage.settings_text import describe, restore

FILES = Path(__file__).parents[1] / "snapshots"
OWN = {"before:price_of_row", "before_0_2_0:price_of"}  # functions of these studies
MADE = {"0.1.0": before.SETTINGS, "0.2.0": before_0_2_0.SETTINGS}


def stored_by(version):
    """{name of a study: its settings as text} that a version stored."""
    with sqlite3.connect(f"file:{FILES / version / 'studies.db'}?mode=ro", uri=True) as connection:
        return dict(connection.execute("SELECT name, settings FROM farthing_studies"))


STORED = {(version, name): text for version in MADE for name, text in stored_by(version).items()}


def named_in(plain):
    """The names of all classes and functions in a description."""
    if isinstance(plain, list):
        return {name for item in plain for name in named_in(item)}
    if not isinstance(plain, dict):
        return set()
    own = {plain[key] for key in ("__is__", "__function__") if key in plain}
    return own.union(*(named_in(item) for item in plain.values()))


# ── current names ──────────────────────────────────────────────────────────────────────────────


def public():
    """Everything that can be a setting, by its public name."""
    found = {kind.__name__: kind for kind in get_args(Parameter)}
    for folder in (policies, stopping, cost):
        every = {name: getattr(folder, name) for name in folder.__all__}
        found |= {n: o for n, o in every.items() if is_dataclass(o) or not isinstance(o, type)}
    return found


def test_every_method_and_parameter_has_its_public_name():
    combined = {"any_of", "all_of", "after", "in_a_row"}
    assert combined | {"Float", "Gittins", "Target", "MLPFlops"} <= public().keys()
    assert public().keys() == NAMES.keys() - {"cheapness", "between"}  # a base, a condition
    for name, made in public().items():
        assert name in combined or NAMES[name].kind is made


def test_every_earlier_name_has_one_meaning():
    earlier = set().union(*(named_in(json.loads(text)) for text in STORED.values()))
    ours = {name for name in earlier if name.startswith("farthing.")}
    assert earlier - ours == OWN
    known = {name for row in NAMES.values() for name in row.before}
    assert ours == {name for name in known if ":" in name}  # the snapshots contain each of them
    assert not known & NAMES.keys()
    for name in known:
        rows = [row for row in NAMES.values() if name in row.before]
        assert len(rows) == 1 or all(row.fixed for row in rows)


PARTS = {
    **{name: make(Circumstances()) for name, make in examples_in(policies, stopping).items()},
    **{
        f"{version} {study}: {part}": made[part]
        for version, studies in MADE.items()
        for study, made in studies.items()
        for part in ("policy", "stop", "cost")
        if part in made
    },
    "once in a row": stopping.in_a_row(1, stopping.NoImprovement()),
    "after one": stopping.after(1, stopping.all_of(stopping.NoImprovement())),
}


@pytest.mark.parametrize("name", PARTS)
def test_a_part_is_stored_with_public_names_and_restored(name):
    plain = describe(PARTS[name])
    assert named_in(json.loads(json.dumps(plain))) <= {*NAMES, *OWN}
    assert "farthing." not in to_text(plain)
    assert restore(plain) == PARTS[name]
    assert repr(restore(plain)) == repr(PARTS[name])


def test_combined_rules_are_stored_as_users_write_them():
    rule = stopping.after(20, stopping.any_of(stopping.Target(1.0), stopping.MaxTrials(30)))
    target, most = {"__is__": "Target", "value": 1.0}, {"__is__": "MaxTrials", "count": 30}
    assert describe(rule) == {
        "__is__": "after",
        "rule": {"__is__": "any_of", "rules": (target, most)},
        "trials": 20,
    }


@dataclass(frozen=True)
class Gittins(policies.Gittins):
    """A class of a user with the same name."""


def test_a_class_of_a_user_is_not_taken_for_farthings():
    assert describe(Gittins())["__is__"] == f"{__name__}:Gittins"
    assert type(restore(describe(policies.Gittins()))) is policies.Gittins


# ── names of earlier versions ──────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("version", "name"), STORED)
def test_settings_of_an_earlier_version_are_read_and_unchanged(version, name):
    text = STORED[version, name]
    settings = restored(text, trust=True)
    again = to_text(described(settings))
    assert "farthing." not in again
    made = MADE[version].get(name)
    if made is None or name == "changed":
        return
    now = Settings.of(**{"policy": policies.Gittins(), **made})  # the default at that time
    assert differing(text, to_text(described(now))) == []
    for f in fields(Settings):
        assert getattr(settings, f.name) == getattr(now, f.name)


def test_a_name_of_an_earlier_version_needs_no_trust():
    for (_, name), text in STORED.items():
        given = {"cost": before.price_of_row} if name in ("table", "rollout") else {}
        assert restored(text, **given).unimported == {}


def test_renaming_a_class_or_a_field_changes_one_row(monkeypatch):
    row = Named(
        cost.PointEstimate, ("farthing.cost.median:Median", "Median"), fields={"of": "learner"}
    )
    others = {name: each for name, each in NAMES.items() if name != "Median"}
    monkeypatch.setattr(names_module, "NAMES", {**others, "PointEstimate": row})
    for earlier in row.before:
        for key in ("of", "learner"):
            stored = {"s": [{"__is__": earlier, key: {"__is__": "farthing.cost.log_gp:LogGP"}}]}
            now = current(stored)
            assert now == {"s": [{"__is__": "PointEstimate", "learner": {"__is__": "LogGP"}}]}
            assert restore(now) == {"s": [cost.PointEstimate()]}
    assert describe(cost.PointEstimate())["__is__"] == "PointEstimate"


def test_a_field_that_earlier_versions_did_not_have_has_its_earlier_value():
    assert restore(current({"__is__": "Cooling"})) == policies.Cooling(first=1.0)
    assert current({"__is__": "farthing.policies.cooling:Cooling"}) == describe(policies.Cooling())
    assert restore(current(describe(policies.Cooling(0.3)))) == policies.Cooling(0.3)


def test_a_description_that_no_version_wrote_is_unchanged():
    odd = {"__is__": "farthing.decision:_Held", "rule": 1, "trials": 2, "times": 3}
    for plain in (odd, {"__is__": ["EI"]}, {"__function__": None}, {"__is__": "own:Mine"}, 7, None):
        assert current(plain) == plain


# ── keys ───────────────────────────────────────────────────────────────────────────────────────


def test_keys_in_a_database_do_not_change():
    assert STORED_KEYS.keys() <= {f.name for f in fields(Settings)}
    stored = json.loads(STORED["0.2.0", "mixed"])
    now = json.loads(to_text(described(restored(STORED["0.2.0", "mixed"]))))
    assert {"leash", "thinking"} <= stored.keys() == now.keys()
    assert (stored["leash"], stored["thinking"]) == (now["leash"], now["thinking"]) == (4.0, 0.1)
