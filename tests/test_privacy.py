"""A report without rows holds nothing that was planted in a single row; one with them does."""

import base64
import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from calibkit import cli, report
from calibkit.report import predictions, privacy

N = 800
ODD = 0.4319876  # the confidence of one row, alone in its bin
ROW = 613
NAME = "Ada Lovelace 4711"


def frame(k, seed=0):
    """Confident scores of k classes, but for one row; that row has a group, a name, a text."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(k, size=N)
    logits = 2.2 * np.eye(k)[labels] + rng.normal(size=(N, k))
    top = logits.argmax(axis=1)
    logits[np.arange(N), top] += 2.5  # confidences above one half
    probs = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    probs[ROW] = [ODD, *np.full(k - 1, (1 - ODD) / (k - 1))] if k > 2 else [1 - ODD, ODD]
    labels[ROW] = 1
    if k == 2:  # nothing else between a quarter and a half
        inside = (probs[:, 1] > 0.2) & (probs[:, 1] < 0.6) & (np.arange(N) != ROW)
        probs[inside] = [0.9, 0.1]
    table = pd.DataFrame(probs, columns=[f"prob_{i}" for i in range(k)])
    table["label"], table["group"] = labels, rng.choice(["north", "south"], N)
    table["visited"] = "2021-05-05"
    table.loc[ROW, "visited"] = "1987-02-03"  # the first of all
    table["patient"], table["remark"] = [f"p{i}" for i in range(N)], "none"
    table.loc[ROW, ["group", "patient", "remark"]] = [NAME, NAME, NAME]
    return table


def pairs(k, seed=0):
    table = frame(k, seed)
    scores = table[[f"prob_{i}" for i in range(k)]].to_numpy()
    right = scores.argmax(axis=1) == table["label"]
    confidence = np.where(np.arange(N) == 7, np.nan, scores.max(axis=1))
    kept = table[["group", "patient"]]
    return kept.assign(confidence=confidence, correct=right.astype(int))


def texts(folder):
    """Everything that the files of a folder say, the figures and their data decoded."""
    found = []
    for file in Path(folder).iterdir():
        text = file.read_text(encoding="utf-8")
        images = re.findall(r"base64,([A-Za-z0-9+/=]+)", text)
        found += [text, *(base64.b64decode(x).decode("utf-8", "replace") for x in images)]
    return "\n".join(found)


def numbers_in(value):
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        return [x for each in value for x in numbers_in(each)]
    return [float(value)] if isinstance(value, int | float) else []


def holds(folder, json_file):
    """What of the planted row can be found: its name, its score, its place."""
    text = texts(folder)
    values = np.array(numbers_in(json.loads((Path(folder) / json_file).read_text())))
    scores = [ODD, 1 - ODD, np.log(ODD), np.log(ODD / (1 - ODD))]
    near = any((np.abs(values - x) < 1e-5).any() for x in scores)
    found = {"name"} if NAME in text else set()
    found |= {"score"} if near or str(ODD)[:6] in text or "43.20" in text else set()
    found |= {"row"} if "(rows 8 " in text else set()
    found |= {"date"} if "1987-02" in text else set()
    return found | ({"script"} if "<script" in text else set())


@pytest.mark.parametrize(
    ("table", "planted"),
    [
        (frame(4), {"name", "score", "script", "date"}),
        (frame(2), {"name", "score", "date"}),
        (pairs(4), {"name", "score", "row", "script"}),
    ],
)
def test_a_report_without_rows(tmp_path, capsys, table, planted):
    table.to_csv(tmp_path / "preds.csv", index=False)
    call = ["report", str(tmp_path / "preds.csv"), "--out"]
    assert cli.main([*call, str(tmp_path / "full")]) == 0
    out = capsys.readouterr().out
    assert holds(tmp_path / "full", "report.json") == planted
    assert cli.main([*call, str(tmp_path / "bare"), "--no-rows"]) == 0
    bare = capsys.readouterr().out
    assert holds(tmp_path / "bare", "report.json") == set()
    assert "rows 8" not in bare
    assert [x for x in bare.splitlines() if "rows have no" not in x][:2] == out.splitlines()[:2]
    words = {x: texts(tmp_path / x) for x in ("full", "bare")}
    assert "--no-rows</code> leaves out" in words["full"]
    assert f"have at least\n{privacy.FEWEST} rows" in words["bare"]
    full, small = (json.loads((tmp_path / x / "report.json").read_text()) for x in ("full", "bare"))
    assert full["rows"] and not small["rows"]
    assert full["metrics"]["auroc"] == small["metrics"]["auroc"]
    assert full["reliability"]["count"] == small["reliability"]["count"]


def test_a_comparison_without_rows(tmp_path):
    for name, table in (("a", frame(4)), ("b", frame(4, 1).assign(label=frame(4)["label"]))):
        rows = table.drop(index=range(0, 3) if name == "a" else [ROW])
        rows.to_csv(tmp_path / f"{name}.csv", index=False)
    files = [str(tmp_path / f"{x}.csv") for x in "ab"]
    for more, expected in (([], {"name"}), (["--no-rows"], set())):
        out = str(tmp_path / f"out{len(more)}")
        assert cli.main(["compare", *files, "--quiet", "--out", out, *more]) == 0
        assert holds(out, "compare.json") - {"score", "date"} == expected
    notes = json.loads((tmp_path / "out1" / "compare.json").read_text())["notes"]
    assert f"1 of the {N - 3} of a" in notes[0] and notes[0].endswith("of b.")


def test_a_comparison_over_time_without_rows(tmp_path):
    for name, seed in (("old", 0), ("new", 1)):
        frame(4, seed).to_csv(tmp_path / f"{name}.csv", index=False)
    files = [str(tmp_path / f"{x}.csv") for x in ("old", "new")]
    out = str(tmp_path / "out")
    assert cli.main(["compare", *files, "--unpaired", "--quiet", "--no-rows", "--out", out]) == 0
    assert holds(out, "compare.json") == set()
    assert "--no-rows" in texts(out)


def test_curves_have_no_step_of_a_single_row(tmp_path):
    data = predictions.from_arrays({"probs": np.linspace(0.01, 0.99, 60), "labels": [0, 0, 1] * 20})
    numbers = privacy.without_rows(report.assess(data))
    roc, positive = numbers.positive.roc, numbers.positive
    accepted = roc["tpr"] * positive.positives + roc["fpr"] * (60 - positive.positives)
    assert np.diff(accepted.round()).min() >= privacy.FEWEST and accepted[-1] == pytest.approx(60)
    assert len(positive.precision_recall["recall"]) == len(accepted) - 1
    assert np.diff(numbers.risk_coverage.coverage * 60).min() >= privacy.FEWEST - 1e-9
    assert (positive.reliability.count == report.assess(data).positive.reliability.count).all()


def test_few_errors_leave_no_mean_of_theirs(tmp_path):
    rng = np.random.default_rng(3)
    c = rng.uniform(0.9, 1, 300)
    right = np.ones(300, int)
    right[9], c[9] = 0, 0.9123456
    data = predictions.from_arrays({"confidence": c, "correct": right})
    full = report.assess(data)
    assert full.histogram.mean_wrong == pytest.approx([0.9123456])
    bare = privacy.without_rows(full)
    assert np.isnan(bare.histogram.mean_wrong).all()
    assert np.isnan(bare.metrics["confidence_gap"].estimate)
    report.build(data, tmp_path, rows=False)
    assert "0.912345" not in texts(tmp_path) and "91.23" not in texts(tmp_path)


def test_answers_that_are_no_class_are_not_quoted(tmp_path):
    table = frame(4).drop(columns=["group", "patient", "remark"])
    table["prediction"] = table["label"].astype(str)
    table.loc[ROW, "prediction"] = NAME
    table.to_csv(tmp_path / "preds.csv", index=False)
    for rows in (True, False):
        report.build(tmp_path / "preds.csv", tmp_path / "out", rows=rows)
        assert (NAME in texts(tmp_path / "out")) == rows
