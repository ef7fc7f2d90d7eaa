"""What making a book will take, said before it begins; Snakemake says how far it has come.

    python -m calibkit.companion.progress cifar10 [--yes]

says what training an edition costs on a machine without a GPU, and asks before it begins.
"""

import argparse
import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from calibkit.companion import plan

# What the parts of a cheap edition cost, in seconds of a core that others keep busy (AMD EPYC).
RUN, PAGE, BOOK = 2.2, 9.0, 25.0


def announce(costs: Mapping[str, float], cores: int, load: float = 0.0) -> str:
    """What is to be done, and about how long that takes.

    Parameters
    ----------
    costs : each file that is to be, with what it costs to make: `RUN`, `PAGE` or `BOOK`
    load : other processes that want a core

    >>> costs = {str(n): RUN for n in range(184)} | {f"{n}.ipynb": PAGE for n in range(21)}
    >>> announce(costs | {"searchindex.js": BOOK}, 2)
    'To do: 184 short runs, 21 pages and the book. About 10 CPU-minutes, 5 minutes on 2 cores.'
    >>> announce({"searchindex.js": BOOK}, 2, load=2.2)
    'To do: the book. About 1 CPU-minute, 1 minute on 2 cores that also have 2 other processes.'
    >>> announce({}, 2)
    'Nothing to do.'
    """
    left = {file: cost for file, cost in costs.items() if not Path(file).exists()}
    if not left:
        return "Nothing to do."
    many = Counter(left.values())
    parts = [_counted(many[RUN], "short run"), _counted(many[PAGE], "page")]
    *first, last = [part for part in parts if part] + (["the book"] if many[BOOK] else [])
    work = ", ".join(first) + " and " * bool(first) + last
    parallel, others = sum(left.values()) - BOOK * many[BOOK], round(load)
    slower = 1 + others / cores
    wall = slower * parallel / cores + max(1, slower - 1) * BOOK * many[BOOK]
    where = _counted(cores, "core")
    if others:
        where += f" that also {'have' if cores > 1 else 'has'} {_counted(others, 'other process')}"
    return (
        f"To do: {work}. About {_minutes(sum(left.values()), 'CPU-')}, {_minutes(wall)} on {where}."
    )


def _counted(n: int, what: str) -> str:
    ending = ("es" if what.endswith("s") else "s") * (n != 1)
    return f"{n} {what}{ending}" if n else ""


def _minutes(seconds: float, kind: str = "") -> str:
    n = max(1, round(seconds / 60))
    return f"{n} {kind}minute{'s' * (n != 1)}"


def available() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


# Samples of the training part of each data set.
SAMPLES = {
    "gaussians": 50_000,
    "mnist1d": 5_000,
    "fashion_mnist": 60_000,
    "cifar10": 50_000,
    "cifar100": 50_000,
    "svhn": 73_257,
    "tiny_imagenet": 100_000,
    "imagenet": 1_281_167,
    "20newsgroups": 11_314,
}
IMAGE = (3, 32, 32)  # what a sample of the data that take long looks like


def images(run: plan.Run) -> int:
    """Epochs times training samples."""
    protocol = run.protocol
    if protocol.train_size:
        return protocol.epochs * protocol.train_size
    n = SAMPLES.get(run.dataset, 10_000)
    held_out = 0 if protocol.validation == "test" else protocol.validation
    return protocol.epochs * (n - (n // 10 if held_out is None else held_out))


def samples(runs: Sequence[plan.Run]) -> int:
    """Samples that pass forward and back in training these runs; SAM takes every step twice."""
    return sum(images(run) * (1 + (run.recipe.update == "sam")) for run in runs)


def seconds_a_sample(network: str, batch: int = 64) -> float:
    """What a sample costs one core, timed on one step of training after another that warms up."""
    import torch  # late: slow to import

    from calibkit.training import networks

    torch.set_num_threads(1)
    built = networks.build(network, IMAGE, 10)
    for _ in range(2):
        start = time.process_time()
        built(torch.randn(batch, *IMAGE)).logsumexp(1).sum().backward()
    return (time.process_time() - start) / batch


def confirmed(
    edition: str, cores: int, yes: bool = False, ask: Callable[[str], str] = input
) -> bool:
    """Whether to train an edition here: without asking where that is cheap or there is a GPU."""
    import torch

    from calibkit.training import store

    runs = [run for run in plan.runs("book", edition) if not store.has(run)]
    if not runs or plan.EDITIONS[edition].on_the_spot or torch.cuda.is_available():
        return True
    quick = *plan.GENERATED, *plan.TEXTS
    long = Counter(run.network for run in runs if run.dataset not in quick)
    if not long:
        return True
    ((network, _),) = long.most_common(1)
    hours = samples(runs) * seconds_a_sample(network) / cores / 3600
    took = f"{hours:.0f} hours" if hours < 72 else f"{hours / 24:,.0f} days"
    print(
        f"No GPU here. {len(runs)} runs of the edition {edition} have no record; at the pace of "
        f"{network} on this processor they train for about {took} on {_counted(cores, 'core')}.",
        flush=True,
    )
    if yes:
        return True
    if not sys.stdin.isatty():
        print("Not begun, since nobody is there to be asked: make book ... TRAIN=1 YES=1")
        return False
    return ask("Train them here? [y/N] ").strip().lower() in ("y", "yes")


def main() -> int:
    parser = argparse.ArgumentParser(description="Say what training an edition costs, and ask.")
    parser.add_argument("edition", choices=plan.EDITIONS)
    parser.add_argument("--cores", default="all")
    parser.add_argument("--yes", action="store_true", help="do not ask")
    options = parser.parse_args()
    cores = available() if options.cores == "all" else int(options.cores)
    return 0 if confirmed(options.edition, cores, options.yes) else 1


if __name__ == "__main__":
    sys.exit(main())
