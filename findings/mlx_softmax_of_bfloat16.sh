#!/usr/bin/env bash
# mlx 0.32.4 on the CPU (PyPI: mlx, mlx-cpu), softmax of bfloat16 and float16 logits, beside
# torch 2.13.0.
# Guess: a softmax sums in float32 whatever its input, as torch and jax do; rows sum to one within
#   the rounding of the result (under 1 %).
# Seen: mlx.core.softmax has precise=False, and then sums in the input's own type. In bfloat16
#   small terms no longer count once the sum has grown. A row of 1,000 classes sums to as much as
#   1.27, one of 32,000 tokens to 2.9, one of 128,000 to 4.8. How far depends on the width of the
#   processor's vectors. precise=True is right; so is the cross entropy of mlx.nn.
# Wrong number: a mean confidence of a language model of 0.09 for 0.04 (32,000 tokens), and
#   "probabilities" that exceed one.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder/env"
"$folder/env/bin/pip" install -q --disable-pip-version-check \
    mlx==0.32.4 mlx-cpu==0.32.4 torch==2.13.0 numpy==2.4.6
"$folder/env/bin/python" -W ignore - <<'EOF'
import mlx.core as mx
import numpy as np
import torch

mx.set_default_device(mx.cpu)
draw = np.random.default_rng(0)
found = {}
for classes in (1_000, 32_000, 128_000):
    logits = (2 * draw.normal(size=(100, classes))).astype(np.float32)
    logits[:, 0] += 8
    for kind in ("bfloat16", "float16"):
        low = mx.array(logits).astype(getattr(mx, kind))
        exact = torch.tensor(np.array(low.astype(mx.float32))).double().softmax(1).max(1)[0].mean()
        of_torch = torch.tensor(logits).to(getattr(torch, kind)).softmax(1).double()
        for precise in (False, True):
            p = np.array(mx.softmax(low, axis=1, precise=precise).astype(mx.float32), np.float64)
            found[classes, kind, precise] = p.sum(1).max(), p.max(1).mean() / exact.item()
            print(f"{classes:>7} classes, {kind}, precise={precise}: rows sum up to "
                  f"{p.sum(1).max():.3f} (torch {of_torch.sum(1).max():.3f}), mean confidence "
                  f"{p.max(1).mean():.4f} (exact {exact:.4f})")

for (classes, kind, precise), (largest, ratio) in found.items():
    if precise:
        assert largest < 1.01 and abs(ratio - 1) < 0.01
    elif kind == "bfloat16":
        assert largest > {1_000: 1.05, 32_000: 1.3, 128_000: 1.5}[classes] and ratio > 1.02
EOF
