"""Make settings of the released edition that follow a paper and suit a machine of two cores."""

from dataclasses import replace

from calibkit_companion.experiments import looks
from calibkit_companion.experiments.papers import protocols
from calibkit_companion.experiments.protocol import Protocol
from calibkit_companion.experiments.run import Setting

# Fields of the protocol for CIFAR-10 on a CPU. They are part of a run's name: never change them.
WRITTEN = {
    "validation": 5000,
    "split_seed": "run",
    "precision": "bfloat16",
    "evaluate_every": 1,
    "tracked": 2000,
    "shifted": 2000,
}


def memorised(protocol: Protocol, snapshots: tuple[int, ...]) -> Protocol:
    """Shorten a paper's protocol to 20 epochs without augmentation.

    Plain training then knows its training set by heart.

    Parameters
    ----------
    protocol : protocol of the paper
    snapshots : epochs at which predictions are kept
    """
    return replace(protocol.shortened(20), augment=False, snapshots=snapshots, **WRITTEN)


def small(protocol: Protocol, epochs: int = 30, **changes) -> Protocol:
    """Reduce a paper's protocol to 5,000 training images, which a small network learns by heart.

    Parameters
    ----------
    protocol : protocol of the paper
    epochs : number of epochs
    changes : fields of the protocol to change
    """
    changes = {"train_size": 5000, "shifted": 1000, "precision": "float32"} | changes
    changes = {"augment": False, "evaluate_every": epochs // 10} | changes
    return replace(protocol.shortened(epochs), **WRITTEN | changes)


FASHION = small(  # the protocol that all methods share in the released edition
    protocols.FMFP_CIFAR, validation=2000, split_seed=protocols.FMFP_CIFAR.split_seed
)


def on_cifar10(
    protocol: Protocol,
    title: str,
    name: str,
    network: str = "resnet18_w16",
    note: str = "",
    **more,
) -> Setting:
    """Make a setting on CIFAR-10.

    Parameters
    ----------
    protocol : how the networks are trained
    title : the training in words, for the title of the setting
    name : name of the setting in commands
    network : name of the network
    note : end of the title, which is left out on panels
    more : further fields of `Setting`
    """
    short = f"CIFAR-10, {title}"
    more |= looks.planned(name) | {"name": name, "title": short + note, "short": short}
    return Setting("cifar10", network, protocol, **more)


def on_fashion(
    protocol: Protocol, name: str, title: str = "", schedule: str = "", **more
) -> Setting:
    """Make a setting on Fashion-MNIST.

    Parameters
    ----------
    protocol : how the networks are trained
    name : name of the setting in commands
    title : the training in words, for the title of the setting
    schedule : the origin of the schedule in words, which is left out on panels
    more : further fields of `Setting`
    """
    short = ", ".join(filter(None, ["Fashion-MNIST", title]))
    whole = ", ".join(filter(None, [short, schedule]))
    more |= looks.planned(name) | {"name": name, "title": whole, "short": short}
    return Setting("fashion_mnist", "cnn", protocol, **more)
