"""What a refusal says must work on the command line: rows of zeros, axes, values beyond 1, labels
that hold at once."""

import json
import re
import shlex

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import roc_auc_score

from calibkit import cli
from calibkit.report import predictions

N, K = 240, 4
RNG = np.random.default_rng(5)
PROBS = RNG.dirichlet([0.7] * K, N)
LABELS = np.array([RNG.choice(K, p=p) for p in PROBS])
TAGS = ["calm", "dark", "loud", "wet"]
MANY = (RNG.random((N, K)) < PROBS).astype(int)


def save(folder, **arrays):
    np.savez(folder / "preds.npz", **{"labels": LABELS} | arrays)
    return folder / "preds.npz"


def refused(folder, capsys, *options, file="preds.npz"):
    call = ["report", str(folder / file), "--out", str(folder / "out"), "--quiet", *options]
    assert cli.main(call) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and "kind=" not in error
    return error


# --- rows of zeros ---


@pytest.mark.parametrize("kind", ["probs", "logits"])
def test_rows_of_zeros_hold_no_prediction(tmp_path, kind):
    probs, empty = PROBS.copy(), [3, 77, 78, 200]
    probs[empty] = 0
    more = {"groups": np.arange(N).astype(str), "weights": np.arange(1.0, N + 1)}
    found = predictions.read(save(tmp_path, **{kind: probs}, **more))
    kept = np.delete(np.arange(N), empty)
    np.testing.assert_array_equal(found.labels, LABELS[kept])
    np.testing.assert_array_equal(found.groups, kept.astype(str))
    np.testing.assert_allclose(found.weights, kept + 1)
    assert f"4 of {N} rows of {kind} hold only zeros" in found.notes[0]
    assert "(rows 4, 78, 79, …)" in found.notes[0]


def test_rows_of_zeros_beside_a_cluster(tmp_path):
    probs, patient = PROBS.copy(), np.repeat(np.arange(N // 2), 2)
    probs[3] = 0
    found = predictions.read(save(tmp_path, probs=probs, patient=patient), cluster="patient")
    np.testing.assert_array_equal(found.clusters, np.delete(patient, 3).astype(str))
    assert found.cluster_name == "patient"


def test_equal_logits_are_a_prediction(tmp_path):
    logits = RNG.normal(size=(N, K))
    logits[:9] = 0
    assert len(predictions.read(save(tmp_path, logits=logits)).labels) == N


def test_zeros_of_the_validation_set(tmp_path):
    probs = PROBS.copy()
    probs[5] = 0
    held = {"val_probs": probs, "val_labels": LABELS, "val_weights": np.ones(N)}
    found = predictions.read(save(tmp_path, probs=PROBS, **held))
    assert len(found.labels) == N and len(found.val_labels) == len(found.val_weights) == N - 1


# --- axes ---


def test_an_axis_of_length_one_is_dropped(tmp_path):
    plain = predictions.read(save(tmp_path, probs=PROBS))
    found = predictions.read(save(tmp_path, probs=PROBS[:, None, :]))
    np.testing.assert_array_equal(found.logits, plain.logits)
    assert "without their axis of length 1" in found.notes[0]


def test_three_axes_name_their_way_out(tmp_path, capsys):
    save(tmp_path, probs=PROBS.reshape(24, 10, K), labels=LABELS.reshape(24, 10))
    assert "(--tokens)" in refused(tmp_path, capsys)
    assert cli.main(["report", str(tmp_path / "preds.npz"), "--tokens", "--quiet",
                     "--out", str(tmp_path / "out")]) == 0  # fmt: skip
    members = np.stack([PROBS, PROBS[:, ::-1]])
    save(tmp_path, probs=members)
    assert "save their mean, probs.mean(axis=0)" in refused(tmp_path, capsys)
    save(tmp_path, probs=members.mean(axis=0))
    assert predictions.read(tmp_path / "preds.npz").logits.shape == (N, K)


# --- values beyond 1 ---


@pytest.mark.parametrize("value", [1.0004, 1.03, -0.002])
def test_values_just_beyond_are_read_where_that_is_said(tmp_path, capsys, value):
    probs = PROBS.copy()
    probs[7] = [value, 1 - value, 0, 0]
    save(tmp_path, probs=probs)
    error = refused(tmp_path, capsys)
    assert "first in row 8" in error and "--as-is" in error
    found = predictions.read(tmp_path / "preds.npz", as_is=True)
    np.testing.assert_allclose(np.exp(found.logits[8:]), PROBS[8:], rtol=1e-6)
    assert np.exp(found.logits[7]).max() == pytest.approx(1, abs=1e-3)


def test_one_column_and_confidences_just_beyond(tmp_path, capsys):
    p = RNG.random(N)
    p[2] = 1.002
    for arrays in ({"probs": p, "labels": LABELS % 2}, {"confidence": p, "correct": LABELS % 2}):
        np.savez(tmp_path / "preds.npz", **arrays)
        assert "--as-is" in refused(tmp_path, capsys)
        found = predictions.read(tmp_path / "preds.npz", as_is=True)
        assert found.test.scored()[0].max() <= 1 and len(found.labels) == N


def test_what_is_far_beyond_is_not_read(tmp_path, capsys):
    probs = PROBS.copy()
    probs[7, 0] = 1.2
    save(tmp_path, probs=probs)
    refused(tmp_path, capsys)
    refused(tmp_path, capsys, "--as-is")


def test_rows_that_nearly_sum_to_one(tmp_path, capsys):
    save(tmp_path, probs=1.03 * PROBS)
    assert "--as-is" in refused(tmp_path, capsys)
    found = predictions.read(tmp_path / "preds.npz", as_is=True)
    np.testing.assert_allclose(np.exp(found.logits), PROBS, atol=1e-9)


def test_probabilities_under_the_name_of_logits(tmp_path, capsys):
    """Nearly all rows are: the refusal named an argument of Python before, and no file."""
    scores = PROBS.copy()
    scores[4] = [3, -1, 0, 2]
    save(tmp_path, logits=scores)
    error = refused(tmp_path, capsys)
    assert "preds.npz: logits: got probabilities in most rows" in error and "row 5" in error
    save(tmp_path, logits=scores + 1)
    assert cli.main(["report", str(tmp_path / "preds.npz"), "--quiet", "--out", str(tmp_path)]) == 0


def test_infinite_logits(tmp_path, capsys):
    logits = RNG.normal(size=(N, K))
    logits[8, 1] = -np.inf
    save(tmp_path, logits=logits)
    assert "row 9" in (error := refused(tmp_path, capsys))
    way = re.search(r"np\.clip\(logits, (\S+), (\S+)\)", error)
    save(tmp_path, logits=np.clip(logits, float(way[1]), float(way[2])))
    assert predictions.read(tmp_path / "preds.npz").logits.min() == -1e4


# --- labels that hold at once ---


def of_one(found, j):
    """The predictions are those of tag j alone."""
    assert found.class_names == (f"not {TAGS[j]}", TAGS[j]) and found.positive == 1
    np.testing.assert_array_equal(found.labels, MANY[:, j])
    np.testing.assert_allclose(found.test.scored(1)[0], PROBS[:, j], atol=1e-6)


def test_one_label_of_arrays(tmp_path, capsys):
    save(tmp_path, probs=PROBS, labels=MANY, class_names=TAGS)
    assert "--one-label NAME" in refused(tmp_path, capsys)
    for wanted in ("loud", "2"):
        of_one(predictions.read(tmp_path / "preds.npz", one_label=wanted), 2)
    call = ["report", str(tmp_path / "preds.npz"), "--out", str(tmp_path), "--quiet"]
    assert cli.main([*call, "--one-label", "wet"]) == 0
    numbers = json.loads((tmp_path / "report.json").read_text())["positive"]
    assert numbers["name"] == "wet" and not numbers["guessed"]
    expected = roc_auc_score(MANY[:, 3], PROBS[:, 3])
    assert numbers["auroc"]["estimate"] == pytest.approx(expected, abs=1e-9)
    assert "expected one of 'calm'" in refused(tmp_path, capsys, "--one-label", "7")
    save(tmp_path, probs=PROBS)
    assert "expected a 0 or 1 for each" in refused(tmp_path, capsys, "--one-label", "1")


def test_one_label_of_logits_with_a_validation_set_and_gaps(tmp_path):
    logits, labels = np.log(PROBS / (1 - PROBS)), MANY.astype(float)
    labels[:5, 1] = np.nan
    labels[5:9, 1] = -1
    held = {"val_logits": logits[::-1], "val_labels": MANY[::-1]}
    found = predictions.read(save(tmp_path, logits=logits, labels=labels, **held), one_label="1")
    np.testing.assert_array_equal(found.labels, MANY[9:, 1])
    np.testing.assert_allclose(found.test.scored(1)[0], PROBS[9:, 1], atol=1e-6)
    np.testing.assert_array_equal(found.val_labels, MANY[::-1, 1])


@pytest.mark.parametrize("form", ["csv", "jsonl", "lists", "dicts"])
def test_one_label_of_tables(tmp_path, capsys, form):
    names = [[t for t, y in zip(TAGS, row, strict=True) if y] for row in MANY]
    of_tags = [dict(zip(TAGS, row, strict=True)) for row in PROBS.tolist()]
    rows = {
        "jsonl": [{"scores": p, "tags": n} for p, n in zip(of_tags, names, strict=True)],
        "lists": [
            {"probs": p, "label": y} for p, y in zip(PROBS.tolist(), MANY.tolist(), strict=True)
        ],
        "dicts": [
            {"cats": p, "gold": dict(zip(TAGS, y, strict=True))}
            for p, y in zip(of_tags, MANY.tolist(), strict=True)
        ],
    }  # fmt: skip
    if form == "csv":
        file = tmp_path / "t.csv"
        scores = pd.DataFrame(PROBS, columns=[f"score.{t}" for t in TAGS])
        scores.assign(**dict(zip(TAGS, MANY.T, strict=True)), text="x").to_csv(file, index=False)
    else:
        file = tmp_path / "t.jsonl"
        file.write_text("\n".join(map(json.dumps, rows[form])).replace('"tags"', '"labels"'))
    error = refused(tmp_path, capsys, file=file.name)
    assert "--one-label" in error
    if form == "lists":  # whose names nobody knows
        found = predictions.read(file, one_label="2")
        assert found.class_names == ("not 2", "2")
        np.testing.assert_array_equal(found.labels, MANY[:, 2])
        return
    of_one(predictions.read(file, one_label="loud"), 2)
    assert "one_label: got 'sweet'" in refused(
        tmp_path, capsys, "--one-label", "sweet", file=file.name
    )


def test_one_label_in_the_other_commands(tmp_path):
    file = str(save(tmp_path, probs=PROBS, labels=MANY, class_names=TAGS))
    saved, out = str(tmp_path / "map.json"), str(tmp_path / "out")
    call = shlex.split("recalibrate FILE --one-label dark --force --quiet --save MAP")
    assert cli.main([{"FILE": file, "MAP": saved}.get(x, x) for x in call]) == 0
    assert json.loads((tmp_path / "map.json").read_text())
    assert cli.main(["compare", file, file, "--one-label", "dark", "--out", out, "--quiet"]) == 0
    assert json.loads((tmp_path / "out" / "compare.json").read_text())["positive"] == "dark"
