"""Write docs/names.md: every public name, its signature, its docstring and an example.

    python docs/make_names.py

The texts are the docstrings; the examples are below. `tests/project/test_docs.py` runs every
example. It fails if a public name has no example, or if the page is not up to date.
"""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from types import ModuleType

import farthing
from farthing import cost, policies, stopping

PAGE = Path(__file__).with_name("names.md")
PARTS: tuple[tuple[str, ModuleType], ...] = (
    ("farthing", farthing),
    ("farthing.policies", policies),
    ("farthing.stopping", stopping),
    ("farthing.cost", cost),
)
# Names that a user does not call: the page shows no signature.
NOT_CALLED = (
    *("History", "Ledger", "Result", "Settings", "State", "StopReason", "Study", "Suggestion"),
    "Trial",
)
WITH_METHODS = ("Budget", "Ledger", "History", "Trial", "Result", "Space", "Optimizer", "Study")

OBJECTIVE = "lambda p: (p['depth'] - 3) ** 2 + p['lr']"


def policy(call: str) -> str:
    """An example of a policy."""
    return f"""
from farthing import Float, Int, minimize
from farthing.policies import {call.partition("(")[0]}

space = {{"lr": Float(1e-4, 1e-1, log=True), "depth": Int(1, 8)}}
minimize({OBJECTIVE}, space, budget=30, policy={call}, cost=lambda p: p["depth"])
"""


def policy_by_steps(call: str) -> str:
    """An example of a policy that decides while a training runs."""
    return f"""
from farthing import Float, Optimizer
from farthing.policies import {call.partition("(")[0]}

optimizer = Optimizer({{"lr": Float(0, 1)}}, 60, steps=8, policy={call})
for _ in range(12):
    trial = optimizer.ask()             # train from step trial.step to trial.until
    loss = (trial.params["lr"] - 0.3) ** 2 + 1 / trial.until
    optimizer.tell(trial, loss, cost=trial.until - trial.step)
print(optimizer.best_value)
"""


def rule(call: str, more: str = "") -> str:
    """An example of a stopping rule."""
    names = sorted({*re.findall(r"\b([A-Za-z_]+)\(", call)} - {"print"})
    return f"""
from farthing import Float, Int, minimize
from farthing.stopping import {", ".join(names)}

space = {{"lr": Float(1e-4, 1e-1, log=True), "depth": Int(1, 8)}}
result = minimize({OBJECTIVE}, space, "12 trials", stop={call}{more})
print(result.stop_reason)
"""


def learner(call: str, imports: str = "") -> str:
    """An example of a cost model."""
    names = sorted({*re.findall(r"\b([A-Z][A-Za-z]+)\(", call)})
    return f"""
from farthing import Float, Int, Outcome, minimize
from farthing.cost import {", ".join(names)}
{imports}
space = {{"lr": Float(1e-4, 1e-1, log=True), "depth": Int(1, 8)}}

def train(p):
    return Outcome((p["depth"] - 3) ** 2 + p["lr"], cost=0.5 * p["depth"])

minimize(train, space, budget=20, cost={call})
"""


EXAMPLES: dict[str, str] = {
    "farthing.Bool": """
from farthing import Bool, Float, Space

Space({"augment": Bool(), "strength": Float(0, 1, when={"augment": True})})
""",
    "farthing.Budget": """
from farthing import Budget

Budget("2h, $40")            # two limits
Budget({"s": 7200, "usd": 40})
Budget(40, "usd")
""",
    "farthing.Categorical": """
from farthing import Categorical, Float, Space

Space({"solver": Categorical(["adam", "sgd"]), "momentum": Float(0, 1, when={"solver": "sgd"})})
""",
    "farthing.FarthingError": """
from farthing import FarthingError, Float

try:
    Float(2, 1)
except FarthingError as error:      # the base class of all errors of Farthing
    print(error)
""",
    "farthing.Float": """
from farthing import Float

Float(1e-5, 1e-1, log=True)
Float(0, 1, cost="increases")       # larger values cost more
Float(0.1, 0.9, step=0.1)           # 0.1, 0.2, ..., 0.9
""",
    "farthing.History": """
from farthing import Float, minimize

result = minimize(lambda p: p["x"] ** 2, {"x": Float(-1, 1)}, "6 trials")
print(len(result.history), [trial.value for trial in result.history.done])
""",
    "farthing.Int": """
from farthing import Int

Int(1, 512, log=True)               # both ends included
Int(16, 512, step=16)               # 16, 32, ..., 512
""",
    "farthing.InvalidInput": """
from farthing import InvalidInput, minimize

try:
    minimize(lambda p: 0.0, {}, "3 trials")
except InvalidInput as error:
    print(error)
""",
    "farthing.Ledger": """
from farthing import Float, Optimizer

optimizer = Optimizer({"x": Float(0, 1)}, budget="$4")
trial = optimizer.ask()
optimizer.tell(trial, 0.5, cost=1.0)
print(optimizer.ledger.spent, optimizer.ledger["usd"].left)
""",
    "farthing.Optimizer": """
from farthing import Float, Optimizer

optimizer = Optimizer({"x": Float(0, 1)}, budget=10)
while not optimizer.verdict.stop:
    trial = optimizer.ask()
    optimizer.tell(trial, (trial.params["x"] - 0.3) ** 2, cost=1 + trial.params["x"])
print(optimizer.best.params)
""",
    "farthing.Ordinal": """
from farthing import Ordinal

Ordinal([16, 32, 64, 128], log=True)
Ordinal(["small", "medium", "large"])
""",
    "farthing.Outcome": """
from farthing import Float, Outcome, minimize

def train(p):
    if p["x"] > 0.9:
        return Outcome(failed="out of memory", cost=0.1)
    return Outcome((p["x"] - 0.3) ** 2, cost=0.5)

minimize(train, {"x": Float(0, 1)}, "$4")
""",
    "farthing.Result": """
from farthing import Float, minimize

result = minimize(lambda p: p["x"] ** 2, {"x": Float(-1, 1)}, "6 trials")
print(result.best.params, result.best.value, result.stop_reason)
""",
    "farthing.Settings": """
from farthing import Float, Settings

settings = Settings.of({"x": Float(0, 1)}, "$4", seed=1)
print(settings.policy)
""",
    "farthing.Space": """
from farthing import Categorical, Float, Space

space = Space({"rate": Float(1e-4, 1, log=True), "solver": Categorical(["adam", "sgd"])})
x = space.encode({"rate": 0.01, "solver": "sgd"})
print(x, space.decode(x))
table = Space.from_rows([{"a": 1, "b": 2}, {"a": 3, "b": 5}])     # a table of candidates
parameters = {"rate": Float(0, 1), "solver": Categorical(["adam", "sgd"]), "momentum": Float(0, 1)}
Space(parameters, allowed=[{"solver": "sgd", "momentum": 0.9}, {"solver": "adam"}])
""",
    "farthing.State": """
from farthing import Float, Ledger, Settings, State, suggest

settings = Settings.of({"x": Float(0, 1)}, 5)
suggestion = suggest(settings, State(Ledger.of(settings.budget)))  # a pure function
print(suggestion.proposal.because)
""",
    "farthing.Steps": """
from farthing import Float, Steps, minimize

def train(params, trial):
    for step in range(1, 9):
        if trial.report(step, (params["lr"] - 0.3) ** 2 + 1 / step) != "continue":
            return

steps = Steps(8, first=2, resume="never")
print(steps.decision_steps)         # (2, 4, 8)
print(minimize(train, {"lr": Float(0, 1)}, "5 trials", steps=steps).best.value)
""",
    "farthing.StopReason": """
from farthing import Float, minimize

reason = minimize(lambda p: p["x"] ** 2, {"x": Float(-1, 1)}, "6 trials").stop_reason
print(reason.kind)                  # "budget_spent"
print(reason)                       # the sentence
""",
    "farthing.Stopped": """
from farthing import Float, Optimizer, Stopped

optimizer = Optimizer({"x": Float(0, 1)}, "1 trials")
optimizer.tell(optimizer.ask(), 1.0)
try:
    optimizer.ask()
except Stopped as reason:
    print(reason)
""",
    "farthing.StorageError": """
from pathlib import Path

from farthing import StorageError, Study

Path("file-of-another-kind.txt").write_text("not a database " * 100)
try:
    Study.open("file-of-another-kind.txt", "first")
except StorageError as error:
    print(error)
""",
    "farthing.Study": """
from farthing import Float, Study

study = Study.create("studies.db", name="first", space={"x": Float(0, 1)}, budget="6 trials")
study.run(lambda p: (p["x"] - 0.3) ** 2)
print(Study.open("studies.db", "first").best.params)              # in another process
""",
    "farthing.Suggestion": """
from farthing import Float, Ledger, Settings, State, suggest

settings = Settings.of({"x": Float(0, 1)}, 5)
belief, proposal, verdict = suggest(settings, State(Ledger.of(settings.budget)))
print(verdict.stop, proposal.x)
""",
    "farthing.Trial": """
from farthing import Float, Optimizer

trial = Optimizer({"x": Float(0, 1)}, budget=10).ask()
print(trial.number, trial.params, trial.because)
""",
    "farthing.at_least": """
from farthing import Float, Int, Space, at_least

Space({"layers": Int(1, 4), "dropout": Float(0, 1, when={"layers": at_least(2)})})
""",
    "farthing.at_most": """
from farthing import Bool, Float, Space, at_most

Space({"rate": Float(1e-4, 1, log=True), "warm_up": Bool(when={"rate": at_most(0.01)})})
""",
    "farthing.between": """
from farthing import Bool, Ordinal, Space, between

Space({"batch": Ordinal([16, 32, 64, 128]), "fused": Bool(when={"batch": between(32, 64)})})
""",
    "farthing.maximize": """
from farthing import Float, maximize

result = maximize(lambda p: -(p["x"] - 0.3) ** 2, {"x": Float(0, 1)}, n_trials=8)
print(result.best_value)            # the largest value that the objective returned
""",
    "farthing.minimize": """
from farthing import Float, minimize

result = minimize(lambda p: (p["x"] - 0.3) ** 2, {"x": Float(0, 1)}, budget="8 trials")
minimize(lambda p: p["x"] ** 2, {"x": Float(-1, 1)}, n_trials=8, workers=2, policy="ei")
""",
    "farthing.suggest": """
from farthing import Float, Ledger, Settings, State, suggest

settings = Settings.of({"x": Float(0, 1)}, 5)
print(suggest(settings, State(Ledger.of(settings.budget))).proposal.because)
""",
    **{
        f"farthing.policies.{call.partition('(')[0]}": policy(call)
        for call in (
            *("EI()", "CArBO(share=0.2)", "CostEffectiveDesign()", "ConfidenceBound()"),
            *("ContextualEI(slack=0.5)", "Cooling()", "EIPerCost(alpha=0.3)", "Gittins()"),
            *("LatinHypercube()", "Random()", "Rollout(horizon=2)", "Sobol()", "Thompson()"),
        )
    },
    **{
        f"farthing.policies.{call.partition('(')[0]}": policy_by_steps(call)
        for call in (
            *("ASHA(eta=3)", "EIPerRemainingCost()", "Hyperband(eta=3)", "OneEpoch(share=0.5)"),
            "StagedGittins()",
        )
    },
    "farthing.policies.StartWith": """
from farthing import Float, minimize
from farthing.policies import EI, StartWith

known = StartWith([{"x": 0.25}], then=EI())
minimize(lambda p: (p["x"] - 0.3) ** 2, {"x": Float(0, 1)}, "7 trials", policy=known)
""",
    **{
        f"farthing.stopping.{call.partition('(')[0]}": rule(call)
        for call in (
            *("EIRatio(ratio=0.05, first=6)", "SmallImprovement(window=4)", "MaxTrials(7)"),
            *("OutOfBudget()", "ProbableRegret(within=0.5)", "RegretGap(within=0.5)"),
            *("RegretGapRatio(first=6)", "NoImprovement(window=4)", "Target(0.1)"),
            "after(6, NoImprovement(window=3))",
            "all_of(NoImprovement(window=3), MaxTrials(8))",
            "any_of(NoImprovement(window=4), MaxTrials(10))",
            "in_a_row(2, SmallImprovement(window=4))",
        )
    },
    "farthing.stopping.NotWorthIt": rule(
        "NotWorthIt(worth=0.01)", ',\n                  cost=lambda p: p["depth"]'
    ),
    **{
        f"farthing.cost.{call.partition('(')[0]}": learner(call)
        for call in (
            *("AutoCost()", 'Flops(lambda p: p["depth"])', "Linear(at_most=2)", "LogGP()"),
            *(
                "PointEstimate(LogGP())",
                "ResidualGP()",
                'SelectedGP(["depth"])',
                "SwitchingCost(LogGP())",
            ),
        )
    },
    "farthing.cost.Known": """
from farthing import Int, minimize
from farthing.cost import Known

minimize(lambda p: 1 / p["epochs"], {"epochs": Int(1, 30)}, "$9",
         cost=Known(lambda p: 0.1 * p["epochs"]))
""",
    "farthing.cost.Transfer": learner(
        "Transfer(table)",
        """
table = [{"lr": 0.01, "depth": d, "cost": 0.4 * d} for d in range(1, 9)]  # known costs
""",
    ),
    "farthing.cost.MLPFlops": """
from farthing import Int, Space
from farthing.cost import Flops, MLPFlops

Flops(MLPFlops(["width_1", "width_2"], inputs=64, outputs=10, times=["epochs"]))
""",
    "farthing.cost.CNNFlops": """
from farthing.cost import CNNFlops, Flops

Flops(CNNFlops(size=28, colours=1, kernel="kernel", channels=["channels"], times=["epochs"]))
""",
}


def public_names() -> list[str]:
    """The dotted names of everything public, except the interfaces for methods of a user."""
    return [
        f"{part}.{name}"
        for part, module in PARTS
        for name in sorted(module.__all__, key=str.lower)
        if not inspect.ismodule(thing := getattr(module, name)) and not _is_interface(thing)
    ]


def _is_interface(thing: object) -> bool:
    """Whether it is a protocol or an argument of one, for users who write their own methods."""
    return getattr(thing, "_is_protocol", False) or thing is cost.Evidence


def page() -> str:
    """The Markdown."""
    lines = [
        "# Every public name",
        "",
        "This page shows every public name with an example. It is generated from the docstrings by",
        "`python docs/make_names.py`. The tests run every example.",
        "",
    ]
    for part, module in PARTS:
        lines += [f"## {part}", "", (inspect.getdoc(module) or "").partition("\n\n")[0], ""]
        for dotted in public_names():
            owner, _, name = dotted.rpartition(".")
            if owner == part:
                lines += _entry(dotted, getattr(module, name))
        interfaces = [n for n in sorted(module.__all__) if _is_interface(getattr(module, n))]
        if interfaces:
            names = ", ".join(f"`{name}`" for name in interfaces)
            lines += [
                f"Interfaces for your own methods: {names} (`{part}`).",
                "",
            ]
    return "\n".join(lines).rstrip() + "\n"


def _entry(dotted: str, thing: object) -> list[str]:
    name = dotted.rpartition(".")[2]
    is_called = not (
        name in NOT_CALLED or (isinstance(thing, type) and issubclass(thing, Exception))
    )
    call = [f"`{name}{_arguments(thing)}`", ""] if is_called else []
    lines = [f"### {name}", "", *call, *_docstring(thing), ""]
    if name in WITH_METHODS:
        lines += [*_methods(thing), ""]
    return [*lines, "```python", EXAMPLES[dotted].strip("\n"), "```", ""]


def _arguments(thing: object) -> str:
    """The signature, without types and private parameters."""
    assert callable(thing)
    signature = inspect.signature(thing)
    bare = [
        parameter.replace(
            annotation=inspect.Parameter.empty,
            default=parameter.empty if "factory" in str(parameter.default) else parameter.default,
        )
        for parameter in signature.parameters.values()
        if not parameter.name.startswith("_")
    ]
    bare.sort(key=lambda p: (p.kind, p.default is not p.empty))
    return str(inspect.Signature(bare))


def _docstring(thing: object) -> list[str]:
    """The docstring: paragraphs unchanged, arguments as a list."""
    text = inspect.getdoc(thing) or ""
    found, listing = [], False
    for line in text.splitlines():
        if line in ("Args:", "Attributes:", "Returns:", "Raises:"):
            listing = True
            found += [f"*{line[:-1]}*", ""]
        elif listing and re.match(r"    \w[\w, *]*:", line):
            argument, _, description = line.strip().partition(":")
            found.append(f"- `{argument}`:{description}")
        elif line.startswith("    ") and not listing:
            found.append(line)  # a formula
        else:
            listing = listing and line.startswith(" ")
            found.append(f"  {line.strip()}" if listing else line)
    return found


def _methods(thing: object) -> list[str]:
    """The public methods and properties, one line each."""
    found = []
    for name, member in inspect.getmembers(thing):
        owned = inspect.isroutine(member) or isinstance(member, property)
        if name.startswith("_") or not owned or not inspect.getdoc(member):
            continue
        first = (inspect.getdoc(member) or "").partition("\n")[0]
        call = f"{name}" if isinstance(member, property) else f"{name}()"
        found.append(f"- `.{call}`: {first}")
    return found


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    print(f"wrote {PAGE.name}")
