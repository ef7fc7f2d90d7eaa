#!/usr/bin/env bash
# venn-abers 1.5.4 (PyPI), VennAbersCalibrator with several classes.
# Guess: Venn-Abers predictors are calibrated by construction, so that a calibrated model stays
#   about as it is, also with 50 classes.
# Seen: that holds for two classes. With more, it calibrates each pair of classes and joins the
#   pairs, and each pair that says little about a row pulls towards 1/2. Of probabilities that are
#   exactly right (accuracy 0.97 to 1.00), the confidence falls to 0.84 with 10 classes, 0.61 with
#   20 and 0.24 with 50.
# Wrong number: a calibration error of 0.76 after calibration, 0.002 before; log loss 1.6 for
#   0.01. The answers stay the same, so the accuracy shows nothing.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder/env"
"$folder/env/bin/pip" install -q --disable-pip-version-check \
    venn-abers==1.5.4 scikit-learn==1.9.1 numpy==2.4.6 scipy==1.17.1 pandas==3.1.1
"$folder/env/bin/python" -W ignore - <<'EOF'
import numpy as np
from sklearn.metrics import log_loss
from venn_abers import VennAbersCalibrator


def calibration_error(p, y, bins=15):
    confidence, right = p.max(1), p.argmax(1) == y
    index = np.minimum((confidence * bins).astype(int), bins - 1)
    return abs(np.bincount(index, right - confidence, bins)).sum() / len(y)


draw = np.random.default_rng(0)
found = {}
for classes in (2, 5, 10, 20, 50):
    # Scores are normal, that of the true class is larger by `apart`: softmax(apart * scores) is
    # the exact posterior.
    apart = np.log(classes) + 1.5
    y = draw.integers(0, classes, 4_000)
    scores = draw.normal(size=(4_000, classes))
    scores[np.arange(4_000), y] += apart
    p = np.exp(apart * (scores - scores.max(1, keepdims=True)))
    p /= p.sum(1, keepdims=True)
    q = VennAbersCalibrator().predict_proba(p_cal=p[:2_000], y_cal=y[:2_000], p_test=p[2_000:])
    p, y = p[2_000:], y[2_000:]
    found[classes] = calibration_error(p, y), calibration_error(q, y)
    print(f"{classes} classes, accuracy {(q.argmax(1) == y).mean():.3f}: exact posterior, "
          f"confidence {p.max(1).mean():.3f}, calibration error {found[classes][0]:.3f}; "
          f"Venn-Abers {q.max(1).mean():.3f}, {found[classes][1]:.3f}, "
          f"log loss {log_loss(y, p):.3f} -> {log_loss(y, np.clip(q, 1e-12, 1)):.3f}", flush=True)

assert all(before < 0.02 for before, _ in found.values())
assert found[2][1] < 0.03
assert 0.08 < found[10][1] < found[20][1] < found[50][1] and found[50][1] > 0.6
EOF
