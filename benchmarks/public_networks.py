"""Networks that others trained in full: from their files to tables in data_cache/released/public.

    python benchmarks/public_networks.py logits idelbayev pytorch_resnet_cifar10/pretrained_models
    python benchmarks/public_networks.py results

``logits`` runs the weights of one author on the test images of CIFAR-10 and writes logits beside
those that others published, into ``$CALIBKIT_DATA/public_logits`` (see `calibkit.data.public`).
``results`` measures all that is there. Logits, weights and votes stay where they are: only metrics,
bins and curves are written.
"""

import argparse
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from calibkit.data import catalogue, public, splits
from calibkit.training import networks

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)  # theirs, which are ImageNet's
DEPTHS = (20, 32, 44, 56)


class LateStride(nn.Module):
    """A residual block whose second convolution has the stride, where He et al. use the first."""

    def __init__(self, inputs: int, outputs: int):
        super().__init__()
        self.stride, self.more = outputs // inputs, (outputs - inputs) // 2
        self.residual = nn.Sequential(
            nn.Conv2d(inputs, inputs, 3, 1, 1, bias=False),
            nn.BatchNorm2d(inputs),
            nn.ReLU(),
            nn.Conv2d(inputs, outputs, 3, self.stride, 1, bias=False),
            nn.BatchNorm2d(outputs),
        )

    def forward(self, x: Tensor) -> Tensor:
        skip = x[:, :, :: self.stride, :: self.stride]
        skip = nn.functional.pad(skip, (0, 0, 0, 0, self.more, self.more))
        return (self.residual(x) + skip).relu()


def late_resnet(depth: int) -> nn.Module:
    """A ResNet that widens in the last block of a stage, not in the first of the next."""
    n = (depth - 2) // 6
    widths = [16] * n + [32] * n + [64] * (n + 1)
    blocks = [LateStride(*pair) for pair in zip(widths[:-1], widths[1:], strict=True)]
    stem = [nn.Conv2d(3, 16, 3, 1, 1, bias=False), nn.BatchNorm2d(16), nn.ReLU()]
    return nn.Sequential(*stem, *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10))


def he_resnet(depth: int) -> nn.Module:
    return networks.build(f"resnet{depth}", (3, 32, 32), 10)


@dataclass(frozen=True)
class Author:
    """Whose weights, in which files, for which network, and what they say about it."""

    source: str
    files: str
    build: object = he_resnet
    unused: tuple[str, ...] = ()  # parts of names of weights that no layer uses


AUTHORS = {
    "idelbayev": Author("akamaster/pytorch_resnet_cifar10", "resnet{}-*.th"),
    "fattori": Author(
        "fattorib/ResNets-CIFAR10",
        "resnet{}.pth",
        late_resnet,
        (".conv_block.", "_block.bn."),
    ),
    "teguh": Author("theo-obadiah-teguh/NeuralNets", "resnet{}.pth"),
}


def with_weights(network: nn.Module, weights: dict[str, Tensor], unused=()) -> nn.Module:
    """A network with the weights of another: same order, different names."""
    own = [name for name in network.state_dict() if not name.endswith("num_batches_tracked")]
    skip = ("num_batches_tracked", *unused)
    theirs = [w for name, w in weights.items() if not any(part in name for part in skip)]
    network.load_state_dict(dict(zip(own, theirs, strict=True)), strict=False)
    return network.eval()


@torch.inference_mode()
def logits_of(network: nn.Module, images: np.ndarray) -> Tensor:
    """Logits (n, 10) of images (n, 3, 32, 32) uint8."""
    parts = (torch.from_numpy(np.array(images[i : i + 500])) for i in range(0, len(images), 500))
    return torch.cat([network(splits.normalise(x, MEAN, STD)) for x in parts])


def write_logits(author: str, folder: Path) -> None:
    """Logits of an author's networks on the test images of CIFAR-10, in the official order."""
    torch.set_num_threads(1)
    chosen, parts = AUTHORS[author], catalogue.read("cifar10")
    place = public.official_place(parts.test_labels)
    labels = np.empty(len(place), np.uint8)
    labels[place] = parts.test_labels
    for depth in DEPTHS:
        (file,) = folder.glob(chosen.files.format(depth))
        weights = torch.load(file, map_location="cpu", weights_only=True)
        network = with_weights(
            chosen.build(depth), weights.get("state_dict", weights), chosen.unused
        )
        logits = np.empty((len(place), 10), np.float32)
        logits[place] = logits_of(network, parts.test).numpy()
        out = public.folder() / f"cifar10-resnet{depth}-erm-{author}.npz"
        np.savez_compressed(out, logits=logits, labels=labels)
        print(f"{out.name}: {100 * (logits.argmax(1) == labels).mean():.2f} % right", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    logits = commands.add_parser("logits", help="of an author's weights")
    logits.add_argument("author", choices=AUTHORS)
    logits.add_argument("folder", type=Path, help="where the author's files of weights are")
    arguments = parser.parse_args()
    if arguments.command == "logits":
        write_logits(arguments.author, arguments.folder)


if __name__ == "__main__":
    main()
