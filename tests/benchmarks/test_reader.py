"""A reader recomputes the numbers of README and of the first page from the kept runs.

This file uses numpy and the kept files only, nothing of Farthing and none of its measures:

duel      same problem, budget and seed; the lower value at the end wins, a tie is half
share     mean over seeds, then problems, then families
interval  families, then problems, then seeds are drawn; Wilson's interval if it is wider
saving    (t_peer - t_ours) / the longer of them, t being the time to the worse of both final values
"""

import gzip
import json
import re
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest

REPO = Path(__file__).resolve().parents[2]
RESULTS = REPO / "benchmarks" / "results"
README = (REPO / "README.md").read_text("utf-8")
PAGE = (REPO / "docs" / "evidence.md").read_text("utf-8")
RECORDED = ("carbo", "xgboost")  # their errors tie if they are less than one of 5,000 rows apart
DRAWS = 1_000
WITHIN = 0.12  # of the width of an interval: what its bounds may differ, because they are drawn
METHODS = {
    "random search": "random",
    "BlendSearch": "flaml-blendsearch",
    "CFO": "flaml-cfo",
    "TPE": "optuna-tpe",
    "GPSampler": "optuna-gp",
    "NePS": "neps-cooling",
    "Ax ": "ax",
    "BoTorch": "botorch-logei",
    "SMAC3": "smac",
}
SHARE = r"(-?\d+) % \[(-?\d+), (-?\d+)\]"


def lines(name):
    """The kept runs of a suite; a later line replaces an earlier one of the same run."""
    for path in (RESULTS / "replays" / f"{name}.jsonl.gz", RESULTS / "replays" / f"{name}.jsonl"):
        if path.exists():
            with gzip.open(path, "rt") if path.suffix == ".gz" else path.open() as file:
                yield from map(json.loads, file)


def sources():
    """The versions of the code that made the duels, and those that decide alike."""
    there = set(json.loads((RESULTS / "peers.json").read_text())["numbers"]["sources"])
    for each in json.loads((RESULTS / "equivalent_sources.json").read_text()):
        if "only" not in each and there & set(each["marks"]):
            there |= set(each["marks"])
    return there


def tie_of(problem):
    return 2e-4 if problem.split("/")[0] in RECORDED else 0.0


def trace(run):
    """When evaluations ended, in budgets; the best value then, and the best one at the end."""
    costs = np.array(run["costs"]) + (np.array(run["thinking"]) if run["clock"] else 0.0)
    values = np.array([np.inf if value is None else value for value in run["values"]])
    at = np.cumsum(costs) / run["limit"]
    best = np.minimum.accumulate(values)
    inside = at <= 1 + 1e-12
    return at, best, best[inside][-1] if inside.any() else np.inf


@pytest.fixture(scope="module")
def runs():
    """{(budget, problem): {method: {seed: (times, best so far, final)}}}."""
    alike, found = sources(), defaultdict(lambda: defaultdict(dict))
    suites = [path.name.split(".")[0] for path in (RESULTS / "replays").glob("peers-*.jsonl*")]
    for suite in ("tables", *dict.fromkeys(suites)):
        for run in lines(suite):
            ours = suite == "tables"
            if ours and (
                run["method"] not in ("cooling_0.5", "random") or run["source"] not in alike
            ):
                continue
            whole = run["most"] == max(200, round(2 * run["budget"]))
            charged = run["clock"] == (run["problem"].split("/")[0] in RECORDED)
            if run["own_seed"] and not run["rows"] and whole and charged:
                by = found[f"{run['budget']:g}", run["problem"]][run["method"]]
                by[run["seed"]] = trace(run)
                if run["error"]:
                    del by[run["seed"]]
    tried = {key for key, by in found.items() if {"cooling_0.5", "optuna-tpe"} <= set(by)}
    return {key: found[key] for key in sorted(tried)}  # the draws depend on the order


def won(ours, theirs, tie):
    if ours == theirs or abs(ours - theirs) <= tie:
        return 0.5
    return float(ours < theirs)


def duels(runs, rival, budget):
    """{family: {problem: an array of duels}}."""
    found = defaultdict(dict)
    for (at, problem), by in runs.items():
        both = sorted(set(by.get("cooling_0.5", ())) & set(by.get(rival, ())))
        if at == budget and both:
            pairs = [(by["cooling_0.5"][seed][2], by[rival][seed][2]) for seed in both]
            each = [won(*pair, tie_of(problem)) for pair in pairs]
            found[problem.split("/")[0]][problem] = np.array(each)
    return found


def drawn(families, one, over_families):
    """Bounds of a statistic: families, then problems, then seeds are drawn."""
    rng, parts, means = (
        np.random.default_rng(1),
        [list(by.values()) for by in families.values()],
        [],
    )
    for _ in range(DRAWS):
        each = []
        for f in rng.integers(len(parts), size=len(parts)):
            part = parts[f]
            picked = [part[p] for p in rng.integers(len(part), size=len(part))]
            each.append([one(array[rng.integers(len(array), size=len(array))]) for array in picked])
        means.append(over_families(each))
    return np.percentile(means, [2.5, 97.5])


def mean_of_means(each):
    return float(np.mean([np.mean(part) for part in each]))


def share(families):
    """[share, low, high] in percent, and the number of duels."""
    count = sum(len(array) for by in families.values() for array in by.values())
    middle = mean_of_means([[array.mean() for array in by.values()] for by in families.values()])
    low, high = drawn(families, np.mean, mean_of_means)
    z = 1.96
    centre = (middle + z * z / (2 * count)) / (1 + z * z / count)
    half = np.sqrt(middle * (1 - middle) / count + (z / (2 * count)) ** 2) * z / (1 + z * z / count)
    low, high = max(0.0, min(low, centre - half)), min(1.0, max(high, centre + half))
    return [100 * middle, 100 * low, 100 * high], count


def agree(printed, found, count=np.inf):
    """The middle to the digit printed; the bounds as near as drawing allows, and one duel."""
    middle, low, high = (float(number) for number in printed)
    assert middle == pytest.approx(found[0], abs=0.5 + 1e-9)
    near = WITHIN * (high - low) + 100 / count
    assert [low, high] == pytest.approx(list(found[1:]), abs=near)


@pytest.mark.slow
def test_the_duels_of_readme(runs):
    rows = [line for line in README.splitlines() if re.search(SHARE, line) and line[0] == "|"]
    assert len(rows) == len(METHODS)
    for row in rows:
        (rival,) = (method for name, method in METHODS.items() if name in row)
        for printed, budget in zip(re.findall(SHARE, row), ("60", "15"), strict=True):
            agree(printed, *share(duels(runs, rival, budget)))
            cell = row.split("|")[-3 if budget == "60" else -2]
            low, high = map(float, printed[1:])
            assert ("undecided" in cell) == (low <= 50 <= high), row


@pytest.mark.slow
def test_the_sentences_of_readme(runs):
    text = " ".join(README.split())
    for pattern, rival, budget in (
        (f"scikit-optimize [^;]*? with {SHARE} undecided at 60", "skopt-eips", "60"),
        (f"and {SHARE} undecided at 15, and HEBO", "skopt-eips", "15"),
        (f"HEBO with {SHARE} undecided \\(10 duels", "hebo", "15"),
    ):
        agree(re.search(pattern, text).groups(), *share(duels(runs, rival, budget)))
    every, problems = map(
        int, re.search(r"first five peers have (\d+) duels on (\d+) problems", text).groups()
    )
    counts = {
        (rival, budget): share(duels(runs, rival, budget))[1]
        for rival in METHODS.values()
        for budget in ("15", "60")
    }
    full = [rival for rival in METHODS.values() if counts[rival, "60"] == every]
    assert (len(full), len({problem for _, problem in runs})) == (5, problems)
    assert all(counts[rival, "15"] == every for rival in full)
    few = [rival for rival in METHODS.values() if rival not in full]
    assert {counts[rival, "60"] for rival in few} == {6}
    assert "6 duels at 60 median costs and 25 to 30 at 15" in text
    assert (min(counts[r, "15"] for r in few), max(counts[r, "15"] for r in few)) == (25, 30)


def test_the_duels_of_the_picture_in_readme(runs):
    text = " ".join(README.split())
    printed = re.search(
        r"wins (\S+) of 10 duels with TPE here, (\S+) with BlendSearch and (\S+) with Optuna",
        text,
    ).groups()
    by = runs["60", "fcnet/parkinsons_telemonitoring"]
    for number, rival in zip(
        printed, ("optuna-tpe", "flaml-blendsearch", "optuna-gp"), strict=True
    ):
        each = [won(by["cooling_0.5"][seed][2], by[rival][seed][2], 0.0) for seed in range(10)]
        assert float(number) == sum(each)


@pytest.mark.slow
def test_the_duels_of_the_first_page(runs):
    text = " ".join(PAGE.split())
    listed = re.search(r"With 60 median costs .*? it wins (.*?) of the duels", text)[1]
    found = re.findall(SHARE + r" against ([\w-]+)", listed)
    assert len(found) >= 4
    for *printed, rival in found:
        agree(printed, share(duels(runs, rival, "60"))[0])


def reached(run, target):
    at, best, _ = run
    hit = np.flatnonzero(best <= target)
    return at[hit[0]] if len(hit) else np.inf


def saved(ours, theirs, tie):
    if not np.isfinite([ours[2], theirs[2]]).all():
        return 100.0 * float(not np.isfinite(theirs[2])) - 100.0 * float(not np.isfinite(ours[2]))
    target = max(ours[2], theirs[2]) + tie
    mine, other = reached(ours, target), reached(theirs, target)
    return 100.0 * (other - mine) / max(other, mine)


def savings(runs, budget):
    """{family: {problem: savings over the best peer}} and its control, that peer's next seed."""
    found, control = defaultdict(dict), defaultdict(dict)
    for (at, problem), by in runs.items():
        if at != budget:
            continue
        tie, order = tie_of(problem), []
        for rival in by:
            seeds = sorted(set(by[rival]) & set(by["cooling_0.5"]))
            if rival in ("cooling_0.5", "random") or not seeds:
                continue
            finals = [by[rival][seed][2] for seed in seeds]
            own = [reached(by[rival][s], by[rival][s][2] + tie) for s in seeds]
            order.append((float(np.median(finals)), float(np.median(own)), rival, seeds))
        lowest = min(order)[0]
        *_, best, seeds = min(
            (each for each in order if each[0] <= lowest + tie), key=lambda each: each[1]
        )
        family, theirs = problem.split("/")[0], by[best]
        gains = [saved(by["cooling_0.5"][s], theirs[s], tie) for s in seeds]
        found[family][problem] = np.array(gains)
        if len(seeds) > 1:
            nexts = [*seeds[1:], seeds[0]]
            other = [saved(theirs[b], theirs[a], tie) for a, b in zip(seeds, nexts, strict=True)]
            control[family][problem] = np.array(other)
    return found, control


def mean_of_all(each):
    return float(np.mean([value for part in each for value in part]))


@pytest.mark.slow
def test_the_savings_of_the_first_page(runs):
    text = " ".join(PAGE.split())
    printed = re.findall(rf"{SHARE} with (\d+) \(control {SHARE}\)", text)
    assert [row[3] for row in printed] == ["15", "60", "240"]
    for row in printed:
        for numbers, families in zip((row[:3], row[4:]), savings(runs, row[3]), strict=True):
            middle = mean_of_all([[np.median(a) for a in by.values()] for by in families.values()])
            agree(numbers, [middle, *drawn(families, np.median, mean_of_all)])


@pytest.mark.slow
def test_the_real_trainings_of_the_first_page():
    alike, finals = sources(), defaultdict(lambda: defaultdict(dict))
    for run in lines("realtime"):
        if run["method"] in ("farthing", "PBGI") and run["source"] not in alike:
            continue
        inside = np.array(run["ends"]) <= run["budget"] * (1 + 1e-12)
        values = [v for v, ok in zip(run["values"], inside, strict=True) if ok and v is not None]
        if not run["error"]:
            by = finals[f"{run['budget']:g}"][run["model"]].setdefault(run["method"], {})
            by[run["seed"]] = min(values, default=np.inf)
    text = " ".join(PAGE.split())
    parts = re.findall(rf"with (\d+) s the default wins ((?:{SHARE} against [\w-]+(?:, )?)+)", text)
    run = [at for at, models in finals.items() if any("farthing" in by for by in models.values())]
    assert [part[0] for part in parts] == run
    for budget, listed, *_ in parts:
        for *printed, rival in re.findall(rf"{SHARE} against ([\w-]+)", listed):
            families = {
                model: {model: np.array([won(ours[s], by[rival][s], 0.0) for s in both])}
                for model, by in finals[budget].items()
                if (ours := by.get("farthing"))
                and (both := sorted(set(ours) & set(by.get(rival, ()))))
            }
            agree(printed, share(families)[0])


@pytest.mark.slow
def test_what_learnt_costs_win_in_readme():
    alike, ends = sources(), defaultdict(dict)
    for run in lines("tables"):
        usual = run["own_seed"] and not run["rows"] and run["most"] == 200
        charged = run["clock"] == (run["problem"].split("/")[0] in RECORDED)
        if usual and charged and run["source"] in alike:
            ends[f"{run['budget']:g}", run["problem"], run["seed"]][run["method"]] = trace(run)[2]
    families = defaultdict(lambda: defaultdict(lambda: defaultdict(list)))
    for (budget, problem, _), by in ends.items():
        if {"cooling_0.5", "default-costs"} <= set(by):
            each = won(by["cooling_0.5"], by["default-costs"], tie_of(problem))
            families[budget][problem.split("/")[0]][problem].append(each)
    text = " ".join(README.split())
    text = re.search(r"with the same expected cost everywhere.*?ablation --kept", text)[0]
    printed = re.findall(rf"{SHARE} of (\d+)(?: duels)? at (\d+)", text)
    assert [row[4] for row in printed] == ["15", "60"]
    for row in printed:
        by = families[row[4]]
        found, count = share({f: {p: np.array(v) for p, v in by[f].items()} for f in by})
        assert count == int(row[3])
        agree(row[:3], found)


@pytest.mark.slow
def test_the_duels_on_tables_that_no_choice_has_used():
    """In README and on the first page; the kept file names the tables."""
    parts = json.loads((RESULTS / "unused-tables.json").read_text())["numbers"]["tables"]
    alike, ends = sources(), defaultdict(lambda: defaultdict(dict))
    for suite in ("unused", "unused-optuna", "unused-flaml"):
        for run in lines(suite):
            if run["method"] not in ("cooling_0.5", "default-costs") or run["source"] in alike:
                by = ends[f"{run['budget']:g}", run["problem"]][run["method"]]
                by[run["seed"]] = trace(run)[2]

    def check(printed, rival, budget, part="all"):
        families = defaultdict(dict)
        for problem in parts[part]:
            ours, theirs = (ends[budget, problem][name] for name in ("cooling_0.5", rival))
            each = [won(ours[seed], theirs[seed], 0.0) for seed in sorted({*ours} & {*theirs})]
            families[problem.split("/")[0]][problem] = np.array(each)
        found, count = share(families)
        *numbers, duels = printed
        assert not duels or count == int(duels)
        agree(numbers, found)

    text = " ".join(README.split())
    for rival, name in (("optuna-tpe", "TPE"), ("flaml-blendsearch", "BlendSearch")):
        pattern = rf"{SHARE} of (\d+) duels with {name} at 60 and {SHARE} at 15"
        at_60, at_15 = np.split(np.array(re.search(pattern, text).groups()), [4])
        check(at_60, rival, "60")
        check([*at_15, ""], rival, "15")
    pattern = rf"On the 42 tables it wins {SHARE} of (\d+) at 15 and {SHARE} of (\d+) at 60"
    for budget, printed in zip(
        ("15", "60"), np.split(np.array(re.search(pattern, text).groups()), 2), strict=True
    ):
        check(printed, "default-costs", budget)
    for part in list(parts)[1:]:
        printed = re.search(rf"{SHARE} of (\d+) at 60 where {part}", text).groups()
        check(printed, "default-costs", "60", part)
    text = " ".join(PAGE.split())
    for part in list(parts)[1:]:
        printed = re.search(rf"{SHARE} where {part}", text).groups()
        check([*printed, ""], "default-costs", "60", part)
    other = re.search(r"other tables, with 60, it wins .*? of the duels", text)[0]
    for *printed, rival in re.findall(rf"{SHARE} against ([\w-]+)", other):
        check([*printed, ""], rival, "60")


@pytest.mark.slow
def test_the_duels_with_and_without_exploration():
    """The runs behind the decision to take it out, which that code alone can make again."""
    ends = defaultdict(dict)
    for run in lines("exploration"):
        ends[f"{run['budget']:g}", run["problem"], run["seed"]][run["method"]] = trace(run)[2]
    text = " ".join((REPO / "docs" / "decisions.md").read_text().split())
    (text,) = re.findall(r"### No trial explores .*?Consequence", text)
    for budget in ("15", "60", "240"):
        families = defaultdict(lambda: defaultdict(list))
        for (at, problem, _), by in ends.items():
            if at == budget:
                each = won(by["cooling_0.5"], by["default-explore"], tie_of(problem))
                families[problem.split("/")[0]][problem].append(each)
        found, count = share(
            {f: {p: np.array(v) for p, v in by.items()} for f, by in families.items()}
        )
        printed = re.search(rf"{SHARE} of {count}(?: duels)? at {budget}\b", text)
        agree(printed.groups(), found)


def test_the_reader_finds_a_wrong_number():
    with pytest.raises(AssertionError):
        agree(("67", "56", "79"), [65.9, 56.0, 79.0])
    with pytest.raises(AssertionError):
        agree(("67", "56", "79"), [67.0, 52.0, 79.0])
    assert won(1.0, 2.0, 0.0) == 1.0
    assert won(0.1, 0.1001, tie_of("carbo/knn-a1a")) == 0.5
