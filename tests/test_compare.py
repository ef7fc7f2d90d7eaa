"""Models on the same samples: which rows, which event, and how much each sample counts."""

import json

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit, softmax
from sklearn.metrics import average_precision_score, roc_auc_score

from calibkit import cli, metrics, stats
from calibkit.report import comparison, drift, gate, paired, predictions

N = 400
RNG = np.random.default_rng(11)
FRUIT = np.array(["apple", "fig", "kiwi"])
LABELS = RNG.integers(3, size=N)
SCORES = 1.8 * np.eye(3)[LABELS] + 1.2 * RNG.normal(size=(N, 3))
ONE = softmax(SCORES, axis=1)
TWO = softmax(1.6 * SCORES + 0.8 * RNG.normal(size=(N, 3)), axis=1)
NAMES = np.array([f"plate {x:03d}" for x in RNG.permutation(N)])
ORDER = RNG.permutation(N)
BY_CLASS = np.lexsort((ORDER, LABELS))  # rows of a class in another order


def frame(probs, **more):
    table = pd.DataFrame(probs, columns=[f"prob_{x}" for x in FRUIT])
    return table.assign(label=FRUIT[LABELS], plate=NAMES, **more)


def compared(folder, *tables, **options):
    """The JSON of a comparison of tables, written to CSV files."""
    files = [folder / f"{'abc'[i]}.csv" for i in range(len(tables))]
    for file, table in zip(files, tables, strict=True):
        table.to_csv(file, index=False)
    page = comparison.build(files, folder / "out", **options)
    return json.loads(page.with_suffix(".json").read_text())


def difference(numbers, name="accuracy"):
    return numbers["pairs"][0]["difference"][name]["estimate"]


def accuracies(rows=slice(None)):
    """Right answers of one model less those of the other, among these rows."""
    return np.mean((ONE.argmax(1) == LABELS)[rows]) - np.mean((TWO.argmax(1) == LABELS)[rows])


# --- which rows ---


@pytest.mark.parametrize("order", [ORDER, BY_CLASS])
@pytest.mark.parametrize("asked", [None, "plate"])
def test_rows_are_matched_by_their_names(tmp_path, order, asked):
    first = frame(ONE).iloc[np.argsort(LABELS, kind="stable")]
    found = compared(tmp_path, first, frame(TWO).iloc[order], ids=asked)
    assert found["matched_by"] == "plate" and found["samples"] == N
    assert found["notes"][0] == f"{N} rows were matched by 'plate', whose order differs."
    assert difference(found) == pytest.approx(accuracies())
    both = [metrics.summary(np.log(x), LABELS) for x in (ONE, TWO)]
    for name in ("ece", "nll", "auroc", "aurc"):
        assert difference(found, name) == pytest.approx(both[0][name] - both[1][name], abs=1e-9)


def test_tables_that_share_most_of_their_names(tmp_path):
    kept = np.sort(RNG.permutation(N)[:340])
    found = compared(tmp_path, frame(ONE).drop(index=range(8)), frame(TWO).iloc[kept[::-1]])
    shared = kept[kept >= 8]
    assert found["samples"] == len(shared)
    assert difference(found) == pytest.approx(accuracies(shared))
    (note,) = [x for x in found["notes"] if "matched" in x]
    missing = next(x for x in range(8, N) if x not in kept)
    first, second = N - 8 - len(shared), len(kept) - len(shared)
    assert f"{first} of the {N - 8} of a, {second} of the 340 of b: " in note
    assert f"of a '{NAMES[missing]}', " in note


def test_labels_that_contradict_each_other_are_an_error(tmp_path):
    other = frame(TWO).iloc[ORDER]
    other.iloc[:7, other.columns.get_loc("label")] = np.roll(FRUIT, 1)[LABELS[ORDER[:7]]]
    with pytest.raises(ValueError, match=f"b: got labels that differ in 7 of {N} rows matched"):
        compared(tmp_path, frame(ONE), other)


def test_without_names_the_order_is_trusted_and_said(tmp_path):
    plain = [frame(x).drop(columns="plate") for x in (ONE, TWO)]
    found = compared(tmp_path, *plain)
    assert found["matched_by"] is None and "paired by their order" in found["notes"][0]
    assert difference(found) == pytest.approx(accuracies())
    counted = [x.assign(row=range(1, N + 1)) for x in plain]
    found = compared(tmp_path, *counted)
    assert found["matched_by"] is None and "'row' only counts the rows" in found["notes"][0]
    others = [x.assign(text=[f"{i}{j}" for j in range(N)]) for i, x in enumerate(plain)]
    found = compared(tmp_path, *others)
    assert "'text' has other values in each" in found["notes"][0]


def test_a_true_name_is_preferred_to_a_running_number(tmp_path):
    first, second = frame(ONE).iloc[BY_CLASS], frame(TWO).sort_values("label", kind="stable")
    found = compared(tmp_path, *(x.assign(id=range(N)) for x in (first, second)))
    assert found["matched_by"] == "plate"
    assert difference(found) == pytest.approx(accuracies())


def test_the_column_that_is_asked_for(tmp_path):
    tables = frame(ONE, site=NAMES), frame(TWO, site=np.roll(NAMES, 1))
    assert compared(tmp_path, *tables, ids="plate")["matched_by"] == "plate"
    with pytest.raises(ValueError, match="labels that differ in .* matched by 'site'"):
        compared(tmp_path, *tables, ids="site")
    with pytest.raises(ValueError, match="id: got 'nothing', expected a column among 'prob_apple'"):
        compared(tmp_path, *tables, ids="nothing")
    twice = frame(TWO, site=np.r_[NAMES[:1], NAMES[:-1]])
    with pytest.raises(ValueError, match="b: id: got 'plate .*' in more than one row of 'site'"):
        compared(tmp_path, tables[0], twice, ids="site")
    with pytest.raises(ValueError, match="plate: got 3 names that are in all tables"):
        compared(tmp_path, tables[0][:200], tables[1][197:], ids="plate")


def test_three_tables_in_three_orders(tmp_path):
    half = softmax(0.5 * SCORES, axis=1)
    tables = frame(ONE), frame(TWO).iloc[ORDER], frame(half).iloc[BY_CLASS]
    found = compared(tmp_path, *tables)
    assert difference(found) == pytest.approx(accuracies())
    assert found["pairs"][1]["difference"]["accuracy"]["estimate"] == 0  # a scale changes no answer


def test_names_in_other_formats(tmp_path):
    def of(name, probs, order):
        rows = frame(probs).iloc[order]
        if name == "index.parquet":  # of a data frame that was shuffled
            rows.drop(columns="plate").to_parquet(tmp_path / f"{id(order)}{name}")
        elif name == "a.jsonl":
            rows = [{"meta": {"plate": x.plate}, "label": x.label, "probs": y} for x, y in zip(
                rows.itertuples(), probs[order].tolist(), strict=True)]  # fmt: skip
            rows = [x | {"label": FRUIT.tolist().index(x["label"])} for x in rows]
            text = "\n".join(map(json.dumps, rows))
            (tmp_path / f"{id(order)}{name}").write_text(text)
        else:
            more = {"files": NAMES[order]} if name == "text.npz" else {"row": ORDER[order] * 7}
            arrays = {"probs": probs[order], "labels": LABELS[order]} | more
            np.savez(tmp_path / f"{id(order)}{name}", **arrays)
        return tmp_path / f"{id(order)}{name}"

    for name, by in (
        ("index.parquet", "index"),
        ("a.jsonl", "meta.plate"),
        ("text.npz", "files"),
        ("numbers.npz", "row"),
    ):
        files = of(name, ONE, BY_CLASS), of(name, TWO, ORDER)
        found = json.loads(comparison.build(files, tmp_path).with_suffix(".json").read_text())
        assert found["matched_by"] == by
        assert difference(found) == pytest.approx(accuracies()), name
        assert predictions.read(files[0]).ids is None  # nobody asked


def test_questions_of_lm_eval_are_matched_by_their_number(tmp_path):
    def write(name, probs, order):
        lines = [
            {"doc_id": int(i), "filter": "none", "target": str(LABELS[i]), "doc": {},
             "filtered_resps": [[float(x), False] for x in np.log(probs[i])]}
            for i in order
        ]  # fmt: skip
        (tmp_path / name).write_text("\n".join(map(json.dumps, lines)))
        return tmp_path / name

    files = write("one.jsonl", ONE, BY_CLASS), write("two.jsonl", TWO, ORDER)
    found = json.loads(comparison.build(files, tmp_path).with_suffix(".json").read_text())
    assert found["matched_by"] == "doc_id"
    assert difference(found) == pytest.approx(accuracies())


def test_confidences_of_answers_are_matched_too(tmp_path):
    """Where labels cannot tell: each model is right and wrong in its own way."""
    tables = [
        pd.DataFrame({"confidence": x.max(1), "correct": x.argmax(1) == LABELS, "plate": NAMES})
        for x in (ONE, TWO)
    ]
    first, second = (
        compared(tmp_path, *tables),
        compared(tmp_path, tables[0], tables[1].iloc[ORDER]),
    )
    assert first["pairs"] == second["pairs"] and second["matched_by"] == "plate"


def test_classes_are_matched_by_name(tmp_path):
    other = frame(TWO)[[*reversed(frame(TWO).columns)]]
    found = compared(tmp_path, frame(ONE), other)
    assert difference(found) == pytest.approx(accuracies())
    one, two = (
        pd.DataFrame({"label": np.where(LABELS == 0, "sick", "well"), f"prob_{name}": p})
        for name, p in (("sick", ONE[:, 0]), ("well", 1 - TWO[:, 0]))
    )
    found = compared(tmp_path, one, two, positive="sick")
    sick = LABELS == 0
    expected = roc_auc_score(sick, ONE[:, 0]) - roc_auc_score(sick, TWO[:, 0])
    assert difference(found, "auroc") == pytest.approx(expected)


# --- two classes: the event ---

RISK = RNG.normal(-3.2, 1.5, 3000)
ILL = RNG.random(3000) < expit(RISK)
WELL_CALIBRATED, WEIGHTED = expit(RISK), expit(RISK + 3)


def two_files(folder, names=("0", "1"), labels=ILL):
    files = []
    for name, p in (("plain", WELL_CALIBRATED), ("balanced", WEIGHTED)):
        np.savez(
            folder / f"{name}.npz", probs=np.c_[1 - p, p], labels=labels * 1, class_names=names
        )
        files.append(str(folder / f"{name}.npz"))
    return files


def test_two_classes_are_compared_by_the_event(tmp_path, capsys):
    files = two_files(tmp_path)
    assert cli.main(["compare", *files, "--out", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    found = json.loads((tmp_path / "compare.json").read_text())
    assert found["positive"] == "1" and "“1” was taken to be the class of interest" in out
    for metric, oracle in (("auroc", roc_auc_score), ("aupr_success", average_precision_score)):
        for name, p in (("plain", WELL_CALIBRATED), ("balanced", WEIGHTED)):
            value = found["metrics"][name][metric]["estimate"]
            assert value == pytest.approx(oracle(ILL, p), abs=1e-9)
    off = found["gap"]["balanced"]
    assert off["estimate"] == pytest.approx(WEIGHTED.mean() - ILL.mean())
    times = f"{WEIGHTED.mean() / ILL.mean():.2g}"
    assert f"balanced is far too high by {100 * off['estimate']:.1f}" in out
    assert f"({times} times)" in out and "confident" not in out
    assert "Excess ECE of the probability: plain beats balanced" in out
    page = (tmp_path / "compare.html").read_text(encoding="utf-8")
    assert "which probability of “1” is better?" in page and "Average precision" in page
    # The same measures and words as a report has.
    assert cli.main(["report", files[1], "--against", files[0], "--out", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert "is far too high" in out and f"{times} times too high" in out
    report = json.loads((tmp_path / "report.json").read_text())["positive"]
    value = found["metrics"]["balanced"]["ece"]["estimate"]
    assert report["ece"]["estimate"] == pytest.approx(value, abs=1e-12)


def test_the_class_of_interest_can_be_named(tmp_path, capsys):
    files = two_files(tmp_path, ("fine", "ill"))
    guessed = json.loads(comparison.build(files, tmp_path).with_suffix(".json").read_text())
    assert guessed["positive"] == "ill"  # the rarer
    named = json.loads(
        comparison.build(files, tmp_path, positive="fine").with_suffix(".json").read_text()
    )
    assert named["positive"] == "fine" and not any("was taken" in x for x in named["notes"])
    assert named["gap"]["balanced"]["estimate"] == pytest.approx(
        -guessed["gap"]["balanced"]["estimate"]
    )
    assert cli.main(["compare", *files, "--positive", "cat", "--out", str(tmp_path)]) == 2
    assert "positive: got 'cat', expected one of 'fine', 'ill'" in capsys.readouterr().err


# --- weights and clusters ---


def test_weighted_estimates_are_those_of_repeated_rows(tmp_path):
    times = RNG.integers(0, 5, N)
    rows = np.repeat(np.arange(N), times)
    weighted = compared(tmp_path, frame(ONE, weight=times), frame(TWO, weight=times))
    repeated = compared(tmp_path, *(frame(x).drop(columns="plate").iloc[rows] for x in (ONE, TWO)))
    assert weighted["weighted"] and "weighted" in " ".join(weighted["notes"])
    for name in ("accuracy", "ece", "nll", "brier", "auroc"):
        assert difference(weighted, name) == pytest.approx(difference(repeated, name), abs=1e-9)
        for model in "ab":
            a, b = (x["metrics"][model][name]["estimate"] for x in (weighted, repeated))
            assert a == pytest.approx(b, abs=1e-9)
    for key in ("mean", "share"):
        assert weighted[key]["a"] == pytest.approx(repeated[key]["a"])
    assert weighted["gap"]["b"]["estimate"] == pytest.approx(repeated["gap"]["b"]["estimate"])


def test_weights_follow_the_rows_and_must_agree(tmp_path):
    weights = RNG.exponential(size=N)
    first, second = (frame(x, weight=weights) for x in (ONE, TWO))
    found = compared(tmp_path, first, second.iloc[ORDER].drop(columns="weight"))
    right = [x.argmax(1) == LABELS for x in (ONE, TWO)]
    expected = np.average(right[0] * 1.0 - right[1], weights=weights)
    assert difference(found) == pytest.approx(expected)
    with pytest.raises(ValueError, match="b: got other weights than a"):
        compared(tmp_path, first, second.assign(weight=weights[::-1]))


def test_intervals_over_clusters(tmp_path):
    farms = RNG.integers(0, 12, N).astype(str)
    found = compared(tmp_path, frame(ONE, farm=farms), frame(TWO, farm=farms), cluster="farm")
    plain = compared(tmp_path, frame(ONE, farm=farms), frame(TWO, farm=farms))
    assert (found["cluster"], found["clusters"]) == ("farm", 12)
    assert "go over its 12 values" in " ".join(found["notes"])
    answers = [stats.Answers(x.max(1), x.argmax(1) == LABELS) for x in (ONE, TWO)]
    for name in ("accuracy", "auroc"):
        interval = stats.compare(*answers, None, [name], n=1000, groups=farms)[name]
        its = found["pairs"][0]["difference"][name]
        assert (its["estimate"], its["low"], its["high"]) == pytest.approx(interval, abs=1e-9)
        assert its["estimate"] == plain["pairs"][0]["difference"][name]["estimate"]
    assert found["gap"]["a"]["low"] != plain["gap"]["a"]["low"]
    page = (tmp_path / "out" / "compare.html").read_text(encoding="utf-8")
    assert "in 12 clusters (farm)" not in page  # of the plain one, which came last


def test_clusters_of_copies_cost_as_much_as_they_are_worth(tmp_path):
    """Thirty copies of each row are no thirty rows: the interval is that of the rows."""
    copies = np.repeat(np.arange(60), 30)
    tables = [frame(x, case=NAMES).iloc[copies].drop(columns="plate") for x in (ONE, TWO)]
    single = [frame(x).iloc[:60] for x in (ONE, TWO)]
    widths = []
    for some, cluster in ((single, None), (tables, "case"), (tables, None)):
        found = compared(tmp_path, *some, cluster=cluster)
        its = found["pairs"][0]["difference"]["accuracy"]
        widths.append(its["high"] - its["low"])
    assert "count as copies" in " ".join(found["notes"])  # without being told
    assert widths[1:] == pytest.approx(widths[:1] * 2, rel=0.15)
    answers = [stats.Answers(x.max(1)[copies], (x.argmax(1) == LABELS)[copies]) for x in (ONE, TWO)]
    naive = stats.compare(*answers, None, ["accuracy"])["accuracy"]
    assert naive.high - naive.low < 0.3 * widths[0]


def test_clusters_that_cannot_be(tmp_path):
    with pytest.raises(ValueError, match="cluster: got 'farm', expected columns"):
        compared(tmp_path, frame(ONE), frame(TWO), cluster="farm")
    farms = RNG.integers(0, 9, N)
    with pytest.raises(ValueError, match="b: got another 'farm' than a in .* of 400 rows"):
        compared(tmp_path, frame(ONE, farm=farms), frame(TWO, farm=farms[::-1]), cluster="farm")
    with pytest.raises(ValueError, match="clusters: got .1. alone, expected at least two"):
        compared(tmp_path, frame(ONE, farm=1), frame(TWO, farm=1), cluster="farm")
    frame(ONE, date="2024-01-01").to_csv(tmp_path / "dated.csv")
    with pytest.raises(ValueError, match="ids: only for models on the same samples"):
        comparison.build([tmp_path / "dated.csv"], tmp_path, ids="plate")


def test_models_in_memory(tmp_path):
    models = [
        predictions.from_arrays({"probs": x, "labels": LABELS, "weights": np.arange(N)}, name)
        for x, name in ((ONE, "one"), (TWO, "two"))
    ]
    numbers = paired.compare(models, n=50)
    right = [x.argmax(1) == LABELS for x in (ONE, TWO)]
    expected = np.average(right[0] * 1.0 - right[1], weights=np.arange(N))
    assert numbers["pairs"][0]["difference"]["accuracy"].estimate == pytest.approx(expected)


def test_tokens_are_matched_within_their_texts(tmp_path, capsys):
    for name, probs, order in (("one", ONE, range(100)), ("two", TWO, range(99, -1, -1))):
        order = np.array(order)
        np.savez(
            tmp_path / f"{name}.npz",
            probs=probs.reshape(100, 4, 3)[order],
            labels=LABELS.reshape(100, 4)[order],
            document=NAMES[:100][order],
        )
    files = [str(tmp_path / f"{name}.npz") for name in ("one", "two")]
    assert cli.main(["compare", *files, "--tokens", "--out", str(tmp_path), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["matched_by"] == "document" and difference(found) == pytest.approx(accuracies())
    call = ["compare", *files, "--tokens", "--cluster", "document", "--out", str(tmp_path)]
    assert cli.main([*call, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["clusters"] == 100 and found["matched_by"] == "document"


def test_a_report_matches_a_second_model_too(tmp_path, capsys):
    files = [str(tmp_path / f"{x}.csv") for x in "ab"]
    frame(ONE).to_csv(files[0], index=False)
    call = ["report", files[0], "--against", files[1], "--out", str(tmp_path)]
    for order in (BY_CLASS, np.arange(N)[::-1]):
        frame(TWO).iloc[order].to_csv(files[1], index=False)
        assert cli.main([*call, "--quiet"]) == 0
        found = json.loads((tmp_path / "report.json").read_text())
        assert difference(found["comparison"]) == pytest.approx(accuracies())
        assert any("rows were matched by 'plate'" in x for x in found["notes"])
    frame(TWO).iloc[:390].to_csv(files[1], index=False)
    assert cli.main(call) == 2
    assert f"against: got 390 of the {N} rows, matched by 'plate'" in capsys.readouterr().err
    frame(TWO).drop(columns="plate").to_csv(files[1], index=False)
    assert cli.main([*call, "--quiet"]) == 0
    found = json.loads((tmp_path / "report.json").read_text())
    assert any("paired by their order" in x for x in found["notes"])


# --- one model over time ---


def test_weights_over_time_are_repeated_rows():
    times = RNG.integers(0, 4, N)
    rows = np.repeat(np.arange(N), times)
    later = softmax(0.6 * SCORES, axis=1)
    weighted, repeated = (
        drift.compare(
            [
                predictions.from_arrays({"probs": x[some], "labels": LABELS[some]} | more)
                for x in (ONE, later)
            ]
        )
        for some, more in ((np.arange(N), {"weights": times}), (rows, {}))
    )
    for a, b in zip(weighted["parts"], repeated["parts"], strict=True):
        assert a["claimed"] == pytest.approx(b["claimed"], abs=1e-9)
        assert a["observed"].estimate == pytest.approx(b["observed"].estimate, abs=1e-9)
        assert a["gap"].estimate == pytest.approx(b["gap"].estimate, abs=1e-9)
    a, b = (x["changes"][0] for x in (weighted, repeated))
    assert a["change"].estimate == pytest.approx(b["change"].estimate, abs=1e-9)
    wider = a["change"].high - a["change"].low, b["change"].high - b["change"].low
    assert wider[0] > wider[1]  # repeated rows are no new ones


def test_clusters_are_no_drift():
    """Thirty patients of forty rows, whose luck they share: other patients are not a drift."""
    alarms = {"clusters": 0, "rows": 0}
    for seed in range(60):
        rng = np.random.default_rng(seed)
        parts = {"clusters": [], "rows": []}
        for name in ("old", "new"):
            luck = np.repeat(rng.normal(0, 1.3, 30), 40)
            p = expit(rng.normal(0.5, 1, 1200))
            right = rng.random(1200) < expit(np.log(p / (1 - p)) + luck)
            arrays = {"confidence": p, "correct": right}
            patients = {"clusters": np.repeat(np.arange(30), 40).astype(str)}
            parts["rows"].append(predictions.from_arrays(arrays, name))
            parts["clusters"].append(predictions.from_arrays(arrays | patients, name))
        for kind, both in parts.items():
            alarms[kind] += drift.compare(both)["drifted"]
    assert alarms["clusters"] <= 7 < 14 < alarms["rows"]


def test_clusters_over_time_on_the_command_line(tmp_path, capsys):
    farms = RNG.integers(0, 20, N)
    for name, probs in (("old", ONE), ("new", TWO)):
        frame(probs, farm=farms).to_csv(tmp_path / f"{name}.csv", index=False)
    files = [str(tmp_path / f"{x}.csv") for x in ("old", "new")]
    call = ["compare", *files, "--unpaired", "--json", "--out", str(tmp_path)]
    widths = []
    for more in ([], ["--cluster", "farm"]):
        assert cli.main([*call, *more]) == 0
        change = json.loads(capsys.readouterr().out)["changes"][0]["change"]
        widths.append(change["high"] - change["low"])
    assert widths[0] != widths[1]


@pytest.mark.parametrize(
    ("old", "new"), [("metrics.a.accuracy", "metrics.a.brier"), ("aurc", "auroc")]
)
def test_a_key_that_two_classes_no_longer_have_is_answered_by_the_new_one(old, new):
    numbers = {"positive": "fraud", "pairs": [{}], "metrics": {"a": {"brier": {"estimate": 0.1}}}}
    with pytest.raises(ValueError, match=f"probability of 'fraud' is compared .* take '{new}'$"):
        gate.failures(numbers, [gate.parse(f"{old}<0.9")])
    with pytest.raises(ValueError, match="the page has them$"):
        gate.failures(numbers | {"positive": None}, [gate.parse(f"{old}<0.9")])
