#!/usr/bin/env bash
# scikit-learn-intelex 2026.2.0 (PyPI; scikit-learn 1.9.1, numpy 2.4.6), which puts faster estimators
# in the place of scikit-learn's: RandomForestClassifier and RandomForestRegressor.
# Guess: fit() starts anew: predictions are those of the last fit, as scikit-learn promises.
# Seen: a fit with sample_weight (and bootstrap, the default) is handed to scikit-learn's forest, but
#   predict and predict_proba go on answering by the forest of an earlier fit without weights, of
#   other rows and other labels, without a warning. So a loop that fits, weights the rows by what it
#   got wrong and fits again never sees its new model. The package's extra trees and scikit-learn's
#   own forests answer by the last fit. A new object or clone() helps.
# Wrong number: after labels are turned round between two fits, accuracy 0.09 for 0.91.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder/env"
"$folder/env/bin/pip" install -q --disable-pip-version-check scikit-learn-intelex==2026.2.0 \
    scikit-learn==1.9.1 numpy==2.4.6
OMP_NUM_THREADS=1 "$folder/env/bin/python" -W ignore - <<'EOF'
import numpy as np
from sklearn import ensemble as plain
from sklearn.base import clone
from sklearnex import ensemble as faster

draw = np.random.default_rng(0)
rows = draw.normal(size=(3000, 5))
first = (draw.random(3000) < 1 / (1 + np.exp(-5 * rows[:, 0]))).astype(int)
second = 1 - first
weight = np.ones(3000)


def accuracy(forest):
    return ((forest.predict(rows) > 0.5) == second).mean()


stale = []
for package in (faster, plain):
    for name in ("RandomForestClassifier", "RandomForestRegressor", "ExtraTreesClassifier"):
        forest = getattr(package, name)(100, max_depth=4, random_state=0)
        assert package is plain or type(forest).__module__.startswith("sklearnex")
        fresh = accuracy(clone(forest).fit(rows, second, sample_weight=weight))
        before = accuracy(forest.fit(rows, first))
        again = accuracy(forest.fit(rows, second, sample_weight=weight))
        cloned = accuracy(clone(forest).fit(rows, second, sample_weight=weight))
        print(f"{package.__name__:18} {name:23} accuracy on its labels: {again:.3f}, "
              f"new object {fresh:.3f}, clone {cloned:.3f}")
        assert cloned == fresh > 0.85 and before < 0.15
        if again == before:
            stale.append((package, name))
        else:
            assert again == fresh
assert stale == [(faster, "RandomForestClassifier"), (faster, "RandomForestRegressor")]
EOF
