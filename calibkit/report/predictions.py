"""Prediction files: a model's scores, the labels, and whatever else is known about each sample.

`read` opens the files people have, and `from_arrays` takes arrays in memory. Both return checked
`Predictions`. Files are treated as hostile: nothing is unpickled, unpacked or fetched.

=========================  =====================================================================
file                       what is in it
=========================  =====================================================================
``.npz``                   ``logits`` or ``probs`` (n, k), ``labels`` (n,); optionally:
                           ``val_logits`` or ``val_probs``, ``val_labels``, ``groups`` (n,),
                           ``class_names`` (k,)
``.csv``, ``.parquet``     a column ``label``; columns ``prob_NAME`` or ``logit_NAME``, or bare
                           class names over probabilities; optionally: ``group``, and
                           ``split`` (``test`` or ``val``); separated by commas, semicolons or
                           tabs
fd-shifts                  ``raw_logits.npz``: one array, columns logits, label, data set
netcal                     ``.npz``: ``predictions`` (probabilities) and ``ground_truth``
Hugging Face               ``.npy`` or ``.npz``: ``predictions`` (logits); labels in ``label_ids``,
                           in ``labels.npy`` beside the file, or in the file passed as `labels`
a calibkit record          ``arrays.npz`` in the folder of a run: test and validation set
=========================  =====================================================================
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np

from calibkit import metrics
from calibkit.arrays import Array, ArrayLike, as_labels, as_logits, as_probs, row_sums, to_numpy

# Names of the arrays in an .npz file: ours first, then those of other tools.
_KEYS = ("logits", "probs", "labels", "val_logits", "val_probs", "val_labels")
_KEYS += ("groups", "class_names")
_LAYOUTS = {
    "": {key: key for key in _KEYS},
    "calibkit record": {
        "logits": "test_logits",
        "labels": "test_labels",
        "val_logits": "validation_logits",
        "val_labels": "validation_labels",
    },
    "netcal": {"probs": "predictions", "labels": "ground_truth"},
    "Hugging Face": {"logits": "predictions", "labels": "label_ids"},
}
_LABEL_COLUMNS = ("label", "labels", "y_true", "target", "true_label", "true", "y")
_GROUP_COLUMNS = ("group", "groups")
# Columns of the answer alone, which says too little for a report.
_ANSWER_COLUMNS = (
    "y_pred",
    "pred",
    "prediction",
    "predicted",
    "predicted_class",
    "predicted_label",
)
_CONFIDENCE_COLUMNS = ("confidence", "conf", "max_prob", "msp")
_PREFIXES = {"logit_": "logits", "prob_": "probs"}
_VALIDATION = ("val", "validation")
_OBJECTS = "holds Python objects, not read as they could run code: save numbers or strings"
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
    groups : array (n,) of str, or None
    class_names : tuple of str
        One per column; "0" to "k - 1" if nothing better is known.
    notes : tuple of str
        What was assumed or left out on reading, for readers of a report.
    """

    name: str
    logits: Array
    labels: Array
    val_logits: Array | None = None
    val_labels: Array | None = None
    groups: Array | None = None
    class_names: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @cached_property
    def samples(self) -> dict[str, Array]:
        """`metrics.per_sample` of the test set, computed once."""
        return metrics.per_sample(self.logits, self.labels)

    @cached_property
    def val_samples(self) -> dict[str, Array] | None:
        """The same for the validation set; None without one."""
        if self.val_logits is None:
            return None
        return metrics.per_sample(self.val_logits, self.val_labels)

    def sample(self, most: int, seed: int = 0) -> "Predictions":
        """Return a random subset of at most `most` samples, in order, with a note that says so."""
        rng, n, changes = np.random.default_rng(seed), len(self.labels), {}
        if n > most:
            rows = np.sort(rng.choice(n, most, replace=False))
            note = f"All numbers come from a random {most:,} of the {n:,} samples."
            changes = {"logits": self.logits[rows], "labels": self.labels[rows]}
            changes["notes"] = (*self.notes, note)
            if self.groups is not None:
                changes["groups"] = self.groups[rows]
        if self.val_logits is not None and len(self.val_labels) > most:
            rows = np.sort(rng.choice(len(self.val_labels), most, replace=False))
            changes["val_logits"] = self.val_logits[rows]
            changes["val_labels"] = self.val_labels[rows]
        return replace(self, **changes) if changes else self


def check_files(*files: "str | os.PathLike | Predictions | None") -> None:
    """Raise a plain `OSError` for the first file that cannot be opened, before reading any."""
    for file in files:
        if file is not None and not isinstance(file, Predictions):
            with Path(file).open("rb"):
                pass


def read(path: str | os.PathLike, labels: str | os.PathLike | None = None) -> Predictions:
    """Read a prediction file; the table above lists the formats.

    Parameters
    ----------
    path : path
        ``.npz``, ``.npy``, ``.csv`` or ``.parquet``.
    labels : path, optional
        Labels in a file of their own: ``.npy``, or text with one label per line.

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
    readers = {".npz": _npz, ".npy": _npy, ".csv": _table, ".parquet": _table}
    if path.suffix.lower() not in readers:
        raise ValueError(f"{path}: got a file {path.suffix!r}, expected {', '.join(readers)}")
    check_files(path, labels)  # before any library wraps the error
    try:
        arrays, notes = readers[path.suffix.lower()](path)
        if labels is not None:
            arrays["labels"] = _label_file(Path(labels))
        elif "labels" not in arrays:
            beside = [path.with_name(f"{name}.npy") for name in ("labels", "label_ids")]
            labels_file = next((file for file in beside if file.exists()), None)
            if labels_file is None:
                raise ValueError("got scores without labels, expected labels.npy beside them")
            arrays["labels"] = _label_file(labels_file)
        result = from_arrays(arrays, path.stem)
    except ImportError:  # pandas is not installed
        raise
    except ValueError as error:
        raise ValueError(f"{path}: {_one_line(error)}") from error
    except MemoryError as error:
        raise ValueError(f"{path}: too large for the memory of this machine") from error
    except Exception as error:  # whatever a decoder stumbles over in a damaged file
        if getattr(error, "filename", None):  # the file of labels does not exist
            raise
        reason = _one_line(error)
        raise ValueError(f"{path}: damaged, or not what its name says ({reason})") from error
    return replace(result, notes=(*notes, *result.notes))


def from_arrays(arrays: Mapping[str, ArrayLike], name: str = "your model") -> Predictions:
    """Check arrays, named as in the ``.npz`` file above.

    Parameters
    ----------
    arrays : mapping
        Scores may also be (n,): the logit or probability of class 1 of two. Logits whose rows are
        probabilities are read as such, with a note. Labels may be numbers from 0, names of
        ``class_names``, or one-hot rows; samples labelled -1 or -100 are left out, with a note.
    name : str
        For the title of a report.

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
    unknown = [key for key in arrays if key not in _KEYS]
    if unknown:
        raise ValueError(f"got {_few(unknown)}, expected names among {', '.join(_KEYS)}")
    names = _class_names(arrays.get("class_names"))
    logits, labels, keep = _part(arrays, "", names, notes)
    if names and len(names) != logits.shape[1]:
        raise ValueError(f"class_names: got {len(names)} names, expected {logits.shape[1]}")
    val_logits = val_labels = None
    if any(key.startswith("val_") for key in arrays):
        val_logits, val_labels, _ = _part(arrays, "val_", names, notes)
        if val_logits.shape[1] != logits.shape[1]:
            columns = val_logits.shape[1]
            raise ValueError(f"val_logits: got {columns} classes, expected {logits.shape[1]}")
    groups = arrays.get("groups")
    if groups is not None:
        groups = np.asarray(to_numpy(groups))
        if groups.shape != keep.shape or groups.dtype.kind not in "biufUS":
            raise ValueError(
                f"groups: got shape {groups.shape} of type {groups.dtype}, "
                f"expected {keep.shape} of names or numbers"
            )
        groups = _text(groups)[keep]
    names = names or tuple(str(i) for i in range(logits.shape[1]))
    return Predictions(name, logits, labels, val_logits, val_labels, groups, names, tuple(notes))


def log_probs(probs: Array) -> Array:
    """Logarithms of probabilities, finite even for 0, so that softmax gives the probabilities back.

    >>> log_probs(np.array([0.5, 0.0])).round(2).tolist()
    [-0.69, -708.4]
    """
    out = np.maximum(probs, np.finfo(probs.dtype).tiny)
    return np.log(out, out=out)


# --- arrays: scores, labels, names ---


def _part(
    arrays: Mapping[str, ArrayLike], prefix: str, names: tuple[str, ...], notes: list[str]
) -> tuple[Array, Array, Array]:
    """Logits, labels and rows kept of the test set or, with "val_", of the validation set."""
    kinds = [kind for kind in ("logits", "probs") if prefix + kind in arrays]
    if not kinds or f"{prefix}labels" not in arrays:
        raise ValueError(
            f"got {_few(arrays)}, expected {prefix}logits or {prefix}probs, and {prefix}labels"
        )
    logits = _scores(arrays[prefix + kinds[0]], prefix + kinds[0], notes)
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
    return logits, as_labels(labels, k, name=f"{prefix}labels"), keep


def _scores(scores: ArrayLike, name: str, notes: list[str]) -> Array:
    scores = to_numpy(scores)
    probs = name.endswith("probs")
    if scores.ndim == 2 and scores.shape[1] == 1:
        scores = scores[:, 0]
    if scores.ndim == 1 and scores.dtype.kind in "fiu":
        inside = not probs and len(scores) > 1 and scores.min() >= 0 and scores.max() <= 1
        other = 1 - scores if probs or inside else np.zeros_like(scores)
        scores = np.stack([other, scores], axis=1)
        notes.append(f"One column of {name}: read as class 1 of two.")
    if not probs:
        scores = as_logits(scores, name, kind=None)
        probs = len(scores) > 1 and _are_probs(scores)
        if not probs:
            return scores
        notes.append(f"The rows of {name} sum to 1 and were read as probabilities.")
    digits = _digits(scores)
    if _rounded(scores, digits):
        notes.append(f"The {name} are rounded: each row was divided by its sum.")
        scores = scores / row_sums(scores)[:, None]
    try:
        scores = as_probs(scores, name)
    except ValueError as error:
        percent = scores.ndim == 2 and scores.size and np.abs(row_sums(scores) - 100).max() <= 1
        hint = "divide percentages by 100" if percent else "if these are logits, name them logits"
        raise ValueError(f"{error} ({hint})") from error
    zeros = int((scores == 0).sum()) if digits else 0
    if zeros:
        half = 0.5 * 10.0**-digits
        places = f"{digits} decimal{'s' * (digits > 1)}"
        notes.append(
            f"The {name} have {places}, and {zeros:,} of {scores.size:,} are 0, which may be "
            f"anything below {half:.{digits + 1}f}. The zeros of a row share that much, so NLL and "
            "temperature are approximate; save the logits for exact ones."
        )
        scores = _fill_zeros(scores, half)
    return log_probs(scores)


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


def _rounded(probs: Array, digits: int) -> bool:
    """Whether rows miss a sum of 1 by no more than rounding to 2 to 4 decimals explains."""
    if digits not in (1, 2, 3, 4):
        return False
    off = np.abs(row_sums(probs) - 1).max()
    return 1e-3 < off <= min(0.5 * probs.shape[1] * 10.0 ** -max(digits, 2), 0.05) + 1e-6


def _fill_zeros(probs: Array, half: float) -> Array:
    """Share `half` a unit of the last decimal among a row's zeros, taken from all but the largest.

    A printed 0 is some probability below `half`; 1e-308 in its place would decide the NLL and the
    temperature. The zeros share `half`, since a row in which each had that much would not have been
    printed this way. The confidence stays as printed, so a threshold applies to the file as it is;
    only a 1 loses `half`.
    """
    rows = np.flatnonzero((probs == 0).any(axis=1))
    part = probs[rows].astype(np.float64)
    zero, each, top = part == 0, np.arange(len(rows)), part.argmax(axis=1)
    others = np.where(zero, half / zero.sum(axis=1, keepdims=True), part)
    left = np.maximum(1 - part[each, top], half)
    others[each, top] = 0
    others *= (left / others.sum(axis=1))[:, None]
    others[each, top] = 1 - left
    filled = probs.copy()
    filled[rows] = others
    return filled


def _class_names(names: "ArrayLike | None") -> tuple[str, ...]:
    if names is None:
        return ()
    array = np.asarray(names)
    if array.ndim != 1 or array.dtype.kind not in "biufUS":
        raise ValueError(
            f"class_names: got shape {array.shape} of type {array.dtype}, expected (k,) of names"
        )
    class_names = tuple(_text(array).tolist())
    if len(set(class_names)) < len(class_names):
        twice = next(name for i, name in enumerate(class_names) if name in class_names[:i])
        raise ValueError(f"class_names: got {twice!r} twice, expected a name for each class")
    return class_names


def _numbered(labels: ArrayLike, n: int, k: int, names: tuple[str, ...], name: str) -> Array:
    """Labels as whole numbers, however they were written."""
    array = to_numpy(labels)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.shape == (n, k) and array.dtype.kind in "biuf" and _one_hot(array):
        return array.argmax(axis=1)
    if array.ndim != 1 or array.size != n:
        raise ValueError(f"{name}: got shape {array.shape}, expected ({n},), one for each sample")
    if array.dtype.kind == "f":
        whole = (np.abs(array) < 1e15) & (array == np.round(array))
        if not whole.all():
            odd = array[~whole][0]
            raise ValueError(f"{name}: got {odd:g}, expected whole numbers 0 to {k - 1}")
        array = array.astype(np.int64)
    if array.dtype.kind in "US":
        return _by_name(_text(array), k, names, name)
    if array.dtype.kind not in "biu":
        raise ValueError(f"{name}: got type {array.dtype}, expected whole numbers or names")
    if k == 2 and set(np.unique(array)) == {-1, 1}:
        raise ValueError(f"{name}: got -1 and 1, expected 0 and 1 (-1 stands for no label)")
    own = [str(i) for i in range(k)]
    if names and all(_is_number(x) for x in names) and list(names) != own:
        if sorted(names) == sorted(own):  # a number may be a position or a name
            raise ValueError(
                f"class_names: got the numbers {_few(names)} in another order than the columns, "
                f"and {name} that are numbers too; write the {name} as text"
            )
        return _by_name(_text(array), k, names, name)  # columns called 1 to k, or 7 and 9
    return array.astype(np.int64)


def _one_hot(array: Array) -> bool:
    return bool(np.isin(array, (0, 1)).all() and (array.sum(axis=1) == 1).all())


def _by_name(labels: Array, k: int, names: tuple[str, ...], name: str) -> Array:
    distinct, place = np.unique(labels, return_inverse=True)
    number = {str(i): i for i in _NO_LABEL} | {x: i for i, x in enumerate(names)}
    if not all(x in number for x in distinct) and all(_is_number(x) for x in distinct):
        places = {x: int(x) for x in distinct}
        if set(places.values()) <= {*_NO_LABEL, *range(k)} or not all(_is_number(x) for x in names):
            number = places
    unknown = [str(x) for x in distinct if x not in number]
    if unknown and not names:
        raise ValueError(
            f"{name}: got names such as {unknown[0]!r}, expected numbers 0 to {k - 1}, "
            "or class_names with the name of each column"
        )
    if unknown:
        raise ValueError(f"{name}: got {_few(unknown)}, expected names among {_few(names)}")
    return np.array([number[x] for x in distinct], dtype=np.int64)[place]


def _is_number(text: str) -> bool:
    return text.removeprefix("-").isdecimal() and len(text) < 19


def _text(array: Array) -> Array:
    """An array of names: numbers as written, bytes decoded."""
    if array.dtype.kind == "S":
        return np.char.decode(array, "utf-8", "replace")
    return array.astype(str)


def _one_line(error: Exception) -> str:
    return " ".join((str(error) or type(error).__name__).split())[:300]


def _few(names) -> str:
    """The first names of many, quoted so that no control character gets through."""
    names = [str(name) for name in names]
    shown = ", ".join(repr(name) if len(name) < 60 else repr(name[:57]) + "…" for name in names[:5])
    return (shown or "nothing") + (f" and {len(names) - 5} more" if len(names) > 5 else "")


# --- files ---


def _npz(path: Path) -> tuple[dict[str, Array], list[str]]:
    with _load(path) as archive:
        if not isinstance(archive, np.lib.npyio.NpzFile):
            raise ValueError("got a single array, expected an archive of named arrays")
        keys = set(archive.files)
        if keys == {"arr_0"}:
            return _fd_shifts(_member(archive, "arr_0"))
        source = next((x for x, layout in _LAYOUTS.items() if _fits(layout, keys)), None)
        if source is None:
            raise ValueError(
                f"got arrays {_few(sorted(keys))}, expected 'logits' or 'probs', and 'labels'"
            )
        layout = _LAYOUTS[source]
        names = {ours: name for ours, name in layout.items() if name in keys}
        if "logits" in names:
            names.pop("probs", None)
        if "val_logits" in names:
            names.pop("val_probs", None)
        unused = sorted(keys - set(layout.values()))
        notes = [f"File format: {source}."] if source else []
        if unused and source != "calibkit record":
            notes.append(f"Not used: {_few(unused)}.")
        return {ours: _member(archive, name) for ours, name in names.items()}, notes


def _fits(layout: dict[str, str], keys: set[str]) -> bool:
    scores = bool({layout.get("logits"), layout.get("probs")} & keys)
    return scores and (layout["labels"] in keys or layout is _LAYOUTS[""])  # labels may lie beside


def _load(path: Path):
    try:
        return np.load(path, allow_pickle=False)
    except ValueError as error:
        if "pickle" in str(error):
            raise ValueError(f"{path.name!r} is not a NumPy file, or {_OBJECTS}") from error
        raise


def _member(archive, key: str) -> Array:
    # A few kilobytes can unpack to any size; the archive says how large.
    info = archive.zip.getinfo(f"{key}.npy" if f"{key}.npy" in archive.zip.namelist() else key)
    if info.file_size > _memory():
        raise ValueError(
            f"{key!r} is {info.file_size / 1e9:.0f} GB, more than the memory of this machine"
        )
    try:
        return archive[key]
    except ValueError as error:
        if "pickle" in str(error):
            raise ValueError(f"{key!r} {_OBJECTS}") from error
        raise


def _memory() -> int:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # Windows
        return 1 << 40


def _fd_shifts(array: Array) -> tuple[dict[str, Array], list[str]]:
    """raw_logits.npz: logits in columns 0 to k - 1, then the label, then the data set's number."""
    if array.ndim != 2 or array.shape[1] < 4 or array.dtype.kind != "f":
        raise ValueError(
            f"got one array without a name, of shape {array.shape} and type {array.dtype}, "
            "expected 'logits' or 'probs', and 'labels', or raw logits from fd-shifts"
        )
    scores, label, dataset = array[:, :-2], array[:, -2], array[:, -1]
    if not (np.isfinite(dataset).all() and (dataset == np.round(dataset)).all()):
        raise ValueError("got one array whose last column does not number data sets (fd-shifts)")
    notes = ["File format: raw logits from fd-shifts."]
    sets = np.unique(dataset.astype(np.int64))
    if len(sets) == 1:
        return {"logits": scores, "labels": label}, notes
    test = dataset != sets[0]
    notes.append(
        f"Data set {sets[0]} was read as the validation set (val_tuning), "
        f"data set{'s' * (len(sets) > 2)} {', '.join(map(str, sets[1:]))} as the test set."
    )
    arrays = {
        "logits": scores[test],
        "labels": label[test],
        "val_logits": scores[~test],
        "val_labels": label[~test],
    }
    if len(sets) > 2:
        names = np.char.add("data set ", dataset[test].astype(np.int64).astype(str))
        arrays["groups"] = names
    return arrays, notes


def _npy(path: Path) -> tuple[dict[str, Array], list[str]]:
    return {"logits": _load(path)}, []


def _label_file(path: Path) -> Array:
    if path.suffix.lower() == ".npy":
        return _load(path)
    lines = path.read_text(encoding="utf-8-sig").split("\n")
    lines = [line.strip() for line in lines if line.strip()]
    return np.array(lines[1:] if lines and lines[0] in _LABEL_COLUMNS else lines, dtype=str)


def _table(path: Path) -> tuple[dict[str, Array], list[str]]:
    import pandas as pd  # late: slow to import

    notes = []
    if path.suffix.lower() == ".csv":
        if not path.stat().st_size:
            raise ValueError("the file is empty")
        form, notes = _form(path)
        frame = pd.read_csv(path, keep_default_na=False, na_values=[""], **form)  # NA: a class?
    else:
        try:
            frame = pd.read_parquet(path)
        except ImportError as error:
            raise ValueError("a .parquet file needs pyarrow: pip install pyarrow") from error
    frame.columns = [str(column) for column in frame.columns]
    if frame.empty or frame.columns.has_duplicates:
        raise ValueError(
            f"got {len(frame)} rows and columns {_few(frame.columns)}, expected at least one row "
            "and no column twice"
        )
    label, group, split = (
        next((name for name in names if name in frame.columns), None)
        for names in (_LABEL_COLUMNS, _GROUP_COLUMNS, ("split",))
    )
    if label is None:
        raise ValueError(
            f"got columns {_few(frame.columns)}, expected one called 'label' "
            f"(or {', '.join(map(repr, _LABEL_COLUMNS[1:]))})"
        )
    kind, columns, names, unused = _class_columns(frame, {label, group, split})
    single = all(frame[column].dtype == np.float32 for column in columns)
    scores = frame[columns].to_numpy(dtype=np.float32 if single else np.float64)
    labels = _values(frame[label])
    if labels.dtype.kind in "iu" and all(map(_is_number, names)):
        labels = labels.astype(str)  # names of columns, in whatever order they come
    arrays = {kind: scores, "labels": labels, "class_names": np.array(names)}
    if group is not None:
        known = frame[group].astype(object).where(frame[group].notna(), "(none)")
        arrays["groups"] = known.astype(str).to_numpy(dtype=str)
    if split is not None:
        part = frame[split].astype(str).str.lower().to_numpy(dtype=str)
        odd = [x for x in np.unique(part) if x not in ("test", *_VALIDATION)]
        if odd:
            raise ValueError(
                f"split: got {_few(odd)}, expected 'test' and 'val' (leave training samples out)"
            )
        test = part == "test"
        for key in (kind, "labels"):
            if not test.all():
                arrays[f"val_{key}"] = arrays[key][~test]
            arrays[key] = arrays[key][test]
        if group is not None:
            arrays["groups"] = arrays["groups"][test]
    notes += [f"Columns not used: {_few(unused)}."] if unused else []
    return arrays, notes


def _form(path: Path) -> tuple[dict[str, str], list[str]]:
    """Separator and decimal mark of a CSV file, judging by its first two lines."""
    with path.open(encoding="utf-8-sig", errors="replace") as file:
        head, row = file.readline(1_000_000), file.readline(1_000_000)
    separator = max(",;\t", key=head.count)  # a comma if there is none of them
    if separator == ",":
        return {}, []
    form = {"sep": separator, "decimal": "," if "," in row else "."}
    notes = [f"Columns are separated by {'semicolons' if separator == ';' else 'tabs'}."]
    return form, notes + (["Decimals are written with a comma."] if form["decimal"] == "," else [])


def _values(column) -> Array:
    """A column's labels as numbers or strings, never objects."""
    if column.isna().any():
        row = int(column.isna().argmax()) + 1
        raise ValueError(f"{column.name}: got an empty cell in row {row} below the header")
    if column.dtype.kind in "biuf":
        return column.to_numpy()
    return column.astype(str).to_numpy(dtype=str)


def _class_columns(frame, assigned: set) -> tuple[str, list[str], list[str], list[str]]:
    """The kind of scores, their columns, the names of the classes, and the columns left over."""
    import pandas as pd

    rest = [c for c in frame.columns if c not in assigned and not c.startswith("Unnamed:")]
    prefix = next((p for p in _PREFIXES if any(c.startswith(p) for c in rest)), "")
    if prefix:
        columns = [c for c in rest if c.startswith(prefix)]
    else:
        columns = [c for c in rest if frame[c].dtype.kind in "fiu"]
        if not columns:
            raise ValueError(f"got columns {_few(rest)}, expected prob_NAME for each class")
        answer = any(c.lower() in _ANSWER_COLUMNS for c in rest)
        if answer or all(c.lower() in _CONFIDENCE_COLUMNS for c in columns):
            raise ValueError(
                f"got columns {_few(rest)}, expected prob_NAME or logit_NAME for each class, since "
                "an answer and its confidence do not say what the other classes got; "
                "calibkit.metrics and calibkit.stats take the confidence alone"
            )
    names = [c.removeprefix(prefix) for c in columns]
    text = [c for c in columns if frame[c].dtype.kind not in "fiu"]
    empty = next((c for c in columns if c not in text and frame[c].isna().any()), None)
    if empty:
        row = int(frame[empty].isna().argmax()) + 1
        raise ValueError(f"{empty}: got an empty cell in row {row} below the header")
    if text:
        cells = frame[text[0]]
        cell = str(cells[pd.to_numeric(cells, errors="coerce").isna()].iloc[0])
        raise ValueError(f"{text[0]}: got {cell[:40]!r}, expected numbers")
    if len(columns) == 1:  # the probability or logit of class 1
        names = ["not " + names[0], names[0]]
    kind = _PREFIXES.get(prefix, "probs")
    if not prefix and ((frame[columns] < -1e-6) | (frame[columns] > 1 + 1e-6)).any(axis=None):
        raise ValueError(
            f"got columns {_few(columns)}, read as probabilities of these classes, but some are "
            "not between 0 and 1; name the columns of scores prob_NAME or logit_NAME"
        )
    return kind, columns, names, [c for c in rest if c not in columns]
