"""Formats of prediction files: each is read into arrays, named as in `predictions.from_arrays`.

Files are treated as hostile: nothing is unpickled, unpacked beyond the memory there is, or fetched.
"""

import contextlib
import gzip
import io
import json
import os
import sys
import tempfile
from collections.abc import Callable, Collection, Iterator
from pathlib import Path

import numpy as np

from calibkit.arrays import Array, to_numpy
from calibkit.report.names import KEYS, few_of, is_number, text_of

_NAMES = {  # what others call our arrays and columns
    key: tuple(names.split())
    for key, names in {
        "probs": "probs prob proba probas y_prob y_proba y_probs y_pred_proba p probability "
        "probabilities pred_proba predict_proba",
        "logits": "logits logit scores score y_score y_scores outputs decision_function",
        "labels": "labels label y_true target targets true_label true y y_test actual "
        "ground_truth gold label_ids",
        "confidence": "confidence conf confidences max_prob msp",
        "correct": "correct is_correct right hit acc",
        "groups": "groups group slice slices",
        "weights": "weights weight sample_weight sample_weights",
        "class_names": "class_names classes classes_",
        # Of columns alone: the logarithm of the confidence; the answer, which with the label says
        # whether it is right; the part of the data.
        "logprob": "logprob log_prob mean_logprob",
        "answer": "y_pred pred prediction predicted predicted_class predicted_label answer",
        "split": "split",
    }.items()
}
_PREFIXES = {"logit_": "logits", "prob_": "probs", "proba_": "probs", "p_": "probs"}
_PREFIXES |= {"probability_": "probs", "score_": "logits"}
_VALIDATION = ("val", "valid", "validation")
_OBJECTS = "holds Python objects, not read as they could run code: save numbers or strings"
_STARTS = {b"PK": ".npz", b"\x93NUMPY": ".npy", b"PAR1": ".parquet", b"ARROW1": ".feather"}
_STARTS |= {b"\x1f\x8b": ".csv.gz", b"{": ".jsonl", b"[": ".json"}

Arrays = tuple[dict[str, Array], list[str]]


def arrays_of(path: Path, group: tuple[str, ...] = ()) -> Arrays:
    """Arrays of a file by name, and what to say about how it was read.

    Raises
    ------
    ValueError
        The format is unknown, or the content is not what it should be.
    """
    return _READERS[format_of(path)](path, group)


def format_of(path: Path) -> str:
    """The suffix that says how to read a file; `ValueError` if it is not one of ours."""
    name = path.name.lower()
    plain = name.removesuffix(".gz")
    kind = "." + plain.rpartition(".")[2]
    if kind not in _READERS or (name != plain and kind not in _TEXT):
        hint = "; unpickling could run code" if kind in (".pkl", ".pickle", ".joblib") else ""
        raise ValueError(f"got a file {path.suffix!r}, expected {', '.join(_READERS)}{hint}")
    return kind


@contextlib.contextmanager
def standard_input() -> Iterator[Path]:
    """Standard input as a file, with the suffix that its first bytes suggest."""
    content = sys.stdin.buffer.read()
    start = content if content[:1] in b"P\x93A\x1f" else content[:1000].lstrip()
    suffix = next((kind for magic, kind in _STARTS.items() if start.startswith(magic)), ".csv")
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder, f"input{suffix}")
        copy.write_bytes(content)
        yield copy


# --- arrays ---


def _npz(path: Path, group: tuple[str, ...]) -> Arrays:
    with _load(path) as archive:
        if not isinstance(archive, np.lib.npyio.NpzFile):
            raise ValueError("got a single array, expected an archive of named arrays")
        keys = set(archive.files)
        if keys == {"arr_0"}:
            return _fd_shifts(_member(archive, "arr_0"))
        return _named(keys, lambda name: _member(archive, name), group)


def _named(keys: set[str], get: Callable[[str], Array], group: tuple[str, ...]) -> Arrays:
    """Named arrays under our names, from those of any tool."""
    _among(group, keys, "names among ")
    keys = keys - set(group)
    names = _by_alias(keys)
    if not {"logits", "probs"} & set(names) and not {"confidence", "correct"} <= set(names):
        raise ValueError(
            f"got arrays {few_of(sorted(keys))}, expected 'logits' or 'probs', and 'labels'; "
            "or 'confidence' and 'correct'"
        )
    others = [f"{name!r} as {ours}" for ours, name in names.items() if ours != name]
    notes = [f"Read {', '.join(others)}."] if others else []
    for prefix in ("", "val_"):  # the first that says most
        kinds = [prefix + x for x in ("logits", "probs", "confidence") if prefix + x in names]
        for kind in kinds[1:]:
            del names[kind]
        if kinds and kinds[0] != prefix + "confidence":
            names.pop(prefix + "correct", None)
    if group:
        names.pop("groups", None)
    unused = sorted(keys - set(names.values()))
    if unused and "test_logits" not in keys:  # a record has much else
        notes.append(f"Not used: {few_of(unused)}.")
    arrays = {ours: get(name) for ours, name in names.items()}
    columns = [text_of(np.asarray(to_numpy(get(name)))) for name in group]
    if len({x.shape for x in columns}) > 1 or any(x.ndim != 1 for x in columns):
        shapes = ", ".join(str(column.shape) for column in columns)
        raise ValueError(f"group: got shapes {shapes}, expected (n,) for each")
    return arrays | _grouped(group, columns), notes


def _among(group: tuple[str, ...], names: Collection[str], expected: str) -> None:
    if missing := [name for name in group if name not in names]:
        shown = few_of(sorted(names) if isinstance(names, set) else names)
        raise ValueError(f"group: got {few_of(missing)}, expected {expected}{shown}")


def _grouped(group: tuple[str, ...], columns: list) -> dict[str, Array]:
    if not group:
        return {}
    return {"groups": np.stack(columns, axis=1), "group_names": np.array(group)}


def _by_alias(keys: set[str]) -> dict[str, str]:
    lower = {key.lower(): key for key in sorted(keys)}
    found: dict[str, str] = {}
    prefixes = {"": "", "test_": "", "val_": "val_", "valid_": "val_", "validation_": "val_"}
    for prefix, ours in prefixes.items():
        for name, others in _NAMES.items():
            theirs = next((lower[prefix + x] for x in others if prefix + x in lower), None)
            if theirs is not None and ours + name in KEYS:
                found.setdefault(ours + name, theirs)
    if "predictions" in lower and not {"logits", "probs"} & set(found):
        found["logits"] = lower["predictions"]  # of Hugging Face; netcal's are probabilities
    return found


def _load(path: Path):
    with _no_objects(f"{path.name!r} is not a NumPy file, or"):
        return np.load(path, allow_pickle=False)


@contextlib.contextmanager
def _no_objects(what: str) -> Iterator[None]:
    try:
        yield
    except ValueError as error:
        if "pickle" in str(error):
            raise ValueError(f"{what} {_OBJECTS}") from error
        raise


def _member(archive, key: str) -> Array:
    # A few kilobytes can unpack to any size; the archive says how large.
    info = archive.zip.getinfo(f"{key}.npy" if f"{key}.npy" in archive.zip.namelist() else key)
    if info.file_size > _memory():
        raise ValueError(
            f"{key!r} is {info.file_size / 1e9:.0f} GB, more than the memory of this machine"
        )
    with _no_objects(repr(key)):
        return archive[key]


def _memory() -> int:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # Windows
        return 1 << 40


def _fd_shifts(array: Array) -> Arrays:
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
    arrays = {"logits": scores[test], "labels": label[test]}
    arrays |= {"val_logits": scores[~test], "val_labels": label[~test]}
    if len(sets) > 2:
        arrays["groups"] = np.char.add("data set ", dataset[test].astype(np.int64).astype(str))
    return arrays, notes


def _npy(path: Path, group: tuple[str, ...]) -> Arrays:
    if group:
        raise ValueError("group: a .npy file holds one array, expected an .npz or a table")
    return {"logits": _load(path)}, []


def _tensors(path: Path, group: tuple[str, ...]) -> Arrays:
    """A dict of tensors, as torch.save writes it; without torch's unpickling of anything else."""
    try:
        import torch
    except ImportError as error:
        raise ValueError("a .pt file needs torch: pip install torch, or save an .npz") from error
    import pickle

    try:
        found = torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        raise ValueError(
            "not a dict of tensors, or damaged: save torch.save({'logits': …, 'labels': …})"
        ) from error
    if not isinstance(found, dict):
        raise ValueError(f"got a {type(found).__name__}, expected a dict of named tensors")
    return _named({str(key) for key in found}, lambda name: _array(found[name]), group)


def _array(value) -> Array:
    """A list or tensor as an array of numbers or text, never of objects."""
    array = to_numpy(value)
    if array.dtype.kind == "O":
        raise ValueError(f"got {str(value)[:40]!r}, expected an array of numbers or names")
    return array


def label_file(path: Path) -> Array:
    """Labels in a file of their own: ``.npy``, or text with one a line."""
    if path.suffix.lower() == ".npy":
        return _load(path)
    lines = path.read_text(encoding="utf-8-sig").split("\n")
    lines = [line.strip() for line in lines if line.strip()]
    return np.array(lines[1:] if lines and lines[0] in _NAMES["labels"] else lines, dtype=str)


# --- JSON ---


def _json(path: Path, group: tuple[str, ...]) -> Arrays:
    """An object of arrays, a list of rows, or a row a line."""
    text = _text_of_file(path).decode("utf-8-sig").strip()
    if not text:
        raise ValueError("the file is empty")
    try:
        found = json.loads(text)
    except json.JSONDecodeError:
        lines = [line for line in text.split("\n") if line.strip()]
        try:
            found = [json.loads(line) for line in lines]
        except json.JSONDecodeError as error:
            raise ValueError(f"neither JSON nor a JSON object a line ({error.msg})") from error
    if isinstance(found, dict) and format_of(path) == ".json":
        return _named(set(found), lambda name: _array(found[name]), group)
    rows = found if isinstance(found, list) else [found]
    if not all(isinstance(row, dict) for row in rows) or not rows:
        raise ValueError("expected a list of objects, one for each sample")
    if "filtered_resps" in rows[0]:
        return _harness(rows, group)
    kind = next((x for x in rows[0] if isinstance(rows[0][x], list)), None)
    if kind is not None:  # a list of scores in each row
        ours = next((x for x in ("logits", "probs") if kind.lower() in _NAMES[x]), None)
        if ours is None:
            raise ValueError(f"{kind}: got a list in each row, expected it to be logits or probs")
        columns = set(rows[0])
        if not all(columns <= set(row) for row in rows):
            raise ValueError(f"expected {few_of(sorted(columns))} in every row")
        return _named(columns, lambda name: _array([row[name] for row in rows]), group)
    import pandas as pd  # late: slow to import

    return _frame(pd.DataFrame.from_records(rows), group)


def _text_of_file(path: Path) -> bytes:
    """The bytes of a text file, unpacked if it is compressed."""
    most = _memory() // 4
    with (gzip.open if path.suffix.lower() == ".gz" else open)(path, "rb") as file:
        content = file.read(most + 1)
    if len(content) > most:
        raise ValueError(f"unpacks to more than {most / 1e9:.0f} GB, too much for this machine")
    return content


def _harness(rows: list[dict], group: tuple[str, ...]) -> Arrays:
    """Multiple choice in lm-evaluation-harness: for each choice its log-probability.

    ``filtered_resps`` holds a pair [log-probability, is it the greedy continuation?] for each
    choice and ``target`` the number of the right one; newer versions write all of them as text.
    """
    first = rows[0].get("filter")
    filters = {row.get("filter") for row in rows}
    rows = [row for row in rows if row.get("filter") == first]
    asked = [(row, _choices(row)) for row in rows]
    asked = [(row, choices, _target(row, len(choices))) for row, choices in asked]
    asked = [question for question in asked if question[2] is not None]
    sizes = [len(choices) for _, choices, _ in asked]
    if max(sizes, default=0) < 2:
        raise ValueError(
            "got no question with two or more choices and one right answer, expected "
            "multiple choice"
        )
    logits = np.full((len(asked), max(sizes)), -1e4)  # a choice that a question does not have
    for scores, (_, choices, _) in zip(logits, asked, strict=True):
        scores[: len(choices)] = choices
    kept, labels = [row for row, *_ in asked], np.array([right for *_, right in asked])
    notes = [
        "File format: lm-evaluation-harness. Probabilities are the log-probabilities of the "
        "choices, normalised over the choices of each question (as in acc, not acc_norm). The "
        "classes are positions of choices."
    ]
    if min(sizes) < max(sizes):
        notes.append(f"Questions have {min(sizes)} to {max(sizes)} choices.")
    if left_out := len(rows) - len(kept):
        notes.append(f"{left_out:,} questions without one right choice are left out.")
    if len(filters) > 1:
        notes.append(f"Only the filter {str(first)!r} was read, of {len(filters)}.")
    ours = (logits.argmax(axis=1) == labels).mean()
    theirs = [float(row["acc"]) for row in kept if isinstance(row.get("acc"), int | float)]
    if len(theirs) == len(labels) and abs(np.mean(theirs) - ours) > 0.005:
        notes.append(
            f"The harness counted {100 * np.mean(theirs):.1f}\u00a0% right, these "
            f"log-probabilities give {100 * ours:.1f}\u00a0%."
        )
    fields = [{**row.get("doc", {}), **row} for row in kept] if group else []
    _among(group, set.intersection(*map(set, fields)) if fields else (), "fields of every line: ")
    columns = [np.array([str(row[name]) for row in fields]) for name in group]
    return {"logits": logits, "labels": labels} | _grouped(group, columns), notes


def _choices(row: dict) -> list[float]:
    """The log-probability of each choice."""
    pairs = row.get("filtered_resps")
    try:
        choices = [float(pair[0]) for pair in pairs if len(pair) == 2]
        if len(choices) != len(pairs) or isinstance(pairs[0], str):
            raise ValueError
    except (TypeError, ValueError, IndexError, KeyError) as error:
        raise ValueError(
            "filtered_resps: expected a pair [log-probability, is_greedy] for each choice; "
            "generated text has no probabilities, so save a confidence and correct a line"
        ) from error
    # With mutual information each choice is there once more, without its question.
    return choices[: len(choices) // 2] if "acc_mutual_info" in row else choices


def _target(row: dict, choices: int) -> int | None:
    """The number of the right choice; None if there are several, or none of these."""
    target = row.get("target")
    if is_number(str(target)):
        return int(target) if 0 <= int(target) < choices else None
    texts = row.get("arguments")  # the continuations that were scored
    if isinstance(texts, dict):
        texts = [list(x.values()) if isinstance(x, dict) else x for x in texts.values()]
    if not isinstance(texts, list):
        return None
    texts = [str(x[1]).strip() for x in texts[:choices] if isinstance(x, list) and len(x) > 1]
    return texts.index(str(target).strip()) if texts.count(str(target).strip()) == 1 else None


# --- tables ---


def _table(path: Path, group: tuple[str, ...]) -> Arrays:
    frame, notes = table_of(path)
    arrays, more = _frame(frame, group)
    return arrays, notes + more


def is_table(path: Path) -> bool:
    """Whether it is a file of rows and columns."""
    return _READERS[format_of(path)] is _table


def table_of(path: Path):
    """A table as a data frame, and what to say about how it was read."""
    import pandas as pd  # late: slow to import

    kind = format_of(path)
    if kind in _TEXT:
        content = _text_of_file(path)
        if not content:
            raise ValueError("the file is empty")
        form, notes = _form(content)
        try:  # NA may be a class
            options = {"keep_default_na": False, "na_values": [""]} | form
            return pd.read_csv(io.BytesIO(content), **options), notes
        except UnicodeDecodeError as error:
            raise ValueError("not written in UTF-8: save it as UTF-8 text") from error
    try:
        return (pd.read_parquet if kind == ".parquet" else pd.read_feather)(path), []
    except ImportError as error:
        raise ValueError(f"a {kind} file needs pyarrow: pip install pyarrow") from error


def _form(content: bytes) -> tuple[dict[str, str], list[str]]:
    """Separator and decimal mark of a CSV file, judging by its first two lines."""
    lines = content[:2_000_000].decode("utf-8-sig", "replace").splitlines()
    head, row = [*lines, "", ""][:2]
    separator = max(",;\t", key=head.count)  # a comma if there is none of them
    if separator == ",":
        return {}, []
    form = {"sep": separator, "decimal": "," if "," in row else "."}
    notes = [f"Columns are separated by {'semicolons' if separator == ';' else 'tabs'}."]
    return form, notes + (["Decimals are written with a comma."] if form["decimal"] == "," else [])


def _frame(frame, group: tuple[str, ...]) -> Arrays:
    """Arrays of a table with a row for each sample."""
    frame.columns = [str(column).strip() for column in frame.columns]
    if frame.empty or frame.columns.has_duplicates:
        raise ValueError(
            f"got {len(frame)} rows and columns {few_of(frame.columns)}, expected at least one row "
            "and no column twice"
        )
    _among(group, frame.columns, "columns ")
    groups = group or tuple(c for c in ("group", "groups") if c in frame.columns)[:1]
    lower = {c.lower(): c for c in reversed(frame.columns) if c not in groups}
    label, weight, split, correct, confidence, logprob, answer = (
        next((lower[name] for name in _NAMES[kind] if name in lower), None)
        for kind in ("labels", "weights", "split", "correct", "confidence", "logprob", "answer")
    )
    given = {*groups, label, weight, split}
    arrays: dict[str, Array] = {}
    notes: list[str] = []
    prefixed = any(c.startswith(p) for p in _PREFIXES for c in frame.columns if c not in given)
    if (confidence or logprob) and not prefixed and (correct or (answer and label)):
        arrays, used, notes = _pairs(frame, label, correct, confidence, logprob, answer)
        rest = [c for c in frame.columns if c not in {*groups, weight, split, *used}]
    elif label is None:
        raise ValueError(
            f"got columns {few_of(frame.columns)}, expected one called 'label' "
            f"(or {', '.join(map(repr, _NAMES['labels'][2:8]))}), or 'confidence' and 'correct'"
        )
    else:
        scores, columns, names, rest = _class_columns(frame, given, label)
        single = all(frame[column].dtype == np.float32 for column in columns)
        arrays[scores] = frame[columns].to_numpy(dtype=np.float32 if single else np.float64)
        labels = _values(frame[label])
        if labels.dtype.kind in "iu" and all(map(is_number, names)):
            labels = labels.astype(str)  # names of columns, in whatever order they come
        arrays["labels"] = labels
        arrays["class_names"] = np.array(names)
    if weight:
        arrays["weights"] = _values(frame[weight])
    if groups:
        named = [frame[c].astype(object).where(frame[c].notna(), "(none)") for c in groups]
        columns = [column.astype(str).to_numpy(dtype=str) for column in named]
        arrays |= _grouped(groups, columns)
        arrays["groups"] = arrays["groups"] if group else columns[0]
    if split:
        arrays = _split(arrays, frame[split].astype(str).str.lower().to_numpy(dtype=str))
    notes += [f"Columns not used: {few_of(rest)}."] if rest else []
    return arrays, notes


def _split(arrays: dict[str, Array], part: Array) -> dict[str, Array]:
    odd = [x for x in np.unique(part) if x not in ("test", *_VALIDATION)]
    if odd:
        raise ValueError(
            f"split: got {few_of(odd)}, expected 'test' and 'val' (leave training samples out)"
        )
    test = part == "test"
    rows = {key: x for key, x in arrays.items() if key not in ("class_names", "group_names")}
    held = {} if test.all() else {f"val_{k}": x[~test] for k, x in rows.items() if k != "groups"}
    return arrays | {key: x[test] for key, x in rows.items()} | held


def _values(column) -> Array:
    """A column's labels as numbers or strings, never objects."""
    if column.isna().any():
        row = int(column.isna().argmax()) + 1
        raise ValueError(f"{column.name}: got an empty cell in row {row} below the header")
    if column.dtype.kind in "biuf":
        return column.to_numpy()
    return column.astype(str).to_numpy(dtype=str)


def _numbers(column) -> Array:
    import pandas as pd

    if column.dtype.kind not in "biuf":
        cells = pd.to_numeric(column, errors="coerce").rename(column.name)
        if (odd := column[column.notna() & cells.isna()]).size:
            raise ValueError(f"{column.name}: got {str(odd.iloc[0])[:40]!r}, expected numbers")
        column = cells
    return _values(column)


def _pairs(frame, label, correct, confidence, logprob, answer):
    """Confidence and correctness of answers, the columns they came from, and notes."""
    source, notes = confidence or logprob, []
    values = _numbers(frame[source])
    if not confidence:
        if values.max() > 1e-6:
            raise ValueError(f"{source}: got {values.max():g}, expected logarithms, 0 at most")
        values = np.exp(values)
        notes.append(f"The confidence is exp({source}).")
    if correct:
        right = _values(frame[correct])
        if right.dtype.kind in "US":
            words = np.char.lower(np.char.strip(right))
            odd = right[~np.isin(words, ("true", "1", "yes", "false", "0", "no"))]
            if odd.size:
                raise ValueError(
                    f"{correct}: got {few_of(np.unique(odd))}, expected 0 and 1, or true, false"
                )
            right = np.isin(words, ("true", "1", "yes"))
        return {"confidence": values, "correct": right}, {source, correct}, notes
    both = [frame[answer], frame[label]]
    if not all(column.dtype.kind in "biuf" for column in both):
        both = [column.astype(str).str.strip() for column in both]
    notes.append(f"An answer is right if {answer!r} and {label!r} are the same.")
    same = (both[0] == both[1]).to_numpy(dtype=bool)
    return {"confidence": values, "correct": same}, {source, answer, label}, notes


def _class_columns(frame, assigned: set, label: str):
    """The kind of scores, their columns, the classes' names, and the columns left over."""
    rest = [c for c in frame.columns if c not in assigned and not c.startswith("Unnamed:")]
    prefix = next((p for p in _PREFIXES if any(c.startswith(p) for c in rest)), "")
    alone = [c for c in rest if c.lower() in (*_NAMES["probs"], *_NAMES["logits"])]
    if prefix and not alone:
        columns = [c for c in rest if c.startswith(prefix)]
    elif len(alone) == 1:
        columns, prefix = alone, ""
    else:
        columns = [c for c in rest if frame[c].dtype.kind in "fiu"]
        if not columns:
            raise ValueError(f"got columns {few_of(rest)}, expected prob_NAME for each class")
        answer = any(c.lower() in _NAMES["answer"] for c in rest)
        if answer or all(c.lower() in _NAMES["confidence"] for c in columns):
            raise ValueError(
                f"got columns {few_of(rest)}, expected prob_NAME or logit_NAME for each class; or "
                "'confidence' and 'correct' (true or false)"
            )
    for column in columns:
        _numbers(frame[column])
    kind = _PREFIXES.get(prefix, "probs")
    names = [c.removeprefix(prefix) for c in columns]
    if len(columns) == 1:  # the probability or logit of class 1
        if columns[0].lower() in _NAMES["logits"]:
            kind = "logits"
        names = _two_names(frame[label], names[0], bool(alone))
    elif not prefix and ((frame[columns] < -1e-6) | (frame[columns] > 1 + 1e-6)).any(axis=None):
        raise ValueError(
            f"got columns {few_of(columns)}, read as probabilities of these classes, but some are "
            "not between 0 and 1; name the columns of scores prob_NAME or logit_NAME"
        )
    return kind, columns, names, [c for c in rest if c not in columns]


def _two_names(labels, name: str, alone: bool) -> list[str]:
    """Names of two classes from the name of one column and the labels."""
    seen = sorted({str(x) for x in labels.dropna()} - {"-1", "-100"})
    if len(seen) > 2:
        raise ValueError(
            f"{labels.name}: got {few_of(seen)} with one column of scores, {name!r}; expected two "
            "classes, or a column for each"
        )
    if name in seen:
        return [next((x for x in seen if x != name), f"not {name}"), name]
    if set(seen) <= {"0", "1", "0.0", "1.0", "False", "True"}:
        return ["0", "1"] if alone else [f"not {name}", name]
    raise ValueError(
        f"{name}: one column of scores, and labels {few_of(seen)}: which of them is it the "
        f"probability of? Name the column prob_{seen[-1]}, for instance"
    )


_READERS: dict[str, Callable[[Path, tuple[str, ...]], Arrays]] = {
    ".npz": _npz,
    ".npy": _npy,
    ".csv": _table,
    ".tsv": _table,
    ".jsonl": _json,
    ".json": _json,
    ".parquet": _table,
    ".feather": _table,
    ".pt": _tensors,
    ".pth": _tensors,
}
_TEXT = (".csv", ".tsv", ".json", ".jsonl")  # which may be compressed
