#!/usr/bin/env bash
# frouros 0.9.0 (PyPI; numpy 2.1.3, scipy 1.14.1), the drift detector KuiperTest; astropy 7.1.0.
# Guess: p-values are even where nothing drifts, and a change of spread is found sooner than by
#   KSTest: this is what one takes Kuiper's test for.
# Seen: it computes the Kolmogorov-Smirnov statistic, the larger of the two one-sided distances,
#   and looks it up in the table of Kuiper's, which is their sum. So it finds less than either:
#   without drift the median p-value is 0.98.
# Wrong number: a level of 5 % is one of 0 %. Where the spread becomes 1.5 times as large, 300 rows
#   each, it sees drift in 34 % of the comparisons, Kuiper's test in all of them.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder/env"
"$folder/env/bin/pip" install -q --disable-pip-version-check \
    frouros==0.9.0 numpy==2.1.3 scipy==1.14.1 astropy==7.1.0
"$folder/env/bin/python" -W ignore - <<'EOF'
import numpy as np
from astropy.stats import kuiper_two
from frouros.detectors.data_drift import KSTest, KuiperTest


def p_value(Test, past, present):
    test = Test()
    test.fit(X=past)
    return test.compare(X=present)[0].p_value


draw = np.random.default_rng(0)
found = {}
for name, spread in (("no drift", 1.0), ("spread times 1.5", 1.5)):
    values = []
    for _ in range(200):
        past, present = draw.normal(size=300), spread * draw.normal(size=300)
        values.append([p_value(KuiperTest, past, present), p_value(KSTest, past, present),
                       kuiper_two(past, present)[1]])
    values = np.array(values)
    for tool, column in zip(("frouros Kuiper", "frouros KS", "astropy Kuiper"), values.T):
        found[name, tool] = np.mean(column < 0.05), np.median(column)
        print(f"{name:16s} {tool:14s} below 0.05: {found[name, tool][0]:.3f}, "
              f"median {found[name, tool][1]:.3f}")

assert found["no drift", "frouros Kuiper"][0] < 0.01 and found["no drift", "frouros Kuiper"][1] > 0.9
assert found["no drift", "astropy Kuiper"][0] < 0.1 and 0.3 < found["no drift", "astropy Kuiper"][1] < 0.75
drift = [found["spread times 1.5", tool][0] for tool in ("frouros Kuiper", "astropy Kuiper")]
assert drift[0] < drift[1] - 0.3
EOF
