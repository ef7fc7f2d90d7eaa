#!/usr/bin/env bash
# Orange 3.40.0 (PyPI: orange3), CalibratedLearner, which is the widget "Calibrated Learner".
# Guess: like scikit-learn's CalibratedClassifierCV it calibrates on rows that the model has not
#   been trained on.
# Seen: it fits the calibration to the model's predictions of its own training rows. A forest is
#   nearly always right there, so that the calibration makes it surer than before.
# Wrong number: a random forest whose log loss is 0.53 has 1.2 after "sigmoid" and 2.7 after
#   "isotonic" calibration, and a mean confidence of 0.94 and 0.95 at an accuracy of 0.74.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder/env"
"$folder/env/bin/pip" install -q --disable-pip-version-check \
    orange3==3.40.0 scikit-learn==1.9.1 numpy==2.3.5 scipy==1.17.1 pandas==2.3.3
"$folder/env/bin/python" -W ignore - <<'EOF'
import numpy as np
from Orange.classification import CalibratedLearner, RandomForestLearner
from Orange.data import ContinuousVariable, DiscreteVariable, Domain, Table
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import RandomForestClassifier
from sklearn.metrics import log_loss

draw = np.random.default_rng(0)
X = draw.normal(size=(4_000, 6))
y = (draw.random(4_000) < 1 / (1 + np.exp(-1.5 * X[:, 0] - X[:, 1]))).astype(int)
domain = Domain([ContinuousVariable(c) for c in "abcdef"], DiscreteVariable("y", ("0", "1")))
table = Table.from_numpy(domain, X, y[:, None])
train, test, truth = table[:2_000], table[2_000:], y[2_000:]

forest = RandomForestLearner(n_estimators=100, random_state=0)
learners = {
    "plain": forest,
    "sigmoid": CalibratedLearner(forest, CalibratedLearner.Sigmoid),
    "isotonic": CalibratedLearner(forest, CalibratedLearner.Isotonic),
}
loss, confidence = {}, {}
for name, learner in learners.items():
    p = learner(train)(test, 1)[:, 1]
    loss[name] = log_loss(truth, np.clip(p, 1e-6, 1 - 1e-6))
    confidence[name] = np.maximum(p, 1 - p).mean()
    print(f"Orange, {name}: log loss {loss[name]:.3f}, confidence {confidence[name]:.3f}, "
          f"accuracy {((p > 0.5) == truth).mean():.3f}")
peer = CalibratedClassifierCV(RandomForestClassifier(100, random_state=0), method="sigmoid")
p = peer.fit(X[:2_000], y[:2_000]).predict_proba(X[2_000:])[:, 1]
print(f"scikit-learn, sigmoid by cross-validation: log loss {log_loss(truth, p):.3f}")

assert loss["plain"] < 0.6 and loss["sigmoid"] > 0.9 and loss["isotonic"] > 1.5
assert confidence["plain"] < 0.8 < 0.9 < confidence["isotonic"]
assert log_loss(truth, p) < loss["plain"]
EOF
