#!/usr/bin/env bash
# numpy 2.4.6, pandas 3.1.1, pyarrow 26.0.1, polars 2.1.0, DuckDB 2.0.1, torch 2.13.0, jax 0.10.2
# and mlx 0.32.4 (PyPI): sums, means and running sums of 30 million float32 values.
# Guess: tools that are made for big tables sum float32 pairwise or in float64, and a mean is
#   right to six digits.
# Seen: which ones do has no pattern. numpy's mean is right along a row and wrong along a column
#   (axis=0 of an array of two columns); cumsum stops at 2^24 = 16,777,216 in numpy, pandas and
#   pyarrow and is right in polars, DuckDB, torch and jax; weighted counts of bins are right in
#   numpy and wrong in torch and jax; mlx's plain mean is wrong.
# Wrong number: a mean confidence per class of 0.56 for 0.90 (numpy, axis=0); an accuracy at full
#   coverage, so an AURC, from numpy's cumsum of float32; a calibration error from torch.bincount.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder/env"
"$folder/env/bin/pip" install -q --disable-pip-version-check numpy==2.4.6 pandas==3.1.1 \
    pyarrow==26.0.1 polars==2.1.0 duckdb==2.0.1 torch==2.13.0 jax==0.10.2 jaxlib==0.10.2 \
    mlx==0.32.4 mlx-cpu==0.32.4
"$folder/env/bin/python" -W ignore - <<'EOF'
import duckdb
import jax.numpy as jnp
import mlx.core as mx
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import torch

n = 30_000_000
p = np.random.default_rng(0).random(n, dtype=np.float32) * np.float32(0.1) + np.float32(0.85)
exact = p.astype(np.float64).sum()
columns = np.stack([p, 1 - p], axis=1)
bins = np.zeros(n, np.int64)
scores = pa.table({"p": p, "i": np.arange(n)})
window = "select max(s) from (select sum(p) over (order by i) s from scores)"

mean = {
    "numpy": p.mean(),
    "numpy, axis=0": columns.mean(axis=0)[0],
    "pandas": pd.Series(p).mean(),
    "pyarrow": pc.mean(pa.array(p)).as_py(),
    "polars": pl.Series(p).mean(),
    "torch": torch.from_numpy(p).mean().item(),
    "torch, dim=0": torch.from_numpy(columns).mean(0)[0].item(),
    "jax": jnp.mean(p),
    "jax, axis=0": jnp.mean(columns, axis=0)[0],
    "mlx": mx.mean(mx.array(p), stream=mx.cpu).item(),
}
running = {
    "numpy": np.cumsum(p)[-1],
    "pandas": pd.Series(p).cumsum().iloc[-1],
    "pyarrow": pc.cumulative_sum(pa.array(p))[-1].as_py(),
    "polars": pl.Series(p).cum_sum()[-1],
    "DuckDB": duckdb.sql(window).fetchall()[0][0],
    "torch": torch.from_numpy(p).cumsum(0)[-1].item(),
    "jax": jnp.cumsum(p)[-1],
}
weighted_count = {
    "numpy": np.bincount(bins, weights=p)[0],
    "torch": torch.bincount(torch.from_numpy(bins), weights=torch.from_numpy(p))[0].item(),
    "torch, scatter_add": torch.zeros(1).scatter_add(
        0, torch.from_numpy(bins), torch.from_numpy(p))[0].item(),
    "jax": jnp.bincount(jnp.array(bins), weights=jnp.array(p), length=1)[0],
}
wrong = {}
for title, found, truth in (("mean", mean, exact / n), ("cumulative sum", running, exact),
                            ("weighted count", weighted_count, exact)):
    wrong[title] = {name for name, value in found.items() if abs(float(value) / truth - 1) > 1e-3}
    print(f"{title}: exact {truth:.10g}")
    for name, value in found.items():
        print(f"  {name:20} {float(value):.7g}{'   wrong' if name in wrong[title] else ''}")

assert wrong["mean"] == {"numpy, axis=0", "mlx"}
assert 0.5 < mean["numpy, axis=0"] < 0.6 and mean["mlx"] < 0.8
assert wrong["cumulative sum"] == {"numpy", "pandas", "pyarrow"}
assert wrong["weighted count"] == {"torch", "torch, scatter_add", "jax"}
EOF
