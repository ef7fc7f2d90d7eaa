"""The printed numbers are the papers', in natural units, and ours stand beside the right ones."""

import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from calibkit import metrics
from calibkit.companion import plan, published
from calibkit.training import store
from tests import records

PAPERS = {"fmfp", "darkside", "overconf", "mixup", "bsce"}


def cell(exhibit, dataset, network, method, metric):
    table = published.cells(exhibit=exhibit)
    found = table[
        (table.dataset == dataset)
        & (table.network == network)
        & (table.method == method)
        & (table.metric == metric)
    ]
    return found.iloc[0]


@pytest.mark.parametrize(
    ("where", "value", "std"),
    [
        (("fmfp-tab1", "cifar10", "resnet110", "erm", "fpr_at_tpr"), 0.4501, 0.0255),
        (("fmfp-tab1", "cifar10", "resnet110", "mixup", "aurc"), 0.01505, 0.00009),
        (("fmfp-text-sec32", "cifar10", "densenet", "focal", "ece"), 0.0136, np.nan),
        (("overconf-tab2", "20newsgroups", "cnn1d_8layer", "erm", "temperature"), 4.18, np.nan),
        (("overconf-tab2", "cifar10", "resnet32", "erm", "ece_binned"), 0.0074, 0.0015),
        (("overconf-tab2", "svhn", "resnet32", "focal(gamma=1)", "ece_scaled"), 0.0080, 0.0022),
        (("overconf-tab1", "cifar10", "resnet32", "label_smoothing", "ece"), 0.0272, 0.0032),
        (("overconf-tab1", "cifar10", "resnet32", "l1_norm(strength=0.05)", "ece"), 0.0293, 0.0039),
        (("mixup-tab1", "svhn", "resnet18", "mixup(alpha=1)", "ece_optimal"), 0.0104, np.nan),
        (("mixup-tab5", "svhn", "resnet18", "mit_l", "accuracy"), 0.950, np.nan),
        (("bsce-tab1", "cifar10", "resnet50", "erm", "ece_scaled"), 0.0132, np.nan),
        (("bsce-tab6", "cifar100", "resnet50", "bsce_gra", "ece"), 0.0113, np.nan),
        (("bsce-tab6", "cifar100", "resnet50", "bsce_gra(gamma=8)", "ece"), 0.0928, np.nan),
        (("darkside-fig1", "hypothetical", "-", "toy_panel_a", "ece"), 0.06, np.nan),
        (("darkside-tab2", "cifar10", "vgg16", "entropy_regularization", "ece"), 0.0429, None),
    ],
)
def test_cells_are_what_the_papers_print(where, value, std):
    found = cell(*where)
    assert found.value == pytest.approx(value)
    if std is not None:
        assert found["std"] == pytest.approx(std, nan_ok=True)


def test_all_cells_are_there_and_in_their_units():
    table = published.cells()
    assert len(table) == 2246 and set(table.paper) == PAPERS
    assert table.value.notna().all()
    fractions = table[table.metric.str.contains("accuracy|auroc|aupr|ece|aurc|fpr")]
    fractions = fractions[~fractions.metric.str.startswith("avg_gain")]
    assert fractions.value.between(0, 1).all()
    assert table[table.metric == "brier"].value.between(0, 2).all()
    assert set(table.exhibit) <= set(published.exhibits().id)


def test_methods_are_written_as_the_library_reads_them():
    others = {"ts", "confidnet"}
    for name in set(published.cells().method) - others:
        if not name.startswith(("toy_", "u_")):
            assert plan.method_name(plan.method(name)) == name


def test_exhibits_of_every_paper():
    table = published.exhibits()
    assert len(table) == table.id.nunique() == 83
    assert table.groupby("paper").size().to_dict() == {
        "fmfp": 23, "darkside": 12, "overconf": 13, "mixup": 13, "bsce": 22
    }  # fmt: skip
    assert (table.title.str.len() > 10).all()
    assert set(table.chapter.str.removesuffix("_2")) == PAPERS


def test_every_exhibit_stands_in_its_chapter():
    notebooks = Path(__file__).parent.parent / "notebooks"
    for chapter, group in published.exhibits().groupby("chapter"):
        if not (notebooks / f"{chapter}.ipynb").exists():  # an installed copy has no notebooks
            continue
        cells = json.loads((notebooks / f"{chapter}.ipynb").read_text())["cells"]
        text = "\n".join("".join(cell["source"]) for cell in cells)
        assert [i for i in group.id if f'<a id="{i}"></a>\n' not in text] == []


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: published.cells("fmpf"), "did you mean 'fmfp'"),
        (lambda: published.cells(exhibit="fmfp-tab9"), "unknown exhibit 'fmfp-tab9'"),
        (lambda: published.beside(pd.DataFrame(), "fmfp-fig1"), "no printed numbers"),
        (lambda: published.beside(pd.DataFrame(), "fmfp-tab1", "svhn"), "valid: cifar10, cifar100"),
    ],
)
def test_wrong_names_are_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_ours_stand_beside_the_published():
    ours = pd.DataFrame(
        {
            "method": ["erm", "erm", "erm", "mixup"],
            "auroc": [0.7, 0.8, 0.9, 0.6],
            "dataset": "mnist1d",
            "network": "cnn",
            "seed": [0, 1, 2, 0],
            "epochs": 100,
        }
    )
    table = published.beside(ours, "fmfp-tab1", "cifar10", "resnet110", ["auroc"])
    assert list(table.method) == ["erm", "mixup", "label_smoothing", "focal", "cs_kd", "l1_norm"]
    erm, mixup, other = (row for _, row in table.iloc[:3].iterrows())
    assert (erm.published, erm.published_std) == pytest.approx((0.9076, 0.0060))
    assert (erm.ours, erm.ours_std, erm.seeds) == pytest.approx((0.8, 0.1, 3))
    assert (erm.low, erm.high) == pytest.approx((0.8 - 0.24841377, 0.8 + 0.24841377))
    assert mixup.ours == 0.6 and np.isnan([mixup.ours_std, mixup.low]).all()
    assert other.seeds == 0 and np.isnan(other.ours)
    differs = table.attrs["differs"]
    assert "CIFAR-10; resnet110; 200 epochs" in differs and "MNIST-1D; cnn; 100 epochs" in differs
    shown = published.show(table).to_html()
    assert "90.76 ± 0.60" in shown and "80.00 ± 10.00" in shown and "MNIST-1D" in shown


def test_a_whole_exhibit_without_any_run_still_shows():
    table = published.beside(pd.DataFrame(), "overconf-tab2")
    assert len(table) == 48 and (table.seeds == 0).all()
    assert "no runs" in table.attrs["differs"]
    assert "4.180" in published.show(table).to_html()


def test_trainings_say_what_a_temperature_and_binning_would_give(tmp_path, monkeypatch):
    monkeypatch.setenv("CALIBKIT_CACHE", str(tmp_path))
    runs = plan.select("smoke", ["erm", "mixup"], "digits", seeds=2)
    for run in runs:
        records.write(run)
    by_method = {m: [store.load(r) for r in runs if r.method == m] for m in ("erm", "mixup")}
    table = published.by_run(by_method)
    assert list(table.method) == ["erm", "ts", "erm", "ts", "mixup", "mixup"]
    assert set(table.dataset) == {"digits"} and set(table.epochs) == {6}
    erm, ts = table.iloc[0], table.iloc[1]
    assert ts.ece == pytest.approx(erm.ece_scaled) and ts.accuracy == erm.accuracy
    assert ts.adaptive_ece == pytest.approx(erm.adaptive_ece_scaled)
    assert 0 < erm.ece_binned < erm.ece  # the made-up networks are far too sure
    beside = published.beside(table, "darkside-tab2", "cifar10", "vgg16", ["auroc"])
    assert beside.set_index("method").seeds["ts"] == 2


def test_a_temperature_moves_the_confidence_gap_of_the_rescaled_network(tmp_path, monkeypatch):
    monkeypatch.setenv("CALIBKIT_CACHE", str(tmp_path))
    (run,) = plan.select("smoke", ["erm"], "digits", seeds=1)
    record = records.write(run)
    logits, labels = (record.arrays[f"test_{name}"] for name in ("logits", "labels"))
    temperature = record.history["temperature"][-1]
    whole = metrics.summary(logits / temperature, labels.astype(int))
    for keep in (None, True, False):  # without replicates, with them, with nothing else
        if keep is not None:
            store.lighten(store.load(run), whole=keep)
        erm, ts = (row for _, row in published.by_run({"erm": [store.load(run)]}).iterrows())
        assert ts.auroc == pytest.approx(whole["auroc"], abs=1e-6)
        for name in ("confidence", "confidence_gap", "ece_correct"):
            if keep is False:
                assert np.isnan(ts[name])
            else:
                assert ts[name] == pytest.approx(whole[name], abs=1e-6)
                assert abs(ts[name] - erm[name]) > 1e-3


def test_own_shifts_stand_beside_published_corruptions_only(tmp_path, monkeypatch):
    monkeypatch.setenv("CALIBKIT_CACHE", str(tmp_path))
    made = {
        m: [records.write(run) for run in plan.select("released", [m])]
        for m in ("erm", "fmfp", "label_smoothing")
    }
    ours = published.under_shift(made)
    assert sorted(ours.method.unique()) == ["erm", "fmfp", "label_smoothing", "ts"]
    first = made["fmfp"][0].shifted
    row = ours[(ours.method == "fmfp") & (ours.seed == 0)].iloc[0]
    assert row.aurc == pytest.approx(first["aurc"].mean()) and row.train_size == 5000
    assert row.shifts == "2 own kinds of shift, 2 severities, 400 samples"
    rescaled, plain = (ours[(ours.method == m) & (ours.seed == 1)].iloc[0] for m in ("ts", "erm"))
    assert rescaled.ece == pytest.approx(plain.ece_scaled) and np.isnan(rescaled.aurc)

    table = published.beside(ours, "fmfp-tab3", network="resnet110").set_index(["method", "metric"])
    assert table.seeds["fmfp", "auroc"] == 10 and table.seeds["crl", "auroc"] == 0
    assert table.ours["fmfp", "aurc"] == pytest.approx(ours.aurc[ours.method == "fmfp"].mean())
    assert "2 own kinds of shift" in table.attrs["differs"]
    # Neither beside an unshifted test set, nor beside one collected a second time.
    assert (published.beside(ours, "fmfp-tab2").seeds == 0).all()
    assert (published.beside(ours, "darkside-tab3").seeds == 0).all()
    still = published.by_run(made)
    assert (published.beside(still, "fmfp-tab3").seeds == 0).all()
    assert (published.beside(still, "fmfp-tab2", "cifar10", "resnet110").seeds == 10).any()


def test_records_without_shifts_make_no_rows(tmp_path, monkeypatch):
    monkeypatch.setenv("CALIBKIT_CACHE", str(tmp_path))
    made = {"erm": [records.write(run) for run in plan.select("smoke", ["erm"], "digits")]}
    assert published.under_shift(made).empty


def shifted_record(method="erm", **collected):
    """What `under_shift` reads of a record: two corruptions of CIFAR-10-C, and sets collected."""

    def table(shifts, severities, eces):
        n = np.full(len(shifts), 50.0)
        scaled = {f"{name}_scaled": np.array(eces) / 2 for name in ("ece", "brier", "nll", "auroc")}
        known = {"shift": np.array(shifts), "severity": np.array(severities), "n": n}
        return known | {"ece": np.array(eces), "auroc": np.array(eces) + 0.5} | scaled

    run = {"dataset": "cifar10", "network": "vgg16_bn", "seed": 0, "protocol": {"epochs": 2}}
    return SimpleNamespace(
        info={"run": run},
        shifted=table(["cifar10c:fog", "cifar10c:snow"], [1.0, 5.0], [0.1, 0.3]),
        collected=table(list(collected), [0.0] * len(collected), list(collected.values()))
        if collected
        else {},
    )


def test_published_test_sets_stand_beside_their_own_cells():
    found = published.under_shift({"erm": [shifted_record(cifar10_1=0.2, cifar10_2=0.4)]})
    assert list(found.tested_on) == ["cifar10c"] * 2 + ["cifar10.1"] * 2 + ["cifar10.2"] * 2
    assert found.shifts[0] == "CIFAR-10-C, 2 kinds of shift, 2 severities, 50 samples"
    assert found.shifts[2] == "CIFAR-10.1, 50 samples"
    table = published.beside(found, "darkside-tab3", metrics=["ece"])
    ours = table.set_index(["dataset", "method"]).ours
    assert ours["cifar10.1", "erm"] == 0.2 and ours["cifar10.2", "erm"] == 0.4
    assert ours["cifar10.1", "ts"] == 0.1
    assert ours["imagenet_v2"].isna().all()
    corrupted = published.beside(found, "fmfp-tab3", network="resnet110", metrics=["auroc"])
    assert corrupted.set_index("method").ours["erm"] == pytest.approx(0.7)


def test_own_corruptions_give_way_to_published_ones_and_never_take_their_name():
    record = shifted_record()
    own = SimpleNamespace(info=record.info, collected={}, shifted=dict(record.shifted))
    own.shifted["shift"] = np.array(["fog", "snow"])
    only = published.under_shift({"erm": [own]})
    assert set(only.tested_on) == {""} and "own kinds" in only.shifts[0]
    assert published.beside(only, "fmfp-tab3", metrics=["auroc"]).ours.notna().any()
    both = published.under_shift({"erm": [own, record]})
    (auroc,) = published.beside(both, "fmfp-tab3", network="wrn", metrics=["auroc"]).ours.dropna()
    assert auroc == pytest.approx(0.7)
    assert published.beside(both, "fmfp-tab3", network="wrn").seeds.max() == 1


def test_a_coefficient_which_only_the_text_states_is_found():
    """darkside smooths by 0.1 on ImageNet; its table says label smoothing."""
    name = "label_smoothing(epsilon=0.1)"
    ours = pd.DataFrame({"method": ["erm", name], "ece": [0.1, 0.2], "seed": 0})
    table = published.beside(ours, "darkside-tab1", metrics=["ece"]).set_index("method")
    assert table.ours["label_smoothing"] == 0.2 and np.isnan(table.ours["ts"])
    elsewhere = published.beside(ours, "darkside-tab2", "cifar10", "vgg16", ["ece"])
    assert np.isnan(elsewhere.set_index("method").ours["label_smoothing"])
