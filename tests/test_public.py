"""Files of others: tiny ones in the same formats, and the real ones where they are."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from benchmarks import public
from calibkit import confidence, metrics
from calibkit_companion.data import catalogue, readers

here = bool(public.names())
real = pytest.mark.skipif(not here, reason="no public_logits in the data folder")


def _logits(root, name="cifar100-net-brier", truth=(0, 99, 5), **changes):
    labels = np.array(truth, np.uint8)
    classes = 100 if name.startswith("cifar100") else 10
    rng = np.random.default_rng(0)
    arrays = {
        "logits": rng.normal(size=(len(labels), classes)).astype(np.float32),
        "labels": labels,
        "val_logits": rng.normal(size=(4, classes)).astype(np.float32),
        "val_labels": np.array([1, 2, 3, 4], np.uint8),
    }
    arrays = {k: v for k, v in (arrays | changes).items() if v is not None}
    public.folder(root).mkdir(exist_ok=True)
    np.savez_compressed(public.folder(root) / f"{name}.npz", **arrays)
    return arrays


# --- logits ---------------------------------------------------------------------------------------


def test_logits_are_read_with_what_the_name_says(tmp_path):
    wrote = _logits(tmp_path)
    _logits(tmp_path, "cifar10-resnet20-erm-someone", public.official_labels(), val_logits=None,
            val_labels=None)  # fmt: skip
    assert public.names(tmp_path) == ["cifar10-resnet20-erm-someone", "cifar100-net-brier"]
    small, large = (public.predictions(name, tmp_path) for name in public.names(tmp_path))
    assert large[1:6] == ("cifar100", "net", "brier", "", "cifar100-net-brier")
    np.testing.assert_array_equal(large.logits, wrote["logits"])
    assert large.labels.tolist() == [0, 99, 5] and large.val_labels.tolist() == [1, 2, 3, 4]
    assert small[1:6] == ("cifar10", "resnet20", "erm", "someone", "cifar10-official")
    assert small.val_logits is None and small.logits.dtype == np.float64


def test_no_folder_means_no_networks(tmp_path):
    assert public.names(tmp_path) == []
    with pytest.raises(FileNotFoundError):
        public.predictions("cifar10-resnet50-brier", tmp_path)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"labels": np.zeros(2, np.uint8)}, "expected 3 integers"),
        ({"labels": np.full(3, 100, np.uint8)}, "outside 0 to 99"),
        ({"labels": np.zeros(3)}, "expected 3 integers"),
        ({"logits": np.zeros((3, 10), np.float32)}, r"expected \(n, 100\)"),
        ({"logits": np.full((3, 100), np.nan, np.float32)}, "not finite"),
        ({"logits": None}, "no logits"),
        ({"val_labels": None}, "no val_labels"),
    ],
)
def test_wrong_logits_are_refused_by_file_name(tmp_path, changes, words):
    _logits(tmp_path, **changes)
    with pytest.raises(ValueError, match=words) as error:
        public.predictions("cifar100-net-brier", tmp_path)
    assert "cifar100-net-brier.npz" in str(error.value)


def test_another_order_and_another_name_are_refused(tmp_path):
    _logits(tmp_path, "cifar10-net-brier", public.official_labels()[::-1])
    with pytest.raises(ValueError, match="official order"):
        public.predictions("cifar10-net-brier", tmp_path)
    with pytest.raises(ValueError, match="expected a name"):
        public.predictions("svhn-net-brier", tmp_path)
    (public.folder(tmp_path) / "cifar10-net-brier.npz").write_bytes(b"PK\x03\x04 cut")
    with pytest.raises(ValueError, match="get it again"):
        public.predictions("cifar10-net-brier", tmp_path)


# --- votes and reviews ----------------------------------------------------------------------------


def test_votes_are_read_and_checked(tmp_path):
    labels = public.official_labels()
    counts = 50 * np.eye(10, dtype=np.uint8)[labels]
    np.savez_compressed(tmp_path / "cifar10h.npz", counts=counts, labels=labels)
    np.testing.assert_array_equal(public.votes(tmp_path), counts)
    for changed in ({"counts": counts[:9]}, {"labels": labels[::-1]}, {"counts": 0 * counts}):
        np.savez(tmp_path / "cifar10h.npz", **({"counts": counts, "labels": labels} | changed))
        with pytest.raises(ValueError, match=r"cifar10h\.npz"):
            public.votes(tmp_path)


def _reviews(root, *rows):
    keys = ("given", "guessed", "both", "neither")
    rows = [
        {"id": i, "given_original_label": g, "our_guessed_label": other,
         "mturk": dict(zip(keys, votes, strict=True))}
        for i, g, other, votes in rows
    ]  # fmt: skip
    (root / "label_errors_cifar10.json").write_text(json.dumps(rows))


def test_a_label_is_confirmed_by_more_than_half_of_the_reviewers(tmp_path):
    given = public.official_labels()[[7, 8, 9]]
    votes = [(3, 1, 1, 0), (2, 0, 3, 0), (0, 5, 0, 0)]
    _reviews(tmp_path, *zip([7, 8, 9], given.tolist(), [1, 2, 4], votes, strict=True))
    found = public.review(tmp_path)
    assert found.confirmed.tolist() == [True, False, False]
    assert found.index.tolist() == [7, 8, 9] and found.guessed.tolist() == [1, 2, 4]
    np.testing.assert_array_equal(found.votes, votes)


def test_reviews_of_other_images_are_refused(tmp_path):
    _reviews(tmp_path, (0, (int(public.official_labels()[0]) + 1) % 10, 1, (5, 0, 0, 0)))
    with pytest.raises(ValueError, match="not those of CIFAR-10"):
        public.review(tmp_path)
    (tmp_path / "label_errors_cifar10.json").write_text('[{"id": 3}]')
    with pytest.raises(ValueError, match="not the reviewed labels"):
        public.review(tmp_path)


# --- order ----------------------------------------------------------------------------------------


def test_the_order_of_the_archive_from_each_order_of_ours():
    official = public.official_labels()
    assert np.bincount(official).tolist() == [1000] * 10
    assert official[:8].tolist() == [3, 8, 8, 0, 6, 6, 1, 6]  # cat, ship, ship, airplane, frog, …
    by_name = np.arange(10).repeat(1000)
    for labels in (official, by_name, by_name[readers.shuffled(10_000)]):
        place = public.official_place(labels)
        assert sorted(place) == list(range(10_000))
        np.testing.assert_array_equal(official[place], labels)
    with pytest.raises(ValueError, match="an order we know"):
        public.official_place(by_name[::-1])


# --- the real files -------------------------------------------------------------------------------

# Test error and ECE in per cent, from the README of torrvision/focal_calibration (475422a).
PRINTED = {
    "cifar10-resnet50-brier": (5.00, 1.82),
    "cifar10-resnet110-brier": (5.48, 2.56),
    "cifar10-wrn_26_10-brier": (4.08, 1.25),
    "cifar10-densenet121-brier": (5.11, 1.53),
    "cifar10-resnet50-flsd53": (4.98, 1.55),
    "cifar10-resnet110-flsd53": (5.42, 1.87),
    "cifar10-wrn_26_10-flsd53": (4.01, 1.56),
    "cifar10-densenet121-flsd53": (5.46, 1.22),
}


@real
@pytest.mark.parametrize("name", PRINTED)
def test_public_logits_give_what_their_authors_print(name):
    if name not in public.names():
        pytest.skip("not among the files")
    found = public.predictions(name)
    summary = metrics.summary(found.logits, found.labels)
    numbers = 100 * (1 - summary["accuracy"]), 100 * summary["ece"]
    assert numbers == pytest.approx(PRINTED[name], abs=0.0051)


@real
def test_people_and_strangers_see_the_same_images_as_we_do():
    """A shifted order would leave no agreement beyond the class."""
    root = catalogue.data_root()
    if not (root / "cifar10h.npz").exists():
        pytest.skip("no cifar10h.npz")
    doubt = 1 - public.votes().max(axis=1) / public.votes().sum(axis=1)
    errors = [
        p.logits.argmax(axis=1) != p.labels
        for p in map(public.predictions, public.names())
        if p.test_set == public.OFFICIAL
    ]
    for wrong in errors:
        assert np.corrcoef(wrong, doubt)[0, 1] > 0.2
        moved = np.concatenate(
            [np.roll(doubt[public.official_labels() == c], 1) for c in range(10)]
        )
        at = np.argsort(public.official_labels(), kind="stable")
        assert abs(np.corrcoef(wrong[at], moved)[0, 1]) < 0.1
    index = public.review().index
    assert np.mean(errors, axis=0)[index].mean() > 5 * np.mean(errors)


# --- their results --------------------------------------------------------------------------------


@pytest.fixture
def script(monkeypatch):
    monkeypatch.syspath_prepend(Path(__file__).parents[1] / "benchmarks")
    return pytest.importorskip("public_networks")


def _given(val: bool) -> public.Predictions:
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 10, 400)
    logits = 2 * rng.normal(size=(400, 10)) + 4 * np.eye(10)[labels]
    held_out = (logits[:100] * 3, labels[:100]) if val else (None, None)
    return public.Predictions("cifar10-net-erm", "cifar10", "net", "erm", "", "cifar10-official",
                              logits, labels, *held_out)  # fmt: skip


def test_what_is_fitted_never_saw_the_images_that_it_judges(script):
    """A "fit" that only remembers its data, applied to each image."""
    for val in (True, False):
        given, seen = _given(val), []

        def fit(z, y, seen=seen):
            seen.append(set(z[:, 0]))
            return len(seen)

        found, judged = script.Measured(given).fitted(fit, lambda z, k: z[:, :1] * 0 + k)
        assert found == ([1] if val else [1, 2])
        for column, by in zip(given.logits[:, 0], judged[:, 0], strict=True):
            assert column not in seen[int(by) - 1]
    assert np.bincount(judged[:, 0].astype(int)).tolist() == [0, 200, 200]


def test_rows_of_a_network_have_one_key_and_agree_with_the_metrics(script):
    for val in (True, False):
        given = _given(val)
        rows = pd.DataFrame(script.measure(given)["results"])
        key = ["run", "metric", "recalibration", "score", "test_set", "at"]
        assert not rows.duplicated(key).any() and rows.value.notna().all()
        found = rows.set_index(["metric", "recalibration", "score"]).value
        correct = given.logits.argmax(1) == given.labels
        assert found["accuracy", "none", "max_probability"] == correct.mean()
        p = found["p", "none", "p_norm"]
        if val:
            by_hand = metrics.auroc(confidence.p_norm(given.logits, p), correct)
            assert found["auroc", "none", "p_norm"] == pytest.approx(by_hand)
            t = found["temperature", "ts_nll", "max_probability"]
            assert found["ece", "ts_nll", "max_probability"] == pytest.approx(
                metrics.summary(given.logits / t, given.labels)["ece"]
            )
        summary = metrics.summary(given.logits, given.labels)
        residual = found["eq9_residual", "none", "max_probability"]
        assert residual == pytest.approx(summary["eq9_residual"])
        temperatures = np.geomspace(0.1, 10, 20)
        warm = [confidence.maximum_probability(given.logits / t) for t in temperatures]
        gain = max(metrics.auroc(one, correct) for one in warm) - summary["auroc"]
        best = found["auroc_gain_of_temperature", "none", "max_probability"]
        assert best == pytest.approx(gain, abs=2e-3) and best >= 0
        assert {"ts_nll", "ts_ece", "ts_test"} <= set(rows.recalibration)
        draws = rows.steps.dropna().map(len)
        assert (draws == 200).all() and len(draws) > 80


def test_auroc_at_equal_values_of_another_score(script):
    rng = np.random.default_rng(0)
    given = np.repeat(np.arange(40), 50) + rng.random(2000) / 2
    correct = rng.random(2000) < given / 40
    # A score that only repeats the other one, to the group, says nothing more.
    assert script.at_equal(given, np.floor(given), correct) == 0.5
    assert metrics.auroc(np.floor(given), correct) > 0.75
    assert script.at_equal(given, correct - 0.5 * given, correct) > 0.9


def test_a_network_that_strides_late_has_the_size_of_the_other(script):
    import torch

    sizes = [sum(w.numel() for w in build(20).parameters()) for build in
             (script.he_resnet, script.late_resnet)]  # fmt: skip
    assert sizes[0] == 269_722 and abs(sizes[1] - sizes[0]) < 40_000
    assert script.late_resnet(20)(torch.zeros(2, 3, 32, 32)).shape == (2, 10)


def test_published_logits_are_taken_in_the_official_order_alone(script, tmp_path, monkeypatch):
    labels = public.official_labels()
    logits = np.eye(10, dtype=np.float32)[labels]
    author = script.Author("here", "once", "none", logits={"net": "their.npz"})
    monkeypatch.setitem(script.AUTHORS, "somebody", author)
    monkeypatch.setenv("CALIBKIT_DATA", str(tmp_path / "data"))
    public.folder().mkdir(parents=True)
    np.savez(tmp_path / "their.npz", logits=logits, labels=labels)
    script.write_logits("somebody", tmp_path)
    taken = public.predictions("cifar10-net-erm-somebody")
    assert taken.author == "somebody" and np.array_equal(taken.logits, logits)
    order = np.roll(np.arange(10_000), 1)
    np.savez(tmp_path / "their.npz", logits=logits[order], labels=labels[order])
    with pytest.raises(ValueError, match=r"their\.npz: not in the official order"):
        script.write_logits("somebody", tmp_path)
