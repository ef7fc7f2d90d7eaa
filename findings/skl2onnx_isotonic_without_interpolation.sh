#!/usr/bin/env bash
# skl2onnx 1.20.0 (PyPI; scikit-learn 1.9.1, onnxruntime 1.32.0): a model under
# CalibratedClassifierCV(method="isotonic").
# Guess: the file keeps predict_proba to 1e-6, as it does for method="sigmoid", or it is refused.
# Seen: scikit-learn draws lines between the points of the isotonic fit; the file takes the value
#   of the nearest point. The better the model, the fewer points and the wider the gaps: with 100
#   rows and an accuracy of 99 %, 5 % of the rows change by more than 0.1, thousands of different
#   probabilities become six, and more of them are 0 and 1.
# Wrong number: a log loss of 0.17 in production for 0.05; wrong answers that are "certain", which
#   hardly occurred, are ten times as frequent.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder/env"
"$folder/env/bin/pip" install -q --disable-pip-version-check skl2onnx==1.20.0 onnx==1.23.2 \
    onnxruntime==1.32.0 scikit-learn==1.9.1 numpy==2.4.6 scipy==1.17.1
"$folder/env/bin/python" -W ignore - <<'EOF'
import numpy as np
import onnxruntime
from sklearn.calibration import CalibratedClassifierCV
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from skl2onnx import to_onnx

ROWS = 100


def compare(method, seed):
    draw = np.random.default_rng(seed)
    truth = draw.integers(0, 2, ROWS + 10_000)
    X = draw.normal(size=(len(truth), 4)) + 2.5 * np.outer(truth, [1.5, 0.75, 0.75, 0])
    X, test = X.astype(np.float32), truth[ROWS:]
    model = CalibratedClassifierCV(LogisticRegression(), method=method, cv=5)
    model.fit(X[:ROWS], truth[:ROWS])
    file = to_onnx(model, X[:1], options={"zipmap": False}).SerializeToString()
    before = model.predict_proba(X[ROWS:].astype(float))
    after = onnxruntime.InferenceSession(file).run(None, {"X": X[ROWS:]})[1].astype(float)
    apart = np.abs(before - after).max(1)
    each = [[log_loss(test, p), np.mean(p[np.arange(len(p)), test] <= 0),
             len(np.unique(p[:, 1].round(6)))] for p in (before, after)]
    return each, np.mean(before.argmax(1) == test), apart.max(), np.mean(apart > 0.1)


for method in ("sigmoid", "isotonic"):
    each, accuracy, furthest, changed = map(np.array, zip(*[compare(method, s) for s in range(12)]))
    (loss, zero, values), (loss_file, zero_file, values_file) = np.median(each, 0)
    print(f"{method}, 12 models of accuracy {accuracy.mean():.3f}: log loss {loss:.3f}, in the file "
          f"{loss_file:.3f}; the true class had 0 in {zero:.4f}, {zero_file:.4f} of the rows; "
          f"values {values:.0f}, {values_file:.0f}; furthest apart {np.median(furthest):.2g}; "
          f"changed by more than 0.1: {np.median(changed):.3f}")
    if method == "sigmoid":
        assert furthest.max() < 1e-5
    else:
        assert np.median(furthest) > 0.2 and np.median(changed) > 0.02
        assert values > 1_000 and values_file < 20 and zero_file > 3 * zero
        assert loss_file > 2 * loss
EOF
