#!/usr/bin/env bash
# SurvivalEVAL 0.9.0 (PyPI), d_calibration and one_calibration, 500 subjects.
# Guess: with true survival curves the tests reject in 5 % of samples; curves whose times are 30 %
#   too long are rejected nearly always, censored or not.
# Seen: d_calibration spreads a censored subject evenly over the bins that are left, as if the
#   model were right. With 61 % censored it never rejects true curves and rejects the wrong ones
#   in about 15 % of samples (97 % without censoring). one_calibration rejects true curves in some
#   13 %: it takes bins - 2 degrees of freedom, which is for models fitted to the same rows.
# Wrong number: "D-calibrated, p = 0.9" for a model whose times are 30 % too long; and a right
#   model called miscalibrated two to three times as often as stated.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder/env"
"$folder/env/bin/pip" install -q --disable-pip-version-check survivaleval==0.9.0 \
    lifelines==0.30.3 torch==2.13.0 numpy==2.4.6 scipy==1.17.1 pandas==2.3.3
"$folder/env/bin/python" -W ignore - <<'EOF'
import numpy as np
from SurvivalEVAL import SurvivalEvaluator

grid = np.linspace(0, 60, 241)


def p_values(too_long, censoring, seed, n=500):
    draw = np.random.default_rng(seed)
    mean = 10 * np.exp(-0.7 * draw.normal(size=n))
    event = draw.exponential(mean)
    end = np.minimum(draw.exponential(censoring, n), 59.9)
    time, observed = np.maximum(np.minimum(event, end), 1e-3), (event <= end).astype(int)
    curves = np.exp(-grid / (too_long * mean[:, None]))
    judge = SurvivalEvaluator(curves, grid, time, observed, time, observed)
    return judge.d_calibration()[0], judge.one_calibration(5.0)[0], 1 - observed.mean()


found = {}
for too_long in (1, 1.3):
    for censoring in (1e9, 6):
        values = np.array([p_values(too_long, censoring, seed) for seed in range(150)])
        d, one = (values[:, :2] < 0.05).mean(0)
        found[too_long, censoring > 100] = d, one
        print(f"times {too_long} x true, {values[:, 2].mean():.0%} censored: rejected by "
              f"D-calibration {d:.0%} (median p {np.median(values[:, 0]):.2f}), "
              f"1-calibration {one:.0%}", flush=True)

assert found[1, True][0] < 0.1 and found[1.3, True][0] > 0.9
assert found[1, False][0] < 0.01 and found[1.3, False][0] < 0.3
assert found[1, True][1] > 0.075 and found[1, False][1] > 0.075
EOF
