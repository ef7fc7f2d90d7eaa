"""Tables: a row for each sample."""

import io
from pathlib import Path

import numpy as np

from calibkit.arrays import Array
from calibkit.report.names import few_of, is_number
from calibkit.report.readers.content import TEXT, bytes_of, format_of
from calibkit.report.readers.named import NAMES, PREFIXES, VALIDATION, Arrays, among, grouped


def table_arrays(path: Path, group: tuple[str, ...]) -> Arrays:
    frame, notes = table_of(path)
    arrays, more = frame_arrays(frame, group)
    return arrays, notes + more


def table_of(path: Path):
    """A table as a data frame, and what to say about how it was read."""
    import pandas as pd  # late: slow to import

    kind = format_of(path)
    if kind in TEXT:
        content = bytes_of(path)
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


def frame_arrays(frame, group: tuple[str, ...]) -> Arrays:
    """Arrays of a table with a row for each sample."""
    frame.columns = [str(column).strip() for column in frame.columns]
    if frame.empty or frame.columns.has_duplicates:
        raise ValueError(
            f"got {len(frame)} rows and columns {few_of(frame.columns)}, expected at least one row "
            "and no column twice"
        )
    among(group, frame.columns, "columns ")
    groups = group or tuple(c for c in ("group", "groups") if c in frame.columns)[:1]
    lower = {c.lower(): c for c in reversed(frame.columns) if c not in groups}
    label, weight, split, correct, confidence, logprob, answer = (
        next((lower[name] for name in NAMES[kind] if name in lower), None)
        for kind in ("labels", "weights", "split", "correct", "confidence", "logprob", "answer")
    )
    given = {*groups, label, weight, split}
    arrays: dict[str, Array] = {}
    notes: list[str] = []
    prefixed = any(c.startswith(p) for p in PREFIXES for c in frame.columns if c not in given)
    if (confidence or logprob) and not prefixed and (correct or (answer and label)):
        arrays, used, notes = _pairs(frame, label, correct, confidence, logprob, answer)
        rest = [c for c in frame.columns if c not in {*groups, weight, split, *used}]
    elif label is None:
        raise ValueError(
            f"got columns {few_of(frame.columns)}, expected one called 'label' "
            f"(or {', '.join(map(repr, NAMES['labels'][2:8]))}), or 'confidence' and 'correct'"
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
        arrays |= grouped(groups, columns)
        arrays["groups"] = arrays["groups"] if group else columns[0]
    if split:
        arrays = _split(arrays, frame[split].astype(str).str.lower().to_numpy(dtype=str))
    notes += [f"Columns not used: {few_of(rest)}."] if rest else []
    return arrays, notes


def _split(arrays: dict[str, Array], part: Array) -> dict[str, Array]:
    odd = [x for x in np.unique(part) if x not in ("test", *VALIDATION)]
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
    prefix = next((p for p in PREFIXES if any(c.startswith(p) for c in rest)), "")
    alone = [c for c in rest if c.lower() in (*NAMES["probs"], *NAMES["logits"])]
    if prefix and not alone:
        columns = [c for c in rest if c.startswith(prefix)]
    elif len(alone) == 1:
        columns, prefix = alone, ""
    else:
        columns = [c for c in rest if frame[c].dtype.kind in "fiu"]
        if not columns:
            raise ValueError(f"got columns {few_of(rest)}, expected prob_NAME for each class")
        answer = any(c.lower() in NAMES["answer"] for c in rest)
        if answer or all(c.lower() in NAMES["confidence"] for c in columns):
            raise ValueError(
                f"got columns {few_of(rest)}, expected prob_NAME or logit_NAME for each class; or "
                "'confidence' and 'correct' (true or false)"
            )
    for column in columns:
        _numbers(frame[column])
    kind = PREFIXES.get(prefix, "probs")
    names = [c.removeprefix(prefix) for c in columns]
    if len(columns) == 1:  # the probability or logit of class 1
        if columns[0].lower() in NAMES["logits"]:
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
