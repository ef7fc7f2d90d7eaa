"""Numbers of other tools: how each comes about, and what the page about them prints."""

import json
import re
import sqlite3
from contextlib import closing
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit
from sklearn.metrics import auc, precision_recall_curve, roc_auc_score

from benchmarks import other_tools
from benchmarks.other_tools import sigmoid, softmax, two_columns, within_ties
from calibkit import metrics, posthoc

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "book" / "coming_from.md"
ROWS = json.loads((ROOT / "benchmarks/results/other_tools.json").read_text())["rows"]
DATA = other_tools.samples()
PROBS = softmax(DATA["logits"])
CONFIDENCE, PREDICTED = PROBS.max(axis=1), PROBS.argmax(axis=1)
RIGHT = PREDICTED == DATA["labels"]
CLAIMED, EVENT = DATA["claimed"], DATA["event"] == 1
RARE, RARE_CLAIMED, LEVELS = DATA["rare"] == 1, DATA["rare_claimed"], DATA["levels"]
BATCHES = [slice(start, start + 128) for start in range(0, len(EVENT), 128)]


def stored(key):
    return ROWS[key]["value"]


def close(value, rel=1e-6):
    return pytest.approx(value, rel=rel)


def test_the_data_are_those_that_the_page_describes():
    assert len(EVENT) == 4000 and PROBS.shape == (4000, 4)
    assert RARE.mean() == pytest.approx(0.06, abs=0.01)
    assert (
        metrics.excess_ece(PROBS, DATA["drawn"]) < 0.01 < metrics.excess_ece(PROBS, DATA["labels"])
    )
    assert metrics.excess_ece(RARE_CLAIMED, RARE) < 0.01 < metrics.excess_ece(CLAIMED, EVENT)
    assert metrics.excess_ece(sigmoid(DATA["fair"]), EVENT) < 0.01
    assert len(np.unique(LEVELS)) == 5 and len(np.unique(DATA["votes"])) == 21


# --- calibration error ---


def test_netcal_bins_the_probability_of_the_event():
    assert stored("netcal_ece") == close(metrics.ece(CLAIMED, EVENT))
    assert stored("netcal_ece") > metrics.ece(two_columns(CLAIMED), DATA["event"]) + 0.02


def test_mapie_has_one_bin_less():
    for bins, key in ((15, "mapie_ece"), (2, "mapie_ece_two_bins")):
        assert stored(key) == close(metrics.ece(CLAIMED, EVENT, bins=bins - 1))
    assert stored("mapie_ece") != close(metrics.ece(CLAIMED, EVENT, bins=15))


def test_torchmetrics_has_bins_closed_below():
    votes, edges = DATA["votes"], np.linspace(0, 1, 11)
    place = np.minimum(np.searchsorted(edges, votes, side="right") - 1, 9)
    gap = [abs((votes - EVENT)[place == k].sum()) for k in range(10)]
    assert stored("torchmetrics_ece_votes") == close(sum(gap) / len(votes))
    assert stored("torchmetrics_ece_votes") != close(metrics.ece(votes, EVENT, bins=10))


def test_torchmetrics_takes_scores_between_0_and_1_for_probabilities():
    score = DATA["fair"]
    mixed = np.where((score >= 0) & (score <= 1), score, sigmoid(score))
    assert stored("torchmetrics_ece_one_by_one") == close(metrics.ece(mixed, EVENT), 1e-4)
    assert stored("torchmetrics_ece_at_once") == close(metrics.ece(sigmoid(score), EVENT), 1e-4)


def test_uncertainty_calibration_is_a_debiased_root_mean_square_over_classes():
    squares = []
    for k in range(4):
        order = np.argsort(PROBS[:, k])
        happened = DATA["labels"][order] == k
        parts = np.array_split(np.arange(len(order)), 15)
        total = 0.0
        for part in parts:
            rate = happened[part].mean()
            off = PROBS[order[part], k].mean() - rate
            total += len(part) * (off**2 - rate * (1 - rate) / (len(part) - 1))
        squares.append(max(total / len(order), 0))
    assert stored("uncertainty_calibration") == close(np.mean(squares) ** 0.5, 1e-3)
    assert stored("uncertainty_calibration_ece") == close(metrics.ece(PROBS, DATA["labels"]))


def test_a_mean_over_batches_adds_the_noise_of_each():
    of_batches = [metrics.ece(PROBS[rows], DATA["drawn"][rows]) for rows in BATCHES]
    assert stored("torchmetrics_ece_mean_of_batches") == close(np.mean(of_batches), 1e-4)
    assert stored("torchmetrics_ece_of_all") == close(metrics.ece(PROBS, DATA["drawn"]), 1e-4)
    floors = [metrics.ece_floor(PROBS[rows]) for rows in BATCHES]
    assert stored("torchmetrics_ece_mean_of_batches") == pytest.approx(np.mean(floors), rel=0.05)


def test_bins_by_rank_split_ties_by_the_order_of_rows():
    for k, (p, correct) in enumerate(other_tools.tied_confidences(DATA)):
        parts = np.array_split(p - correct, 10)
        expected = close(sum(abs(part.sum()) for part in parts) / len(p))
        assert stored("duckdb_ntile")[k] == expected and stored("polars_ordinal")[k] == expected
        first = pd.Series(p).rank(method="first").to_numpy() - 1
        assert other_tools.ece_by_rank(p, correct, first) == expected
        with closing(sqlite3.connect(":memory:")) as connection:
            pd.DataFrame({"p": p, "correct": correct}).to_sql("pairs", connection)
            assert connection.execute(other_tools.NTILE).fetchone()[0] == expected
        assert metrics.adaptive_ece(p, correct, bins=10) < min(stored("duckdb_ntile")) / 2


# --- curves ---


def points_of_scikit_plot():
    stretched = (RARE_CLAIMED - RARE_CLAIMED.min()) / np.ptp(RARE_CLAIMED)
    place = np.minimum((10 * stretched).astype(int), 9)
    filled = [place == k for k in range(10) if (place == k).any()]
    return [[stretched[rows].mean(), RARE[rows].mean()] for rows in filled]


def off_the_diagonal(points):
    """Mean distance of a curve's points from the diagonal, each point counted once."""
    x, y = np.array(points).T
    return np.abs(x - y).mean()


def our_points():
    table = metrics.reliability_bins(RARE_CLAIMED, RARE, bins=10)
    filled = table["count"] > 0
    return np.stack([table["confidence"], table["accuracy"]], axis=1)[filled]


def test_scikit_plot_stretches_probabilities_from_0_to_1():
    np.testing.assert_allclose(stored("scikit_plot_curve"), points_of_scikit_plot(), rtol=1e-6)
    assert stored("scikit_plot_curve")[-1][0] > 0.9 > 0.4 > RARE_CLAIMED.max()


def test_caret_draws_empty_bins_at_0_and_counts_events():
    table = metrics.reliability_bins(RARE_CLAIMED, RARE, bins=10)
    events = np.nan_to_num(table["count"] * table["accuracy"])
    np.testing.assert_allclose(stored("caret_count"), events)
    np.testing.assert_allclose(stored("caret_percent"), 100 * np.nan_to_num(table["accuracy"]))
    assert (table["count"] == 0).any() and np.isnan(table["accuracy"][table["count"] == 0]).all()


# --- Brier score ---


def test_brier_score_of_two_classes_is_half_of_ours():
    ours = metrics.brier(two_columns(CLAIMED), DATA["event"])
    assert 2 * stored("sklearn_brier") == close(ours)
    assert 2 * stored("modelmetrics_brier_of_numbers") == close(ours)


def test_fastai_counts_errors():
    assert stored("fastai_brier") == close(np.mean((CLAIMED > 0.5) != EVENT))


def of_ranger():
    probs = np.array(stored("ranger_probabilities"))
    return probs / probs.sum(axis=1, keepdims=True), DATA["labels"][: len(probs)]


def test_ranger_counts_the_true_class_only():
    probs, labels = of_ranger()
    of_true = np.mean((1 - probs[np.arange(len(probs)), labels]) ** 2)
    assert stored("ranger_brier") == close(of_true, 1e-5)
    assert metrics.brier(probs, labels) > 1.2 * of_true


def test_modelmetrics_takes_a_factor_by_its_codes():
    code = DATA["event"] + 1  # of the levels "no" and "yes"
    assert stored("modelmetrics_brier_of_factor") == close(np.mean((code - CLAIMED) ** 2))


# --- temperature ---


@cache
def temperature(factor=1):
    return posthoc.TemperatureScaling().fit(factor * DATA["logits"], DATA["labels"]).temperature_


def test_netcal_gives_the_inverse_and_1_for_single_precision():
    assert stored("netcal_temperature") * temperature() == close(1, 1e-3)
    assert stored("netcal_temperature_float32") == 1


def test_scikit_learn_ends_at_exp_10():
    assert stored("sklearn_temperature") == close(np.exp(10))
    assert temperature(10_000) == close(10_000 * temperature())
    assert temperature(10_000) > 1.5 * np.exp(10)


# --- areas and ranks ---


def test_a_sigmoid_makes_wide_scores_tie():
    probability = expit(DATA["wide"])  # exactly 1 from a score of 37 on
    assert stored("torchmetrics_auroc") == close(metrics.auroc(probability, EVENT), 1e-4)
    assert stored("torchmetrics_auroc") < metrics.auroc(DATA["wide"], EVENT) - 0.05
    thresholds = np.r_[-1e-7, np.arange(1, 199) / 199, 1 + 1e-7]
    rates = [[(probability[of] > t).mean() for t in thresholds] for of in (~EVENT, EVENT)]
    x, y = np.array(rates)[:, ::-1]
    assert stored("keras_auc") == close(auc(x, y), 1e-3)


def test_auc_mu_ranks_pairs_of_classes_by_differences_of_scores():
    areas = []
    for i in range(4):
        for j in range(i):
            rows = np.isin(DATA["labels"], (i, j))
            difference = DATA["logits"][rows, i] - DATA["logits"][rows, j]
            areas.append(metrics.auroc(difference, DATA["labels"][rows] == i))
    assert stored("lightgbm_auc_mu") == close(np.mean(areas))
    assert one_against_rest() == close(
        roc_auc_score(DATA["labels"], PROBS, multi_class="ovr"),
    )


def one_against_rest():
    return np.mean([metrics.auroc(PROBS[:, k], DATA["labels"] == k) for k in range(4)])


def test_areas_under_one_precision_recall_curve():
    precision, recall, _ = precision_recall_curve(RARE, LEVELS)
    assert stored("catboost_prauc") == close(auc(recall, precision))  # from precision 1
    assert stored("mlmetrics_prauc") == close(auc(recall[:-1], precision[:-1]))
    ours = metrics.aupr_success(LEVELS, RARE)
    assert stored("sklearn_average_precision") == close(ours)
    assert stored("lightgbm_average_precision") == close(ours)
    found, wrong = (
        0.0,
        np.r_[0, np.cumsum([(~RARE[LEVELS == v]).sum() for v in (1, 0.75, 0.5, 0.25, 0)])],
    )
    right = np.r_[0, np.cumsum([RARE[LEVELS == v].sum() for v in (1, 0.75, 0.5, 0.25, 0)])]
    for k in range(5):  # within a level, right and wrong ones come in proportion
        share = (np.arange(2000) + 0.5) / 2000
        tp, fp = (n[k] + share * (n[k + 1] - n[k]) for n in (right, wrong))
        found += (tp / (tp + fp)).mean() * (right[k + 1] - right[k]) / right[-1]
    assert stored("xgboost_aucpr") == close(found, 1e-3)


def test_torch_uncertainty_goes_by_the_order_of_tied_rows():
    rounded = CONFIDENCE.round(1)
    ends = []
    for first in (RIGHT, ~RIGHT):
        wrong = ~RIGHT[within_ties(-rounded, first)]
        coverage = np.arange(1, len(wrong) + 1) / len(wrong)
        risk = np.cumsum(wrong) / np.arange(1, len(wrong) + 1)
        ends.append(auc(coverage, risk) / (1 - 1 / len(wrong)))
    low, high = sorted(stored("torch_uncertainty_aurc"))
    assert ends[0] - 1e-5 <= low < high <= ends[1] + 1e-5
    assert high - low > 0.1
    order = np.random.default_rng(1).permutation(len(RIGHT))
    ours = metrics.aurc(rounded, RIGHT)
    assert metrics.aurc(rounded[order], RIGHT[order]) == close(ours) and low < ours < high


def ranks():
    """How many classes have a higher score than the true one, and how many the same."""
    scores = DATA["coarse"]
    of_label = scores[np.arange(len(scores)), DATA["labels"]][:, None]
    return (scores > of_label).sum(axis=1), (scores == of_label).sum(axis=1)


def top2_at_random():
    higher, same = ranks()
    return np.clip((2 - higher) / same, 0, 1).mean()


def test_torcheval_counts_ties_as_hits():
    higher, _ = ranks()
    assert stored("torcheval_top2") == close((higher < 2).mean())
    assert stored("torcheval_top1") == close((PREDICTED == DATA["labels"]).mean(), 0.5)
    assert stored("torcheval_top2") > top2_at_random() + 0.1


# --- estimates without labels ---


def later():
    rows = slice(len(EVENT) // 2, None)
    return DATA["separated_claimed"][rows], DATA["separated"][rows] == 1


def after_beta():
    """Expected accuracy of the later rows by probabilities calibrated on the earlier ones."""
    rows = slice(0, len(EVENT) // 2)
    p, happened = DATA["separated_claimed"], DATA["separated"]
    scores = np.log(two_columns(p))
    beta = posthoc.BetaCalibration().fit(scores[rows], happened[rows])
    said = later()[0] >= 0.5
    calibrated = beta.predict_proba(scores)[len(p) // 2 :, 1]
    return np.where(said, calibrated, 1 - calibrated).mean()


def test_nannyml_takes_scores_as_they_are_where_they_separate_well():
    p, happened = later()
    earlier = slice(0, len(EVENT) // 2)
    assert (
        metrics.auroc(DATA["separated_claimed"][earlier], DATA["separated"][earlier] == 1) > 0.999
    )
    assert stored("nannyml_accuracy") == close(np.maximum(p, 1 - p).mean(), 1e-4)
    assert stored("nannyml_accuracy") < ((p >= 0.5) == happened).mean() - 0.05


# --- the page ---


def ours() -> dict[str, float]:
    """Calibkit's numbers, by the key of the tool's number in the same row."""
    event, brier = DATA["event"], metrics.brier(two_columns(CLAIMED), DATA["event"])
    rare_bins = metrics.reliability_bins(RARE_CLAIMED, RARE, bins=10)
    areas = ("sklearn_average_precision", "lightgbm_average_precision", "xgboost_aucpr")
    return {
        "netcal_ece": metrics.ece(two_columns(CLAIMED), event),
        "mapie_ece": metrics.ece(CLAIMED, event),
        "torchmetrics_ece_votes": metrics.ece(DATA["votes"], event, bins=10),
        "torchmetrics_ece_one_by_one": metrics.ece(sigmoid(DATA["fair"]), event),
        "torchmetrics_ece_mean_of_batches": metrics.ece(PROBS, DATA["drawn"]),
        "uncertainty_calibration": metrics.classwise_ece(PROBS, DATA["labels"]),
        "duckdb_ntile": metrics.adaptive_ece(*other_tools.tied_confidences(DATA)[0], bins=10),
        "scikit_plot_curve": off_the_diagonal(our_points()),
        "caret_count": rare_bins["count"][0],
        "sklearn_brier": brier,
        "fastai_brier": brier,
        "ranger_brier": metrics.brier(*of_ranger()),
        "modelmetrics_brier_of_factor": brier,
        "netcal_temperature": temperature(),
        "sklearn_temperature": temperature(10_000),
        "torchmetrics_auroc": metrics.auroc(DATA["wide"], event),
        "keras_auc": metrics.auroc(DATA["wide"], event),
        "lightgbm_auc_mu": one_against_rest(),
        **dict.fromkeys((*areas, "catboost_prauc", "mlmetrics_prauc"),
                        metrics.aupr_success(LEVELS, RARE)),
        "torch_uncertainty_aurc": metrics.aurc(CONFIDENCE.round(1), RIGHT),
        "torcheval_top2": top2_at_random(),
        "nannyml_accuracy": after_beta(),
    }  # fmt: skip


def theirs(key: str) -> list[float]:
    """A tool's number as the page shows it; two where it depends on the order of the rows."""
    value = stored(key)
    if key == "scikit_plot_curve":
        return [off_the_diagonal(value)]
    if key == "caret_count":
        return value[:1]
    return sorted(value) if isinstance(value, list) else [value]


ROW = re.compile(r"^\* - (.+?) ([\d.]+)<br>(.+)\n  - (.+)\n  - (.+)\n  - (.+)$", re.M)
CALLED = {  # as its package is called, where the page has another name
    "LightGBM": "lightgbm",
    "XGBoost": "xgboost",
    "CatBoost": "catboost",
    "MAPIE": "mapie",
    "Keras": "keras",
    "DuckDB": "duckdb",
}
# Numbers within the words of a row, besides its two.
ALSO = {
    "uncertainty_calibration": lambda: metrics.ece(PROBS, DATA["labels"]),
    "modelmetrics_brier_of_factor": lambda: stored("modelmetrics_brier_of_numbers"),
    "nannyml_accuracy": lambda: ((later()[0] >= 0.5) == later()[1]).mean(),
}
NAMED_IN_THEIR_CODE = ("0.999",)  # nannyml's bound


def rounds_to(printed: str, value: float) -> bool:
    digits = len(printed.partition(".")[2])
    return f"{value:,.{digits}f}" == printed


def test_the_page_prints_what_was_measured():
    rows, found = ROW.findall(PAGE.read_text()), ours()
    assert len(rows) == PAGE.read_text().count("\n* - ") - PAGE.read_text().count("\n* - Tool")
    assert len(rows) == len(found)
    for (tool, version, _, their, our, words), (key, value) in zip(
        rows, found.items(), strict=True
    ):
        assert ROWS[key]["tool"] == CALLED.get(tool, tool), key
        assert ROWS[key]["version"] == version, key
        shown = their.split(" to ")
        assert len(shown) == len(theirs(key)), key
        assert all(map(rounds_to, shown, theirs(key))), (key, theirs(key))
        assert rounds_to(our, value), (key, value)
        said = [n for n in re.findall(r"\b\d\.\d{3,}\b", words) if n not in NAMED_IN_THEIR_CODE]
        assert len(said) == (key in ALSO), key
        assert all(rounds_to(n, ALSO[key]()) for n in said), key
