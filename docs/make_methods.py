"""Write docs/methods.md and its pictures: what each policy chooses, on one and the same study.

    python docs/make_methods.py

One parameter, seven evaluations, a known cost that grows a hundredfold from left to right. The
words are those of the docstrings.
"""

from __future__ import annotations

import ast
import inspect
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from farthing import Float, Optimizer, Settings, Space, Suggestion, suggest
from farthing import policies as chosen
from farthing.acquisition.protocols import Policy
from farthing.models.normal import log_ei

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PAGE = Path(__file__).with_name("methods.md")
PICTURES = Path(__file__).with_name("methods")
SPACE = Space({"x": Float(0, 1)})
TRIED = (0.05, 0.1, 0.34, 0.45, 0.58, 0.66, 0.95)
BUDGET = 400.0
DESIGNS = ("Random", "Sobol", "LatinHypercube", "CheapCover")
INTRODUCTION = """\
What each policy takes next in one and the same study: seven evaluations (dots), what is believed of
the others (blue, two standard deviations), a cost that grows a hundredfold from left to right.
There is a shallow well where it is cheap and a deep one where it is dear. Made by
`python docs/make_methods.py`; formulas and papers are those of the files. A policy of your own
is any object with the same contract: [examples/own_policy.py](../examples/own_policy.py)."""
POINTS = 12  # of a design that are shown
ORDER = (
    *("Random", "Sobol", "LatinHypercube", "CheapCover", "StartWith", "EI", "EIPerCost"),
    *("ContextualEI", "Cooling", "CArBO", "Gittins", "Rollout", "ConfidenceBound", "Thompson"),
)


def value(x: float) -> float:
    """Two wells: a shallow one where it is cheap, a deep one where it is dear."""
    return float(-0.45 * np.exp(-(((x - 0.21) / 0.1) ** 2)) - np.exp(-(((x - 0.8) / 0.13) ** 2)))


def price(params: dict[str, Any]) -> float:
    """From 1 to 100."""
    return float(100 ** params["x"])


def made(name: str) -> Policy:
    """A policy with its usual settings."""
    if name == "StartWith":
        return chosen.StartWith([{"x": 0.5}], then=chosen.EI())
    policy: Policy = getattr(chosen, name)()
    return policy


def study(policy: Policy) -> Suggestion:
    """What is thought after the same evaluations."""
    settings = Settings.of(SPACE, BUDGET, policy=policy, cost=price)
    optimizer = Optimizer.of(settings)
    for x in TRIED:
        optimizer.add({"x": x}, value(x))
    return suggest(settings, optimizer.seen)


def draw(name: str) -> Figure:
    """What is believed, what it costs, and what the policy takes."""
    import matplotlib.pyplot as plt

    x = np.linspace(0, 1, 401)
    if name in DESIGNS:
        optimizer = Optimizer(SPACE, BUDGET, policy=made(name), cost=price)
        points = [optimizer.ask().params["x"] for _ in range(POINTS)]
        figure, axis = plt.subplots(figsize=(6, 1.7), layout="constrained")
        axis.plot(x, [price({"x": a}) for a in x], "--", color="#7f7f7f", lw=1, label="cost")
        prices = [price({"x": p}) for p in points]
        axis.plot(points, prices, "o", color="#0072b2", ms=5, label=f"first {POINTS} points")
        axis.set(yscale="log", xlabel="x", ylabel="cost", xlim=(0, 1))
        axis.set_title(name, fontsize=10)
        axis.legend(fontsize=7, loc="center left", bbox_to_anchor=(1, 0.5), frameon=False)
        return figure
    belief, proposal, _ = study(made(name))
    assert belief.objective is not None
    mean, std = belief.objective.at(x[:, None])
    mean, score = mean[:, 0], log_ei(mean[:, 0], std, belief.best[0])
    figure, (top, low) = plt.subplots(
        2, 1, figsize=(6, 3), sharex=True, height_ratios=(2, 1), layout="constrained"
    )
    top.fill_between(x, mean - 2 * std, mean + 2 * std, color="#0072b2", alpha=0.15)
    top.plot(x, mean, color="#0072b2", lw=1.2)
    top.plot(TRIED, [value(a) for a in TRIED], "ko", ms=4)
    low.plot(x, np.exp(score - score.max()), color="#d55e00", label="EI (of its maximum)")
    low.plot(x, [price({"x": a}) / 100 for a in x], "--", color="#7f7f7f", label="cost (of 100)")
    assert proposal.x is not None
    for axis in (top, low):
        axis.axvline(proposal.x[0], color="black", lw=1.2, ls=":")
    top.set(ylabel="value")
    top.set_title(f"{name}: x = {proposal.x[0]:.2f}", fontsize=10)
    low.set(xlabel="x", xlim=(0, 1))
    low.legend(fontsize=7, loc="center left", bbox_to_anchor=(1, 0.5), frameon=False)
    return figure


def page() -> str:
    """The Markdown."""
    lines = ["# Methods", "", INTRODUCTION, ""]
    for name in ORDER:
        module = sys.modules[getattr(chosen, name).__module__]
        text = ast.get_docstring(ast.parse(inspect.getsource(module))) or ""
        first, _, rest = text.partition("\n")
        lines += [f"## {name}", "", first, "", *([rest.strip("\n"), ""] if rest.strip() else [])]
        lines += [f"![{name}](methods/{name}.png)", ""]
    return "\n".join(lines).rstrip() + "\n"


if __name__ == "__main__":
    import matplotlib

    matplotlib.use("Agg")
    PICTURES.mkdir(exist_ok=True)
    for each in ORDER:
        draw(each).savefig(PICTURES / f"{each}.png", dpi=100, metadata={"Software": None})
    PAGE.write_text(page(), encoding="utf-8")
    print(f"wrote {PAGE.name} and {len(ORDER)} pictures")
