"""A method of one's own is measured as the published ones are, and judged in the right words."""

import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from calibkit import cli, metrics, posthoc, stats
from calibkit.report import compared_words, paired, predictions
from calibkit_companion import bench, results
from calibkit_companion.experiments import plan
from calibkit_companion.experiments.method import parse
from calibkit_companion.experiments.plugins import PluginError
from calibkit_companion.records import folders
from tests import records

LOSS = """
import torch.nn.functional as F

def plain(logits, targets, scale=1.0):
    return scale * F.cross_entropy(logits, targets, reduction="none")
"""
PLACE = plan.Selection("demo", dataset="digits", seeds=3)


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("CALIBKIT_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(LOSS)
    records.few_replicates(monkeypatch, 30)
    return tmp_path


def put(method, **drawn):
    for run in plan.Selection("demo", dataset="digits", seeds=3).runs([method]):
        records.write(run, **drawn)


def put_scaled(method, factor):
    """Records of a method whose logits are those of ERM, times a factor."""
    theirs = plan.Selection("demo", dataset="digits", seeds=3).runs(["erm"])
    for run, other in zip(
        plan.Selection("demo", dataset="digits", seeds=3).runs([method]), theirs, strict=True
    ):
        arrays = dict(folders.load(other).arrays)
        for name in ("test_logits", "validation_logits"):
            arrays[name] = factor * arrays[name]
        row = metrics.summary(arrays["test_logits"], arrays["test_labels"].astype(int))
        folders.save(run, "done", [{"epoch": 7} | row], arrays, records.TRAINED)


def numbers_of(folder="bench"):
    return json.loads(Path(folder, "bench.json").read_text())


def headline(runs, method):
    name = parse(method).name
    found = bench.answers(bench.rows(runs, name)["before"], bench.QUESTIONS["method"], name)
    return {a["title"].partition(": ")[0]: a["title"].partition(": ")[2] for a in found}


@pytest.fixture
def crowd():
    put("erm", separation=1.0)
    put("focal", separation=0.5)
    put("fmfp", separation=2.0)


def test_numbers_are_paired_by_seed_and_sample(crowd):
    put("mine.py:plain", separation=3.0)
    runs = bench.trained("mine.py:plain", PLACE)
    name = parse("mine.py:plain").name
    row = bench.rows(runs, name)["before"][name, "auroc"]
    ours, theirs = (
        [
            folders.load(r).replicates
            for r in plan.Selection("demo", dataset="digits", seeds=3).runs([m])
        ]
        for m in ("mine.py:plain", "erm")
    )
    values = [a.estimate("auroc") - b.estimate("auroc") for a, b in zip(ours, theirs, strict=True)]
    draws = [a.deviation("auroc") - b.deviation("auroc") for a, b in zip(ours, theirs, strict=True)]
    np.testing.assert_allclose(row.interval, stats.mean_over_seeds(values, draws).interval())
    assert headline(runs, "mine.py:plain")["Finding its errors"] == "better"


def test_a_lower_temperature_is_found_out(crowd):
    theirs = plan.Selection("demo", dataset="digits", seeds=3).runs(["erm"])
    suits = np.mean([folders.load(r).replicates.temperatures["ts_nll"] for r in theirs])
    put_scaled("mine.py:plain", 1 / suits)
    said = headline(bench.trained("mine.py:plain", PLACE), "mine.py:plain")
    assert said["Calibrated as trained"] == "better"
    assert said["What temperature scaling leaves"] == "no difference"


def test_what_is_lost_is_named(crowd):
    put("mine.py:plain", separation=0.0, right=0.6)
    said = headline(bench.trained("mine.py:plain", PLACE), "mine.py:plain")
    assert said["Finding its errors"] == "worse" and said["Accuracy"] == "worse"


def test_one_run_cannot_tell():
    put("erm")
    run = plan.Selection("demo", dataset="digits", seeds=1).runs(["mine.py:plain"])[0]
    records.write(run, separation=2.0)
    runs = bench.trained("mine.py:plain", PLACE, seeds=1)
    assert headline(runs, "mine.py:plain")["Finding its errors"] == "one run cannot tell"


@pytest.mark.parametrize(
    ("method", "passes"),
    [("erm", (1, 1)), ("sam", (2, 2)), ("cs_kd", (2, 1)), ("cs_kd+sam", (4, 2)), ("mit_a", (2, 2))],
)
def test_records_of_before_passes_were_counted_have_them(method, passes):
    put("erm")
    put(method)
    found = bench.cost(bench.trained(method, PLACE), method)
    assert (found["forward"], found["backward"]) == passes


class Loaded(HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.found, self.tags = [], set()
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.tags.add(tag)
        self.found += [v for k, v in attributes if k in ("src", "href")]


def test_the_page_needs_nothing_else(crowd, folder):
    put("mine.py:plain", separation=3.0)
    page = bench.build("mine.py:plain", PLACE, "out", chosen="by validation NLL")
    text = page.read_text()
    loaded = Loaded(text)
    assert all(x.startswith("data:image/svg+xml") for x in loaded.found)
    assert len(loaded.found) == 2 and "script" not in loaded.tags
    assert "Finding its errors: better" in text and "nan" not in re.sub("<[^>]*>", "", text)
    assert "by validation NLL" in text and "SHA-256" in text
    numbers = numbers_of("out")
    assert numbers["level"] == pytest.approx(1 - 0.05 / 4, abs=1e-4)
    rows = {
        (r["metric"], r["recalibration"], r["test_set"]) for r in numbers["settings"][0]["rows"]
    }
    assert {("auroc", "none", "clean"), ("ece", "ts_nll", "clean")} <= rows
    assert sorted(p.name for p in (folder / "out").iterdir()) == ["bench.html", "bench.json"]


def test_a_published_method_has_a_page_too(crowd, folder):
    assert "SHA-256" not in bench.build("focal", PLACE, "out").read_text()


def test_data_that_are_missing_are_left_out_of_the_page(crowd, monkeypatch, capsys):
    """The page has what can be trained; it says, before and after, how to get the rest."""
    monkeypatch.setenv("CALIBKIT_DATA", "nowhere")
    changes = {"dataset": "digits", "others": (("20newsgroups", "textcnn", 3),)}
    demo = replace(plan.EDITIONS["demo"], **changes)
    monkeypatch.setitem(plan.EDITIONS, "demo", demo)
    put("mine.py:plain", separation=3.0)
    for run in plan.Selection("demo", dataset="20newsgroups", network="textcnn").runs(["erm"]):
        records.write(run)
    assert cli.main(["bench", "mine.py:plain"]) == 0
    said, numbers = capsys.readouterr().out.splitlines(), numbers_of()
    advice = "left out: 20newsgroups not found in nowhere; run `calibkit data get 20newsgroups`"
    assert len([line for line in said if line.strip().startswith(advice)]) == 2
    assert len(numbers["settings"]) == 1 and numbers["level"] == pytest.approx(1 - 0.05 / 4)
    assert "data get 20newsgroups" in Path("bench/bench.html").read_text()
    with pytest.raises(FileNotFoundError, match="run `calibkit data get 20newsgroups`"):
        bench.build("mine.py:plain", "demo", dataset="20newsgroups", network="textcnn")


@pytest.mark.filterwarnings("ignore")
def test_data_without_errors_leave_the_ranking_out(folder):
    for method in ("erm", "focal"):
        put(method, right=1.0)
    page = bench.build("focal", PLACE, "out")
    said = {v["title"].partition(":")[0] for v in numbers_of("out")["verdicts"][0]["verdict"]}
    assert "Finding its errors" not in said and "Calibrated as trained" in said
    assert "nan" not in re.sub("<[^>]*>", "", page.read_text())


def test_from_a_file_to_a_page_as_a_user_does(folder, capsys):
    call = ["bench", "mine.py:plain(scale=2)", "--edition", "smoke", "--seeds", "1"]
    assert cli.main([*call, "--epochs", "1", "--quiet"]) == 0
    said = capsys.readouterr().out
    assert said.strip().endswith("bench.html") and "one run cannot tell" in said
    assert len([p for p in folders.runs_root().glob("[!.]*")]) == 2  # the method's and ERM's
    (folder / "bad.py").write_text("def f(logits, targets):\n    return logits.mean()\n")
    assert cli.main(["bench", "bad.py:f", "--edition", "smoke", "--epochs", "1"]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and 'line 2, "return logits.mean()"' in error
    assert not [p for p in folders.runs_root().glob("*-f-*") if p.is_dir()]


# --- recalibrations ---

MAPS = """
import numpy as np
from calibkit import posthoc

class Same(posthoc.TemperatureScaling):
    pass

class Uniform:
    def __init__(self, power=1):
        self.power = power
    def fit(self, logits, labels):
        pass
    def predict_proba(self, logits):
        return np.full(logits.shape, 1 / logits.shape[1])

class NoFit:
    def predict_proba(self, logits):
        return logits

class Wrong(Uniform):
    def predict_proba(self, logits):
        return 2 * super().predict_proba(logits)

class Short(Uniform):
    def predict_proba(self, logits):
        return super().predict_proba(logits)[:-1]

class Negative(Uniform):
    def predict_proba(self, logits):
        return logits

class Fails(Uniform):
    def fit(self, logits, labels):
        return labels["no"]
"""


@pytest.fixture
def maps(folder, crowd):
    (folder / "maps.py").write_text(MAPS)


def on_digits(text):
    return bench.tried(text, results.Results(plan.Selection("demo", dataset="digits"), train=False))


def test_temperature_scaling_does_what_temperature_scaling_does(maps):
    rows = on_digits("maps.py:Same")
    assert {method for method, _ in rows} == {"erm", "focal", "fmfp"}
    for row in rows.values():
        assert row.seeds == 3 and row.interval == pytest.approx((0, 0, 0), abs=2e-5)


def test_a_useless_recalibration_is_called_so(maps, folder, capsys):
    kinds = {"maps.py:Uniform(power=2)": "recalibration", "mine.py:plain(scale=2)+swa": "method"}
    assert {text: bench.kind(text) for text in kinds} == kinds and bench.kind("focal") == "method"
    call = ["bench", "maps.py:Uniform(power=2)", "--edition", "demo", "--dataset", "digits"]
    assert cli.main([*call, "--out", "map"]) == 0
    assert "Finding errors: worse" in capsys.readouterr().out
    rows = numbers_of("map")["settings"][0]["rows"]
    (auroc,) = (r for r in rows if (r["method"], r["metric"]) == ("erm", "auroc"))
    assert auroc["high"] < 0


SCORES = """
def margin(logits):
    top = logits.copy()
    top.sort(axis=1)
    return top[:, -1] - top[:, -2]

def spread(logits):
    return logits.std(axis=1)

def short(logits):
    return logits[:-1, 0]

def error_rate(probs, labels):
    return (probs.argmax(axis=1) != labels).mean()
"""


def test_a_score_is_compared_with_the_maximum_probability(crowd, folder):
    (folder / "scores.py").write_text(SCORES)
    assert bench.kind("scores.py:margin") == "score"
    rows = on_digits("scores.py:margin")
    record = folders.load(plan.Selection("demo", dataset="digits", seeds=1).runs(["erm"])[0])
    logits, labels = record.arrays["test_logits"], record.arrays["test_labels"].astype(int)
    top = np.sort(logits, axis=1)
    correct = logits.argmax(1) == labels
    gap = metrics.auroc(top[:, -1] - top[:, -2], correct) - metrics.auroc(
        posthoc.softmax(logits).max(1), correct
    )
    assert rows["erm", "auroc"].series.values[0] == pytest.approx(gap)
    with pytest.raises(PluginError, match=r"gives \(399,\), expected \(400,\)"):
        on_digits("scores.py:short")


def test_a_metric_of_ones_own_is_compared_between_methods(crowd, folder):
    (folder / "scores.py").write_text(SCORES)
    assert bench.kind("scores.py:error_rate") == "metric"
    rows = on_digits("scores.py:error_rate")
    runs = results.Results(plan.Selection("demo", dataset="digits"), train=False)
    accuracy = runs.compare("fmfp", metric="accuracy")["fmfp"]
    assert rows["fmfp", "error_rate"].estimate == pytest.approx(-accuracy.estimate)
    assert ("erm", "error_rate") not in rows
    page = bench.build("scores.py:error_rate", plan.Selection("demo", dataset="digits"), "own")
    assert "error rate" in page.read_text()


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("NoFit", "'NoFit' object has no attribute 'fit'"),
        ("Wrong", "expected rows that sum to 1"),
        ("Short", r"gives \(399, 10\), expected \(400, 10\)"),
        ("Negative", r"got values from -\S+ to \S+, expected \[0, 1\]"),
        ("Fails", 'line 34, "return labels\\["no"\\]": IndexError'),
        ("Uniform(pow=1)", "unexpected keyword argument 'pow'"),
    ],
)
def test_a_broken_recalibration_is_one_line(name, message, maps):
    with pytest.raises(PluginError, match=message) as error:
        on_digits(f"maps.py:{name}")
    assert "\n" not in str(error.value)


def test_without_records_there_is_nothing_to_recalibrate(folder):
    (folder / "maps.py").write_text(MAPS)
    with pytest.raises(ValueError, match="no record here keeps predictions"):
        bench.build("maps.py:Same", plan.Selection("demo", dataset="digits"))


# --- models trained elsewhere ---


def model(separation, seed=0, n=600, name="m"):
    rng = np.random.default_rng(7)
    labels = rng.integers(5, size=n)
    noise = np.random.default_rng(seed).normal(size=(n, 5))
    logits = noise + separation * np.eye(5)[labels]
    return predictions.from_arrays({"logits": logits, "labels": labels}, name)


def test_every_pair_is_compared_with_corrected_intervals():
    numbers = paired.compare([model(1, 1), model(1, 1), model(3, 2, name="good")])
    assert numbers["models"] == ["m (1)", "m (2)", "good"] and len(numbers["pairs"]) == 3
    assert numbers["level"] == pytest.approx(1 - 0.05 / 3)
    same, wider = (numbers["pairs"][i]["difference"]["accuracy"] for i in (0, 1))
    assert same == (0, 0, 0)
    plain = stats.compare(
        model(1, 1).logits, model(3, 2).logits, model(1).labels, ["accuracy"], n=3000
    )["accuracy"]
    assert wider.low < plain.low and wider.high > plain.high
    assert wider.estimate == pytest.approx(plain.estimate)
    words = {answer["title"] for answer in compared_words.compared(numbers)}
    assert "Accuracy: good beats all others" in words and "AURC: good beats all others" in words
    two = paired.compare([model(1, 1), model(3, 2, name="good")])
    assert compared_words.compared(two)[0]["title"] == "Accuracy: good beats m"


def test_models_of_other_samples_are_refused():
    with pytest.raises(ValueError, match="m: got 500 samples, expected the same 600"):
        paired.compare([model(1), model(1, n=500)])
    other = model(1)
    other.labels[:3] = (other.labels[:3] + 1) % 5
    with pytest.raises(ValueError, match="m: got labels that differ in 3 of 600 samples"):
        paired.compare([model(1), other])
    with pytest.raises(ValueError, match="got 1 models, expected 2 to 12"):
        paired.compare([model(1)])


def test_compare_from_files_to_a_page(folder, capsys):
    for name, separation in (("<b>", 1), ("c", 3)):
        found = model(separation, seed=separation)
        np.savez(f"{name}.npz", logits=found.logits, labels=found.labels)
    assert cli.main(["compare", "<b>.npz", "c.npz"]) == 0
    assert "Accuracy: c beats <b>" in capsys.readouterr().out
    text = (folder / "compare" / "compare.html").read_text()
    loaded = Loaded(text)
    assert all(x.startswith("data:image/svg+xml") for x in loaded.found) and "b" not in loaded.tags
    assert "&lt;b&gt;" in text
    assert cli.main(["compare", "c.npz", "nowhere.npz"]) == 1
    assert capsys.readouterr().err.count("\n") == 1
