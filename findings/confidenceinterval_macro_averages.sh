#!/usr/bin/env bash
# confidenceinterval 1.0.5 (PyPI; numpy 2.4.6, scikit-learn 1.9.1): f1_score, precision_score and
# recall_score with average="macro", which return the score and its interval, by default analytic.
# Guess: an interval of 95 % covers the truth in 93 to 97 % of samples of 500 rows.
# Seen: its standard error is not that of the score. Three equally frequent classes: the interval
#   of F1 is nearly twice as wide as it should be. Two classes, 5 % positives: that of precision
#   has two thirds of it. The delta method, from the same table of counts, is right.
# Wrong number: an interval "of 95 %" for macro precision that covers 80 %; one for macro F1 that
#   covers every time, so that a real difference of two models goes unseen.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder/env"
"$folder/env/bin/pip" install -q --disable-pip-version-check confidenceinterval==1.0.5 \
    numpy==2.4.6 scipy==1.17.1 scikit-learn==1.9.1 pandas==3.1.1
"$folder/env/bin/python" -W ignore - <<'EOF'
import confidenceinterval
import numpy as np

draw = np.random.default_rng(0)
RUNS, ROWS = 400, 500


def rare(rows):
    truth = (draw.random(rows) < 0.05).astype(int)
    return truth, (draw.normal(size=rows) + 1.5 * truth > 1.84).astype(int)


def even(rows):
    truth = draw.integers(0, 3, rows)
    return truth, np.where(draw.random(rows) < 0.8, truth, draw.integers(0, 3, rows))


def table(truth, answer, classes):
    return np.bincount(truth * classes + answer, minlength=classes**2).reshape(classes, classes)


def precision(shares):
    return np.mean(np.diag(shares) / shares.sum(0))


def f1(shares):
    return np.mean(2 * np.diag(shares) / (shares.sum(0) + shares.sum(1)))


def delta(score, shares, rows):
    """The standard error of the score by the delta method, with numerical slopes."""
    steps = np.eye(shares.size).reshape(-1, *shares.shape) * 1e-6
    slopes = np.array([(score(shares + s) - score(shares - s)) / 2e-6 for s in steps])
    cells = shares.ravel()
    return np.sqrt((cells @ slopes**2 - (cells @ slopes) ** 2) / rows)


cases = (("precision", rare, 2, precision, confidenceinterval.precision_score),
         ("F1", even, 3, f1, confidenceinterval.f1_score))
for name, sample, classes, score, tool in cases:
    truth = score(table(*sample(2_000_000), classes))
    covered, right, ratio = [], [], []
    for _ in range(RUNS):
        labels, answers = sample(ROWS)
        value, (low, high) = tool(labels.tolist(), answers.tolist(), average="macro")
        shares = table(labels, answers, classes) / ROWS
        assert abs(value - score(shares)) < 1e-9
        error = delta(score, shares, ROWS)
        covered.append(low <= truth <= high)
        right.append(abs(value - truth) <= 1.96 * error)
        ratio.append((high - low) / 3.92 / error)
    print(f"macro {name}: covers {np.mean(covered):.3f}, the delta method {np.mean(right):.3f}; "
          f"width by that of the delta method {np.median(ratio):.2f}")
    assert np.mean(right) > 0.91
    if name == "F1":
        assert np.mean(covered) > 0.99 and np.median(ratio) > 1.6
    else:
        assert np.mean(covered) < 0.85 and np.median(ratio) < 0.8
EOF
