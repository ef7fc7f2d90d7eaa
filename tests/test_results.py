"""One table of results and one comparison: values, intervals and words; tables equal folders."""

from math import isnan

import numpy as np
import pytest

from calibkit import metrics, stats
from calibkit.companion import page, plan, printed, results
from calibkit.companion.results import Number, Series, row
from calibkit.training import store, tables

METHODS = ("label_smoothing", "mixup", "focal", "cs_kd", "l1_norm", "crl", "sam", "swa", "fmfp")


@pytest.fixture(scope="module")
def plain():
    return results.load("fmfp", setting="cifar10-plain")


# --- the ruler ---


def test_margins_are_what_the_papers_print():
    cells = printed.cells()
    median = cells[cells["std"].notna()].groupby("metric")["std"].median()
    for metric, margin in results.MARGINS.items():
        assert margin == pytest.approx(median[metric], rel=1e-6), metric


def test_a_difference_pairs_seeds_and_resamples_by_hand():
    rng = np.random.default_rng(0)
    shared = rng.normal(size=200)
    a = Series({0: 0.9, 1: 0.8, 2: 0.85}, {s: shared + rng.normal(size=200) for s in range(3)}, 9)
    b = Series({1: 0.7, 2: 0.8, 3: 0.1}, {s: shared + rng.normal(size=200) for s in (1, 2, 3)}, 9)
    difference = a - b
    assert difference.values == pytest.approx({1: 0.1, 2: 0.05})
    assert np.array_equal(difference.draws[1], a.draws[1] - b.draws[1])
    found = row(difference, Number("auroc"), to="erm")
    wanted = stats.mean_over_seeds(
        np.array([0.1, 0.05]), np.stack([a.draws[s] - b.draws[s] for s in (1, 2)])
    ).interval()
    assert found.interval == pytest.approx(wanted) and found.seeds == 2
    assert found.covers == "runs and test set"


def test_of_two_test_sets_a_draw_says_nothing_about_the_other():
    draws = {0: np.arange(4.0)}
    here, there = (Series({0: 1.0}, draws, 4, name) for name in ("a/clean", "b/clean"))
    assert np.array_equal((here - here).draws[0], np.zeros(4))
    assert not np.array_equal((here - there).draws[0], np.zeros(4))


def test_one_run_has_no_interval_and_no_word():
    found = row(Series({0: 0.1}), Number("auroc"), to="erm")
    assert isnan(found.low) and found.outcome == "unclear" and found.covers == ""


# --- released records ---


def test_label_smoothing_hides_errors_on_cifar10(plain):
    found = plain.compare("label_smoothing", metric="auroc")["label_smoothing"]
    assert found.estimate == pytest.approx(-0.0122, abs=4e-4)
    assert found.low == pytest.approx(-0.0199, abs=1.5e-3)
    assert found.high == pytest.approx(-0.0045, abs=1.5e-3)
    assert found.outcome == "lower" and found.seeds >= 3


def test_refinement_is_the_nll_after_one_temperature(plain):
    predictions = plain.predictions("erm", seed=0)
    record = plain.records("erm")[0]
    by_hand = metrics.nll(predictions.rescaled().probs, predictions.labels)
    refinement = results.value(record, Number("nll_refinement"))
    assert refinement == pytest.approx(by_hand, abs=1e-4)
    removed = results.value(record, Number("nll_calibration"))
    assert refinement + removed == pytest.approx(
        metrics.nll(predictions.probs, predictions.labels), abs=1e-6
    )
    spread = results.deviation(record, Number("nll_refinement"))
    assert np.array_equal(spread, results.deviation(record, Number("nll", "ts_nll")))


def test_p_norm_gives_label_smoothing_back_what_it_lost(plain):
    gain = plain.compare(
        "label_smoothing", "label_smoothing", score="p_norm", against={"score": "max_probability"}
    )["label_smoothing"]
    assert gain.estimate == pytest.approx(0.0063, abs=1e-3) and gain.outcome == "higher"


def test_a_score_of_its_own_setting_is_compared_by_auroc(plain):
    predictions = plain.predictions("erm", seed=0)
    record = plain.records("erm")[0]
    from calibkit import confidence

    p = confidence.choose_p(predictions.validation_logits, predictions.validation_labels)
    correct = predictions.confident()[1]
    by_hand = metrics.auroc(confidence.p_norm(predictions.logits, p), correct)
    assert results.value(record, Number("auroc", score="p_norm")) == pytest.approx(by_hand)


def test_every_number_of_the_frame_is_there_once_and_is_that_of_compare(plain):
    frame = plain.frame
    key = [c for c in frame if c not in ("value", "n")]
    assert not frame.duplicated(key).any() and len(frame) > 10_000
    wanted = frame[
        (frame.metric == "auroc")
        & (frame.recalibration == "none")
        & (frame.test_set == "clean")
        & (frame.score == "max_probability")
    ].pivot(index="seed", columns="method", values="value")
    for method in METHODS:
        if method in wanted:
            difference = (wanted[method] - wanted["erm"]).dropna().mean()
            assert plain.compare(method)[method].estimate == pytest.approx(difference)


def test_a_column_means_the_same_whatever_it_is_called_or_rounded_to(plain):
    one = plain.compare("sam", metric="ece")["sam"]
    many = plain.compare(["sam", "swa"], metric=["auroc", "ece"])["sam", "ece"]
    assert one.interval == many.interval and one.outcome == many.outcome


def test_what_nobody_measured_is_no_data(plain):
    rows = plain.compare(["sam"], metric="auroc")
    assert rows["nobody"].outcome == "no data" and isnan(rows["nobody"].estimate)
    assert "nobody" not in rows


# --- findings ---


def test_a_finding_is_stated_only_where_its_rows_bear_it_out(plain):
    auroc = plain.compare(["label_smoothing", "sam"])
    stated = page.finding("It hides errors.", (auroc["label_smoothing"], "lower"))
    assert stated.holds and "**It hides errors.**" in stated._repr_markdown_()
    wrong = page.finding("It hides errors.", (auroc["sam"], "lower"))
    assert not wrong.holds and "do not show it" in wrong._repr_markdown_()
    assert "(higher)" in wrong._repr_markdown_()
    with pytest.raises(ValueError, match="unknown outcome 'fewer'"):
        page.finding("It hides errors.", (auroc["sam"], "fewer"))
    with pytest.raises(ValueError, match="at least one row"):
        page.finding("It hides errors.")


# --- tables ---


def test_tables_hold_what_the_folders_hold(tmp_path, monkeypatch, plain):
    runs = [run for m in ("erm", "swa", "fmfp") for run in plain.runs(m) if store.load(run)]
    records = [store.load(run) for run in runs]
    assert any(not r.light for r in records) and all(r.tables is None for r in records)
    tables.write(tmp_path / "released" / "cifar10-plain", records)
    monkeypatch.setenv("CALIBKIT_CACHE", str(tmp_path))
    for run, record in zip(runs, records, strict=True):
        again = store.load(run)
        assert again.tables is not None and again.info == record.info
        for name in ("history", "shifted"):
            ours, theirs = getattr(again, name), getattr(record, name)
            assert ours.keys() == theirs.keys()
            assert all(np.array_equal(ours[k], theirs[k]) for k in ours)
        ours, theirs = again.replicates, record.replicates
        assert set(ours.names) == set(theirs.names) and ours.temperatures == theirs.temperatures
        for name in theirs.names:
            assert ours.estimate(name) == theirs.estimate(name)
            assert np.allclose(
                ours.deviation(name), theirs.deviation(name), rtol=1e-6, equal_nan=True
            )
        assert again.light == record.light
        if not record.light:
            assert again.predictions.read_bytes() == record.predictions.read_bytes()
            assert np.array_equal(again.arrays["test_logits"], record.arrays["test_logits"])


def test_a_local_folder_comes_before_a_row(tmp_path, monkeypatch, plain):
    from shutil import copytree

    (record, *_) = plain.records("erm")
    tables.write(tmp_path / "released" / "cifar10-plain", [record])
    copytree(record.path, tmp_path / "runs" / record.name)
    monkeypatch.setenv("CALIBKIT_CACHE", str(tmp_path))
    assert store.load(plain.runs("erm")[0]).tables is None


def test_every_record_has_one_home():
    homes = results.home()
    assert homes["cifar10-resnet18_w16-erm-s0-a038bbd2"] == "cifar10-plain"
    assert homes["fashion_mnist-cnn-erm-s0-6db124f7"] == "shared"
    assert set(homes) == {run.name for run in plan.runs("all", "released")}
