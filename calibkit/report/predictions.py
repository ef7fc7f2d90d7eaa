"""Prediction files: a model's scores, the labels, and whatever else is known about each sample.

`read` opens the files people have, and `from_arrays` takes arrays in memory. Both return checked
`Predictions`. Files are treated as hostile: nothing is unpickled, unpacked or fetched.

=========================  =====================================================================
file                       what is in it
=========================  =====================================================================
``.npz``, ``.pt``          ``logits`` or ``probs`` (n, k), ``labels`` (n,), or ``confidence`` and
                           ``correct`` (n,); optionally: the same with ``val_`` before the name,
                           ``groups`` (n,), ``weights`` (n,), ``class_names`` (k,)
``.csv``, ``.parquet``     a column ``label``; columns of probabilities under one prefix or suffix
``.feather``, ``.jsonl``   of any kind, or under the bare names of the classes; ``logit_NAME``; or a
                           list, dict or vector of scores in each row; or ``confidence`` and
                           ``correct``; optionally: the model's own answers, ``group``, ``weight``,
                           and ``split`` (``test`` or ``val``); text is separated by commas,
                           semicolons or tabs, and may be ``.gz``
``.json``                  a list of such rows, a table as pandas writes it, or arrays by name
lm-evaluation-harness      ``samples_TASK.jsonl`` of ``--log_samples``: multiple choice
fd-shifts                  ``raw_logits.npz``: one array, columns logits, label, data set
netcal                     ``.npz``: ``predictions`` (probabilities) and ``ground_truth``
Hugging Face               ``.npy`` or ``.npz``: ``predictions`` (logits); labels in ``label_ids``,
                           in ``labels.npy`` beside the file, or in the file passed as `labels`
a calibkit record          ``arrays.npz`` in the folder of a run: test and validation set
``-``                      standard input, any of these
=========================  =====================================================================

Arrays and columns may also have the names that other tools give them, such as ``y_proba`` and
``y_true``; what was read as what is said. Any other name is read as the caller says (`columns`).
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np

from calibkit import metrics, precision
from calibkit.arrays import (
    Array,
    ArrayLike,
    as_confidence_correct,
    as_labels,
    log_odds,
    softmax,
    to_numpy,
)
from calibkit.files import named, shown
from calibkit.precision import Floor
from calibkit.report import doubts, given, readers
from calibkit.report.design import Design
from calibkit.report.given import Given
from calibkit.report.names import KEYS, few_of, one_line, text_of
from calibkit.report.readers.content import Input, Watched
from calibkit.report.readers.labels import (
    NO_LABEL,
    as_text,
    minus_one_is_class,
    numbered,
)
from calibkit.report.readers.rows import checked
from calibkit.report.readers.several import one_of_arrays
from calibkit.report.readers.tokens import flattened
from calibkit.report.scores import Samples, Score
from calibkit.resampling import as_counts, as_groups


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
        How much each sample counts, as from `resampling.as_counts`.
    clusters, val_clusters : arrays (n,) and (m,) of str, or None
        Which samples are alike, of one patient for instance: folds and intervals go over these.
    cluster_name : str
        What the column of clusters is called.
    confidences, val_confidences : arrays (n,) and (m,), or None
        The confidence of each answer, where that and its correctness is all that is known. The
        two columns of `logits` are then "wrong" and "right", and a label of 1 means right.
    positive : int or None
        Of two classes, the one of interest; None if nobody said.
    doubts : tuple of str
        Reasons to believe that labels and columns do not belong together; there is then no verdict.
    floor : calibkit.precision.Floor or None
        What a probability of 0 counts as. None for logits.
    zeros : str
        That, and why, in a sentence; empty if none is 0.
    own, val_own : arrays (n, k) or (n,), and (m, k) or (m,), or None
        The probabilities as the file holds them, in its type, or the one column of two that it
        holds, or the confidences of pairs; None for logits. Thresholds are applied to these.
    inputs : tuple of (file, sha256)
        The files that all this was read from.
    ids : array (n, c) of str, or None
        Columns that may name the samples, called `id_names`; only where they were asked for.
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
    ids: Array | None = None
    id_names: tuple[str, ...] = ()

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

    @cached_property
    def design(self) -> Design:
        """How the test samples were drawn."""
        clusters = None if self.clusters is None else as_groups(self.clusters, len(self.labels))
        return Design(len(self.labels), self.weights, clusters)

    @cached_property
    def val_design(self) -> Design | None:
        """The same of the validation set; None without one."""
        if self.val_labels is None:
            return None
        n, clusters = len(self.val_labels), self.val_clusters
        return Design(n, self.val_weights, None if clusters is None else as_groups(clusters, n))

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
        score = self._score(event, logits, own, found["confidence"])
        return Samples(score, y, self.val_weights if held else self.weights)

    def _score(
        self, event: int | None, logits: Array, own: Array | None, confidence: Array
    ) -> Score:
        if own is None:
            p = confidence if event is None else probability(logits, event)
            return Score.computed(p, logits.dtype)
        if own.ndim == 2:
            return Score.held(own.max(axis=1) if event is None else own[:, event])
        if self.pairs or event == 1:
            return Score.held(own)
        wide = own.astype(np.float64)
        if event == 0:
            return Score.either(1 - wide, 1 - own)
        return Score.either(np.maximum(wide, 1 - wide), np.maximum(own, 1 - own))

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
            for name in (
                "logits", "labels", "groups", "weights", "clusters", "confidences", "own", "ids"
            ):  # fmt: skip
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
            rank = log_odds(logits)
            return values | {"confidence": as_printed(values["confidence"]), "rank": rank}
        top = own.max(axis=1) if own.ndim == 2 else np.maximum(own, 1 - own)
        top = top.astype(np.promote_types(top.dtype, np.float32))
        return values | {"confidence": top, "rank": top}
    right = labels == 1
    p = np.where(right, confidence, 1 - confidence).astype(np.float64)
    nll = np.where(p > 0, -log_probs(p), -logits[np.arange(len(p)), labels])
    brier = 2 * (confidence.astype(np.float64) - right) ** 2  # over both outcomes
    both = {"confidence": confidence, "rank": confidence}
    return both | {"correct": right, "nll": nll, "brier": brier}


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
        raise ValueError(
            f"{name}: got {len(other.labels):,} samples, expected the same {n:,}; calibkit compare "
            "matches tables in which a column names the rows (--id)"
        )
    if first.pairs or other.pairs:  # each is right or wrong in its own way
        return
    if differ := int((first.labels != other.labels).sum()):
        raise ValueError(
            f"{name}: got labels that differ in {differ:,} of {n:,} samples, expected the same "
            "samples in the same order, or for calibkit compare a column that names them (--id)"
        )


def inputs_of(*models: Predictions | None) -> list[Input]:
    """The files of several models, each once."""
    return list(dict.fromkeys(x for model in models if model for x in model.inputs))


def check_files(*files: "str | os.PathLike | Predictions | None") -> None:
    """Raise a plain `OSError` for the first file that cannot be opened, before reading any."""
    for file in files:
        if file is not None and not isinstance(file, Predictions) and str(file) != "-":
            with named(file), Path(file).open("rb"):
                pass


def read(
    path: str | os.PathLike,
    labels: str | os.PathLike | None = None,
    *,
    group: Sequence[str] = (),
    tokens: bool = False,
    columns: Mapping[str, str | Sequence[str]] | Sequence[str] = (),
    minus_one: str | None = None,
    as_is: bool = False,
    one_label: str | None = None,
    ids: str | None = None,
    cluster: str | None = None,
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
        label; scores of pixels, (images, k, height, width) or with k at the end, likewise.
    columns : mapping or sequence of str
        What columns or arrays are, where their names do not say it: ``{"label": "truth", "probs":
        "score_*"}``, or ``["label=truth"]`` as on the command line. Names are label, probs, logits,
        confidence, correct, logprob, answer, weight, group, split, and ignore for what is none;
        a name with dots is within a JSON object, as in ``response.confidence``.
    minus_one : {None, "class", "none"}
        Whether a label of -1 is a class or no label. None: a class where all labels are -1 or 1
        and there are two classes, or where a column is called -1.
    as_is : bool
        Believe the file where its labels and columns seem not to belong together: each doubt is a
        note, and the report has a verdict. Probabilities at most 0.05 outside of 0 to 1 are moved.
    one_label : str, optional
        Of several labels that hold at once (multi-label), the one to read, as two classes: its
        name, or its number from 0.
    ids : str, optional
        The column or array that names the samples; "" for all that could. By default none is kept.
    cluster : str, optional
        The column or array that says which samples are alike, such as those of one patient: folds,
        resamples and intervals go over its values, as over texts or images with `tokens`.

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
    place = shown(path)
    check_files(path, labels)  # before any library wraps the error
    if str(path) == "-":
        with readers.standard_input() as copy:
            try:
                options = {"columns": columns, "minus_one": minus_one, "as_is": as_is, "ids": ids}
                options |= {"one_label": one_label, "cluster": cluster}
                found = read(copy, labels, group=group, tokens=tokens, **options)
                inputs = tuple(x._replace(file="standard input") for x in found.inputs[:1])
                return replace(found, name="your model", inputs=(*inputs, *found.inputs[1:]))
            except ValueError as error:
                raise ValueError(str(error).replace(str(copy), "standard input")) from error
    asked = readers.Asked(tuple(group), readers.parse(columns), minus_one, one_label, ids, cluster)
    try:
        watched = [Watched.of(path)]
        arrays, notes = readers.arrays_of(path, asked)
        if labels is not None:
            watched.append(Watched.of(labels))
            arrays["labels"] = readers.label_file(Path(labels))
        elif not {"labels", "correct"} & set(arrays):
            beside = [path.with_name(f"{name}.npy") for name in ("labels", "label_ids")]
            labels_file = next((file for file in beside if file.exists()), None)
            if labels_file is None:
                raise ValueError(
                    "got scores without labels, expected labels.npy beside them or a file of "
                    "labels (--labels)"
                )
            watched.append(Watched.of(labels_file))
            arrays["labels"] = readers.label_file(labels_file)
        for each in watched:
            each.check()
        stem = path.name.removesuffix(".gz").rpartition(".")[0]
        options = {"tokens": tokens, "minus_one": minus_one, "as_is": as_is, "one_label": one_label}
        result = from_arrays(arrays, shown(stem or path.name), **options)
    except ImportError:  # pandas is not installed
        raise
    except ValueError as error:
        raise ValueError(f"{place}: {one_line(error)}") from error
    except MemoryError as error:
        raise ValueError(f"{place}: too large for the memory of this machine") from error
    except Exception as error:  # whatever a decoder stumbles over in a damaged file
        if getattr(error, "filename", None):  # the file of labels does not exist
            raise
        reason = one_line(error)
        raise ValueError(f"{place}: damaged, or not what its name says ({reason})") from error
    inputs = tuple(each.input for each in watched if each.input)
    return replace(result, notes=(*notes, *result.notes), inputs=inputs)


def from_arrays(
    arrays: Mapping[str, ArrayLike],
    name: str = "your model",
    *,
    tokens: bool = False,
    minus_one: str | None = None,
    as_is: bool = False,
    one_label: str | None = None,
) -> Predictions:
    """Check arrays, named as in the ``.npz`` file above.

    Parameters
    ----------
    arrays : mapping
        Scores may also be (n,): the logit or probability of class 1 of two. Logits whose rows are
        probabilities are read as such, with a note. Labels may be numbers from 0, names of
        ``class_names``, or one-hot rows; samples labelled -1 or -100 are left out, with a note.
        ``groups`` may be (n, c), with the names of its columns in ``group_names``. ``clusters``
        (n,) say which samples are alike, and ``cluster_name`` what they are. ``answers`` are
        the classes that the model answered, where these may differ from the most probable ones.
    name : str
        For the title of a report.
    tokens, minus_one, as_is, one_label
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
    known = (*KEYS, "group_names", "cluster_name", "doubts", "ids", "id_names")
    unknown = [key for key in arrays if key not in known]
    if unknown:
        raise ValueError(f"got {few_of(unknown)}, expected names among {', '.join(KEYS)}")
    if tokens:
        arrays = flattened(arrays, notes)
    if one_label is not None:
        arrays = one_of_arrays(arrays, one_label)
    arrays = checked(arrays, as_is, notes)
    pairs = "confidence" in arrays and not {"logits", "probs"} & set(arrays)
    part = _pairs if pairs else _part
    names = ("wrong", "right") if pairs else _class_names(arrays.get("class_names"))
    doubted = list(map(str, arrays.get("doubts", ())))
    if not pairs:
        arrays, names = _with_minus_one(arrays, names, minus_one, notes)
    more: dict = {"group_names": tuple(map(str, arrays.get("group_names", ())))}
    more["cluster_name"] = str(arrays.get("cluster_name", ""))
    prefixes = ("", "val_") if any(key.startswith("val_") for key in arrays) else ("",)
    k, read = 0, given.pair_of if pairs else given.scores_of
    sets = given.of_one_kind({prefix: read(arrays, prefix, notes) for prefix in prefixes})
    for prefix in prefixes:
        logits, labels, keep = part(arrays, prefix, names, sets[prefix], notes)
        if names and len(names) != logits.shape[1] and not prefix:
            raise ValueError(f"class_names: got {len(names)} names, expected {logits.shape[1]}")
        if logits.shape[1] != (k := k or logits.shape[1]):
            raise ValueError(f"val_logits: got {logits.shape[1]} classes, expected {k}")
        more |= {f"{prefix}logits": logits, f"{prefix}labels": labels}
        if not pairs:
            doubted += _doubted(arrays, prefix, logits, labels, keep, names, notes)
        more[f"{prefix}own"] = _own(arrays, prefix, keep, sets[prefix])
        more[f"{prefix}weights"] = _weights(arrays, f"{prefix}weights", keep)
        more[f"{prefix}clusters"] = _clusters(arrays, f"{prefix}clusters", keep)
        if pairs:
            more[f"{prefix}confidences"] = sets[prefix].scores[:, 1]
        if not prefix and arrays.get("groups") is not None:
            more["groups"] = _groups(arrays["groups"], keep)
        if not prefix and arrays.get("ids") is not None:
            more["ids"] = np.asarray(arrays["ids"])[keep]
            more["id_names"] = tuple(map(str, arrays["id_names"]))
    names = names or tuple(str(i) for i in range(k))
    doubted = list(dict.fromkeys(doubted))  # the validation set repeats the test set
    if as_is:
        notes, doubted = [*notes, *doubted], []
    more |= {"notes": tuple(notes), "doubts": tuple(doubted)}
    kinds = [its.kind for its in sets.values() if its.kind]
    if kinds:
        more["floor"] = kinds[-1].floor
        some = any((its.scores <= 0).any() for its in sets.values() if its.kind)
        more["zeros"] = kinds[-1].sentence if some else ""
    if one_label is not None:
        more["positive"] = 1
    return Predictions(name, class_names=names, **more)


def _with_minus_one(
    arrays: Mapping[str, ArrayLike], names: tuple[str, ...], asked: str | None, notes: list[str]
) -> tuple[Mapping[str, ArrayLike], tuple[str, ...]]:
    """Labels in which -1 is class 0, where it is a class; and the names of the classes."""
    if asked not in (None, "class", "none"):
        raise ValueError(f"minus_one: got {asked!r}, expected 'class' or 'none'")
    keys = [key for key in ("labels", "val_labels", "answers", "val_answers") if key in arrays]
    kind = "logits" if "logits" in arrays else "probs"
    shape = np.shape(to_numpy(arrays.get(kind, ()), kind))
    k = 2 if len(shape) == 1 else max(shape[-1], 2) if shape else 0
    given = [np.asarray(to_numpy(arrays[key], key)) for key in keys if key.endswith("labels")]
    moved = minus_one_is_class(given, k, names, asked)
    if moved is None:
        return arrays, names
    notes.append(moved.note)
    changed = {key: moved.of(np.asarray(to_numpy(arrays[key], key))) for key in keys}
    return {**arrays, **changed}, moved.names


def _doubted(
    arrays: Mapping[str, ArrayLike],
    prefix: str,
    logits: Array,
    labels: Array,
    keep: Array,
    names: tuple[str, ...],
    notes: list[str],
) -> list[str]:
    """Doubts about one set; what is merely worth saying becomes a note."""
    found = doubts.doubts_of(logits, labels, names)
    if f"{prefix}answers" in arrays:
        answers = np.asarray(to_numpy(arrays[f"{prefix}answers"]))
        if answers.shape != keep.shape:
            return found
        answers = as_text(answers)[keep]
        classes = doubts.to_classes(answers, names, logits.shape[1])
        said, more = doubts.of_answers(
            logits, classes, names or tuple(map(str, range(logits.shape[1])))
        )
        notes += [*filter(None, [doubts.unknown_answers(answers, classes)]), *said]
        found = [*more, *found]
    return [f"Validation set: {x[0].lower()}{x[1:]}" for x in found] if prefix else found


def _own(arrays: Mapping[str, ArrayLike], prefix: str, keep: Array, its: Given) -> Array | None:
    """The probabilities of the rows that are kept, as they were given; None for other scores."""
    names = (prefix + x for x in ("probs", "logits", "confidence") if prefix + x in arrays)
    raw = arrays[next(names)]
    own = to_numpy(raw)
    if given.type_of(raw) in ("float16", "torch.float16"):
        own = own.astype(np.float16)  # of NumPy or torch; it was made wider without a loss
    own = own[:, 0] if own.ndim == 2 and own.shape[1] == 1 else own
    read = its.scores[:, 1] if own.ndim == 1 else its.scores
    if its.kind is None or own.dtype.kind != "f" or own.shape != read.shape:
        return None
    own = own[keep]
    if own.min() < 0 or own.max() > 1:
        return None
    # A share may be given in percent, of which all are below 1.
    return own if np.median(np.abs(own - read[keep])) < 0.02 else None


def _groups(groups: ArrayLike, keep: Array) -> Array:
    groups = to_numpy(groups, "groups")
    if groups.shape[:1] != keep.shape or groups.ndim > 2 or groups.dtype.kind not in "biufUS":
        raise ValueError(
            f"groups: got shape {groups.shape} of type {groups.dtype}, "
            f"expected {keep.shape} of names or numbers"
        )
    return text_of(groups)[keep]


def log_probs(probs: Array, floor: Floor | float | None = None) -> Array:
    """`calibkit.precision.log_probs`: logarithms in which a 0 counts as `floor`.

    >>> np.exp(log_probs(np.array([[0.7, 0.3, 0.0]]), floor=0.05)).round(2).tolist()
    [[0.67, 0.29, 0.05]]
    """
    return precision.log_probs(probs, floor)


# --- arrays: scores, labels, names ---


def _weights(arrays: Mapping[str, ArrayLike], name: str, keep: Array) -> Array | None:
    """Weights of the samples kept."""
    if name not in arrays:
        return None
    weights = to_numpy(arrays[name], name)
    if weights.shape != keep.shape or weights.dtype.kind not in "biuf":
        raise ValueError(f"{name}: got shape {weights.shape}, expected {keep.shape} of numbers")
    weights = weights.astype(np.float64)[keep]
    if not np.isfinite(weights).all() or weights.min() < 0 or not weights.sum():
        raise ValueError(
            f"{name}: got values from {weights.min():g} to {weights.max():g}, expected weights "
            "from 0 that are not all 0"
        )
    return as_counts(weights, len(weights), name)


def _clusters(arrays: Mapping[str, ArrayLike], name: str, keep: Array) -> Array | None:
    """The cluster of each sample kept, by its name."""
    if name not in arrays:
        return None
    clusters = to_numpy(arrays[name], name)
    if clusters.shape != keep.shape or clusters.dtype.kind not in "biufUS":
        raise ValueError(
            f"{name}: got shape {clusters.shape} of type {clusters.dtype}, expected {keep.shape} "
            "of names or numbers"
        )
    clusters = text_of(clusters)[keep]
    if (clusters == clusters[0]).all():
        raise ValueError(f"{name}: got {few_of(clusters[:1])} alone, expected at least two")
    return clusters


def _pairs(
    arrays: Mapping[str, ArrayLike],
    prefix: str,
    names: tuple[str, ...],
    its: Given,
    notes: list[str],
) -> tuple[Array, Array, Array]:
    """The same as logits, correctness as labels, and rows kept."""
    _, correct = as_confidence_correct(its.scores[:, 1], arrays[f"{prefix}correct"], unit=True)
    # A printed 1 with an infinite logit would decide the temperature; the confidence stays.
    logits = log_probs(its.scores, its.kind.floor)
    return logits, correct.astype(np.int64), np.ones(len(correct), bool)


def _part(
    arrays: Mapping[str, ArrayLike],
    prefix: str,
    names: tuple[str, ...],
    its: Given,
    notes: list[str],
) -> tuple[Array, Array, Array]:
    """Logits, labels and rows kept of the test set or, with "val_", of the validation set."""
    logits = its.scores if its.kind is None else given.logits_of(its, notes)
    n, k = logits.shape
    labels = numbered(arrays[f"{prefix}labels"], n, k, names, f"{prefix}labels")
    keep = ~np.isin(labels, NO_LABEL)
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
    return logits, as_labels(labels, k, name=f"{prefix}labels"), keep


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
