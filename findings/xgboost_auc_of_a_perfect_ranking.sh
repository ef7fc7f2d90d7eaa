#!/usr/bin/env bash
# XGBoost 3.2.0 (PyPI, its build without CUDA, xgboost-cpu), eval_metric="auc" of a ranking model
# (rank:pairwise, rank:ndcg, ...), rows in groups.
# Guess: the mean over the groups of the share of pairs, one relevant and one not, in right order:
#   1 for a perfect ranking, 0.5 for chance.
# Seen: pairs of two equal labels count as well, half of them as wrong. A perfect ranking of 20
#   rows with one relevant among them gets 0.54, with ten relevant 0.76. "aucpr" and "ndcg" beside
#   it say 1. The documentation says that pairs in right order are counted, and not this.
# Wrong number: a logged AUC of 0.54 where scikit-learn's, by group, is 1.00. Early stopping and
#   searches over this number follow the noise.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder/env"
"$folder/env/bin/pip" install -q --disable-pip-version-check xgboost-cpu==3.2.0 \
    numpy==2.4.6 scipy==1.17.1 scikit-learn==1.9.1
"$folder/env/bin/python" -W ignore - <<'EOF'
import numpy as np
import xgboost
from sklearn.metrics import roc_auc_score

draw = np.random.default_rng(0)
GROUPS, SIZE = 500, 20
for relevant, least, most in ((1, 0.5, 0.6), (10, 0.72, 0.82)):
    X = draw.normal(size=(GROUPS * SIZE, 2)).round(2)
    order = np.argsort(-X[:, 0].reshape(GROUPS, SIZE), 1)
    label = np.zeros((GROUPS, SIZE), int)
    np.put_along_axis(label, order[:, :relevant], 1, 1)
    rows = xgboost.DMatrix(X, label.ravel(), group=[SIZE] * GROUPS)
    log = {}
    model = xgboost.train(
        {"objective": "rank:pairwise", "eval_metric": ["auc", "aucpr", "ndcg"], "max_depth": 4,
         "nthread": 1}, rows, 60, evals=[(rows, "rows")], evals_result=log, verbose_eval=False)
    score = model.predict(rows).reshape(GROUPS, SIZE)
    right = np.mean([roc_auc_score(*group) for group in zip(label, score)])
    logged = {name: values[-1] for name, values in log["rows"].items()}
    # All pairs of a group, equal labels as a coin falls.
    mixed = relevant * (SIZE - relevant) / (SIZE * (SIZE - 1) / 2)
    expected = mixed * right + (1 - mixed) * 0.5
    print(f"{relevant} of {SIZE} relevant: scikit-learn {right:.3f}, XGBoost {logged}; "
          f"with pairs of equal labels as coins {expected:.3f}")
    assert right > 0.99 and logged["ndcg"] > 0.99 and logged["aucpr"] > 0.99
    assert least < logged["auc"] < most and abs(logged["auc"] - expected) < 0.04
EOF
