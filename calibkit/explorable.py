"""Figures to explore in the page itself: offline, without a kernel, by mouse, touch or keys.

Each figure is two functions: ``x`` computes its numbers, and ``show_x`` returns the figure. The
numbers may be those of one model, or ``{method: numbers}`` to choose among several. A figure
contains its numbers and a script, ``explorable.js``. If scripts are off, as in a notebook that
JupyterLab does not trust, a still picture is shown.

>>> import numpy as np
>>> logits = np.random.default_rng(0).normal(size=(200, 3))
>>> figure = show_reliability(reliability(logits, logits.argmax(1)))
>>> "<img" in figure.html and "<script" in figure._repr_html_()
True
"""

import base64
import html
import io
import json
import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

from calibkit import metrics, plots, terms
from calibkit.arrays import (
    Array,
    ArrayLike,
    as_confidence_correct,
    as_labels,
    as_logits,
    plain,
    to_numpy,
)

MOST = 10_000  # samples that a reliability diagram carries: 133 KB of ten classes, 147 of more
COLUMNS = 9  # margins to the top class that a sample keeps
STEPS = 1000  # of the threshold, from 0 to 1
TARGETS = np.r_[0:51, 52.5:100:2.5, 100:200:5, 200:610:10] / 1000  # error rates
_SCRIPT = Path(__file__).with_suffix(".js")
_TAG = "data-calibkit-explorable"
_ONE = "the model"  # what is called so has no other to be told from


class Explorable:
    """A figure that a notebook shows; made by ``show_*``.

    Parameters
    ----------
    kind : str
        Which of the script's figures to draw: "reliability", "histograms", "overfitting",
        "gradients" or "risk_coverage".
    data : dict
        Its numbers, as the script reads them.
    still : str
        Address (``data:…``) of the picture shown where scripts are off.
    label : str
        What it is, in words.

    Attributes
    ----------
    html : str
        The element with its numbers and its still picture, for a page that has `script`.
    label : str
        What it is, in words.

    Examples
    --------
    >>> numbers = reliability([[2.0, 0.0], [0.0, 1.0]], [0, 0])
    >>> figure = show_reliability(numbers, still="data:,")  # with a picture of one's own
    >>> figure.label
    'Reliability diagram: choose the temperature and the bins'
    >>> page = f"<!doctype html>{figure.html}<script>{script()}</script>"  # needs nothing else
    """

    def __init__(self, kind: str, data: dict[str, Any], still: str, label: str) -> None:
        self.label = label
        numbers = html.escape(json.dumps(plain(data), separators=(",", ":")), quote=False)
        self.html: str = (
            f'<calibkit-explorable kind="{kind}" label="{html.escape(label)}" '
            f"numbers='{numbers.replace(chr(39), '&#39;')}'>"
            f'<img src="{still}" alt="{html.escape(label)} (not interactive here)">'
            "</calibkit-explorable>"
        )

    def __repr__(self) -> str:
        return f"<explorable figure: {self.label}>"

    def _repr_html_(self) -> str:
        return f"{self.html}<script {_TAG}>{script()}</script>"


@cache
def script() -> str:
    """Return the script; without it, an `Explorable` is just its still picture.

    Returns
    -------
    str
        JavaScript without imports, for one ``<script>`` that serves all figures of a page.

    Examples
    --------
    >>> "customElements.define" in script()
    True
    """
    text = _SCRIPT.read_text(encoding="utf-8")
    return re.sub(r"@(\w+);", lambda of: terms.COLORS[of[1]] + ";", text)


# ------------------------------------------------------------------------------- packed logits


def pack(logits: ArrayLike, labels: ArrayLike, most: int = MOST) -> dict[str, Any]:
    """Pack logits into about one byte per class, for the figures' temperatures, NLL and gradients.

    A softmax depends only on the margins between the highest logit and the others. A sample keeps
    its smallest margin in 14 bits and the other margins in 8. The scale is fine near 0 and coarse
    where probabilities are nearly 0. The true class comes first or second. The smallest margin is
    chosen so that the confidence at temperature 1 is exact in spite of the rounding of the others.
    With more than ten classes, the remaining ones are replaced by a number of equal classes, which
    one more byte counts. Together they have the same probability at temperature 1, and nearly the
    same at temperature 2.

    Parameters
    ----------
    logits : array (n, k)
        Scores before the softmax.
    labels : array (n,)
        True classes.
    most : int
        Largest number of samples to keep, drawn at random if there are more; `MOST` is 10,000.

    Returns
    -------
    dict
        ``bytes`` (n, columns + 1 or + 2) of uint8; ``n``, ``total`` (samples given), ``columns``
        (margins), ``counted`` (whether a byte says how many classes have the last margin), ``top``
        (largest margin), ``bend`` (of the scale).

    Examples
    --------
    >>> packed = pack([[2.0, 0.0, 1.0], [0.0, 3.0, 1.0]], [0, 2])
    >>> restored, truth = unpack(packed)
    >>> restored.round(1).tolist(), truth.tolist()
    ([[0.0, -1.0, -2.0], [0.0, -2.0, -3.0]], [0, 1])
    """
    scores = as_logits(logits).astype(np.float64)
    total, k = scores.shape
    labels = as_labels(labels, k, total)
    if total > most:
        part = np.sort(np.random.default_rng(0).permutation(total)[:most])
        scores, labels = scores[part], labels[part]
    n, row = len(scores), np.arange(len(scores))
    predicted = scores.argmax(axis=1)
    margins = scores[row, predicted][:, None] - scores
    wrong = predicted != labels
    # Order of the classes: the predicted one, its nearest rival, the true one, the others.
    rank = margins.copy()
    rank[row, predicted] = -3
    rival = np.where(np.arange(k) == predicted[:, None], np.inf, margins).argmin(axis=1)
    rank[row[wrong], labels[wrong]] = -1
    rank[row, rival] = -2
    margins = np.take_along_axis(margins, rank.argsort(axis=1, kind="stable"), axis=1)[:, 1:]
    truth = np.where(wrong, np.where(rival == labels, 1, 2), 0)
    columns, copies = min(k - 1, COLUMNS), np.zeros((n, 0), np.uint8)
    if k - 1 > COLUMNS:
        rest = margins[:, columns - 1 :]
        least = rest.min(axis=1)
        whole, root = (np.exp((least[:, None] - rest) / t).sum(axis=1) for t in (1, 2))
        # So many classes, all the same, have these sums at the temperatures 1 and 2.
        copies = np.ceil(root**2 / whole - 1e-9).clip(1, 255).astype(np.uint8)
        margins = np.c_[margins[:, : columns - 1], least - np.log(whole / copies)]
    top, bend = max(min(float(margins.max()), 100.0), 1e-6), 5.0
    code = np.log1p(margins.clip(0, top) / top * np.expm1(bend)) / bend
    if columns > 1:  # the fine margin makes up for what rounding adds to the others
        rounded = _margins(np.round(code[:, 1:] * 255) / 255, top, bend)
        others = np.exp(-margins[:, 1:]) - np.exp(-rounded)
        others[:, -1] *= copies if copies.size else 1
        rival = np.exp(-margins[:, 0]) + others.sum(axis=1)
        exact = -np.log(rival, out=margins[:, 0].copy(), where=rival > 0)
        code[:, 0] = np.log1p(exact.clip(0, top) / top * np.expm1(bend)) / bend
    fine = np.round(code[:, 0] * 16383).astype(np.uint16) << 2 | truth.astype(np.uint16)
    coarse = np.round(code[:, 1:] * 255).astype(np.uint8)
    packed = np.c_[(fine & 255).astype(np.uint8), (fine >> 8).astype(np.uint8), coarse, copies]
    shape = {"n": n, "total": total, "columns": columns, "counted": k - 1 > COLUMNS}
    return {"bytes": packed, **shape, "top": top, "bend": bend}


def _margins(code: Array, top: float, bend: float) -> Array:
    """Margins from their places in [0, 1] on the scale of `pack`."""
    return top * np.expm1(bend * code) / np.expm1(bend)


def unpack(packed: dict[str, Any]) -> tuple[Array, Array]:
    """Return the logits and labels (n,) that `pack` keeps; the top class is always class 0.

    Parameters
    ----------
    packed : dict
        What `pack` or `reliability` returned.

    Returns
    -------
    logits : array (n, k)
        Margins to the top class, which is the first: 0, then negative numbers.
    labels : array (n,)
        True classes in that order.

    Examples
    --------
    >>> unpack(pack([[0.5, 1.5]], [1]))[0].round(2).tolist()
    [[0.0, -1.0]]
    """
    raw, columns = packed["bytes"].astype(np.int64), packed["columns"]
    word = raw[:, 0] + 256 * raw[:, 1]
    code = np.c_[(word >> 2) / 16383, raw[:, 2 : columns + 1] / 255]
    margins = _margins(code, packed["top"], packed["bend"])
    if packed["counted"]:
        copies = raw[:, -1:]
        rest = np.arange(1, copies.max()) < copies  # beside the last margin itself
        margins = np.c_[margins, np.where(rest, margins[:, -1:], 1000.0)]
    return np.c_[np.zeros(len(raw)), -margins], word & 3


# ------------------------------------------------------------------------------- 1. reliability


def reliability(
    logits: ArrayLike, labels: ArrayLike, temperature: float | None = None, most: int = MOST
) -> dict[str, Any]:
    """Numbers of `show_reliability` for one model: its logits, packed by `pack`.

    Parameters
    ----------
    logits : array (n, k)
        Scores on a test set.
    labels : array (n,)
        True classes.
    temperature : float, optional
        The temperature fitted on other samples; the figure then has a button for it.
    most : int
        Largest number of samples to keep, drawn at random if there are more; `MOST` is 10,000.

    Returns
    -------
    dict
        The keys of `pack`, and ``temperature``.

    Examples
    --------
    >>> reliability([[2.0, 0.0], [0.0, 1.0]], [0, 0], temperature=1.234)["temperature"]
    1.23
    """
    fitted = None if temperature is None else round(float(temperature), 2)
    return pack(logits, labels, most) | {"temperature": fitted}


def show_reliability(table: dict[str, Any], bins: int = 15, still: str | None = None) -> Explorable:
    """A reliability diagram with sliders for temperature and bins.

    It shows the ECE, the part of the ECE that chance explains (`metrics.ece_floor`), NLL, accuracy
    and AUROC, with their curves over the temperature.

    Parameters
    ----------
    table : dict
        Numbers of `reliability`, or ``{method: numbers}``.
    bins : int
        Where the slider for bins starts, from 2 to 50.
    still : str, optional
        Address (``data:…``) of another still picture.

    Returns
    -------
    Explorable
        The figure, which a notebook shows as the last value of a cell.

    Raises
    ------
    ValueError
        If the table is empty.

    Examples
    --------
    >>> numbers = reliability([[2.0, 0.0], [0.0, 1.0]], [0, 0], temperature=1.5)
    >>> show_reliability(numbers, bins=10)
    <explorable figure: Reliability diagram: choose the temperature and the bins>
    """
    models = _models(table)

    def draw() -> Figure:
        panels = {}
        for name, numbers in list(models.items())[:2]:
            samples = metrics.per_sample(*unpack(numbers))
            panels[_title(name)] = plots.prepare_reliability(
                samples["confidence"], samples["correct"], bins
            )
        return plots.panels(panels, plots.plot_reliability, size=(3.6, 3.4))

    data = {
        "bins": bins,
        "models": [
            _label_and_color(name)
            | {"temperature": numbers["temperature"], "total": numbers["total"]}
            | {"n": numbers["n"], "packed": _packed(numbers)}
            for name, numbers in models.items()
        ],
    }
    label = "Reliability diagram: choose the temperature and the bins"
    return Explorable("reliability", data, still or _png(draw), label)


# ------------------------------------------------------------------------------- 2. histograms


def histograms(
    confidence: ArrayLike, correct: ArrayLike, bins: int = 25, marks: Sequence[float] = ()
) -> dict[str, Any]:
    """Confidence histograms of right and of wrong answers, and what each threshold accepts.

    Parameters
    ----------
    confidence : array (n,)
        Probability of the predicted class.
    correct : array (n,)
        Whether that class is the true one.
    bins : int
        Bins (lo, hi] of equal width.
    marks : sequence of float
        Further thresholds in [0, 1] at which the slider stops.

    Returns
    -------
    dict
        ``edges`` (bins + 1,); ``right``, ``wrong`` (bins,), counts; ``marks``, those that are not
        a step of the slider; ``accepted_right``, ``accepted_wrong`` (1001 + len(marks),),
        numbers of answers with a confidence of at least 0, 0.001, ..., 1 or a mark, in ascending
        order; ``auroc``; ``still``, for `plots.plot_confidence_histogram`.

    Examples
    --------
    >>> numbers = histograms([0.9, 0.8, 0.3], [True, True, False], bins=2)
    >>> numbers["right"].tolist(), numbers["accepted_wrong"][[300, 301]].tolist()
    ([0, 2], [1, 0])
    """
    c, z = as_confidence_correct(confidence, correct, unit=True)
    both = 0 < z.sum() < len(z)  # right and wrong answers
    table = metrics.reliability_bins(c, z, bins)
    right = np.round(np.nan_to_num(table["accuracy"]) * table["count"]).astype(int)
    marks = np.setdiff1d(marks, np.arange(STEPS + 1) / STEPS)
    thresholds = np.union1d(np.arange(STEPS + 1) / STEPS, marks)

    def accepted(values: Array) -> Array:
        return len(values) - np.searchsorted(np.sort(values.astype(np.float64)), thresholds)

    return {
        "edges": table["edges"],
        "right": right,
        "wrong": table["count"] - right,
        "accepted_right": accepted(c[z]),
        "accepted_wrong": accepted(c[~z]),
        "marks": marks,
        "auroc": metrics.auroc(c, z) if both else np.nan,
        "still": plots.prepare_confidence_histogram(c, z, bins) if both else None,
    }


def show_histograms(
    table: dict[str, Any], threshold: float = 0.9, still: str | None = None
) -> Explorable:
    """Histograms of right and of wrong answers with a threshold to drag.

    It shows the share accepted, the error rate of the accepted with a 95 % interval, the numbers of
    errors accepted and refused, and of right answers refused.

    Parameters
    ----------
    table : dict
        Numbers of `histograms`, or ``{method: numbers}``, with the same bins.
    threshold : float
        Where the slider starts, in [0, 1]; rounded to the nearest of its stops.
    still : str, optional
        Address (``data:…``) of another still picture.

    Returns
    -------
    Explorable
        The figure, which a notebook shows as the last value of a cell.

    Raises
    ------
    ValueError
        If the table is empty, or the bins or marks of the models differ.

    Examples
    --------
    >>> numbers = histograms([0.9, 0.8, 0.7, 0.3], [True, True, False, False])
    >>> show_histograms(numbers, threshold=0.75)
    <explorable figure: Confidence of right and of wrong answers with a threshold to drag>
    """
    models = _models(table)
    _same(models, "edges")
    _same(models, "marks")

    def draw() -> Figure:
        first = list(models.items())[:2]
        panels = {_title(name): numbers["still"] for name, numbers in first}
        return plots.panels(panels, plots.plot_confidence_histogram, size=(3.6, 3.0), root=True)

    data = {
        "edges": next(iter(models.values()))["edges"],
        "steps": STEPS,
        "threshold": threshold,
        "marks": next(iter(models.values()))["marks"],
        "models": [
            _label_and_color(name)
            | {k: v for k, v in numbers.items() if k not in ("edges", "marks", "still")}
            for name, numbers in models.items()
        ],
    }
    label = "Confidence of right and of wrong answers with a threshold to drag"
    return Explorable("histograms", data, still or _png(draw), label)


# ------------------------------------------------------------------------------- 3. overfitting


def overfitting(
    histories: Mapping[str, Any] | Sequence[Mapping[str, Any]],
    snapshots: Mapping[int, tuple[ArrayLike, ArrayLike]],
    names: Sequence[str] = ("auroc", "accuracy", "ece", "nll"),
    bins: int = 25,
) -> dict[str, Any]:
    """Curves over the epochs, and histograms at the epochs whose predictions were stored.

    Parameters
    ----------
    histories : mapping of columns, or list of them, one per seed
        With ``epoch`` and the metrics `names`, such as ``record.history``; seeds are averaged.
    snapshots : dict
        ``{epoch: (confidence (n,), correct (n,))}`` of one seed.
    names : sequence of str
        Metrics with a direction in `terms.METRICS`.
    bins : int
        Bins of the histograms.

    Returns
    -------
    dict
        ``epochs`` (e,); ``curves`` and ``best``, by metric: means (e,) and the place of the best
        epoch; ``snapshots``: list of ``epoch``, ``right``, ``wrong`` (bins,), ``auroc``; ``edges``;
        ``still``, for `plots.plot_overfitting_grid`.

    Examples
    --------
    >>> history = {"epoch": [1, 2, 3], "auroc": [0.7, 0.9, 0.8]}
    >>> stored = {3: ([0.9, 0.8, 0.3], [True, True, False])}
    >>> numbers = overfitting(history, stored, names=["auroc"])
    >>> numbers["best"]["auroc"], numbers["snapshots"][0]["auroc"]
    (1, 1.0)
    """
    curves = {name: plots.prepare_overfitting(histories, name) for name in names}
    first = next(iter(curves.values()))
    epochs = first.epoch.tolist()
    rows = []
    for epoch, predictions in sorted(snapshots.items()):
        numbers = histograms(*predictions, bins)
        rows.append({"epoch": int(epoch)} | {k: numbers[k] for k in ("right", "wrong", "auroc")})
    return {
        "epochs": epochs,
        "curves": {name: numbers.mean for name, numbers in curves.items()},
        "best": {name: epochs.index(numbers.best_epoch) for name, numbers in curves.items()},
        "snapshots": rows,
        "edges": np.linspace(0, 1, bins + 1),
        "still": first,
    }


def show_overfitting(table: dict[str, Any]) -> Explorable:
    """Metrics over epochs, with a slider that shows the confidence histogram of each epoch.

    Parameters
    ----------
    table : dict
        Numbers of `overfitting`, or ``{method: numbers}`` with the same epochs and metrics.

    Returns
    -------
    Explorable
        The figure, which a notebook shows as the last value of a cell.

    Raises
    ------
    ValueError
        If the table is empty, or the epochs or bins of the models differ.

    Examples
    --------
    >>> history = {"epoch": [1, 2, 3], "auroc": [0.7, 0.9, 0.8]}
    >>> stored = {3: ([0.9, 0.8, 0.3], [True, True, False])}
    >>> show_overfitting(overfitting(history, stored, names=["auroc"]))
    <explorable figure: Metrics over the epochs of training, and the confidence histogram at each>
    """
    models = _models(table)
    _same(models, "epochs")
    _same(models, "edges")
    first = next(iter(models.values()))

    def draw() -> Figure:
        curves = {name: numbers["still"] for name, numbers in models.items()}
        return plots.plot_overfitting_grid(
            {_title(name): {curve.metric: curve} for name, curve in curves.items()}
        )

    data = {
        "epochs": first["epochs"],
        "edges": first["edges"],
        "metrics": [
            {"key": key, "label": terms.METRICS[key][0], "scale": terms.METRICS[key][1]}
            for key in first["curves"]
        ],
        "models": [
            _label_and_color(name)
            | {"curves": {k: _digits(v, 7) for k, v in numbers["curves"].items()}}
            | {key: numbers[key] for key in ("best", "snapshots")}
            for name, numbers in models.items()
        ],
    }
    label = "Metrics over the epochs of training, and the confidence histogram at each"
    return Explorable("overfitting", data, _png(draw), label)


# ------------------------------------------------------------------------------- 4. gradients

GAMMA, BETA = 4.0, 2.0  # where their sliders start
LOSSES = {  # with their options, among γ and β
    loss: terms.METHODS["erm" if loss == "cross_entropy" else loss].options
    for loss in (
        "cross_entropy focal inverse_focal dual_focal focal_gra dual_focal_gra bsce bsce_gra brier"
    ).split()
}


def gradients(
    logits: ArrayLike,
    labels: ArrayLike,
    feature_norm: ArrayLike,
    epochs: Sequence[int] = (0,),
    most: int = 2000,
) -> dict[str, Any]:
    """Numbers of `show_gradients`: enough to compute last-layer gradient norms of any loss.

    The norm of a sample's gradient in the last layer's weights and bias is
    ``‖∂L/∂z‖ · √(‖h‖² + 1)``. It depends on the logits z, the label and the norm of the features h.

    Parameters
    ----------
    logits : array (epochs, n, k)
        Logits of the same n training samples at several epochs.
    labels : array (n,)
        True classes.
    feature_norm : array (epochs, n)
        Norms of the inputs of the last layer.
    epochs : sequence of int
        Numbers of these epochs.
    most : int
        Largest number of samples to keep, the same at each epoch.

    Returns
    -------
    dict
        ``moments``: list of ``epoch``, ``packed`` (see `pack`), ``features`` (n,).

    Raises
    ------
    ValueError
        If the shapes do not match.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> logits, labels = rng.normal(size=(2, 50, 3)), rng.integers(3, size=50)
    >>> numbers = gradients(logits, labels, np.ones((2, 50)), epochs=[1, 20])
    >>> [moment["epoch"] for moment in numbers["moments"]]
    [1, 20]
    """
    logits, norms = (to_numpy(x).astype(np.float64) for x in (logits, feature_norm))
    if logits.ndim != 3 or norms.shape != logits.shape[:2] or len(epochs) != len(logits):
        raise ValueError(
            f"feature_norm: got shape {norms.shape} with logits {logits.shape} and {len(epochs)} "
            "epochs, expected (epochs, n) with (epochs, n, k)"
        )
    labels, n = as_labels(labels, logits.shape[2], logits.shape[1]), logits.shape[1]
    part = np.sort(np.random.default_rng(0).permutation(n)[:most])
    return {
        "moments": [
            {"epoch": int(epoch), "packed": pack(z[part], labels[part]), "features": h[part]}
            for epoch, z, h in zip(epochs, logits, norms, strict=True)
        ]
    }


def show_gradients(numbers: dict[str, Any], loss: str = "bsce_gra") -> Explorable:
    """Gradient norms of samples against their Brier scores, for a loss, γ and β to choose.

    The samples and logits are those of one network. The gradient is that of the chosen loss at
    these logits, also if the network was trained with another loss.

    Parameters
    ----------
    numbers : dict
        From `gradients`.
    loss : str
        The loss that is shown first: ``cross_entropy``, ``focal``, ``inverse_focal``,
        ``dual_focal``, ``focal_gra``, ``dual_focal_gra``, ``bsce``, ``bsce_gra`` or ``brier``.

    Returns
    -------
    Explorable
        The figure, which a notebook shows as the last value of a cell.

    Raises
    ------
    ValueError
        If the loss is none of these.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> logits, labels = rng.normal(size=(2, 50, 3)), rng.integers(3, size=50)
    >>> numbers = gradients(logits, labels, np.ones((2, 50)), epochs=[1, 20])
    >>> show_gradients(numbers, loss="focal")
    <explorable figure: Gradient norm against Brier score of training samples, for a loss to choose>
    """
    if loss not in LOSSES:
        raise ValueError(f"loss: got {loss!r}, expected one of {', '.join(LOSSES)}")

    def draw() -> Figure:
        moment = numbers["moments"][-1]
        brier_and_norm = gradient_norms(moment, loss, GAMMA, BETA)
        exponent = (GAMMA + 1) / 2 if loss == "bsce_gra" else None
        fig, ax = plt.subplots(figsize=(5.2, 3.8))
        plots.plot_gradient_norms(plots.prepare_gradient_norms(*brier_and_norm, exponent), ax)
        return fig

    def stored(moment: dict[str, Any]) -> dict[str, Any]:
        top = float(moment["features"].max()) or 1.0
        codes = np.round(moment["features"] / top * 65535).astype("<u2")
        return {
            "epoch": moment["epoch"],
            "packed": _packed(moment["packed"]),
            "features": {"top": top, "base64": _base64(codes)},
        }

    data = {
        "loss": loss,
        "gamma": GAMMA,
        "beta": BETA,
        "losses": [
            _label_and_color("erm" if key == "cross_entropy" else key)
            | {"key": key, "gamma": "gamma" in options, "beta": "beta" in options}
            | ({"label": "Cross-entropy"} if key == "cross_entropy" else {})
            for key, options in LOSSES.items()
        ],
        "moments": [stored(moment) for moment in numbers["moments"]],
    }
    label = "Gradient norm against Brier score of training samples, for a loss to choose"
    return Explorable("gradients", data, _png(draw), label)


def gradient_norms(
    moment: dict[str, Any], loss: str, gamma: float, beta: float
) -> tuple[Array, Array]:
    """Return Brier score and gradient norm of the samples at one epoch, by `calibkit.losses`.

    Parameters
    ----------
    moment : dict
        One of ``gradients(...)["moments"]``.
    loss : str
        As in `show_gradients`.
    gamma : float
        Exponent γ of the loss; ignored if it has none.
    beta : float
        The β of the norm ‖p − y‖_β in the loss; ignored if it has none.

    Returns
    -------
    brier : array (n,)
        Brier score of each sample, from 0 to 2.
    norm : array (n,)
        Norm of the gradient in the weights and bias of the last layer.

    Examples
    --------
    >>> numbers = gradients(np.zeros((1, 2, 4)), [0, 1], np.zeros((1, 2)))
    >>> [x.round(3).tolist() for x in gradient_norms(numbers["moments"][0], "brier", 0, 0)]
    [[0.75, 0.75], [0.433, 0.433]]
    """
    import torch

    from calibkit import losses

    options = {k: v for k, v in (("gamma", gamma), ("beta", beta)) if k in LOSSES[loss]}
    function = getattr(losses, loss)
    logits, labels = map(torch.from_numpy, unpack(moment["packed"]))
    features = torch.from_numpy(moment["features"])[:, None]  # a vector of that norm
    norm = losses.last_layer_gradient_norm(function(**options), logits, labels, features)
    return losses.brier(logits, labels).numpy(), norm.numpy()


# ------------------------------------------------------------------------------- 5. risk, coverage


def risk_coverage(
    confidence: ArrayLike,
    correct: ArrayLike,
    validation: tuple[ArrayLike, ArrayLike] | None = None,
    points: int = 250,
    threshold: Array | None = None,
) -> dict[str, Any]:
    """The risk-coverage curve, and for each error rate of `TARGETS` the threshold that keeps it.

    `TARGETS` are 131 error rates from 0 to 0.6, closest together near 0.

    `metrics.threshold_at_risk` chooses the thresholds. With `validation` it chooses them on those
    samples, and they are measured on the test set, as in practice. Without, thresholds are chosen
    and measured on the same samples, so that the error rates look lower than they are.

    Parameters
    ----------
    confidence : array (n,)
        Any score; higher means more confident.
    correct : array (n,)
        Whether each answer is right.
    validation : (confidence, correct), optional
        The same of other samples.
    points : int
        Maximum number of points of the curve.
    threshold : array (len(TARGETS),), optional
        Thresholds, if they are known already; ``inf`` where none keeps the error rate.

    Returns
    -------
    dict
        ``n``; ``coverage``, ``risk``: the curve; ``targets``, ``threshold`` (``inf`` if none keeps
        the target), ``accepted``, ``wrong`` (counts on the test set), all (len(TARGETS),);
        ``validated``; ``still``, for `plots.plot_risk_coverage`.

    Examples
    --------
    >>> numbers = risk_coverage([0.9, 0.8, 0.7, 0.6], [True, True, False, True])
    >>> numbers["threshold"][0], numbers["accepted"][0]  # without an error
    (np.float64(0.79), np.int64(2))
    """
    c, z = as_confidence_correct(confidence, correct)
    chosen_on = (c, z) if validation is None else as_confidence_correct(*validation)
    if threshold is None:
        ranking = metrics.Ranking.of(*chosen_on)
        threshold = np.array([ranking.threshold(target) for target in TARGETS])
    right, wrong = (np.sort(c[part].astype(np.float64)) for part in (z, ~z))
    rejected_right, rejected_wrong = (np.searchsorted(x, threshold) for x in (right, wrong))
    curve = metrics.risk_coverage(c, z)
    thin = np.unique(np.linspace(0, len(curve[0]) - 1, points).round().astype(int))
    return {
        "n": len(z),
        "coverage": curve[0][thin],
        "risk": curve[1][thin],
        "targets": TARGETS,
        "threshold": threshold,
        "accepted": len(z) - rejected_right - rejected_wrong,
        "wrong": len(wrong) - rejected_wrong,
        "validated": validation is not None,
        "still": plots.prepare_risk_coverage(c, z),
    }


def show_risk_coverage(
    table: dict[str, Any], target: float = 0.05, still: str | None = None
) -> Explorable:
    """A risk-coverage curve with a slider for the error rate to allow.

    It shows the threshold that keeps the error rate, and the share of answers that it accepts.

    Parameters
    ----------
    table : dict
        Numbers of `risk_coverage`, or ``{method: numbers}`` of two or three.
    target : float
        The error rate at which the slider starts. It ends where all answers are accepted: at the
        largest error rate of the models, and at 0.6 at most.
    still : str, optional
        Address (``data:…``) of another still picture.

    Returns
    -------
    Explorable
        The figure, which a notebook shows as the last value of a cell.

    Raises
    ------
    ValueError
        If the table is empty.

    Examples
    --------
    >>> numbers = risk_coverage([0.9, 0.8, 0.7, 0.6], [True, True, False, True])
    >>> show_risk_coverage(numbers, target=0.1)
    <explorable figure: Risk and coverage with an error rate to allow>
    """
    models = _models(table)

    def draw() -> Figure:
        fig, ax = plt.subplots(figsize=(6.4, 3.4))
        plots.plot_risk_coverage({name: numbers["still"] for name, numbers in models.items()}, ax)
        return fig

    end = max(numbers["risk"][-1] for numbers in models.values())
    few = max(int(np.searchsorted(TARGETS, end)), 1) + 1
    validated = all(numbers["validated"] for numbers in models.values())
    data = {
        "targets": TARGETS[:few],
        "target": target,
        "chosen": "Thresholds are chosen on the validation set and measured on the test set."
        if validated
        else "Thresholds are chosen on the samples that they are measured on.",
        "models": [
            _label_and_color(name)
            | {"n": numbers["n"]}
            | {key: _digits(numbers[key], 6) for key in ("coverage", "risk")}
            | {key: numbers[key][:few] for key in ("threshold", "accepted", "wrong")}
            for name, numbers in models.items()
        ],
    }
    label = "Risk and coverage with an error rate to allow"
    return Explorable("risk_coverage", data, still or _png(draw), label)


# ------------------------------------------------------------------------------- helpers


def _models(table: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """``{method: numbers}``, also for a single model."""
    if not table:
        raise ValueError("table: got nothing to show, expected numbers or {method: numbers}")
    several = all(isinstance(numbers, dict) for numbers in table.values())
    return table if several else {_ONE: table}


def _same(models: dict[str, Any], key: str) -> None:
    first, *others = (np.asarray(numbers[key]) for numbers in models.values())
    if any(not np.array_equal(first, other) for other in others):
        raise ValueError(f"table: got models with different {key}, expected the same in all")


def _title(method: str) -> str:
    return "" if method == _ONE else method


def _label_and_color(method: str) -> dict[str, Any]:
    if method == _ONE:
        return {"label": "The model", "color": plots.COLORS["bsce_gra"]}
    style = plots.look(method)
    return {"label": style["label"], "color": style["color"]}


def _packed(numbers: dict[str, Any]) -> dict[str, Any]:
    shape = ("n", "columns", "counted", "top", "bend")
    return {key: numbers[key] for key in shape} | {"base64": _base64(numbers["bytes"])}


def _base64(array: Array) -> str:
    return base64.b64encode(array.tobytes()).decode()


def _digits(values: Array, digits: int) -> list[float]:
    return [float(f"{v:.{digits}g}") for v in values]


def _png(draw: Callable[[], Figure]) -> str:
    """A still picture as a ``data:`` address, small: in 64 colours."""
    from PIL import Image

    with plots.style(), plt.ioff():
        fig = draw()
        file = io.BytesIO()
        fig.savefig(file, dpi=110, bbox_inches="tight")
        plt.close(fig)
    small = io.BytesIO()
    image = Image.open(file).convert("RGB").quantize(64, dither=Image.Dither.NONE)
    image.save(small, "png", optimize=True)
    return f"data:image/png;base64,{base64.b64encode(small.getvalue()).decode()}"
