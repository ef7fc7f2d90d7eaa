"""Compare our training loop with the plain loop of most repositories: speed, accuracy, memory.

    python benchmarks/trainer.py                       # CPU: thin ResNets on part of CIFAR-10
    python benchmarks/trainer.py --network resnet18    # on a GPU

The plain loop is a DataLoader over PIL images with torchvision transforms, float32, one optimiser
step per batch. Both are timed in alternation, epoch by epoch, on the same number of threads; the
results are samples per second of whole epochs (the first is warm-up and left out), test accuracy
after the last, and peak memory. What was measured on other devices stays in the file. `--compile`
also tries each mode of `torch.compile`. `--processes` adds how concurrent runs share the machine.
On a GPU our steps are CUDA graphs; `gpu_queue.py` measures them beside those before.
"""

import argparse
import json
import subprocess
import sys
import time
from dataclasses import replace
from datetime import date
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import nn
from torch.utils.data import DataLoader, Dataset

from calibkit_companion import data
from calibkit_companion.data.torchvision import torchvision
from calibkit_companion.experiments import plan
from calibkit_companion.experiments.method import parse
from calibkit_companion.training import networks
from calibkit_companion.training.loop import Training
from calibkit_companion.training.machine import describe

RESULTS = Path(__file__).parent / "results" / "trainer.json"


class Pictures(Dataset):
    """Images as torchvision's CIFAR10 returns them: one at a time, through PIL."""

    def __init__(self, split: data.Split, transform):
        self.pictures = split.inputs.permute(0, 2, 3, 1).numpy()
        self.labels, self.transform = split.labels.tolist(), transform

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        return self.transform(Image.fromarray(self.pictures[i])), self.labels[i]


class Plain:
    """The usual loop."""

    def __init__(self, run: plan.Run, device: str, workers: int):
        protocol, transforms = run.protocol, torchvision.transforms
        found = data.load(
            run.dataset, validation=protocol.validation, train_size=protocol.train_size
        )
        finish = [transforms.ToTensor(), transforms.Normalize(found.mean, found.std)]
        crop = [transforms.RandomCrop(32, padding=4), transforms.RandomHorizontalFlip()]
        options = {"batch_size": protocol.batch_size, "num_workers": workers}
        self.train = DataLoader(
            Pictures(found.train, transforms.Compose(crop + finish)), shuffle=True, **options
        )
        self.test = DataLoader(Pictures(found.test, transforms.Compose(finish)), **options)
        torch.manual_seed(run.seed)
        shape = tuple(found.train.inputs.shape[1:])
        self.network = networks.build(run.network, shape, len(found.classes)).to(device)
        self.optimizer = torch.optim.SGD(
            self.network.parameters(),
            lr=protocol.learning_rate,
            momentum=protocol.momentum,
            weight_decay=protocol.weight_decay,
        )
        self.protocol, self.device = protocol, device

    def learn(self, epoch: int) -> None:
        for group in self.optimizer.param_groups:
            group["lr"] = self.protocol.rate(epoch)
        self.network.train()
        for inputs, labels in self.train:
            inputs, labels = inputs.to(self.device), labels.to(self.device)
            loss = nn.functional.cross_entropy(self.network(inputs), labels)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()

    @torch.no_grad()
    def accuracy(self) -> float:
        self.network.eval()
        right = [(self.network(x.to(self.device)).argmax(1).cpu() == y) for x, y in self.test]
        return float(torch.cat(right).float().mean())


def side_by_side(run: plan.Run, device: str, threads: int, workers: int, mode: str) -> dict:
    ours, plain = Training(run, device, mode=mode), Plain(run, device, workers)
    torch.set_num_threads(threads)
    seconds = {"ours": [], "plain": []}
    for epoch in range(1, run.protocol.epochs + 1):
        for name, loop in (("ours", ours), ("plain", plain)):
            start = time.perf_counter()
            loop.learn(epoch)
            if device == "cuda":
                torch.cuda.synchronize()
            seconds[name].append(time.perf_counter() - start)
    n = len(ours.labels)
    logits, _ = ours.evaluate(ours.network.eval(), "test")
    accuracy = float((logits.argmax(1).cpu() == ours.data.test.labels).float().mean())
    result = {
        f"{name}_samples_per_second": n / float(np.median(each[1:]))
        for name, each in seconds.items()
    }
    return result | {
        "ratio": result["ours_samples_per_second"] / result["plain_samples_per_second"],
        "ratio_by_epoch": [p / o for o, p in zip(*seconds.values(), strict=True)],
        "ours_accuracy": accuracy,
        "plain_accuracy": plain.accuracy(),
        "first_epoch_seconds": {name: each[0] for name, each in seconds.items()},
    }


def sharing(network: str, epochs: int, train_size: int, processes: tuple[int, ...]) -> dict:
    """Total samples per second of several concurrent runs."""
    code = (
        "import sys; from benchmarks.trainer import wanted\n"
        "from calibkit_companion.training.loop import Training\n"
        f"t = Training(wanted({network!r}, {epochs}, {train_size}))\n"
        f"[t.learn(e) for e in (1,)]; print('ready', flush=True); sys.stdin.readline()\n"
        f"[t.learn(e) for e in range(2, {epochs} + 1)]"
    )
    rates = {}
    for n in processes:
        started = [
            subprocess.Popen(
                [sys.executable, "-c", code],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                cwd=Path(__file__).parent.parent,
            )
            for _ in range(n)
        ]
        for process in started:
            process.stdout.readline()
        start = time.perf_counter()
        for process in started:
            process.stdin.write("\n")
            process.stdin.flush()
        for process in started:
            if process.wait():
                raise SystemExit("a run failed")
        rates[n] = n * (epochs - 1) * train_size / (time.perf_counter() - start)
    return rates


def wanted(network: str, epochs: int, train_size: int) -> plan.Run:
    protocol = plan.EDITIONS["cifar10"].protocol("cifar10").shortened(epochs)
    return plan.Run("cifar10", network, parse("erm"), 0, replace(protocol, train_size=train_size))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    cuda = torch.cuda.is_available()
    parser.add_argument(
        "--network", nargs="*", default=["resnet18"] if cuda else ["resnet8", "resnet20"]
    )
    parser.add_argument("--epochs", type=int, default=10 if cuda else 5)
    parser.add_argument("--train-size", type=int, default=45_000 if cuda else 5_000)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--workers", type=int, default=8 if cuda else 0)
    parser.add_argument("--processes", type=int, nargs="*", default=[1, 2, 4] if cuda else [1, 2])
    parser.add_argument(
        "--compile", nargs="*", default=["", "default", "reduce-overhead"] if cuda else [""]
    )
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    device = "cuda" if cuda else "cpu"
    rows = []
    for network in options.network:
        run = wanted(network, options.epochs, options.train_size)
        size = {"network": network, "epochs": options.epochs, "train_size": options.train_size}
        for mode in options.compile:
            row = size | {"compiled": mode}
            row |= side_by_side(run, device, options.threads, options.workers, mode)
            rows.append(row)
            print(json.dumps(row, indent=1), flush=True)
        rows[-len(options.compile)]["together"] = sharing(*size.values(), tuple(options.processes))
    machine = describe(torch.device(device))
    found = {
        "date": str(date.today()),
        "threads": options.threads,
        "workers": options.workers,
        "machine": machine,
        "rows": rows,
    }
    options.out.parent.mkdir(exist_ok=True)
    known = json.loads(options.out.read_text()) if options.out.exists() else []
    others = [one for one in known if one["machine"]["device"] != machine["device"]]
    options.out.write_text(json.dumps([*others, found], indent=1) + "\n")


if __name__ == "__main__":
    main()
