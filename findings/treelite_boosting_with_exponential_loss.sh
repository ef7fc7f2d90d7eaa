#!/usr/bin/env bash
# treelite 4.8.1 (PyPI) with scikit-learn 1.9.1, numpy 2.4.6, scipy 1.17.1:
# treelite.sklearn.import_model(GradientBoostingClassifier(loss="exponential")), treelite.gtil.
# Guess: a converted model keeps predict_proba to 1e-6, or conversion is refused. It keeps it for
#   loss="log_loss", for forests, for HistGradientBoosting, also with missing values.
# Seen: with the exponential loss (AdaBoost's) the probability of a score s is sigmoid(2 s).
#   treelite says sigmoid(s): each logit is half as large. No label changes, so that accuracy and
#   AUC cannot show it.
# Wrong number: of new rows with a probability above 0.9, 0.99 in the mean, treelite says 0.92: one
#   expects six times as many errors among them. The log loss is 0.180 for 0.169.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder/env"
"$folder/env/bin/pip" install -q --disable-pip-version-check \
    treelite==4.8.1 scikit-learn==1.9.1 numpy==2.4.6 scipy==1.17.1
"$folder/env/bin/python" -W ignore - <<'EOF'
import numpy as np
import treelite
from sklearn.ensemble import GradientBoostingClassifier
from sklearn.metrics import log_loss, roc_auc_score

draw = np.random.default_rng(0)
X = draw.normal(size=(4_000, 6)).astype(np.float32)
y = (X[:, 0] + X[:, 1] + 0.3 * draw.normal(size=4_000) > 0.5).astype(int)
new = np.arange(4_000) >= 2_000
found = {}
for loss in ("log_loss", "exponential"):
    model = GradientBoostingClassifier(loss=loss, random_state=0).fit(X[~new], y[~new])
    right = model.predict_proba(X[new])[:, 1]
    given = treelite.gtil.predict(treelite.sklearn.import_model(model), X[new]).ravel()
    sure = right > 0.9
    found[loss] = {
        "largest difference": np.abs(given - right).max(),
        "log loss": log_loss(y[new], given), "of scikit-learn": log_loss(y[new], right),
        "sure rows": given[sure].mean(), "in scikit-learn": right[sure].mean(),
        "labels changed": np.mean((given > 0.5) != (right > 0.5)),
        "AUC changed": abs(roc_auc_score(y[new], given) - roc_auc_score(y[new], right)),
    }
    print(loss, {name: round(float(value), 4) for name, value in found[loss].items()})
    if loss == "exponential":
        logits = [np.log(p / (1 - p)) for p in (given, right)]
        assert np.allclose(2 * logits[0], logits[1])

assert found["log_loss"]["largest difference"] < 1e-6
wrong = found["exponential"]
assert wrong["largest difference"] > 0.1 and wrong["log loss"] > wrong["of scikit-learn"] + 0.005
assert wrong["sure rows"] < 0.94 < 0.98 < wrong["in scikit-learn"]
assert wrong["labels changed"] < 1e-3 and wrong["AUC changed"] < 1e-4
EOF
