"""Prediction files: a model's scores, the labels, and whatever else is known about each sample.

`read` opens the files people have, and `from_arrays` takes arrays in memory. Both return checked
`Predictions`. Files are treated as hostile: nothing is unpickled, unpacked or fetched.

=========================  =====================================================================
file                       what is in it
=========================  =====================================================================
``.npz``, ``.pt``          ``logits`` or ``probs`` (n, k), ``labels`` (n,), or ``confidence`` and
                           ``correct`` (n,); optionally: the same with ``val_`` before the name,
                           ``groups`` (n,), ``weights`` (n,), ``class_names`` (k,)
``.csv``, ``.parquet``     a column ``label``; columns ``prob_NAME`` or ``logit_NAME``, or bare
``.feather``, ``.jsonl``   class names over probabilities; or ``confidence`` and ``correct``;
                           optionally: ``group``, ``weight``, and ``split`` (``test`` or ``val``);
                           text is separated by commas, semicolons or tabs, and may be ``.gz``
``.json``                  a list of such rows, or arrays by name as in ``.npz``
lm-evaluation-harness      ``samples_TASK.jsonl`` of ``--log_samples``: multiple choice
fd-shifts                  ``raw_logits.npz``: one array, columns logits, label, data set
netcal                     ``.npz``: ``predictions`` (probabilities) and ``ground_truth``
Hugging Face               ``.npy`` or ``.npz``: ``predictions`` (logits); labels in ``label_ids``,
                           in ``labels.npy`` beside the file, or in the file passed as `labels`
a calibkit record          ``arrays.npz`` in the folder of a run: test and validation set
``-``                      standard input, any of these
=========================  =====================================================================

Arrays and columns may also have the names that other tools give them, such as ``y_proba`` and
``y_true``; what was read as what is said.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np

from calibkit import metrics
from calibkit.arrays import (
    Array,
    ArrayLike,
    as_confidence_correct,
    as_labels,
    as_logits,
    as_probs,
    blocks,
    row_sums,
    softmax,
    to_numpy,
)
from calibkit.report import readers
from calibkit.report.names import KEYS, few_of, is_number, one_line, text_of
from calibkit.report.scores import Samples, Score

_NO_LABEL = (-1, -100)  # "unknown" by convention, and what torch and Hugging Face ignore


@dataclass(frozen=True, eq=False)
class Predictions:
    """Checked predictions of one model.

    Attributes
    ----------
    name : str
        Name of the file, for titles.
    logits : array (n, k)
        Scores before the softmax, or the logarithms of probabilities.
    labels : array (n,) of int
    val_logits, val_labels : arrays (m, k) and (m,), or None
    groups : array (n,) or (n, c) of str, or None
        The group of each sample, or one for each of c columns.
    class_names : tuple of str
        One per column; "0" to "k - 1" if nothing better is known.
    notes : tuple of str
        What was assumed or left out on reading, for readers of a report.
    group_names : tuple of str
        Names of the columns of `groups`.
    weights, val_weights : arrays (n,) and (m,), or None
        How much each sample counts, with a mean of 1.
    confidences, val_confidences : arrays (n,) and (m,), or None
        The confidence of each answer, where that and its correctness is all that is known. The
        two columns of `logits` are then "wrong" and "right", and a label of 1 means right.
    positive : int or None
        Of two classes, the one of interest; None if nobody said.
    floor : float
        What the zeros of a row share, where probabilities had been rounded; see `log_probs`. Of the
        validation set, if there is one. 0: none had.
    own, val_own : arrays (n, k) or (n,), and (m, k) or (m,), or None
        The probabilities as the file holds them, in its type, or the one column of two that it
        holds, or the confidences of pairs; None for logits. Thresholds are applied to these.
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
    confidences: Array | None = None
    val_confidences: Array | None = None
    positive: int | None = None
    floor: float = 0.0
    own: Array | None = None
    val_own: Array | None = None

    @property
    def pairs(self) -> bool:
        """Whether there are only confidences, and no probabilities of classes."""
        return self.confidences is not None

    @cached_property
    def samples(self) -> dict[str, Array]:
        """`metrics.per_sample` of the test set, computed once."""
        return of_samples(self.logits, self.labels, self.confidences, self.own)

    @cached_property
    def val_samples(self) -> dict[str, Array] | None:
        """The same for the validation set; None without one."""
        if self.val_logits is None:
            return None
        return of_samples(self.val_logits, self.val_labels, self.val_confidences, self.val_own)

    def scored(self, event: int | None = None) -> tuple[Array, Array]:
        """Confidence and correctness (n,); of one of two classes, its probability and if it is so.

        The probability is that of the file, or in double precision.
        """
        if event is None:
            return self.samples["confidence"], self.samples["correct"]
        return probability(self.logits, event, self.own), self.labels == event

    def ranked(self, event: int | None = None) -> Array:
        """What ranks samples (n,): their log-odds, which saturate nowhere, or what the file holds.

        Of the answer, or of one of two classes.
        """
        if event is None:
            return self.samples["rank"]
        if self.own is None:
            return log_odds(self.logits, np.full(len(self.labels), event))
        return probability(self.logits, event, self.own)

    def judged(self, event: int | None = None, held: bool = False) -> Samples | None:
        """The scores that thresholds are for, of the test or of the validation set, and outcomes.

        Confidence and correctness or, of one of two classes, its probability and whether it is so.
        None without a validation set.
        """
        prefix = "val_" if held else ""
        logits, labels, own = (getattr(self, prefix + x) for x in ("logits", "labels", "own"))
        if logits is None:
            return None
        found = self.val_samples if held else self.samples
        y = found["correct"] if event is None else labels == event
        if own is None:
            p = found["confidence"] if event is None else probability(logits, event)
            return Score.computed(p, logits.dtype), y
        if own.ndim == 2:
            return Score.held(own.max(axis=1) if event is None else own[:, event]), y
        if self.pairs or event == 1:
            return Score.held(own), y
        wide = own.astype(np.float64)
        if event == 0:
            return Score.either(1 - wide, 1 - own), y
        return Score.either(np.maximum(wide, 1 - wide), np.maximum(own, 1 - own)), y

    def about(self, positive: str) -> "Predictions":
        """The same with a positive class, by its name; for two classes only."""
        if self.pairs or len(self.class_names) != 2:
            what = "pairs" if self.pairs else f"{len(self.class_names)} classes"
            raise ValueError(
                f"positive: got {few_of([positive])} for {what}, expected it only for two classes"
            )
        if str(positive) not in self.class_names:
            raise ValueError(
                f"positive: got {few_of([positive])}, expected one of {few_of(self.class_names)}"
            )
        return replace(self, positive=self.class_names.index(str(positive)))

    def take(
        self, rows: Array | None = None, val_rows: Array | None = None, **changes
    ) -> "Predictions":
        """The same with these test samples, or these of the validation set, only."""
        for prefix, chosen in (("", rows), ("val_", val_rows)):
            for name in ("logits", "labels", "groups", "weights", "confidences", "own"):
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


def of_samples(
    logits: Array, labels: Array, confidence: Array | None = None, own: Array | None = None
) -> dict[str, Array]:
    """`metrics.per_sample`, also of a confidence and whether the answer is right (a label of 1).

    And ``rank``, what ranks the samples: see `Predictions.ranked`. `own` as there.
    """
    if confidence is None:
        values = metrics.per_sample(logits, labels)
        if own is None:
            rank = log_odds(logits, logits.argmax(axis=1))
            return values | {"confidence": as_printed(values["confidence"]), "rank": rank}
        top = own.max(axis=1) if own.ndim == 2 else np.maximum(own, 1 - own)
        top = top.astype(np.promote_types(top.dtype, np.float32))
        return values | {"confidence": top, "rank": top}
    right = labels == 1
    nll = -log_probs(np.where(right, confidence, 1 - confidence).astype(np.float64))
    brier = 2 * (confidence.astype(np.float64) - right) ** 2  # over both outcomes
    both = {"confidence": confidence, "rank": confidence}
    return both | {"correct": right, "nll": nll, "brier": brier}


def log_odds(logits: Array, classes: Array) -> Array:
    """The logit of one class of each row less the logarithm of the sum of the others' exponentials.

    In double precision.

    >>> log_odds(np.array([[0.0, 2000.0], [1.0, 1.0]]), np.array([1, 0])).tolist()
    [2000.0, 0.0]
    """
    rows, odds = np.arange(len(logits)), np.empty(len(logits))
    for part in blocks(*logits.shape):
        others = logits[part].astype(np.float64)
        place = rows[: len(others)], classes[part]
        own = others[place]
        others[place] = -np.inf
        top = others.max(axis=1)
        odds[part] = own - top - np.log(np.exp(others - top[:, None]).sum(axis=1))
    return odds


def as_printed(p: Array) -> Array:
    """Probabilities without the noise of a softmax in double precision.

    What was 0.79 in a file comes back as 0.79 or as 0.7900000000000001, which would break its ties
    with others and be a strange threshold.

    >>> as_printed(np.array([0.7900000000000001, 0.123456789012])).tolist()
    [0.79, 0.123456789012]
    """
    if p.dtype != np.float64:
        return p
    short = p.round(10)
    return np.where((np.abs(p - short) <= 1e-15) & (short < 1), short, p)


def probability(logits: Array, event: int, own: Array | None = None) -> Array:
    """Probability of one of two classes: that of the file, or in double precision."""
    if own is not None:
        p = own[:, event] if own.ndim == 2 else own if event == 1 else 1 - own
        return p.astype(np.promote_types(p.dtype, np.float32))
    return as_printed(softmax(np.asarray(logits, np.float64))[:, event])


def check_same(first: Predictions, other: Predictions, name: str) -> None:
    """Refuse predictions called `name` that are not of the samples of the first."""
    n = len(first.labels)
    if len(other.labels) != n:
        raise ValueError(f"{name}: got {len(other.labels):,} samples, expected the same {n:,}")
    if first.pairs or other.pairs:  # each is right or wrong in its own way
        return
    if differ := int((first.labels != other.labels).sum()):
        raise ValueError(
            f"{name}: got labels that differ in {differ:,} of {n:,} samples, "
            "expected the same samples in the same order"
        )


def check_files(*files: "str | os.PathLike | Predictions | None") -> None:
    """Raise a plain `OSError` for the first file that cannot be opened, before reading any."""
    for file in files:
        if file is not None and not isinstance(file, Predictions) and str(file) != "-":
            with Path(file).open("rb"):
                pass


def read(
    path: str | os.PathLike,
    labels: str | os.PathLike | None = None,
    *,
    group: Sequence[str] = (),
    tokens: bool = False,
) -> Predictions:
    """Read a prediction file; the table above lists the formats.

    Parameters
    ----------
    path : path
        The file; "-" is standard input.
    labels : path, optional
        Labels in a file of their own: ``.npy``, or text with one label per line.
    group : sequence of str
        Columns (of a table) or arrays that name groups, instead of one called ``group``.
    tokens : bool
        Take scores of shape (texts, tokens, k) for as many samples as there are tokens with a
        label.

    Returns
    -------
    Predictions

    Raises
    ------
    ValueError
        In one line that names the file: an unknown layout, Python objects, damage, or anything
        that `from_arrays` refuses.
    OSError
        The file is missing or unreadable.

    Examples
    --------
    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp(), "preds.csv")
    >>> _ = file.write_text("label,prob_cat,prob_dog\\ncat,0.9,0.1\\ndog,0.6,0.4\\n")
    >>> found = read(file)
    >>> found.class_names, found.labels.tolist()
    (('cat', 'dog'), [0, 1])
    """
    path = Path(path)
    check_files(path, labels)  # before any library wraps the error
    if str(path) == "-":
        with readers.standard_input() as copy:
            try:
                return replace(read(copy, labels, group=group, tokens=tokens), name="your model")
            except ValueError as error:
                raise ValueError(str(error).replace(str(copy), "standard input")) from error
    try:
        arrays, notes = readers.arrays_of(path, tuple(group))
        if labels is not None:
            arrays["labels"] = readers.label_file(Path(labels))
        elif not {"labels", "correct"} & set(arrays):
            beside = [path.with_name(f"{name}.npy") for name in ("labels", "label_ids")]
            labels_file = next((file for file in beside if file.exists()), None)
            if labels_file is None:
                raise ValueError(
                    "got scores without labels, expected labels.npy beside them or a file of "
                    "labels (--labels)"
                )
            arrays["labels"] = readers.label_file(labels_file)
        stem = path.name.removesuffix(".gz").rpartition(".")[0]
        result = from_arrays(arrays, stem or path.name, tokens=tokens)
    except ImportError:  # pandas is not installed
        raise
    except ValueError as error:
        raise ValueError(f"{path}: {one_line(error)}") from error
    except MemoryError as error:
        raise ValueError(f"{path}: too large for the memory of this machine") from error
    except Exception as error:  # whatever a decoder stumbles over in a damaged file
        if getattr(error, "filename", None):  # the file of labels does not exist
            raise
        reason = one_line(error)
        raise ValueError(f"{path}: damaged, or not what its name says ({reason})") from error
    return replace(result, notes=(*notes, *result.notes))


def from_arrays(
    arrays: Mapping[str, ArrayLike], name: str = "your model", *, tokens: bool = False
) -> Predictions:
    """Check arrays, named as in the ``.npz`` file above.

    Parameters
    ----------
    arrays : mapping
        Scores may also be (n,): the logit or probability of class 1 of two. Logits whose rows are
        probabilities are read as such, with a note. Labels may be numbers from 0, names of
        ``class_names``, or one-hot rows; samples labelled -1 or -100 are left out, with a note.
        ``groups`` may be (n, c), with the names of its columns in ``group_names``.
    name : str
        For the title of a report.
    tokens : bool
        As in `read`.

    Returns
    -------
    Predictions

    Raises
    ------
    ValueError
        An array is missing, malformed or of the wrong length; the message names it and what was
        expected.

    Examples
    --------
    >>> found = from_arrays({"probs": [[0.9, 0.1], [0.6, 0.4]], "labels": [0, -1]})
    >>> found.labels.tolist(), found.notes
    ([0], ('1 of 2 samples have no label (-1 or -100) and are left out.',))
    """
    notes: list[str] = []
    unknown = [key for key in arrays if key not in (*KEYS, "group_names")]
    if unknown:
        raise ValueError(f"got {few_of(unknown)}, expected names among {', '.join(KEYS)}")
    if tokens:
        arrays = _flattened(arrays, notes)
    pairs = "confidence" in arrays and not {"logits", "probs"} & set(arrays)
    part = _pairs if pairs else _part
    names = ("wrong", "right") if pairs else _class_names(arrays.get("class_names"))
    more: dict = {"group_names": tuple(map(str, arrays.get("group_names", ())))}
    k = 0
    for prefix in ("", "val_") if any(key.startswith("val_") for key in arrays) else ("",):
        logits, labels, keep, floor = part(arrays, prefix, names, notes)
        if names and len(names) != logits.shape[1] and not prefix:
            raise ValueError(f"class_names: got {len(names)} names, expected {logits.shape[1]}")
        if logits.shape[1] != (k := k or logits.shape[1]):
            raise ValueError(f"val_logits: got {logits.shape[1]} classes, expected {k}")
        more |= {f"{prefix}logits": logits, f"{prefix}labels": labels}
        more[f"{prefix}own"] = _own(arrays, prefix, logits, keep)
        more[f"{prefix}weights"] = _weights(arrays, f"{prefix}weights", keep)
        if pairs:
            given = arrays[f"{prefix}confidence"]
            more[f"{prefix}confidences"] = as_confidence_correct(given, labels)[0]
        if not prefix and arrays.get("groups") is not None:
            more["groups"] = _groups(arrays["groups"], keep)
    names = names or tuple(str(i) for i in range(k))
    return Predictions(name, class_names=names, notes=tuple(notes), floor=floor, **more)


def _own(arrays: Mapping[str, ArrayLike], prefix: str, logits: Array, keep: Array) -> Array | None:
    """The probabilities of the rows that are kept, as they were given; None for other scores."""
    names = (prefix + x for x in ("probs", "logits", "confidence") if prefix + x in arrays)
    raw = arrays[next(names)]
    given = to_numpy(raw)
    if str(getattr(raw, "dtype", "")) in ("float16", "torch.float16"):
        given = given.astype(np.float16)  # of NumPy or torch; it was made wider without a loss
    given = given[:, 0] if given.ndim == 2 and given.shape[1] == 1 else given
    read = logits[:, 1] if given.ndim == 1 else logits
    if given.dtype.kind != "f" or len(given) != len(keep) or given[keep].shape != read.shape:
        return None
    given = given[keep]
    if given.min() < 0 or given.max() > 1:
        return None
    # Zeros, and rows that do not sum to 1, were changed a little on reading.
    return given if np.median(np.abs(given - np.exp(read))) < 0.02 else None


def _groups(groups: ArrayLike, keep: Array) -> Array:
    groups = np.asarray(to_numpy(groups))
    if groups.shape[:1] != keep.shape or groups.ndim > 2 or groups.dtype.kind not in "biufUS":
        raise ValueError(
            f"groups: got shape {groups.shape} of type {groups.dtype}, "
            f"expected {keep.shape} of names or numbers"
        )
    return text_of(groups)[keep]


def log_probs(probs: Array, floor: float = 0.0) -> Array:
    """Logarithms of probabilities, finite even for 0, so that softmax gives the probabilities back.

    The zeros of a row share the floor: half a unit of the last decimal, where they were rounded.

    >>> log_probs(np.array([0.5, 0.0])).round(2).tolist()
    [-0.69, -708.4]
    >>> np.exp(log_probs(np.array([[0.7, 0.3, 0.0]]), floor=0.05)).round(2).tolist()
    [[0.7, 0.26, 0.04]]
    """
    probs = _fill_zeros(probs, floor) if floor else probs
    out = np.maximum(probs, np.finfo(probs.dtype).tiny)
    return np.log(out, out=out)


# --- arrays: scores, labels, names ---


def _flattened(arrays: Mapping[str, ArrayLike], notes: list[str]) -> dict[str, ArrayLike]:
    """Scores (texts, tokens, k) as (texts × tokens, k), and what belongs to them."""
    flat = dict(arrays)
    for prefix in ("", "val_"):
        for kind in ("logits", "probs"):
            scores = to_numpy(flat.get(prefix + kind, 0.0))
            if scores.ndim != 3:
                continue
            texts, length, k = scores.shape
            flat[prefix + kind] = scores.reshape(-1, k)
            labels = to_numpy(flat.get(f"{prefix}labels", ()))
            if labels.shape != (texts, length):
                raise ValueError(
                    f"{prefix}labels: got shape {labels.shape}, expected {(texts, length)}, one "
                    "for each token"
                )
            flat[f"{prefix}labels"] = labels.reshape(-1)
            for name in (f"{prefix}weights", "" if prefix else "groups"):
                if name in flat and len(to_numpy(flat[name])) == texts:
                    flat[name] = np.repeat(np.asarray(to_numpy(flat[name])), length, axis=0)
            notes.append(
                f"{texts:,} {'validation ' * bool(prefix)}texts of {length:,} tokens: each token "
                "is a sample. Tokens of one text are alike, so the intervals are too narrow."
            )
    return flat


def _weights(arrays: Mapping[str, ArrayLike], name: str, keep: Array) -> Array | None:
    """Weights of the samples kept, with a mean of 1."""
    if name not in arrays:
        return None
    weights = to_numpy(arrays[name])
    if weights.shape != keep.shape or weights.dtype.kind not in "biuf":
        raise ValueError(f"{name}: got shape {weights.shape}, expected {keep.shape} of numbers")
    weights = weights.astype(np.float64)[keep]
    if not np.isfinite(weights).all() or weights.min() < 0 or not weights.sum():
        raise ValueError(
            f"{name}: got values from {weights.min():g} to {weights.max():g}, expected weights "
            "from 0 that are not all 0"
        )
    return weights / weights.mean()


def _pairs(
    arrays: Mapping[str, ArrayLike], prefix: str, names: tuple[str, ...], notes: list[str]
) -> tuple[Array, Array, Array, float]:
    """Confidence and correctness as the probabilities of "wrong" and "right"."""
    if f"{prefix}confidence" not in arrays or f"{prefix}correct" not in arrays:
        raise ValueError(f"got {few_of(arrays)}, expected {prefix}confidence and {prefix}correct")
    try:
        confidence, correct = as_confidence_correct(
            arrays[f"{prefix}confidence"], arrays[f"{prefix}correct"], unit=True
        )
    except ValueError as error:
        values = to_numpy(arrays[f"{prefix}confidence"])
        logs = values.dtype.kind in "fi" and values.size and values.max() <= 0
        words = "if these are log-probabilities, name them logprob" if logs else ""
        hint = _hint(values, words)
        raise ValueError(f"{prefix}{error}{hint}") from error
    both = np.stack([1 - confidence, confidence], axis=1).clip(0, 1)
    # A printed 1 with an infinite logit would decide the temperature; the confidence stays.
    half = 0.5 * 10.0**-digits if (digits := _digits(both)) else 0.0
    return log_probs(both, half), correct.astype(np.int64), np.ones(len(correct), bool), 0.0


def _hint(scores: Array, otherwise: str) -> str:
    """What scores may be that are no probabilities."""
    if scores.dtype.kind not in "fiu" or not scores.size:
        return ""
    if scores.min() >= 0 and 20 < scores.max() <= 100:
        otherwise = "divide percentages by 100"
    return f" ({otherwise})" if otherwise else ""


def _part(
    arrays: Mapping[str, ArrayLike], prefix: str, names: tuple[str, ...], notes: list[str]
) -> tuple[Array, Array, Array, float]:
    """Logits, labels, rows kept and floor of the test set or, with "val_", the validation set."""
    kinds = [kind for kind in ("logits", "probs") if prefix + kind in arrays]
    if not kinds or f"{prefix}labels" not in arrays:
        raise ValueError(
            f"got {few_of(arrays)}, expected {prefix}logits or {prefix}probs, and {prefix}labels "
            f"(or {prefix}confidence and {prefix}correct)"
        )
    logits, floor = _scores(arrays[prefix + kinds[0]], prefix + kinds[0], notes)
    n, k = logits.shape
    labels = _numbered(arrays[f"{prefix}labels"], n, k, names, f"{prefix}labels")
    keep = ~np.isin(labels, _NO_LABEL)
    if not keep.all():
        left_out = n - keep.sum()
        notes.append(
            f"{left_out:,} of {n:,} {'validation ' * bool(prefix)}samples have no label "
            "(-1 or -100) and are left out."
        )
        if left_out == n:
            raise ValueError(f"{prefix}labels: got only -1 and -100, expected classes")
        logits, labels = logits[keep], labels[keep]
    if labels.min() == 1 and labels.max() == k:
        raise ValueError(f"{prefix}labels: got values from 1 to {k}, expected them counted from 0")
    return logits, as_labels(labels, k, name=f"{prefix}labels"), keep, floor


def _scores(scores: ArrayLike, name: str, notes: list[str]) -> tuple[Array, float]:
    scores = to_numpy(scores)
    probs = name.endswith("probs")
    if scores.ndim == 3:
        raise ValueError(
            f"{name}: got shape {scores.shape}, expected (n, k); if these are scores of tokens, "
            "say so (--tokens)"
        )
    if scores.ndim == 2 and scores.shape[1] == 1:
        scores = scores[:, 0]
    if scores.ndim == 1 and scores.dtype.kind in "fiu" and scores.size:
        if probs:  # before a second column is derived from them
            try:
                as_confidence_correct(scores, np.zeros(len(scores), bool), unit=True)
            except ValueError as error:
                hint = _hint(scores, "if these are scores of another scale, name them logits")
                raise ValueError(f"{name}{str(error).removeprefix('confidence')}{hint}") from error
        inside = not probs and len(scores) > 1 and scores.min() >= 0 and scores.max() <= 1
        other = 1 - scores if probs or inside else np.zeros_like(scores)
        scores = np.stack([other, scores], axis=1)
        if not name.startswith("val_"):  # said once
            notes.append(f"One column of {name}: read as class 1 of two.")
    if not probs:
        scores = as_logits(scores, name, kind=None)
        probs = len(scores) > 1 and _are_probs(scores)
        if not probs:
            return scores, 0.0
        notes.append(f"The rows of {name} sum to 1 and were read as probabilities.")
    digits = _digits(scores)
    off = np.abs(row_sums(scores) - 1).max() if digits else 0.0
    if digits < 5 and 1e-3 < off <= min(0.5 * scores.shape[1] / 10 ** max(digits, 2), 0.05) + 1e-6:
        notes.append(f"The {name} are rounded: each row was divided by its sum.")
        scores = scores / row_sums(scores)[:, None]
    try:
        scores = as_probs(scores, name)
    except ValueError as error:
        hint = _hint(scores, "if these are logits, name them logits")
        raise ValueError(f"{error}{hint}") from error
    half = 0.5 * 10.0**-digits if digits else 0.0
    if half and (zeros := int((scores == 0).sum())):
        places = f"{digits} decimal{'s' * (digits > 1)}"
        notes.append(
            f"The {name} have {places}, and {zeros:,} of {scores.size:,} are 0, which may be "
            f"anything below {half:.{digits + 1}f}. The zeros of a row share that much, so NLL and "
            "temperature are approximate; save the logits for exact ones."
        )
    return log_probs(scores, half), half


def _are_probs(scores: Array) -> bool:
    inside = scores.min() >= 0 and scores.max() <= 1 + 1e-6
    return bool(inside and np.abs(row_sums(scores) - 1).max() <= 1e-3)


def _digits(probs: Array) -> int:
    """Number of decimals that probabilities were rounded to; 0 if not rounded, or not visibly."""
    if probs.ndim != 2 or probs.dtype.kind != "f" or not probs.size:
        return 0
    if np.isin(probs, (0, 1)).all():  # answers, not probabilities
        return 0
    for digits in range(1, 9 if probs.dtype == np.float64 else 6):
        off = 1e-3 * 10.0**-digits + np.finfo(probs.dtype).eps
        few = probs[:: len(probs) // 1000 + 1]
        if all(np.abs(x - x.round(digits)).max() <= off for x in (few, probs)):
            return digits
    return 0


def _fill_zeros(probs: Array, half: float) -> Array:
    """Share `half` a unit of the last decimal among a row's zeros, taken from all but the largest.

    A printed 0 is some probability below `half`; 1e-308 in its place would decide the NLL and the
    temperature. The zeros share `half`, since a row in which each had that much would not have been
    printed this way. The confidence stays as printed, so a threshold applies to the file as it is;
    only a 1 loses `half`.
    """
    zero, rows = probs == 0, np.arange(len(probs))
    count, answer = zero.sum(axis=1), probs.argmax(axis=1)
    others = np.where(zero, half / np.maximum(count, 1)[:, None], probs.astype(np.float64))
    left = np.maximum(1 - probs[rows, answer].astype(np.float64), half)
    others[rows, answer] = 0
    others *= (left / others.sum(axis=1))[:, None]
    others[rows, answer] = 1 - left
    return np.where((count > 0)[:, None], others, probs).astype(probs.dtype)


def _class_names(names: "ArrayLike | None") -> tuple[str, ...]:
    if names is None:
        return ()
    array = np.asarray(names)
    if array.ndim != 1 or array.dtype.kind not in "biufUS":
        raise ValueError(
            f"class_names: got shape {array.shape} of type {array.dtype}, expected (k,) of names"
        )
    class_names = tuple(text_of(array).tolist())
    if len(set(class_names)) < len(class_names):
        twice = next(name for i, name in enumerate(class_names) if name in class_names[:i])
        raise ValueError(f"class_names: got {twice!r} twice, expected a name for each class")
    return class_names


def _numbered(labels: ArrayLike, n: int, k: int, names: tuple[str, ...], name: str) -> Array:
    """Labels as whole numbers, however they were written."""
    array = to_numpy(labels)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    one_hot = array.shape == (n, k) and array.dtype.kind in "biuf" and np.isin(array, (0, 1)).all()
    if one_hot and (array.sum(axis=1) == 1).all():
        return array.argmax(axis=1)
    if array.ndim != 1 or array.size != n:
        raise ValueError(f"{name}: got shape {array.shape}, expected ({n},), one for each sample")
    if array.dtype.kind == "f":
        odd = array[~((np.abs(array) < 1e15) & (array == np.round(array)))]
        if odd.size:
            raise ValueError(f"{name}: got {odd[0]:g}, expected whole numbers 0 to {k - 1}")
        array = array.astype(np.int64)
    if array.dtype.kind in "US":
        return _by_name(text_of(array), k, names, name)
    if array.dtype.kind not in "biu":
        raise ValueError(f"{name}: got type {array.dtype}, expected whole numbers or names")
    if k == 2 and set(np.unique(array)) == {-1, 1}:
        raise ValueError(f"{name}: got -1 and 1, expected 0 and 1 (-1 stands for no label)")
    own = [str(i) for i in range(k)]
    if names and all(is_number(x) for x in names) and list(names) != own:
        if sorted(names) == sorted(own):  # a number may be a position or a name
            raise ValueError(
                f"class_names: got the numbers {few_of(names)} in another order than the columns, "
                f"and {name} that are numbers too; write the {name} as text"
            )
        return _by_name(text_of(array), k, names, name)  # columns called 1 to k, or 7 and 9
    return array.astype(np.int64)


def _by_name(labels: Array, k: int, names: tuple[str, ...], name: str) -> Array:
    distinct, place = np.unique(labels, return_inverse=True)
    number = {str(i): i for i in _NO_LABEL} | {x: i for i, x in enumerate(names)}
    if not all(x in number for x in distinct) and all(is_number(x) for x in distinct):
        places = {x: int(x) for x in distinct}
        if set(places.values()) <= {*_NO_LABEL, *range(k)} or not all(is_number(x) for x in names):
            number = places
    unknown = [str(x) for x in distinct if x not in number]
    if unknown and not names:
        raise ValueError(
            f"{name}: got names such as {unknown[0]!r}, expected numbers 0 to {k - 1}, "
            "or class_names with the name of each column"
        )
    if unknown:
        raise ValueError(f"{name}: got {few_of(unknown)}, expected names among {few_of(names)}")
    return np.array([number[x] for x in distinct], dtype=np.int64)[place]
