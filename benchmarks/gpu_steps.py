"""Time the steps of runs in the tree that PYTHONPATH names; `gpu_speed.py` starts it.

    python benchmarks/gpu_steps.py '{"network": "resnet18", "method": "erm", "train_size": 20000,
                                     "epochs": 4, "mode": "", "together": 1, "side_by_side": false,
                                     "rehearse": false}'

It runs in trees from before the packages were split, too. The images are random. It prints a line
when the first epoch is done, waits for a line, and prints the seconds of each further epoch.
`side_by_side` trains as many runs as `together` says in this process; else it is one of so many.
"""

import json
import os
import sys
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import torch

# The first folder of PYTHONPATH; another tree may follow in it.
if (Path(os.environ["PYTHONPATH"].split(os.pathsep)[0]) / "calibkit_companion").is_dir():
    from calibkit_companion import data
    from calibkit_companion.experiments.method import parse
    from calibkit_companion.experiments.protocol import Protocol
    from calibkit_companion.experiments.run import Run
    from calibkit_companion.training import loop
else:
    from calibkit.training.runs import Protocol, Run

    from calibkit import data
    from calibkit.training import loop

    parse = str  # its runs carry the name of a method


def pictures(size: int) -> data.Dataset:
    """Random images in the shape of CIFAR-10, to be cropped and flipped."""
    generator = torch.Generator().manual_seed(0)

    def split(n: int) -> data.Split:
        shape = (n, 3, 32, 32)
        images = torch.randint(256, shape, dtype=torch.uint8, generator=generator)
        return data.Split(images, torch.randint(10, (n,), generator=generator))

    parts = split(size), split(10), split(10)
    names = tuple(map(str, range(10)))
    return data.Dataset("cifar10", *parts, names, (0.5,) * 3, (0.25,) * 3, "crop_flip", "")


def several(runs: list[Run], wanted: dict, device: str) -> Iterator[dict]:
    """Time runs side by side: yields once for the first epoch and once for the others."""
    from calibkit_companion.training import side_by_side, turns

    began = time.perf_counter()
    ends: list[list[float]] = []

    def epochs(run: Run, company: turns.Company, *_):
        """Train a run in its turns, without evaluation and without a record."""
        training = loop.Training(run, device, company=company, **stand_in(wanted))
        ends.append(mine := [])
        for number in range(1, run.protocol.epochs + 1):
            yield from turns.within(training.products, training.learning(number))
            mine.append(time.perf_counter())
        graphs.add(type(training.steps.graph).__name__)
        training.free()
        return "timed"

    graphs: set[str] = set()
    loop.in_turns = epochs
    for _ in side_by_side.train(runs, device, most=len(runs)):
        pass
    # From here on all of them train; the part of an epoch that came before is not counted.
    start, stop = max(mine[0] for mine in ends), max(mine[-1] for mine in ends)
    yield {"second_epoch_after": start - began, "graph": ", ".join(sorted(graphs))}
    pairs = [(a, b) for mine in ends for a, b in pairwise(mine)]
    trained = sum(max(0.0, b - max(a, start)) / (b - a) for a, b in pairs)
    rate = trained * wanted["train_size"] / (stop - start)
    yield {"seconds": [b - a for a, b in pairs], "samples_per_second": rate}


def alone(run: Run, wanted: dict, device: str) -> Iterator[dict]:
    """Time a run: yields once after the first epoch and once after the others."""
    began = time.perf_counter()
    training = loop.Training(run, device, mode=wanted["mode"], **stand_in(wanted))

    def epoch(number: int) -> float:
        start = time.perf_counter()
        with training.products:
            training.learn(number)
        if device == "cuda":
            torch.cuda.synchronize()
        return time.perf_counter() - start

    epoch(1)
    graph = getattr(getattr(training, "steps", None), "graph", None)
    yield {"second_epoch_after": time.perf_counter() - began, "graph": type(graph).__name__}
    yield {"seconds": [epoch(number) for number in range(2, wanted["epochs"] + 1)]}


def stand_in(wanted: dict) -> dict:
    """The option that takes the place of a CUDA graph on a CPU, in trees that have it."""
    return {"kind": loop.graph.Tape} if wanted["rehearse"] and hasattr(loop, "graph") else {}


def main() -> None:
    """Time what is asked for."""
    wanted = json.loads(sys.argv[1])
    device = "cuda" if torch.cuda.is_available() else "cpu"
    data.load = lambda *_, **__: pictures(wanted["train_size"])
    protocol = Protocol(epochs=wanted["epochs"], precision="bfloat16", tracked=10)
    method = parse(wanted["method"])
    runs = [
        Run("cifar10", wanted["network"], method, seed, protocol)
        for seed in range(wanted["together"])
    ]
    aside = wanted["side_by_side"]
    timed = several(runs, wanted, device) if aside else alone(runs[0], wanted, device)
    print(json.dumps(next(timed)), flush=True)
    sys.stdin.readline()  # runs in several processes go on together
    last = next(timed)
    if device == "cuda":
        last["memory_mb"] = torch.cuda.max_memory_reserved() / 2**20
        last["device"] = torch.cuda.get_device_name()
    print(json.dumps({"memory_mb": None, "device": "CPU"} | last), flush=True)


if __name__ == "__main__":
    main()
