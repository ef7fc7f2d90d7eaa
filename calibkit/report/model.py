"""The class `Predictions`: the checked predictions of one model, which all of a report uses."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from calibkit.arrays import Array
from calibkit.precision import Floor
from calibkit.report.design import Design
from calibkit.report.names import few_of
from calibkit.report.parts import Classes, Pairs, Part
from calibkit.report.readers.content import Input

OF_SAMPLES = ("logits", "labels", "groups", "weights", "clusters", "confidences", "own", "ids")


@dataclass(frozen=True, eq=False)
class Predictions:
    """The checked predictions of one model for n test samples, and m validation samples.

    Attributes
    ----------
    name : str
        Name of the file, for titles.
    logits : array (n, k)
        Scores before the softmax, or the logarithms of probabilities.
    labels : array (n,) of int
        True classes, from 0.
    val_logits, val_labels : arrays (m, k) and (m,), or None
        The validation set.
    groups : array (n,) or (n, c) of str, or None
        The group of each sample, or one for each of c columns.
    class_names : tuple of str
        One per column; "0" to "k - 1" if nothing better is known.
    notes : tuple of str
        Sentences on what was assumed or left out when the file was read.
    group_names : tuple of str
        Names of the columns of `groups`.
    weights, val_weights : arrays (n,) and (m,), or None
        How much each sample counts, scaled by `resampling.as_counts`.
    clusters, val_clusters : arrays (n,) and (m,) of str, or None
        The cluster of each sample, such as the patient. Samples of one cluster depend on each
        other; folds and intervals go over clusters.
    cluster_name : str
        Name of the column of clusters.
    confidences, val_confidences : arrays (n,) and (m,), or None
        The confidence of each answer, if the file has only confidences and correctness. The two
        columns of `logits` are then "wrong" and "right", and the label 1 means right.
    positive : int or None
        With two classes, the class of interest (0 or 1); None if nobody named it.
    doubts : tuple of str
        Sentences on why labels and columns seem not to fit; with a doubt, there is no verdict.
    floor : calibkit.precision.Floor or None
        What a probability of 0 counts as; None for logits.
    zeros : str
        A sentence on what a probability of 0 counts as, and why; empty if no probability is 0.
    own, val_own : arrays (n, k) or (n,), and (m, k) or (m,), or None
        The probabilities exactly as the file holds them, in its type: (n,) for a single column or
        for confidences; None for logits. Thresholds are applied to these.
    inputs : tuple of (file, sha256)
        The files that the predictions were read from.
    tokens : bool
        Whether each sample is a token of a text or a pixel of an image.
    ids : array (n, c) of str, or None
        The c columns that may name the samples; None unless `read` was told to keep them.
    id_names : tuple of str
        Names of these columns.
    """

    name: str
    logits: Array
    labels: Array
    val_logits: Array | None = None
    val_labels: Array | None = None
    groups: Array | None = None
    class_names: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    group_names: tuple[str, ...] = ()
    weights: Array | None = None
    val_weights: Array | None = None
    clusters: Array | None = None
    val_clusters: Array | None = None
    cluster_name: str = ""
    confidences: Array | None = None
    val_confidences: Array | None = None
    positive: int | None = None
    floor: Floor | None = None
    zeros: str = ""
    doubts: tuple[str, ...] = ()
    own: Array | None = None
    val_own: Array | None = None
    inputs: tuple[Input, ...] = ()
    tokens: bool = False
    ids: Array | None = None
    id_names: tuple[str, ...] = ()

    @cached_property
    def kind(self) -> Classes | Pairs:
        """The kind of scores, of classes or confidences of answers, as an object.

        Its methods compute what differs between the two.
        """
        if self.confidences is not None:
            return Pairs()
        return Classes(self.class_names, self.positive)

    @property
    def pairs(self) -> bool:
        """Whether there are only confidences, and no probabilities of classes."""
        return not self.kind.known

    @cached_property
    def test(self) -> Part:
        """The test set."""
        return self._part("")

    @cached_property
    def validation(self) -> Part | None:
        """The validation set; None if the file has none."""
        return None if self.val_logits is None else self._part("val_")

    def _part(self, prefix: str) -> Part:
        names = ("logits", "labels", "own", "weights", "clusters", "confidences")
        return Part(kind=self.kind, **{name: getattr(self, prefix + name) for name in names})

    @property
    def design(self) -> Design:
        """The weights and clusters of the test samples."""
        return self.test.design

    def about(self, positive: str) -> "Predictions":
        """The same predictions with a positive class, by its name; `ValueError` unless k is 2."""
        if not self.kind.two:
            raise ValueError(
                f"positive: got {few_of([positive])} for {self.kind.described}, expected two "
                "classes: leave it out"
            )
        if str(positive) not in self.class_names:
            raise ValueError(
                f"positive: got {few_of([positive])}, expected one of {few_of(self.class_names)}"
            )
        return replace(self, positive=self.class_names.index(str(positive)))

    def take(
        self, rows: Array | None = None, val_rows: Array | None = None, **changes: Any
    ) -> "Predictions":
        """The same predictions with only the test samples `rows` and validation samples `val_rows`.

        None keeps all. `changes` are new values of other attributes.
        """
        for prefix, chosen in (("", rows), ("val_", val_rows)):
            for name in OF_SAMPLES:
                values = getattr(self, prefix + name, None)
                if values is not None and chosen is not None:
                    changes.setdefault(prefix + name, values[chosen])
        return replace(self, **changes)

    def sample(self, most: int, seed: int = 0) -> "Predictions":
        """Return a random subset of at most `most` samples, in order, with a note that says so."""
        rng, n = np.random.default_rng(seed), len(self.labels)
        rows, val_rows = (
            np.sort(rng.choice(len(x), most, replace=False))
            if x is not None and len(x) > most
            else None
            for x in (self.labels, self.val_labels)
        )
        note = f"All numbers come from a random {most:,} of the {n:,} samples."
        notes = self.notes if rows is None else (*self.notes, note)
        return self if rows is val_rows is None else self.take(rows, val_rows, notes=notes)


def check_same(first: Predictions, other: Predictions, name: str) -> None:
    """Raise `ValueError` unless `other`, called `name`, has as many samples and the same labels."""
    n = len(first.labels)
    if len(other.labels) != n:
        raise ValueError(
            f"{name}: got {len(other.labels):,} samples, expected the same {n:,}; calibkit compare "
            "matches tables in which a column names the rows (--id)"
        )
    if not (first.kind.known and other.kind.known):  # labels say which answers are right
        return
    if differ := int((first.labels != other.labels).sum()):
        raise ValueError(
            f"{name}: got labels that differ in {differ:,} of {n:,} samples, expected the same "
            "samples in the same order, or for calibkit compare a column that names them (--id)"
        )


def inputs_of(*models: Predictions | None) -> list[Input]:
    """The files that several models were read from, without repetition."""
    return list(dict.fromkeys(x for model in models if model for x in model.inputs))
