"""What is printed and saved is so: thresholds accept what is counted, no harmful map is saved."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from benchmarks import saved_maps
from calibkit import cli, posthoc
from calibkit.report import (
    assessment,
    deploy,
    estimates,
    harm,
    predictions,
    recalibration,
    text,
    thresholds,
    written,
)
from calibkit.report.design import Design
from calibkit.report.scores import Score

pytestmark = [
    pytest.mark.usefixtures("few_resamples"),
    pytest.mark.filterwarnings("ignore::calibkit.posthoc.PosthocWarning"),
]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def sampled(n=1500, k=3, temperature=1.0, seed=0, size=2.0):
    rng = np.random.default_rng(seed)
    logits = size * rng.normal(size=(n, k))
    labels = (logits + rng.gumbel(size=(n, k))).argmax(axis=1)
    return {"logits": temperature * logits, "labels": labels}


# --- thresholds -----------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(12))
def test_a_printed_threshold_accepts_what_is_counted(seed):
    """Random files of all types, with and without ties, one column or all, in both commands."""
    tried, false = saved_maps.thresholds_of(seed)
    assert tried and not false


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_tenths_are_ties_in_every_type(dtype):
    """0.7 in single precision is below 0.7 in double precision, and 0.3 above."""
    rng = np.random.default_rng(0)
    p = (rng.integers(0, 11, 4000) / 10).astype(dtype)
    labels = (rng.random(4000) < p.astype(float)).astype(int)
    data = predictions.from_arrays({"probs": p, "labels": labels})
    numbers = assessment.assess(data.about("1"), rules=[("recall", 0.5), ("budget", 0.3)])
    assert len(np.unique(data.test.outcomes.confidence)) == 6
    for row in numbers.positive.thresholds:
        assert saved_maps.applied(p, row["threshold"]) == {row["flagged"]}


def test_a_threshold_keeps_away_from_what_another_softmax_may_give():
    """Two scores that differ by rounding alone are on the same side."""
    p = np.array([0.9, 0.7 + 1e-8, 0.7, 0.4])
    cuts = thresholds.Cuts(Score.computed(p, np.dtype(np.float32)), np.array([1, 1, 0, 0], bool))
    assert cuts.accepted.tolist() == [1, 3, 4]
    cuts = thresholds.Cuts(Score.computed(p, np.dtype(np.float64)), np.array([1, 1, 0, 0], bool))
    assert cuts.accepted.tolist() == [1, 2, 3, 4]


def test_a_threshold_chosen_on_other_samples_is_clear_of_those_it_is_counted_on():
    """0.7 in single precision lies just below the threshold 0.7 that the others would allow."""
    held = np.array([0.9, 0.8, 0.6, 0.5]), np.array([True, True, False, False])
    test = Score.held(np.float32([0.79, 0.7, 0.61]))
    cuts = thresholds.Cuts(Score.held(np.float32(held[0])), held[1], others=test)
    found = cuts.choose("precision", 1.0)
    assert 0.79 < found <= np.float32(0.8)
    computed = Score.computed(np.array([0.8, 0.7999]), np.dtype(np.float64))
    cuts = thresholds.Cuts(Score.held(held[0]), held[1], others=computed)
    assert cuts.choose("precision", 1.0) < 0.8


def test_a_kept_threshold_keeps_its_rule_on_the_kept_map():
    """On tied data the thresholds of the folds are others than that of the map which is saved."""
    rng = np.random.default_rng(3)
    p = rng.integers(1, 8, 3000) / 10
    labels = (rng.random(3000) < p**1.5).astype(int)
    data = predictions.from_arrays({"probs": p, "labels": labels})
    for rule, value in (("recall", 0.3), ("recall", 0.6), ("precision", 0.4)):
        model, about = deploy.recalibrate(data, "isotonic", "1", rules=[(rule, value)])
        (row,) = about["thresholds"]
        flag = model.predict_proba(data.logits)[:, 1] >= row["threshold"]
        assert flag.sum() == row["here"]["flagged"] and row["here"]["chosen_on"]
        share = labels[flag].sum() / (labels.sum() if rule == "recall" else flag.sum())
        assert share >= value
        assert any(
            f"takes {flag.sum():,} of these 3,000; on new samples" in x for x in words(model, about)
        )


def words(model, about):
    return [line.replace("\u00a0", " ") for line in deploy.lines(model, about)]


def test_a_threshold_that_flags_as_many_as_before_does():
    rng = np.random.default_rng(0)
    odds = -3 + 2 * rng.normal(size=5000)
    labels = (rng.random(5000) < 1 / (1 + np.exp(-odds))).astype(int)
    p = 1 / (1 + np.exp(-odds - 2.5))
    data = predictions.from_arrays({"probs": np.stack([1 - p, p], axis=1), "labels": labels})
    numbers = assessment.assess(data)
    maps = numbers.positive.maps
    assert numbers.recommended == "beta calibration"
    assert maps["beta calibration"]["same_flagged"] == maps["none"]["decisions"]["flagged"]
    said = " ".join(answer["text"] for answer in text.verdict(numbers))
    assert (
        written.decimals(maps["beta calibration"]["same"]) in said
        and "flags as many as now" in said
    )


# --- ranking of large scores ----------------------------------------------------------------------


def test_what_ranks_large_scores_are_their_log_odds():
    """As probabilities nearly all of them would be 0 or 1."""
    rng = np.random.default_rng(0)
    odds = rng.normal(size=3000)
    labels = (rng.random(3000) < 1 / (1 + np.exp(-2 * odds))).astype(int)
    found = []
    for scale in (1, 1e4):
        scores = {"logits": scale * np.stack([0 * odds, odds], axis=1), "labels": labels}
        numbers = assessment.assess(predictions.from_arrays(scores).about("1"))
        rows = numbers.metrics["auroc"], numbers.positive.auroc, numbers.metrics["aurc"]
        found.append([x.estimate for x in rows])
        found[-1].append(numbers.risk_coverage.mean)
    for plain, large in zip(*found, strict=True):
        np.testing.assert_allclose(large, plain, atol=1e-12)
    said = " ".join(text.cautions(numbers))
    assert "sorts such samples by the log-odds" in said and "save unrounded" not in said


# --- harm -----------------------------------------------------------------------------------------


def test_harm_by_hand():
    labels = np.zeros(100, int)
    before, after = np.tile([0.8, 0.2], (100, 1)), np.tile([0.4, 0.6], (100, 1))
    found = harm.harm(before, after, labels, fitted=3, samples=50)
    assert found["nll"] == pytest.approx([np.log(2)] * 3)
    assert found["brier"] == pytest.approx([2 * 0.36 - 2 * 0.04] * 3)
    assert (found["nll_by_chance"], found["brier_by_chance"]) == (0.12, 0.06)
    assert found["harmful"] == ["nll", "brier"]
    assert harm.harm(after, before, labels, 3, 50)["harmful"] == []
    never = np.tile([0.0, 1.0], (100, 1))
    found = harm.harm(before, never, labels, 3, 50, floor=0.05)
    assert found["nll"] == pytest.approx([np.log(0.8 / 0.05)] * 3)
    found = harm.harm(before, never, labels, 100, 50)
    assert (found["nll"], found["never"], found["harmful"]) == ([None] * 3, 100, ["nll"])


def test_the_interval_is_one_over_groups():
    """30 rows of one group are one piece of evidence."""
    rng = np.random.default_rng(0)
    each = rng.normal(0.2, 1, size=40)
    found = Design(1200, clusters=np.repeat(np.arange(40), 30)).mean(np.repeat(each, 30))
    assert found == pytest.approx(Design(40).mean(each))
    several = estimates.folds(1200, groups=np.repeat(np.arange(40), 30))
    for known, rest in several:
        assert not set(known // 30) & set(rest // 30) and len(known) + len(rest) == 1200
    with pytest.raises(ValueError, match="groups: got one group, expected at least two"):
        estimates.folds(10, groups=np.zeros(10))


@pytest.mark.parametrize(
    ("name", "k", "expected"),
    [
        ("temperature", 3, 1),
        ("vector", 3, 6),
        ("matrix", 3, 12),
        ("beta", 2, 4),
        ("beta", 3, 10),
        ("top", 3, 4),
        ("structured", 3, 13),
    ],
)
def test_numbers_that_a_map_consists_of(name, k, expected):
    data = sampled(k=k, temperature=1.5)
    model = posthoc.MAPS[name]().fit(data["logits"], data["labels"])
    assert harm.parameters(model) == expected


def test_levels_and_bins_are_counted():
    p = np.array([0.2] * 10 + [0.6] * 10 + [0.9] * 10)
    labels = np.array(([0] * 8 + [1] * 2) + ([0] * 5 + [1] * 5) + ([0] * 1 + [1] * 9))
    logits = np.log(np.stack([1 - p, p], axis=1))
    assert harm.parameters(posthoc.IsotonicCalibration().fit(logits, labels)) == 3
    assert harm.parameters(posthoc.HistogramBinning().fit(logits, labels)) == 3


def test_a_harmful_map_is_not_saved_unless_forced(folder, capsys):
    """The validation set is of another world: all of its sure answers are wrong."""
    test, val = sampled(n=2000, seed=1), sampled(n=2000, seed=2)
    val["labels"] = (val["labels"] + 1) % 3
    np.savez("p.npz", **test, **{f"val_{name}": x for name, x in val.items()})
    call = ["recalibrate", "p.npz", "--map", "vector", "--save", "map.json", "--as-is"]
    assert cli.main(call) == 1
    out, error = capsys.readouterr()
    assert not out and error.count("\n") == 1 and not list(folder.glob("map*"))
    assert "makes the probabilities of new samples worse: the NLL rises by" in error
    assert "fitting 6 numbers to 2,000 samples explains 0.006" in error and "--force" in error
    assert cli.main([*call, "--force"]) == 0
    kept = json.loads(Path("map.json").read_text())
    assert kept["refused"] and kept["harm"]["harmful"] == ["nll", "brier"]
    assert "! This map makes the probabilities of new samples worse" in capsys.readouterr().out


def test_a_map_at_the_end_of_its_range_is_not_saved(folder, capsys):
    """A model that makes no error: any sharper temperature looks better."""
    labels = np.arange(500) % 3
    noise = np.random.default_rng(0).normal(size=(500, 3))
    np.savez("p.npz", logits=20 * np.eye(3)[labels] + noise, labels=labels)
    assert cli.main(["recalibrate", "p.npz", "--save", "map.json"]) == 1
    error = capsys.readouterr().err
    assert "is at the end of the range that was searched" in error and not Path("map.json").exists()
    numbers = assessment.assess(predictions.read("p.npz"))
    assert numbers.recommended is None
    assert "is an end of the range searched" in " ".join(text.cautions(numbers))


def test_calibrated_scores_get_a_temperature():
    assert sum(saved_maps.calibrated_of(seed) for seed in range(40)) <= 2


def test_no_saved_map_is_worse_than_none_on_new_samples():
    """Beyond what fitting costs by chance; one file of each kind, all maps in turns."""
    found = [saved_maps.fresh_of(seed) for seed in range(24)]
    assert not [each for each in found if "beyond" in each[1]]
    assert sum(what.startswith("saved") for _, what in found) > 12


def copies(seed=0, patients=60, each=30):
    """Every row thirty times, nearly: a curve with many levels fits the patients, not the world."""
    rng = np.random.default_rng(seed)
    logits = rng.normal(size=(patients, 3)) * 1.5
    labels = (logits + rng.gumbel(size=(patients, 3))).argmax(axis=1)
    rows = np.repeat(np.arange(patients), each)
    noise = 0.001 * rng.normal(size=(len(rows), 3))
    return {"logits": logits[rows] + noise, "labels": labels[rows]}, rows


def test_folds_over_groups_see_that_a_map_learnt_the_groups():
    arrays, groups = copies()
    data = predictions.from_arrays(arrays)
    rows = np.arange(len(groups))  # every row on its own
    plain = deploy.recalibrate(data, "isotonic", groups=rows)[1]
    grouped = deploy.recalibrate(data, "isotonic", groups=groups)[1]
    assert plain["harm"]["brier"][2] < 0 and plain["refused"] is None  # a gain, by rows
    assert grouped["harm"]["brier"][0] > 0 > plain["harm"]["brier"][0]
    assert "a probability of 0 to the true class of" in grouped["refused"]
    assert grouped["harm"]["samples"] == 60
    assert deploy.recalibrate(data, "temperature", groups=groups)[1]["refused"] is None


# --- the default map ------------------------------------------------------------------------------


def test_the_default_map_is_the_one_that_a_report_recommends(folder, capsys):
    rng = np.random.default_rng(0)
    odds = -4 + 1.5 * rng.normal(size=4000)
    labels = (rng.random(4000) < 1 / (1 + np.exp(-odds))).astype(int)
    z = np.stack([0 * odds, odds + 3.5], axis=1)
    np.savez("weighted.npz", logits=z, labels=labels)
    assert cli.main(["recalibrate", "weighted.npz", "--save", "map.json"]) == 0
    assert "A report recommends beta calibration." in capsys.readouterr().out
    assert isinstance(posthoc.load("map.json"), posthoc.BetaCalibration)
    np.savez("right.npz", **sampled())
    assert cli.main(["recalibrate", "right.npz", "--save", "map.json"]) == 0
    said = capsys.readouterr().out
    assert said.startswith("A report recommends no map for these scores; temperature scaling")
    assert isinstance(posthoc.load("map.json"), posthoc.TemperatureScaling)
    assert (
        cli.main(["recalibrate", "weighted.npz", "--map", "temperature", "--save", "t.json"]) == 0
    )
    assert "A report" not in capsys.readouterr().out
    assert isinstance(posthoc.load("t.json"), posthoc.TemperatureScaling)


def test_a_map_without_an_effect_worth_naming_is_not_recommended():
    from calibkit.stats import Interval

    data = predictions.from_arrays({"probs": [[0.9, 0.1], [0.4, 0.6]] * 30, "labels": [0, 1] * 30})
    found = recalibration.recalibrated(data)[0]["none"]
    none = replace(found, brier=0.3, nll=0.6)
    row = replace(found, brier=0.299999, nll=0.5, brier_change=Interval(-1e-6, -2e-6, -1e-7))
    assert recalibration.recommended({"none": none, "isotonic": row}) is None
    better = replace(row, brier=0.29, brier_change=Interval(-0.01, -0.02, -0.005))
    assert recalibration.recommended({"none": none, "isotonic": better}) == "isotonic"


# --- the order of the classes ---------------------------------------------------------------------


def test_a_saved_map_knows_the_order_of_its_classes(folder, capsys):
    """Columns sorted as text, as a table of twelve classes called 0 to 11 has them."""
    scores = sampled(n=3000, k=12, temperature=1.5)
    names = sorted(map(str, range(12)))
    order = [int(name) for name in names]
    frame = pd.DataFrame(scores["logits"][:, order], columns=[f"logit_{x}" for x in names])
    frame.assign(label=scores["labels"].astype(str)).to_csv("p.csv", index=False)
    assert cli.main(["recalibrate", "p.csv", "--map", "vector", "--save", "map.json"]) == 0
    assert "columns in this order: '0', '1', '10', '11', '2'" in capsys.readouterr().out
    kept = posthoc.load("map.json")
    assert kept.class_names_ == tuple(names) == tuple(kept.about_["class_names"])
    expected = kept.predict_proba(frame.to_numpy())
    usual = pd.DataFrame(scores["logits"], columns=[f"logit_{i}" for i in range(12)])
    np.testing.assert_allclose(kept.predict_proba(usual), expected, atol=1e-12)
    plain = usual.rename(columns=lambda name: int(name.removeprefix("logit_")))
    np.testing.assert_allclose(kept.predict_proba(plain), expected, atol=1e-12)
    places = np.argsort(order)[scores["labels"]]
    assert kept.score(plain, places) == (expected.argmax(axis=1) == places).mean() > 0.3
    assert np.abs(kept.predict_proba(scores["logits"]) - expected).max() > 0.01  # an array is not
    for other in (usual.iloc[:, :11], usual.rename(columns={"logit_3": "logit_cat"})):
        with pytest.raises(ValueError, match="expected those of the map: '0', '1', '10'"):
            kept.predict_proba(other)


# --- one ECE --------------------------------------------------------------------------------------


def test_what_a_map_does_to_pairs_is_said_in_the_measure_of_the_report():
    """The confidence of the answer, which may lie below one half, not that of a top label."""
    rng = np.random.default_rng(0)
    confidence = rng.uniform(0.5, 0.95, size=3000)
    correct = rng.random(3000) < confidence
    confidence[:1000], correct[:1000] = 1.0, True
    correct[:4] = False  # the sure ones draw the temperature below 1
    data = predictions.from_arrays({"confidence": confidence, "correct": correct})
    numbers = assessment.assess(data)
    found = numbers.recalibration
    old, new = found["none"]["ece"], found["temperature scaling"]["ece"]
    assert old == pytest.approx(numbers.metrics["ece"].estimate) and new > old + 0.01
    said = " ".join(text.cautions(numbers))
    assert f"raises the ECE from {100 * old:.1f} % to {100 * new:.1f} %" in said
    assert said.count("ECE") == 1
