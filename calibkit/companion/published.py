"""What the five papers print: every readable cell of their tables, and ours beside it.

A page writes two lines::

    ours = published.runs(page.records)
    published.show(published.beside(ours, "fmfp-tab1", "cifar10", "resnet110"))

Ours is seldom the same experiment: other data, another network, fewer epochs. The table says what
differs, and the two columns are there to compare orders and gaps, not third digits.
"""

import csv
import html
import warnings
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib.resources import files

import numpy as np
import pandas as pd

from calibkit import metrics, terms
from calibkit.companion import notebook, papers, plan

_SCALES = {"percent": 100, "percent_points": 100, "x1000": 1000, "x100": 100, "x10": 10}
# Variants that say that the network was recalibrated, and what we call the metric then.
_AFTER = {"pre_ts": "", "post_ts": "_scaled", "optimal_ts": "_optimal", "post_hb": "_binned"}
_CALIBRATION = ("ece", "adaptive_ece", "classwise_ece")
# The coefficient which a method's variant gives, by our name of it.
_OPTIONS = {
    ("mixup", "alpha"): "alpha",
    ("label_smoothing", "eps"): "epsilon",
    ("l1_norm", "alpha"): "strength",
    ("focal", "gamma"): "gamma",
    ("bsce_gra", "exponent"): "gamma",
}
# Two of three headers of mixup's tables 4 and 5 are the same. Order and values of the columns fit
# the three settings in the authors' public code; nothing confirms it.
_COLUMNS = {"mit_col9": "mit_l", "mit_col10": "mit_a(margin=0)", "mit_col11": "mit_a"}
# Test sets under shift. What we have on an unshifted one is no counterpart; our own corruptions are
# one to published corruptions, though not to images collected a second time.
_CORRUPTED = ("cifar10c",)
_COLLECTED = {"cifar10_1": "cifar10.1", "cifar10_2": "cifar10.2", "imagenet_v2": "imagenet_v2"}
# Epochs and runs behind a published cell; None where the paper does not say.
_TRAINED = {
    "fmfp": ("200 epochs (Tiny-ImageNet: 90)", "3 seeds"),
    "darkside": ("300 epochs (ImageNet: 100)", "3 seeds (ImageNet: 1)"),
    "overconf": (None, "5 seeds"),
    "mixup": (None, None),
    "bsce": ("350 epochs (Tiny-ImageNet: 100)", "3 seeds"),
}


def cells(paper: str | None = None, exhibit: str | None = None) -> pd.DataFrame:
    """Every number which the tables (and some sentences) of the papers print, in natural units.

    Per cents and AURC times 1000 are divided out: an ECE of 4.14 % is 0.0414. A calibration error
    after recalibration is a metric of its own, named as in a run's history: ``ece_scaled`` after a
    temperature from validation data, ``ece_optimal`` from test data, ``ece_binned`` after histogram
    binning. A coefficient becomes part of the method's name, as `plan.method` reads it.

    Parameters
    ----------
    paper : {"fmfp", "darkside", "overconf", "mixup", "bsce"}, optional
    exhibit : str, optional
        An id of `exhibits`, such as "fmfp-tab1".

    Returns
    -------
    pandas.DataFrame
        ``paper, exhibit, dataset, network, method, metric, value, std, digit, variant``: `std`
        between the paper's seeds (nan where none is printed), `digit` a step of the last printed
        digit, `variant` as the paper has it.

    Raises
    ------
    ValueError
        For a paper or exhibit which does not exist.

    Examples
    --------
    >>> table = cells(exhibit="fmfp-tab1")
    >>> first = table[(table.network == "resnet110") & (table.metric == "auroc")].iloc[0]
    >>> first.method, round(float(first.value), 4), round(float(first["std"]), 4)
    ('erm', 0.9076, 0.006)
    """
    table = _cells()
    if paper is not None:
        plan.choose("paper", paper, _TRAINED)
        table = table[table.paper == paper]
    if exhibit is not None:
        plan.choose("exhibit", exhibit, list(exhibits().id))
        table = table[table.exhibit == exhibit]
    return table.reset_index(drop=True)


def ledger() -> list[dict[str, str]]:
    """The lines of ``numbers.csv`` as they are, in the order of `cells`.

    >>> ledger()[0]["metric"], ledger()[0]["value"]
    ('aurc', '9.94')
    """
    text = (files("calibkit") / "companion/ledger" / "numbers.csv").read_text(encoding="utf-8")
    return list(csv.DictReader(text.splitlines()))


@cache
def _cells() -> pd.DataFrame:
    table = pd.DataFrame(ledger())
    scale = table["scale"].map(_SCALES).fillna(1)
    table["digit"] = 10.0 ** -table["value"].str.partition(".")[2].str.len() / scale
    for column in ("value", "std"):
        table[column] = pd.to_numeric(table[column]) / scale  # an empty std becomes nan
    rows = [
        _in_our_words(*row) for row in zip(table.method, table.variant, table.metric, strict=True)
    ]
    table["method"], table["metric"] = zip(*rows, strict=True)
    return table[[c for c in table if c not in ("variant", "scale")] + ["variant"]]


def _in_our_words(method: str, variant: str, metric: str) -> tuple[str, str]:
    """Method and metric in this library's words, from a cell's method, variant and metric."""
    method = _COLUMNS.get(method, method)
    for part in variant.split(";"):
        option, _, value = part.partition("=")
        if (method, option) in _OPTIONS:
            text = f"{method}({_OPTIONS[method, option]}={value})"
            method = plan.method_name(plan.method(text))
        if metric in _CALIBRATION:
            metric += _AFTER.get(part, "")
    return method, metric


def exhibits(paper: str | None = None) -> pd.DataFrame:
    """Every figure, table, algorithm and derivation of the papers, in their order.

    Parameters
    ----------
    paper : str, optional
        Only that paper's.

    Returns
    -------
    pandas.DataFrame
        ``id, paper, kind, title, chapter``; the chapter is the page of this book which has it.

    Examples
    --------
    >>> len(exhibits()), exhibits("bsce").id[0]
    (83, 'bsce-fig1')
    """
    table = pd.read_csv(
        files("calibkit") / "companion/ledger" / "exhibits.csv", keep_default_na=False
    )
    if paper is not None:
        plan.choose("paper", paper, _TRAINED)
        table = table[table.paper == paper]
    return table.reset_index(drop=True)


def by_run(records: Mapping[str, Sequence]) -> pd.DataFrame:
    """One row per run with every metric at its end: what `beside` takes.

    Beyond the last row of the history there are the calibration errors after recalibration:
    ``adaptive_ece_scaled``, ``classwise_ece_scaled`` (with the temperature of ``ece_scaled``: of
    lowest validation ECE, or the one that the protocol fixes) and ``ece_binned`` (histogram
    binning). Each run of ``erm`` has a second row, method ``ts``: the same network with that
    temperature for good.

    Parameters
    ----------
    records : dict of str to sequence of `store.Record`
        By method, such as ``page.records``.

    Returns
    -------
    pandas.DataFrame
        ``method, dataset, network, seed, epochs, train_size`` and the metrics.
    """
    rows = []
    for method, its in records.items():
        for record in its:
            last = {name: values[-1] for name, values in record.history.items()}
            after = _afterwards(record, last["temperature"])
            row = _run(method, record) | {
                **{name: value for name, value in last.items() if name != "epoch"},
                **{f"{name}_scaled": after[name] for name in _CALIBRATION[1:]},
                "ece_binned": after.pop("ece_binned"),
            }
            rows.append(row)
            if method == "erm":
                rows.append(_run("ts", record) | after | _rescaled(record, last["temperature"]))
    table = pd.DataFrame(rows)
    table.attrs["networks"] = notebook.Networks.of(records)
    return table


def under_shift(records: Mapping[str, Sequence]) -> pd.DataFrame:
    """A row for each run and shifted test set, with every metric.

    What `beside` puts next to published corruptions and to sets that were collected a second time.
    Of corruptions it is the mean over kinds and severities: of CIFAR-10-C where the record has it,
    else of our own, which have other pixels. As in `by_run`, ``ts`` is ``erm`` with the
    temperature of the unshifted test set, here with ``ece, brier, nll, auroc`` only.

    Parameters
    ----------
    records : dict of str to sequence of `store.Record`
        By method, such as ``page.records``. One without shifted test sets makes no row.

    Returns
    -------
    pandas.DataFrame
        ``method, dataset, network, seed, epochs, train_size``, ``tested_on`` (as in `cells`; empty
        for our own corruptions), ``shifts`` (in words) and the metrics.
    """
    rows = []
    for method, its in records.items():
        for record in its:
            for tested_on, words, table in _shifts(record):
                where = {"tested_on": tested_on, "shifts": words}
                row = {k: v.mean() for k, v in table.items() if k not in _OF_SHIFTS}
                rows.append(_run(method, record) | where | row)
                if method == "erm":
                    scaled = {k.removesuffix("_scaled"): row[k] for k in row if "_scaled" in k}
                    rows.append(_run("ts", record) | where | scaled)
    return pd.DataFrame(rows)


_OF_SHIFTS = ("shift", "severity", "n")  # columns that are no metrics


def _shifts(record) -> Iterator[tuple[str, str, dict[str, np.ndarray]]]:
    """Of each kind of shifted test set: its name, what it is in words, and its rows."""
    table = record.shifted
    if table:
        published = [shift.partition(":") for shift in table["shift"]]
        name = published[0][0] if published[0][1] else ""
        kinds, severities = len(set(table["shift"])), len(set(table["severity"]))
        many = f"{kinds} own kinds" if kinds > 1 else "an own kind"
        many = f"{terms.DATASETS[name]}, {kinds} kinds" if name else many
        samples = f"{table['n'][0]:,.0f} samples"
        yield name, f"{many} of shift, {severities} severities, {samples}", table
    collected = record.collected
    for i, shift in enumerate(collected.get("shift", ())):
        name = _COLLECTED[shift]
        row = {column: values[i : i + 1] for column, values in collected.items()}
        yield name, f"{terms.DATASETS[name]}, {row['n'][0]:,.0f} samples", row


def _run(method: str, record) -> dict:
    """What tells a run from others."""
    run = record.info["run"]
    return {
        "method": method,
        **{key: run[key] for key in ("dataset", "network", "seed")},
        "epochs": run["protocol"]["epochs"],
        "train_size": run["protocol"].get("train_size"),
    }


def _rescaled(record, temperature: float) -> dict[str, float]:
    """What replicates lack of a network after a temperature; empty without its predictions."""
    if record.light:
        return {}
    from calibkit import stats  # here, because it takes half a second to import

    labels = record.arrays["test_labels"].astype(np.int64)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", metrics.UndefinedMetricWarning)
        found = metrics.summary(record.arrays["test_logits"] / temperature, labels)
    return {name: found[name] for name in stats.UNCHANGED}


def _afterwards(record, temperature: float) -> dict[str, float]:
    """Metrics of the test set under a temperature, and the ECE after histogram binning."""
    fixed = record.info["run"]["protocol"].get("temperature")
    if "replicates.npz" in record.info["sha256"] and (fixed is None or record.light):
        replicates = record.replicates  # measured already
        if fixed is not None:  # but with another temperature
            scaled = {"ece": record.history["ece_scaled"][-1]}
            return (
                scaled
                | {n: np.nan for n in _CALIBRATION[1:]}
                | {"ece_binned": replicates.estimate("ece_binned")}
            )
        scaled = {
            n.removesuffix("_ts_ece"): replicates.estimate(n)
            for n in replicates.names
            if "_ts_ece" in n
        }
        return scaled | {"ece_binned": replicates.estimate("ece_binned")}
    arrays = record.arrays
    labels = arrays["test_labels"].astype(np.int64)
    from calibkit import posthoc  # here, because it takes half a second to import

    with warnings.catch_warnings():  # AUROC of a network without errors, a bin without samples
        warnings.simplefilter("ignore", metrics.UndefinedMetricWarning)
        warnings.simplefilter("ignore", posthoc.PosthocWarning)
        binning = posthoc.HistogramBinning()
        binning.fit(arrays["validation_logits"], arrays["validation_labels"].astype(np.int64))
        binned = binning.predict_proba(arrays["test_logits"])
        scaled = metrics.summary(arrays["test_logits"] / temperature, labels)
    return scaled | {"ece_binned": metrics.ece(binned, labels)}


def beside(
    ours: pd.DataFrame,
    exhibit: str,
    dataset: str = "",
    network: str = "",
    metrics: Sequence[str] = (),
) -> pd.DataFrame:
    """Our mean beside each published cell of an exhibit.

    Parameters
    ----------
    ours : pandas.DataFrame
        A row per run, see `by_run`, or `under_shift` for published corruptions.
    exhibit : str
        An id of `exhibits`.
    dataset, network : str
        Which part of the published table, such as "cifar10", "resnet110"; empty for all of it.
    metrics : sequence of str
        Only these; empty for all which the exhibit has.

    Returns
    -------
    pandas.DataFrame
        A row per published cell: ``dataset, network, method, metric, published, published_std``,
        and ``ours, ours_std, low, high, seeds``: mean and standard deviation over seeds, the 95 %
        interval of the mean (`notebook.mean`), and the number of seeds. nan where we have no such
        run or metric, and beside test sets of another kind: unshifted, corrupted, or collected a
        second time.
        ``attrs["differs"]`` is a sentence on what is not the same experiment.

    Raises
    ------
    ValueError
        For an exhibit without printed cells, or a data set or network which it does not have.

    Examples
    --------
    >>> ours = pd.DataFrame({"method": ["erm", "erm"], "auroc": [0.81, 0.83], "seed": [0, 1]})
    >>> row = beside(ours, "fmfp-tab1", "cifar10", "resnet110", ["auroc"]).iloc[0]
    >>> round(float(row.published), 4), round(float(row.ours), 3), int(row.seeds)
    (0.9076, 0.82, 2)
    """
    table = cells(exhibit=exhibit)
    if table.empty:
        raise ValueError(f"exhibit: got {exhibit!r}, which has no printed numbers")
    for column, choice in (("dataset", dataset), ("network", network)):
        if choice:
            plan.choose(f"{column} of {exhibit}", choice, set(table[column]))
            table = table[table[column] == choice]
    if metrics:
        table = table[table.metric.isin(metrics)]
    key = ["dataset", "network", "method", "metric"]
    table = table.drop_duplicates(key).rename(
        columns={"value": "published", "std": "published_std"}
    )
    table = table[[*key, "published", "published_std"]].reset_index(drop=True)
    alike = cache(lambda dataset: _alike(dataset, ours))
    by_seed = cache(lambda dataset, method: _by_seed(alike(dataset), method))
    measured = pd.DataFrame(
        [
            _seeds(by_seed(row.dataset, method), method, row.metric)
            for row in table.itertuples()
            for method in [_method(row, exhibit, ours)]
        ],
        columns=["ours", "ours_std", "low", "high", "seeds"],
    )
    result = pd.concat([table, measured], axis=1)
    result.attrs["differs"] = _differs(ours, exhibit, table)
    return result


def _alike(dataset: str, ours: pd.DataFrame) -> pd.DataFrame:
    """The rows that were measured on a test set of the same kind as a published one."""
    under_shift = "shifts" in ours
    tested_on = ours.get("tested_on", pd.Series("", ours.index))
    if dataset in _COLLECTED.values():
        return ours[tested_on == dataset] if under_shift else ours[:0]
    if (dataset in _CORRUPTED) != under_shift:
        return ours[:0]
    own = (tested_on == dataset) if (tested_on == dataset).any() else (tested_on == "")
    return ours[own] if under_shift else ours


def _method(row, exhibit: str, ours: pd.DataFrame) -> str:
    """What a cell's method is called in `ours`: with its coefficient where the table has none."""
    if "method" not in ours or (ours.method == row.method).any():
        return row.method
    runs = papers.find(exhibit.partition("-")[0], exhibit, row.dataset, row.network, row.method)
    return runs[0].method if runs and row.method not in papers.OF_ERM else row.method


def _by_seed(ours: pd.DataFrame, method: str) -> pd.DataFrame:
    """The rows of a method, indexed by method and seed."""
    if not len(ours):
        return ours
    own = ours[ours.method == method]
    seeds = own["seed"] if "seed" in own else pd.RangeIndex(len(own))
    return own.set_index(["method", pd.Index(seeds, name="seed")])


def _seeds(own: pd.DataFrame, method: str, metric: str) -> tuple[float, float, float, float, int]:
    values = own[metric].dropna() if metric in own else ()
    if not len(values):
        return np.nan, np.nan, np.nan, np.nan, 0
    mean, low, high = notebook.mean(values, method)
    return mean, values.std() if len(values) > 1 else np.nan, low, high, len(values)


def _differs(ours: pd.DataFrame, exhibit: str, table: pd.DataFrame) -> str:
    paper = exhibit.partition("-")[0]
    epochs, seeds = _TRAINED[paper]
    printed = [
        " and ".join(_each(table, "dataset")),
        ", ".join(_each(table, "network")),
        epochs or "epochs not stated",
        seeds or "number of seeds not stated",
    ]
    own = [" and ".join(_each(ours, column)) for column in ("dataset", "network")]
    own += [f"{' or '.join(_each(ours, 'epochs'))} epochs"] if "epochs" in ours else []
    if sizes := _each(ours, "train_size"):
        own.append(f"{' or '.join(sizes)} training samples")
    if "seed" in ours:
        many = ours.seed.nunique()
        own.append(f"{many} seed{'s' * (many != 1)}")
    if "shifts" in ours:
        own += ours["shifts"].unique().tolist()
    return f"Published: {'; '.join(printed)}. Ours: {'; '.join(filter(None, own)) or 'no runs'}."


def _each(ours: pd.DataFrame, column: str) -> list[str]:
    values = ours[column].dropna().unique() if column in ours else ()
    return [terms.DATASETS.get(v, v) if isinstance(v, str) else f"{v:,.0f}" for v in values]


def show(table: pd.DataFrame, digits: int = 2):
    """Style the result of `beside`: metrics across, and two lines per method, published and ours.

    Parameters
    ----------
    table : pandas.DataFrame
        From `beside`.
    digits : int
        Decimals, in the units in which the papers print (per cent, times 1000).

    Returns
    -------
    pandas.io.formats.style.Styler
        ``mean ± standard deviation over seeds`` on both sides, what differs in the caption.
    """

    def cell(value: float, std: float, scale: int) -> str:
        if not np.isfinite(value):
            return "–"
        places = digits if scale > 1 else digits + 1
        spread = f" ± {scale * std:.{places}f}" if np.isfinite(std) else ""
        return f"{scale * value:.{places}f}{spread}"

    lines: dict[tuple[str, str], dict[str, str]] = {}
    for row in table.itertuples():
        where = [terms.DATASETS.get(row.dataset, row.dataset)] * (table.dataset.nunique() > 1)
        where += [row.network] * (table.network.nunique() > 1)
        method = terms.label(row.method)
        name = " · ".join((*where, method))
        label, scale, higher = terms.METRICS.get(row.metric, (row.metric, 1, None))
        label += {True: " ↑", False: " ↓", None: ""}[higher]
        theirs = lines.setdefault((name, "published"), {})
        theirs[label] = cell(row.published, row.published_std, scale)
        mine = lines.setdefault((name, "ours"), {})
        mine[label] = cell(row.ours, row.ours_std, scale)
    frame = pd.DataFrame.from_dict(lines, orient="index").fillna("–")
    frame.index = pd.MultiIndex.from_tuples(lines) if lines else frame.index
    note = table.attrs.get("differs", "") + " Mean ± standard deviation over seeds."
    # A wide table scrolls sideways on a phone; its caption stays and wraps.
    sticky = "position: sticky; left: 0; display: inline-block; max-width: min(80vw, 42rem)"
    return (
        notebook.tabulate(frame)
        .set_properties(**{"white-space": "nowrap"})
        .set_table_styles(
            [{"selector": "caption", "props": "text-align: left; white-space: normal"}]
        )
        .set_caption(f'<span style="{sticky}">{html.escape(note)}</span>')
    )
