#!/usr/bin/env bash
# scikit-learn 1.9.1 (PyPI), AdaBoostClassifier on its ten handwritten digits.
# Guess: predict_proba is what its documentation says, the weighted mean of the trees'
#   probabilities: above 0.5 in most rows where nearly all answers are right.
# Seen: it is a softmax of the share of votes divided by the number of classes less one. With K
#   classes the most that it can say is 1 / (1 + (K - 1) exp(-K / (K - 1)^2)): 0.112 for ten, 0.881
#   for two, with any number of trees. The order of the classes is right.
# Wrong number: accuracy 0.97 with a mean confidence of 0.11, a log loss of 2.25 where knowing
#   nothing has 2.30. The weighted mean of the same trees has 0.69. A rule "at least 0.5" never
#   fires.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder/env"
"$folder/env/bin/pip" install -q --disable-pip-version-check scikit-learn==1.9.1 \
    numpy==2.4.6 scipy==1.17.1
"$folder/env/bin/python" -W ignore - <<'EOF'
import numpy as np
from sklearn.datasets import load_digits
from sklearn.ensemble import AdaBoostClassifier
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split
from sklearn.tree import DecisionTreeClassifier

assert "weighted mean predicted class probabilities" in " ".join(
    AdaBoostClassifier.predict_proba.__doc__.split()
)
rows, digits = load_digits(return_X_y=True)
found = {}
for name, labels in {"ten digits": digits, "even or odd": digits % 2}.items():
    X, X_new, y, y_new = train_test_split(rows, labels, random_state=0, test_size=0.5)
    tree = DecisionTreeClassifier(max_depth=6 if name == "ten digits" else 1)
    model = AdaBoostClassifier(tree, n_estimators=100, random_state=0).fit(X, y)
    p = model.predict_proba(X_new)
    mean = np.average(
        [t.predict_proba(X_new) for t in model.estimators_],
        axis=0,
        weights=model.estimator_weights_,
    )
    K = len(model.classes_)
    limit = 1 / (1 + (K - 1) * np.exp(-K / (K - 1) ** 2))
    found[K] = model.score(X_new, y_new), p.max(axis=1).mean(), p.max(), log_loss(y_new, p)
    print(f"{name}: accuracy {found[K][0]:.3f}, mean confidence {found[K][1]:.3f},",
          f"largest {found[K][2]:.3f} of at most {limit:.3f}, log loss {found[K][3]:.2f}")
    print(f"  weighted mean of the trees: accuracy {(mean.argmax(1) == y_new).mean():.3f},",
          f"mean confidence {mean.max(axis=1).mean():.3f}, log loss {log_loss(y_new, mean):.2f}")
    assert p.max() <= limit + 1e-9
    if K == 10:
        assert found[K][0] > 0.95 and p.max() < 0.112 and found[K][3] > 2.2
        assert log_loss(y_new, mean) < 0.8
assert found[2][0] > 0.9 and found[2][2] < 0.881
EOF
