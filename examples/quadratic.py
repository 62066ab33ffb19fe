"""The smallest study: a bowl whose points have different prices, and sixty dollars to spend.

The cost is not known beforehand: it comes with every value, and is learnt.
"""

from farthing import Float, Outcome, minimize

SPACE = {"x": Float(-10, 10), "y": Float(-10, 10)}


def bowl(params: dict) -> Outcome:
    """Lowest, 0, at (3, -1); the further to the right, the dearer."""
    x, y = params["x"], params["y"]
    return Outcome((x - 3) ** 2 + (y + 1) ** 2, cost=1.0 + (x + 10) / 5)


print(minimize(bowl, SPACE, budget="$60"))
