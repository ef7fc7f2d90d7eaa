"""Read and check predictions: a model's scores, the labels, and what else a file says of samples.

`read` opens a file, and `from_arrays` takes arrays in memory. Both return checked `Predictions`. A
file may be hostile, so nothing is unpickled, or unpacked beyond the memory, or fetched.

=========================  =====================================================================
file                       what is in it
=========================  =====================================================================
``.npz``, ``.pt``          ``logits`` or ``probs`` (n, k), ``labels`` (n,), or ``confidence`` and
                           ``correct`` (n,); optionally: the same with ``val_`` before the name,
                           ``groups`` (n,), ``weights`` (n,), ``class_names`` (k,)
a table                    ``.csv``, ``.parquet``, ``.feather`` or ``.jsonl``: a column
                           ``label``; columns of probabilities with a common prefix or suffix, or
                           named after the classes; or columns ``logit_NAME``; or a list, dict or
                           vector of scores in each row; or ``confidence`` and ``correct``;
                           optionally: the model's answers, ``group``, ``weight``, and ``split``
                           (``test`` or ``val``); text is separated by commas, semicolons or tabs,
                           and may be ``.gz``
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
``y_true``; a note says which was read as what. For any other name, say `columns`.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from calibkit.arrays import Array, ArrayLike, as_confidence_correct, as_labels, to_numpy
from calibkit.files import named, shown
from calibkit.precision import Floor, log_probs
from calibkit.report import doubts, given, readers
from calibkit.report.given import Given
from calibkit.report.model import Predictions as Predictions
from calibkit.report.names import KEYS, File, Names, few_of, one_line, text_of
from calibkit.report.readers.asked import Columns
from calibkit.report.readers.content import Watched
from calibkit.report.readers.labels import NO_LABEL, as_text, minus_one_is_class, numbered
from calibkit.report.readers.rows import Arrays, checked
from calibkit.report.readers.several import one_of_arrays
from calibkit.report.readers.tokens import flattened, has_tokens
from calibkit.resampling import as_counts

ALSO = ("group_names", "cluster_name", "doubts", "ids", "id_names")  # beside the arrays of KEYS


def check_files(*files: File | Predictions | None) -> None:
    """Raise a plain `OSError` for the first file that cannot be opened, before reading any."""
    for file in files:
        if file is not None and not isinstance(file, Predictions) and str(file) != "-":
            with named(file), Path(file).open("rb"):
                pass


def read(
    path: File,
    labels: File | None = None,
    *,
    group: Sequence[str] = (),
    tokens: bool = False,
    columns: Columns = (),
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
        A file that holds only the labels: ``.npy``, or text with one label on each line.
    group : sequence of str
        Columns (of a table) or arrays that name groups, instead of one called ``group``.
    tokens : bool
        Whether each token, or each pixel, with a label is a sample. Scores have the shape (texts,
        tokens, k), (images, k, height, width) or (images, height, width, k).
    columns : mapping or sequence of str
        The roles of columns or arrays whose names do not tell them: ``{"label": "truth", "probs":
        "score_*"}``, or ``["label=truth"]`` as on the command line. Roles are label, probs, logits,
        confidence, correct, logprob, answer, weight, group, split and ignore. A name with dots
        leads into a JSON object, as in ``response.confidence``.
    minus_one : {None, "class", "none"}
        Whether the label -1 is a class or means that the label is unknown. By default it is a class
        if there are two classes and all labels are -1 or 1, or if a column is called -1.
    as_is : bool
        Trust the file even if its labels and columns seem not to fit together: doubts become notes,
        and the report has a verdict. Probabilities outside of 0 to 1 by at most 0.05 become 0 or 1.
    one_label : str, optional
        In multi-label data, the one label to read, as two classes: its name, or its number from 0.
    ids : str, optional
        The column or array that names the samples; "" for all that could. By default none is kept.
    cluster : str, optional
        The column or array whose equal values mark samples that depend on each other, such as those
        of one patient. Folds, resamples and intervals go over its values. With `tokens` they go
        over texts or images by default.

    Returns
    -------
    Predictions

    Raises
    ------
    ValueError
        The layout is unknown, the file is damaged or holds Python objects, or `from_arrays` refuses
        its content. The message has one line that begins with the file's name.
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
    asked = readers.Asked(tuple(group), readers.parse(columns), minus_one, one_label, ids, cluster)
    options = {"tokens": tokens, "minus_one": minus_one, "as_is": as_is, "one_label": one_label}
    if str(path) != "-":
        return _from_file(path, labels, asked, options, shown(path))
    with readers.standard_input() as copy:
        found = _from_file(copy, labels, asked, options, "standard input")
    inputs = tuple(x._replace(file="standard input") for x in found.inputs[:1])
    return replace(found, name="your model", inputs=(*inputs, *found.inputs[1:]))


def _from_file(
    path: Path, labels: File | None, asked: readers.Asked, options: Mapping[str, Any], place: str
) -> Predictions:
    """Read a file; errors begin with `place`, the name of the file for people."""
    try:
        watched = [Watched.of(path)]
        arrays, notes = readers.arrays_of(path, asked)
        labels_file = _labels_file(path, labels, arrays)
        if labels_file is not None:
            watched.append(Watched.of(labels_file))
            arrays["labels"] = readers.label_file(labels_file)
        for each in watched:
            each.check()
        stem = path.name.removesuffix(".gz").rpartition(".")[0]
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


def _labels_file(path: Path, labels: File | None, arrays: Arrays) -> Path | None:
    """The file of labels: the one that the caller named, or ``labels.npy`` beside the scores."""
    if labels is not None:
        return Path(labels)
    if {"labels", "correct"} & set(arrays):
        return None
    for name in ("labels", "label_ids"):
        if (beside := path.with_name(f"{name}.npy")).exists():
            return beside
    raise ValueError(
        "got scores without labels, expected labels.npy beside them or a file of labels (--labels)"
    )


def from_arrays(
    arrays: Arrays,
    name: str = "your model",
    *,
    tokens: bool = False,
    minus_one: str | None = None,
    as_is: bool = False,
    one_label: str | None = None,
) -> Predictions:
    """Check arrays that are named as in the ``.npz`` file above.

    Parameters
    ----------
    arrays : mapping of str to array
        Scores are (n, k), or (n,): the logit or probability of class 1 of two. Logits whose rows
        are probabilities are read as such, with a note. Labels may be numbers from 0, names in
        ``class_names``, or one-hot rows. Samples with the label -1 or -100 are left out, with a
        note. ``groups`` may be (n, c), with the names of the columns in ``group_names``.
        ``clusters`` (n,) has equal values for samples that depend on each other, and
        ``cluster_name`` says what they are. ``answers`` (n,) are the classes that the model
        answered, if these may differ from the most probable ones.
    name : str
        For the title of a report.
    tokens, minus_one, as_is, one_label
        See `read`.

    Returns
    -------
    Predictions

    Raises
    ------
    ValueError
        An array is missing, malformed or of the wrong length. The message names the array and says
        what was expected.

    Examples
    --------
    >>> found = from_arrays({"probs": [[0.9, 0.1], [0.6, 0.4]], "labels": [0, -1]})
    >>> found.labels.tolist(), found.notes
    ([0], ('1 of 2 samples have no label (-1 or -100) and are left out.',))
    """
    notes: list[str] = []
    if unknown := [key for key in arrays if key not in (*KEYS, *ALSO)]:
        raise ValueError(f"got {few_of(unknown)}, expected names among {', '.join(KEYS)}")
    every = flattened(arrays, notes) if tokens else arrays
    if one_label is not None:
        every = one_of_arrays(every, one_label)
    every = checked(every, as_is, notes)
    pairs = "confidence" in every and not {"logits", "probs"} & set(every)
    names = ("wrong", "right") if pairs else _class_names(every.get("class_names"))
    if not pairs:
        every, names = _with_minus_one(every, names, minus_one, notes)
    prefixes = ("", "val_") if any(key.startswith("val_") for key in every) else ("",)
    read, select = (given.pair_of, _pairs) if pairs else (given.scores_of, _classes)
    scores = given.of_one_kind({prefix: read(every, prefix, notes) for prefix in prefixes})
    sets = {prefix: select(every, prefix, names, scores[prefix], notes) for prefix in prefixes}
    k = _classes_of(sets, names)
    doubted = list(map(str, every.get("doubts", ())))
    for prefix, its in sets.items():
        doubted += _doubts_of(every, prefix, its, names, notes)
    doubted = list(dict.fromkeys(doubted))  # the validation set repeats the test set
    if as_is:
        notes, doubted = [*notes, *doubted], []
    floor, zeros = _floor(scores.values())
    return Predictions(
        name,
        class_names=names or tuple(str(i) for i in range(k)),
        notes=tuple(notes),
        doubts=tuple(doubted),
        group_names=tuple(map(str, every.get("group_names", ()))),
        cluster_name=str(every.get("cluster_name", "")),
        floor=floor,
        zeros=zeros,
        positive=None if one_label is None else 1,
        tokens=tokens and has_tokens(arrays),
        **_of_the_test_set(every, sets[""].keep),
        **{
            f"{prefix}{key}": value
            for prefix, its in sets.items()
            for key, value in _of_a_set(every, prefix, its, scores[prefix]).items()
        },
    )


@dataclass(frozen=True, eq=False)
class _Set:
    """The samples of the test or validation set, and which of their rows are kept."""

    logits: Array
    labels: Array
    keep: Array
    confidences: Array | None = None


def _pairs(arrays: Arrays, prefix: str, names: Names, its: Given, notes: list[str]) -> _Set:
    """Confidences of answers, with correctness as labels."""
    _, correct = as_confidence_correct(its.scores[:, 1], arrays[f"{prefix}correct"], unit=True)
    # A printed 1 with an infinite logit would decide the temperature; the confidence stays.
    logits = log_probs(its.scores, its.kind.floor)
    keep = np.ones(len(correct), bool)
    return _Set(logits, correct.astype(np.int64), keep, its.scores[:, 1])


def _classes(arrays: Arrays, prefix: str, names: Names, its: Given, notes: list[str]) -> _Set:
    """Logits and labels of the test set or, with "val_", of the validation set."""
    logits = its.scores if its.kind is None else given.logits_of(its, notes)
    n, k = logits.shape
    labels = numbered(arrays[f"{prefix}labels"], n, k, names, f"{prefix}labels")
    keep = ~np.isin(labels, NO_LABEL)
    if not keep.all():
        left_out = n - keep.sum()
        which = "validation samples" if prefix else "samples"
        notes.append(f"{left_out:,} of {n:,} {which} have no label (-1 or -100) and are left out.")
        if left_out == n:
            raise ValueError(f"{prefix}labels: got only -1 and -100 (no label), expected classes")
        logits, labels = logits[keep], labels[keep]
    if labels.min() == 1 and labels.max() == k:
        raise ValueError(
            f"{prefix}labels: got values from 1 to {k}, expected 0 to {k - 1}: subtract 1"
        )
    return _Set(logits, as_labels(labels, k, name=f"{prefix}labels"), keep)


def _doubts_of(arrays: Arrays, prefix: str, its: _Set, names: Names, notes: list[str]) -> list[str]:
    """Reasons to believe that labels and columns of a set do not belong together."""
    if its.confidences is not None:
        return []
    found = doubts.doubts_of(its.logits, its.labels, names)
    if (answers := arrays.get(f"{prefix}answers")) is not None:
        found = [*_doubts_of_answers(answers, its.logits, its.keep, names, notes), *found]
    return [f"Validation set: {x[0].lower()}{x[1:]}" for x in found] if prefix else found


def _doubts_of_answers(
    answers: ArrayLike, logits: Array, keep: Array, names: Names, notes: list[str]
) -> list[str]:
    """Doubts about the answers that the file gives; harmless differences become a note."""
    answers = to_numpy(answers)
    if answers.shape != keep.shape:
        return []
    answers, k = as_text(answers)[keep], logits.shape[1]
    classes = doubts.to_classes(answers, names, k)
    said, more = doubts.of_answers(logits, classes, names or tuple(map(str, range(k))))
    notes += [*filter(None, [doubts.unknown_answers(answers, classes)]), *said]
    return more


def _classes_of(sets: Mapping[str, _Set], names: Names) -> int:
    """The number of classes; `ValueError` if test set, validation set and names disagree."""
    k = sets[""].logits.shape[1]
    if names and len(names) != k:
        raise ValueError(f"class_names: got {len(names)} names, expected {k}")
    for its in sets.values():
        if its.logits.shape[1] != k:
            raise ValueError(f"val_logits: got {its.logits.shape[1]} classes, expected {k}")
    return k


def _of_a_set(arrays: Arrays, prefix: str, its: _Set, scores: Given) -> dict[str, Any]:
    """The attributes of `Predictions` that both the test set and the validation set have."""
    return {
        "logits": its.logits,
        "labels": its.labels,
        "own": _own(arrays, prefix, its.keep, scores),
        "weights": _kept(_weights, arrays, f"{prefix}weights", its.keep),
        "clusters": _kept(_clusters, arrays, f"{prefix}clusters", its.keep),
        "confidences": its.confidences,
    }


def _of_the_test_set(arrays: Arrays, keep: Array) -> dict[str, Any]:
    """The attributes of `Predictions` that only the test set has."""
    found: dict[str, Any] = {"groups": _kept(_groups, arrays, "groups", keep)}
    if arrays.get("ids") is not None:
        found["ids"] = np.asarray(arrays["ids"])[keep]
        found["id_names"] = tuple(map(str, arrays["id_names"]))
    return found


def _floor(scores: Iterable[Given]) -> tuple[Floor | None, str]:
    """What a probability of 0 counts as (None for logits), with a sentence ("" without zeros)."""
    probs = [its for its in scores if its.kind]
    if not probs:
        return None, ""
    some = any((its.scores <= 0).any() for its in probs)
    return probs[-1].kind.floor, probs[-1].kind.sentence if some else ""


def _with_minus_one(
    arrays: Arrays, names: Names, asked: str | None, notes: list[str]
) -> tuple[Arrays, Names]:
    """Renumber labels if -1 is a class; return the arrays and the names of the classes."""
    if asked not in (None, "class", "none"):
        raise ValueError(f"minus_one: got {asked!r}, expected 'class' or 'none'")
    keys = [key for key in ("labels", "val_labels", "answers", "val_answers") if key in arrays]
    kind = "logits" if "logits" in arrays else "probs"
    shape = np.shape(to_numpy(arrays.get(kind, ()), kind))
    k = 2 if len(shape) == 1 else max(shape[-1], 2) if shape else 0
    given = [to_numpy(arrays[key], key) for key in keys if key.endswith("labels")]
    moved = minus_one_is_class(given, k, names, asked)
    if moved is None:
        return arrays, names
    notes.append(moved.note)
    changed = {key: moved.of(to_numpy(arrays[key], key)) for key in keys}
    return {**arrays, **changed}, moved.names


def _own(arrays: Arrays, prefix: str, keep: Array, its: Given) -> Array | None:
    """The probabilities of the kept rows, unchanged and in the file's type; None for logits."""
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


def _kept(
    check: Callable[[Array, str, Array], Array], arrays: Arrays, name: str, keep: Array
) -> Array | None:
    """The kept rows of an array, checked by `check`; None if the array is missing."""
    if arrays.get(name) is None:
        return None
    return check(to_numpy(arrays[name], name), name, keep)


def _groups(groups: Array, name: str, keep: Array) -> Array:
    if groups.shape[:1] != keep.shape or groups.ndim > 2 or groups.dtype.kind not in "biufUS":
        raise ValueError(_unlike(groups, name, f"{keep.shape} of names or numbers"))
    return text_of(groups)[keep]


def _unlike(array: Array, name: str, expected: str) -> str:
    """The error for an array of another shape or type than expected."""
    return f"{name}: got shape {array.shape} of type {array.dtype}, expected {expected}"


def _weights(weights: Array, name: str, keep: Array) -> Array:
    if weights.shape != keep.shape or weights.dtype.kind not in "biuf":
        raise ValueError(_unlike(weights, name, f"{keep.shape} of numbers"))
    weights = weights.astype(np.float64)[keep]
    if not np.isfinite(weights).all() or weights.min() < 0 or not weights.sum():
        raise ValueError(
            f"{name}: got values from {weights.min():g} to {weights.max():g}, expected weights "
            "from 0 that are not all 0"
        )
    return as_counts(weights, len(weights), name)


def _clusters(clusters: Array, name: str, keep: Array) -> Array:
    """The cluster of each kept sample, as text."""
    if clusters.shape != keep.shape or clusters.dtype.kind not in "biufUS":
        raise ValueError(_unlike(clusters, name, f"{keep.shape} of names or numbers"))
    clusters = text_of(clusters)[keep]
    if (clusters == clusters[0]).all():
        raise ValueError(f"{name}: got {few_of(clusters[:1])} alone, expected at least two values")
    return clusters


def _class_names(names: "ArrayLike | None") -> Names:
    if names is None:
        return ()
    array = np.asarray(names)
    if array.ndim != 1 or array.dtype.kind not in "biufUS":
        raise ValueError(_unlike(array, "class_names", "(k,) of names"))
    class_names = tuple(text_of(array).tolist())
    if len(set(class_names)) < len(class_names):
        twice = next(name for i, name in enumerate(class_names) if name in class_names[:i])
        raise ValueError(f"class_names: got {twice!r} twice, expected a different name per class")
    return class_names
