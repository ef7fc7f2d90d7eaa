"""A change between two stretches of epochs: by hand, by simulation, and from records."""

from math import isnan
from pathlib import Path
from types import SimpleNamespace

import matplotlib.pyplot as plt
import numpy as np
import pytest
from scipy import stats as scipy_stats

from benchmarks import since_a_drop
from calibkit import plots, stats
from calibkit_companion import results
from calibkit_companion.experiments import plan
from calibkit_companion.results.change import Change, mean_change
from calibkit_companion.results.change import since as change_of
from calibkit_companion.results.number import Number
from tests import records


def change(since, values, epochs, milestones):
    """The change by seed of made histories (seeds, epochs)."""
    run = {"protocol": {"milestones": milestones}}
    made = [
        SimpleNamespace(
            info={"run": run | {"seed": seed}},
            history={"epoch": np.array(epochs), "auroc": its, "n": np.full(len(epochs), 9.0)},
        )
        for seed, its in enumerate(np.array(values, float))
    ]
    return change_of(made, Number("auroc", since=since))


def test_it_is_the_mean_of_the_last_epochs_minus_that_of_the_first():
    values = [9, 1, 2, 3, 4, 5, 6], [9, 1, 3, 5, 7, 9, 12]
    expected = {  # three of seven epochs at either end, two of the last five, two of the last four
        "settled": {0: 5 - 4, 1: (7 + 9 + 12 - 9 - 1 - 3) / 3},
        "second_rate": {0: 5.5 - 2.5, 1: 10.5 - 4},
        "third_rate": {0: 5.5 - 3.5, 1: 10.5 - 6},
    }
    for since, its in expected.items():
        found = change(since, values, range(1, 8), [2, 3])
        assert found.values == pytest.approx(its) and found.covers == "runs" and found.n == 9


def test_it_takes_five_epochs_at_either_end_where_there_are_ten():
    values = np.arange(60.0) ** 2
    found = change("third_rate", [values], range(1, 61), [24, 39, 51])
    assert found.values == {0: np.mean(values[55:]) - np.mean(values[39:44])}


@pytest.mark.parametrize("milestones", [[], [2], [2, 4]])
def test_without_four_epochs_after_the_drop_there_is_none(milestones):
    found = change("third_rate", [np.arange(7), np.arange(7)], range(1, 8), milestones)
    assert all(map(isnan, found.values.values())) and not found.covers
    assert isnan(found.mean().interval().low)


def test_results_compare_it_by_the_epochs_of_the_protocol(tmp_path, monkeypatch):
    monkeypatch.setenv("CALIBKIT_CACHE", str(tmp_path))
    records.few_replicates(monkeypatch, 20)
    curve = {"erm": [[9, 1, 2, 3, 4, 5, 6], [9, 1, 2, 3, 4, 5, 7]], "focal": [[0] * 7] * 2}
    for method, by_seed in curve.items():
        for run in plan.Selection("smoke", dataset="digits", seeds=2).runs([method]):
            records.write(run, auroc=by_seed[run.seed])
    runs = results.Results(plan.Selection("smoke", dataset="digits"), train=False)
    alone = runs.mean("erm", since="settled")["erm"]
    assert alone.estimate == pytest.approx((1 + 4 / 3) / 2) and alone.outcome == "unclear"
    gap = runs.compare("focal", since="settled")["focal"]
    assert gap.estimate == pytest.approx(-alone.estimate) and gap.covers == "runs"


def test_without_shared_noise_it_is_students_interval():
    changes, opposite = [1.0, 2.0, 4.0, 3.0], [[1.0, -1, 2, -2], [-1, 1, -2, 2]] * 2
    for noise in ([], np.array(opposite)):  # the mean curve is level in each stretch
        found = mean_change(changes, noise).interval(0.99)
        assert tuple(found) == pytest.approx(tuple(stats.seed_interval(changes, 0.99)))


def test_noise_that_all_seeds_share_widens_it_by_an_analysis_of_variance():
    changes = np.array([1.0, 2.0, 4.0])
    noise = np.array([[2.0, -1, -1, 1, 1, -2], [3, -2, -1, 0, 1, -1], [1, -1, 0, 2, 0, -2]])
    # By hand: mean squares with 4 = 2 (3 - 1) degrees of freedom, and 8 for the rest.
    of_mean = 3 * (noise.mean(axis=0) ** 2).sum() / 4
    rest = ((noise - noise.mean(axis=0)) ** 2).sum() / 8
    runs, shared = changes.var(ddof=1) / 3, 2 / 3 * (of_mean - rest) / 3
    parts = [(runs, 2), (2 / 9 * of_mean, 4), (2 / 9 * rest, 8)]
    freedom = (runs + shared) ** 2 / sum(part**2 / df for part, df in parts)
    half = scipy_stats.t.ppf(0.975, freedom) * np.sqrt(runs + shared)
    found = mean_change(changes, noise)
    assert found.variance == pytest.approx(runs + shared)
    assert tuple(found.interval()) == pytest.approx((7 / 3, 7 / 3 - half, 7 / 3 + half))


def test_noise_that_two_methods_share_cancels_in_their_difference():
    epochs, rng = np.arange(6), np.random.default_rng(0)
    lucky = np.r_[0.5, -0.2, -0.3, 0.1, 0.4, -0.5]
    one, other = (
        Change({s: c for s, c in enumerate(changes)}, {s: lucky * (epochs >= 0) for s in range(3)})
        for changes in (rng.normal(size=3), rng.normal(size=3))
    )
    gap = one - other
    expected = stats.seed_interval([gap.values[s] for s in range(3)])
    assert tuple(gap.mean().interval()) == pytest.approx(tuple(expected))
    assert one.mean().variance > np.var(list(one.values.values()), ddof=1) / 3


def test_other_stretches_leave_the_runs():
    one = Change({0: 1.0, 1: 2.0}, {0: np.ones(4), 1: np.ones(4)})
    other = Change({0: 0.0, 1: 0.5}, {0: np.ones(6), 1: np.ones(6)})
    assert tuple((one - other).mean().interval()) == pytest.approx(
        tuple(stats.seed_interval([1.0, 1.5]))
    )


def test_one_run_has_no_interval():
    assert isnan(mean_change([1.0], []).interval().low)


@pytest.mark.parametrize("seeds", [3, 6])
@pytest.mark.parametrize("shared", [0.0, 0.5])
def test_a_flat_curve_falls_no_oftener_than_the_interval_says(seeds, shared):
    """2.5 % are nominal; of 600 more than 26 are seen with a chance below one in two hundred."""
    found = since_a_drop.falls(seeds, shared, "21 epochs", 600)
    assert max(found["falls"]["stretches"][0], found["rises"]["stretches"][0]) <= 26 / 600
    if shared:  # what it replaces
        assert found["falls"]["best"][0] > 0.15


def test_the_bars_of_the_figure_are_the_stretches_of_the_change(monkeypatch):
    """The figure of reliable overfitting draws the numbers of its finding, from the records."""
    monkeypatch.setenv("CALIBKIT_CACHE", str(Path(__file__).parent.parent / "data_cache"))
    long = results.load("fmfp").at("cifar10-long")
    runs = long.records("label_smoothing")
    row = long.mean("label_smoothing", metric=["auroc"], since="third_rate")
    row = row["label_smoothing", "auroc"]
    histories = [record.history for record in runs]
    epochs = results.epochs(runs[0], "third_rate")
    numbers = plots.prepare_overfitting(histories, "auroc", stretches=epochs)
    table, change = {"erm": {"auroc": numbers}}, {"erm": {"auroc": row}}
    (ax,) = plots.plot_overfitting_grid(table, since=0.68, rows=change).axes
    first, last = (line for line in ax.lines if line.get_linewidth() == 5)
    assert first.get_xdata().tolist() == [40, 44] and last.get_xdata().tolist() == [56, 60]
    drawn = last.get_ydata()[0] - first.get_ydata()[0]
    assert drawn == pytest.approx(row.estimate, abs=1e-9)
    assert ax.texts[-1].get_text().endswith(row.format().partition(" ")[2])
    low, high = ax.get_ylim()
    assert abs(drawn) > 0.15 * (high - low)  # the fall is seen
    plt.close("all")
