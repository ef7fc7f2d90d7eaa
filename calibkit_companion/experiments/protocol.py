"""How a network is trained: epochs, learning rates, batch, decay, split. Free of torch.

`Protocol.shortened` makes a cheaper protocol in proportion.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from math import cos, pi

from calibkit import terms


@dataclass(frozen=True)
class Protocol:
    """Everything about a training except data, network, method and seed.

    Epochs are counted from 1. `milestones` are the last epochs at the rate before each drop.
    """

    epochs: int
    batch_size: int = 128
    learning_rate: float = 0.1
    momentum: float = 0.9
    weight_decay: float = 5e-4
    milestones: tuple[int, ...] = ()
    decay: float = 0.1
    # The focal and Brier-score line of papers sums the loss over the batch and clips the gradient.
    reduction: str = "mean"
    clip_norm: float | None = None
    # Sharpness-aware minimisation and weight averaging, for methods that use them.
    rho: float = 0.05
    sam_statistics: str = "once"  # "twice": batch norm also counts the second pass (authors' code)
    # Batch norm of averaged weights: on images as they are, or "augmented" (authors' code).
    bn_statistics: str = "plain"
    swa_start: int = 0  # average the weights after each epoch beyond this one
    swa_learning_rate: float = 0.05
    swa_anneal: int = 10
    augment: bool = True
    # Samples held out of the training set; None: the data's default; "test": the test set, as in
    # some authors' code.
    validation: int | str | None = None
    # Seed of the split of the training part. "run": the seed of the run, so that each seed has
    # another validation set; None: 42.
    split_seed: int | str | None = None
    train_size: int | None = None
    precision: str = "float32"  # or "bfloat16", of the training steps; evaluation is in float32
    # What is recorded during training.
    evaluate_every: int = 1
    snapshots: tuple[int, ...] = ()  # epochs of the snapshots; the last epoch is always one
    tracked: int = 10_000  # number of training samples tracked one by one
    shifted: int = 0  # number of test samples measured under every shift
    replicates: int = 200  # resamples of the test set whose metrics a record keeps
    # Epochs of ConfidNet's head; it and Trust Score are fitted on the training set. 0: neither.
    feature_scores: int = 0
    # For fine-tuning, and the temperature if a paper fixes it.
    optimizer: str = "sgd"  # or "adam"
    schedule: str = "steps"  # or "cosine", down to zero
    temperature: float | None = None

    def __post_init__(self):
        terms.choose("bn_statistics", self.bn_statistics, ("plain", "augmented"))

    def shortened(self, epochs: int) -> "Protocol":
        """The same protocol in another number of epochs; all epoch numbers are scaled.

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
        """The same protocol with other values of some fields.

        Parameters
        ----------
        changes : values by name of the field

        Raises
        ------
        ValueError
            An unknown field, or a value of another type than the field has now.
        """
        for name, value in changes.items():
            terms.choose("setting", name, [f.name for f in fields(self)])
            old = getattr(self, name)
            number = isinstance(old, int | float) and not isinstance(old, bool)
            if old is not None and not isinstance(value, (int | float) if number else type(old)):
                raise ValueError(f"setting {name}: got {value!r}, expected a value such as {old!r}")
        return replace(self, **changes)

    def rate(self, epoch: int, averaging: str = "none", variant: str = "code") -> float:
        """Learning rate of an epoch.

        With weight averaging there are two published schedules. `variant="code"` is the schedule of
        fmfp's code: a half-period cosine of half the training, which has begun to rise again when
        averaging starts, then a cosine step of `swa_anneal` epochs to the constant
        `swa_learning_rate`. `variant="paper"` is the schedule of its text: the steps of plain
        training up to `swa_start`, then a constant rate. (The text has a cyclical rate and does not
        give the length of a cycle.)

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
