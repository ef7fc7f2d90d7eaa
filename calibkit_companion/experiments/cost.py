"""Estimate the cost of training: images, and hours at the speed of each network."""

from collections import Counter
from collections.abc import Sequence

from calibkit_companion.experiments import papers
from calibkit_companion.experiments.method import PASSES
from calibkit_companion.experiments.run import Run

# Sides of images in pixels, for data sets whose images do not have 32 pixels.
_SIDES = {"tiny_imagenet": 64, "imagenet": 224}
# By network: millions of multiplications for one image, and training samples per second. The image
# has 32 by 32 pixels, or 224 by 224 for networks with an ImageNet stem and for the ViT. The test
# `tests/test_papers.py` counts the multiplications. The speed of ResNet-50 comes from bsce, section
# 15: 350 epochs of 45,000 images in 128 minutes on one RTX 4090. We measured the other speeds, on
# one thread of an AMD EPYC with bfloat16. The third column is for one H100 with bfloat16 in batches
# of 128. ResNet-18: steps replayed as one CUDA graph, without crops and flips and without
# evaluation. `resnet18_w32_s2`: 14 of the 16 runs that shared the GPU for the released tables,
# together, from their start to their record; a test adds them up.
MULTIPLICATIONS, MEASURED, ON_H100 = (
    {line["network"]: float(line[column]) for line in papers.ledger("networks.csv") if line[column]}
    for column in ("million_multiplications", "samples_a_second", "h100_samples_a_second")
)
FASTEST = 10_000.0  # most samples per second; memory limits small networks
# Training samples of data that the catalogue does not count.
UNCOUNTED = {"gaussians": 50_000, "mnist1d": 5_000, "imagenet": 1_281_167}


def images(run: Run) -> int:
    """Count the training images of a run: epochs times training samples.

    Parameters
    ----------
    run : the run
    """
    from calibkit_companion.data import catalogue

    protocol = run.protocol
    if protocol.train_size:
        return protocol.epochs * protocol.train_size
    source = catalogue.SOURCES.get(run.dataset)
    n = source.counts[0] if source and source.counts else UNCOUNTED.get(run.dataset, 10_000)
    held_out = 0 if protocol.validation == "test" else protocol.validation
    return protocol.epochs * (n - (n // 10 if held_out is None else held_out))


def passes(run: Run) -> tuple[int, int]:
    """Count the forward and the backward passes of each sample in a training step.

    SAM takes each pass twice, and some objectives need further passes.

    Parameters
    ----------
    run : the run

    Returns
    -------
    tuple of int
        Forward passes and backward passes.
    """
    twice = 2 if run.recipe.update == "sam" else 1
    forward, backward = PASSES.get(run.recipe.objective, (1, 1))
    return twice * forward, twice * backward


def samples(run: Run) -> float:
    """Estimate the work of a run, in samples of plain training.

    A backward pass counts as two forward passes.

    Parameters
    ----------
    run : the run
    """
    forward, backward = passes(run)
    return images(run) * (forward + 2 * backward) / 3


def rate(network: str, dataset: str) -> tuple[float, bool]:
    """Estimate the training speed of a network.

    A speed that was not measured is assumed to be inversely proportional to the number of
    multiplications.

    Parameters
    ----------
    network : name of the network
    dataset : name of the data set, which decides the size of the images

    Returns
    -------
    tuple of float and bool
        Samples per second, and whether this speed was measured.
    """
    name = network.partition(":")[0]
    side = _SIDES.get(dataset, 32)
    if name in MEASURED and (side == 32 or name != "resnet50"):
        return MEASURED[name], True
    if name not in MULTIPLICATIONS:
        return FASTEST, False
    usual = 224 if name.endswith("_imagenet") else 32
    scale = 1.0 if name == "vit_b_16" else (side / usual) ** 2
    assumed = MEASURED["resnet50"] * MULTIPLICATIONS["resnet50"] / (MULTIPLICATIONS[name] * scale)
    return min(assumed, FASTEST), False


def hours(run: Run) -> float:
    """Estimate the hours of a run from the speed of its network (`rate`).

    Parameters
    ----------
    run : the run
    """
    return samples(run) / rate(run.network, run.dataset)[0] / 3600


def on_h100(runs: Sequence[Run]) -> list[str]:
    """Predict for one H100 the hours of the runs whose networks were measured on it.

    Parameters
    ----------
    runs : the runs, in bfloat16; a run in float32 counts twice, which is a guess

    Returns
    -------
    list of str
        A line for each such network, and none if there are no such runs.
    """
    lines = []
    for network, pace in ON_H100.items():
        its = [run for run in runs if run.network == network]
        passes = sum(samples(run) * (1 + (run.protocol.precision == "float32")) for run in its)
        if its:
            lines.append(
                f"predicted for one H100 and all runs: {len(its)} of {network}, "
                f"{passes / 1e6:,.0f} M samples, {pace:,.0f}/s, {passes / pace / 3600:.1f} h"
            )
    return lines


def totals(table: Sequence[dict]) -> list[str]:
    """Write lines on the printed numbers: how many have runs, and the cost of the runs.

    The cost is given by network, in runs, images and hours.

    Parameters
    ----------
    table : result of `printed.planned`, a row for each printed number
    """
    reasons = Counter(row["reason"] for row in table if row["reason"])
    runs = list(dict.fromkeys(run for row in table for run in row["runs"]))
    filled = sum(bool(row["run"]) for row in table)
    counts = ", ".join(f"{n:,} {reason}" for reason, n in reasons.most_common())
    lines = [
        f"{len(table):,} published cells: {filled:,} filled by {len(runs):,} runs"
        + (f", {len(table) - filled:,} by none ({counts})" if counts else ""),
        "hours: samples a second of each network, * measured (resnet50: RTX 4090, by bsce; others:",
        "one CPU thread, by us), else assumed from resnet50 by the number of multiplications",
    ]
    kinds: dict[tuple[str, int], list[Run]] = {}
    for run in runs:
        kinds.setdefault((run.network, _SIDES.get(run.dataset, 32)), []).append(run)
    for (network, _), its in kinds.items():
        pace, known = rate(network, its[0].dataset)
        places = "/".join(dict.fromkeys(run.dataset for run in its))
        lines.append(
            f"  {network:32} {places:24} {len(its):5,} runs {sum(map(images, its)) / 1e6:10,.0f} M "
            f"images {pace:9,.0f}/s{'*' if known else ' '} {sum(map(hours, its)):9,.1f} h"
        )
    lines.append(
        f"  {'all':57} {len(runs):5,} runs {sum(map(images, runs)) / 1e6:10,.0f} M images "
        f"{'':12} {sum(map(hours, runs)):9,.1f} h"
    )
    return lines
