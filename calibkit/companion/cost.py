"""What training costs, before it begins; Snakemake says how far it has come.

    python -m calibkit.companion.cost cifar10 [--yes]

says what training an edition costs on a machine without a GPU, and asks before it begins.
"""

import argparse
import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from calibkit.companion import papers, plan
from calibkit.training.runs import PASSES, Run

# What the parts of a cheap edition cost, in seconds of a core that others keep busy (AMD EPYC).
RUN, PAGE, BOOK = 2.0, 10.0, 40.0


def announce(costs: Mapping[str, float], cores: int, others: int = 0) -> str:
    """What is to be done, and about how long that takes beside other processes that want a core.

    `costs` has each file that is to be, with what it costs to make: `RUN`, `PAGE` or `BOOK`.

    >>> costs = {str(n): RUN for n in range(181)} | {f"{n}.ipynb": PAGE for n in range(21)}
    >>> announce(costs | {"searchindex.js": BOOK}, 2)
    'To do: 181 short runs, 21 pages, the book. About 10 CPU-minutes: on 2 cores about 5.'
    >>> announce({str(n): RUN for n in range(181)}, 2, others=2)
    'To do: 181 short runs. About 6 CPU-minutes: on 2 cores beside 2 busy processes about 6.'
    >>> announce({}, 2)
    'Nothing to do.'
    """
    left = Counter(cost for file, cost in costs.items() if not Path(file).exists())
    words = {RUN: f"{left[RUN]} short runs", PAGE: f"{left[PAGE]} pages", BOOK: "the book"}
    work = ", ".join(what for cost, what in words.items() if left[cost])
    one = sum(cost * many for cost, many in left.items())
    last = left[BOOK] * BOOK  # the book takes one core
    wall = (one - last) * (1 + others / cores) / cores + last * max(1, (1 + others) / cores)
    minutes = [max(1, round(seconds / 60)) for seconds in (one, wall)]
    where = f"{cores} cores" + f" beside {others} busy processes" * bool(others)
    return (
        f"To do: {work}. About {minutes[0]} CPU-minutes: on {where} about {minutes[1]}."
        if work
        else "Nothing to do."
    )


# --- a run ----------------------------------------------------------------------------------------

# Pixels a side.
_SIDES = {"tiny_imagenet": 64, "imagenet": 224}
# By network: millions of multiplications for an image of 32 pixels a side, of 224 where the stem is
# ImageNet's and for the ViT, whatever the size of its images (`tests/test_papers.py` counts them
# anew), and samples a second in training. Of ResNet-50 these are those of bsce, section 15: 350
# epochs of 45,000 images in 128 minutes on one RTX 4090. The others are ours, on one thread of an
# AMD EPYC with bfloat16.
MULTIPLICATIONS, MEASURED = (
    {line["network"]: float(line[column]) for line in papers.ledger("networks.csv") if line[column]}
    for column in ("million_multiplications", "samples_a_second")
)
FASTEST = 10_000.0  # small networks wait for memory and launches, whatever they multiply
# Training samples of data that the catalogue does not count.
UNCOUNTED = {"gaussians": 50_000, "mnist1d": 5_000, "imagenet": 1_281_167}


def images(run: Run) -> int:
    """Epochs times training samples."""
    from calibkit.data import catalogue

    protocol = run.protocol
    if protocol.train_size:
        return protocol.epochs * protocol.train_size
    source = catalogue.SOURCES.get(run.dataset)
    n = source.counts[0] if source and source.counts else UNCOUNTED.get(run.dataset, 10_000)
    held_out = 0 if protocol.validation == "test" else protocol.validation
    return protocol.epochs * (n - (n // 10 if held_out is None else held_out))


def samples(run: Run) -> float:
    """Samples that pass forward and back: SAM takes each step twice, some objectives pass more."""
    forward, backward = PASSES.get(run.recipe.objective, (1, 1))
    return images(run) * (forward + 2 * backward) / 3 * (1 + (run.recipe.update == "sam"))


def rate(network: str, dataset: str) -> tuple[float, bool]:
    """Samples a second in training, and whether that was measured for this network and size.

    Where it was not, it is taken to fall as the number of multiplications rises.
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
    """At `rate`."""
    return samples(run) / rate(run.network, run.dataset)[0] / 3600


def totals(table: Sequence[dict]) -> list[str]:
    """Cells by run or reason; then runs, images and hours of each network, and of all."""
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


# --- a question -----------------------------------------------------------------------------------


def seconds_a_sample(network: str, batch: int = 64) -> float:
    """What a sample of 32 by 32 pixels costs one core, timed on the second of two steps."""
    import torch  # late: slow to import

    from calibkit.training import networks

    torch.set_num_threads(1)
    built = networks.build(network, (3, 32, 32), 10)
    for _ in range(2):
        start = time.process_time()
        built(torch.randn(batch, 3, 32, 32)).logsumexp(1).sum().backward()
    return (time.process_time() - start) / batch


def confirmed(
    edition: str, cores: int, yes: bool = False, ask: Callable[[str], str] = input
) -> bool:
    """Whether to train an edition here: without asking where that is cheap or there is a GPU."""
    import torch

    from calibkit.training import store

    runs = [run for run in plan.runs("book", edition) if not store.has(run)]
    long = Counter(r.network for r in runs if r.dataset not in plan.GENERATED + plan.TEXTS)
    if plan.EDITIONS[edition].on_the_spot or torch.cuda.is_available() or not long:
        return True
    network = max(long, key=long.get)
    took = sum(map(samples, runs)) * seconds_a_sample(network) / cores / 3600
    print(
        f"No GPU here. {len(runs)} runs of the edition {edition} have no record; at the pace of "
        f"{network} on this processor they train for about {took:,.0f} hours on {cores} cores.",
        flush=True,
    )
    if not yes and not sys.stdin.isatty():
        print("Not begun, since nobody is there to be asked: make book ... TRAIN=1 YES=1")
        return False
    return yes or ask("Train them here? [y/N] ").strip().lower() in ("y", "yes")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Say what training an edition costs, and ask.")
    parser.add_argument("edition", choices=plan.EDITIONS)
    parser.add_argument("--cores", default="all")
    parser.add_argument("--yes", action="store_true", help="do not ask")
    options = parser.parse_args()
    every = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    cores = every if options.cores == "all" else int(options.cores)
    sys.exit(not confirmed(options.edition, cores, options.yes))
