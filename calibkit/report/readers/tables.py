"""Read tables (CSV, TSV, Parquet, Feather) with one row for each sample."""

import io
from pathlib import Path

import numpy as np

from calibkit.arrays import Array
from calibkit.report.names import few_of
from calibkit.report.readers import cells, dates, ids, parquet, records, several
from calibkit.report.readers.asked import Asked
from calibkit.report.readers.classes import class_arrays
from calibkit.report.readers.content import TEXT, bytes_of, format_of
from calibkit.report.readers.frames import DataFrame, ReadRows
from calibkit.report.readers.named import Arrays, among, grouped
from calibkit.report.readers.pairs import pair_arrays
from calibkit.report.readers.roles import Roles, roles_of, two_models, unnamed
from calibkit.report.readers.vocabulary import NAMES, VALIDATION, WHOLE


def table_arrays(path: Path, asked: Asked) -> Arrays:
    """Read a table into arrays, with sentences for the user; `ValueError` if it cannot be read."""
    frame, notes = table_of(path)
    arrays, more = frame_arrays(frame, asked)
    return arrays, notes + more


def table_of(path: Path) -> tuple[DataFrame, list[str]]:
    """Read a table into a data frame; the list has sentences for the user about its format."""
    import pandas as pd  # late: slow to import

    kind = format_of(path)
    if kind in TEXT:
        content = bytes_of(path)
        if not content:
            raise ValueError("the file is empty")
        form, notes = _form(content)
        try:  # only an empty cell is missing: NA may be a class
            options = {"keep_default_na": False, "na_values": [""]} | form
            return pd.read_csv(io.BytesIO(content), **options), notes
        except UnicodeDecodeError as error:
            raise ValueError("not written in UTF-8: save it as UTF-8 text") from error
    try:
        if kind == ".feather":
            return pd.read_feather(path), []
        parquet.check(path)
        return pd.read_parquet(path), []
    except ImportError as error:
        raise ValueError(f"a {kind} file needs pyarrow: pip install pyarrow") from error


def _form(content: bytes) -> tuple[dict[str, str], list[str]]:
    """Separator and decimal mark of a CSV file by its first two lines, and notes on them."""
    lines = content[:2_000_000].decode("utf-8-sig", "replace").splitlines()
    head, row = [*lines, "", ""][:2]
    separator = max(",;\t", key=head.count)  # a comma if the line has none of the three
    if separator == ",":
        return {}, []
    form = {"sep": separator, "decimal": "," if "," in row else "."}
    notes = [f"Columns are separated by {'semicolons' if separator == ';' else 'tabs'}."]
    return form, notes + (["Decimals are written with a comma."] if form["decimal"] == "," else [])


def frame_arrays(frame: DataFrame, asked: Asked) -> Arrays:
    """Turn a data frame with one row for each sample into arrays by name.

    Parameters
    ----------
    frame : pandas.DataFrame
        Its columns are renamed in place.
    asked : Asked
        What the caller says about the columns.

    Returns
    -------
    dict of str to array, list of str
        The arrays, named as in `predictions.from_arrays`; sentences for the user.

    Raises
    ------
    ValueError
        The table is empty, two columns have one name, or scores or labels are missing.
    """
    frame.columns = [str(column).strip() for column in frame.columns]
    frame = records.flattened(frame)
    frame.columns = [_printable(column) for column in frame.columns]
    if frame.empty or frame.columns.has_duplicates:
        raise ValueError(
            f"got {len(frame)} rows and columns {few_of(frame.columns)}, expected at least one row "
            "and no column twice"
        )
    among(asked.group, frame.columns, "columns ")
    among((asked.cluster,) if asked.cluster else (), frame.columns, "columns ", "cluster")
    roles = roles_of(frame, asked)
    notes: list[str] = []
    arrays, used, keep = _samples(frame, roles, asked, notes)
    arrays |= _beside(frame, roles, asked)
    ours = {*roles.groups, roles.weight, roles.split, *asked.columns.get("ignore", ())}
    free = {*frame.columns} - used - (ours - {*roles.groups})
    names = ids.of_frame(frame, free, asked)
    arrays |= names
    if not keep.all():
        arrays = {key: x if key in WHOLE else x[keep] for key, x in arrays.items()}
    if roles.split:
        arrays = _split(arrays, frame[roles.split][keep].astype(str).str.lower().to_numpy(str))
    if doubt := two_models(frame, roles):
        arrays["doubts"] = np.array([doubt])
    used |= {*ours, roles.cluster, *names.get("id_names", np.array([])).tolist()}
    rest = [c for c in frame.columns if c not in used and not c.startswith("Unnamed:")]
    notes += [f"Columns not used: {few_of(rest)}."] if rest else []
    if not roles.split:
        notes += [text for c in rest if (text := dates.said(frame[c]))][:1]
    return arrays, notes


def _beside(frame: DataFrame, roles: Roles, asked: Asked) -> dict[str, Array]:
    """The weights (n,), clusters (n,) and groups of the samples, as far as the table has them."""
    arrays: dict[str, Array] = {}
    if roles.weight:
        arrays["weights"] = cells.labels(frame[roles.weight])
    if roles.cluster:
        arrays["clusters"] = cells.texts(frame[roles.cluster])
        arrays["cluster_name"] = np.array(roles.cluster)
    if roles.groups:
        columns = [frame[c].astype(object).where(frame[c].notna(), "(none)") for c in roles.groups]
        columns = [column.astype(str).to_numpy(dtype=str) for column in columns]
        arrays |= grouped(roles.groups, columns)
        arrays["groups"] = arrays["groups"] if asked.group else columns[0]
    return arrays


def _printable(name: str) -> str:
    """A column's name without control characters, which could move a terminal's cursor."""
    return "".join(x if x.isprintable() else "\N{REPLACEMENT CHARACTER}" for x in name)


def _samples(frame: DataFrame, roles: Roles, asked: Asked, notes: list[str]) -> ReadRows:
    """Read scores and labels, or confidences and correctness.

    Returns the arrays by name, the columns that they come from, and the rows (n,) to keep.
    """
    said = {"probs", "logits"} & asked.columns.keys()
    if asked.one_label is not None and not said:
        found = several.one_of_table(frame, roles, asked.one_label)
        if found is not None:
            return *found, np.ones(len(frame), dtype=bool)
    if roles.label is None and not roles.pairs:
        raise ValueError(_no_label(frame, roles))
    if roles.label is not None:
        found = class_arrays(frame, roles, asked, notes)
        if found is not None:
            return *found, np.ones(len(frame), dtype=bool)
    if not roles.pairs or said:
        raise ValueError(_no_scores(frame, roles))
    return pair_arrays(frame, roles, notes)


def _no_label(frame: DataFrame, roles: Roles) -> str:
    known = ", ".join(map(repr, NAMES["labels"][2:8]))
    way = several.hint(frame) or unnamed(frame, roles)
    return (
        f"got columns {few_of(frame.columns)}, expected one called 'label' (or {known}), or "
        f"'confidence' and 'correct'; {'perhaps ' + way if way else 'say which: --column label=…'}"
    )


def _no_scores(frame: DataFrame, roles: Roles) -> str:
    rest = [c for c in frame.columns if c not in {roles.label, *roles.groups}]
    way = unnamed(frame, roles)
    return (
        f"got columns {few_of(rest)} beside {roles.label!r}, expected prob_NAME for each class, "
        "or logit_NAME; or 'confidence' and 'correct' (true or false)"
        f"{'; perhaps ' + way if way else ''}"
    )


def _split(arrays: dict[str, Array], part: Array) -> dict[str, Array]:
    odd = [x for x in np.unique(part) if x not in ("test", *VALIDATION)]
    if odd:
        raise ValueError(
            f"split: got {few_of(odd)}, expected 'test' and 'val' (leave training samples out)"
        )
    test = part == "test"
    whole = {key: x for key, x in arrays.items() if key in WHOLE}
    rows = {key: x for key, x in arrays.items() if key not in WHOLE}
    held = {f"val_{k}": x[~test] for k, x in rows.items() if k not in ("groups", "ids")}
    held = {} if test.all() else held
    return whole | {key: x[test] for key, x in rows.items()} | held
