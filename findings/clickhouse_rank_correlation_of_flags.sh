#!/usr/bin/env bash
# ClickHouse 26.9.2 as chdb 4.4.0 (PyPI), with scipy 1.17.1: the aggregate function rankCorr(x, y).
# Guess: Spearman's rank correlation: 0 for columns that have nothing to do with each other, as
#   corr() beside it says, and undefined for a constant column.
# Seen: it gives tied values their mean rank, but then takes the formula for ranks without ties,
#   1 - 6 sum d^2 / (n (n^2 - 1)). The more ties, the nearer it is to 1.
# Wrong number: two independent flags, each set in 5 % of the rows, have a "rank correlation" of
#   0.86, a flag and a constant 0.93; a score of eleven values and its outcome 0.68 for 0.63.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder/env"
"$folder/env/bin/pip" install -q --disable-pip-version-check chdb==4.4.0 chdb-core==26.9.0 \
    pandas==3.1.1 pyarrow==26.0.1 numpy==2.4.6 scipy==1.17.1
cd "$folder"
"$folder/env/bin/python" -W ignore - <<'EOF'
import chdb
import numpy as np
import pandas as pd
from scipy.stats import spearmanr

draw = np.random.default_rng(0)
n = 20_000
score = np.round(draw.random(n) ** 2, 1)
rows = pd.DataFrame({
    "a": (draw.random(n) < 0.05).astype(int), "b": (draw.random(n) < 0.05).astype(int),
    "constant": np.full(n, 3), "score": score, "outcome": (draw.random(n) < score).astype(int),
    "x": draw.normal(size=n), "y": draw.normal(size=n),
})
print("ClickHouse", chdb.query("select version()", "CSV").bytes().decode().strip())
found = {}
for x, y in ("a", "b"), ("a", "constant"), ("score", "outcome"), ("x", "y"):
    answer = chdb.query(f"select rankCorr({x}, {y}), corr({x}, {y}) from Python(rows)", "CSV")
    ranks, pearson = (float(v) for v in answer.bytes().decode().strip().split(","))
    found[x, y] = ranks, spearmanr(rows[x], rows[y]).statistic
    print(f"{x} and {y}: rankCorr {ranks:.3f}, scipy's spearmanr {found[x, y][1]:.3f},"
          f" corr {pearson:.3f}")

assert found["a", "b"][0] > 0.84 and abs(found["a", "b"][1]) < 0.03
assert found["a", "constant"][0] > 0.9 and np.isnan(found["a", "constant"][1])
assert found["score", "outcome"][0] > found["score", "outcome"][1] + 0.04
assert abs(found["x", "y"][0] - found["x", "y"][1]) < 1e-6  # right without ties
EOF
