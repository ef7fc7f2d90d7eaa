#!/usr/bin/env bash
# torchmetrics 1.9.0 with torch 2.13.0 and scikit-learn 1.9.1 (PyPI): MulticlassAUROC and
# MulticlassAveragePrecision, average="macro" (the default), where some classes have no test row.
# Guess: a class without rows is left out of the mean, as F1 and average precision do in the same
#   package; the setting thresholds=200, which saves memory, changes the third digit.
# Seen: AUROC counts such a class as 0, worse than any model. Exact, it warns that a true positive
#   rate of zero is meaningless, and takes it; with thresholds=200 it does not warn. Average
#   precision leaves the class out when exact, and counts it as 0 with thresholds=200.
# Wrong number: 5 of 20 classes absent: a macro AUROC of 0.65 for 0.87; an average precision of
#   0.34 for 0.46, depending on a setting for memory.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder/env"
"$folder/env/bin/pip" install -q --disable-pip-version-check torchmetrics==1.9.0 torch==2.13.0 \
    numpy==2.4.6 scipy==1.17.1 scikit-learn==1.9.1
"$folder/env/bin/python" - <<'EOF'
import warnings

import numpy as np
import torch
from sklearn.metrics import average_precision_score, roc_auc_score
from torchmetrics.classification import MulticlassAUROC, MulticlassAveragePrecision

draw = np.random.default_rng(0)
ROWS, CLASSES, PRESENT = 500, 20, 15
scores = draw.normal(size=(ROWS, CLASSES))
label = draw.integers(0, PRESENT, ROWS)
scores[np.arange(ROWS), label] += 1.5
probs = torch.softmax(torch.tensor(scores), 1)
found, warned = {}, {}
for metric, oracle in ((MulticlassAUROC, roc_auc_score),
                       (MulticlassAveragePrecision, average_precision_score)):
    right = np.mean([oracle(label == k, probs[:, k].numpy()) for k in range(PRESENT)])
    found[metric, "right"] = right
    print(f"{metric.__name__}: of the {PRESENT} classes by scikit-learn {right:.3f}")
    for thresholds in (None, 200):
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            value = metric(CLASSES, thresholds=thresholds)(probs, torch.tensor(label)).item()
        found[metric, thresholds], warned[metric, thresholds] = value, len(seen)
        print(f"  thresholds={thresholds}: {value:.3f}, {len(seen)} warnings")

for metric, thresholds in ((MulticlassAUROC, None), (MulticlassAUROC, 200),
                           (MulticlassAveragePrecision, 200)):
    expected = found[metric, "right"] * PRESENT / CLASSES
    assert abs(found[metric, thresholds] - expected) < 0.01
exact = MulticlassAveragePrecision, None
assert abs(found[exact] - found[MulticlassAveragePrecision, "right"]) < 0.001
assert warned[MulticlassAUROC, None] and not warned[MulticlassAUROC, 200]
EOF
