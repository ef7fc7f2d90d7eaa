#!/usr/bin/env bash
# fairlearn 0.15.0 (PyPI; numpy 2.4.6, pandas 3.1.1, scipy 1.17.1, scikit-learn 1.9.1):
# MetricFrame(..., n_boot=100, ci_quantiles=[0.025, 0.975]).difference_ci().
# Guess: the interval of 95 % for the difference between groups contains 0 for about 95 % of the
#   models that treat groups alike. That is what an audit reads from it.
# Seen: the difference is the largest minus the smallest group, never below 0, and each bootstrap
#   sample adds its own noise on top. The percentiles are all above 0, so that the interval never
#   contains it. For ratio_ci() the same with 1.
# Wrong number: a model that answers by chance has a difference of 0. With four groups and 1,000
#   rows the "95 %" interval is 0.03 to 0.16, and contains 0 in no audit. by_group_ci is right.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder/env"
"$folder/env/bin/pip" install -q --disable-pip-version-check \
    fairlearn==0.15.0 numpy==2.4.6 pandas==3.1.1 scipy==1.17.1 scikit-learn==1.9.1
"$folder/env/bin/python" -W ignore - <<'EOF'
import numpy as np
from fairlearn.metrics import MetricFrame, selection_rate

draw = np.random.default_rng(0)
ROWS, AUDITS, RATE = 1_000, 6, 0.5
for groups in (2, 4):
    difference, ratio, single = [], [], []
    for audit in range(AUDITS):
        group = draw.integers(0, groups, ROWS)
        answer = (draw.random(ROWS) < RATE).astype(int)
        frame = MetricFrame(metrics=selection_rate, y_true=answer, y_pred=answer,
                            sensitive_features=group, n_boot=100,
                            ci_quantiles=[0.025, 0.975], random_state=audit)
        difference.append(frame.difference_ci())
        ratio.append(frame.ratio_ci())
        low, high = (np.asarray(side, float) for side in frame.by_group_ci)
        single += list((low <= RATE) & (high >= RATE))
    difference, ratio = np.array(difference, float), np.array(ratio, float)
    none = np.mean(difference[:, 0] <= 0), np.mean(ratio[:, 1] >= 1)
    print(f"{groups} groups: difference {difference.mean(0).round(3)}, contains 0 in {none[0]}; "
          f"ratio {ratio.mean(0).round(3)}, contains 1 in {none[1]}; "
          f"by group contains the rate in {np.mean(single):.2f}", flush=True)
    assert none[0] <= 0.2 and none[1] <= 0.2 and np.mean(single) > 0.75
assert none == (0, 0) and 0.02 < difference[:, 0].mean() < 0.06
EOF
