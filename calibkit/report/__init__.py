"""An honest report on your own predictions: ``report.build("preds.npz", out="report/")``.

Its steps can also be run one at a time, in a notebook for instance: `read` (predictions),
`assess` (their numbers), `verdict` and `cautions` (the numbers in words), `tables` and `draw`.
"""

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from calibkit.report import matching
from calibkit.report.names import File, Say, silent
from calibkit.report.predictions import Predictions, check_files, read
from calibkit.report.readers.asked import Columns

_HOMES = {
    "assess": "assessment",
    "verdict": "text",
    "cautions": "text",
    "tables": "as_tables",
    "draw": "page",
}
__all__ = ["Predictions", "assess", "build", "cautions", "draw", "read", "tables", "verdict"]


def __getattr__(name: str) -> Any:
    if name in _HOMES:  # imported on demand: reading predictions needs no matplotlib
        return getattr(import_module(f"calibkit.report.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def build(
    path: File | Predictions,
    out: File = "report",
    against: File | Predictions | None = None,
    labels: File | None = None,
    target_risk: Sequence[float] = (),
    *,
    positive: str | None = None,
    rules: Sequence[tuple[str, float]] = (),
    group: Sequence[str] = (),
    tokens: bool = False,
    columns: Columns = (),
    minus_one: str | None = None,
    as_is: bool = False,
    one_label: str | None = None,
    cluster: str | None = None,
    rows: bool = True,
    log: Say = silent,
    told: Say | None = None,
) -> Path:
    """Write the report on a prediction file: ``report.html`` and ``report.json``.

    Parameters
    ----------
    path : path or Predictions
        The predictions; `calibkit.report.predictions` lists the formats. "-" is standard input.
    out : path
        Folder to write to; created if missing.
    against : path or Predictions, optional
        A second model for the same samples. Its rows are matched by `calibkit.report.matching`.
    labels : path, optional
        A file that holds only the labels.
    target_risk : sequence of float
        Error rates (fractions of 1) to find thresholds for; by default, some below the model's
        error rate.
    positive : str, optional
        With two classes, the name of the class of interest. By default it is guessed, and the page
        says so.
    rules : sequence of (str, float)
        Rules for thresholds on the probability of that class: pairs of a name ("cost_ratio",
        "budget", "precision", "recall") and a value, see `calibkit.report.thresholds.choose`. By
        default there are several.
    group, tokens, columns, minus_one, as_is, one_label, cluster
        See `read`.
    rows : bool
        False leaves out all numbers that belong to a single row: see `calibkit.report.privacy`.
    log : function of str
        Called with a few words at the start of each step.
    told : function of str, optional
        Called with the text of ``report.json`` when both files are written. (Another process may
        replace the file before the caller can read it.)

    Returns
    -------
    Path
        Path of the HTML page.

    Raises
    ------
    ValueError
        A file cannot be read, the labels of the two models differ, a target is not between 0 and 1,
        or a rule makes no sense. The message has one line.
    OSError
        A file cannot be read or written.

    Examples
    --------
    >>> import tempfile
    >>> scores = {"probs": [[0.9, 0.1], [0.4, 0.6], [0.7, 0.3]] * 20, "labels": [0, 1, 1] * 20}
    >>> from calibkit.report.predictions import from_arrays
    >>> build(from_arrays(scores), tempfile.mkdtemp()).name
    'report.html'
    """
    check_files(path, against, labels)
    log("reading")
    reading = {"tokens": tokens, "columns": columns, "minus_one": minus_one, "as_is": as_is}
    reading |= {"one_label": one_label, "cluster": cluster}
    reading["ids"] = None if against is None else ""  # by which rows are matched
    data, other = (
        x if x is None or isinstance(x, Predictions) else read(x, labels, group=group, **reading)
        for x in (path, against)
    )
    if positive is not None:
        data = data.about(positive)
    if other is not None:
        data, other = matching.beside(data, other)
    from calibkit.report import assessment, page  # late: drawing takes a second to import

    numbers = assessment.assess(data, other, target_risk, rules, log)
    log("page")
    return page.write(numbers, Path(out), data, other, rows, told)
