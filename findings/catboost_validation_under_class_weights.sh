#!/usr/bin/env bash
# CatBoost 1.2.10 with scikit-learn 1.9.1 (PyPI), auto_class_weights="Balanced" and an eval_set.
# Guess: class weights change what is learned; the metrics on the validation rows, which pick the
#   iteration and end up in best_score_, are of the rows as they are.
# Seen: they are weighted by the class weights too, all but AUC. predict and score() are not. For
#   the same model precision is 0.78 in best_score_ and 0.25 in truth, the area under the
#   precision-recall curve 0.81 for 0.34.
# Wrong number: a model of a rare event (9 %) published with precision 0.78, F1 0.70, PRAUC 0.81.
#   It is a validation metric on a data set in which half of the rows are positive.
#   eval_metric="F1:use_weights=false" is right.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder/env"
"$folder/env/bin/pip" install -q --disable-pip-version-check catboost==1.2.10 \
    scikit-learn==1.9.1 numpy==2.4.6 scipy==1.17.1 pandas==3.1.1
cd "$folder"
"$folder/env/bin/python" - <<'EOF'
import numpy as np
from catboost import CatBoostClassifier
from sklearn import metrics

draw = np.random.default_rng(0)
X = draw.normal(size=(6_000, 5))
y = (draw.random(6_000) < 1 / (1 + np.exp(3.2 - 1.5 * X[:, 0]))).astype(int)
train, held = slice(0, 3_000), slice(3_000, None)
found = {}
for name in ("Precision", "F1", "PRAUC", "BrierScore", "AUC", "F1:use_weights=false"):
    model = CatBoostClassifier(
        iterations=100, auto_class_weights="Balanced", eval_metric=name, random_seed=0, verbose=0)
    model.fit(X[train], y[train], eval_set=(X[held], y[held]), use_best_model=False)
    shown = model.get_evals_result()["validation"]
    found[name] = next(v for k, v in shown.items() if k.startswith(name.split(":")[0]))[-1]
p = model.predict_proba(X[held])[:, 1]
truth = {
    "Precision": metrics.precision_score(y[held], p > 0.5),
    "F1": metrics.f1_score(y[held], p > 0.5),
    "PRAUC": metrics.average_precision_score(y[held], p),
    "BrierScore": metrics.brier_score_loss(y[held], p),
    "AUC": metrics.roc_auc_score(y[held], p),
}
truth["F1:use_weights=false"] = truth["F1"]
for name, value in found.items():
    print(f"{name}: CatBoost's validation {value:.3f}, scikit-learn on the same rows {truth[name]:.3f}")

assert found["Precision"] > 0.7 > 0.3 > truth["Precision"]
assert found["F1"] > 0.65 > 0.4 > truth["F1"]
assert found["PRAUC"] > 0.75 > 0.4 > truth["PRAUC"]
assert found["BrierScore"] > truth["BrierScore"] + 0.03
assert abs(found["AUC"] - truth["AUC"]) < 0.002
assert abs(found["F1:use_weights=false"] - truth["F1"]) < 0.01
EOF
