"""A finite table of candidates, each with its own cost: which samples should a lab test?

Farthing suggests each row at most once and nothing outside the table.
"""

import itertools

from farthing import Space, minimize
from farthing.policies import EIPerCost

POLYMERS = {"PLA": 2.0, "ABS": 3.0, "PETG": 4.0, "PEEK": 40.0}  # dollars per sample
FILLERS = {"none": 0.0, "glass": 20.0, "carbon": 80.0}  # dollars for a sample that is all filler
ROWS = [
    {"polymer": polymer, "filler": filler, "share": share}
    for polymer, filler, share in itertools.product(POLYMERS, FILLERS, [0.0, 0.1, 0.2, 0.3])
    if (filler == "none") == (share == 0.0)
]


def price(row: dict) -> float:
    return POLYMERS[row["polymer"]] + FILLERS[row["filler"]] * row["share"]


def strength(row: dict) -> float:
    """Simulate the test bench; the result is in MPa."""
    base = {"PLA": 60, "ABS": 40, "PETG": 50, "PEEK": 100}[row["polymer"]]
    gain = {"none": 0, "glass": 180, "carbon": 400}[row["filler"]]
    return base + gain * row["share"] * (1 - row["share"])


result = minimize(
    strength,
    Space.from_rows(ROWS),
    "$150",
    cost=price,
    policy=EIPerCost(),
    direction="maximize",
    seed=1,
)
print(f"{len(ROWS)} candidates, ${sum(price(row) for row in ROWS):.0f} to test them all")
print(result)
