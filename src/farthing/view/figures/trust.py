"""The trust in each earlier study, from trial to trial."""

from __future__ import annotations

from farthing.core.settings import Settings
from farthing.core.state import State
from farthing.view.learnt import trust_over_time
from farthing.view.primitives import (
    Figure,
    Layer,
    Line,
    Panel,
    Points,
    axis,
    shown_number,
    thinned,
    visible,
)

__all__ = ["trust"]

STYLES = ("best", "second", "third", "fourth")  # of the most trusted sources; "other" of the rest


def trust(settings: Settings, state: State) -> Figure:
    """Draw the trust in each source when each trial was suggested."""
    name, title = "trust", "Trust in earlier studies"
    found = trust_over_time(state)
    if not found:
        why = "No trial has been suggested with earlier studies. Give them in learn_from."
        return Figure(name, title, (), "", why)
    ranked = sorted(found, key=lambda source: (-found[source][-1][1], source))
    layers: list[Layer] = []
    for k, source in reversed(list(enumerate(ranked))):
        some = [found[source][i] for i in thinned(len(found[source]))]
        numbers, trusts = (tuple(map(float, each)) for each in zip(*some, strict=True))
        own = k < len(STYLES)
        style, label = STYLES[k] if own else "other", visible(source, 40) if own else ""
        texts = tuple(f"trial {n}: trust {t:.2f} in {visible(source, 40)}" for n, t in some)
        layers.append(Line(numbers, trusts, style))
        layers.append(Points(numbers, trusts, style, label, texts=texts, size=0.7))
    last = max(number for points in found.values() for number, _ in points)
    x = axis("trial", (0.0, float(last)), resource="trials", zero=True)  # whole numbers
    x = x._replace(ticks=tuple((at, shown_number(at)) for at, _ in x.ticks))
    panel = Panel(x, axis("trust", (0.0, 1.0), zero=True), tuple(layers))
    more = len(ranked) - len(STYLES)
    others = f" The {more} least trusted are grey." if more > 0 else ""
    caption = (
        "How far the model trusted each source when a trial was suggested: 0 is not at all, 1 "
        f"fully. It learns this from how well a source orders the values seen here.{others}"
    )
    return Figure(name, title, (panel,), caption)
