#!/usr/bin/env bash
# imodels 3.0.4 with scikit-learn 1.9.1 (PyPI; its import needs six, which it does not list).
# Guess: FIGSClassifier sums its trees to the probability of class 1, so that a leaf of 98 %
#   positives says 0.98.
# Seen: that sum s is what the trees are fitted to, but predict_proba returns
#   softmax([1 - s, s]) = sigmoid(2 s - 1): 0.27 for s = 0 and 0.73 for s = 1. Where every row
#   above a threshold is positive, the probability is 0.73.
# Wrong number: log loss 0.32 for 0.02, and "no patient above 75 % risk". predict and AUROC are
#   right. (logit(p) + 1) / 2 gives the share back.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder/env"
"$folder/env/bin/pip" install -q --disable-pip-version-check \
    imodels==3.0.4 scikit-learn==1.9.1 numpy==2.4.6 scipy==1.17.1 pandas==3.1.1 six==1.17.0
"$folder/env/bin/python" -W ignore - <<'EOF'
import numpy as np
from imodels import FIGSClassifier
from sklearn.metrics import log_loss
from sklearn.tree import DecisionTreeClassifier

draw = np.random.default_rng(0)
X = draw.normal(size=(8_000, 4))
y = (X[:, 0] > 0).astype(int)
y[draw.random(8_000) < 0.003] ^= 1  # three wrong labels in a thousand
train, test = slice(0, 4_000), slice(4_000, None)

figs = FIGSClassifier(max_rules=1).fit(X[train], y[train])
tree = DecisionTreeClassifier(max_depth=1).fit(X[train], y[train])
p = figs.predict_proba(X[test])[:, 1]
q = tree.predict_proba(X[test])[:, 1]
share = (np.log(p / (1 - p)) + 1) / 2
print("FIGS:", np.unique(p.round(3)), f"log loss {log_loss(y[test], p):.3f}")
print("the same tree in scikit-learn:", np.unique(q.round(3)), f"log loss {log_loss(y[test], q):.3f}")
print("largest distance of (logit(p) + 1) / 2 to it:", abs(share - q).max())

assert abs(p.max() - 1 / (1 + np.exp(1 - 2 * q.max()))) < 1e-6
assert p.max() < 0.74 and p.min() > 0.26
assert abs(share - q).max() < 1e-6
assert log_loss(y[test], p) > 0.3 > 0.05 > log_loss(y[test], q)
EOF
