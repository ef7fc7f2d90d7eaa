#!/usr/bin/env bash
# scikit-survival 0.28.0, torchsurv 0.2.0 and lifelines 0.30.3 (PyPI): the concordance index of
# predicted failure rates.
# Guess: a concordance needs only the order of the predictions, so that their unit does not
#   matter, and the three packages agree.
# Seen: scikit-survival and torchsurv take predictions closer than 1e-8 for tied. Failure rates
#   of electronic parts are 1e-9 to 1e-7 per hour: nearly all pairs are "tied". lifelines (and R's
#   survival) compare exactly.
# Wrong number: a C-index of 0.54, hardly better than chance, for 0.74. The same rates per year
#   give 0.74 in all three.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder/env"
"$folder/env/bin/pip" install -q --disable-pip-version-check scikit-survival==0.28.0 \
    torchsurv==0.2.0 lifelines==0.30.3 torch==2.13.0 numpy==2.4.6 scipy==1.17.1 pandas==2.3.3
"$folder/env/bin/python" -W ignore - <<'EOF'
import numpy as np
import torch
from lifelines.utils import concordance_index
from sksurv.metrics import concordance_index_censored
from torchsurv.metrics.cindex import ConcordanceIndex

draw = np.random.default_rng(0)
per_hour = 2e-9 * np.exp(draw.normal(size=1_500))  # about 2 failures in 10^9 hours
years = draw.exponential(1 / (per_hour * 8_766))
end = draw.exponential(60_000, 1_500)
observed, time = years <= end, np.minimum(years, end)
found = {}
for unit, rate in (("hour", per_hour), ("year", per_hour * 8_766)):
    found[unit] = {
        "lifelines": concordance_index(time, -rate, observed),
        "scikit-survival": concordance_index_censored(observed, time, rate)[0],
        "torchsurv": ConcordanceIndex()(
            torch.tensor(rate), torch.tensor(observed), torch.tensor(time)).item(),
    }
    print(f"rates per {unit}:", {k: round(float(v), 4) for k, v in found[unit].items()})

right = found["hour"]["lifelines"]
assert right > 0.7 and all(abs(v - right) < 1e-3 for v in found["year"].values())
assert found["hour"]["scikit-survival"] < 0.6 and found["hour"]["torchsurv"] < 0.6
EOF
