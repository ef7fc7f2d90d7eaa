#!/usr/bin/env bash
# mlforecast 1.1.0 (PyPI; numpy 2.4.6, pandas 2.3.3, scikit-learn 1.9.1): conformal intervals of
# forecasts, PredictionIntervals() with its defaults, predict(level=[80, 95]).
# Guess: level 95 covers 95 %, or it is refused: with n scores no conformal interval of the plain
#   kind can promise more than n / (n + 1).
# Seen: each series has one score for each of n_windows windows, 2 by default. The interval is a
#   quantile interpolated between them, without the correction for their number and without a
#   warning. White noise, the easiest case there is: "95 %" covers 66 %, "80 %" 61 %. With 20
#   windows it is 91 %.
# Wrong number: intervals of 95 % that miss every third time.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder/env"
"$folder/env/bin/pip" install -q --disable-pip-version-check mlforecast==1.1.0 \
    coreforecast==0.0.20 utilsforecast==0.2.17 numpy==2.4.6 scipy==1.17.1 pandas==2.3.3 \
    scikit-learn==1.9.1
"$folder/env/bin/python" -W ignore - <<'EOF'
import numpy as np
import pandas as pd
from mlforecast import MLForecast
from mlforecast.utils import PredictionIntervals
from sklearn.linear_model import LinearRegression

draw = np.random.default_rng(0)
SERIES, LENGTH = 1_000, 60
table = pd.DataFrame({
    "unique_id": np.repeat(np.arange(SERIES), LENGTH + 1),
    "ds": np.tile(np.arange(LENGTH + 1), SERIES),
    "y": 100 + 10 * draw.normal(size=SERIES * (LENGTH + 1)),
})
past, future = table[table.ds < LENGTH], table[table.ds == LENGTH]
found = {}
for windows, settings in ((2, PredictionIntervals()), (20, PredictionIntervals(n_windows=20))):
    model = MLForecast({"line": LinearRegression()}, freq=1, lags=[1, 2])
    model.fit(past, prediction_intervals=settings)
    both = model.predict(1, level=[80, 95]).merge(future, on=["unique_id", "ds"])
    assert settings.n_windows == windows and len(both) == SERIES
    for level in (80, 95):
        inside = both.y.between(both[f"line-lo-{level}"], both[f"line-hi-{level}"])
        found[windows, level] = inside.mean()
        print(f"{windows} windows, level {level}: covers {found[windows, level]:.3f}")

assert found[2, 95] < 0.72 and found[2, 80] < 0.68 and 0.87 < found[20, 95] < 0.94
EOF
