"""The predictions of public networks on CIFAR-10, for the page on training in full.

    git clone https://github.com/akamaster/pytorch_resnet_cifar10
    CALIBKIT_DATA=... python benchmarks/public_networks.py pytorch_resnet_cifar10/pretrained_models

Writes logits and labels of the 10,000 test images, and the origin of the weights. The largest logit
of each row is subtracted, which changes no probability and keeps near ties apart in half precision.
The weights themselves (Yerlan Idelbayev, BSD 2-clause licence) stay where they are.
"""

import argparse
import hashlib
from pathlib import Path

import numpy as np
import torch

from calibkit.data import catalogue, readers, splits
from calibkit.training import networks

FILE = Path(__file__).resolve().parent.parent / "data_cache" / "public" / "cifar10_resnets.npz"
SOURCE = "https://github.com/akamaster/pytorch_resnet_cifar10"
DEPTHS = (20, 32, 44, 56)
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)  # theirs, which are ImageNet's


def with_weights(depth: int, weights: dict[str, torch.Tensor]) -> networks.Network:
    """Our ResNet of a given depth with their weights: same order, different names."""
    network = networks.build(f"resnet{depth}", (3, 32, 32), 10)
    own = [name for name in network.state_dict() if not name.endswith("num_batches_tracked")]
    theirs = [w for name, w in weights.items() if not name.endswith("num_batches_tracked")]
    network.load_state_dict(dict(zip(own, theirs, strict=True)), strict=False)
    return network.eval()


@torch.inference_mode()
def logits_of(network: networks.Network, images: np.ndarray) -> torch.Tensor:
    """Logits (n, 10) of images (n, 3, 32, 32) uint8."""
    parts = (torch.from_numpy(np.array(images[i : i + 500])) for i in range(0, len(images), 500))
    return torch.cat([network(splits.normalise(x, MEAN, STD)) for x in parts])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="where resnet20-….th and the others are")
    folder = parser.parse_args().folder
    parts = catalogue.read("cifar10")
    order = [readers.CIFAR10_CLASSES.index(name) for name in parts.classes]
    logits, names, sums = [], [], []
    for depth in DEPTHS:
        (file,) = folder.glob(f"resnet{depth}-*.th")
        weights = torch.load(file, map_location="cpu", weights_only=True)["state_dict"]
        logits.append(logits_of(with_weights(depth, weights), parts.test)[:, order].numpy())
        right = (logits[-1].argmax(1) == parts.test_labels).mean()
        print(f"ResNet-{depth}: {100 * right:.2f} % right", flush=True)
        names.append(f"ResNet-{depth}")
        sums.append(hashlib.sha256(file.read_bytes()).hexdigest())
    FILE.parent.mkdir(exist_ok=True)
    np.savez_compressed(
        FILE,
        logits=np.array([z - z.max(axis=1, keepdims=True) for z in logits], np.float16),
        labels=np.asarray(parts.test_labels, np.uint8),
        networks=names,
        weights_sha256=sums,
        source=SOURCE,
    )


if __name__ == "__main__":
    main()
