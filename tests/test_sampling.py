"""Weighted rows, rows that are alike, rows that are copies, rows with dates: in report and maps."""

import json

import numpy as np
import pandas as pd
import pytest
from sklearn.tree import DecisionTreeClassifier

from calibkit import cli, metrics, posthoc, stats
from calibkit.report import (
    as_tables,
    assessment,
    conformal,
    deploy,
    estimates,
    page,
    positive,
    predictions,
    recalibration,
    sampling,
    text,
    thresholds,
)
from calibkit.report.design import Design
from calibkit.report.readers import dates
from calibkit.report.scores import Samples, Score

NEAR = {"rel": 1e-9, "abs": 1e-9, "nan_ok": True}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def drawn(n=400, k=3, seed=0, temperature=2.0):
    """Logits that are `temperature` times too large, and their labels."""
    rng = np.random.default_rng(seed)
    logits = 1.5 * rng.normal(size=(n, k))
    labels = (logits + rng.gumbel(size=(n, k))).argmax(axis=1)
    return {"logits": temperature * logits, "labels": labels}, rng


def shared(rows=20, several=60, seed=0, noise=0.0, k=3):
    """Samples, some copies of each, and which copies belong together."""
    arrays, rng = drawn(several, k, seed)
    every = {name: np.repeat(x, rows, axis=0) for name, x in arrays.items()}
    every["logits"] = every["logits"] + noise * rng.normal(size=every["logits"].shape)
    return every, np.repeat(np.arange(several), rows)


# --- weights ---


def weighted(k, held=False):
    """Arrays with whole weights, and the same with as many rows."""
    arrays, rng = drawn(300, k)
    arrays |= {"groups": rng.choice(list("ab"), 300), "weights": rng.integers(1, 4, 300)}
    if held:
        more, _ = drawn(300, k, seed=1)
        arrays |= {f"val_{name}": x for name, x in more.items()}
        arrays["val_weights"] = rng.integers(1, 4, 300)
    rows = {p: np.repeat(np.arange(300), arrays[f"{p}weights"]) for p in ("", "val_")[: 1 + held]}
    repeated = {
        name: x[rows["val_" if name.startswith("val_") else ""]]
        for name, x in arrays.items()
        if "weights" not in name
    }
    return arrays, repeated


@pytest.mark.parametrize("k", [2, 3])
def test_a_report_of_whole_weights_is_one_of_repeated_rows(k):
    found, expected = (assessment.assess(predictions.from_arrays(x)) for x in weighted(k))
    noise = [name for name in found.metrics if "floor" in name or "excess" in name]
    for name in {*found.metrics} - {*noise, "debiased_ece"}:
        both = found.metrics[name].estimate, expected.metrics[name].estimate
        assert both[0] == pytest.approx(both[1], **NEAR), name
    same(found.gap.estimate, expected.gap.estimate)
    for name in ("accuracy", "ece", "nll", "brier", "auroc", "aurc"):
        same(found.recalibration["none"][name], expected.recalibration["none"][name])
    for of in ("confidence", "accuracy", "share"):
        same(getattr(found.reliability, of), getattr(expected.reliability, of))
    same(found.risk_coverage.mean, expected.risk_coverage.mean)
    for of in ("correct", "wrong", "overlap", "mean_wrong"):
        same(getattr(found.histogram, of), getattr(expected.histogram, of))
    for mine, other in zip(found.groups, expected.groups, strict=True):
        for name in ("accuracy", "gap", "coverage", "risk"):
            same(mine[name][0], other[name][0])
        same([mine["confidence"], mine["auroc"]], [other["confidence"], other["auroc"]])
    for mine, other in zip(found.by_class, expected.by_class, strict=True):
        same([mine["share"], mine["mean"]], [other["share"], other["mean"]])
    if k == 2:
        mine, other = found.positive, expected.positive
        for name in ("base_rate", "gap", "ece", "auroc", "average_precision"):
            same(getattr(mine, name)[0], getattr(other, name)[0])
        for name in ("share", "precision", "recall"):
            same(mine.decisions[name][0], other.decisions[name][0])
        same([mine.mean, mine.decisions["claimed"]], [other.mean, other.decisions["claimed"]])
        same(mine.roc["tpr"][-1], other.roc["tpr"][-1])


def same(value, expected):
    assert value == pytest.approx(expected, **NEAR)


@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize("name", ["temperature", "beta", "isotonic", "histogram"])
def test_a_map_of_whole_weights_is_one_of_repeated_rows(k, name):
    found, expected = (
        deploy.recalibrate(predictions.from_arrays(x), name) for x in weighted(k, held=True)
    )
    probs = drawn(50, k, seed=5)[0]["logits"]
    assert found[0].predict_proba(probs) == pytest.approx(
        expected[0].predict_proba(probs), abs=1e-5
    )
    for when in ("before", "after"):
        for metric, value in found[1]["measured"][when].items():
            wanted = expected[1]["measured"][when][metric]
            assert value == pytest.approx(wanted, abs=1e-9 if when == "before" else 1e-4)
    for mine, other in zip(found[1]["thresholds"], expected[1]["thresholds"], strict=True):
        assert mine["threshold"] == pytest.approx(other["threshold"], abs=1e-4)


@pytest.mark.parametrize("rule", ["cost_ratio", "budget", "precision", "recall", "target_risk"])
def test_thresholds_of_whole_weights_are_those_of_repeated_rows(rule):
    for seed in range(20):
        rng = np.random.default_rng(seed)
        p, y, weights = rng.random(80).round(2), rng.random(80) < 0.4, rng.integers(1, 5, 80)
        rows = np.repeat(np.arange(80), weights)
        value = 3.0 if rule == "cost_ratio" else 0.37
        found = thresholds.Cuts(Score.held(p), y, weights).choose(rule, value)
        assert found == thresholds.choose(rule, value, p[rows], y[rows])


def test_samples_of_weight_zero_are_as_good_as_not_there():
    arrays, repeated = weighted(2)
    more = {name: np.concatenate([x, x[:50]]) for name, x in arrays.items()}
    more["labels"][300:] = 1 - more["labels"][300:]
    more["weights"][300:] = 0
    both = [assessment.assess(predictions.from_arrays(x)) for x in (arrays, more)]
    assert both[0].metrics == both[1].metrics
    assert "50 rows of weight 0 are left out" in " ".join(both[1].notes)


@pytest.mark.parametrize("clustered", [False, True])
def test_a_calibrated_model_is_not_accused_because_few_rows_carry_the_weight(clustered):
    """The ECE of chance is that of the rows that count, or of the clusters."""
    over, excess = 0, []
    for seed in range(60):
        arrays, rng = drawn(50 if clustered else 1500, 3, seed, temperature=1.0)
        more = {"weights": rng.lognormal(0, 1.5, 1500)}
        if clustered:
            arrays = {name: np.repeat(x, 30, axis=0) for name, x in arrays.items()}
            more = {"clusters": np.repeat(np.arange(50), 30)}
        data = predictions.from_arrays(arrays | more)
        design, (confidence, correct) = data.design, data.test.scored()
        ece = metrics.ece(confidence, correct, sample_weight=design.weights)
        chance = estimates.chance_ece(confidence, 100, design, correct)
        over += ece > chance.high
        excess.append(ece - chance.estimate)
    assert over <= 8 and abs(np.mean(excess)) < 0.25 * chance.estimate


def test_limits_of_conformal_sets_weigh_samples():
    values, weights = np.arange(1.0, 21.0), np.array([1, 3] * 10)
    rows = np.repeat(values, weights)
    for level in (0.1, 0.5, 0.9, 0.97):
        expected = conformal.quantile(rows, level)
        assert conformal.quantile(values, level, weights) == expected


def test_a_weighted_page_has_no_script(folder):
    arrays, _ = weighted(3)
    data = predictions.from_arrays(arrays)
    html = page.write(assessment.assess(data), folder / "out", data).read_text(encoding="utf-8")
    assert "Samples are weighted" in html and "<script" not in html


# --- designs ---


def test_a_plain_design_is_the_usual_interval():
    rng = np.random.default_rng(0)
    hit, some, values = rng.random(50) < 0.3, rng.random(50) < 0.5, rng.normal(size=50)
    plain = Design(50)
    assert plain.share(hit) == stats.wilson(hit.sum(), 50)
    assert plain.share(hit, some) == stats.wilson((hit & some).sum(), some.sum())
    assert plain.mean(values) == stats.seed_interval(values)
    every = Design(50, clusters=np.arange(50))
    assert every.mean(values) == pytest.approx(plain.mean(values))


def test_copies_of_a_row_say_no_more_than_the_row():
    rng = np.random.default_rng(1)
    hit, each = rng.random(40) < 0.3, np.repeat(np.arange(40), 25)
    design = Design(1000, clusters=each)
    assert design.mean(hit[each].astype(float)) == pytest.approx(Design(40).mean(hit.astype(float)))
    found, alone = design.share(hit[each]), Design(40).share(hit)
    assert found.estimate == alone.estimate
    assert found.high - found.low == pytest.approx(alone.high - alone.low, rel=0.1)
    assert Design(1000, clusters=each).size == 40


def test_intervals_without_an_error_or_with_one_cluster_are_wide():
    clusters = np.repeat(np.arange(20), 10)
    low, high = Design(200, clusters=clusters).share(np.ones(200, bool))[1:]
    assert high == 1 and 0.7 < low < 0.86  # Wilson's of 20 without an error: 0.839
    some = Design(200, clusters=clusters)[np.arange(10)]
    assert some.mean(np.arange(10.0)).high == np.inf
    assert some.share(np.arange(10) < 5)[1:] == pytest.approx((0, 1), abs=1e-6)
    assert np.isnan(some.share(np.zeros(10, bool), np.zeros(10, bool)).low)


@pytest.mark.parametrize("icc", [0.0, 0.3, 1.0])
def test_intervals_of_means_and_shares_over_40_clusters_cover(icc):
    """Clusters of 1 to 20 rows that share their luck: 95 of 100 intervals hold the truth."""
    rng, truth, hits = np.random.default_rng(3), 0.8, np.zeros(3)
    runs = 400
    for _ in range(runs):
        clusters = np.repeat(np.arange(40), rng.integers(1, 21, 40))
        n = len(clusters)
        own = np.where(rng.random(n) < icc**0.5, rng.random(40)[clusters], rng.random(n))
        right = own < truth
        design = Design(n, clusters=clusters)
        for i, found in enumerate((design.mean(right.astype(float)), design.share(right))):
            hits[i] += found.low <= truth <= found.high
        found = stats.wilson(right.sum(), n)
        hits[2] += found.low <= truth <= found.high
    mean, share, rows = hits / runs
    assert share > 0.92 and mean > 0.9
    assert rows < 0.6 or icc < 1


# --- clusters in report and recalibrate ---


def test_a_column_of_clusters_from_a_table(folder, capsys):
    arrays, own = shared(noise=0.4)
    table = pd.DataFrame(arrays["logits"], columns=[f"logit_{i}" for i in range(3)])
    table["label"], table["patient"] = arrays["labels"], [f"p{i}" for i in own]
    table.to_csv("all.csv", index=False)
    call = ["report", "all.csv", "--json", "--out"]
    assert cli.main([*call, "rows"]) == cli.main([*call, "clusters", "--cluster", "patient"]) == 0
    capsys.readouterr()
    rows, clusters = (
        json.loads((folder / x / "report.json").read_text()) for x in ("rows", "clusters")
    )
    widths = [x["metrics"]["accuracy"]["high"] - x["metrics"]["accuracy"]["low"]
              for x in (rows, clusters)]  # fmt: skip
    assert widths[1] > 3 * widths[0]
    assert rows["metrics"]["accuracy"]["estimate"] == clusters["metrics"]["accuracy"]["estimate"]
    said = " ".join(clusters["notes"])
    assert "with the same 'patient' may depend on each other" in said and "its 60 values" in said
    assert "Columns not used" not in said and "'patient'" in " ".join(rows["notes"])
    call = ["recalibrate", "all.csv", "--map", "isotonic", "--save"]
    assert cli.main([*call, "map.json", "--cluster", "patient"]) == 1
    assert cli.main([*call, "forced.json", "--cluster", "patient", "--force"]) == 0
    assert "Rows with the same 'patient'" in capsys.readouterr().out
    kept = json.loads((folder / "forced.json").read_text())
    assert kept["harm"]["samples"] == 60 and kept["refused"]
    assert cli.main([*call[:2], "--save", "t.json", "--map", "temperature", "--cluster",
                     "patient"]) == 0  # fmt: skip
    assert cli.main([*call, "map.json", "--cluster", "patients"]) == 2
    assert "cluster: got 'patients', expected columns" in capsys.readouterr().err
    assert isinstance(posthoc.load("t.json"), posthoc.TemperatureScaling)


def test_an_array_of_clusters_and_one_of_the_validation_set(folder):
    arrays, own = shared(noise=0.4)
    more, val_own = shared(seed=1, noise=0.4)
    held = {f"val_{name}": x for name, x in more.items()}
    np.savez("p.npz", **arrays, film=own, **held, val_film=val_own + 30)
    data = predictions.read("p.npz", cluster="film")
    assert data.design.units == data.validation.design.units == 60
    numbers = assessment.assess(data)
    assert any("30 values of 'film' are in the test set and in the val" in x for x in numbers.notes)
    _, about = deploy.recalibrate(data, "temperature")
    assert about["harm"]["samples"] == 60
    with pytest.raises(ValueError, match="cluster: got 'movie', expected names among"):
        predictions.read("p.npz", cluster="movie")


def test_no_cluster_is_on_both_sides_of_a_fold(monkeypatch):
    arrays, own = shared(noise=0.1)

    class Spy:
        def fit(self, logits, labels, sample_weight=None):
            self.known = {row.tobytes() for row in logits}
            return self

        def predict_proba(self, logits):
            known = [place[row.tobytes()] for row in logits]
            assert not {*known} & {place[row] for row in self.known}
            return np.full(logits.shape, 1 / 3)

    place = dict(zip((row.tobytes() for row in arrays["logits"]), own, strict=True))
    monkeypatch.setattr(recalibration, "RECALIBRATIONS", {"spy": Spy, "temperature scaling": Spy})
    data = predictions.from_arrays(arrays | {"clusters": own})
    assessment.recalibrated(data)
    assert data.design.units == 60


def test_one_cluster_is_refused():
    arrays, own = shared()
    with pytest.raises(ValueError, match="clusters: got '0' alone, expected at least two"):
        predictions.from_arrays(arrays | {"clusters": 0 * own})


@pytest.mark.parametrize("shape", ["tokens", "pixels"])
def test_tokens_of_a_text_and_pixels_of_an_image_are_clusters(shape):
    rng = np.random.default_rng(0)
    if shape == "tokens":
        arrays = {"logits": rng.normal(size=(12, 7, 3)), "labels": rng.integers(3, size=(12, 7))}
    else:
        labels = rng.integers(3, size=(12, 4, 5))
        arrays = {"logits": rng.normal(size=(12, 3, 4, 5)), "labels": labels}
    arrays["labels"][0, 0] = -1
    data = predictions.from_arrays(arrays, tokens=True)
    assert data.design.units == 12 and data.cluster_name == {"tokens": "text"}.get(shape, "image")
    documents = np.arange(12) // 4
    data = predictions.from_arrays(
        arrays | {"clusters": documents, "cluster_name": "document"}, tokens=True
    )
    assert data.design.units == 3


# --- rows that are there more than once ---


@pytest.mark.parametrize("k", [2, 3, 10])
@pytest.mark.parametrize("rows", [2, 5, 30])
def test_copies_are_noticed_in_any_order_and_counted_once(k, rows):
    arrays, own = shared(rows, max(600 // rows, 30), k=k)
    order = np.random.default_rng(2).permutation(len(own))
    mixed = {name: x[order] for name, x in arrays.items()}
    data, _ = sampling.counted(predictions.from_arrays(mixed))
    assert "equal rows count as copies" in data.notes[-1] and "--cluster COLUMN" in data.notes[-1]
    assert data.design.units == len(np.unique(own))
    pairs = {(a, b) for a, b in zip(data.clusters, own[order], strict=True)}
    assert len(pairs) == len(np.unique(own))


def test_the_interval_of_copies_is_as_wide_as_the_truth():
    widths, shares = [], []
    for seed in range(12):
        data, _ = sampling.counted(predictions.from_arrays(shared(30, 60, seed)[0]))
        names, groups = ["accuracy"], data.design.clusters
        found = stats.bootstrap(data.logits, data.labels, names, n=400, groups=groups)["accuracy"]
        widths.append(found.high - found.low)
        shares.append(found.estimate)
    share = np.mean(shares)
    truth = 2 * 1.96 * np.sqrt(share * (1 - share) / 60)
    assert np.mean(widths) == pytest.approx(truth, rel=0.15)


def test_a_map_that_learns_copies_is_refused_without_a_word_about_them():
    arrays, _ = shared(30, 60, 4)
    data = predictions.from_arrays(arrays)
    _, about = deploy.recalibrate(data, "isotonic")
    assert about["refused"] and about["harm"]["samples"] == 60
    assert "count as copies" in about["sampling"][0]
    _, about = deploy.recalibrate(data, "temperature")
    assert about["refused"] is None


def test_rows_that_are_nearly_the_same_are_noticed():
    arrays, _ = shared(10, 80, noise=0.01)
    data, _ = sampling.counted(predictions.from_arrays(arrays))
    assert data.clusters is None and "nearly the same" in data.notes[-1]
    assert "--cluster COLUMN" in data.notes[-1]


def test_equal_scores_of_different_samples_are_no_copies():
    """Trees, votes and rounded scores tie: what then happens differs as often as it should."""
    rng = np.random.default_rng(0)
    inputs = rng.normal(size=(4000, 4))
    labels = (inputs[:, 0] + rng.logistic(size=4000) > 0).astype(int)
    tree = DecisionTreeClassifier(max_depth=4, random_state=0).fit(inputs[:2000], labels[:2000])
    for rows in (slice(0, 2000), slice(2000, None)):
        probs = tree.predict_proba(inputs[rows])
        assert not sampling.repeated(
            predictions.from_arrays({"probs": probs, "labels": labels[rows]})
        )
    for seed in range(40):
        arrays, rng = drawn(600, 2 + seed % 3, seed, temperature=[0.5, 1, 3][seed % 3])
        probs = np.exp(arrays["logits"] - arrays["logits"].max(axis=1, keepdims=True))
        votes = np.array([rng.multinomial(7, p / p.sum()) / 7 for p in probs])
        rounded = {"logits": arrays["logits"].round() + 0.1, "labels": arrays["labels"]}
        for found in (arrays, rounded, {"probs": votes, "labels": arrays["labels"]}):
            assert not sampling.repeated(predictions.from_arrays(found)), seed


# --- dates ---


@pytest.mark.parametrize(
    ("name", "values", "start"),
    [
        ("scored_at", pd.date_range("2024-01-31", periods=60, freq="D"), "2024-01-31"),
        ("when", [f"2023-{m:02}-15T10:00:00Z" for m in range(1, 13)] * 5, "2023-01-15"),
        ("Datum", [f"{d:02}.03.2024" for d in range(1, 31)] * 2, "2024-03-01"),
        ("timestamp", 1_700_000_000 + 86_400 * np.arange(60), "2023-11-14"),
        ("createdAt", 1_700_000_000_000 + 86_400_000 * np.arange(60), "2023-11-14"),
        ("date", [20240101 + i for i in range(30)] * 2, "2024-01-01"),
    ],
)
def test_a_column_of_dates_is_told_how_to_split(folder, name, values, start):
    arrays, _ = drawn(60)
    table = pd.DataFrame(arrays["logits"], columns=[f"logit_{i}" for i in range(3)])
    table["label"], table[name] = arrays["labels"], values
    table.to_csv("dated.csv", index=False)
    notes = predictions.read("dated.csv").notes
    said = [x for x in notes if "holds dates" in x]
    assert len(said) == 1 and f"Column {name!r} holds dates, {start}" in said[0]
    assert "add a column split: val before" in said[0]
    table["split"] = np.where(np.arange(60) < 30, "val", "test")
    table.to_csv("dated.csv", index=False)
    assert not any("holds dates" in x for x in predictions.read("dated.csv").notes)


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("id", range(20_240_101, 20_240_161)),
        ("model", ["gpt-4", "gpt-3"] * 30),
        ("version", ["1.2.3", "1.2.4"] * 30),
        ("time_ms", np.linspace(3, 90, 60)),
        ("date", ["2024-01-01"] * 60),
        ("empty", [np.nan] * 60),
    ],
)
def test_other_columns_hold_no_dates(name, values):
    assert not dates.said(pd.Series(list(values), name=name))


# --- pieces ---


def test_shares_of_decisions_are_weighted_and_counts_are_not():
    p, y = np.array([0.9, 0.7, 0.2, 0.6]), np.array([True, False, True, False])
    design = Design(4, weights=np.array([3.0, 1.0, 2.0, 0.5]))
    found = positive.decide(p, y, 0.5, design)
    assert (found["flagged"], found["found"], found["false"]) == (3, 1, 2)
    assert found["precision"].estimate == pytest.approx(3 / 4.5)
    assert found["recall"].estimate == pytest.approx(3 / 5)
    assert found["share"].estimate == pytest.approx(4.5 / 6.5)
    samples = Samples(Score.held(p), y, design.weights)
    assert thresholds.targets(samples) == [0.02, 0.05, 0.1, 0.2]


def test_words_of_a_report_with_weights_and_clusters(folder):
    arrays, own = shared(noise=0.3)
    rng = np.random.default_rng(0)
    data = predictions.from_arrays(arrays | {"clusters": own, "weights": rng.random(len(own))})
    numbers = assessment.assess(data)
    assert text.verdict(numbers) and as_tables.tables(numbers)["bins"]["Samples"].size
    assert sum(numbers.reliability.count) == len(own)
