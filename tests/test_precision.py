"""What a probability of exactly 0 stands for: in files, arrays, classifiers and saved maps."""

import json

import numpy as np
import pytest
import torch
from scipy.special import log_softmax, softmax
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.ensemble import RandomForestClassifier

from calibkit import arrays, cli, metrics, posthoc, precision, stats
from calibkit.estimators import CalibratedModel
from calibkit.report import deploy, predictions

pytestmark = [
    pytest.mark.usefixtures("few_resamples"),
    pytest.mark.filterwarnings("ignore::calibkit.posthoc.PosthocWarning"),
]


def network(k=3, temperature=5.0, n=3000, size=2.0, seed=0):
    """Logits that are too large by a factor, and labels."""
    rng = np.random.default_rng(seed)
    logits = size * rng.normal(size=(n, k))
    labels = (logits + rng.gumbel(size=(n, k))).argmax(axis=1)
    return temperature * logits, labels


def polled(votes, k=3, n=2000, seed=0):
    """Shares of so many votes, and labels; the votes are a little surer than the labels."""
    rng = np.random.default_rng(seed)
    shares = rng.dirichlet([0.6] * k, n)
    labels = np.array([rng.choice(k, p=0.8 * row + 0.2 / k) for row in shares])
    return np.array([rng.multinomial(votes, row) for row in shares]) / votes, labels


def as_bfloat16(probs):
    return torch.tensor(probs).bfloat16().float().numpy()


def of_file(probs, labels):
    data = predictions.from_arrays({"probs": probs, "labels": labels})
    return posthoc.TemperatureScaling().fit(data.logits, data.labels).temperature_


def of_array(probs, labels):
    return posthoc.TemperatureScaling().fit(probs, labels, kind="probs").temperature_


# --- what they are --------------------------------------------------------------------------------


@pytest.mark.parametrize("k", [2, 3, 10])
@pytest.mark.parametrize("votes", [3, 5, 7, 11, 25, 64, 100, 120, 500, 1000])
def test_votes_of_any_number_are_recognised(votes, k):
    """In every type, in one column, and rounded to decimals that tell them apart."""
    probs, _ = polled(votes, k)
    forms = [probs, probs.astype(np.float32), probs.astype(np.float16).astype(np.float32)]
    forms += [probs.round(digits) for digits in (3, 4, 6) if 10**digits > votes]
    if k == 2:
        forms += [np.c_[1 - p, p] for p in (probs[:, 1], probs[:, 1].astype(np.float32))]
    for some in forms:
        found = precision.of(some)
        assert found.floor.each == pytest.approx(0.5 / votes), found
        told_apart = votes not in (10, 100, 1000) or k > 2
        assert found.kind == "votes" or not told_apart
        assert "votes" in found.words or votes == 1000


def test_softmax_is_not_taken_for_votes():
    """200 random arrays, as they are and rounded in all ways."""
    called = []
    for seed in range(200):
        rng = np.random.default_rng(seed)
        k, n = int(rng.choice([2, 3, 5, 10, 50])), int(rng.choice([6, 20, 60, 300, 2000]))
        probs = softmax(rng.choice([0.6, 2, 6]) * rng.normal(size=(n, k)), axis=1)
        single = probs.astype(np.float32)
        one = np.c_[1 - probs[:, 0], probs[:, 0]]
        plain = [probs, single, single.astype(np.float64), single.astype(np.float16), one]
        rounded = [probs.round(digits) for digits in range(1, 7)]
        rounded += [probs.round(2).astype(np.float32), probs.round(4).astype(np.float32)]
        called += [(seed, x) for x in map(precision.of, plain) if x.kind == "votes"]
        # Votes of 10 are one decimal: few rows of few classes may all sum to 1.
        some = [x for x in map(precision.of, rounded) if x.kind == "votes"]
        called += [(seed, x) for x in some if x.count not in (10, 100, 1000)]
    assert not called


def test_numbers_that_are_on_a_grid_by_accident_are_no_votes():
    halves = np.array([[1, 0], [0.5, 0.5], [0, 1], [0.5, 0.5]])
    assert precision.of(halves).kind == "answers"
    assert precision.of(np.eye(3)).kind == "answers"
    assert precision.of(np.array([[0.25, 0.75], [1.0, 0.0]])).kind == "decimals"
    assert precision.of(np.array([[0.2, 0.8], [0.4, 0.6], [1.0, 0.0]] * 2)).kind == "decimals"
    few = softmax(np.random.default_rng(0).normal(size=(4, 2)), axis=1)
    assert precision.of(np.repeat(few, 300, axis=0)).kind == "float64"
    assert precision.of(np.repeat(halves, 30, axis=0)).words == "are votes of 2"


@pytest.mark.parametrize("k", [2, 3, 10])
def test_binary_formats_are_recognised(k):
    probs = softmax(network(k)[0], axis=1)
    half = probs.astype(np.float16)
    for some, kind in (
        (probs, "float64"),
        (probs.astype(np.float32), "float32"),
        (probs.astype(np.float32).astype(np.float64), "float32"),
        (half.astype(np.float32), "float16"),
        (half.astype(np.float64), "float16"),
        (as_bfloat16(probs), "bfloat16"),
        (np.where(probs < 0.02, 0, probs), "float64"),  # leaves of trees, or a rule
    ):
        assert precision.of(some).kind == kind
    assert precision.of(half.astype(np.float32)).floor.row == 2.0**-28
    assert precision.of(np.where(probs < 0.02, 0, probs)).floor.each == pytest.approx(0.01, rel=0.1)
    tiny = np.finfo(np.float32).tiny
    assert precision.of(as_bfloat16(probs)).floor.each in (tiny, as_bfloat16(probs).min() / 2)


@pytest.mark.parametrize("steps", [127, 128, 255, 256])
def test_steps_of_a_byte_are_named(steps):
    probs = np.rint(steps * softmax(network(12)[0], axis=1)) / steps
    found = precision.of(probs.astype(np.float32))
    assert (found.kind, found.count, found.floor.row) == ("steps", steps, 0.5 / steps)
    words = f"have steps of 1/{steps}; a 0 counts as {0.5 / steps:.2g}, half a step."
    assert found.sentence == f"The probabilities {words}"


@pytest.mark.parametrize("digits", [1, 2, 3, 4, 6, 9])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_decimals_are_counted(digits, dtype):
    """As many as the type can show."""
    probs = softmax(network(4, 1.0)[0], axis=1).round(digits).astype(dtype).astype(np.float64)
    shown = {np.float16: 2, np.float32: 6, np.float64: 12}[dtype]
    found = precision.of(probs)
    assert (found.kind, found.count) == ("decimals", digits) or digits > shown
    assert found.floor.each <= 0.5 * 10.0**-digits or digits > shown


def test_two_sets_of_one_source_are_of_one_kind():
    """A few rows that say little, beside many."""
    probs, labels = polled(7)
    few = np.flatnonzero((probs == 0).any(axis=1))[:5]
    sets = {"probs": probs[few], "labels": labels[few], "val_probs": probs, "val_labels": labels}
    data = predictions.from_arrays(sets)
    np.testing.assert_array_equal(data.logits, data.val_logits[few])
    assert data.floor.each == pytest.approx(1 / 14)


# --- logarithms -----------------------------------------------------------------------------------


def test_without_zeros_nothing_changes_to_the_last_bit():
    logits, labels = network(4, 2.0)
    for dtype in (np.float32, np.float64):
        probs = softmax(logits, axis=1).astype(dtype)
        assert probs.min() > 0
        expected = np.log(probs)
        np.testing.assert_array_equal(arrays.as_logits(probs, kind="probs"), expected)
        data = predictions.from_arrays({"probs": probs, "labels": labels})
        np.testing.assert_array_equal(data.logits, expected)
        plain = posthoc.TemperatureScaling().fit(expected, labels)
        given = posthoc.TemperatureScaling().fit(probs, labels, kind="probs")
        assert given.temperature_ == plain.temperature_
        found = given.predict_proba(probs, kind="probs")
        np.testing.assert_array_equal(found, plain.predict_proba(expected))
        values = metrics.per_sample(probs, labels, kind="probs")
        for name, value in metrics.per_sample(expected, labels).items():
            np.testing.assert_array_equal(values[name], value)


def test_a_zero_is_filled_and_the_others_keep_their_ratios():
    probs = np.array([[0.6, 0.4, 0, 0], [1, 0, 0, 0], [0.3, 0.3, 0.2, 0.2]])
    logs = precision.log_probs(probs, precision.Floor(0.05, 0.1))
    filled = np.exp(logs)
    np.testing.assert_allclose(filled.sum(axis=1), 1, rtol=1e-12)
    np.testing.assert_allclose(filled[0], np.array([0.6, 0.4, 0.05, 0.05]) / 1.1)
    np.testing.assert_allclose(filled[1], np.array([1, 0.1 / 3, 0.1 / 3, 0.1 / 3]) / 1.1)
    np.testing.assert_array_equal(logs[2], np.log(probs[2]))
    apart = np.exp(
        precision.log_probs(np.array([[0, 1.0], [1, 0]]), precision.Floor((0.2, 0.1), 0.2))
    )
    np.testing.assert_allclose(apart, [[0.2 / 1.2, 1 / 1.2], [1 / 1.1, 0.1 / 1.1]])


def test_measures_of_probabilities_are_those_of_what_was_given():
    """Only the NLL of what was called impossible is by the floor."""
    probs, labels = polled(7)
    values = metrics.summary(probs, labels, kind="probs")
    assert values["ece"] == pytest.approx(metrics.ece(probs, labels), abs=1e-12)
    assert values["brier"] == pytest.approx(metrics.brier(probs, labels), abs=1e-12)
    true = probs[np.arange(len(labels)), labels]
    expected = -np.log(np.where(true > 0, true, 1 / 14)).mean()
    assert values["nll"] == pytest.approx(expected, abs=1e-12)
    (interval,) = stats.bootstrap(probs, labels, ["nll"], n=9, kind="probs").values()
    assert interval.estimate == pytest.approx(expected, abs=1e-12)


# --- temperatures ---------------------------------------------------------------------------------


@pytest.mark.parametrize("k", [2, 3, 10])
def test_half_precision_leaves_the_temperature_right(k):
    """Zeros as 1e-38 gave 12 and an ECE of 15 %."""
    logits, labels = network(k)
    probs = softmax(logits, axis=1).astype(np.float16)
    assert (probs == 0).mean() > 0.1
    for fitted in (of_file(probs, labels), of_array(probs, labels)):
        assert fitted == pytest.approx(5, rel=0.08)
    model = posthoc.TemperatureScaling().fit(probs, labels, kind="probs")
    after = model.predict_proba(probs, kind="probs")
    best = softmax(logits / posthoc.optimal_temperature(logits, labels)[0], axis=1)
    assert metrics.ece(after, labels) < metrics.ece(best, labels) + 0.01
    assert metrics.brier(after, labels) < metrics.brier(best, labels) + 0.001


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_one_column_says_less_of_the_class_that_is_left_out(dtype):
    """Beside a 1 that was rounded up, 1e-38 is not what is left."""
    logits, labels = network(2)
    one = softmax(logits, axis=1)[:, 1].astype(dtype)
    assert of_file(one, labels) == pytest.approx(5, rel=0.12)
    assert of_array(np.c_[1 - one, one], labels) == pytest.approx(of_file(one, labels))


@pytest.mark.parametrize("digits", [1, 2, 3, 4, 6])
@pytest.mark.parametrize("k", [2, 3])
def test_arrays_files_and_classifiers_give_one_temperature(tmp_path, digits, k):
    logits, labels = network(k, 2.0)
    p = softmax(logits, axis=1)[:, 1:].round(digits)
    probs = np.c_[1 - p.sum(axis=1), p].round(digits).clip(0)
    probs, labels = (x[np.abs(probs.sum(axis=1) - 1) < 1e-3] for x in (probs, labels))
    assert (probs == 0).any()
    file = tmp_path / "preds.csv"
    head = ",".join(["label", *(f"prob_{c}" for c in range(k))])
    np.savetxt(file, np.c_[labels, probs], f"%d{f',%.{digits}f' * k}", header=head, comments="")
    data = predictions.read(file)
    expected = posthoc.TemperatureScaling().fit(data.logits, data.labels).temperature_
    assert of_array(probs, labels) == pytest.approx(expected, rel=1e-9)
    model = CalibratedModel(Lookup(probs)).fit(np.arange(len(labels)), labels)
    assert model.map_.temperature_ == pytest.approx(expected, rel=1e-9)
    assert digits == 1 or expected == pytest.approx(2, rel=0.2 if digits == 2 else 0.1)


class Lookup(ClassifierMixin, BaseEstimator):
    """A fitted classifier whose inputs are rows of a table of probabilities."""

    def __init__(self, table):
        self.table = table
        self.classes_ = np.arange(table.shape[1])

    def fit(self, inputs, labels):
        return self

    def predict_proba(self, inputs):
        return self.table[np.asarray(inputs).ravel()]


def test_a_calibrated_model_is_not_bent_by_a_number_added_to_all_probabilities():
    """With 1e-12 added, sure errors of 1e-30 count for less, and so does the temperature."""
    logits, labels = network(3, 8.0, size=4.0)
    probs = softmax(logits, axis=1)
    bent = posthoc.optimal_temperature(np.log(probs + 1e-12), labels)[0]
    model = CalibratedModel(Lookup(probs)).fit(np.arange(len(labels)), labels)
    assert bent < 7 and model.map_.temperature_ == pytest.approx(8, rel=0.05)


def test_a_forest_behind_a_temperature_is_better_than_with_zeros_as_nearly_nothing():
    logits, labels = network(3, 1.0, n=3000)
    inputs = logits + np.random.default_rng(1).normal(size=logits.shape)
    parts = slice(0, 1000), slice(1000, 2000), slice(2000, None)
    forest = RandomForestClassifier(30, random_state=0).fit(inputs[parts[0]], labels[parts[0]])
    model = CalibratedModel(forest).fit(inputs[parts[1]], labels[parts[1]])
    assert model.map_.floor_ == pytest.approx((1 / 60, 1 / 30))
    assert "votes of 30" in model.map_.zeros_
    raw = forest.predict_proba(inputs[parts[1]])
    near = posthoc.TemperatureScaling().fit(np.log(raw + 1e-12), labels[parts[1]])
    theirs = near.predict_proba(np.log(forest.predict_proba(inputs[parts[2]]) + 1e-12))
    ours = model.predict_proba(inputs[parts[2]])
    assert metrics.nll(ours, labels[parts[2]]) < metrics.nll(theirs, labels[parts[2]]) - 0.01
    crossed = CalibratedModel(RandomForestClassifier(30, random_state=0), cv=3)
    crossed.fit(inputs[parts[1]], labels[parts[1]])
    assert crossed.map_.floor_ == pytest.approx((1 / 60, 1 / 30))


# --- saved maps -----------------------------------------------------------------------------------


@pytest.mark.parametrize("votes", [5, 9, 50])
def test_votes_get_a_temperature_that_helps(tmp_path, capsys, monkeypatch, votes):
    monkeypatch.chdir(tmp_path)
    probs, labels = polled(votes, n=3000)
    np.savez("votes.npz", probs=probs, labels=labels)
    assert cli.main(["recalibrate", "votes.npz", "--map", "temperature", "--save", "m.json"]) == 0
    kept = json.loads((tmp_path / "m.json").read_text())
    assert 1 < kept["fitted"]["temperature"] < 2
    assert kept["floor"] == pytest.approx([0.5 / votes, 1 / votes])
    assert kept["zeros"].startswith(f"The probabilities are votes of {votes}; a 0 counts as")
    assert kept["zeros"] in capsys.readouterr().out
    before, after = (kept["measured"][when] for when in ("before", "after"))
    assert after["brier"] < before["brier"] and after["nll"] < before["nll"]
    each = np.where(probs == 0, 0.5 / votes, probs)
    each /= each.sum(axis=1, keepdims=True)
    assert before["nll"] == pytest.approx(metrics.nll(each, labels))  # by the same floor
    assert before["brier"] == pytest.approx(metrics.brier(each, labels))


@pytest.mark.parametrize("name", ["temperature", "beta", "isotonic", "structured"])
def test_a_saved_map_treats_new_zeros_as_its_fit_did(tmp_path, name):
    """Also a single row, which alone says nothing of votes."""
    probs, labels = polled(7)
    data = predictions.from_arrays({"probs": probs, "labels": labels})
    model, about = deploy.recalibrate(data, name)
    model.save(tmp_path / "map.json", **about)
    kept = posthoc.load(tmp_path / "map.json")
    assert kept.floor_ == model.floor_ == data.floor
    assert kept.zeros_ == model.zeros_ == data.zeros != ""
    expected = model.predict_proba(data.logits)
    new = np.flatnonzero((probs == 0).any(axis=1))[:20]
    for row in new:
        found = kept.predict_proba(probs[[row]], kind="probs")
        np.testing.assert_allclose(found[0], expected[row], rtol=1e-12)
    assert kept.predict(probs[new], kind="probs").tolist() == expected[new].argmax(1).tolist()
    assert kept.score(probs, labels, kind="probs") == np.mean(expected.argmax(1) == labels)
    own = posthoc.MAPS[name]().fit(probs, labels, kind="probs")
    own.save(tmp_path / "own.json")
    again = posthoc.load(tmp_path / "own.json")
    np.testing.assert_array_equal(
        again.predict_proba(probs, "probs"), own.predict_proba(probs, "probs")
    )


def test_a_map_keeps_both_floors_of_one_column(tmp_path):
    logits, labels = network(2)
    one = softmax(logits, axis=1)[:, 1].astype(np.float16)
    model, about = deploy.recalibrate(predictions.from_arrays({"probs": one, "labels": labels}))
    model.save(tmp_path / "map.json", **about)
    kept = posthoc.load(tmp_path / "map.json")
    assert kept.floor_ == precision.Floor((2.0**-15, 2.0**-28), 2.0**-15)
    wide = one.astype(np.float32)
    found = kept.predict_proba(np.c_[1 - wide, wide], kind="probs")
    assert found.max() < 1 - 1e-4 and found[wide == 1].min() > 1e-4


def test_maps_without_a_floor_load_and_damaged_ones_do_not(tmp_path):
    file = tmp_path / "map.json"
    posthoc.FixedTemperature(2.0).save(file)
    assert posthoc.load(file).floor_ is None
    rows = np.array([[0.9, 0.1, 0.0], [1.0, 0.0, 0.0]])
    for kept, expected in ((0, None), (0.05, (0.05, 0.05)), ([0.05, 0.1], (0.05, 0.1))):
        posthoc.FixedTemperature(2.0).save(file, floor=kept)
        loaded = posthoc.load(file)
        assert loaded.floor_ == expected
        found = loaded.predict_proba(rows, kind="probs")
        logs = precision.log_probs(
            rows, expected and precision.Floor(*expected) or precision.of(rows).floor
        )
        np.testing.assert_allclose(found, softmax(logs / 2, axis=1))
    for damaged in ("x", [0.1], [0.1, 2], [-0.1, 0.1], [[0.1, 0.1, 0.1], 0.1], {"each": 1}):
        posthoc.FixedTemperature(2.0).save(file, floor=damaged)
        with pytest.raises(ValueError, match="map.json: "):
            posthoc.load(file)


def test_maps_of_logits_keep_no_floor():
    logits, labels = network(3)
    model = posthoc.TemperatureScaling().fit(logits, labels)
    assert model.floor_ is None
    probs = softmax(logits, axis=1)
    found = model.predict_proba(probs, kind="probs")
    np.testing.assert_allclose(found, model.predict_proba(log_softmax(logits, axis=1)), rtol=1e-9)


def test_pairs_that_are_sure_and_wrong_are_finite():
    confidence = np.random.default_rng(0).uniform(0.3, 1, 500).round(2)
    confidence[:50] = 1
    correct = np.r_[np.zeros(5, bool), np.ones(495, bool)]
    data = predictions.from_arrays({"confidence": confidence, "correct": correct})
    np.testing.assert_allclose(data.test.outcomes.nll[:5], -np.log(0.005 / 1.005))
    np.testing.assert_array_equal(data.test.outcomes.nll[50:], -np.log(confidence[50:]))
