"""The report says what the metrics say, judges nothing on what it was chosen on, escapes all."""

import base64
import json
import math
import re
import subprocess
import sys
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from calibkit import cli, explorable, metrics, posthoc, report, stats, terms
from calibkit.arrays import softmax
from calibkit.report import (
    as_tables,
    assessment,
    deploy,
    estimates,
    groups,
    html,
    predictions,
    recalibration,
    text,
    written,
)
from calibkit.report import page as html_page
from calibkit.report.design import Design
from calibkit.stats import Interval
from tests.browser import Figure, browser, percent, visit


def make(n=600, k=4, temperature=1.0, seed=0, validation=0, skill=2.0, **more):
    """Samples whose labels are drawn from softmax(logits), then divided by the temperature."""
    rng = np.random.default_rng(seed)
    logits = skill * rng.normal(size=(n + validation, k))
    labels = (softmax(logits).cumsum(1) > rng.random((len(logits), 1))).argmax(1)
    logits /= temperature
    arrays = {"logits": logits[:n], "labels": labels[:n]}
    if validation:
        arrays |= {"val_logits": logits[n:], "val_labels": labels[n:]}
    return predictions.from_arrays(arrays | more, "test model")


FEW = 60  # replicates are enough here


@pytest.fixture(scope="module", autouse=True)
def quick():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(estimates, "replicates", lambda n: FEW)
        yield


@pytest.fixture(scope="module")
def data():
    return make(groups=np.array(["a", "b"])[np.arange(600) % 2])


@pytest.fixture(scope="module")
def numbers(data):
    return assessment.assess(data)


@pytest.fixture(scope="module")
def built(data, tmp_path_factory):
    """A report on the same data, in a folder that was not there."""
    return report.build(data, tmp_path_factory.mktemp("report") / "new" / "folder")


class Page(HTMLParser):
    """Tags, attributes and text of a page."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.attributes, self.words, self.scripts = [""], [], [], []
        self.feed(text)
        self.text = " ".join("".join(self.words).split())

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [(tag, *attribute) for attribute in attrs]

    def handle_data(self, data):
        if self.tags[-1] == "script":
            self.scripts.append(data)
        elif self.tags[-1] != "style":
            self.words.append(data)


# --- numbers ---


def test_json_repeats_the_metrics(built, data, numbers):
    written = json.loads(built.with_suffix(".json").read_text())
    expected = metrics.summary(data.logits, data.labels)
    assert written["samples"] == expected.pop("n") == 600
    assert set(written["metrics"]) == set(expected)
    for name, value in expected.items():
        assert written["metrics"][name]["estimate"] == pytest.approx(value, rel=1e-12), name
    names = [*metrics.ranked_metrics(), "nll", "brier", "classwise_ece"]
    for name, interval in stats.bootstrap(data.logits, data.labels, names, n=FEW).items():
        assert written["metrics"][name]["low"] == interval.low, name
        assert written["metrics"][name]["high"] == interval.high, name
    without = set(expected) - set(names)
    assert without and all(written["metrics"][name]["low"] is None for name in without)
    gap = expected["confidence"] - expected["accuracy"]
    assert written["gap"]["estimate"] == pytest.approx(gap)
    assert sum(written["reliability"]["count"]) == 600
    assert written["verdict"] == text.verdict(numbers)


def test_gap_has_the_textbook_interval(data, numbers):
    from scipy.stats import ttest_1samp

    found = metrics.per_sample(data.logits, data.labels)
    expected = ttest_1samp(found["confidence"] - found["correct"], 0).confidence_interval()
    assert numbers.gap.low == pytest.approx(expected.low)
    assert numbers.gap.high == pytest.approx(expected.high)


def test_a_few_samples_that_are_all_right_are_no_certainty():
    """60 of 60 right at 0.99 each: 0.99 promises no error in more than half of such samples."""
    confidence = np.random.default_rng(0).normal(0.99, 0.001, 60)
    (row,) = groups.by_group(np.zeros(60), confidence, np.ones(60, bool), None)
    assert row["gap"].estimate == pytest.approx(-0.01, abs=1e-3)
    assert row["gap"].low < 0 < row["gap"].high and not row["stands_out"]
    (row,) = groups.by_group(np.zeros(60), confidence - 0.2, np.ones(60, bool), None)
    assert row["stands_out"]


@pytest.mark.parametrize(("n", "chance"), [(30, 0.97), (200, 0.97), (200, 0.6), (2000, 0.9)])
def test_gap_interval_keeps_its_promise(n, chance):
    rng, inside = np.random.default_rng(1), 0
    for _ in range(300):
        confidence = rng.beta(20 * chance, 20 * (1 - chance), n)
        gap = estimates.gap(confidence, rng.random(n) < confidence, Design(n))
        inside += gap.low <= 0 <= gap.high
    assert inside / 300 > 0.92


def test_chance_ece_covers_a_calibrated_model_and_no_other():
    inside = 0
    for seed in range(20):
        data = make(n=1000, seed=seed)
        confidence, correct = data.test.scored()
        chance = estimates.chance_ece(confidence, 100, data.design, correct)
        ece = metrics.ece(softmax(data.logits), data.labels)
        inside += chance.low <= ece <= chance.high
    assert 16 <= inside <= 20
    sharp = assessment.assess(make(n=1000, temperature=0.5))
    assert sharp.metrics["ece"].estimate > 2 * sharp.chance_ece.high
    # One number, wherever the page prints it.
    expected = metrics.ece_floor(softmax(make(n=1000, temperature=0.5).logits))
    assert sharp.chance_ece.estimate == sharp.metrics["ece_floor"].estimate
    assert sharp.chance_ece.estimate == pytest.approx(expected, rel=1e-12)
    words = f"a perfectly calibrated model would show {100 * expected:.2f}\u00a0% ["
    assert words in text.verdict(sharp)[0]["text"]


def test_operating_points_by_counting():
    confidence = [0.95, 0.9, 0.85, 0.8, 0.75, 0.7, 0.65, 0.6, 0.58, 0.55]
    logits = np.log(np.c_[confidence, 1 - np.array(confidence)])
    wrong = [0, 0, 0, 1, 0, 1, 0, 1, 1, 1]
    test_labels = [0, 0, 1, 0, 0, 0, 1, 1, 1, 1]
    arrays = {"logits": logits, "labels": test_labels}
    arrays |= {"val_logits": logits, "val_labels": wrong}
    point, none = assessment.operating_points(predictions.from_arrays(arrays), [0.35, 0.001])[::-1]
    # On the validation set 2 of the 7 above 0.65 are wrong, and 3 of 8 would be too many.
    assert 0.6 < point["threshold"] <= 0.65
    assert (point["accepted"], point["wrong"]) == (7, 2)  # of the test set
    assert point["coverage"].estimate == 0.7 and point["risk"].estimate == 2 / 7
    assert point["kept"] is None
    assert 0.8 < none["threshold"] <= 0.85  # three in a row are right
    assert (none["accepted"], none["wrong"]) == (3, 1)


def test_a_target_out_of_reach_has_no_threshold():
    logits = np.c_[np.linspace(1, 2, 40), np.zeros(40)]
    labels = (np.arange(40) % 2 == 0).astype(int)[::-1]  # the surest one is wrong
    labels[-1] = 1
    data = predictions.from_arrays({"logits": logits, "labels": labels})
    (point,) = assessment.operating_points(data, [0.01])
    assert point["threshold"] is None and point["accepted"] == 0
    assert math.isnan(point["risk"].estimate) and point["kept"] is None
    numbers = assessment.assess(data, target_risk=[0.01])
    assert as_tables.tables(numbers)["operating_points"]["Threshold"].tolist() == ["–"]
    assert numbers.main_point is None
    assert text._on_threshold(numbers)["title"] == "No threshold to recommend"


def test_a_threshold_is_recommended_only_if_it_clearly_helps():
    for seed in range(10):  # confidence says nothing of errors
        rng = np.random.default_rng(seed)
        logits = 2.5 * rng.normal(size=(200, 3))
        wrong = rng.random(200) < 0.1
        data = predictions.from_arrays({"logits": logits, "labels": (logits.argmax(1) + wrong) % 3})
        numbers = assessment.assess(data)
        assert text.verdict(numbers)[2]["title"] == "No threshold to recommend", seed
        assert "Accepted" not in as_tables.tables(numbers)["predicted"]
    useful = assessment.assess(make(n=2000))
    assert text.verdict(useful)[2]["title"].startswith("Accept answers with a confidence of ")
    assert "Accepted" in as_tables.tables(useful)["predicted"]


def test_where_nothing_is_wrong_no_threshold_is_missed(tmp_path):
    logits = np.random.default_rng(0).normal(size=(300, 3))
    np.savez(tmp_path / "right.npz", logits=logits, labels=logits.argmax(1))
    page = report.build(tmp_path / "right.npz", tmp_path / "report.html", as_is=True).read_text()
    assert "No threshold needed" in page and "recommended above" not in page
    assert 'data-of="Accepted"' not in page


def test_a_temperature_at_the_end_of_its_range_is_not_recommended():
    logits = 3 * np.eye(3)[np.arange(500) % 3]
    labels = logits.argmax(1)
    labels[0] = 1
    arrays = {"logits": logits, "labels": labels}
    arrays |= {"val_logits": logits[1:6], "val_labels": labels[1:6]}
    numbers = assessment.assess(predictions.from_arrays(arrays))
    found = numbers.recalibration["temperature scaling"]
    assert found["temperatures"] == [pytest.approx(3e-3, rel=1e-3)]
    assert not text.verdict(numbers)[3]["title"].startswith("Temperature")


def test_a_confidence_printed_as_1_does_not_decide_the_temperature_of_pairs():
    rng = np.random.default_rng(0)
    confidence = rng.beta(6, 1.5, 2000)
    correct = rng.random(2000) < 0.85 * confidence
    correct[confidence > 0.995] = False
    assert (confidence.round(2) == 1).any()
    found = [
        assessment.recalibrated(predictions.from_arrays({"confidence": c, "correct": correct}))[0]
        for c in (confidence, confidence.round(2))
    ]
    fits = [np.mean(its["temperature scaling"]["temperatures"]) for its in found]
    assert fits[1] == pytest.approx(fits[0], rel=0.1)  # a 1 taken at its word made it 250


def test_no_command_is_recommended_that_refuses_pairs():
    rng = np.random.default_rng(0)
    pairs = {"confidence": rng.beta(5, 2, 500), "correct": rng.random(500) < 0.7}
    numbers = assessment.assess(predictions.from_arrays(pairs))
    (card,) = [c for c in text.verdict(numbers) if c["title"] == "Beta calibration would help"]
    assert "calibkit recalibrate" not in card["text"]


def test_the_share_of_errors_is_rounded_in_one_way():
    logits = np.tile([2.0, 0.0, 0.0], (2000, 1))
    labels = (np.arange(2000) < 979).astype(int)  # 48.95 %, and 1 - 0.5105 is a little more
    numbers = assessment.assess(predictions.from_arrays({"logits": logits, "labels": labels}))
    said = " ".join(c["text"] for c in text.verdict(numbers)).replace("\u00a0", " ")
    assert "(48.9 %)" in said and "means 48.9 % errors" in said


def test_a_gain_on_samples_of_the_fit_is_not_promised():
    data = make(n=600, temperature=0.3)
    arrays = {"logits": data.logits, "labels": data.labels}
    arrays |= {"val_logits": data.logits, "val_labels": data.labels}
    answer = text.verdict(assessment.assess(predictions.from_arrays(arrays)))[3]
    assert "may help" in answer["title"] and answer["tone"] == "unsure"
    assert "partly on samples it was fitted on" in answer["text"]


def test_without_a_validation_set_thresholds_are_not_judged_on_their_own_samples():
    """Pure noise: a threshold chosen and judged on the same samples always keeps its target."""
    kept = []
    for seed in range(30):
        rng = np.random.default_rng(seed)
        noise = {"logits": rng.normal(size=(200, 2)), "labels": rng.integers(0, 2, 200)}
        data = predictions.from_arrays(noise)
        found = metrics.per_sample(data.logits, data.labels)
        (point,) = assessment.operating_points(data, [0.3])
        if point["threshold"]:
            own = found["confidence"] >= point["threshold"]
            assert (~found["correct"][own]).mean() <= 0.3
        if not math.isnan(point["risk"].estimate):
            kept.append(point["risk"].estimate)
    assert np.mean(kept) > 0.4


@pytest.mark.parametrize("n", [10, 11, 999, 20_001])
def test_folds_share_nothing_and_leave_nothing_out(n):
    folds = estimates.folds(n)
    assert sorted(np.concatenate([rest for _, rest in folds])) == list(range(n))
    for fit, rest in folds:
        assert sorted([*fit, *rest]) == list(range(n))


def test_recalibrations_see_no_sample_that_they_are_judged_on(monkeypatch):
    class Spy:
        """Fails if it meets a row again; returns the probabilities as they are."""

        def fit(self, logits, labels):
            self.known = {row.tobytes() for row in logits}
            self.size = len(logits)
            assert self.size >= 60
            return self

        def predict_proba(self, logits):
            assert not any(row.tobytes() in self.known for row in logits)
            return softmax(logits)

    monkeypatch.setattr(recalibration, "RECALIBRATIONS", {"spy": Spy, "temperature scaling": Spy})
    for data in (make(n=103), make(n=50, validation=60)):
        found, _ = assessment.recalibrated(data)
        values = metrics.summary(data.logits, data.labels)
        for name in ("accuracy", "ece", "adaptive_ece", "nll", "brier", "auroc", "aurc"):
            assert found["none"][name] == pytest.approx(values[name])
            assert found["spy"][name] == pytest.approx(values[name])


def test_recalibration_with_a_validation_set_is_that_of_posthoc():
    data = make(n=300, validation=400, temperature=0.4)
    found, _ = assessment.recalibrated(data)
    for name, kind in recalibration.RECALIBRATIONS.items():
        model = kind().fit(data.val_logits, data.val_labels)
        probs = model.predict_proba(data.logits)
        assert found[name]["ece"] == pytest.approx(metrics.ece(probs, data.labels))
        assert found[name]["brier"] == pytest.approx(metrics.brier(probs, data.labels))
        assert found[name]["nll"] == pytest.approx(metrics.nll(probs, data.labels))
        change = found[name]["brier_change"]
        before = metrics.brier(softmax(data.logits), data.labels)
        assert change.estimate == pytest.approx(found[name]["brier"] - before)
    (temperature,) = found["temperature scaling"]["temperatures"]
    assert temperature == pytest.approx(
        posthoc.optimal_temperature(data.val_logits, data.val_labels, "nll")[0]
    )


def test_probability_zero_is_an_infinite_nll():
    data = make(n=40, skill=8, validation=100)
    found = assessment.recalibrated(data)[0]["histogram binning"]
    probs = posthoc.HistogramBinning().fit(data.val_logits, data.val_labels)
    probs = probs.predict_proba(data.logits)
    assert (probs[np.arange(40), data.labels] == 0).any()  # the case is there
    assert found["nll"] == math.inf == metrics.nll(probs, data.labels)
    numbers = assessment.assess(data)
    assert html.plain(numbers)["recalibration"]["histogram binning"]["nll"] == "inf"
    assert as_tables.tables(numbers)["recalibration"].loc["histogram binning", "NLL"] == "∞"


def test_groups_by_counting(data, numbers):
    found = metrics.per_sample(data.logits, data.labels)
    for row in numbers.groups:
        mine = data.groups == row["group"]
        confidence, correct = found["confidence"][mine], found["correct"][mine]
        assert row["samples"] == 300
        assert row["errors"] == (~correct).sum()
        assert row["accuracy"].estimate == correct.mean()
        assert row["gap"].estimate == pytest.approx(confidence.mean() - correct.mean())
        assert row["auroc"] == metrics.auroc(confidence, correct)
        accept = confidence >= numbers.main_point["threshold"]
        assert row["coverage"].estimate == pytest.approx(accept.mean())
        assert row["risk"].estimate == pytest.approx((~correct[accept]).mean())
    sizes = [row["samples"] for row in numbers.predicted]
    assert sum(sizes) == 600 and sizes == sorted(sizes, reverse=True)
    assert {row["group"] for row in numbers.predicted} == set("0123")


def test_a_group_that_is_off_is_found():
    group = np.repeat(["fine", "off"], 1000)
    good, bad = make(n=1000), make(n=1000, temperature=0.3, seed=1)
    logits, labels = np.r_[good.logits, bad.logits], np.r_[good.labels, bad.labels]
    data = predictions.from_arrays({"logits": logits, "labels": labels, "groups": group})
    numbers = assessment.assess(data)
    assert {row["group"]: row["stands_out"] for row in numbers.groups} == {
        "fine": False,
        "off": True,
    }
    assert "1 of 2 groups, most in “off” (+" in text.verdict(numbers)[0]["text"]
    assert as_tables.tables(numbers)["groups"].loc["off", "Verdict"] == "over-confident"


def test_comparison_is_paired(data):
    worse = make(temperature=0.4)
    numbers = assessment.assess(data, worse)
    (pair,) = numbers.comparison["pairs"]
    names = list(pair["difference"])
    assert {*metrics.ranked_metrics(), "nll", "brier"} == set(names)
    expected = stats.compare(data.logits, worse.logits, data.labels, names, n=FEW)
    assert pair["difference"] == expected
    better = as_tables.tables(numbers)["comparison"].iloc[:, -1].str[-1]
    assert better["Excess ECE (%)"] == better["NLL"] == "✓"
    assert better["ECE (%)"] == better["MCE (%)"] == "]"  # see its excess
    assert better["Accuracy (%)"] == "]"  # a temperature changes no answer
    back = assessment.assess(worse, data)
    assert as_tables.tables(back)["comparison"].loc["Excess ECE (%)"].iloc[-1][-1] == "✗"
    assert "better in excess ECE" in text.verdict(numbers)[-1]["text"]
    assert "worse in excess ECE" in text.verdict(back)[-1]["text"]
    found = metrics.per_sample(worse.logits, worse.labels)
    off = 100 * np.mean(found["confidence"] - found["correct"])
    assert off > 5 and f"over-confident by {off:.1f}" in text.verdict(back)[-1]["text"]
    low = assessment.assess(data, make(temperature=20.0))
    assert "the other model under-confident by" in text.verdict(low)[-1]["text"]
    same = assessment.assess(data, data)
    assert text.verdict(same)[-1]["title"] == "No clear difference from the other model"


def test_many_samples_are_thinned_out_and_it_is_said(monkeypatch, data):
    monkeypatch.setattr(assessment, "ROWS", 500)
    numbers = assessment.assess(data, make(temperature=2.0))
    assert numbers.samples == 500
    assert numbers.notes == ["All numbers come from a random 500 of the 600 samples."]
    (pair,) = numbers.comparison["pairs"]
    assert pair["difference"]["accuracy"].estimate == 0  # of the same samples


def test_each_sample_is_looked_at_once(monkeypatch):
    """Confidence and scores of the test set are computed once and handed to every part."""
    seen, per_sample = [], metrics.per_sample
    monkeypatch.setattr(
        metrics, "per_sample", lambda z, *more: seen.append(z.shape) or per_sample(z, *more)
    )
    monkeypatch.setattr(recalibration, "RECALIBRATIONS", {})
    data, other = make(n=4000, k=60, validation=500), make(n=4000, k=60, validation=500, seed=0)
    numbers = assessment.assess(data, other)
    assert seen == [(4000, 60), (500, 60), (4000, 60)]  # test, validation, the other model
    _, found = numbers.comparison["metrics"].values()
    found = {name: interval.estimate for name, interval in found.items()}
    names = list(found)
    expected = metrics.summary(other.logits, other.labels)
    assert found == pytest.approx({name: expected[name] for name in names}, rel=1e-12)
    whole = stats.bootstrap(data.logits, data.labels, ["brier", "nll", "aurc"], n=FEW)
    for name, interval in whole.items():
        assert numbers.metrics[name] == pytest.approx(interval, rel=1e-12)


def test_every_metric_of_the_table_has_its_own_name_and_explanation(numbers):
    table = as_tables.tables(numbers)["metrics"]
    shown = [name for name in numbers.metrics if not name.startswith("eq9_")]
    assert table.index.tolist() == [terms.METRICS[name][0] for name in shown]
    assert table.index.is_unique and table["What it is"].is_unique


# --- words ---


@pytest.mark.parametrize(
    ("temperature", "title", "words"),
    [
        (0.3, "Strongly over-confident", "too much"),
        (3.0, "Strongly under-confident", "too little"),
        (1.0, "No sign of miscalibration", "apart"),
    ],
)
def test_verdict_on_calibration(temperature, title, words):
    found = text.verdict(assessment.assess(make(n=2000, temperature=temperature)))
    assert found[0]["title"] == title and words in found[0]["text"]
    helps = (
        "No clear gain from recalibration" if temperature == 1 else "Temperature scaling would help"
    )
    assert found[3]["title"] == helps
    if temperature != 1:
        said = float(re.search(r"The temperature is (\d\.\d\d)", found[3]["text"])[1])
        assert said == pytest.approx(1 / temperature, rel=0.1)


def test_verdict_on_errors():
    def title(auroc, errors=100):
        found = {"auroc": Interval(auroc, auroc - 0.02, auroc + 0.02)}
        numbers = SimpleNamespace(errors=errors, samples=1000, metrics=found, positive=None)
        return text._on_errors(numbers)["title"]

    assert title(0.95) == "Errors stand out well"
    assert title(0.85) == "Errors stand out fairly well"
    assert title(0.7) == "Errors stand out poorly"
    assert title(0.4) == "Errors hardly stand out"
    assert title(0.95, errors=20) == "Errors stand out well, judging by few samples"
    assert title(0.95, errors=9) == "Too few errors to say"
    assert title(math.nan, errors=0) == "Too few errors to say"
    assert title(math.nan, errors=1000) == "Too few right answers to say"


def test_the_headline_threshold_halves_the_errors():
    numbers = assessment.assess(make(n=4000, skill=4))
    error = 1 - numbers.metrics["accuracy"].estimate
    point = numbers.main_point
    assert point["target"] <= error / 2
    larger = [p["target"] for p in numbers.operating_points if p["target"] > point["target"]]
    assert all(target > error / 2 for target in larger)
    assert written.percent(point["coverage"]) in text.verdict(numbers)[2]["text"]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (Interval(0.7134, 0.69, 0.73), "71.3 % [69.0, 73.0]"),
        (Interval(0.0101, 0.008, 0.013), "1.01 % [0.80, 1.30]"),
        (Interval(0.1234, 0.12336, 0.12344), "12.3400 % [12.3360, 12.3440]"),
        (Interval(0.1, -0.001, 0.3), "10.0 % [−0.1, 30.0]"),
        (Interval(0.5, 0.5, 0.5), "50.0 % [50.0, 50.0]"),
        (Interval(0.0, 0.0, 0.0), "0.0 % [0.0, 0.0]"),
        (Interval(math.nan, math.nan, math.nan), "–"),
        (0.25, "25.0 %"),
        (math.inf, "∞"),
    ],
)
def test_percentages_are_as_precise_as_they_are_sure(value, expected):
    assert written.percent(value).replace("\u00a0", " ") == expected


@pytest.mark.parametrize(
    ("confidence", "expected"),
    [
        (0.5, "0.50"),
        (0.93, "0.930"),
        (0.99987, "0.99987"),
        (0.8125, "0.8125"),
        (1.0, "1"),
        (None, "–"),
    ],
)
def test_thresholds_have_all_digits_and_two_of_what_they_lack(confidence, expected):
    assert written.decimals(confidence) == expected


def cautions_of(data):
    return " ".join(text.cautions(assessment.assess(data)))


def test_cautions():
    assert text.cautions(assessment.assess(make(n=2000))) == []
    data = make(n=200)
    leaked = {"logits": data.logits, "labels": data.labels}
    leaked |= {"val_logits": data.logits, "val_labels": data.labels}
    words = "200 of 200 samples have scores identical to those of a validation sample"
    assert words in cautions_of(predictions.from_arrays(leaked))

    assert "Only 0 of 200 answers are wrong" in cautions_of(
        predictions.from_arrays({"logits": data.logits, "labels": data.logits.argmax(1)})
    )
    shifted = {"logits": data.logits, "labels": np.repeat([0, 1], [150, 50])}
    words = cautions_of(predictions.from_arrays(shifted))
    assert "most common class (75.0\u00a0%)" in words and "2 of 4 classes never occur" in words
    rounded = {"logits": np.c_[np.arange(200) % 3, np.zeros(200)], "labels": np.arange(200) % 2}
    words = cautions_of(predictions.from_arrays(rounded))
    assert "only 3 distinct confidences" in words
    certain = {"logits": 100 * np.eye(2)[np.arange(200) % 2], "labels": np.arange(200) // 100}
    words = cautions_of(predictions.from_arrays(certain))
    assert "100.0\u00a0% of the confidences are exactly 1" in words
    assert "In 100 of 200 samples the true class was given a probability of 0" in words


def leaves(n, seed):
    """A decision tree: eight different rows of scores."""
    rows = np.random.default_rng(0).dirichlet(np.ones(3), 8)
    rng = np.random.default_rng(seed)
    probs = rows[rng.integers(8, size=n)]
    return probs, (probs.cumsum(1) > rng.random((n, 1))).argmax(1)


def test_equal_scores_are_not_taken_for_equal_samples():
    """A tree shares all its scores with the validation set, without sharing a sample."""
    (p, y), (q, z) = leaves(900, 1), leaves(900, 2)
    data = predictions.from_arrays({"probs": p, "labels": y, "val_probs": q, "val_labels": z})
    numbers = assessment.assess(data)
    assert numbers.checks["overlap"] == 900 == numbers.checks["tied"]
    words = " ".join(text.cautions(numbers))
    assert "identical" not in words and "distinct confidences" in words
    assert "may help" not in text.verdict(numbers)[3]["title"]
    # Half of a test set without ties that is also in the validation set is still found.
    data = make(n=600, seed=3)
    more = make(n=300, seed=4)
    arrays = {"logits": data.logits, "labels": data.labels}
    arrays |= {"val_logits": np.r_[data.logits[:300], more.logits]}
    arrays |= {"val_labels": np.r_[data.labels[:300], more.labels]}
    numbers = assessment.assess(predictions.from_arrays(arrays))
    assert (numbers.checks["overlap"], numbers.checks["tied"]) == (300, 0)
    assert "300 of 600 samples have scores identical" in " ".join(text.cautions(numbers))


def scores_of(brier, nll, change, **more):
    """What a map makes of samples, of which only these numbers matter."""
    others = dict.fromkeys(("accuracy", "ece", "adaptive_ece", "auroc", "aurc"), 0.5)
    return recalibration.MapScores(
        **others, nll=nll, brier=brier, brier_change=change, changed=0, judged_on=100, **more
    )


def test_a_map_with_an_infinite_nll_is_not_recommended():
    def row(brier, nll):
        change = brier - 0.5
        return scores_of(brier, nll, Interval(change, change, change / 2))

    results = {"none": row(0.5, 1.0), "temperature scaling": row(0.4, 0.9)}
    results |= {"isotonic regression": row(0.3, math.inf), "histogram binning": row(0.35, 1.1)}
    assert assessment.recommended(results) == "temperature scaling"
    at_end = replace(results["temperature scaling"], at_end=True)
    results["temperature scaling"] = at_end
    assert assessment.recommended(results) is None


def test_another_map_than_the_temperature_is_recommended_only_if_it_is_better_beyond_chance():
    def row(brier, beyond):
        change = Interval(brier - 0.5, brier - 0.52, brier - 0.48)
        return scores_of(brier, 0.9, change, brier_beyond=beyond)

    sure, unsure = Interval(-0.02, -0.03, -0.01), Interval(-0.04, -0.09, 0.01)
    results = {"none": row(0.5, None), "temperature scaling": row(0.4, Interval(0.0, 0.0, 0.0))}
    results |= {
        "structured matrix scaling": row(0.38, sure),
        "histogram binning": row(0.36, unsure),
    }
    assert assessment.recommended(results) == "structured matrix scaling"
    results["histogram binning"] = row(0.36, sure)
    assert assessment.recommended(results) == "histogram binning"
    results["structured matrix scaling"] = row(0.38, unsure)
    results["histogram binning"] = replace(row(0.36, sure), nll=math.inf)
    assert assessment.recommended(results) == "temperature scaling"


def test_of_few_samples_a_class_the_structured_matrix_is_not_tried(tmp_path):
    words = "Structured matrix scaling was not tried: a report tries it from 50 samples per class"
    for n, validation, tried in (
        (498, 0, False),
        (500, 0, True),
        (60, 500, True),
        (600, 99, False),
    ):
        numbers = assessment.assess(make(n=n, k=10, validation=validation))
        assert ("structured matrix scaling" in numbers.recalibration) == tried
        page = Page(html_page.write(numbers, tmp_path).read_text(encoding="utf-8"))
        assert (words in page.text) != tried


def test_isotonic_is_recommended_for_two_classes_only_if_it_beats_beta_beyond_chance():
    def two(truth):
        score = np.random.default_rng(2).normal(size=8000)
        fraud = np.random.default_rng(3).random(8000) < truth(score)
        p = 1 / (1 + np.exp(-2 * score))
        given = {"probs": np.stack([1 - p, p], 1)[:5000], "labels": fraud[:5000].astype(int)}
        given |= {"val_probs": np.stack([1 - p, p], 1)[5000:], "val_labels": fraud[5000:] * 1}
        return assessment.recalibrated(predictions.from_arrays(given))[0]

    smooth = two(lambda score: 1 / (1 + np.exp(3.4 - 1.5 * score)))
    assert smooth["isotonic regression"]["brier_beyond"].high > 0
    assert assessment.recommended(smooth) == "beta calibration"
    by_luck = replace(smooth["isotonic regression"], brier=0)
    smooth["isotonic regression"] = by_luck
    assert assessment.recommended(smooth) == "beta calibration"
    stepped = two(lambda score: 0.05 + 0.6 * (score > 0.5))
    assert assessment.recommended(stepped) == "isotonic regression"


def test_thresholds_after_the_recommended_map_are_in_a_table(tmp_path):
    numbers = assessment.assess(make(n=1500, validation=1500, temperature=0.4))
    assert numbers.recommended == "temperature scaling"
    assert "needs other thresholds" in text.verdict(numbers)[3]["text"]
    assert "for the confidence before recalibration" in text.verdict(numbers)[2]["text"]
    data = make(n=1500, validation=1500, temperature=0.4)
    model = posthoc.TemperatureScaling().fit(data.val_logits, data.val_labels)
    probs, held = (model.predict_proba(x) for x in (data.logits, data.val_logits))
    for point in numbers.points_after:
        right = held.argmax(1) == data.val_labels
        threshold = metrics.threshold_at_risk(held.max(1), right, point["target"])
        assert point["threshold"] == pytest.approx(threshold, rel=1e-4)
        accept = probs.max(1) >= point["threshold"]
        assert point["accepted"] == accept.sum()
    assert "Thresholds on the confidence after temperature scaling" in html_page.write(
        numbers, tmp_path
    ).read_text(encoding="utf-8")


def test_classes_one_by_one_are_counted():
    data = make(n=2000, k=4, temperature=0.3)
    probs = softmax(data.logits)
    for i, row in enumerate(assessment.by_class(data)):
        assert row["samples"] == (data.labels == i).sum()
        assert row["mean"] == pytest.approx(probs[:, i].mean())
        excess = probs[:, i] - (data.labels == i)
        assert row["gap"].estimate == pytest.approx(excess.mean())
        reach = 1.96 * excess.std(ddof=1) / np.sqrt(2000)
        assert row["gap"].high - row["gap"].estimate == pytest.approx(reach, rel=1e-3)


def test_of_many_classes_the_worst_are_shown():
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(6000, 60))
    labels = (softmax(logits).cumsum(1) > rng.random((6000, 1))).argmax(1)
    logits[:, 17] += 1.0  # named too often
    numbers = assessment.assess(predictions.from_arrays({"logits": logits, "labels": labels}))
    assert len(numbers.by_class) == groups.SHOWN == len(numbers.predicted)
    assert numbers.by_class[0]["group"] == "17" and numbers.by_class[0]["stands_out"]
    assert sum(row["stands_out"] for row in numbers.by_class[1:]) <= 2


def test_columns_of_groups_share_one_correction():
    rng = np.random.default_rng(0)
    groups = np.stack([rng.integers(20, size=600), rng.integers(3, size=600)], axis=1)
    arrays = {"groups": groups, "group_names": ["site", "age"]}
    rows = assessment.assess(make(**arrays)).groups
    assert {row["column"] for row in rows} == {"site", "age"} and len(rows) == 23
    assert rows[0]["group"].startswith("site: ") and rows[-1]["group"].startswith("age: ")
    c, z = make().test.scored()
    (row,) = (r for r in rows if r["group"] == "age: 1")
    mine = groups[:, 1] == 1
    strict = estimates.gap(c[mine].astype(float), z[mine], Design(mine.sum()), 1 - 0.05 / 23)
    assert row["stands_out"] == (not strict.low <= 0 <= strict.high)


def test_many_classes_are_recalibrated_in_part_and_it_is_said(tmp_path, monkeypatch):
    monkeypatch.setattr(estimates, "FIT", 2000)
    numbers = assessment.assess(make(n=1000, k=4))
    assert numbers.recalibration["none"]["judged_on"] == 500
    assert (
        "it was judged on 500 of the samples"
        in Page(html_page.write(numbers, tmp_path).read_text(encoding="utf-8")).text
    )


def test_a_temperature_at_the_edge_is_said():
    data = make(n=200, skill=20)
    perfect = {"logits": data.logits, "labels": data.logits.argmax(1)}
    words = cautions_of(predictions.from_arrays(perfect))
    assert "Temperature scaling: temperature 0.0" in words
    assert "is an end of the range searched; 0 of 160 held-out answers are wrong." in words


@pytest.mark.parametrize("k", [2, 4])
def test_labels_of_other_rows_are_noticed(k, tmp_path):
    def shuffled(data, *names):
        rng = np.random.default_rng(0)
        arrays = {x: getattr(data, x) for x in ("logits", "labels", "val_logits", "val_labels")}
        return arrays | {x: rng.permutation(arrays[x]) for x in names}

    words = "{} set the model is no better than guessing. Do the labels belong to these rows?"
    data = make(n=800, k=k, validation=400, temperature=0.5)
    for names, sets in (
        ((), ""),
        (["labels"], "On the test"),
        (["val_labels"], "On the validation"),
        (["labels", "val_labels"], "On the test and the validation"),
    ):
        arrays = predictions.from_arrays(shuffled(data, *names))
        numbers = assessment.assess(arrays)
        doubts = [x for x in text.cautions(numbers) if "Do the labels" in x]
        assert doubts == ([words.format(sets)] if names else [])
        titles = [card["title"] for card in text.verdict(numbers)]
        assert ("No recalibration before the labels are clear" in titles) == bool(names)
        assert (numbers.recommended is None) == bool(names)
        warned = deploy.recalibrate(arrays)[1]["warnings"]
        assert (words.format(sets) in warned) == bool(names)


def test_a_rare_class_that_is_never_answered_is_no_guess():
    """All answers are of one class, so their accuracy says nothing; their scores do."""
    rng = np.random.default_rng(0)
    labels = (rng.random(2000) < 0.05).astype(int)
    logits = np.c_[np.zeros(2000), rng.normal(labels, 1) - 8]
    assert not logits.argmax(axis=1).any()
    assert not estimates.guessing(logits, labels)
    shuffled = [estimates.guessing(logits, rng.permutation(labels)) for _ in range(200)]
    assert 0.94 < np.mean(shuffled) < 1


# --- the page ---


HOSTILE = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(2)>',
    "</title></style><svg onload=alert(3)>",
    "$\\frac{1}{0}$ {{ 7 * 7 }} {% raw %} & \x00\x1b[31m",
]


def test_everything_is_escaped(tmp_path):
    data = make(class_names=HOSTILE, groups=np.array(HOSTILE)[np.arange(600) % 4])
    named = predictions.Predictions(
        HOSTILE[0], data.logits, data.labels, groups=data.groups, class_names=data.class_names
    )
    other = predictions.Predictions(HOSTILE[1], data.logits[:, ::-1].copy(), data.labels)
    page = Page(report.build(named, tmp_path, against=other).read_text(encoding="utf-8"))
    assert "".join(page.scripts).strip() == explorable.script().strip()
    assert page.tags.count("script") == 1
    assert "svg" not in page.tags
    assert not [a for a in page.attributes if a[1].startswith("on")]
    images = [a for a in page.attributes if a[0] == "img" and a[1] == "src"]
    assert len(images) == 4
    for name in HOSTILE[:3]:
        assert name in page.text
    assert "{{ 7 * 7 }}" in page.text
    written = json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))
    assert {row["group"] for row in written["groups"]} == set(data.groups)


def test_the_page_is_whole_in_itself(tmp_path, built, numbers):
    source = built.read_text(encoding="utf-8")
    page = Page(source)
    addresses = [a for a in page.attributes if a[1] in ("src", "href", "action", "data", "poster")]
    assert addresses and all(a[2].startswith("data:image/svg+xml;base64,") for a in addresses)
    assert not re.search(r"https?://|url\((?!#)|@import", source)
    assert "default-src 'none'" in source
    assert (
        "script" not in Page(html_page.write(numbers, tmp_path).read_text(encoding="utf-8")).tags
    )  # nothing to explore
    assert "link" not in page.tags and "iframe" not in page.tags
    for _, _, address in addresses:
        picture = base64.b64decode(address.partition(",")[2]).decode()
        assert picture.startswith("<?xml") and "<script" not in picture
        assert not re.search(r'(href|src)="(?!#)', picture)
    assert all(("img", "alt") in {a[:2] for a in page.attributes} for _ in addresses)
    assert "prefers-color-scheme: dark" in source and 'name="viewport"' in source
    assert sorted(p.name for p in built.parent.iterdir()) == ["report.html", "report.json"]


def test_the_same_file_gives_the_same_bytes(tmp_path, built, data):
    again = report.build(data, tmp_path)
    assert again.read_bytes() == built.read_bytes()
    assert again.with_suffix(".json").read_bytes() == built.with_suffix(".json").read_bytes()


def test_the_page_says_what_the_tables_say(tmp_path, numbers):
    page = Page(html_page.write(numbers, tmp_path).read_text(encoding="utf-8"))
    for name, frame in as_tables.tables(numbers).items():
        for row in frame.reset_index().itertuples(index=False):
            for cell in row:
                assert " ".join(cell.split()) in page.text, name
    for answer in text.verdict(numbers):
        assert " ".join(answer["text"].split()) in page.text


@pytest.mark.timeout(300)
def test_figures_of_the_page_can_be_explored(tmp_path):
    """With its own policy in force: one script runs, and nothing is asked for."""
    data, other = make(n=900, validation=300, temperature=0.5), make(n=900, validation=300, seed=0)
    url = report.build(data, tmp_path, against=other).as_uri()
    thresholds = {point["threshold"] for point in assessment.operating_points(data)}
    marks = thresholds - set(np.arange(1001) / 1000)
    with browser() as chromium:
        page = visit(chromium, url, offline=True, viewport={"width": 390, "height": 800})
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        agree(page, data)
        for model, chosen in enumerate((data, other)):
            figure = Figure(page, "reliability")
            figure.choose("model", model)
            figure.slide("temperature", 1)
            logits, labels = explorable.unpack(explorable.pack(chosen.logits, chosen.labels))
            assert figure.number("ece") == percent(metrics.ece(softmax(logits / 2), labels), 2)
            figure = Figure(page, "histograms")
            figure.choose("model", model)
            figure.slide("threshold", 777 + sum(t < 0.777 for t in marks))
            found = metrics.per_sample(chosen.logits, chosen.labels)
            accept = found["confidence"] >= 0.777
            assert figure.number("coverage") == percent(accept.mean())
            assert figure.number("caught") == f"{(~found['correct'] & ~accept).sum():,}"
        figure = Figure(page, "risk_coverage")
        figure.slide("target", 20)
        points = assessment.operating_points(data, [0.02])
        assert figure.number("coverage") == percent(points[0]["coverage"].estimate)
        assert figure.number("risk") == percent(points[0]["risk"].estimate, 2)
        assert page.asked == [] and page.complaints == []
        plain = visit(chromium, url, java_script_enabled=False)
        pictures = plain.locator("figure img")
        assert pictures.count() == 4 and all(pictures.nth(i).is_visible() for i in range(4))

        page.context.close()
        plain.context.close()
        part = make(n=613, temperature=0.3)  # thresholds are cross-fitted
        agree(visit(chromium, report.build(part, tmp_path).as_uri(), offline=True), part)


def agree(page, data):
    """Card, table, both sliders and whoever applies the printed threshold accept the same."""
    numbers = assessment.assess(data)
    point, found = numbers.main_point, metrics.per_sample(data.logits, data.labels)
    row = as_tables.tables(numbers)["operating_points"].loc[written.share(point["target"])]
    accept = found["confidence"] >= float(row["Threshold"])
    wrong = int((accept & ~found["correct"]).sum())
    assert row["Wrong / accepted"] == f"{wrong:,} / {accept.sum():,}"
    assert row["Accepted"].startswith(percent(accept.mean()))
    card = page.locator(".card", has_text="Accept answers with a confidence of").first.inner_text()
    assert f"confidence of {row['Threshold']} or more" in card
    assert f"accepts {accept.sum():,} of {len(accept):,} answers" in card
    figure = Figure(page, "histograms")
    assert figure.number("coverage") == percent(accept.mean())
    assert figure.number("through") == f"{wrong:,}"
    assert f"{accept.sum():,} of {len(accept):,}" in figure.text()
    assert float(re.search(r"A threshold of (\S+) answers", figure.says())[1]) == point["threshold"]
    figure = Figure(page, "risk_coverage")
    assert figure.number("threshold") == row["Threshold"]
    assert figure.number("coverage") == percent(accept.mean())
    assert figure.number("risk") == percent(wrong / accept.sum(), 2)


ODD = {
    "all right": lambda z, y: (z, z.argmax(1)),
    "all wrong": lambda z, y: (z, z.argmin(1)),
    "one class only": lambda z, y: (z, np.zeros(len(y), int)),
    "one confidence only": lambda z, y: (np.zeros_like(z), y),
    "certain": lambda z, y: (1000 * z, y),
    "ten samples": lambda z, y: (z[:10], y[:10]),
    "two classes": lambda z, y: (z[:, :2], y % 2),
    "float32 and huge": lambda z, y: ((z * 1e30).astype(np.float32), y),
}


@pytest.mark.parametrize("change", ODD.values(), ids=ODD)
@pytest.mark.parametrize("validation", [False, True])
def test_odd_data_still_give_a_page(tmp_path, change, validation):
    base = make(n=60)
    logits, labels = change(base.logits, base.labels)
    arrays = {"logits": logits, "labels": labels, "groups": np.arange(len(labels)) % 3}
    if validation:
        arrays |= {"val_logits": logits[::2], "val_labels": labels[::2]}
    page = report.build(predictions.from_arrays(arrays), tmp_path)
    assert len(Page(page.read_text(encoding="utf-8")).text) > 1000
    json.loads(page.with_suffix(".json").read_text(), parse_constant=pytest.fail)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"target_risk": [0]}, r"target_risk: got \[0\], expected shares between 0 and 1"),
        ({"target_risk": [math.nan]}, "target_risk: got"),
        ({"against": make(n=599)}, "against: got 599 samples, expected the same 600"),
        ({"against": make(seed=1)}, r"against: got labels that differ in \d+ of 600 samples"),
    ],
)
def test_wrong_calls(tmp_path, data, arguments, message):
    with pytest.raises(ValueError, match=message):
        report.build(data, tmp_path / "none", **arguments)
    with pytest.raises(ValueError, match="labels: got 9 samples, expected at least 10"):
        report.build(make(n=9), tmp_path / "none")
    assert not (tmp_path / "none").exists()


def test_the_notebook_says_what_the_report_says(tmp_path):
    """Of a file; its own example is executed with the book."""
    import papermill

    source = Path(__file__).parent.parent / "notebooks/your_model.ipynb"
    done = tmp_path / "o.ipynb"
    file, data = tmp_path / "preds.npz", make(n=400, validation=300, temperature=0.4)
    arrays = {"logits": data.logits, "labels": data.labels}
    np.savez(file, **arrays, val_logits=data.val_logits, val_labels=data.val_labels)
    parameters = {"predictions": str(file), "target_risk": 0.2}
    options = {"kernel_name": "python3", "progress_bar": False, "cwd": str(tmp_path)}
    papermill.execute_notebook(source, done, parameters, **options)
    outputs = [o for c in json.loads(done.read_text())["cells"] for o in c.get("outputs", [])]
    assert sum("image/png" in o.get("data", {}) for o in outputs) == 1
    printed = "".join("".join(o["text"]) for o in outputs if o["output_type"] == "stream")
    found, _ = assessment.recalibrated(predictions.read(file))
    before, after = found["none"], found["temperature scaling"]
    assert f"temperature {after['temperatures'][0]:.2f}" in printed
    assert (
        f"ECE {100 * before['ece']:.1f} % as trained, {100 * after['ece']:.1f} % after" in printed
    )
    assert ", aimed at 20%" in printed


# --- command line ---


def test_command(tmp_path, capsys, data):
    file, other = tmp_path / "preds.npz", tmp_path / "other.npz"
    np.savez(file, logits=data.logits, labels=data.labels)
    np.savez(other, logits=2 * data.logits, labels=data.labels)
    out = tmp_path / "out"
    call = ["report", str(file), "--out", str(out), "--against", str(other)]
    assert cli.main([*call, "--target-risk", "0.1", "0.2"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "No sign of miscalibration"
    assert lines[-1] == str(out / "report.html")
    numbers = json.loads((out / "report.json").read_text())
    assert [p["target"] for p in numbers["operating_points"]] == [0.1, 0.2]
    assert numbers["against"] == "other"


def test_command_says_how_the_file_was_read(tmp_path, capsys):
    np.savez(tmp_path / "one.npz", probs=np.linspace(0, 1, 40), labels=np.arange(40) // 20)
    assert cli.main(["report", str(tmp_path / "one.npz"), "--out", str(tmp_path / "out")]) == 0
    assert "One column of probs: read as class 1 of two." in capsys.readouterr().out


def test_command_with_labels_beside(tmp_path, capsys, data):
    np.save(tmp_path / "predictions.npy", data.logits)
    labels = tmp_path / "truth.txt"
    labels.write_text("\n".join(map(str, data.labels)))
    call = ["report", str(tmp_path / "predictions.npy"), "--out", str(tmp_path)]
    assert cli.main(call) == 2
    assert "got scores without labels" in capsys.readouterr().err
    assert cli.main([*call, "--labels", str(labels)]) == 0


def test_command_fails_in_one_line(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "noise.npz").write_bytes(b"PK\x03\x04 noise")
    (tmp_path / "taken").write_text("a file where the folder should be")
    np.savez("fine.npz", logits=make().logits, labels=make().labels)
    for arguments, code in (
        (["none.npz"], 1),
        (["noise.npz", "--against", "none.npz"], 1),  # found missing before anything is read
        (["noise.npz"], 2),
        (["fine.npz", "--out", "taken"], 1),
        (["fine.npz", "--against", "noise.npz"], 2),
        (["fine.npz", "--target-risk", "7"], 2),
    ):
        assert cli.main(["report", *arguments]) == code
        error = capsys.readouterr().err
        assert error.startswith("calibkit: ") and error.count("\n") == 1
    with pytest.raises(SystemExit) as stopped:
        cli.main(["report"])
    assert stopped.value.code == 2


@pytest.mark.parametrize(
    "code",
    [
        "import calibkit.cli",
        "from calibkit.report import assessment",
        "from calibkit import report\ntry: report.build('none.npz')\nexcept OSError: pass",
    ],
    ids=["command line", "assessment", "a file that is not there"],
)
def test_nothing_that_draws_is_loaded_for(code):
    heavy = "('matplotlib', 'pandas', 'seaborn', 'sklearn', 'torch')"
    code = f"import sys\n{code}\nprint([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.strip() == "[]"
