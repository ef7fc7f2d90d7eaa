"""Time the steps of one run in the tree that PYTHONPATH names; `gpu_queue.py` starts it.

    python benchmarks/gpu_steps.py '{"network": "resnet18", "method": "erm", "train_size": 20000,
                                     "epochs": 4, "mode": "", "rehearse": false}'

It runs in trees from before the packages were split, too. The images are random. It prints a line
when the first epoch is done, waits for a line, and prints the seconds of each further epoch.
"""

import json
import os
import sys
import time
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


def main() -> None:
    """Time one run."""
    wanted = json.loads(sys.argv[1])
    cuda = torch.cuda.is_available()
    data.load = lambda *_, **__: pictures(wanted["train_size"])
    protocol = Protocol(epochs=wanted["epochs"], precision="bfloat16", tracked=10)
    run = Run("cifar10", wanted["network"], parse(wanted["method"]), 0, protocol)
    began = time.perf_counter()
    options = {}
    if wanted["rehearse"] and hasattr(loop, "graph"):
        options["kind"] = loop.graph.Tape
    training = loop.Training(run, "cuda" if cuda else "cpu", mode=wanted["mode"], **options)

    def epoch(number: int) -> float:
        start = time.perf_counter()
        with training.products:
            training.learn(number)
        if cuda:
            torch.cuda.synchronize()
        return time.perf_counter() - start

    epoch(1)
    graph = getattr(getattr(training, "steps", None), "graph", None)
    first = {"second_epoch_after": time.perf_counter() - began, "graph": type(graph).__name__}
    print(json.dumps(first), flush=True)
    sys.stdin.readline()
    seconds = [epoch(number) for number in range(2, wanted["epochs"] + 1)]
    memory = torch.cuda.max_memory_reserved() / 2**20 if cuda else None
    device = torch.cuda.get_device_name() if cuda else "CPU"
    print(json.dumps({"seconds": seconds, "memory_mb": memory, "device": device}), flush=True)


if __name__ == "__main__":
    main()
