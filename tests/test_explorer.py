"""The explorer without a browser: a slider moved is a value set, and pictures are bytes."""

import math
import re
import time

import numpy as np
import pytest

from calibkit import metrics, plots, posthoc, stats
from calibkit.arrays import softmax
from calibkit.companion import explorer as explore
from calibkit.companion import plan
from calibkit.report import predictions
from calibkit.training import store
from tests.records import write


def make(n=1000, k=10, temperature=2.0, seed=0, validation=True):
    rng = np.random.default_rng(seed)
    logits = 2 * rng.normal(size=(n, k)).astype(np.float32)
    labels = (softmax(logits).cumsum(1) > rng.random((n, 1))).argmax(1)
    arrays = {"logits": temperature * logits, "labels": labels}
    if validation:
        arrays |= {"val_logits": temperature * logits[::2], "val_labels": labels[::2]}
    return predictions.from_arrays(arrays)


MODELS = {
    ("erm", 0, 5): make(seed=1, validation=False),
    ("erm", 0, 9): make(),
    ("mixup", 0, 5): make(temperature=0.7, validation=False),
    ("mixup", 0, 9): make(temperature=0.5),
    ("mixup", 1, 9): make(temperature=0.5, seed=2),
}


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("CALIBKIT_CACHE", str(tmp_path))


def pictures(explorer):
    return {name: image.value for name, image in explorer.pictures.items()}


def test_numbers_are_those_of_the_library():
    data = MODELS["erm", 0, 9]
    found = explore.numbers(data, temperature=1.7, bins=11, threshold=0.6)
    probs = softmax(data.logits / 1.7)
    confidence, correct = probs.max(1), probs.argmax(1) == data.labels
    expected = metrics.summary(data.logits / 1.7, data.labels)
    for name, value in found["metrics"].items():
        if name != "ece":
            assert value == pytest.approx(expected[name], rel=1e-5), name
    assert found["metrics"]["ece"] == pytest.approx(metrics.ece(probs, data.labels, 11), rel=1e-5)
    accept, point = confidence >= 0.6, found["point"]
    assert point["accepted"] == accept.sum() and point["coverage"] == accept.mean()
    assert point["risk"] == pytest.approx((~correct[accept]).mean())
    assert (point["low"], point["high"]) == stats.wilson((~correct[accept]).sum(), accept.sum())
    assert len(found["reliability"]["share"]) == len(found["histogram"]["edges"]) - 1 == 11


def test_a_slider_redraws_what_depends_on_it_and_nothing_else():
    explorer = explore.Explorer(MODELS)
    for slider, value, changed in (
        ("temperature", 3.0, {"reliability", "histogram", "risk_coverage"}),
        ("bins", 7, {"reliability", "histogram"}),
        ("threshold", 0.4, {"histogram", "risk_coverage"}),
        ("method", "mixup", {"reliability", "histogram", "risk_coverage"}),
        ("epoch", 5, {"reliability", "histogram", "risk_coverage"}),
    ):
        before, words = pictures(explorer), explorer._words.value
        getattr(explorer, slider).value = value
        after = pictures(explorer)
        assert {name for name in after if after[name] != before[name]} == changed, slider
        assert explorer._words.value != words, slider


def test_after_many_moves_the_pictures_are_those_of_a_new_explorer():
    """Axes are emptied and used again: nothing of what was there before may shine through."""
    moved = explore.Explorer(MODELS)
    for temperature, bins, threshold in ((0.3, 40, 0.0), (5.0, 3, 1.0), (1.5, 12, 0.7)):
        moved.temperature.value, moved.bins.value = temperature, bins
        moved.threshold.value = threshold
    moved.method.value, moved.epoch.value = "mixup", 5
    fresh = explore.Explorer({("mixup", 0, 5): MODELS["mixup", 0, 5]}, 1.5, 12, 0.7)
    assert moved._words.value == fresh._words.value
    for name in fresh.pictures:
        assert contents(moved, name) == contents(fresh, name), name


def contents(explorer, name):
    (ax,) = explorer._figures[name].axes
    artists = [len(kind) for kind in (ax.lines, ax.patches, ax.collections, ax.texts)]
    return artists, len(ax.containers), ax.get_xlim(), ax.get_ylim(), ax.get_yscale()


def test_the_same_setting_is_the_same_picture_again():
    explorer = explore.Explorer(MODELS)
    before = pictures(explorer)
    for slider, value, back in (("temperature", 4.0, 1.0), ("bins", 30, 15), ("threshold", 0, 0.9)):
        getattr(explorer, slider).value = value
        getattr(explorer, slider).value = back
    assert pictures(explorer) == before


def test_fit_moves_the_temperature_where_the_validation_set_wants_it():
    explorer = explore.Explorer(MODELS)
    data = MODELS["erm", 0, 9]
    assert explorer.data is data and not explorer.fit.disabled
    explorer.fit.click()
    expected, _ = posthoc.optimal_temperature(data.val_logits, data.val_labels, "nll")
    assert explorer.temperature.value == pytest.approx(expected)
    assert explorer.now["metrics"]["ece"] < explorer.before["metrics"]["ece"]
    assert explorer.now["metrics"]["accuracy"] == explorer.before["metrics"]["accuracy"]
    explorer.epoch.value = 5  # of which there are no validation scores
    assert explorer.fit.disabled


def test_what_is_not_there_is_said():
    explorer = explore.Explorer(MODELS)
    before = pictures(explorer)
    explorer.seed.value = 1
    assert explorer.data is None and explorer.fit.disabled
    assert "No predictions" in explorer._words.value and pictures(explorer) == before
    explorer.method.value = "mixup"
    assert "No predictions" not in explorer._words.value and pictures(explorer) != before


def test_only_what_can_be_chosen_is_offered():
    def offered(explorer):
        return set(explorer.children[0].children[0].children)

    several, one = explore.Explorer(MODELS), explore.Explorer({("your model", 0, 0): make()})
    assert {several.method, several.seed, several.epoch} <= offered(several)
    assert not {one.method, one.seed, one.epoch} & offered(one)
    assert {one.temperature, one.bins, one.threshold, one.fit} <= offered(one)
    with pytest.raises(ValueError, match="models: got nothing to show"):
        explore.Explorer({})


def test_records_with_their_snapshots(tmp_path):
    (run,) = plan.select("smoke", ["mixup"], seeds=1)
    record = write(run, n=100, k=5)
    arrays = dict(record.arrays)
    arrays |= {
        "snapshot_epochs": np.array([1, 3]),
        "snapshot_logits": np.random.default_rng(0).normal(size=(2, 80, 5)).astype(np.float32),
    }
    record.__dict__["arrays"] = arrays  # as if the training had taken them
    found = explore.from_records({"mixup": [record]})
    last = record.info["run"]["protocol"]["epochs"]
    assert list(found) == [("mixup", 0, 1), ("mixup", 0, 3), ("mixup", 0, last)]
    early, late = found["mixup", 0, 3], found["mixup", 0, last]
    np.testing.assert_array_equal(early.logits, arrays["snapshot_logits"][1])
    np.testing.assert_array_equal(early.labels, arrays["test_labels"][:80])
    assert early.val_logits is None
    np.testing.assert_array_equal(late.logits, arrays["test_logits"])
    np.testing.assert_array_equal(late.val_labels, arrays["validation_labels"])
    light = store.lighten(write(run, n=100, k=5), whole=False)
    assert not explore.from_records({"mixup": [light]})


ODD = {
    "all right": lambda z, y: (z, z.argmax(1)),
    "all wrong": lambda z, y: (z, z.argmin(1)),
    "one confidence only": lambda z, y: (np.zeros_like(z), y),
    "certain": lambda z, y: (1000 * z, y),
    "one sample": lambda z, y: (z[:1], y[:1]),
}


@pytest.mark.parametrize("change", ODD.values(), ids=ODD)
def test_odd_data_are_shown(change):
    base = make(n=60)
    logits, labels = change(base.logits, base.labels)
    data = predictions.from_arrays({"logits": logits, "labels": labels})
    explorer = explore.Explorer({("your model", 0, 0): data})
    for threshold in (0.0, 0.5, 1.0):
        explorer.threshold.value = threshold
    point = explorer.now["point"]
    assert point["accepted"] or math.isnan(point["risk"])
    assert "nan" not in explorer._words.value


def test_the_table_brings_its_sheet_and_has_no_style_of_its_own():
    found = explore.numbers(MODELS["erm", 0, 9])
    sheet, _, table = explore.table(found, found).partition("</style>")
    assert "style=" not in table
    (classes,) = re.findall("class='(.*?)'", table)
    rules = re.findall(r"^table\.([.\w-]+)", sheet, re.MULTILINE)
    assert rules and all(set(rule.split(".")) <= set(classes.split()) for rule in rules)


def test_figure_and_table_show_the_numbers():
    data = MODELS["mixup", 0, 9]
    found, before = explore.numbers(data, 0.5), explore.numbers(data)
    fig = explore.figure(found, "mixup")
    words = " ".join(text.get_text() for ax in fig.axes for text in ax.texts)
    assert f"ECE {100 * found['metrics']['ece']:.1f} %" in words and "Mixup" in words
    html = explore.table(found, before).replace("\u00a0", " ")
    for name in ("accuracy", "ece", "auroc"):
        assert f"{100 * found['metrics'][name]:.1f} %" in html
        assert f"{100 * before['metrics'][name]:.1f} %" in html
    plots.plt.close(fig)


def test_a_redraw_is_fast_enough_to_follow_a_slider():
    """About 80 ms of one core for all three pictures; twice and a half that is a failure."""
    explorer = explore.Explorer({("your model", 0, 0): make(n=10_000)})
    times = []
    for temperature in np.linspace(0.5, 3, 9):
        start = time.process_time()
        explorer.temperature.value = temperature
        times.append(time.process_time() - start)
    assert np.median(times) < 0.2
