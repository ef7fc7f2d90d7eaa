#!/usr/bin/env bash
# OpenCV 4.14.0 (PyPI: opencv-python-headless 4.14.0.94), cv2.ml.NormalBayesClassifier, with
# scikit-learn 1.9.1.
# Guess: predictProb returns the posterior of each class: rows sum to one and the classes' shares
#   in the training rows are the prior, as in quadratic discriminant analysis.
# Seen: rows sum to anything (here 0.000 to 1.9); they are densities up to a factor. There is no
#   prior: training shares of 80, 10 and 10 % change nothing. After dividing by the sum, they are
#   the posterior of a flat prior.
# Wrong number: 62 % of the rows answered with the common class that has 80 %, accuracy 0.69 for
#   0.83; and a mean "confidence" of 0.30 that is no probability.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder/env"
"$folder/env/bin/pip" install -q --disable-pip-version-check \
    opencv-python-headless==4.14.0.94 scikit-learn==1.9.1 numpy==2.4.6 scipy==1.17.1
"$folder/env/bin/python" - <<'EOF'
import cv2
import numpy as np
from sklearn.discriminant_analysis import QuadraticDiscriminantAnalysis

draw = np.random.default_rng(0)
y = draw.choice(3, 6_000, p=[0.8, 0.1, 0.1]).astype(np.int32)
X = (draw.normal(size=(6_000, 4)) + y[:, None] * [1, 0, 0.5, 0]).astype(np.float32)
train, test = slice(0, 3_000), slice(3_000, None)

model = cv2.ml.NormalBayesClassifier_create()
model.train(X[train], cv2.ml.ROW_SAMPLE, y[train])
_, answer, p = model.predictProb(X[test])
answer = answer.ravel()
flat = QuadraticDiscriminantAnalysis(priors=[1 / 3] * 3).fit(X[train], y[train])
with_prior = QuadraticDiscriminantAnalysis().fit(X[train], y[train])
sums = p.sum(1)
accuracy = {
    "OpenCV": (answer == y[test]).mean(),
    "flat prior": flat.score(X[test], y[test]),
    "training prior": with_prior.score(X[test], y[test]),
}
apart = abs(p / sums[:, None] - flat.predict_proba(X[test])).mean()
print(f"rows sum to {sums.min():.3f} ... {sums.max():.3f}; mean largest value {p.max(1).mean():.3f}")
print(f"answers with class 0: {(answer == 0).mean():.3f}; its share: {(y[test] == 0).mean():.3f}")
print("accuracy", {k: round(float(v), 3) for k, v in accuracy.items()})
print(f"divided by their sum, mean distance to a flat prior's posterior: {apart:.4f}")

assert sums.min() < 0.2 and sums.max() > 1.1
assert (answer == p.argmax(1)).all()
assert (answer == 0).mean() < (y[test] == 0).mean() - 0.1
assert accuracy["training prior"] - accuracy["OpenCV"] > 0.08
assert apart < 0.02
EOF
