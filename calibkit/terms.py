"""What things are called: methods, metrics and their units, data sets. Standard library only.

The names themselves, with colours and coefficients, are in ``terms.toml``.
"""

import re
import tomllib
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from difflib import get_close_matches
from pathlib import Path
from typing import NamedTuple


class Entry(NamedTuple):
    """A method of the papers: what it is called, how it is drawn, what it trains with.

    Attributes
    ----------
    label, color, marker : name on pages, and colour and marker in figures
    objective : name of the loss, a function of `calibkit.losses` or of `training.objectives` of the
        companion; "" if the function has the name of the method
    options : coefficients of the loss that may be set
    update : how weights are updated, "sgd" or "sam"
    averaging : how weights are averaged, "none" or "swa"
    revision : number that rises when the loss computes something else; older records then do not
        count for the method
    """

    label: str
    color: str
    marker: str
    objective: str = ""
    update: str = "sgd"
    averaging: str = "none"
    revision: int = 0
    options: Mapping[str, float] = {}


class Metric(NamedTuple):
    """A metric, as figures and tables show it: a line of ``terms.toml``.

    Attributes
    ----------
    label : name on pages and in figures
    scale : factor by which the papers multiply it: 1, 100 or 1000
    higher : whether higher is better; None if neither direction is
    meaning : a sentence for readers who meet the metric in a table; "" if no table shows it
    """

    label: str
    scale: int
    higher: bool | None = None
    meaning: str = ""


_TABLE = tomllib.loads(Path(__file__).with_name("terms.toml").read_text(encoding="utf-8"))
METHODS = {name: Entry(**row) for name, row in _TABLE["methods"].items()}  # in order of figures
METRICS = {name: Metric(**row) for name, row in _TABLE["metrics"].items()}
DATASETS: dict[str, str] = _TABLE["datasets"]  # what pages call them
COLORS: dict[str, str] = _TABLE["colors"]  # colours of things other than methods
_SUFFIXES = {"sam": "SAM", "swa": "SWA", "ts": "TS"}
_FEW = 20  # an error lists all valid names if they are this many or fewer
_GREEK = {"alpha": "α", "beta": "β", "gamma": "γ", "epsilon": "ε"}
UNITS = {100: "\u00a0%", 1000: "\u00a0‰", 1: ""}  # unit by the scale of a metric


def choose(kind: str, name: str, valid: Collection[str], listing: str = "") -> None:
    """Raise an error of one line for an unknown name, with the valid names or the nearest three.

    Parameters
    ----------
    kind : what the name stands for, such as "method"
    name : the name to check
    valid : the names that exist
    listing : a command that prints all of them, for an error that shows only three

    Raises
    ------
    ValueError
        If the name is not valid.

    Examples
    --------
    >>> choose("edition", "smok", ["smoke", "demo"])
    Traceback (most recent call last):
    ValueError: unknown edition 'smok' (did you mean 'smoke'?); valid: demo, smoke
    >>> choose("run", "m", [f"mlp-s{seed}" for seed in range(30)], "calibkit runs")
    Traceback (most recent call last):
    ValueError: unknown run 'm'; nearest of 30: mlp-s0, mlp-s1, mlp-s10; all of them: calibkit runs
    """
    if name in valid:
        return
    names = sorted(valid)
    close = get_close_matches(str(name), names, n=1)
    hint = f" (did you mean {close[0]!r}?)" if close else ""
    if len(names) <= _FEW:
        raise ValueError(f"unknown {kind} {name!r}{hint}; valid: {', '.join(names)}")
    holding = [one for one in names if str(name) in one]
    near = (holding or get_close_matches(str(name), names, n=3, cutoff=0))[:3]
    more = f"; all of them: {listing}" if listing else ""
    raise ValueError(
        f"unknown {kind} {name!r}{hint}; nearest of {len(names):,}: {', '.join(near)}{more}"
    )


@contextmanager
def extras() -> Iterator[None]:
    """Within this context, the error for a missing module names the extra that installs it."""
    try:
        yield
    except ModuleNotFoundError as error:
        extra = "train" if error.name in ("torch", "torchvision", "mnist1d") else "report"
        hint = f"; pip install 'calibkit[{extra}]'"
        raise ModuleNotFoundError(f"{error}".removesuffix(hint) + hint, name=error.name) from None


def label(method: str) -> str:
    """The name of a method for readers, with its options in brackets and its additions (SAM, SWA).

    >>> label("bsce_gra+sam+swa"), label("erm+swa+sam"), label("ts")
    ('BSCE-GRA + SAM + SWA', 'FMFP', 'Temperature scaling')
    >>> label("focal(gamma=5)").replace("\u00a0", " ")  # non-breaking spaces
    'Focal loss (γ = 5)'
    """
    base, options, axes = parts(method)
    if (base, axes) == ("erm", ["ts"]):
        return "Temperature scaling"  # of plain training
    options = re.sub(r",(?=\w)", ", ", options)
    options = re.sub(r"\b(\w+)=(?=\S)", lambda m: f"{_GREEK.get(m[1], m[1])}\u00a0=\u00a0", options)
    base, own, _ = base.partition("@")  # from somebody's own file
    name = base.replace("_", " ")
    name = base if own else METHODS[base].label if base in METHODS else name
    words = [name + (f" {options}" if options else "")]
    return " + ".join(words + [_SUFFIXES.get(axis, axis) for axis in axes])


def inside(label: str) -> str:
    """A label inside a sentence: in lower case, unless it begins with an abbreviation or a name.

    >>> [inside(label) for label in ("Plain training", "AUROC", "L1 norm", "E-AURC", "Brier loss")]
    ['plain training', 'AUROC', 'L1 norm', 'E-AURC', 'Brier loss']
    """
    keeps = label[:2].isupper() or label[1:2] == "-" or label.startswith("Brier")
    return label if keeps else label[:1].lower() + label[1:]


def parts(method: str) -> tuple[str, str, list[str]]:
    """Split a method into its base, its options in brackets, and its additions (sam, swa, ts).

    Plain training with SAM, SWA or both (FMFP) has a name of its own, which is then the base.

    >>> parts("focal(gamma=5)+sam"), parts("erm+sam+swa"), parts("ts")
    (('focal', '(gamma=5)', ['sam']), ('fmfp', '', []), ('erm', '', ['ts']))
    """
    if method == "ts":  # a name of its own in published tables
        method = "erm+ts"
    name, *axes = (part.strip() for part in str(method).split("+"))
    base, options = re.fullmatch(r"([^(]*)(.*)", name, flags=re.DOTALL).groups()
    flat = "+".join(axis for axis in ("sam", "swa") if axis in axes)
    if base == "erm" and flat and not options:  # these have names of their own
        base = {"sam": "sam", "swa": "swa", "sam+swa": "fmfp"}[flat]
        axes = [axis for axis in axes if axis not in ("sam", "swa")]
    return base, options, axes


def metric_label(metric: str, unit: bool = True) -> tuple[str, int, bool | None]:
    """Label, scale and direction (higher is better?) of a metric; unknown names are allowed."""
    usual = Metric(metric.replace("_", " "), 1)
    label, scale, higher, _ = METRICS.get(metric, usual)
    if metric.startswith("risk_at_coverage_"):
        label = f"Risk at {100 * float(metric.rpartition('_')[2]):.0f} % coverage"
        scale, higher = 100, False
    return (
        label + (" × 1000" if scale == 1000 else " (%)" if scale == 100 and unit else ""),
        scale,
        higher,
    )


def header(metric: str) -> str:
    """Label of a metric with its unit, as at the head of a column.

    >>> header("aurc"), header("ece")
    ('AURC × 1000', 'ECE (%)')
    """
    return metric_label(metric)[0]
