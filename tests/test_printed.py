"""The printed numbers are the papers', in natural units, and ours stand beside the right ones."""

from dataclasses import replace
from math import isnan, nan

import numpy as np
import pytest

from calibkit_companion import results
from calibkit_companion.experiments import papers, plan
from calibkit_companion.experiments.method import parse
from calibkit_companion.records import folders
from calibkit_companion.results import printed
from tests import records


@pytest.mark.parametrize(
    ("where", "value", "std"),
    [
        (("fmfp-tab1", "cifar10", "resnet110", "erm", "fpr_at_tpr"), 0.4501, 0.0255),
        (("fmfp-tab1", "cifar10", "resnet110", "mixup", "aurc"), 0.01505, 0.00009),
        (("fmfp-text-sec32", "cifar10", "densenet", "focal", "ece"), 0.0136, nan),
        (("overconf-tab2", "20newsgroups", "cnn1d_8layer", "erm", "temperature"), 4.18, nan),
        (("overconf-tab2", "cifar10", "resnet32", "erm", "ece_binned"), 0.0074, 0.0015),
        (("overconf-tab2", "svhn", "resnet32", "focal(gamma=1)", "ece_scaled"), 0.0080, 0.0022),
        (("overconf-tab1", "cifar10", "resnet32", "label_smoothing", "ece"), 0.0272, 0.0032),
        (("overconf-tab1", "cifar10", "resnet32", "l1_norm(strength=0.05)", "ece"), 0.0293, 0.0039),
        (("mixup-tab1", "svhn", "resnet18", "mixup(alpha=1)", "ece_optimal"), 0.0104, nan),
        (("mixup-tab5", "svhn", "resnet18", "mit_l", "accuracy"), 0.932, nan),
        (("bsce-tab1", "cifar10", "resnet50", "erm", "ece_scaled"), 0.0132, nan),
        (("bsce-tab6", "cifar100", "resnet50", "bsce_gra", "ece"), 0.0113, nan),
        (("bsce-tab6", "cifar100", "resnet50", "bsce_gra(gamma=8)", "ece"), 0.0928, nan),
        (("darkside-fig1", "hypothetical", "-", "toy_panel_a", "ece"), 0.06, nan),
    ],
)
def test_cells_are_what_the_papers_print(where, value, std):
    exhibit, dataset, network, method, metric = where
    assert printed.table(exhibit, dataset, network).loc[method, metric] == pytest.approx(value)
    cells = printed.cells(exhibit=exhibit).set_index(["dataset", "network", "method", "metric"])
    assert cells["std"][dataset, network, method, metric] == pytest.approx(std, nan_ok=True)


def test_every_line_of_the_ledger_is_a_cell_in_its_units():
    table = printed.cells()
    assert len(table) == len(papers.ledger("numbers.csv")) and set(table.paper) == set(plan.PAPERS)
    assert table.value.notna().all()
    fractions = table[table.metric.str.contains("accuracy|auroc|aupr|ece|aurc|fpr")]
    fractions = fractions[~fractions.metric.str.startswith("avg_gain")]
    assert fractions.value.between(0, 1).all()
    assert table[table.metric == "brier"].value.between(0, 2).all()
    assert set(table.exhibit) <= {line["id"] for line in papers.ledger("exhibits.csv")}


def test_methods_are_written_as_the_library_reads_them():
    for name in {cell.method for cell in printed.every()} - {"ts", "confidnet"}:
        if not name.startswith(("toy_", "u_")):
            assert parse(name).name == name


def test_exhibits_are_those_of_the_papers():
    lines = papers.ledger("exhibits.csv")
    known = {line["id"] for line in lines}
    assert len(known) == len(lines) and {line["paper"] for line in lines} == set(plan.PAPERS)
    assert all(line["id"].startswith(line["paper"]) for line in lines)
    assert all(len(line["title"]) > 10 for line in lines)
    assert {e for block in papers.blocks() for e in block.exhibits} <= known


@pytest.mark.parametrize(
    ("metric", "method", "dataset", "number"),
    [
        ("auroc", "erm", "cifar10", results.Number("auroc")),
        ("ece_scaled", "mixup", "cifar10", results.Number("ece", "ts_ece")),
        ("ece_optimal", "mixup", "cifar10", results.Number("ece", "ts_test")),
        ("ece_binned", "erm", "svhn", results.Number("ece", "binned")),
        ("ece", "ts", "cifar10", results.Number("ece", "ts_ece")),
        ("auroc", "erm", "cifar10c", results.Number("auroc", test_set="shifted")),
        ("auroc", "erm", "cifar10.2", results.Number("auroc", test_set="cifar10_2-0")),
    ],
)
def test_a_cell_names_our_number(metric, method, dataset, number):
    cell = printed.Cell("", "", dataset, "", method, metric, 0.0, nan, 0.0, "")
    assert cell.number == number


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: printed.cells(exhibit="fmfp-tab9"), "unknown exhibit 'fmfp-tab9'"),
        (lambda: printed.table("fmfp-fig1"), "no printed numbers"),
        (lambda: printed.table("fmfp-tab1", "svhn"), "valid: cifar10, cifar100"),
    ],
)
def test_wrong_names_are_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_a_table_is_one_place_of_an_exhibit():
    whole = printed.cells(exhibit="fmfp-tab1")
    its = printed.table("fmfp-tab1", "cifar100", "wrn")
    part = whole[(whole.dataset == "cifar100") & (whole.network == "wrn")]
    assert its.notna().sum().sum() == len(part)
    assert its.aurc.mixup == pytest.approx(0.05054) and its.aurc.erm == pytest.approx(0.05197)


# --- ours beside them -----------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("CALIBKIT_CACHE", str(tmp_path))
    records.few_replicates(monkeypatch, 20)


@pytest.fixture
def runs():
    """Made records of three methods, as the runs of a page on digits."""
    for run in plan.Selection("released", dataset="digits", network="mlp").runs(
        ["erm", "mixup", "label_smoothing"]
    ):
        if run.seed < 3 - (run.method == "mixup"):
            records.write(run)
    selection = plan.Selection("released", dataset="digits", network="mlp")
    return results.Results(selection, train=False)


def at_end(method, metric):
    its = plan.Selection("released", dataset="digits", network="mlp").runs([method])
    return [float(r.history[metric][-1]) for r in map(folders.load, its) if r]


def test_ours_stand_beside_the_published(runs):
    found = printed.beside(runs, "fmfp-tab1", "cifar10", "resnet110", ["auroc"])
    methods = ["erm", "mixup", "label_smoothing", "focal", "cs_kd", "l1_norm"]
    assert [line.method for line in found.lines] == methods
    erm, mixup, _, focal, *_ = found.lines
    own = at_end("erm", "auroc")
    assert (erm.published, erm.std) == pytest.approx((0.9076, 0.006))
    assert erm.ours_std == pytest.approx(np.std(own, ddof=1), rel=1e-3) and isnan(focal.ours_std)
    assert erm.ours == pytest.approx(np.mean(own)) and erm.seeds == 3
    assert mixup.seeds == 2 and focal.seeds == 0 and isnan(focal.ours)
    assert "CIFAR-10; resnet110; 200 epochs" in found.differs and "8×8 digits" in found.differs
    shown = found._repr_html_()
    assert ">90.8<" in shown and f">{100 * erm.ours:.1f}<" in shown


def test_below_paired_tables_stand_the_runs_of_each(runs):
    found = printed.beside(runs, "fmfp-tab1", "cifar10", "resnet110", ["auroc"])
    tables = found, found, replace(found, ours="others")
    several = printed.paired(*tables, here=["one", "one", "two"]).caption
    assert several.count("8×8 digits") == several.count("Ours, one: ") == 1
    assert "Ours, two: others." in several


def test_a_recalibrated_network_stands_beside_its_cell(runs):
    found = printed.beside(runs, "darkside-tab2", "cifar10", "vgg16", ["ece", "auroc"])
    lines = {(line.method, line.metric): line for line in found.lines}
    scaled = at_end("erm", "ece_scaled")
    assert lines["ts", "ece"].ours == pytest.approx(np.mean(scaled), rel=1e-3)
    assert lines["ts", "ece"].ours != lines["erm", "ece"].ours
    assert lines["ts", "auroc"].seeds == 3


def test_own_shifts_stand_beside_published_corruptions_only(runs):
    corrupted = printed.beside(runs, "fmfp-tab3", network="resnet110", metrics=["auroc"])
    shifted = [r.shifted["auroc"].mean() for r in runs.records("erm")]
    by_method = {line.method: line for line in corrupted.lines}
    assert by_method["erm"].ours == pytest.approx(np.mean(shifted))
    assert by_method["crl"].seeds == 0
    # Nor beside test sets that were collected a second time, which these records do not have.
    collected = printed.beside(runs, "darkside-tab3")
    assert all(line.seeds == 0 for line in collected.lines) and "no runs" in collected.differs


def test_a_coefficient_which_only_the_text_states_is_found():
    """darkside smooths by 0.1 on ImageNet; its table says label smoothing."""
    name = "label_smoothing(epsilon=0.1)"
    for run in plan.Selection("released", dataset="digits", network="mlp", seeds=2).runs(
        ["erm", name]
    ):
        records.write(run)
    selection = plan.Selection("released", dataset="digits", network="mlp")
    ours = results.Results(selection, train=False)
    lines = {x.method: x for x in printed.beside(ours, "darkside-tab1", metrics=["ece"]).lines}
    assert lines["label_smoothing"].seeds == 2
    elsewhere = printed.beside(ours, "darkside-tab2", "cifar10", "vgg16", ["ece"])
    assert {x.method: x.seeds for x in elsewhere.lines}["label_smoothing"] == 0
