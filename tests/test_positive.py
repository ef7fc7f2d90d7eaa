"""Two classes: probability, thresholds, prevalence; and confidences without classes."""

import json
import math
import re

import numpy as np
import pytest
from scipy.special import expit, logit
from sklearn import metrics as sk

from calibkit import cli, report, stats
from calibkit.report import (
    as_tables,
    assessment,
    compared_words,
    parts,
    predictions,
    text,
    thresholds,
    written,
)
from calibkit.report import page as html_page
from calibkit.report import positive as two
from calibkit.report.design import Design
from calibkit.report.scores import Score

pytestmark = pytest.mark.usefixtures("few_resamples")


def event(n, rate=0.3, odds=1.0, seed=0):
    """Probabilities off by a factor of odds, and what happens."""
    rng = np.random.default_rng(seed)
    score = 2 * rng.normal(size=n)
    p = expit(score - np.quantile(score, 1 - rate))
    return expit(logit(p) + np.log(odds)), rng.random(n) < p


def data(p, y, **more):
    names = ["legit", "fraud"]
    arrays = {"probs": p, "labels": np.asarray(y, int), "class_names": names}
    return predictions.from_arrays(arrays | more, "scores")


P, Y = event(4000, 0.02, odds=30)


@pytest.fixture(scope="module")
def fraud():
    q, z = event(4000, 0.02, odds=30, seed=1)
    return data(P, Y, val_probs=q, val_labels=z.astype(int))


@pytest.fixture(scope="module")
def numbers(fraud):
    return assessment.assess(fraud)


# --- numbers ---


def test_numbers_of_the_positive_class_are_those_of_sklearn(numbers):
    found = numbers.positive
    assert (found.name, found.other, found.guessed) == ("fraud", "legit", True)
    assert found.positives == Y.sum() and found.mean == pytest.approx(P.mean())
    assert found.gap.estimate == pytest.approx(P.mean() - Y.mean())
    assert found.auroc.estimate == pytest.approx(sk.roc_auc_score(Y, P))
    assert found.average_precision.estimate == pytest.approx(sk.average_precision_score(Y, P))
    at = found.decisions
    assert (at["flagged"], at["found"]) == ((P >= 0.5).sum(), (Y & (P >= 0.5)).sum())
    assert at["precision"].estimate == pytest.approx(sk.precision_score(Y, P >= 0.5))
    assert at["recall"].estimate == pytest.approx(sk.recall_score(Y, P >= 0.5))
    assert at["missed"] + at["found"] == Y.sum()


def test_curves_are_those_of_sklearn():
    p, y = event(200)
    found = assessment.assess(data(p, y)).positive
    fpr, tpr, _ = sk.roc_curve(y, p, drop_intermediate=False)
    np.testing.assert_allclose(found.roc["fpr"], fpr)
    np.testing.assert_allclose(found.roc["tpr"], tpr)
    precision, recall, _ = sk.precision_recall_curve(y, p)
    np.testing.assert_allclose(found.precision_recall["recall"], recall[:-1][::-1])
    np.testing.assert_allclose(found.precision_recall["precision"], precision[:-1][::-1])


def test_a_cost_ratio_of_calibrated_probabilities_is_the_textbook_threshold():
    """A miss costs r times a false alarm: flag from 1 / (1 + r) on (Elkan 2001, eq. 2)."""
    p, y = event(200_000)
    for ratio in (1, 4):
        found = thresholds.choose("cost_ratio", ratio, p, y)
        assert found == pytest.approx(1 / (1 + ratio), abs=0.04)


def test_thresholds_are_chosen_on_the_validation_set(numbers, fraud):
    q = parts.probability(fraud.val_logits, 1, fraud.val_own)
    z = fraud.val_labels == 1
    for row in numbers.positive.thresholds:
        threshold = thresholds.choose(row["rule"], row["value"], q, z)
        assert (row["threshold"] is None) == (threshold == math.inf)
        if row["threshold"]:  # perhaps elsewhere between two samples, where no test sample is near
            assert (q >= row["threshold"]).sum() == (q >= threshold).sum()
            assert row["flagged"] == (P >= row["threshold"]).sum()


def test_without_a_validation_set_precision_is_cross_fitted():
    """Noise: a threshold judged on its own samples always keeps its precision."""
    kept = []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        p, y = rng.random(300), rng.random(300) < 0.3
        (row,) = two.by_rule(Score.held(p), y, None, [("precision", 0.6)], Design(300))
        if row["flagged"]:
            assert row["found"] >= 0.6 * row["flagged"]
        if not math.isnan(row["precision"].estimate):
            kept.append(row["precision"].estimate)
    assert np.mean(kept) < 0.5


# --- prevalence ---


def test_shifted_prior_is_bayes_rule():
    """Two normal densities: their posterior for any share of positives is known."""
    x = np.linspace(-3, 3, 50)

    def posterior(share):
        return expit(logit(share) + x)  # densities at distance 1

    found = two.shift_prior(posterior(0.5), 0.5, 0.02)
    np.testing.assert_allclose(found, posterior(0.02))
    np.testing.assert_allclose(two.shift_prior(found, 0.02, 0.5), posterior(0.5))
    np.testing.assert_allclose(two.shift_prior(found, 0.02, 0.02), found)
    assert two.shift_prior(np.array([0.0, 1.0]), 0.3, 0.1).tolist() == [0, 1]


@pytest.mark.parametrize("share", [0.02, 0.1, 0.5, 0.8])
def test_prior_is_found_without_labels(share):
    rng = np.random.default_rng(0)
    y = rng.random(50_000) < share
    x = rng.normal(2 * y, 1)
    p = expit(2 * x - 2 + logit(0.3))  # calibrated at a share of 0.3
    assert two.estimate_prior(p, 0.3) == pytest.approx(share, abs=0.01)


@pytest.fixture(scope="module")
def shifted():
    rng = np.random.default_rng(3)
    z, y = rng.random(4000) < 0.3, rng.random(4000) < 0.1
    q, p = (expit(2 * rng.normal(2 * x, 1) - 2 + logit(0.3)) for x in (z, y))
    return data(p, y, val_probs=q, val_labels=z.astype(int))


def test_another_prevalence_is_said_and_corrected(tmp_path, shifted):
    numbers = assessment.assess(shifted)
    (name,) = [x for x in numbers.recalibration if numbers.recalibration[x].base]
    row = numbers.recalibration[name]
    assert row["prior"] == pytest.approx(0.1, abs=0.02)
    maps = numbers.positive.maps
    assert maps[name]["ece"] < maps["none"]["ece"] / 3
    answer = text.verdict(numbers)[-1]
    assert answer["title"] == "“fraud” is not as common as in validation"
    assert "(Saerens et al. 2002)" in answer["text"]
    assert (
        html_page.write(numbers, tmp_path)
        .read_text(encoding="utf-8")
        .count("corrected for prevalence")
        >= 2
    )


def test_the_same_prevalence_is_not_called_another(numbers):
    assert numbers.positive.shift is None
    false = 0
    for seed in range(40):
        (p, y), (q, z) = event(300, seed=seed), event(300, seed=seed + 1000)
        found = data(p, y, val_probs=q, val_labels=z.astype(int)).about("fraud")
        false += two.prior_shift(found) is not None
    assert false <= 2


# --- words ---


def test_the_headline_is_about_the_positive_class(numbers):
    first, ranking, decisions, remedy = text.verdict(numbers)
    assert first["title"] == "Probability of “fraud” is far too high"
    assert written.percent(P.mean()) in first["text"] and "Class weights" in first["text"]
    at = numbers.positive.decisions
    assert f"{at['false']:,} of {at['flagged']:,} called “fraud” are not" in decisions["title"]
    assert "“fraud” stands out" in ranking["title"]
    assert remedy["title"] == "Beta calibration would help"
    new = numbers.positive.maps["beta calibration"]["decisions"]
    assert f"flags {new['flagged']:,} instead of {at['flagged']:,}" in remedy["text"]
    assert f"finds {new['found']:,} instead of {at['found']:,}" in remedy["text"]
    words = " ".join(answer["title"] + answer["text"] for answer in text.verdict(numbers))
    assert "under-confident" not in words and "points too little" not in words


def test_too_sure_of_either_answer_is_said_where_the_mean_is_right():
    rng = np.random.default_rng(0)
    score = rng.normal(size=4000)
    spam = rng.random(4000) < 1 / (1 + np.exp(-score))
    for factor, words in ((3.0, "over-confident"), (0.3, "under-confident")):
        card = text.verdict(assessment.assess(data(1 / (1 + np.exp(-factor * score)), spam)))[0]
        assert card["title"] == f"Right on average, but {words} in its answers"


def test_the_threshold_that_flags_as_many_does(numbers, fraud):
    _, found = assessment.recalibrated(fraud.about("fraud"))
    for name in ("temperature scaling", "beta calibration"):
        p = found[name].event.p
        same = numbers.positive.maps[name]["same"]
        assert (p >= same).sum() == numbers.positive.decisions["flagged"]


def test_a_calibrated_probability_is_not_accused():
    wrong = 0
    for seed in range(10):
        p, y = event(2000, 0.1, seed=seed)
        wrong += "too " in text.verdict(assessment.assess(data(p, y)))[0]["title"]
    assert wrong <= 2


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (("0", "1"), "1"),
        (("fraud", "legit"), "fraud"),
        (("spam", "ham"), "spam"),
        (("sick", "not sick"), "sick"),
        (("yes", "no"), "yes"),
        (("cat", "dog"), "cat"),  # the rarer
    ],
)
def test_the_positive_class_is_guessed(names, expected):
    labels = [0, 1, 1, 1]
    arrays = {"probs": [[0.5, 0.5]] * 4, "labels": labels, "class_names": list(names)}
    found = predictions.from_arrays(arrays)
    assert names[two.guess(found)] == expected


def test_naming_the_other_class_turns_everything_round(fraud):
    numbers = assessment.assess(fraud.about("legit"))
    found = numbers.positive
    assert found.name == "legit" and not found.guessed
    assert found.mean == pytest.approx(1 - P.mean())
    assert text.verdict(numbers)[0]["title"] == "Probability of “legit” is too low"
    with pytest.raises(ValueError, match="positive: got 'theft', expected one of 'legit', 'fraud'"):
        fraud.about("theft")
    rng = np.random.default_rng(0)
    three = predictions.from_arrays({"logits": rng.normal(size=(20, 3)), "labels": [0, 1] * 10})
    with pytest.raises(ValueError, match="positive: got '1' for 3 classes"):
        three.about("1")
    with pytest.raises(ValueError, match="budget: got it for 3 classes"):
        assessment.assess(three, rules=[("budget", 5)])


def test_groups_are_about_the_positive_class(fraud):
    groups = np.where(np.arange(4000) % 2, "card", "wire")
    rows = assessment.assess(data(P, Y, groups=groups)).groups
    for row in rows:
        mine = groups == row["group"]
        assert row["accuracy"].estimate == pytest.approx(Y[mine].mean())
        assert row["confidence"] == pytest.approx(P[mine].mean())
        assert row["risk"].estimate == pytest.approx(1 - sk.precision_score(Y[mine], P[mine] > 0.5))


def test_page_and_command(tmp_path, capsys):
    rows = "\n".join(f"{'fraud' if y else 'legit'},{p:.6f}" for p, y in zip(P, Y, strict=True))
    (tmp_path / "f.csv").write_text(f"label,prob_fraud\n{rows}\n")
    call = ["report", str(tmp_path / "f.csv"), "--out", str(tmp_path / "out")]
    assert cli.main([*call, "--budget", "200", "--precision", "0.3"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("Probability of “fraud” is far too high")
    assert "was replaced" not in out
    numbers = json.loads((tmp_path / "out" / "report.json").read_text())
    chosen = numbers["positive"]["thresholds"]
    assert [(x["rule"], x["value"]) for x in chosen] == [("budget", 200), ("precision", 0.3)]
    assert abs(chosen[0]["flagged"] - 200) <= 1
    page = (tmp_path / "out" / "report.html").read_text()
    assert "Can the probability of “fraud” be trusted?" in page and "<script" not in page
    assert cli.main([*call, "--positive", "legit"]) == 0
    assert "An earlier report in" in capsys.readouterr().out
    assert cli.main([*call, "--positive", "theft"]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_a_second_model_is_compared_by_the_positive_class(tmp_path):
    worse = expit(logit(P) + np.random.default_rng(99).normal(0, 4, len(P)))
    numbers = assessment.assess(data(P, Y), data(worse, Y))
    found, (pair,) = numbers.comparison["metrics"], numbers.comparison["pairs"]
    difference = sk.roc_auc_score(Y, P) - sk.roc_auc_score(Y, worse)
    assert pair["difference"]["auroc"].estimate == pytest.approx(difference)
    other = found[pair["second"]]["auroc"].estimate
    assert other == pytest.approx(sk.roc_auc_score(Y, worse))
    ap = sk.average_precision_score(Y, P) - sk.average_precision_score(Y, worse)
    assert pair["difference"]["aupr_success"].estimate == pytest.approx(ap)
    answer = text.verdict(numbers)[-1]
    assert re.search("better in .*ROC AUC, average precision", answer["text"])
    assert "accuracy" not in answer["text"]
    table = as_tables.tables(numbers)["comparison"]
    assert table.index.tolist()[:4] == [
        f"{label} (%)" for label in compared_words._OF_EVENT.values()
    ]
    assert table.loc["ROC AUC (%)"].iloc[-1][-1] == "✓"
    assert "Share − probability" not in html_page.write(numbers, tmp_path).read_text(
        encoding="utf-8"
    )  # drawn, not written
    html_page.draw("comparison", numbers)


# --- confidences of answers ---


def pairs(n=2000, power=1.0, seed=0, **more):
    rng = np.random.default_rng(seed)
    right = rng.beta(3, 2, n)
    arrays = {"confidence": right**power, "correct": rng.random(n) < right}
    return predictions.from_arrays(arrays | more, "answers")


def test_pairs_are_judged_by_their_confidence():
    found = pairs()
    numbers = assessment.assess(found)
    c, z = found.confidences, found.labels == 1
    assert (c < 0.5).any()  # which the top label of two classes could not be
    values = numbers.metrics
    assert values["confidence"].estimate == pytest.approx(c.mean())
    assert values["accuracy"].estimate == z.mean()
    assert values["auroc"].estimate == pytest.approx(sk.roc_auc_score(z, c))
    assert values["brier"].estimate == pytest.approx(2 * sk.brier_score_loss(z, c))
    assert values["nll"].estimate == pytest.approx(sk.log_loss(z, c))
    assert numbers.positive is None and numbers.predicted == []
    assert text.verdict(numbers)[0]["title"] in (
        "No sign of miscalibration",
        "Right on average, wrong in places",
    )


def test_pairs_that_claim_too_much(tmp_path):
    held = pairs(power=0.3, seed=1)
    arrays = {"val_confidence": held.confidences, "val_correct": held.labels}
    found = pairs(power=0.3, **arrays)
    numbers = assessment.assess(found)
    first, *_, remedy = text.verdict(numbers)
    assert first["title"] == "Strongly over-confident"
    assert re.match("(Beta calibration|Isotonic regression) would help", remedy["title"])
    assert numbers.recalibration["beta calibration"]["ece"] < 0.04
    page = report.build(found, tmp_path).read_text()
    assert "classes" not in page.partition("<h2>")[0] and "By predicted class" not in page


def test_two_models_of_pairs_are_compared(tmp_path, capsys):
    for name, power in (("a", 1.0), ("b", 0.3)):
        found = pairs(power=power)
        np.savez(tmp_path / f"{name}.npz", confidence=found.confidences, correct=found.labels)
    files = [str(tmp_path / f"{name}.npz") for name in "ab"]
    assert cli.main(["compare", *files, "--out", str(tmp_path / "out")]) == 0
    assert "Excess ECE: a beats b" in capsys.readouterr().out
    assert cli.main(["report", files[0], "--against", files[1], "--out", str(tmp_path / "r")]) == 0
    assert re.search(r"Better than the other model\n.*excess ECE", capsys.readouterr().out)


# --- weights ---


def test_weights_undo_the_sampling_of_negatives():
    """All positives and a tenth of the others, each of which stands for ten."""
    p, y = event(40_000, 0.05)
    kept = y | (np.random.default_rng(0).random(len(y)) < 0.1)
    weights = np.where(y, 1, 10)[kept]
    found = data(p[kept], y[kept], weights=weights)
    numbers = assessment.assess(found)
    assert numbers.samples == kept.sum()
    worth = round(weights.sum() ** 2 / (weights**2).sum())
    assert any(f"are worth {worth:,} rows of equal weight" in note for note in numbers.notes)
    positive = numbers.positive
    base = np.average(y[kept], weights=weights)
    assert positive.base_rate.estimate == pytest.approx(base, abs=1e-12)
    assert positive.base_rate[1:] == pytest.approx(stats.wilson(base * worth, worth)[1:], abs=1e-4)
    assert positive.base_rate.low < y.mean() < positive.base_rate.high
    mean = np.average(p[kept], weights=weights)
    assert positive.mean == pytest.approx(mean, abs=1e-9)
    own = {"sample_weight": weights}
    weighted = sk.roc_auc_score(y[kept], p[kept], **own)
    assert positive.auroc.estimate == pytest.approx(weighted, abs=1e-9)
    weighted = sk.average_precision_score(y[kept], p[kept], **own)
    assert positive.average_precision.estimate == pytest.approx(weighted, abs=1e-9)
    for name, score in (("precision", sk.precision_score), ("recall", sk.recall_score)):
        weighted = score(y[kept], p[kept] >= 0.5, **own)
        assert positive.decisions[name].estimate == pytest.approx(weighted, abs=1e-9)
    assert "too " not in text.verdict(numbers)[0]["title"]
    unweighted = text.verdict(assessment.assess(data(p[kept], y[kept])))[0]["title"]
    assert "too low" in unweighted
    assert any("Samples are weighted" in note for note in numbers.notes)


def test_equal_weights_change_nothing_but_a_note():
    plain, weighted = (assessment.assess(data(P, Y, **x)) for x in ({}, {"weights": [3] * len(Y)}))
    assert weighted.notes[:-1] == plain.notes and "Samples are weighted" in weighted.notes[-1]
    for name in ("ece", "auroc", "nll", "brier", "ece_floor"):
        both = (x.metrics[name] for x in (plain, weighted))
        assert next(both) == pytest.approx(next(both), abs=1e-9), name
    assert weighted.positive.base_rate == pytest.approx(plain.positive.base_rate)


@pytest.mark.parametrize("weights", [[-1.0] * 4, [0.0] * 4, [np.nan] * 4, [1.0] * 3])
def test_weights_that_make_no_sense(weights):
    with pytest.raises(ValueError, match="^weights: got"):
        data([0.1, 0.2, 0.8, 0.9], [0, 0, 1, 1], weights=weights)
