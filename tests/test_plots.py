"""The numbers behind the figures, by hand and against SciPy; then that every figure says them."""

import itertools
import subprocess
import sys
import warnings
from typing import NamedTuple

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
import scipy.optimize
import scipy.stats
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from calibkit import metrics, plots, stats, terms
from calibkit_companion.experiments import plan

SEEDS = 3


@pytest.fixture(autouse=True)
def _figures():
    mpl.use("agg")
    yield
    plt.close("all")


@pytest.mark.parametrize("method", plots.COLORS)
def test_words_in_the_colour_of_a_method_can_be_read_and_keep_its_hue(method):
    """WCAG: a contrast of 4.5 to the white ground; no darker than that asks for."""

    def contrast(color):
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in color]
        return 1.05 / (0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2] + 0.05)

    given = np.array(mpl.colors.to_rgb(plots.COLORS[method]))
    words = np.array(mpl.colors.to_rgb(plots.ink(plots.COLORS[method])))
    assert contrast(words) >= 4.45  # eight bits a channel
    assert (words == given).all() if contrast(given) >= 4.5 else contrast(words) < 4.8
    shade = words.sum() / max(given.sum(), 1e-9)
    np.testing.assert_allclose(words, shade * given, atol=0.005)


def classifier(seed: int, n: int = 600, sharpness: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    """Confidences that are right as often as they say, then sharpened."""
    rng = np.random.default_rng(seed)
    truth = rng.beta(3, 1, n) * 0.9 + 0.1
    correct = rng.random(n) < truth
    return truth ** (1 / sharpness), correct


def several(sharpness: float = 1.0, **more):
    pairs = [classifier(seed, sharpness=sharpness, **more) for seed in range(SEEDS)]
    return [c for c, _ in pairs], [z for _, z in pairs]


def words(ax) -> str:
    return "\n".join(text.get_text() for text in ax.texts)


# --- numbers ---


def test_histogram_by_hand():
    numbers = plots.prepare_confidence_histogram(
        [0.1, 0.6, 0.8, 0.9, 1.0], [False, True, True, False, True], bins=2
    )
    assert numbers.correct.tolist() == [[0.0, 2.0]]
    assert numbers.wrong.tolist() == [[1.0, 1.0]]
    assert numbers.mean_correct == pytest.approx([0.8])
    assert numbers.mean_wrong == pytest.approx([0.5])
    assert numbers.overlap == [0.0]  # in the 15 bins of the metric none has both


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10_000), st.integers(2, 40))
def test_histogram_densities_integrate_to_one_and_overlap_is_the_metric(seed, bins):
    confidence, correct = classifier(seed, n=200)
    numbers = plots.prepare_confidence_histogram(confidence, correct, bins)
    for density in (numbers.correct, numbers.wrong):
        assert density.sum() / bins == pytest.approx(1)
    assert numbers.overlap[0] == metrics.histogram_overlap(confidence, correct)
    lower = np.minimum(numbers.correct, numbers.wrong).sum() / bins
    assert lower == pytest.approx(metrics.histogram_overlap(confidence, correct, bins))


def test_histogram_without_a_wrong_prediction():
    with pytest.warns(metrics.UndefinedMetricWarning):
        numbers = plots.prepare_confidence_histogram([0.7, 0.9], [True, True], bins=5)
    assert np.isnan(numbers.wrong).all() and np.isnan(numbers.auroc).all()
    ax = plots.plot_confidence_histogram(numbers)
    ax.figure.canvas.draw()
    assert "undefined" in words(ax)


def test_reliability_agrees_with_ece_and_pools_seeds():
    confidence, correct = several()
    numbers = plots.prepare_reliability(confidence, correct, bins=10)
    for c, z, found in zip(confidence, correct, numbers.ece, strict=True):
        probs = np.column_stack([c, 1 - c])
        labels = np.where(z, 0, 1)
        keep = c > 0.5  # where class 0 is the prediction of these two columns
        alone = plots.prepare_reliability(c[keep], z[keep], bins=10).ece
        assert alone[0] == pytest.approx(metrics.ece(probs[keep], labels[keep], bins=10))
        assert found == pytest.approx(plots.prepare_reliability(c, z, bins=10).ece[0])
    everything = plots.prepare_reliability(np.concatenate(confidence), np.concatenate(correct), 10)
    for key in ("confidence", "accuracy", "share", "count"):
        np.testing.assert_allclose(getattr(numbers, key), getattr(everything, key))
    assert numbers.share.sum() == pytest.approx(1)


def test_panels_whose_bins_are_all_full_keep_their_place():
    """An empty group of bins once drew a marker at the corner of the figure."""
    confidence, correct = np.tile([0.1, 0.3, 0.5, 0.7, 0.9], 200), np.tile([0, 0, 1, 1, 1], 200)
    numbers = plots.prepare_reliability(confidence, correct, bins=5)
    fig = plots.panels({"one": numbers, "other": numbers}, plots.plot_reliability, size=(1.6, 2.2))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fig.canvas.draw()
    for ax in fig.axes:
        assert ax.get_tightbbox().x0 > ax.bbox.x0 - ax.bbox.width


def test_pooling_seeds_does_not_narrow_the_interval():
    confidence, correct = classifier(0)
    one = plots.prepare_reliability(confidence, correct)
    three = plots.prepare_reliability([confidence] * 3, [correct] * 3)
    expected = stats.wilson(one.accuracy * one.count, one.count)
    np.testing.assert_allclose((one.low, one.high), (expected.low, expected.high))
    np.testing.assert_allclose(three.low, one.low)
    np.testing.assert_allclose(three.high, one.high)


def histories(values):
    return [pd.DataFrame({"epoch": [2, 4, 6, 8], "auroc": row}) for row in values]


def test_overfitting_by_hand():
    numbers = plots.prepare_overfitting(
        histories([[0.80, 0.90, 0.92, 0.88], [0.82, 0.93, 0.89, 0.86]]), "auroc"
    )
    assert numbers.best_epoch == 4  # of the mean, though the first seed is best at 6
    assert numbers.best == pytest.approx(0.915)
    assert numbers.final == pytest.approx(0.87)
    assert numbers.drop == pytest.approx([-0.02, -0.03])  # since the other's best
    assert numbers.mean[0] == pytest.approx(0.81)


def test_the_change_of_a_metric_since_the_best_epoch_of_another():
    runs = [
        {"epoch": [1, 2, 3], "auroc": [0.7, 0.9, 0.8], "accuracy": [0.5, 0.6, 0.9]},
        {"epoch": [1, 2, 3], "auroc": [0.9, 0.8, 0.8], "accuracy": [0.4, 0.7, 0.8]},
    ]
    numbers = plots.prepare_overfitting(runs, "accuracy", best_by="auroc")
    assert numbers.best_epoch == 2 and numbers.drop == pytest.approx([0.4, 0.1])


class Change(NamedTuple):
    estimate: float
    low: float
    high: float
    outcome: str


def test_two_stretches_of_epochs_are_drawn_with_their_change():
    runs = histories([[0.80, 0.90, 0.92, 0.88], [0.82, 0.94, 0.89, 0.85]])
    numbers = plots.prepare_overfitting(runs, "auroc", stretches=[[2, 4], [6, 8]])
    assert numbers.levels == pytest.approx(np.array([[0.85, 0.90], [0.88, 0.87]]))
    row = Change(0.02, -0.01, 0.05, "unclear")
    fig = plots.plot_overfitting_grid({"erm": {"auroc": numbers}}, rows={"erm": {"auroc": row}})
    (ax,) = fig.axes
    bars = [line.get_xydata().tolist() for line in ax.lines if line.get_linewidth() == 5]
    assert bars == [
        [[2, pytest.approx(0.865)], [4, pytest.approx(0.865)]],
        [[6, pytest.approx(0.885)], [8, pytest.approx(0.885)]],
    ]
    assert "no clear change\n+2.0 points\n[−1.0, +5.0]" in words(ax)
    assert not [line for line in ax.lines if line.get_marker() == "o"]  # no best epoch
    with pytest.raises(ValueError, match="stretches: got"):
        plots.prepare_overfitting(runs, "auroc", stretches=[[2, 3], [6, 8]])


def test_overfitting_takes_the_lowest_of_a_loss():
    history = {"epoch": [1, 2, 3], "ece": [0.3, 0.1, 0.2]}
    numbers = plots.prepare_overfitting(history, "ece")
    assert numbers.best_epoch == 2 and numbers.drop == pytest.approx([0.1])


def test_risk_coverage_by_hand_and_over_seeds():
    confidence, correct = several()
    numbers = plots.prepare_risk_coverage(confidence, correct, points=50)
    risk = 1 - np.mean(correct, axis=1)
    np.testing.assert_allclose(numbers.risk[:, -1], risk)
    np.testing.assert_allclose(
        numbers.aurc, [metrics.aurc(c, z) for c, z in zip(confidence, correct, strict=True)]
    )
    order = np.argsort(-confidence[0])
    half = (~correct[0][order])[:300].mean()
    assert numbers.risk[0][24] == pytest.approx(half)  # at coverage one half


def test_a_perfect_ranking_has_no_risk_until_the_errors_begin():
    numbers = plots.prepare_risk_coverage([0.9, 0.8, 0.7, 0.2], [True, True, True, False], points=4)
    assert numbers.mean.tolist() == [0, 0, 0, 0.25]


def test_gradient_norms_follow_the_law():
    rng = np.random.default_rng(0)
    brier = [rng.beta(0.5, 1, 2000) * 2 for _ in range(2)]
    norm = [3 * b**2.5 * np.exp(0.2 * rng.normal(size=b.size)) for b in brier]
    numbers = plots.prepare_gradient_norms(brier, norm, exponent=2.5)
    assert numbers.scale == pytest.approx(3, rel=0.02)
    assert 0.998 * 4000 <= numbers.counts.sum() <= 4000
    law = 3 * numbers.middle**2.5
    np.testing.assert_allclose(numbers.median[5:], law[5:], rtol=0.15)
    apart = np.exp(2 * 1.2816 * 0.2)  # the quantiles of a normal deviate of 0.2
    np.testing.assert_allclose((numbers.high / numbers.low)[8:], apart, rtol=0.3)
    said = plots.plot_gradient_norms(numbers).texts[0].get_text()
    assert (
        said == f"spread {100 * plots.gradient_spread(*map(np.concatenate, (brier, norm))):.0f} %"
    )


def test_spread_of_gradients_by_hand():
    # Ten groups of four samples: quartiles of 1, 1, 3, 3 are 1 and 3, and the mean is 2.
    brier, norm = np.linspace(0.02, 2, 40), np.tile([1.0, 3.0], 20)
    assert plots.gradient_spread(brier, norm) == pytest.approx((3 - 1) / 2)
    assert plots.gradient_spread(brier[::-1], 7 * norm[::-1]) == pytest.approx(1)  # no order, unit
    learned = np.append(brier, 0.0), np.append(norm, 0.0)
    assert plots.gradient_spread(*learned) == pytest.approx(1)
    assert plots.gradient_spread(brier, np.ones(40)) == 0
    assert np.isnan(plots.gradient_spread(brier[:9], norm[:9]))


def test_norms_of_zero_have_no_spread():
    numbers = plots.prepare_gradient_norms(np.linspace(0, 2, 50), np.zeros(50))
    assert np.isnan(numbers.spread)


def test_tensors_are_arrays():
    confidence, correct = classifier(3)
    for prepare in (
        plots.prepare_confidence_histogram,
        plots.prepare_reliability,
        plots.prepare_risk_coverage,
    ):
        expected = prepare([confidence] * 2, [correct] * 2)
        found = prepare([torch.tensor(confidence)] * 2, [torch.tensor(correct)] * 2)
        stacked = prepare(torch.tensor(np.stack([confidence] * 2)), np.stack([correct] * 2))
        for key, values in vars(expected).items():
            np.testing.assert_allclose(getattr(found, key), values)
            np.testing.assert_allclose(getattr(stacked, key), values)


def test_confident_errors_are_those_above_the_threshold():
    numbers = plots.prepare_confidence_histogram(
        [0.1, 0.6, 0.95, 0.9, 1.0], [False, True, False, False, True], bins=10, threshold=0.9
    )
    assert numbers.confident == [pytest.approx(1 / 3)]
    ax = plots.plot_confidence_histogram(numbers)
    assert "33 %" in words(ax) and "of the errors\nlie above 90 %" in words(ax)
    assert "overlap" not in words(ax) and ax.get_yscale() == "linear"
    ax = plots.plot_confidence_histogram(plots.prepare_confidence_histogram([0.4, 0.6], [0, 1]))
    assert "errors" not in words(ax)
    numbers = plots.prepare_confidence_histogram([[0.4, 0.6]] * 2, [[0, 1], [0, 1]], threshold=0.3)
    ax = plots.plot_confidence_histogram(numbers, root=True)
    assert numbers.confident.tolist() == [1, 1] and "100 ± 0 %" in words(ax)
    assert ax.get_yscale() == "function"


def test_style_in_points_sets_all_text():
    with plots.style(8):
        sizes = {
            mpl.rcParams[key] for key in mpl.rcParams if key.endswith(("labelsize", ".fontsize"))
        }
        assert sizes >= {8.0} and max(s for s in sizes if isinstance(s, float)) == 8
    assert mpl.rcParams["font.size"] != 8


class Row(NamedTuple):
    method: str
    estimate: float
    low: float
    high: float
    seeds: int
    outcome: str
    metric: str = "auroc"
    to: str = ""


def test_before_and_after_a_temperature_is_a_ring_and_a_dot():
    before = {"fmfp": Row("fmfp", 0.012, 0.004, 0.02, 5, "higher", to="erm")}
    after = {m: Row(m, 0.01, 0.002, 0.018, 2, "unclear", to="erm") for m in ("erm", "fmfp")}
    ax = plots.forest_before_after(before, after)
    dots = [line for line in ax.lines if line.get_marker() == "o"]
    rings = {line.get_ydata()[0]: line.get_xdata()[0] for line in dots[::2]}
    assert np.isnan(rings[0]) and rings[1] == pytest.approx(1.2)
    assert [line.get_xdata()[0] for line in dots[1::2]] == pytest.approx([1, 1])
    bars = [line for line in ax.lines[1:] if line.get_marker() != "o"]  # two seeds have none
    assert [list(line.get_xdata()) for line in bars] == [pytest.approx([0.4, 2.0])]
    assert [tick.get_text() for tick in ax.get_yticklabels()] == ["Plain training", "FMFP"]
    assert ax.get_xlabel() == "AUROC, points more than plain training"
    level = {"mixup": Row("mixup", 0.5, 0.4, 0.6, 3, "", "ece")}
    ax = plots.forest_before_after(level, {})
    assert ax.get_xlabel() == "ECE (%)" and ax.get_yticklabels()[0].get_text() == "Mixup"


# --- errors ---


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: plots.prepare_reliability([0.5, 1.5], [1, 0]), "confidence: got values from"),
        (lambda: plots.prepare_reliability([0.5, 0.6], [1]), "correct: got 1 values, expected 2"),
        (
            lambda: plots.prepare_confidence_histogram([[0.5, 0.6]] * 2, [[1, 0]]),
            "correct: got 1 seeds, expected 2",
        ),
        (
            lambda: plots.prepare_overfitting({"epoch": [1]}, "ece"),
            "histories: got no column 'ece'",
        ),
        (
            lambda: plots.prepare_overfitting({"epoch": [1], "x": [1]}, "x"),
            "metric: got 'x', expected one of known direction",
        ),
        (
            lambda: plots.prepare_overfitting(
                [{"epoch": [1], "ece": [1]}, {"epoch": [2], "ece": [1]}], "ece"
            ),
            "different epochs",
        ),
        (lambda: plots.prepare_gradient_norms([0.1, 3.0], [1, 1]), "brier: got"),
        (lambda: plots.prepare_gradient_norms([0.1, 0.3], [1, np.nan]), "norm: got"),
        (lambda: plots.prepare_gradient_norms([0.1], [1, 1]), "norm: got shapes"),
        (lambda: plots.forest_before_after({}, {}), "before, after: got no rows"),
        (lambda: plots.panels({}, plots.plot_reliability), "table: got nothing"),
    ],
)
def test_errors_name_the_argument(call, message):
    with pytest.raises(ValueError, match=message) as caught:
        call()
    assert "\n" not in str(caught.value)


# --- looks ---

_MACHADO = {  # colour vision deficiency of severity 1, linear RGB (Machado et al. 2009)
    "normal": np.eye(3),
    "protan": [
        [0.152286, 1.052583, -0.204868],
        [0.114503, 0.786281, 0.099216],
        [-0.003882, -0.048116, 1.051998],
    ],
    "deutan": [
        [0.367322, 0.860646, -0.227968],
        [0.280085, 0.672501, 0.047413],
        [-0.011820, 0.042940, 0.968881],
    ],
}


def _linear(color: str) -> np.ndarray:
    rgb = np.array(mpl.colors.to_rgb(color))
    return np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)


def _lab(linear: np.ndarray) -> np.ndarray:
    to_xyz = [[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]
    xyz = to_xyz @ linear.clip(0, 1) / [0.9505, 1, 1.089]
    f = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


def _distance(a: str, b: str) -> float:
    return min(
        np.linalg.norm(_lab(m @ _linear(a)) - _lab(m @ _linear(b)))
        for m in map(np.array, _MACHADO.values())
    )


@pytest.mark.parametrize("paper", plan.PAPERS)
def test_methods_of_a_paper_can_be_told_apart(paper):
    for a, b in itertools.combinations(plan.PAPERS[paper].rows[0].methods, 2):
        one, other = plots.look(a.name), plots.look(b.name)
        apart = _distance(one["color"], other["color"]) > 15
        assert apart or one["linestyle"] != other["linestyle"], (a, b)
        assert apart or one["marker"] != other["marker"], (a, b)


def test_correct_and_wrong_can_be_told_apart():
    assert _distance(plots.CORRECT, plots.WRONG) > 25


def test_every_method_has_its_own_look():
    looks = [plots.look(method) for method in plan.METHODS]
    for key in ("label", "look"):
        seen = [
            v["label"] if key == "label" else (v["color"], v["marker"], v["linestyle"])
            for v in looks
        ]
        assert len(set(map(str, seen))) == len(seen)
    for look in looks:  # and is dark enough on white
        luminance = _linear(look["color"]) @ [0.2126, 0.7152, 0.0722]
        assert 1.05 / (luminance + 0.05) > 2.1


def test_composed_methods():
    assert plots.look("erm+sam") == plots.look("sam")
    assert plots.look("erm+swa") == plots.look("swa")
    assert plots.look("erm+swa+sam+ts")["label"] == "FMFP + TS"
    crossed = [plots.look("bsce_gra" + axes) for axes in ("", "+sam", "+swa", "+sam+swa")]
    assert {look["color"] for look in crossed} == {plots.COLORS["bsce_gra"]}
    assert len({str(look["linestyle"]) for look in crossed}) == 4
    assert plots.look("mixup(alpha=1)+sam")["label"] == "Mixup (α\u00a0=\u00a01) + SAM"
    assert plots.look("my_method") == plots.look("my_method")
    assert plots.look("my_method")["label"] == "my method"


def test_a_reader_can_add_a_colour(monkeypatch):
    monkeypatch.setitem(plots.COLORS, "my_method", "#123456")
    assert plots.look("my_method+sam")["color"] == "#123456"


# --- drawing ---


def test_style_is_local_opaque_and_legible():
    before = dict(mpl.rcParams)
    with plots.style():
        fig, ax = plt.subplots()
        ax.set(xlabel="x", title="t")
        sizes = [mpl.rcParams[k] for k in mpl.rcParams if k.endswith("size") and "font" in k]
        assert min(ax.xaxis.label.get_size(), ax.title.get_size(), *map(float, sizes)) >= 9
        assert fig.get_facecolor() == (1, 1, 1, 1) and ax.get_facecolor() == (1, 1, 1, 1)
        assert not mpl.rcParams["savefig.transparent"]
    assert dict(mpl.rcParams) == before


def every_figure() -> dict:
    """Each plot function on plausible numbers, with three seeds and with one."""
    runs = {"erm": several(1.0), "label_smoothing": several(0.5), "fmfp": several(1.4)}
    single = {m: (c[0], z[0]) for m, (c, z) in runs.items()}
    rng = np.random.default_rng(0)
    brier = rng.beta(0.5, 1, 1000) * 2
    figures = {}
    for name, chosen in (("seeds", runs), ("single", single)):

        def per(prepare, chosen=chosen, **more):
            return {m: prepare(*pair, **more) for m, pair in chosen.items()}

        epochs = histories(0.8 + 0.1 * rng.random((3, 4)))[: 3 if name == "seeds" else 1]
        curves = {m: {"auroc": plots.prepare_overfitting(epochs, "auroc")} for m in runs}
        norms = [brier**2.5] * len(epochs)
        density = plots.prepare_gradient_norms([brier] * len(epochs), norms, exponent=2.5)
        figures |= {
            (name, "histogram"): plots.plot_confidence_histogram(
                per(plots.prepare_confidence_histogram)["erm"]
            ),
            (name, "reliability"): plots.plot_reliability(per(plots.prepare_reliability)["erm"]),
            (name, "lines"): plots.plot_reliability_lines(per(plots.prepare_reliability)),
            (name, "overfitting"): plots.plot_overfitting_grid(curves).axes[0],
            (name, "density"): plots.plot_gradient_norms(density),
            (name, "risk"): plots.plot_risk_coverage(per(plots.prepare_risk_coverage)),
        }
    return figures


def test_every_figure_draws_without_a_warning_and_labels_its_axes():
    with warnings.catch_warnings(), plots.style():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", category=RuntimeWarning, message="More than 20 figures")
        for name, ax in every_figure().items():
            ax.figure.canvas.draw()
            assert ax.get_xlabel(), name
            assert ax.get_ylabel(), name
            if name[1] not in ("reliability", "lines", "overfitting"):
                assert ax.get_ylim()[0] == pytest.approx(0, abs=1e-9), name


def test_figures_say_their_numbers():
    runs = several()
    histogram = plots.prepare_confidence_histogram(*runs)
    said = words(plots.plot_confidence_histogram(histogram))
    expected = stats.seed_interval(100 * histogram.auroc)
    assert f"AUROC {expected[0]:.1f} ± {expected[2] - expected[0]:.1f} %" in said
    reliability = plots.prepare_reliability(runs[0][0], runs[1][0])
    assert f"ECE {100 * reliability.ece[0]:.1f} %" in words(plots.plot_reliability(reliability))
    curve = plots.prepare_overfitting(histories([[0.8, 0.9, 0.8, 0.85]]), "auroc")
    assert "−5.0 points" in words(plots.plot_overfitting_grid({"erm": {"auroc": curve}}).axes[0])
    rising = plots.prepare_overfitting(histories([[0.8, 0.82, 0.83, 0.85]]), "auroc")
    ax = plots.plot_overfitting_grid({"erm": {"auroc": rising}}).axes[0]
    assert "best at the end" in words(ax)


def test_figures_need_not_say_their_numbers():
    confidence, correct = several()
    histogram = plots.prepare_confidence_histogram(confidence, correct, threshold=0.9)
    said = words(plots.plot_confidence_histogram(histogram, words=False))
    assert "AUROC" not in said and "of the errors" in said
    reliability = plots.prepare_reliability(confidence, correct)
    said = words(plots.plot_reliability(reliability, words=False))
    assert "ECE" not in said and f"{100 * reliability.share.max():.0f} %" in said
    history = histories([[0.8, 0.9, 0.8, 0.85]])[0]
    history["accuracy"] = history.auroc
    both = {m: plots.prepare_overfitting(history, m) for m in ("accuracy", "auroc")}
    above, below = plots.plot_overfitting_grid({"erm": both}, changes=["auroc"]).axes
    assert not above.texts and "−5.0 points" in words(below)


def test_the_first_epochs_do_not_flatten_the_others():
    history = {
        "epoch": list(range(1, 51)),
        "auroc": [0.1, 0.3] + [0.80 + i / 1e3 for i in range(48)],
    }
    curve = {"auroc": plots.prepare_overfitting(history, "auroc")}
    low, high = plots.plot_overfitting_grid({"erm": curve}).axes[0].get_ylim()
    assert 0.78 < low < 0.82 and 0.84 < high < 0.87


def test_over_confidence_is_red_and_under_confidence_blue():
    n = 1000
    for accuracy, color in ((0.5, plots.WRONG), (1.0, plots.CORRECT)):
        correct = np.arange(n) < accuracy * n
        ax = plots.plot_reliability(plots.prepare_reliability(np.full(n, 0.8), correct))
        (bar,) = (p for p in ax.patches if p.get_y() == pytest.approx(0.8))
        assert bar.get_facecolor()[:3] == mpl.colors.to_rgb(color)
        assert bar.get_height() == pytest.approx(accuracy - 0.8)


def test_labels_at_line_ends_do_not_overlap():
    methods = list(terms.METHODS)[:8]
    confidence, correct = several()
    curves = {m: plots.prepare_risk_coverage(confidence, correct) for m in methods}
    with plots.style():
        ax = plots.plot_risk_coverage(curves)
        ax.figure.canvas.draw()
        boxes = [text.get_window_extent() for text in ax.texts[: len(methods)]]
    for a, b in itertools.combinations(boxes, 2):
        assert not a.overlaps(b)


def test_panels_share_axes_and_name_methods():
    numbers = {
        ("erm", "before"): plots.prepare_reliability(*several()),
        ("erm", "after"): None,
        ("fmfp", "before"): plots.prepare_reliability(*several()),
    }
    fig = plots.panels(numbers, plots.plot_reliability)
    titles = [ax.get_title(loc) for ax in fig.axes for loc in ("left", "center")]
    assert "Plain training · before" in titles and "FMFP · before" in titles
    assert [ax.axison for ax in fig.axes] == [True, False, True, False]
    assert fig.axes[0].get_ylim() == fig.axes[2].get_ylim()


def test_panels_reach_the_tallest_of_them():
    table = {
        "flat": plots.prepare_confidence_histogram(*several()),
        "peaked": plots.prepare_confidence_histogram([0.99] * 9 + [0.5], [True] * 9 + [False]),
    }
    fig = plots.panels(table, plots.plot_confidence_histogram)
    tallest = max(numbers.correct.max() for numbers in table.values())
    assert all(ax.get_ylim()[1] >= tallest for ax in fig.axes)
    assert sum(ax.get_legend() is not None for ax in fig.axes) == 1


def test_importing_plots_changes_no_setting():
    code = (
        "import matplotlib as mpl; before = dict(mpl.rcParams); import calibkit.plots, sys;"
        "assert dict(mpl.rcParams) == before; assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


# --- refinement through training ---


def made_up(n=600, seed=0):
    """Logits that are right about their own uncertainty, and labels drawn from them."""
    rng = np.random.default_rng(seed)
    z = 2 * rng.normal(size=(n, 4))
    p = np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)
    return z, (p.cumsum(axis=1) > rng.random((n, 1))).argmax(axis=1)


def nll_of(z, y):
    return np.log(np.exp(z).sum(axis=1)) - z[np.arange(len(y)), y]


def test_refinement_is_the_nll_after_temperatures_of_the_other_folds():
    z, y = made_up()
    part, left = np.arange(len(y)) % 3, np.empty(len(y))
    for fold in range(3):
        here = part == fold
        there = scipy.optimize.minimize_scalar(
            lambda b, o=~here: nll_of(b * z[o], y[o]).mean(), bounds=(0.1, 10), method="bounded"
        )
        left[here] = nll_of(there.x * z[here], y[here])
    found = plots.prepare_refinement({1: z}, y, folds=3)
    assert found.nll == pytest.approx(nll_of(z, y).mean())
    assert found.refinement == pytest.approx(left.mean(), abs=1e-6)


def test_growing_logits_lose_nothing_that_a_temperature_does_not_give_back():
    z, y = made_up()
    found = plots.prepare_refinement({1: z, 2: 3 * z, 3: 0.2 * z}, y)
    assert found.refinement == pytest.approx(np.full((1, 3), found.refinement[0, 0]), abs=1e-6)
    assert (found.nll[0, 1:] > found.nll[0, 0] + 0.05).all()
    assert found.since_best == pytest.approx([0], abs=1e-6)


def test_what_is_lost_after_the_best_epoch_is_judged_on_the_half_that_did_not_choose_it():
    z, y = made_up()
    noise = np.random.default_rng(1)
    runs = [
        {e: z + s * noise.normal(size=z.shape) for e, s in ((1, 2), (2, 0.3), (3, 3))} for _ in "ab"
    ]
    found = plots.prepare_refinement(runs, y)
    assert found.n == len(y)
    assert found.since_best == pytest.approx(found.refinement[:, 2] - found.refinement[:, 1])
    assert found.deviations.mean(axis=1) == pytest.approx([0, 0], abs=0.05)
    # Epochs that differ by chance alone: the best of many is no better on other samples.
    many = {e: z + 2 * noise.normal(size=z.shape) for e in range(1, 41)}
    chance = plots.prepare_refinement(many, y)
    by_luck = chance.refinement[0, -1] - chance.refinement.min()
    assert by_luck > 0.02 and chance.since_best[0] < by_luck


def test_refinement_refuses_what_it_cannot_fold():
    z, y = made_up(20)
    with pytest.raises(ValueError, match="snapshots: got epochs"):
        plots.prepare_refinement([{1: z}, {2: z}], y)
    with pytest.raises(ValueError, match="folds: got 21, expected 2 to 20"):
        plots.prepare_refinement({1: z}, y, folds=21)
