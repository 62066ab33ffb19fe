"""The smallest study: a quadratic bowl whose points differ in cost, and a budget of 60 dollars.

The cost is not known in advance. The objective returns it with each value, and Farthing learns it.
"""

from farthing import Float, Outcome, minimize

SPACE = {"x": Float(-10, 10), "y": Float(-10, 10)}


def bowl(params: dict) -> Outcome:
    """The minimum is 0 at (3, -1); the cost increases with x."""
    x, y = params["x"], params["y"]
    return Outcome((x - 3) ** 2 + (y + 1) ** 2, cost=1.0 + (x + 10) / 5)


print(minimize(bowl, SPACE, budget="$60"))
