#!/usr/bin/env bash
# aeon 1.6.0 with scikit-learn 1.9.1 (PyPI): predict_proba of RocketClassifier and
# MiniRocketClassifier with their defaults.
# Guess: graded probabilities as of any classifier with predict_proba; or none at all, as of the
#   RidgeClassifierCV within, which has no predict_proba.
# Seen: it returns 1 for the class that is answered and 0 for the others, in every row, without a
#   warning.
# Wrong number: a mean confidence of 1.00 at an accuracy of 0.69, a log loss of 11, an AUROC of
#   0.68 where the scores of the same model have 0.76. With estimator=LogisticRegression() it is
#   graded: log loss 0.6.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder/env"
"$folder/env/bin/pip" install -q --disable-pip-version-check aeon==1.6.0 scikit-learn==1.9.1 \
    numpy==2.3.5 scipy==1.17.1 pandas==3.0.6 numba==0.63.1
"$folder/env/bin/python" -W ignore - <<'EOF'
import numpy as np
from aeon.classification.convolution_based import MiniRocketClassifier, RocketClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss, roc_auc_score

draw = np.random.default_rng(0)
time = np.linspace(0, 6, 60)


def sample(rows):
    labels = draw.integers(0, 2, rows)
    shape = np.where(labels[:, None], np.sin(2 * time), np.sin(2 * time + 0.6))
    return (shape + 2 * draw.normal(size=(rows, 60)))[:, None, :], labels


series, labels = sample(200)
new, truth = sample(500)
models = {
    "Rocket": RocketClassifier(n_kernels=500, random_state=0),
    "MiniRocket": MiniRocketClassifier(n_kernels=500, random_state=0),
    "Rocket, logistic": RocketClassifier(
        n_kernels=500, random_state=0, estimator=LogisticRegression(C=1e-3)
    ),
}
for name, model in models.items():
    p = model.fit(series, labels).predict_proba(new)
    accuracy, loss = (p.argmax(1) == truth).mean(), log_loss(truth, p)
    area = roc_auc_score(truth, p[:, 1])
    print(f"{name}: accuracy {accuracy:.2f}, mean confidence {p.max(1).mean():.2f},"
          f" log loss {loss:.1f}, AUROC {area:.2f}, different values {len(np.unique(p))}")
    if name == "Rocket, logistic":
        assert len(np.unique(p)) > 100
    else:
        scores = model.pipeline_.decision_function(new)
        print(f"  AUROC of its own scores: {roc_auc_score(truth, scores):.2f}")
        assert set(np.unique(p)) == {0.0, 1.0} and accuracy < 0.85 and loss > 5
        assert roc_auc_score(truth, scores) > area + 0.04
EOF
