"""What `make book` says before it begins; Snakemake says how far it has come.

    python book/before.py cifar10 [--yes]

says what training an edition costs on a machine without a GPU, and asks before it begins.
"""

import argparse
import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path

from calibkit_companion.experiments import plan
from calibkit_companion.experiments.cost import samples

# What the parts of a cheap edition cost, in seconds of a core that others keep busy (AMD, AVX2).
RUN, PAGE, BOOK = 1.7, 7.0, 40.0


def announce(costs: Mapping[str, float], cores: int, others: int = 0) -> str:
    """What is to be done, and about how long that takes beside other processes that want a core.

    `costs` has each file that is to be, with what it costs to make: `RUN`, `PAGE` or `BOOK`.
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


def seconds_a_sample(network: str, batch: int = 64) -> float:
    """What a sample of 32 by 32 pixels costs one core, timed on the second of two steps."""
    import torch  # late: slow to import

    from calibkit_companion.training import networks

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

    from calibkit_companion.records import folders

    runs = [run for run in plan.runs("book", edition) if not folders.has(run)]
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
