"""`Protocol`: epochs, learning rates, batch size, weight decay, split. Does not import torch."""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from math import cos, pi

from calibkit import terms


@dataclass(frozen=True)
class Protocol:
    """Everything that defines a training except data set, network, method and seed.

    Epochs are counted from 1. The learning rate drops after each epoch in `milestones`.
    """

    epochs: int
    batch_size: int = 128
    learning_rate: float = 0.1
    momentum: float = 0.9
    weight_decay: float = 5e-4
    milestones: tuple[int, ...] = ()
    decay: float = 0.1
    # Papers on focal loss and on the Brier score sum the loss over the batch and clip the gradient.
    reduction: str = "mean"
    clip_norm: float | None = None
    # Sharpness-aware minimisation (SAM) and weight averaging (SWA), for methods that use them.
    rho: float = 0.05
    sam_statistics: str = "once"  # "twice": batch norm counts both passes (authors' code)
    # Images for the batch norm of averaged weights: unchanged, or "augmented" (authors' code).
    bn_statistics: str = "plain"
    swa_start: int = 0  # average the weights after each epoch beyond this one
    swa_learning_rate: float = 0.05
    swa_anneal: int = 10
    augment: bool = True
    # Number of samples held out for validation. None: the default of the data set. "test": validate
    # on the test set, as some authors' code does.
    validation: int | str | None = None
    # Seed of the split into training and validation samples. "run": the seed of the run, so that
    # each run has another validation set. None: 42.
    split_seed: int | str | None = None
    train_size: int | None = None
    precision: str = "float32"  # or "bfloat16", for training; evaluation is in float32
    # Measurements during training.
    evaluate_every: int = 1
    snapshots: tuple[int, ...] = ()  # epochs of the snapshots; the last epoch is always one
    tracked: int = 10_000  # number of training samples that are followed one by one
    shifted: int = 0  # number of test samples measured under every shift
    replicates: int = 200  # resamples of the test set whose metrics a record keeps
    # Epochs for which the head of ConfidNet learns. 0: compute neither ConfidNet nor Trust Score.
    feature_scores: int = 0
    # Fine-tuning, and the temperature, if a paper fixes one.
    optimizer: str = "sgd"  # or "adam"
    schedule: str = "steps"  # or "cosine", down to zero
    temperature: float | None = None

    def __post_init__(self):
        terms.choose("bn_statistics", self.bn_statistics, ("plain", "augmented"))

    def shortened(self, epochs: int) -> "Protocol":
        """Return the protocol with another number of epochs; milestones and snapshots are scaled.

        Parameters
        ----------
        epochs : number of epochs, at least 1
        """
        if epochs < 1:
            raise ValueError(f"epochs: got {epochs}, expected at least 1")

        def scale(epoch: int) -> int:
            return max(1, round(epoch * epochs / self.epochs))

        return replace(
            self,
            epochs=epochs,
            milestones=tuple(scale(m) for m in self.milestones),
            swa_start=min(scale(self.swa_start), epochs - 1) if self.swa_start else 0,
            swa_anneal=scale(self.swa_anneal),
            snapshots=tuple(sorted({scale(s) for s in self.snapshots})),
            evaluate_every=max(1, round(self.evaluate_every * epochs / self.epochs)),
        )

    def changed(self, changes: Mapping[str, object]) -> "Protocol":
        """Return the protocol with other values of some fields.

        Parameters
        ----------
        changes : new values by name of the field

        Raises
        ------
        ValueError
            A field is unknown, or a value has another type than the present value.
        """
        for name, value in changes.items():
            terms.choose("setting", name, [f.name for f in fields(self)])
            old = getattr(self, name)
            number = isinstance(old, int | float) and not isinstance(old, bool)
            if old is not None and not isinstance(value, (int | float) if number else type(old)):
                raise ValueError(f"setting {name}: got {value!r}, expected a value such as {old!r}")
        return replace(self, **changes)

    def rate(self, epoch: int, averaging: str = "none", variant: str = "code") -> float:
        """Return the learning rate of an epoch.

        fmfp has two schedules for weight averaging. Its code (`variant="code"`) follows a cosine
        that falls during the first half of the training and then rises. When averaging starts, the
        rate goes along another cosine of `swa_anneal` epochs to `swa_learning_rate` and stays
        there. Its text (`variant="paper"`) has the steps of plain training up to `swa_start`, and
        then a cyclical rate. We take a constant rate instead, because the text does not give the
        length of a cycle.

        Parameters
        ----------
        epoch : counted from 1
        averaging : "none" or "swa"
        variant : "code" or "paper"
        """
        if averaging == "none" and self.schedule == "cosine":
            return self.learning_rate * (1 + cos(pi * (epoch - 1) / self.epochs)) / 2
        if averaging == "none" or (variant == "paper" and epoch <= self.swa_start):
            return self.learning_rate * self.decay ** sum(epoch > m for m in self.milestones)
        if variant == "paper":
            return self.swa_learning_rate

        def cosine(e: int) -> float:
            return self.learning_rate * (1 + cos(pi * (e - 1) / (self.epochs / 2))) / 2

        if epoch <= self.swa_start:
            return cosine(epoch)
        done = min(1.0, (epoch - self.swa_start - 1) / self.swa_anneal)
        start = cosine(self.swa_start + 1)
        return self.swa_learning_rate + (start - self.swa_learning_rate) * (1 + cos(pi * done)) / 2
