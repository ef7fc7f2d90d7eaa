"""A method of one's own is measured as the published ones are, and judged in the right words."""

import json
import re
import shutil
from functools import partial
from html.parser import HTMLParser

import numpy as np
import pytest

from calibkit import cli, metrics, posthoc, stats
from calibkit.companion import bench, plan
from calibkit.report import comparison, predictions
from calibkit.training import plugins, store
from calibkit.training.plugins import PluginError
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
    fewer = partial(stats.replicates_of_run, n=30)  # a tenth of the time
    monkeypatch.setattr(stats, "replicates_of_run", fewer)
    return tmp_path


def put(method, **drawn):
    for run in plan.select("demo", [method], dataset="digits", seeds=3):
        records.write(run, **drawn)


def put_scaled(method, factor):
    """Records of a method whose logits are those of ERM, times a factor."""
    theirs = plan.select("demo", ["erm"], dataset="digits", seeds=3)
    for run, other in zip(
        plan.select("demo", [method], dataset="digits", seeds=3), theirs, strict=True
    ):
        arrays = dict(store.load(other).arrays)
        for name in ("test_logits", "validation_logits"):
            arrays[name] = factor * arrays[name]
        rows = [{"epoch": 7, **_row(arrays)}]
        store.save(run, "done", rows, arrays, records.TRAINED)


def _row(arrays):
    return metrics.summary(arrays["test_logits"], arrays["test_labels"].astype(int))


def titles(numbers):
    return [answer["title"] for answer in bench.verdict(numbers)]


@pytest.fixture
def crowd():
    put("erm", separation=1.0)
    put("focal", separation=0.5)
    put("fmfp", separation=2.0)


def test_numbers_are_paired_by_seed_and_sample(crowd):
    put("mine.py:plain", separation=3.0)
    numbers = bench.measure(bench.bench("mine.py:plain", PLACE))
    assert numbers["methods"].keys() == {numbers["method"], "erm", "focal", "fmfp"}
    row = numbers["before"]["auroc"]
    ours, theirs = (
        [store.load(r).replicates for r in plan.select("demo", [m], dataset="digits", seeds=3)]
        for m in ("mine.py:plain", "erm")
    )
    values = [a.estimate("auroc") - b.estimate("auroc") for a, b in zip(ours, theirs, strict=True)]
    draws = [a.deviation("auroc") - b.deviation("auroc") for a, b in zip(ours, theirs, strict=True)]
    expected = stats.mean_over_seeds(values, draws).interval()
    np.testing.assert_allclose(row["difference"], expected)
    assert row["own"] - row["erm"] == pytest.approx(np.mean(values))
    assert row["place"] == 1 and row["of"] == 4 and row["first"] == 1
    assert titles(numbers)[1] == "Finds its errors better than ERM"
    after = numbers["after"]["brier"]
    assert after["own"] == pytest.approx(np.mean([a.estimate("brier_ts_nll") for a in ours]))


def test_places_follow_the_direction_of_a_metric():
    gap = {"erm": stats.Interval(-0.1, -0.2, -0.05), "focal": stats.Interval(0.1, -0.1, 0.3)}
    found = bench._ranked({"own": 0.2, "erm": 0.3, "focal": 0.1}, "own", gap, False)
    assert (found["place"], found["first"], found["last"]) == (2, 1, 2)
    found = bench._ranked({"own": 0.2, "erm": 0.3, "focal": 0.1}, "own", gap, True)
    assert (found["place"], found["first"], found["last"]) == (2, 2, 3)


def test_a_lower_temperature_is_found_out(crowd):
    theirs = plan.select("demo", ["erm"], dataset="digits", seeds=3)
    suits = np.mean([store.load(r).replicates.temperatures["ts_nll"] for r in theirs])
    put_scaled("mine.py:plain", 1 / suits)
    numbers = bench.measure(bench.bench("mine.py:plain", PLACE))
    assert numbers["before"]["excess_ece"]["difference"].verdict == "lower"
    assert titles(numbers)[0] == "Better calibrated than ERM as trained"
    assert titles(numbers)[3] == "Nothing a temperature on ERM would not do"
    assert titles(numbers)[4] == "No clear difference from ERM once recalibrated"
    own, erm = numbers["temperature"]["own"], numbers["temperature"]["erm"]
    assert erm == pytest.approx(suits) and own / erm == pytest.approx(1 / suits, rel=0.02)


def test_expense_and_the_dark_side_are_named(crowd):
    put("mine.py:plain", separation=0.0, right=0.6)
    numbers = bench.measure(bench.bench("mine.py:plain", PLACE))
    assert titles(numbers)[1] == "Finds its errors worse than ERM"
    assert titles(numbers)[2].startswith("At the expense of accuracy and")
    assert titles(numbers)[3] == "A temperature on ERM does better"


def test_one_run_is_not_judged_unless_the_spread_is_known():
    put("erm")
    run = plan.select("demo", ["mine.py:plain"], dataset="digits", seeds=1)[0]
    records.write(run, separation=2.0)
    found = bench.bench("mine.py:plain", PLACE, seeds=1)
    difference = bench.measure(found)["before"]["auroc"]["difference"]
    assert difference.low < difference.estimate < difference.high  # ERM's three tell the spread
    erm = found.page.records["erm"]
    found.page.records["erm"] = erm[:1]
    numbers = bench.measure(found)
    assert numbers["before"]["auroc"]["difference"].verdict == "cannot be told"
    assert "one run cannot tell" in titles(numbers)[1]


@pytest.mark.parametrize(
    ("method", "passes"),
    [("erm", (1, 1)), ("sam", (2, 2)), ("cs_kd", (2, 1)), ("cs_kd+sam", (4, 2)), ("mit_a", (2, 2))],
)
def test_records_of_before_passes_were_counted_have_them(method, passes):
    run = plan.select("demo", [method], dataset="digits", seeds=1)[0]
    assert bench._passes(records.write(run)) == passes


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
    for method in ("erm", "focal", "fmfp", "mine.py:plain"):
        for run in plan.select("demo", [method], dataset="digits", seeds=3):
            _add_epochs(store.load(run))
    page = bench.build("mine.py:plain", PLACE, "out")
    text = page.read_text()
    loaded = Loaded(text)
    assert all(x.startswith("data:image/svg+xml") for x in loaded.found)
    assert len(loaded.found) == len(bench._DRAWN) and "script" not in loaded.tags
    assert "Finds its errors better than ERM" in text and "nan" not in re.sub("<[^>]*>", "", text)
    numbers = json.loads(page.with_suffix(".json").read_text())
    assert numbers["settings"][0]["before"]["auroc"]["place"] == 1
    assert sorted(p.name for p in (folder / "out").iterdir()) == ["bench.html", "bench.json"]


def _add_epochs(record):
    """What the figure of gradients reads and `records.write` leaves out."""
    arrays = dict(record.arrays) | {"train_epochs": np.array([1, 3, 7], np.int16)}
    history = [
        dict(zip(record.history, row, strict=True))
        for row in zip(*record.history.values(), strict=True)
    ]
    info = record.info
    shutil.rmtree(record.path)
    (run,) = (
        r
        for m in ("erm", "focal", "fmfp", "mine.py:plain")
        for r in plan.select("demo", [m], dataset="digits", seeds=3)
        if r.name == record.name
    )
    store.save(run, "done", history, arrays, info["provenance"])


def test_from_a_file_to_a_page_as_a_user_does(folder, capsys):
    call = ["bench", "mine.py:plain(scale=2)", "--edition", "smoke", "--seeds", "1"]
    assert cli.main([*call, "--epochs", "1", "--quiet"]) == 0
    said = capsys.readouterr().out
    assert said.strip().endswith("bench.html") and "one run cannot tell" in said
    assert len([p for p in store.runs_root().glob("[!.]*")]) == 2  # the method's and ERM's
    (folder / "bad.py").write_text("def f(logits, targets):\n    return logits.mean()\n")
    assert cli.main(["bench", "bad.py:f", "--edition", "smoke", "--epochs", "1"]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and 'line 2, "return logits.mean()"' in error
    assert not [p for p in store.runs_root().glob("*-f-*") if p.is_dir()]


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


def test_temperature_scaling_does_what_temperature_scaling_does(maps):
    numbers = bench.recalibrate("maps.py:Same", "demo", dataset="digits")
    assert [row["runs"] for row in numbers["rows"]] == [3, 3, 3]
    for row in numbers["rows"]:
        for name in ("brier", "nll", "ece", "auroc"):
            np.testing.assert_allclose(row[name]["difference"], 0, atol=2e-6)
        assert row["ece"]["none"] != pytest.approx(row["ece"]["own"])
    assert bench.recalibration_verdict(numbers)[0]["title"].startswith("Calibration: hardly any")


def test_a_useless_recalibration_is_called_so(maps, folder, capsys):
    assert bench.recalibrates("maps.py:Uniform(power=2)")
    assert not bench.recalibrates("mine.py:plain") and not bench.recalibrates("focal")
    call = ["bench", "maps.py:Uniform(power=2)", "--edition", "demo", "--dataset", "digits"]
    assert cli.main([*call, "--out", "map"]) == 0
    said = capsys.readouterr().out
    assert "Finding errors: worse than a temperature" in said
    assert "yours − scaled" in (folder / "map" / "bench.html").read_text()
    own = json.loads((folder / "map" / "bench.json").read_text())["settings"][0]["rows"][0]
    assert own["auroc"]["own"] == pytest.approx(0.5) and own["auroc"]["difference"]["high"] < 0


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("NoFit", "NoFit has no fit"),
        ("Wrong", "its rows do not sum to 1"),
        ("Short", r"gives \(399, 10\), expected \(400, 10\)"),
        ("Negative", "not all of its probabilities"),
        ("Fails", 'line 34, "return labels\\["no"\\]": IndexError'),
        ("Uniform(pow=1)", "unexpected keyword argument 'pow'"),
    ],
)
def test_a_broken_recalibration_is_one_line(name, message, maps):
    with pytest.raises(PluginError, match=message) as error:
        bench.recalibrate(f"maps.py:{name}", "demo", dataset="digits")
    assert "\n" not in str(error.value)


def test_without_records_there_is_nothing_to_recalibrate(folder):
    (folder / "maps.py").write_text(MAPS)
    with pytest.raises(ValueError, match="no record here keeps predictions"):
        bench.recalibrate("maps.py:Same", "demo", dataset="digits")


def test_an_installed_recalibration_is_found(folder, maps, monkeypatch):
    info = folder / "site" / "own_maps-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: own-maps\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[calibkit.posthoc]\nours = own_maps:Same\n")
    (folder / "site" / "own_maps.py").write_text(MAPS)
    monkeypatch.syspath_prepend(folder / "site")
    plugins.entries.cache_clear()
    try:
        assert bench.recalibrates("ours")
        assert len(bench.recalibrate("ours", "demo", dataset="digits")["rows"]) == 3
    finally:
        plugins.entries.cache_clear()


# --- models trained elsewhere ---


def model(separation, seed=0, n=600, name="m"):
    rng = np.random.default_rng(7)
    labels = rng.integers(5, size=n)
    noise = np.random.default_rng(seed).normal(size=(n, 5))
    logits = noise + separation * np.eye(5)[labels]
    return predictions.from_arrays({"logits": logits, "labels": labels}, name)


def test_every_pair_is_compared_with_corrected_intervals():
    numbers = comparison.compare([model(1, 1), model(1, 1), model(3, 2, name="good")])
    assert numbers["models"] == ["m (1)", "m (2)", "good"] and len(numbers["pairs"]) == 3
    assert numbers["level"] == pytest.approx(1 - 0.05 / 3)
    same, wider = (numbers["pairs"][i]["difference"]["accuracy"] for i in (0, 1))
    assert same == (0, 0, 0)
    plain = stats.compare(
        model(1, 1).logits, model(3, 2).logits, model(1).labels, ["accuracy"], n=3000
    )["accuracy"]
    assert wider.low < plain.low and wider.high > plain.high
    assert wider.estimate == pytest.approx(plain.estimate)
    words = {answer["title"] for answer in comparison.verdict(numbers)}
    assert "Accuracy: good beats all others" in words and "AURC: good beats all others" in words
    two = comparison.compare([model(1, 1), model(3, 2, name="good")])
    assert comparison.verdict(two)[0]["title"] == "Accuracy: good beats m"


def test_models_of_other_samples_are_refused():
    with pytest.raises(ValueError, match="got 500 samples, expected the 600 of m"):
        comparison.compare([model(1), model(1, n=500)])
    other = model(1)
    other.labels[:3] = (other.labels[:3] + 1) % 5
    with pytest.raises(ValueError, match="differ from those of m in 3 samples"):
        comparison.compare([model(1), other])
    with pytest.raises(ValueError, match="got 1 models, expected 2 to 12"):
        comparison.compare([model(1)])


def test_compare_from_files_to_a_page(folder, capsys):
    for name, separation in (("a", 1), ("<b>", 2), ("c", 3)):
        found = model(separation, seed=separation)
        np.savez(f"{name}.npz", logits=found.logits, labels=found.labels)
    assert cli.main(["compare", "a.npz", "<b>.npz", "c.npz"]) == 0
    assert "Accuracy: c beats all others" in capsys.readouterr().out
    text = (folder / "compare" / "compare.html").read_text()
    loaded = Loaded(text)
    assert all(x.startswith("data:image/svg+xml") for x in loaded.found) and "b" not in loaded.tags
    assert "&lt;b&gt;" in text and "98.33" in text
    assert cli.main(["compare", "a.npz", "nowhere.npz"]) == 1
    assert capsys.readouterr().err.count("\n") == 1


def test_softmax_of_an_own_map_is_what_its_metrics_are_of(maps):
    """The logarithms of its probabilities are logits of the same probabilities."""
    record = store.load(plan.select("demo", ["erm"], dataset="digits", seeds=1)[0])
    source = plugins.source(plugins.named("posthoc", "maps.py:Same"))
    probs = bench.apply(source, posthoc.TemperatureScaling(), record.arrays)
    labels = record.arrays["test_labels"].astype(int)
    found = metrics.summary(np.log(np.maximum(probs, 1e-30)), labels)
    assert found["ece"] == pytest.approx(metrics.ece(probs, labels), abs=1e-6)
