"""Files as other tools write them: read as they are meant, or refused with what to do."""

import json

import numpy as np
import pandas as pd
import pytest

from calibkit import cli
from calibkit.arrays import softmax
from calibkit.report import assessment, comparison, deploy, doubts, predictions, text
from calibkit.report.readers import asked, columns, records

RNG = np.random.default_rng(3)
N = 300
LOGITS = 1.5 * RNG.normal(size=(N, 3))
PROBS = softmax(LOGITS)
LABELS = (PROBS.cumsum(1) > RNG.random((N, 1))).argmax(1)
INSECTS = np.array(["ant", "bee", "cat"])
RISK = RNG.beta(2, 2, N)
EVENT = (RNG.random(N) < RISK).astype(int)


def table(tmp_path, data, name="t.csv", /, **options):
    path = tmp_path / name
    frame = pd.DataFrame(data)
    write = {".csv": frame.to_csv, ".parquet": frame.to_parquet, ".feather": frame.to_feather}
    write[path.suffix](path, **({"index": False} if name.endswith("csv") else {}))
    return predictions.read(path, **options)


def archive(tmp_path, options=None, **arrays):
    np.savez(tmp_path / "a.npz", **arrays)
    return predictions.read(tmp_path / "a.npz", **(options or {}))


def lines(tmp_path, rows, **options):
    (tmp_path / "r.jsonl").write_text("\n".join(map(json.dumps, rows)))
    return predictions.read(tmp_path / "r.jsonl", **options)


def of_classes(before="prob_", after="", names=INSECTS, scores=PROBS):
    return {f"{before}{x}{after}": scores[:, i] for i, x in enumerate(names)}


def same_probs(found, probs=PROBS, labels=LABELS, atol=1e-6):
    """The probabilities of each class and the labels, whatever the order of the classes."""
    np.testing.assert_allclose(softmax(found.logits), probs, atol=atol)
    np.testing.assert_array_equal(found.labels, labels)


# --- which columns are the classes ---


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("posterior.", ""), ("prob.", ""), (".pred_", ""), ("yhat_", ""), ("Prob_", ""),
        ("P(", ")"), ("", "_prob"), ("", ".probability"), ("p", ""), ("", ""),
    ],
)  # fmt: skip
def test_columns_of_any_prefix_or_suffix_are_matched_to_the_labels(tmp_path, before, after):
    columns = of_classes(before, after) | {"truth": INSECTS[LABELS], "fold": np.arange(N) % 5}
    found = table(tmp_path, {"id": np.arange(N)} | columns)
    same_probs(found)
    assert found.class_names == ("ant", "bee", "cat")
    assert "Columns not used: 'id', 'fold'." in found.notes


@pytest.mark.parametrize("prefix", ["prediction_", "class", "p.", "softmax-"])
def test_columns_in_the_order_of_text_are_read_by_their_numbers(tmp_path, prefix):
    k = 13
    labels = np.arange(N) % k
    scores = softmax(2 * np.eye(k)[labels] + RNG.normal(size=(N, k)))
    order = sorted(range(k), key=str)
    found = table(tmp_path, {f"{prefix}{i}": scores[:, i] for i in order} | {"y": labels})
    right = (scores.argmax(1) == labels).mean()
    assert found.test.outcomes.correct.mean() == right
    assert found.class_names == tuple(map(str, order)) and not found.doubts
    # Columns counted from 1 beside labels from 0: in the order of the numbers, which is said.
    by_place = sorted(range(k), key=lambda i: str(i + 1))
    columns = {f"{prefix}{i + 1}": scores[:, i] for i in by_place}
    found = table(tmp_path, columns | {"y": labels})
    assert found.test.outcomes.correct.mean() == right
    assert "matched by position, in the order of their numbers" in found.notes[0]


def test_where_only_positions_say_which_column_is_which_class_it_is_said(tmp_path):
    found = table(tmp_path, of_classes() | {"label": LABELS})
    same_probs(found)
    assert "label 0 is 'prob_ant', 1 is 'prob_bee'" in found.notes[0]


@pytest.mark.parametrize("labels", [EVENT.astype(bool), EVENT, EVENT.astype(float)])
def test_two_classes_called_by_numbers(tmp_path, labels):
    found = table(tmp_path, {"p0": 1 - RISK, "p1": RISK, "label": labels})
    same_probs(found, np.c_[1 - RISK, RISK], EVENT)


def test_labels_and_columns_that_differ_by_a_prefix(tmp_path):
    labels = [f"LABEL_{i}" for i in LABELS]
    same_probs(table(tmp_path, of_classes("", names=range(3)) | {"label": labels}))
    same_probs(table(tmp_path, of_classes("LABEL_", names=range(3)) | {"label": LABELS}))


def test_several_families_of_columns(tmp_path):
    label = {"label": LABELS}
    features = of_classes("x_", names=range(3), scores=LOGITS)
    same_probs(table(tmp_path, of_classes("softmax_", names=range(3)) | features | label))
    two = of_classes("a_", names=range(3)) | of_classes("b_", names=range(3)) | label
    with pytest.raises(ValueError, match=r"'a_\*', 'b_\*'.*--column 'probs=a_\*'"):
        table(tmp_path, two)
    same_probs(table(tmp_path, two, columns=["probs=b_*"]))


@pytest.mark.parametrize("before", ["p", "", "prob_"])
def test_calibrated_columns_beside_raw_ones_are_offered(tmp_path, before):
    names = ["0", "1"]
    raw, flat = np.c_[1 - RISK, RISK], np.c_[1 - RISK / 2, RISK / 2]
    columns = of_classes(before, names=names, scores=raw) | {"label": EVENT}
    columns |= of_classes(f"cal_{before}", names=names, scores=flat)
    found = table(tmp_path, columns)
    same_probs(found, raw, EVENT)
    assert f"--column 'probs={before}*' --column 'probs=cal_{before}*' compares" in found.notes[0]
    same_probs(predictions.read(tmp_path / "t.csv", columns=[f"probs=cal_{before}*"]), flat, EVENT)
    said = [f"probs={before}*", f"probs=cal_{before}*"]
    page = comparison.build([tmp_path / "t.csv"], tmp_path / "out", columns=said)
    numbers = json.loads(page.with_suffix(".json").read_text())
    assert numbers["models"] == [f"{before}*", f"cal_{before}*"]
    ece, flat_ece = (numbers["metrics"][x]["ece"] for x in numbers["models"])
    assert ece != flat_ece


def test_a_refusal_names_the_column_in_the_way(tmp_path):
    columns = {"row": np.arange(N)} | of_classes("") | {"label": LABELS}
    with pytest.raises(ValueError, match=r"\('row'\); leave out .* score: --column ignore=row"):
        table(tmp_path, columns)
    same_probs(predictions.read(tmp_path / "t.csv", columns=["ignore=row"]))
    columns = of_classes("unit_", names=range(3), scores=LOGITS) | {"label": LABELS}
    with pytest.raises(ValueError, match=r"if they are logits: --column 'logits=unit_\*'"):
        table(tmp_path, columns)
    found = predictions.read(tmp_path / "t.csv", columns=["logits=unit_*"])
    np.testing.assert_allclose(found.logits, LOGITS)


@pytest.mark.parametrize("gap", ["NA", "", "nan", "None"])
def test_a_cell_without_a_number_is_named(tmp_path, gap):
    (tmp_path / "t.csv").write_text(
        "label,ant,bee\n" + "ant,0.9,0.1\n" * 5 + f"bee,{gap},{gap}\nbee,0.5,0.5\n"
    )
    with pytest.raises(ValueError, match="ant: got .* in row 6 below the header"):
        predictions.read(tmp_path / "t.csv")


# --- what the caller says ---


def test_columns_as_said():
    assert asked.parse(["label=a", "ignore=b", "ignore=c"]) == {
        "labels": ("a",),
        "ignore": ("b", "c"),
    }
    assert asked.parse({"probs": "p_*"}) == {"probs": ("p_*",)}
    for wrong in ("truth", "colour=x", "label="):
        with pytest.raises(ValueError, match="expected NAME=COLUMN"):
            asked.parse([wrong])


def test_columns_of_other_names_are_read_as_said(tmp_path):
    columns = {"certainty": RISK, "exact": EVENT.astype(float), "note": "x"}
    with pytest.raises(ValueError, match="--column confidence=certainty --column correct=exact$"):
        table(tmp_path, columns)
    found = predictions.read(tmp_path / "t.csv", columns=["confidence=certainty", "correct=exact"])
    np.testing.assert_allclose(found.test.outcomes.confidence, RISK)
    with pytest.raises(ValueError, match="column: got 'certain', expected columns among"):
        predictions.read(tmp_path / "t.csv", columns=["confidence=certain"])


def test_nested_json_is_read_by_dots(tmp_path):
    rows = [
        {"id": i, "reply": {"p": p, "meta": {"a": 1}}, "check": {"ok": bool(e)}}
        for i, (p, e) in enumerate(zip(RISK, EVENT, strict=True))
    ]
    with pytest.raises(ValueError, match="--column confidence=reply.p --column correct=check.ok"):
        lines(tmp_path, rows)
    found = lines(tmp_path, rows, columns={"confidence": "reply.p", "correct": "check.ok"})
    assert found.test.outcomes.correct.tolist() == EVENT.astype(bool).tolist()


def test_arrays_of_other_names_are_read_as_said(tmp_path):
    same_probs(archive(tmp_path, {"columns": ["probs=Q", "label=c"]}, Q=PROBS, c=LABELS))
    with pytest.raises(ValueError, match="otherwise say which, as in --column probs=NAME"):
        predictions.read(tmp_path / "a.npz")


def test_the_option_in_all_three_commands(tmp_path, capsys):
    frame = pd.DataFrame(
        of_classes("s_") | {"truth": INSECTS[LABELS], "actual": INSECTS[::-1][LABELS]}
    )
    frame.to_csv(tmp_path / "t.csv", index=False)
    path, said = str(tmp_path / "t.csv"), ["--column", "label=truth", "--column", "probs=s_*"]
    out = str(tmp_path / "out")
    assert cli.main(["report", path, "--out", out]) == 2
    assert "two columns of labels that differ, 'actual' and 'truth'" in capsys.readouterr().err
    assert cli.main(["report", path, "--out", out, "--quiet", *said]) == 0
    assert cli.main(["compare", path, path, "--out", out, "--quiet", *said]) == 0
    saved = str(tmp_path / "map.json")
    assert cli.main(["recalibrate", path, "--save", saved, "--quiet", *said]) == 0


# --- labels and answers ---


@pytest.mark.parametrize("kind", [int, float, str])
def test_labels_of_minus_one_and_one_are_classes(tmp_path, kind):
    labels = (2 * EVENT - 1).astype(kind)
    two = np.c_[1 - RISK, RISK]
    np.save(tmp_path / "labels.npy", labels)
    np.save(tmp_path / "scores.npy", np.log(two))
    found = [
        archive(tmp_path, probs=two, labels=labels),
        table(tmp_path, {"prob_1": RISK, "label": labels}),
        table(tmp_path, {"prob_0": 1 - RISK, "prob_1": RISK, "label": labels}),
        table(tmp_path, {"prob_-1": 1 - RISK, "prob_1": RISK, "label": labels}),
        predictions.read(tmp_path / "scores.npy", labels=tmp_path / "labels.npy"),
        predictions.from_arrays({"probs": RISK, "labels": labels}),
    ]
    for data in found:
        same_probs(data, two, EVENT)
        assert data.class_names == ("-1", "1")
        assert any("class" in note and "-1" in note for note in data.notes)
    none = {"minus_one": "none"}
    for data in (
        archive(tmp_path, none, probs=two, labels=labels),
        table(tmp_path, {"prob_1": RISK, "label": labels}, **none),
    ):
        assert len(data.labels) == EVENT.sum()
        assert any("have no label" in note for note in data.notes)


def test_minus_one_among_others_is_no_label_unless_said(tmp_path):
    labels = LABELS - 1
    found = archive(tmp_path, probs=PROBS, labels=labels)
    assert len(found.labels) == (labels >= 0).sum()
    same_probs(archive(tmp_path, {"minus_one": "class"}, probs=PROBS, labels=labels))
    with pytest.raises(ValueError, match="minus_one: got 'x'"):
        archive(tmp_path, {"minus_one": "x"}, probs=PROBS, labels=labels)


def test_two_columns_of_labels(tmp_path):
    scores = of_classes()
    both = scores | {"label": INSECTS[PROBS.argmax(1)], "truth": INSECTS[LABELS]}
    with pytest.raises(ValueError, match="'label' and 'truth'.*--column label=label"):
        table(tmp_path, both)
    same_probs(table(tmp_path, both, columns=["label=truth"]))
    same_probs(table(tmp_path, scores | {"label": INSECTS[LABELS], "target": LABELS}))
    with pytest.raises(ValueError, match="two arrays of labels that differ, 'labels' and 'y_true'"):
        archive(tmp_path, probs=PROBS, labels=PROBS.argmax(1), y_true=LABELS)


def test_labels_that_are_the_models_answers_get_no_verdict_and_no_map():
    data = predictions.from_arrays({"probs": PROBS, "labels": PROBS.argmax(1)})
    (doubt,) = data.doubts
    assert f"imply some {(1 - PROBS.max(1)).sum():.0f} errors" in doubt
    numbers = assessment.assess(data)
    assert numbers.recommended is None and numbers.doubts == [doubt]
    (only,) = text.verdict(numbers)
    assert only["title"].startswith("No verdict") and doubt in only["text"]
    with pytest.raises(ValueError, match="No map was fitted; .* --as-is"):
        deploy.recalibrate(data)
    believed = predictions.from_arrays({"probs": PROBS, "labels": PROBS.argmax(1)}, as_is=True)
    assert not believed.doubts and doubt in believed.notes
    assert not predictions.from_arrays({"logits": 20 * LOGITS, "labels": LABELS}).doubts


K = 8
MANY_LABELS = RNG.integers(K, size=900)
MANY = softmax(2 * np.eye(K)[MANY_LABELS] + 1.2 * RNG.normal(size=(900, K)))
TURNED = np.roll(np.arange(K), 3)
SWAPPED = np.array([0, 5, 2, 3, 4, 1, 6, 7])


@pytest.mark.parametrize("order", [TURNED, SWAPPED, np.arange(K)[::-1]])
def test_columns_in_another_order_are_noticed(order):
    data = predictions.from_arrays({"probs": MANY[:, order], "labels": MANY_LABELS})
    (doubt,) = data.doubts
    right = 100 * (MANY.argmax(1) == MANY_LABELS).mean()
    assert "another order" in doubt and f"{right:.1f}" in doubt


@pytest.mark.parametrize("step", [1, -1])
def test_labels_counted_from_another_number_are_noticed(step):
    spare = np.full((900, 1), 1e-5)
    probs = np.hstack([MANY, spare] if step == 1 else [spare, MANY]) / (1 + 1e-5)
    labels = MANY_LABELS + (step == 1)
    (doubt,) = predictions.from_arrays({"probs": probs, "labels": labels}).doubts
    assert f"The labels {'minus' if step == 1 else 'plus'} 1 fit far better" in doubt
    assert not predictions.from_arrays(
        {"probs": probs, "labels": MANY_LABELS + (step == -1)}
    ).doubts


def test_what_is_merely_bad_is_not_doubted():
    rng = np.random.default_rng(0)
    for probs in (
        rng.dirichlet(np.ones(K), 900),  # guessing
        softmax(np.log(MANY) + 6 * np.eye(K)[2]),  # one class far too often
        softmax(np.log(MANY) + [5, 5, 5, 0, 0, 0, 0, 0]),
        softmax(0.1 * np.log(MANY)),
        MANY,
    ):
        assert not predictions.from_arrays({"probs": probs, "labels": MANY_LABELS}).doubts
    # A rare disease: the same class is called in every row, and is the most common one.
    probs = np.tile([0.9, 0.07, 0.03], (400, 1))
    labels = rng.choice(3, 400, p=[0.9, 0.07, 0.03])
    assert not predictions.from_arrays({"probs": probs, "labels": labels}).doubts


def test_few_calibrated_models_are_doubted():
    """Random models of 3 to 20 classes, calibrated: a doubt would be wrong."""
    rng = np.random.default_rng(0)
    for _ in range(60):
        k, n = rng.integers(3, 20), rng.integers(50, 800)
        logits = rng.uniform(0.2, 3) * rng.normal(size=(n, k)) + rng.normal(size=k)
        labels = (softmax(logits).cumsum(1) > rng.random((n, 1))).argmax(1)
        assert not doubts.doubts_of(logits, labels.clip(0, k - 1), ())


@pytest.mark.parametrize("turned", [False, True])
def test_rows_that_are_sorted_are_noticed(turned):
    probs = -np.sort(-MANY, axis=1)
    probs = probs[:, ::-1] if turned else probs
    (doubt,) = predictions.from_arrays({"probs": probs, "labels": MANY_LABELS}).doubts
    assert f"Column {K if turned else 1} is the largest in every row" in doubt


def test_answers_beside_probabilities_are_compared(tmp_path):
    columns = of_classes("") | {"target": INSECTS[LABELS], "prediction": INSECTS[PROBS.argmax(1)]}
    data = table(tmp_path, columns)
    same_probs(data)
    assert not data.notes and not data.doubts
    # Two classes by a threshold of the tool's own.
    columns = {"p0": 1 - RISK, "p1": RISK, "label": EVENT, "predict": (RISK > 0.3).astype(int)}
    data = table(tmp_path, columns)
    differ = ((RISK > 0.3) != (RISK > 0.5)).sum()
    (note,) = (note for note in data.notes if "answers differ" in note)
    assert f"in {differ} of 300 rows, as by a threshold of 0.3" in note and not data.doubts
    # Columns in another order than the answers.
    data = archive(tmp_path, probs=MANY[:, TURNED], y=MANY_LABELS, y_pred=MANY.argmax(1))
    assert "The file's own answers differ" in data.doubts[0]
    columns = {"no": RISK, "yes": 1 - RISK, "label": np.where(EVENT, "yes", "no")}
    data = table(tmp_path, columns | {"pred": np.where(RISK > 0.5, "yes", "no")})
    assert "in 300 of 300 rows" in data.doubts[0]


def test_the_answer_is_the_column_that_shares_values_with_the_label(tmp_path):
    label = np.where(EVENT, "2:yes", "1:no")
    columns = {"actual": label, "predicted": "2:yes", "prediction": RISK, "confidence": RISK}
    data = table(tmp_path, columns)
    assert data.test.outcomes.correct.mean() == EVENT.mean()
    with pytest.raises(ValueError, match="predicted: got 'sure', none of which is a value of"):
        table(tmp_path, {"actual": label, "predicted": "sure", "confidence": RISK})


@pytest.mark.parametrize("model", ["model", "model_name"])
def test_several_models_in_one_table_get_no_verdict(tmp_path, model):
    columns = {"confidence": RISK, "correct": EVENT, model: np.arange(N) % 3}
    (doubt,) = table(tmp_path, columns).doubts
    assert f"The column {model!r} names 3 models" in doubt and f"--group {model}" in doubt
    assert not table(tmp_path, columns, group=[model]).doubts
    assert not table(tmp_path, columns, columns=[f"ignore={model}"]).doubts
    assert not table(tmp_path, columns | {model: "one"}).doubts


# --- what numbers are ---


def test_percentages_are_read_under_every_name(tmp_path):
    two = np.c_[1 - RISK, RISK]
    label = {"label": EVENT}
    found = [
        table(tmp_path, {"prob_1": 100 * RISK} | label),
        table(tmp_path, {"score": 100 * RISK} | label),
        table(tmp_path, {"prob_0": 100 - 100 * RISK, "prob_1": 100 * RISK} | label),
        table(tmp_path, {"y_prob": [f"{100 * x:.10f} %" for x in RISK]} | label),
        archive(tmp_path, score=100 * RISK, y_true=EVENT),
        archive(tmp_path, logits=100 * two, labels=EVENT),
        predictions.from_arrays({"probs": 100 * RISK, "labels": EVENT}),
    ]
    for data in found:
        same_probs(data, two, EVENT)
    assert sum(any("percent" in note for note in data.notes) for data in found) == 6
    rare = {"risk_pct": 9 * RISK, "label": EVENT}  # none near 100, but the name says so
    same_probs(table(tmp_path, rare), np.c_[1 - 0.09 * RISK, 0.09 * RISK], EVENT)


@pytest.mark.parametrize("top", [7, 37])
def test_scores_that_are_never_negative_are_questioned(tmp_path, top):
    columns = {"score": top * RISK, "label": EVENT}
    with pytest.raises(ValueError, match="none below 0 as logits.*--column logits=score"):
        table(tmp_path, columns)
    data = table(tmp_path, columns, columns=["logits=score"])
    np.testing.assert_allclose(data.logits[:, 1], top * RISK)
    assert "No value of logits is below 0" in data.notes[0]
    with pytest.raises(ValueError, match="none below 0"):
        archive(tmp_path, scores=top * RISK, labels=EVENT)


def test_confidences_as_people_write_them(tmp_path):
    for written in (
        [f"{100 * x:.8f}%" for x in RISK],
        100 * RISK,
        RISK,
    ):
        data = table(tmp_path, {"confidence": written, "correct": EVENT})
        np.testing.assert_allclose(data.test.outcomes.confidence, RISK, atol=1e-9)
    with pytest.raises(ValueError, match="expected % in all or in none"):
        table(tmp_path, {"confidence": ["85%", "0.5"], "correct": [1, 0]})
    with pytest.raises(ValueError, match="got values from 0 to 10"):
        table(tmp_path, {"confidence": [0, 10, 7], "correct": [1, 0, 1]})


@pytest.mark.parametrize(
    "words",
    [("correct", "incorrect"), ("Y", "N"), ("right", "Wrong"), ("PASS", "fail"), ("C", "I")],
)
def test_right_and_wrong_in_words(tmp_path, words):
    data = table(tmp_path, {"confidence": RISK, "correct": np.where(EVENT, *words)})
    assert data.test.outcomes.correct.tolist() == EVENT.astype(bool).tolist()


@pytest.mark.parametrize("none", [np.nan, "n/a", ""])
def test_rows_without_a_confidence_are_left_out_and_named(tmp_path, none):
    confidence = pd.Series(RISK).astype(object)
    confidence[[3, 8, 20, 31]] = none
    group = np.arange(N) % 2
    data = table(tmp_path, {"confidence": confidence, "correct": EVENT, "group": group})
    kept = np.delete(np.arange(N), [3, 8, 20, 31])
    np.testing.assert_allclose(data.test.outcomes.confidence, RISK[kept])
    assert data.groups.tolist() == [str(x) for x in group[kept]]
    assert "4 of 300 rows have no confidence" in data.notes[0]
    assert "(rows 4, 9, 21, … below the header)" in data.notes[0]


def test_logarithms_of_whole_texts_are_questioned(tmp_path):
    with pytest.raises(ValueError, match="whole texts that are not normalised"):
        table(tmp_path, {"logprob": -300 * RISK, "correct": EVENT})
    data = table(tmp_path, {"logprob": np.log(RISK), "correct": EVENT})
    np.testing.assert_allclose(data.test.outcomes.confidence, RISK)


@pytest.mark.parametrize("off", [5e-5, 1.2e-7])
def test_what_is_just_above_one_is_one(tmp_path, off):
    risk = RISK.copy()
    risk[:9] = 1 + off
    data = table(tmp_path, {"confidence": risk, "correct": EVENT})
    assert data.test.outcomes.confidence.max() == 1
    for data in (
        table(tmp_path, {"prob_1": risk, "label": EVENT}),
        archive(tmp_path, probs=np.c_[1 - risk, risk], labels=EVENT),
    ):
        np.testing.assert_allclose(softmax(data.logits)[:9, 1], 1)
        assert any("9 of 300" in note or "18 of 600" in note for note in data.notes) == (off > 1e-6)
    with pytest.raises(ValueError, match="got values from"):
        table(tmp_path, {"confidence": risk + 0.01, "correct": EVENT})


def as_bfloat16(x):
    return (x.astype(np.float32).view(np.uint32) & 0xFFFF0000).astype(np.uint32).view(np.float32)


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_probabilities_of_half_precision_are_read_and_noted(tmp_path, kind):
    probs = softmax(4 * np.random.default_rng(0).normal(size=(N, 40)))
    coarse = as_bfloat16(probs).astype(kind)
    assert np.abs(coarse.sum(1) - 1).max() > 1e-3
    data = archive(tmp_path, probs=coarse, labels=np.arange(N) % 40)
    same_probs(data, probs, np.arange(N) % 40, atol=5e-3)
    (note,) = (note for note in data.notes if "coarse" in note)
    ones = (coarse.max(1) == 1).sum()
    assert f"precision of bfloat16: {ones} of 300 confidences are exactly 1" in note
    half = softmax(9 * LOGITS).astype(np.float16)
    data = archive(tmp_path, probs=half, labels=LABELS)
    assert f"float16: {(half.max(1) == 1).sum()} of 300" in data.notes[0]
    assert not archive(tmp_path, probs=PROBS.astype(np.float32), labels=LABELS).notes


def test_types_that_numpy_does_not_know_are_named(tmp_path):
    bits = (LOGITS.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
    with pytest.raises(ValueError, match=r"bfloat16 of ml_dtypes\): save x.astype\(np.float32\)"):
        archive(tmp_path, logits=bits.view("V2"), labels=LABELS)


@pytest.mark.parametrize("steps", [255, 256, 128])
def test_steps_of_a_byte_are_read_like_decimals(steps):
    exact = softmax(2 * np.random.default_rng(0).normal(size=(N, 12)))
    probs = (np.rint(steps * exact) / steps).astype(np.float32)
    assert np.abs(probs.sum(1) - 1).max() > 2e-3
    data = predictions.from_arrays({"probs": probs, "labels": np.arange(N) % 12})
    same_probs(data, exact, np.arange(N) % 12, atol=4 / steps)
    assert any(f"steps of 1/{steps}" in note for note in data.notes)


@pytest.mark.parametrize("kind", [np.int8, np.uint8, np.int64, np.float32])
def test_codes_of_a_byte_are_named(kind):
    codes = np.rint(255 * softmax(2 * LOGITS)) - (128 if kind == np.int8 else 0)
    with pytest.raises(ValueError, match="codes of a quantised model") as caught:
        predictions.from_arrays({"probs": codes.astype(kind), "labels": LABELS})
    assert "zero point" in str(caught.value) and "name them logits" not in str(caught.value)


@pytest.mark.parametrize("filler", [np.finfo(float).min, -1e9, -np.inf, -745.0])
def test_fillers_for_the_logarithm_of_zero(tmp_path, filler):
    probs = RNG.multinomial(20, [0.6, 0.3, 0.1], N) / 20
    assert (probs == 0).sum() > 5
    logs = np.log(np.where(probs > 0, probs, 1))
    logs[probs == 0] = filler
    found = archive(tmp_path, logits=logs, labels=LABELS)
    plain = archive(tmp_path, probs=probs, labels=LABELS)
    np.testing.assert_allclose(softmax(found.logits), softmax(plain.logits), atol=1e-9)
    assert "the lowest number stands for the logarithm of 0" in found.notes[0]
    assert not archive(tmp_path, logits=np.log(PROBS), labels=LABELS).notes


@pytest.mark.parametrize("scale", [1, 300])
def test_two_columns_that_hold_one_number(tmp_path, scale):
    d = scale * LOGITS[:, 0]
    data = archive(tmp_path, logits=np.c_[-d, d], labels=EVENT)
    assert "negatives of each other" in data.notes[0]
    with pytest.raises(ValueError, match="column 0 is 1 minus column 1. Save column 1 alone"):
        archive(tmp_path, logits=np.c_[1 - d, d], labels=EVENT)
    with pytest.raises(ValueError, match="column 0 is 1 minus column 1"):
        table(tmp_path, {"logit_0": 1 - d, "logit_1": d, "label": EVENT})


def test_rows_of_one_class_against_the_rest_are_named():
    q = 1 / (1 + np.exp(-LOGITS))
    with pytest.raises(ValueError, match=r"one class against the rest.*log\(p / \(1 - p\)\)"):
        predictions.from_arrays({"probs": q, "labels": LABELS})
    with pytest.raises(ValueError, match="if classes are left out"):
        predictions.from_arrays({"probs": 0.7 * PROBS, "labels": LABELS})


@pytest.mark.parametrize("kind", ["logits", "probs"])
def test_several_labels_at_once_are_named(kind):
    many = RNG.random((N, 3)) < 0.4
    with pytest.raises(ValueError, match=r"\(multi-label\).*--one-label NAME"):
        predictions.from_arrays({kind: PROBS, "labels": many.astype(int)})


@pytest.mark.parametrize("last", [True, False])
def test_pixels_are_refused_or_flattened(tmp_path, last):
    scores = RNG.normal(size=(4, 5, 6, 3))
    labels, groups = RNG.integers(3, size=(4, 5, 6)), np.arange(4)
    logits = scores if last else np.moveaxis(scores, -1, 1)
    with pytest.raises(ValueError, match="if these are scores of pixels, --tokens"):
        archive(tmp_path, logits=logits, labels=labels, groups=groups)
    data = predictions.read(tmp_path / "a.npz", tokens=True)
    np.testing.assert_array_equal(data.logits, scores.reshape(-1, 3))
    np.testing.assert_array_equal(data.labels, labels.ravel())
    assert data.groups.tolist() == [str(i) for i in np.repeat(groups, 30)]
    assert "4 images of 5 × 6 pixels: each pixel is a sample" in data.notes[0]


# --- rows that hold more than numbers ---


@pytest.mark.parametrize("name", ["probs", "prediction_proba", "cats"])
def test_a_dict_in_each_row(tmp_path, name):
    rows = [
        {"truth": INSECTS[y], name: dict(zip(INSECTS, map(float, p), strict=True))}
        for p, y in zip(PROBS, LABELS, strict=True)
    ]
    same_probs(lines(tmp_path, rows))


@pytest.mark.parametrize("labels", [LABELS.tolist(), [f"LABEL_{i}" for i in LABELS]])
def test_lists_of_label_and_score_with_the_best_first(tmp_path, labels):
    rows = [
        {
            "reply": [{"label": f"LABEL_{i}", "score": float(p[i])} for i in np.argsort(-p)],
            "label": label,
        }
        for p, label in zip(PROBS, labels, strict=True)
    ]
    same_probs(lines(tmp_path, rows))


@pytest.mark.parametrize("name", ["t.parquet", "t.feather"])
def test_lists_and_vectors_in_a_column(tmp_path, name):
    columns = {"label": LABELS, "probability": list(PROBS)}
    same_probs(table(tmp_path, columns, name))
    vectors = [{"type": 1, "size": None, "indices": None, "values": list(p)} for p in PROBS]
    more = {"prediction": PROBS.argmax(1).astype(float)}
    same_probs(table(tmp_path, columns | more | {"probability": vectors}, name))
    hidden = {"label": LABELS, "out": list(PROBS)}
    with pytest.raises(ValueError, match="out: got a list in each row.*--column probs=out"):
        table(tmp_path, hidden, name)
    same_probs(table(tmp_path, hidden, name, columns=["probs=out"]))


def test_a_sparse_vector_of_many_classes_is_read():
    cell = {"type": 0, "size": 1000, "indices": [3, 900], "values": [0.25, 0.75]}
    found = np.array(records._vector(cell))
    assert found.shape == (1000,) and (found[3], found[900], found.sum()) == (0.25, 0.75, 1)


@pytest.mark.parametrize("kind", ["probs", "logits"])
def test_questions_of_two_and_of_three_choices(tmp_path, kind):
    rows = [{"label": i % 2, kind: [0.6, 0.3, 0.1] if i % 3 else [0.7, 0.3]} for i in range(90)]
    data = lines(tmp_path, rows)
    probs = softmax(data.logits, kind=None)
    assert (probs[::3, 2] == 0).all() and "2 to 3 choices" in data.notes[0]
    if kind == "probs":
        np.testing.assert_allclose(probs[0, :2], [0.7, 0.3])
        np.testing.assert_allclose(probs[1], [0.6, 0.3, 0.1])
    rows[9] |= {"label": 2}
    with pytest.raises(ValueError, match="label: got 2 in row 10, which has 2 scores"):
        lines(tmp_path, rows)


@pytest.mark.parametrize("orient", ["split", "columns", "index", "records", "table"])
def test_json_of_pandas(tmp_path, orient):
    frame = pd.DataFrame(of_classes() | {"label": INSECTS[LABELS]})
    frame.to_json(tmp_path / "t.json", orient=orient, double_precision=15)
    same_probs(predictions.read(tmp_path / "t.json"))


@pytest.mark.parametrize("names", [("pred_probs", "labels"), ("preds", "targs"), ("y_pred", "y")])
def test_arrays_that_can_mean_one_thing_only(tmp_path, names):
    same_probs(archive(tmp_path, **dict(zip(names, (PROBS, LABELS), strict=True))))


def test_a_tuple_of_tensors_shows_how_to_save_it(tmp_path):
    import torch

    torch.save((torch.tensor(PROBS), torch.tensor(LABELS)), tmp_path / "t.pt")
    with pytest.raises(ValueError, match=r"torch.save\(\{'probs': found\[0\], 'labels'"):
        predictions.read(tmp_path / "t.pt")


# --- the parts ---


def test_families_by_hand():
    found = columns.families(["p1", "p11", "q1", "p2", "p12"], ["1", "2"])
    assert [family.columns for family in found] == [["p1", "p11", "p2", "p12"]]
    assert found[0].names == ["1", "11", "2", "12"]


# --- what else a table may hold ---


def test_columns_of_features_are_no_classes(tmp_path):
    columns = {"x0": RISK, "x1": LOGITS[:, 0], "z_0": RISK, "z_1": RISK, "label": EVENT}
    same_probs(table(tmp_path, columns | {"y_prob": RISK}), np.c_[1 - RISK, RISK], EVENT)
    data = table(tmp_path, columns | {"confidence": RISK, "correct": EVENT})
    np.testing.assert_allclose(data.test.outcomes.confidence, RISK)


def test_a_column_of_truth_under_another_name_is_guessed(tmp_path):
    with pytest.raises(ValueError, match="perhaps --column label=kind$"):
        table(tmp_path, of_classes() | {"kind": INSECTS[LABELS], "fold": np.arange(N) % 3})
    same_probs(predictions.read(tmp_path / "t.csv", columns=["label=kind"]))


def test_log_probabilities_of_choices_are_logits(tmp_path):
    columns = of_classes("logprob_", scores=np.log(PROBS) - 3) | {"gold": INSECTS[LABELS]}
    same_probs(table(tmp_path, columns))


def test_names_cannot_move_the_cursor_and_none_comes_twice(tmp_path):
    rows = [{"label": 0, "\x1b[2Jp": 0.1 * i, "prob_1": 0.5} for i in range(10)]
    data = lines(tmp_path, rows)
    assert "\x1b" not in "".join(data.notes) and "2Jp" in str(data.notes)
    rows = [{"label": 0, "a.b": 1, "a": {"b": 2}, "prob_1": 0.5}]
    with pytest.raises(ValueError, match="no column twice"):
        lines(tmp_path, rows)


def test_the_order_of_very_many_classes_is_not_checked():
    k = doubts.MOST + 1
    logits = np.zeros((50, k), np.float32)
    logits[np.arange(50), np.arange(50) * 7] = 9
    answers = np.roll(np.arange(50) * 7, 1).astype(str)
    data = predictions.from_arrays(
        {"logits": logits, "labels": np.arange(50) * 7, "answers": answers}
    )
    assert not data.doubts and "answers differ" in data.notes[0]


def test_a_number_under_the_prefix_of_the_classes_is_no_class(tmp_path):
    columns = {"Class_id": np.arange(N)} | of_classes("Class_", names=range(3))
    data = table(tmp_path, columns | {"target": [f"Class_{i}" for i in LABELS]})
    same_probs(data)
    assert data.notes == ("Columns not used: 'Class_id'.",)
