"""Prediction files of every layout are read right, and hostile ones refused in one line."""

import io
import json
import pickle
import sys
import zipfile

import numpy as np
import pandas as pd
import pytest

from calibkit import metrics, posthoc
from calibkit.arrays import softmax
from calibkit.report import parts, predictions
from calibkit.report.readers import memory

RNG = np.random.default_rng(0)
LOGITS = RNG.normal(size=(20, 3)).astype(np.float32)
LABELS = RNG.integers(0, 3, 20)
PROBS = softmax(LOGITS)


def save(path, **arrays):
    np.savez(path, **arrays)
    return path


def refused(path, message, **options):
    with pytest.raises(ValueError) as caught:
        predictions.read(path, **options)
    text = str(caught.value)
    assert message in text and text.startswith(f"{path}: ") and "\n" not in text
    return text


# --- what the arrays may be ---


def test_our_own_layout_comes_back_as_it_was(tmp_path):
    path = save(
        tmp_path / "preds.npz",
        logits=LOGITS,
        labels=LABELS,
        val_logits=LOGITS[:5],
        val_labels=LABELS[:5],
        groups=np.arange(20) % 2,
        class_names=np.array(["cat", "dog", "eel"]),
        epoch=3,
    )
    found = predictions.read(path)
    assert found.name == "preds"
    assert found.logits.dtype == np.float32
    np.testing.assert_array_equal(found.logits, LOGITS)
    np.testing.assert_array_equal(found.labels, LABELS)
    np.testing.assert_array_equal(found.val_logits, LOGITS[:5])
    np.testing.assert_array_equal(found.val_labels, LABELS[:5])
    assert found.groups.tolist() == ["0", "1"] * 10
    assert found.class_names == ("cat", "dog", "eel")
    assert found.notes == ("Not used: 'epoch'.",)


def test_probabilities_survive_as_logits():
    found = predictions.from_arrays({"probs": PROBS, "labels": LABELS})
    np.testing.assert_allclose(softmax(found.logits), PROBS, rtol=1e-6)
    sharp = predictions.from_arrays({"probs": np.eye(3)[LABELS], "labels": LABELS})
    np.testing.assert_allclose(softmax(sharp.logits), np.eye(3)[LABELS], atol=1e-300)


def test_logits_that_are_probabilities_are_taken_as_such_and_it_is_said():
    found = predictions.from_arrays({"logits": PROBS, "labels": LABELS})
    np.testing.assert_allclose(softmax(found.logits), PROBS, rtol=1e-6)
    assert "read as probabilities" in found.notes[0]
    assert not predictions.from_arrays({"logits": LOGITS, "labels": LABELS}).notes


@pytest.mark.parametrize("digits", [2, 3])
def test_rounded_probabilities_are_divided_by_their_sums_and_it_is_said(digits):
    probs, labels = np.random.default_rng(0).dirichlet(np.ones(10), 50), np.arange(50) % 10
    rounded = probs.round(digits)
    found = predictions.from_arrays({"probs": rounded, "labels": labels})
    expected = rounded / rounded.sum(1, keepdims=True)
    np.testing.assert_allclose(softmax(found.logits), expected, atol=0.5 * 10.0**-digits)
    full = (rounded > 0).all(1)
    np.testing.assert_allclose(softmax(found.logits)[full], expected[full], atol=1e-12)
    assert found.notes[0] == "The probs are rounded: each row was divided by its sum."
    assert not predictions.from_arrays({"probs": probs, "labels": labels}).notes
    for wrong in (0.99 * probs, 0.9 * rounded, np.where(rounded > 0.5, 0, rounded).round(digits)):
        with pytest.raises(ValueError, match="probs: got row"):
            predictions.from_arrays({"probs": wrong, "labels": labels})


@pytest.mark.parametrize("column", [lambda x: x, lambda x: x[:, None]])
def test_one_column_is_class_one_of_two(column):
    p = np.array([0.2, 0.9, 0.5])
    found = predictions.from_arrays({"probs": column(p), "labels": [0, 1, 1]})
    np.testing.assert_allclose(softmax(found.logits), np.c_[1 - p, p])
    logit = np.log(p / (1 - p))
    found = predictions.from_arrays({"logits": column(logit), "labels": [0, 1, 1]})
    np.testing.assert_allclose(softmax(found.logits), np.c_[1 - p, p])


@pytest.mark.parametrize(
    "labels",
    [
        [2, 0, 1],
        [2.0, 0.0, 1.0],
        [[2], [0], [1]],
        np.array([2, 0, 1], np.uint8),
        np.eye(3)[[2, 0, 1]],
        np.eye(3, dtype=bool)[[2, 0, 1]],
        ["2", "0", "1"],
        ["c", "a", "b"],
        np.array([b"c", b"a", b"b"]),
    ],
)
def test_labels_in_every_notation(labels):
    scores = {"logits": LOGITS[:3], "labels": labels, "class_names": ["a", "b", "c"]}
    assert predictions.from_arrays(scores).labels.tolist() == [2, 0, 1]


def test_numbers_that_name_columns_are_names():
    scores = {"probs": PROBS[:3], "labels": [7, 9, 3], "class_names": ["3", "7", "9"]}
    assert predictions.from_arrays(scores).labels.tolist() == [1, 2, 0]
    in_order = {"probs": PROBS[:3], "labels": [1, 2, 0], "class_names": [0, 1, 2]}
    assert predictions.from_arrays(in_order).labels.tolist() == [1, 2, 0]
    turned = {"probs": PROBS[:3], "labels": [1, 2, 0], "class_names": ["1", "0", "2"]}
    with pytest.raises(ValueError, match="numbers '1', '0', '2' in another order.*as text"):
        predictions.from_arrays(turned)  # places or names?
    with pytest.raises(ValueError, match="labels: got '4', expected names among '1', '2', '3'"):
        predictions.from_arrays({"probs": PROBS[:3], "labels": [2, 3, 4], "class_names": [1, 2, 3]})
    named = turned | {"labels": ["1", "2", "0"]}
    assert predictions.from_arrays(named).labels.tolist() == [0, 2, 1]


@pytest.mark.parametrize("order", [range(12), sorted(range(12), key=str), [*range(11, -1, -1)]])
def test_columns_called_by_numbers_may_come_in_any_order(tmp_path, order):
    rng = np.random.default_rng(0)
    truth = rng.integers(12, size=50)
    table = pd.DataFrame({f"logit_{i}": (truth == i).astype(float) for i in order})
    table.assign(label=truth).to_csv(tmp_path / "preds.csv", index=False)
    found = predictions.read(tmp_path / "preds.csv")
    assert (found.logits.argmax(1) == found.labels).all()
    assert found.class_names == tuple(map(str, order))


def test_the_output_of_a_sigmoid_is_no_logit():
    p = np.random.default_rng(0).random(20)
    found = predictions.from_arrays({"logits": p[:, None], "labels": LABELS % 2})
    np.testing.assert_allclose(softmax(found.logits), np.c_[1 - p, p])
    assert any("read as probabilities" in note for note in found.notes)
    logits = predictions.from_arrays({"logits": 4 * p - 1, "labels": LABELS % 2}).logits
    np.testing.assert_allclose(logits[:, 1] - logits[:, 0], 4 * p - 1)


def test_a_class_may_be_called_na(tmp_path):
    path = tmp_path / "preds.csv"
    path.write_text("label,prob_NA,prob_None\nNA,0.9,0.1\nNone,0.2,0.8\n")
    assert predictions.read(path).labels.tolist() == [0, 1]


def test_torch_tensors_and_half_precision():
    import torch

    scores = {"logits": torch.tensor(LOGITS).bfloat16(), "labels": torch.tensor(LABELS)}
    found = predictions.from_arrays(scores)
    np.testing.assert_allclose(found.logits, LOGITS, rtol=0.01)
    half = predictions.from_arrays({"logits": LOGITS.astype(np.float16), "labels": LABELS})
    assert half.logits.dtype == np.float32


def test_samples_without_label_are_left_out_with_all_that_is_theirs():
    labels = LABELS.copy()
    labels[[3, 7]] = -1, -100
    found = predictions.from_arrays({"logits": LOGITS, "labels": labels, "groups": np.arange(20)})
    kept = np.delete(np.arange(20), [3, 7])
    np.testing.assert_array_equal(found.logits, LOGITS[kept])
    np.testing.assert_array_equal(found.labels, LABELS[kept])
    assert found.groups.tolist() == [str(i) for i in kept]
    assert found.notes == ("2 of 20 samples have no label (-1 or -100) and are left out.",)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"labels": LABELS + 1}, "labels: got values from 1 to 3, expected 0 to 2: subtract 1"),
        ({"labels": LABELS * 5}, "expected classes 0 to 2"),
        ({"labels": LABELS - 3}, "expected classes 0 to 2"),
        ({"labels": LABELS[:-1]}, "labels: got shape (19,), expected (20,)"),
        ({"labels": LABELS + 0.5}, "expected whole numbers 0 to 2"),
        ({"labels": np.full(20, np.nan)}, "labels: got nan, expected whole numbers"),
        ({"labels": np.full(20, 1e300)}, "labels: got 1e+300, expected whole numbers"),
        ({"labels": np.full(20, -1)}, "got only -1 and -100"),
        ({"labels": ["cat"] * 20}, "labels: got names such as 'cat', expected numbers 0 to 2"),
        ({"labels": LABELS.astype(complex)}, "labels: got type complex128"),
        ({"labels": None}, "labels: got shape ()"),
        ({"logits": np.where(LOGITS > 2, np.nan, LOGITS * np.nan)}, "logits: got NaN"),
        ({"logits": LOGITS * np.inf}, "logits: got "),
        ({"logits": LOGITS[:0]}, "logits: got an empty array"),
        ({"logits": LOGITS[None]}, "logits: got shape (1, 20, 3)"),
        ({"logits": np.array([[object()]])}, "logits: got type object"),
        ({"class_names": ["a", "b"]}, "class_names: got 2 names, expected 3"),
        ({"class_names": ["a", "b", "a"]}, "class_names: got 'a' twice"),
        ({"class_names": "abc"}, "class_names: got shape ()"),
        ({"groups": np.arange(3)}, "groups: got shape (3,) of type int64, expected (20,)"),
        ({"groups": np.array([{}] * 20)}, "groups: got shape (20,) of type object"),
        ({"val_logits": LOGITS}, "expected val_logits or val_probs, and val_labels"),
        ({"val_logits": LOGITS[:, :2], "val_labels": LABELS % 2}, "val_logits: got 2 classes"),
        ({"val_probs": LOGITS, "val_labels": LABELS}, "val_probs: got values from"),
        ({"label": LABELS}, "got 'label', expected names among logits"),
    ],
)
def test_what_is_wrong_is_named(change, message):
    with pytest.raises(ValueError) as caught:
        predictions.from_arrays({"logits": LOGITS, "labels": LABELS} | change)
    assert message in str(caught.value) and "\n" not in str(caught.value)


def test_a_sample_keeps_rows_together():
    n = 1000
    logits = np.c_[np.arange(n), np.zeros(n)]
    scores = {"logits": logits, "labels": np.arange(n) % 2, "groups": np.arange(n)}
    found = predictions.from_arrays(scores).sample(100)
    rows = found.logits[:, 0].astype(int)
    assert len(set(rows)) == 100 and (np.diff(rows) > 0).all()
    np.testing.assert_array_equal(found.labels, rows % 2)
    assert found.groups.tolist() == [str(i) for i in rows]
    assert found.notes == ("All numbers come from a random 100 of the 1,000 samples.",)
    assert found.sample(100) is found
    held_out = {"logits": LOGITS, "labels": LABELS, "val_logits": logits[:, :1] * [1, 0, 0]}
    found = predictions.from_arrays(held_out | {"val_labels": np.arange(n) % 3}).sample(50)
    np.testing.assert_array_equal(found.logits, LOGITS)
    assert len(found.val_labels) == 50
    np.testing.assert_array_equal(found.val_labels, found.val_logits[:, 0] % 3)


# --- files of others ---


def test_netcal(tmp_path):
    path = save(tmp_path / "net.npz", predictions=PROBS, ground_truth=LABELS[:, None])
    found = predictions.read(path)
    np.testing.assert_allclose(softmax(found.logits), PROBS, rtol=1e-6)
    np.testing.assert_array_equal(found.labels, LABELS)
    assert found.notes[0] == "Read 'ground_truth' as labels, 'predictions' as logits."
    assert "read as probabilities" in found.notes[1]
    binary = save(tmp_path / "binary.npz", predictions=[0.2, 0.9], ground_truth=[0, 1])
    np.testing.assert_allclose(softmax(predictions.read(binary).logits)[:, 1], [0.2, 0.9])


def test_fd_shifts(tmp_path):
    """raw_logits.npz: one array N x (d + 2): logits, label, number of the data set."""
    table = np.c_[LOGITS, LABELS, np.zeros(20)].astype(np.float16)
    single = tmp_path / "raw_logits.npz"
    np.savez_compressed(single, table)
    found = predictions.read(single)
    np.testing.assert_allclose(found.logits, LOGITS, atol=2e-3)
    np.testing.assert_array_equal(found.labels, LABELS)
    assert found.val_labels is None and found.groups is None

    table[:, -1] = np.repeat([0, 1, 2], [5, 10, 5])
    np.savez_compressed(single, table)
    found = predictions.read(single)
    np.testing.assert_array_equal(found.val_labels, LABELS[:5])
    np.testing.assert_array_equal(found.labels, LABELS[5:])
    assert found.groups.tolist() == ["data set 1"] * 10 + ["data set 2"] * 5
    assert "Data set 0 was read as the validation set" in found.notes[1]


def test_hugging_face(tmp_path):
    """`trainer.predict` gives predictions (logits) and label_ids."""
    np.save(tmp_path / "predictions.npy", LOGITS)
    refused(tmp_path / "predictions.npy", "got scores without labels")
    np.save(tmp_path / "label_ids.npy", LABELS)
    found = predictions.read(tmp_path / "predictions.npy")
    np.testing.assert_array_equal(found.logits, LOGITS)
    np.testing.assert_array_equal(found.labels, LABELS)
    other = tmp_path / "mine.txt"
    other.write_text("label\r\n" + "\r\n".join(map(str, LABELS[::-1])) + "\r\n")
    found = predictions.read(tmp_path / "predictions.npy", labels=other)
    np.testing.assert_array_equal(found.labels, LABELS[::-1])
    both = save(tmp_path / "both.npz", predictions=LOGITS, label_ids=LABELS)
    np.testing.assert_array_equal(predictions.read(both).logits, LOGITS)


def test_record_of_a_run(tmp_path):
    arrays = {"test_logits": LOGITS, "test_labels": LABELS.astype(np.uint8), "norm": LABELS}
    arrays |= {"validation_logits": LOGITS[:4], "validation_labels": LABELS[:4]}
    found = predictions.read(save(tmp_path / "arrays.npz", **arrays))
    np.testing.assert_array_equal(found.labels, LABELS)
    np.testing.assert_array_equal(found.val_logits, LOGITS[:4])
    assert found.notes[0].startswith("Read 'test_logits' as logits, ") and len(found.notes) == 1


def frame(prefix="prob_", scores=PROBS):
    table = pd.DataFrame(scores.astype(np.float64), columns=[f"{prefix}{c}" for c in "abc"])
    return table.assign(label=np.array(list("abc"))[LABELS])


def test_csv_with_probabilities_groups_and_split(tmp_path):
    path = tmp_path / "preds.csv"
    table = frame().assign(
        group=["x", None] * 10, split=["val"] * 5 + ["test"] * 15, note="<b>", seen=3
    )
    table.to_csv(path)  # with the index, as most do
    found = predictions.read(path)
    np.testing.assert_allclose(softmax(found.logits), PROBS[5:], rtol=1e-6)
    np.testing.assert_allclose(softmax(found.val_logits), PROBS[:5], rtol=1e-6)
    np.testing.assert_array_equal(found.labels, LABELS[5:])
    np.testing.assert_array_equal(found.val_labels, LABELS[:5])
    assert found.groups.tolist() == (["x", "(none)"] * 10)[5:]
    assert found.class_names == ("a", "b", "c")
    assert found.notes == ("Columns not used: 'note', 'seen'.",)


def test_csv_with_bare_class_names_or_logits(tmp_path):
    path = tmp_path / "preds.csv"
    frame(prefix="").to_csv(path, index=False)
    np.testing.assert_allclose(softmax(predictions.read(path).logits), PROBS, rtol=1e-6)
    frame("logit_", LOGITS).to_csv(path, index=False)
    np.testing.assert_allclose(predictions.read(path).logits, LOGITS, rtol=1e-6)


@pytest.mark.parametrize(
    ("text", "notes"),
    [
        ("label;prob_a;prob_b\nb;0.25;0.75\na;0.5;0.5\n", ["semicolons"]),
        ("label;prob_a;prob_b\nb;0,25;0,75\na;0,5;0,5\n", ["semicolons", "comma"]),
        ("label\tprob_a\tprob_b\nb\t0.25\t0.75\na\t0.5\t0.5\n", ["tabs"]),
        ("\ufefflabel;prob_a;prob_b\nb;0.25;0.75\na;0.5;0.5\n", ["semicolons"]),
    ],
    ids=["semicolons", "decimal commas", "tabs", "as Excel writes it"],
)
def test_csv_as_spreadsheets_write_it(tmp_path, text, notes):
    path = tmp_path / "preds.csv"
    path.write_text(text, encoding="utf-8")
    found = predictions.read(path)
    np.testing.assert_allclose(softmax(found.logits), [[0.25, 0.75], [0.5, 0.5]])
    assert found.class_names == ("a", "b") and found.labels.tolist() == [1, 0]
    assert len(found.notes) == len(notes)
    assert all(word in note for word, note in zip(notes, found.notes, strict=True))


def test_parquet_without_pyarrow_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    path = tmp_path / "preds.parquet"
    path.write_bytes(b"PAR1")
    refused(path, "a .parquet file needs pyarrow: pip install pyarrow")


def test_parquet(tmp_path):
    path = tmp_path / "preds.parquet"
    table = frame()
    numbers = [c for c in table.columns if c.startswith("prob_")]
    table[numbers] = table[numbers].astype(np.float32)
    table.to_parquet(path)
    found = predictions.read(path)
    assert found.logits.dtype == np.float32
    np.testing.assert_allclose(softmax(found.logits), PROBS, rtol=1e-5)
    np.testing.assert_array_equal(found.labels, LABELS)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the file is empty"),
        ("a,b\n", "got 0 rows"),
        ("a,b,label\n0.5,0.5,0\n0.5\n", "got an empty cell in row 2"),
        ("a,b\n0.5,0.5\n", "expected one called 'label'"),
        ("a,b,label\n1.5,0.5,0\n", "name the columns of scores prob_NAME or logit_NAME"),
        ("id,a,b,label\n17,0.5,0.5,0\n", "got columns 'id', 'a', 'b', read as"),
        ("prob_a,prob_b,label\nx,0.5,0\n", "prob_a: got 'x', expected numbers"),
        ("prob_a,prob_b,label\n0.5,0.5,0\n1e-3,1,1\nNA,1,0\n", "prob_a: got 'NA' in row 3 below"),
        ("label,y_pred,max\n1,1,0.9\n0,1,0.6\n", "or 'confidence' and 'correct' (true or false)"),
        ("label,confidence\n1,0.9\n0,0.6\n", "or 'confidence' and 'correct' (true or false)"),
        ("name,label\nx,0\n", "expected prob_NAME for each class"),
        ("prob_a,prob_b,label,split\n0.5,0.5,0,train\n", "split: got 'train', expected 'test'"),
        ("prob_a,prob_b,label,split\n0.5,0.5,0,val\n", "got an empty array"),
        ("prob_a,prob_b,label\n0.5,0.5,c\n", "labels: got 'c', expected names among 'a', 'b'"),
        ("prob_a,prob_b,label\n,0.5,a\n", "prob_a: got an empty cell in row 1"),
        ('prob_a,prob_b,label\n"0.5,0.5,a\n', ""),
    ],
)
def test_tables_that_cannot_be_read(tmp_path, text, message):
    path = tmp_path / "preds.csv"
    path.write_text(text)
    refused(path, message)


# --- hostile files ---


class Bomb:
    """Creates a file when unpickled."""

    def __init__(self, path):
        self.path = str(path)

    def __reduce__(self):
        return open, (self.path, "w")


def test_nothing_is_unpickled(tmp_path):
    trace = tmp_path / "trace"
    objects = np.array([Bomb(trace)], dtype=object)
    for key in ("labels", "logits", "class_names"):
        arrays = {"logits": LOGITS, "labels": LABELS} | {key: objects}
        text = refused(save(tmp_path / "bad.npz", **arrays), "holds Python objects, not read")
        assert repr(key) in text
    np.save(tmp_path / "bad.npy", objects)
    refused(tmp_path / "bad.npy", "holds Python objects, not read")
    for name in ("bad.npz", "bad.npy"):
        (tmp_path / name).write_bytes(pickle.dumps(Bomb(trace)))
        refused(tmp_path / name, "holds Python objects, not read")
    np.save(tmp_path / "labels.npy", objects)
    np.save(tmp_path / "fine.npy", LOGITS)
    refused(tmp_path / "fine.npy", "holds Python objects, not read")
    assert not trace.exists()


def test_archives_with_odd_names_or_sizes(tmp_path):
    path = save(tmp_path / "odd.npz", **{"../../etc/x": LOGITS, "\x1b[31mred\n": LABELS})
    text = refused(path, "got arrays '")
    assert "\x1b" not in text and repr("\x1b[31mred\n") in text
    assert sorted(p.name for p in tmp_path.iterdir()) == ["odd.npz"]  # nothing was unpacked

    with zipfile.ZipFile(tmp_path / "text.npz", "w") as archive:
        archive.writestr("logits.npy", "no array")
        archive.writestr("labels.npy", "no array")
    refused(tmp_path / "text.npz", "")

    header = io.BytesIO()
    huge = {"descr": "<f4", "fortran_order": False, "shape": (10**12, 10)}
    np.lib.format.write_array_header_1_0(header, huge)
    with zipfile.ZipFile(tmp_path / "huge.npz", "w") as archive:
        archive.writestr("logits.npy", header.getvalue())
        archive.writestr("labels.npy", header.getvalue())
    refused(tmp_path / "huge.npz", "")


def test_an_archive_larger_than_the_memory_is_not_opened(tmp_path, monkeypatch):
    path = tmp_path / "bomb.npz"
    np.savez_compressed(path, logits=np.zeros((1000, 1000)), labels=np.zeros(1000, int))
    assert path.stat().st_size < 20_000
    monkeypatch.setattr(memory, "memory", lambda: 1_000_000)
    refused(path, "'logits' takes 8.0 MB of memory, and a file may take at most 0.5 MB")


@pytest.mark.parametrize("name", ["preds.npz", "preds.npy", "preds.csv"])
def test_every_truncation_is_refused_or_read(tmp_path, name):
    whole = tmp_path / name
    np.save(tmp_path / "labels.npy", LABELS)
    if name.endswith("npz"):
        save(whole, logits=LOGITS, labels=LABELS)
    elif name.endswith("npy"):
        np.save(whole, LOGITS)
    else:
        frame().to_csv(whole, index=False)
    data = whole.read_bytes()
    for size in range(0, len(data) - 1, 37):
        whole.write_bytes(data[:size])
        try:
            predictions.read(whole)
        except ValueError as error:
            assert str(error).startswith(f"{whole}: ") and "\n" not in str(error)
        else:
            assert name.endswith("csv")  # a table that ends early is a shorter table


def test_missing_files_stay_errors_of_the_system(tmp_path):
    with pytest.raises(FileNotFoundError):
        predictions.read(tmp_path / "none.npz")
    np.save(tmp_path / "scores.npy", LOGITS)
    with pytest.raises(FileNotFoundError, match="none.npy"):
        predictions.read(tmp_path / "scores.npy", labels=tmp_path / "none.npy")
    (tmp_path / "folder.npz").mkdir()
    with pytest.raises(IsADirectoryError):
        predictions.read(tmp_path / "folder.npz")
    (tmp_path / "preds.txt").write_text("0.5")
    with pytest.raises(ValueError, match=r"got a file '.txt', expected .npz, .npy"):
        predictions.read(tmp_path / "preds.txt")


# --- rounded probabilities ---


def rounded(digits, k=10, n=2000, temperature=2.0, seed=0):
    """Probabilities of an over-confident model, to some decimals; labels; its true temperature."""
    rng = np.random.default_rng(seed)
    logits = 3 * rng.normal(size=(n, k))
    labels = (softmax(logits).cumsum(1) > rng.random((n, 1))).argmax(1)
    probs = softmax(temperature * logits).round(digits)
    return probs, labels


@pytest.mark.parametrize(
    ("digits", "k", "off"), [(2, 10, 0.2), (3, 10, 0.1), (4, 3, 0.05), (4, 100, 0.05)]
)
def test_a_printed_zero_leaves_the_temperature_sane(digits, k, off):
    """A network whose logits are too large by 2: zeros as 1e-308 would have it be 90 and more."""
    probs, labels = rounded(digits, k)
    never = probs[np.arange(len(labels)), labels] == 0
    assert never.any()  # the true class was printed as 0
    found = predictions.from_arrays({"probs": probs, "labels": labels})
    fitted = posthoc.TemperatureScaling().fit(found.logits, found.labels).temperature_
    assert fitted == pytest.approx(2, rel=off)
    (note,) = (note for note in found.notes if "decimals" in note)
    assert f"have {digits} decimals, and {(probs == 0).sum():,} of" in note
    assert f"below {0.5 * 10.0**-digits:.{digits + 1}f}." in note
    assert metrics.nll(softmax(found.logits), labels) < 10


def test_zeros_are_filled_and_the_others_and_the_confidence_stay():
    probs = np.array([[0.93, 0.07, 0.0], [1.0, 0.0, 0.0], [0.5, 0.5, 0.0], [0.2, 0.7, 0.1]])
    data = predictions.from_arrays({"probs": probs, "labels": [0, 0, 0, 1]})
    assert data.test.outcomes.confidence.tolist() == [0.93, 1, 0.5, 0.7]
    found = softmax(data.logits)
    np.testing.assert_allclose(found[1], np.array([1, 0.0025, 0.0025]) / 1.005, rtol=1e-12)
    np.testing.assert_allclose(found[0], np.array([0.93, 0.07, 0.005]) / 1.005, rtol=1e-12)
    np.testing.assert_array_equal(data.logits[3], np.log(probs[3]))


def test_zeros_that_are_not_of_rounding_stay():
    exact = softmax(np.random.default_rng(0).normal(size=(50, 3)))
    exact[0] = [1, 0, 0]
    answers = np.eye(3)[[0, 1, 2, 0]]
    for probs, n in ((exact, 50), (exact.astype(np.float32), 50), (answers, 4)):
        found = predictions.from_arrays({"probs": probs, "labels": np.zeros(n, int)})
        assert found.logits[0].min() < -80 and not found.notes


def test_what_is_wrong_with_a_table_is_said_where_it_is(tmp_path):
    head, rows = "label,prob_a,prob_b", ["a,0.9,0.1", "b,0.2,0.8", "a,0.7,0.3"]
    for text, message in (
        ("\n".join([head, rows[0], "a,,0.5", rows[2]]), "prob_a: got an empty cell in row 2"),
        ("\n".join([head, "a,2.5,-1", "b,0.1,3"]), "if these are logits, name them logits"),
        ("\n".join([head + ",split", "a,0.9,0.1,train"]), "leave training samples out"),
    ):
        (tmp_path / "preds.csv").write_text(text)
        refused(tmp_path / "preds.csv", message)


# --- what else people have ---


def written(path, rows):
    path.write_text("\n".join(json.dumps(row) for row in rows))
    return path


def question(scores, target, **more):
    pairs = [[str(score), "False"] for score in scores]
    return {
        "doc_id": 0,
        "doc": {"subject": "law"},
        "target": target,
        "filtered_resps": pairs,
    } | more


def test_multiple_choice_of_the_harness(tmp_path):
    rows = [question([-3.0, -1.0, -2.0], "1"), question([-1.0, -5.0, -4.0], "2")]
    found = predictions.read(written(tmp_path / "samples_arc.jsonl", rows), group=["subject"])
    assert found.labels.tolist() == [1, 2]
    np.testing.assert_allclose(
        softmax(found.logits)[0], np.exp([-3, -1, -2]) / np.exp([-3, -1, -2]).sum()
    )
    assert found.groups.tolist() == [["law"], ["law"]] and found.group_names == ("subject",)
    assert "normalised over the choices" in found.notes[0]


def test_questions_with_fewer_choices_or_several_answers(tmp_path):
    rows = [
        question([-3.0, -1.0, -2.0], 1, acc=1.0),
        question([-1.0, -5.0], 0, acc=1.0),
        question([-1.0, -5.0], "[0, 1]", acc=1.0),
        question([-1.0, -2.0], "4", acc=1.0),
        question([-1.0, -2.0], 1, acc=1.0, filter="other"),
    ]
    for row in rows[:4]:
        row["filter"] = "none"
    found = predictions.read(written(tmp_path / "s.jsonl", rows))
    assert found.labels.tolist() == [1, 0]
    assert softmax(found.logits)[1, 2] == 0
    words = " ".join(found.notes)
    assert "2 to 3 choices" in words and "2 questions do not have exactly one right choice" in words
    assert "Only the filter 'none' was read, of 2" in words


def test_target_as_text_and_choices_without_their_question(tmp_path):
    choices = {
        f"gen_args_{i}": {"arg_0": "Q", "arg_1": f" {x}"} for i, x in enumerate(("no", "yes"))
    }
    rows = [question([-3.0, -1.0], "yes", arguments=choices)]
    rows += [question([-1.0, -3.0, -9.0, -9.0], 0, acc_mutual_info=1.0)]
    found = predictions.read(written(tmp_path / "s.jsonl", rows))
    assert found.labels.tolist() == [1, 0] and found.logits.shape == (2, 2)


@pytest.mark.parametrize(
    "answer", [["42"], [["-1.0"]], [], None, [["x", "False"], ["-1", "False"]]]
)
def test_generated_text_has_no_probabilities(tmp_path, answer):
    rows = [question([], "0") | {"filtered_resps": answer}]
    path = written(tmp_path / "s.jsonl", rows)
    with pytest.raises(ValueError, match="filtered_resps: expected a pair|two or more choices"):
        predictions.read(path)


PAIRS = {"confidence": [0.9, 0.2, 0.6], "correct": [True, False, False]}


@pytest.mark.parametrize("kind", ["csv", "csv.gz", "tsv", "jsonl", "json", "parquet", "feather"])
def test_confidences_of_answers(tmp_path, kind):
    path, frame = tmp_path / f"p.{kind}", pd.DataFrame(PAIRS)
    write = {
        "csv": lambda: frame.to_csv(path, index=False),
        "csv.gz": lambda: frame.to_csv(path, index=False),
        "tsv": lambda: frame.to_csv(path, index=False, sep="\t"),
        "jsonl": lambda: frame.to_json(path, orient="records", lines=True),
        "json": lambda: frame.to_json(path, orient="records"),
        "parquet": lambda: frame.to_parquet(path),
        "feather": lambda: frame.to_feather(path),
    }
    write[kind]()
    found = predictions.read(path)
    assert found.pairs and found.name == "p"
    assert found.test.outcomes.confidence.tolist() == PAIRS["confidence"]
    assert found.test.outcomes.correct.tolist() == PAIRS["correct"]
    np.testing.assert_allclose(found.test.outcomes.brier, [0.02, 0.08, 0.72])
    np.testing.assert_allclose(found.test.outcomes.nll, -np.log([0.9, 0.8, 0.4]))


@pytest.mark.parametrize(
    ("text", "confidence", "correct"),
    [
        ("conf,is_correct\n0.9,yes\n0.5,no\n", [0.9, 0.5], [True, False]),
        ("answer,gold,confidence\nB,B,0.9\nA,C,0.5\n", [0.9, 0.5], [True, False]),
        ("y_pred,y_true,msp\n1,1.0,0.9\n0,1.0,0.5\n", [0.9, 0.5], [True, False]),
        ("logprob,correct\n0.0,1\n-0.6931471805599453,0\n", [1.0, 0.5], [True, False]),
        ("confidence,correct,split\n0.9,1,test\n0.5,0,val\n", [0.9], [True]),
    ],
)
def test_confidences_under_other_names(tmp_path, text, confidence, correct):
    path = tmp_path / "p.csv"
    path.write_text(text)
    found = predictions.read(path)
    np.testing.assert_allclose(found.test.outcomes.confidence, confidence)
    assert found.test.outcomes.correct.tolist() == correct
    assert (found.validation is None) == ("split" not in text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("confidence,correct\n9,1\n5,0\n", "got values from 5 to 9, expected [0, 1]"),
        ("confidence,correct\n0.9,maybe\n0.5,no\n", "correct: got 'maybe', expected 0 and 1"),
        ("confidence,correct\n0.9,2\n0.5,0\n", "correct: got values"),
        ("confidence,correct\n-0.9,1\n-0.5,0\n", "name them logprob"),
        ("confidence,correct\nhigh,1\nlow,0\n", "confidence: got 'high', expected numbers"),
        ("logprob,correct\n0.9,1\n", "logprob: got 0.9, expected logarithms"),
        ("label,y_prob\nup,0.3\ndown,0.7\n", "says which label the scores are for"),
        ("label,prob_a\na,0.3\nb,0.7\nc,0.1\n", "expected two classes, or a column of scores"),
        ("label,prob_a\n0,3\n1,7\n", "got values from 3 to 7, expected [0, 1] (if these are"),
        ("label,prob_a\n0,30\n1,170\n", "got values from 30 to 170"),
    ],
)
def test_what_is_wrong_with_confidences_is_said(tmp_path, text, message):
    path = tmp_path / "p.csv"
    path.write_text(text)
    said = refused(path, message).removeprefix(str(path))
    assert "-6" not in said  # 1 - 7, which nobody wrote


@pytest.mark.parametrize(
    ("text", "names", "positive"),
    [
        ("label,prob_fraud\nlegit,0.1\nfraud,0.8\n", ("legit", "fraud"), [0.1, 0.8]),
        ("label,prob_fraud\n0,0.1\n1,0.8\n", ("not fraud", "fraud"), [0.1, 0.8]),
        ("y_true,y_proba\n0,0.1\n1,0.8\n", ("0", "1"), [0.1, 0.8]),
        ("target,score\n0,-2.0\n1,1.5\n", ("0", "1"), [0.1192029, 0.8175745]),
        ("label,p_a,p_b\na,0.9,0.1\nb,0.2,0.8\n", ("a", "b"), [0.1, 0.8]),
        ("label,proba_a,proba_b\na,0.9,0.1\nb,0.2,0.8\n", ("a", "b"), [0.1, 0.8]),
    ],
)
def test_two_classes_in_one_column_or_two(tmp_path, text, names, positive):
    path = tmp_path / "p.csv"
    path.write_text(text)
    found = predictions.read(path)
    assert found.class_names == names and found.labels.tolist() == [0, 1]
    np.testing.assert_allclose(softmax(found.logits)[:, 1], positive, atol=1e-7)


@pytest.mark.parametrize(
    "names",
    [("y_proba", "y_true"), ("probas", "target"), ("scores", "y"), ("val", "test")],
)
def test_arrays_under_other_names(tmp_path, names):
    if names == ("val", "test"):
        arrays = {"test_probs": PROBS, "test_labels": LABELS}
        arrays |= {"val_probs": PROBS[:5], "val_labels": LABELS[:5]}
    else:
        arrays = {names[0]: PROBS, names[1]: LABELS}
    found = predictions.read(save(tmp_path / "p.npz", **arrays))
    np.testing.assert_allclose(softmax(found.logits), PROBS, rtol=1e-5)
    np.testing.assert_array_equal(found.labels, LABELS)
    assert (found.val_logits is not None) == (names[0] == "val")
    assert "Read '" in found.notes[0]


def test_tensors_are_read_and_code_is_not(tmp_path):
    import torch

    torch.save({"logits": torch.tensor(LOGITS), "labels": torch.tensor(LABELS)}, tmp_path / "p.pt")
    found = predictions.read(tmp_path / "p.pt")
    np.testing.assert_array_equal(found.logits, LOGITS)

    class Hostile:
        def __reduce__(self):
            return print, ("called",)

    torch.save({"logits": Hostile()}, tmp_path / "bad.pt")
    refused(tmp_path / "bad.pt", "not a dict of tensors")
    torch.save(torch.tensor(LOGITS), tmp_path / "one.pt")
    refused(tmp_path / "one.pt", "expected a dict of named tensors")


def test_columns_of_groups_by_name(tmp_path):
    frame = pd.DataFrame({"label": [0, 1], "prob_0": [0.9, 0.2], "prob_1": [0.1, 0.8]})
    frame = frame.assign(site=["x", "y"], age=[3, None])
    frame.to_csv(tmp_path / "p.csv", index=False)
    found = predictions.read(tmp_path / "p.csv", group=["site", "age"])
    assert found.group_names == ("site", "age")
    assert found.groups.tolist() == [["x", "3.0"], ["y", "(none)"]]
    with pytest.raises(ValueError, match="group: got 'town', expected columns"):
        predictions.read(tmp_path / "p.csv", group=["town"])
    save(tmp_path / "p.npz", probs=PROBS, labels=LABELS, site=LABELS, age=LABELS % 2)
    found = predictions.read(tmp_path / "p.npz", group=["site", "age"])
    assert found.groups.shape == (20, 2) and not found.notes
    with pytest.raises(ValueError, match="group: got 'town', expected names among"):
        predictions.read(tmp_path / "p.npz", group=["town"])


def test_scores_of_tokens_are_flattened_when_asked(tmp_path):
    labels = LABELS.reshape(4, 5).copy()
    labels[:, 3:] = -100
    save(tmp_path / "p.npz", logits=LOGITS.reshape(4, 5, 3), labels=labels, groups=np.arange(4))
    refused(tmp_path / "p.npz", "--tokens")
    found = predictions.read(tmp_path / "p.npz", tokens=True)
    kept = (np.arange(20) % 5) < 3
    np.testing.assert_array_equal(found.logits, LOGITS[kept])
    np.testing.assert_array_equal(found.labels, LABELS[kept])
    assert found.groups.tolist() == [str(i) for i in np.repeat(np.arange(4), 3)]
    assert "intervals are too narrow" in found.notes[0]


@pytest.mark.parametrize("kind", ["npz", "csv", "jsonl", "parquet"])
def test_standard_input(tmp_path, monkeypatch, kind):
    path, frame = tmp_path / f"p.{kind}", pd.DataFrame(PAIRS)
    if kind == "npz":
        save(path, **PAIRS)
    elif kind == "csv":
        frame.to_csv(path, index=False)
    elif kind == "jsonl":
        frame.to_json(path, orient="records", lines=True)
    else:
        frame.to_parquet(path)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(path.read_bytes())))
    found = predictions.read("-")
    assert found.test.outcomes.confidence.tolist() == PAIRS["confidence"]
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"a,b\n1,2\n")))
    with pytest.raises(ValueError, match="^standard input: got columns 'a', 'b'"):
        predictions.read("-")


def test_json_of_arrays_or_of_rows_with_lists(tmp_path):
    (tmp_path / "a.json").write_text(
        json.dumps({"probs": PROBS.tolist(), "labels": LABELS.tolist()})
    )
    rows = [{"probs": p.tolist(), "label": int(y)} for p, y in zip(PROBS, LABELS, strict=True)]
    for path in (tmp_path / "a.json", written(tmp_path / "b.jsonl", rows)):
        found = predictions.read(path)
        np.testing.assert_allclose(softmax(found.logits), PROBS, rtol=1e-6)
        np.testing.assert_array_equal(found.labels, LABELS)
    for content, message in (
        ("", "the file is empty"),
        ("{", "expected JSON, or a JSON object on each line"),
        ("[1, 2]", "expected a list of objects"),
        ('{"label": 1}\n{"x": [1]}', "x: got a list in each row"),
        ('{"embedding": [1], "label": 1}', "expected 'logits' or 'probs'"),
        ("[" * 100_000, "damaged"),
    ):
        (tmp_path / "c.json").write_text(content)
        refused(tmp_path / "c.json", message)


def test_compressed_tables_larger_than_the_memory(tmp_path, monkeypatch):
    pd.DataFrame(PAIRS).to_csv(tmp_path / "p.csv.gz", index=False)
    monkeypatch.setattr(memory, "memory", lambda: 100)
    refused(tmp_path / "p.csv.gz", "the text takes more than 0.0 MB of memory")


def test_weights_come_along(tmp_path):
    frame = pd.DataFrame(PAIRS).assign(sample_weight=[1, 2, 3])
    frame.to_csv(tmp_path / "p.csv", index=False)
    assert predictions.read(tmp_path / "p.csv").weights.tolist() == [1.0, 2.0, 3.0]  # rows
    frame.assign(sample_weight=[0.1, 0.2, 0.3]).to_csv(tmp_path / "p.csv", index=False)
    assert predictions.read(tmp_path / "p.csv").weights == pytest.approx([0.5, 1.0, 1.5])


def test_printed_probabilities_tie_as_printed():
    probs = np.random.default_rng(0).dirichlet(np.ones(3), 3000).round(2)
    probs[:, 2] = (1 - probs[:, 0] - probs[:, 1]).clip(0, 1).round(2)
    data = predictions.from_arrays({"probs": probs, "labels": np.arange(3000) % 3})
    distinct = np.unique(data.test.outcomes.confidence)
    assert len(distinct) <= 100 and (distinct == distinct.round(2)).all()
    tiny = parts.as_printed(np.array([1 - 1e-16, 1 - 1e-12, 1e-12]))
    assert tiny.tolist() == [1 - 1e-16, 1 - 1e-12, 1e-12]
