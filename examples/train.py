"""One evaluation for `farthing run`: gradient boosting on scikit-learn's digits.

    farthing run --budget 10m --param lr=float:1e-3:1:log --param depth=int:1:16 \\
        -- python examples/train.py --lr {lr} --depth {depth}

Farthing reads the value from the last line that this program prints, and measures its time.
"""

import argparse
import json

from sklearn.datasets import load_digits
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.model_selection import cross_val_score

parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float, default=0.1)
parser.add_argument("--depth", type=int, default=4)
given = parser.parse_args()
model = HistGradientBoostingClassifier(
    learning_rate=given.lr, max_depth=given.depth, random_state=0
)
score = cross_val_score(model, *load_digits(return_X_y=True), scoring="neg_log_loss", cv=3)
print(json.dumps({"value": -score.mean()}))
