#!/usr/bin/env bash
# torchmetrics 1.9.0 and MONAI 1.6.1 with torch 2.13.0 (PyPI), on the CPU.
# Guess: the calibration error of more rows is the better estimate; rounding of float32 shows in
#   the fifth digit.
# Seen: both add each bin's counts and confidences in float32, one row at a time. A sum stops at
#   2^24 = 16.8 million. A mean of confidences is off by 0.01 at 2 million and by 0.07 at 12
#   million. A hundred pictures of 640 x 640 pixels are enough. Of 36 million pixels all of torchmetrics' sums of a bin end at
#   the same number, so that confidence equals accuracy.
# Wrong number: an ECE of 0.000 for a network that says 0.9 and is right in 0.8; 0.17 for 0.10 with
#   12 million pixels. MONAI, which counts per volume, says 0.14 for a volume of 36 million.
#   Float64 sums of one's own are right. The mean over pictures does not have the fault, but it is
#   another number.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder/env"
"$folder/env/bin/pip" install -q --disable-pip-version-check \
    torchmetrics==1.9.0 monai==1.6.1 torch==2.13.0 numpy==2.4.6
"$folder/env/bin/python" -W ignore - <<'EOF'
import torch
from monai.metrics import CalibrationErrorMetric
from torchmetrics.functional.classification import binary_calibration_error


def pixels(n):
    draw = torch.Generator().manual_seed(0)
    p = 0.87 + 0.06 * torch.rand(n, generator=draw)
    return p, (torch.rand(n, generator=draw) < p - 0.1).int()


found = {}
for n in (1_000_000, 12_000_000, 36_000_000):
    p, y = pixels(n)
    exact = abs(y.double().mean() - p.double().mean()).item()
    found[n] = binary_calibration_error(p, y, n_bins=15).item()
    print(f"{n:>11,} pixels: torchmetrics {found[n]:.4f}, exact {exact:.4f}", flush=True)
probs, truth = torch.stack([1 - p, p])[None], torch.stack([1 - y, y])[None].float()
metric = CalibrationErrorMetric(num_bins=15)
metric(probs, truth)
of_monai = metric.aggregate().item()
print(f"{n:>11,} pixels: MONAI {of_monai:.4f}, exact {exact:.4f}")

assert abs(found[1_000_000] - 0.1) < 0.002
assert abs(found[12_000_000] - 0.1) > 0.02
assert found[36_000_000] < 0.001
assert abs(of_monai - 0.1) > 0.03
EOF
