"""Which coefficient a paper would choose, and what recalibration does on few samples."""

import numpy as np
import pandas as pd
import pytest

from calibkit import metrics, posthoc
from calibkit.companion import notebook, plan, sweeps
from tests import records


@pytest.fixture
def page(tmp_path, monkeypatch):
    monkeypatch.setenv("CALIBKIT_CACHE", str(tmp_path))
    methods = ["erm", "focal(gamma=5)", "focal(gamma=1)", "focal"]
    for run in plan.select("smoke", methods, seeds=2):
        records.write(run, k=5)
    return notebook.page(methods, "smoke", seeds=2)


def test_a_family_grows_with_its_coefficient(page):
    assert sweeps.family(page, "focal") == ["focal(gamma=1)", "focal", "focal(gamma=5)"]
    assert sweeps.family(page, "mixup") == []


def test_the_coefficient_of_lowest_mean_ece_is_chosen(page):
    names = ["erm", *sweeps.family(page, "focal")]
    index = pd.MultiIndex.from_product([names, [0, 1]], names=["method", "seed"])
    table = pd.DataFrame({"ece": [0.9, 0.9, 0.1, 0.5, 0.2, 0.2, 0.3, 0.3]}, index)
    assert sweeps.choose(page, table, "focal") == "focal"
    there = sweeps.at(table, {"loss": "focal"})
    assert set(there.index.unique(0)) == {"erm", "loss"}
    assert there.ece["loss"].tolist() == [0.2, 0.2]


def test_printed_names_have_the_paper_s_coefficient():
    assert sweeps.printed("overconf-tab1", "cifar10")["l1_norm"] == "l1_norm(strength=0.05)"


def test_refitting_on_all_samples_is_fitting(page):
    record = page.records["erm"][0]
    a = record.arrays
    size, labels = len(a["validation_logits"]), a["test_labels"].astype(int)
    found = sweeps.refit(record, size, np.random.default_rng(0))
    pair = a["validation_logits"], a["validation_labels"].astype(int)
    temperature, _ = posthoc.optimal_temperature(*pair, "ece")
    expected = metrics.ece(posthoc.softmax(a["test_logits"] / temperature), labels)
    assert found[0] == pytest.approx(expected, abs=1e-6)
    binned = posthoc.HistogramBinning().fit(*pair).predict_proba(a["test_logits"])
    assert found[1] == pytest.approx(metrics.ece(binned, labels), abs=1e-6)


def test_the_best_coefficient_is_found_at_each_training_set_size(tmp_path, monkeypatch):
    monkeypatch.setenv("CALIBKIT_CACHE", str(tmp_path))
    methods = ["focal(gamma=5)", "focal(gamma=1)", "label_smoothing"]
    selection = plan.Selection("smoke")
    sizes = plan.EDITIONS["smoke"].sizes
    for size in sizes:
        for run in plan.select(selection, methods, train_size=size, seeds=1):
            records.write(run, k=5)
    pages = sweeps.by_size(methods, selection)
    assert list(pages) == list(sizes)
    for size, page in pages.items():
        ends = {
            sweeps.coefficient(m): page.records[m][0].history["ece"][-1]
            for m in ("focal(gamma=1)", "focal(gamma=5)")
        }
        (record,) = page.records["focal(gamma=5)"]
        assert record.info["run"]["protocol"]["train_size"] == size
        assert {c: e.tolist() for c, e in sweeps.errors(page, "focal").items()} == {
            c: [e] for c, e in ends.items()
        }
        assert sweeps.lowest(page, "focal") == min(ends, key=ends.get)
    import matplotlib.pyplot as plt

    _, ax = plt.subplots()
    sweeps.plot_sizes(pages, "focal", ax)
    filled = [line for line in ax.lines if len(line.get_xdata()) == 1]
    assert [line.get_xdata()[0] for line in filled] == [
        sweeps.lowest(page, "focal") for page in pages.values()
    ]
    plt.close("all")
