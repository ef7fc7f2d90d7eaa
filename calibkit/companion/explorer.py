"""Sliders for JupyterLab: what temperature, bins and threshold do to three figures.

`numbers` says what is shown at one setting, `figure` and `table` show it; `Explorer` is the same
with sliders, and needs ipywidgets.

>>> from calibkit.report.predictions import from_arrays
>>> scores = {"probs": [[0.9, 0.1], [0.4, 0.6], [0.7, 0.3]] * 20, "labels": [0, 1, 1] * 20}
>>> numbers(from_arrays(scores), threshold=0.8)["point"]["coverage"]
0.3333333333333333
"""

import io
import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import ipywidgets as widgets
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from calibkit import metrics, plots, posthoc, stats, terms
from calibkit.report import assessment, text
from calibkit.report.predictions import Predictions
from calibkit.training.store import Record

SAMPLES = 20_000  # of a larger file a random part, so that the figures keep up with the sliders

Key = tuple[str, int, int]  # method, seed, epoch


def from_records(records: Mapping[str, Sequence[Record]]) -> dict[Key, Predictions]:
    """Every method, seed and snapshot of some records, such as those of an `notebook.Page`.

    Early snapshots have no validation scores, and may be of the first test samples only. Light
    records, which keep no predictions, are left out.
    """
    models = {}
    for method, runs in records.items():
        for record in (r for r in runs if not r.light):
            arrays, seed = record.arrays, record.info["run"]["seed"]
            labels, snapshots = arrays["test_labels"].astype(int), record.snapshots
            for epoch, logits in sorted(snapshots.items()):
                models[method, seed, epoch] = Predictions(method, logits, labels[: len(logits)])
            models[method, seed, max(snapshots)] = Predictions(
                method,
                arrays["test_logits"],
                labels,
                arrays["validation_logits"],
                arrays["validation_labels"].astype(int),
            )
    return models


def numbers(
    data: Predictions, temperature: float = 1.0, bins: int = 15, threshold: float = 0.9
) -> dict:
    """Compute what is shown at one setting of the sliders.

    Parameters
    ----------
    data : Predictions
    temperature : float
        Divides the logits.
    bins : int
        Of the reliability diagram, of the ECE and of the histograms.
    threshold : float
        Answers of at least this confidence are accepted.

    Returns
    -------
    dict
        ``reliability``, ``histogram``, ``risk_coverage`` (as `plots` draws them); ``metrics``;
        ``point``: ``threshold``, ``accepted``, ``wrong`` (counts), ``coverage``, ``risk``, and the
        ends ``low``, ``high`` of its 95 % Wilson interval, ``nan`` if nothing is accepted.
    """
    samples = metrics.per_sample(data.logits / temperature, data.labels)
    confidence, correct = samples["confidence"], samples["correct"]
    accept = confidence >= threshold
    accepted, wrong = int(accept.sum()), int((accept & ~correct).sum())
    low, high = stats.wilson(wrong, accepted)
    with warnings.catch_warnings():  # what is undefined is shown as such
        warnings.simplefilter("ignore", metrics.UndefinedMetricWarning)
        drawn = {
            "reliability": plots.prepare_reliability(confidence, correct, bins),
            "histogram": plots.prepare_confidence_histogram(confidence, correct, bins),
            "risk_coverage": assessment.risk_coverage(confidence, correct),
        }
    return drawn | {
        "metrics": {
            "accuracy": float(correct.mean()),
            "confidence": float(confidence.mean(dtype=float)),
            "ece": float(drawn["reliability"]["ece"][0]),
            "nll": float(samples["nll"].mean(dtype=float)),
            "brier": float(samples["brier"].mean(dtype=float)),
            "auroc": float(drawn["histogram"]["auroc"][0]),
            "aurc": float(drawn["risk_coverage"]["aurc"][0]),
        },
        "point": {
            "threshold": threshold,
            "accepted": accepted,
            "wrong": wrong,
            "coverage": accepted / len(correct),
            "risk": wrong / accepted if accepted else math.nan,
            "low": float(low),
            "high": float(high),
        },
    }


# --- what is shown ---


def _reliability(now: dict, method: str, ax: Axes) -> None:
    plots.plot_reliability(now["reliability"], ax)


def _histogram(now: dict, method: str, ax: Axes) -> None:
    plots.plot_confidence_histogram(now["histogram"], ax)
    ax.axvline(now["point"]["threshold"], color="0.15", linewidth=1.4)


def _risk_coverage(now: dict, method: str, ax: Axes) -> None:
    plots.plot_risk_coverage({method: now["risk_coverage"]}, ax)
    point = now["point"]
    if point["accepted"]:
        risk = point["risk"]
        bar = np.clip([[risk - point["low"]], [point["high"] - risk]], 0, 1)  # but for rounding
        drawn = {"fmt": "o", "color": plots.WRONG, "markersize": 8, "zorder": 5}
        ax.errorbar(point["coverage"], risk, bar, **drawn)


# What draws a figure, and the settings it depends on beside the predictions.
_PICTURES = {
    "reliability": (_reliability, ("temperature", "bins")),
    "histogram": (_histogram, ("temperature", "bins", "threshold")),
    "risk_coverage": (_risk_coverage, ("temperature", "threshold")),
}


def figure(now: dict, method: str) -> Figure:
    """Draw the three figures of `numbers` as one, in the look of `method`."""
    with plots.style():
        places = [["reliability", "histogram"], ["risk_coverage", "risk_coverage"]]
        fig, axes = plt.subplot_mosaic(places, figsize=(8.4, 7.4), height_ratios=(1.2, 1))
        for name, (draw, _) in _PICTURES.items():
            draw(now, method, axes[name])
    return fig


def table(now: dict, before: dict) -> str:
    """The key numbers as HTML, beside those `before` (at temperature 1, say)."""
    point = now["point"]
    rows = [
        (terms.METRICS[name][0], _shown(before["metrics"][name], name), _shown(value, name))
        for name, value in now["metrics"].items()
    ]
    risk = stats.Interval(point["risk"], point["low"], point["high"])
    old = before["point"]
    rows += [
        ("Accepted", text.percent(old["coverage"]), text.percent(point["coverage"])),
        ("Wrong among them", text.percent(old["risk"]), risk.format(100, 1, terms.UNITS[100])),
    ]
    cells = "".join(
        f"<tr><th>{label}</th><td>{old}</td><td>{new}</td></tr>" for label, old, new in rows
    )
    style = Path(__file__).with_suffix(".css").read_text()  # JupyterLab has no sheet of the book's
    return (
        f"<style>{style}</style><table class='dataframe calibkit-table key-numbers'>"
        f"<thead><tr><th></th><th>T = 1</th><th>now</th></tr></thead><tbody>{cells}</tbody></table>"
    )


def _shown(value: float, name: str) -> str:
    scale = terms.METRICS[name][1]
    return text.number(value, scale, terms.UNITS[scale])


class Explorer(widgets.VBox):
    """Sliders over predictions; the figures and the key numbers follow while they move.

    Parameters
    ----------
    models : dict
        Predictions by (method, seed, epoch), as of `from_records`. What has one value only is not
        offered.
    temperature, bins, threshold
        Where the sliders start.

    Attributes
    ----------
    method, seed, epoch, temperature, bins, threshold : widgets with a ``value``
    now : dict
        `numbers` at that setting; `before`: at temperature 1.

    Examples
    --------
    >>> from calibkit.report.predictions import from_arrays
    >>> scores = {"probs": [[0.9, 0.1], [0.4, 0.6], [0.7, 0.3]] * 20, "labels": [0, 1, 1] * 20}
    >>> explorer = Explorer({("your model", 0, 0): from_arrays(scores)})
    >>> explorer.threshold.value = 0.65  # as the slider would
    >>> explorer.now["point"]["accepted"]
    40
    """

    def __init__(
        self,
        models: Mapping[Key, Predictions],
        temperature: float = 1.0,
        bins: int = 15,
        threshold: float = 0.9,
    ) -> None:
        if not models:
            raise ValueError("models: got nothing to show, expected {(method, seed, epoch): ...}")
        self.models = dict(models)
        methods, seeds, epochs = (list(dict.fromkeys(x)) for x in zip(*models, strict=True))
        look = {"style": {"description_width": "7em"}, "layout": {"width": "27em"}}
        self.method = widgets.Dropdown(
            options=[(terms.label(m), m) for m in methods], description="Method", **look
        )
        self.seed = widgets.Dropdown(options=seeds, description="Seed", **look)
        epochs.sort()
        self.epoch = widgets.SelectionSlider(
            options=epochs, value=epochs[-1], description="Epoch", **look
        )
        self.temperature = widgets.FloatLogSlider(
            temperature, min=-1, max=1, step=0.01, description="Temperature", **look
        )
        self.temperature.readout_format = ".2f"
        self.fit = widgets.Button(
            description="Fit temperature",
            tooltip="to the lowest NLL on the validation set",
            layout={"width": "14em", "margin": "2px 2px 2px 7.5em"},
        )
        self.bins = widgets.IntSlider(bins, 2, 50, description="Bins", **look)
        self.threshold = widgets.FloatSlider(
            threshold, min=0, max=1, step=0.005, description="Threshold", **look
        )
        self.threshold.readout_format = ".3f"
        self._words = widgets.HTML(layout={"margin": "0 0 0 2em"})
        self.pictures = {
            name: widgets.Image(layout={"width": "32%", "min_width": "300px"}) for name in _PICTURES
        }
        self._figures = {name: _one_axes() for name in _PICTURES}
        self._settings: dict[str, tuple] = {}  # the settings behind each figure
        choices = [self.method, self.seed, self.epoch]
        settings = [self.temperature, self.fit, self.bins, self.threshold]
        offered = [choice for choice in choices if len(choice.options) > 1] + settings
        row = {"flex_flow": "row wrap", "align_items": "center"}
        super().__init__(
            [
                widgets.Box([widgets.VBox(offered), self._words], layout=row),
                widgets.Box(list(self.pictures.values()), layout=row),
            ]
        )
        for slider in (*choices, self.temperature, self.bins, self.threshold):
            slider.observe(self._update, "value")
        self.fit.on_click(self._fit)
        self._update()

    def __repr__(self) -> str:
        return "The sliders appear when this cell is run."  # what a saved notebook shows

    @property
    def data(self) -> Predictions | None:
        """The predictions chosen; None where there are none of that method, seed and epoch."""
        return self.models.get((self.method.value, self.seed.value, self.epoch.value))

    def _update(self, change: object = None) -> None:
        data = self.data
        self.fit.disabled = data is None or data.val_logits is None
        if data is None:
            self._words.value = "No predictions for this method, seed and epoch."
            return
        at = {name: getattr(self, name).value for name in ("temperature", "bins", "threshold")}
        self.before = numbers(data, **at | {"temperature": 1.0})
        self.now = numbers(data, **at)
        self._words.value = table(self.now, self.before)
        for name, (draw, needs) in _PICTURES.items():
            setting = (data, *(at[need] for need in needs))
            if setting != self._settings.get(name):  # a slider redraws only what depends on it
                self._settings[name] = setting
                self.pictures[name].value = self._paint(name, draw)

    def _paint(self, name: str, draw: Callable) -> bytes:
        fig, method = self._figures[name], self.method.value
        with plots.style():
            (ax,) = fig.axes
            # Not ax.clear(): to make the ticks again takes longer than all the rest.
            for artist in [*ax.lines, *ax.patches, *ax.collections, *ax.texts]:
                artist.remove()
            ax.containers.clear()
            ax.relim()
            draw(self.now, method, ax)
            if fig.get_label() != method:  # whose name stands beside the curve
                fig.set_layout_engine("constrained")
                fig.draw_without_rendering()
                fig.set_layout_engine("none")
                fig.set_label(method)
            file = io.BytesIO()
            fig.canvas.print_png(file, pil_kwargs={"compress_level": 1})
        return file.getvalue()

    def _fit(self, button: object = None) -> None:
        data = self.data
        temperature, _ = posthoc.optimal_temperature(data.val_logits, data.val_labels, "nll")
        self.temperature.value = temperature


def _one_axes() -> Figure:
    with plots.style():  # a figure that pyplot does not know, and so does not keep
        fig = Figure(figsize=(3.8, 3.5), dpi=110)
        FigureCanvasAgg(fig)
        fig.add_subplot()
    return fig
