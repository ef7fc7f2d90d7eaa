"""Each published cell has the run that its paper describes, or a reason why there is none."""

import csv
import io
from collections import Counter
from pathlib import Path

import pytest

from calibkit import cli
from calibkit_companion.experiments import cost, papers, plan
from calibkit_companion.experiments.method import parse
from calibkit_companion.records import tables
from calibkit_companion.results import printed

ROWS = printed.planned()
CELLS = printed.every()
ROOT = Path(__file__).parent.parent

# What the papers and their public code say, written down here once more: epochs, batch, rate,
# weight decay, steps, decay, reduction, clipping, held out, seed of the split, seeds.
CIFAR = ("cifar10", "cifar100")
SGD = {"momentum": 0.9, "reduction": "mean", "clip_norm": None, "decay": 0.1, "optimizer": "sgd"}
SUMMED = {"reduction": "sum", "clip_norm": 2.0}
REGIMES = {
    ("fmfp", CIFAR): SGD
    | dict(epochs=200, batch_size=128, learning_rate=0.1, weight_decay=5e-4)
    | dict(milestones=(80, 130, 170), validation=5000, split_seed=42, seeds=(0, 1, 2)),
    ("fmfp", ("tiny_imagenet",)): SGD
    | dict(epochs=90, batch_size=128, learning_rate=0.1, weight_decay=5e-4)
    | dict(milestones=(40, 70), validation=None, seeds=(0, 1, 2)),  # a tenth by default
    ("darkside", CIFAR): SGD
    | dict(epochs=300, learning_rate=0.1, milestones=(150, 225), decay=0.2, temperature=1.5)
    | dict(seeds=(0, 1, 2)),
    ("darkside", ("imagenet",)): SGD
    | dict(epochs=100, milestones=(30, 60, 90), temperature=1.1, seeds=(0,)),
    ("overconf", ("svhn", *CIFAR)): SGD
    | dict(epochs=200, batch_size=512, learning_rate=0.1, weight_decay=1e-4)
    | dict(milestones=(100, 150), validation=5000, split_seed=101, seeds=(0, 1, 2, 3, 4)),
    ("overconf", ("20newsgroups",)): SGD | dict(milestones=(50, 75), seeds=(0, 1, 2, 3, 4)),
    ("mixup", ("svhn", *CIFAR, "tiny_imagenet")): SGD
    | dict(epochs=350, batch_size=128, learning_rate=0.1, weight_decay=1e-4)
    | dict(milestones=(150, 250), validation=5000, split_seed=101, seeds=(0,)),
    ("bsce", CIFAR): SGD
    | SUMMED
    | dict(epochs=350, batch_size=128, learning_rate=0.1, weight_decay=5e-4)
    | dict(milestones=(150, 250), validation=5000, split_seed=1, seeds=(1, 42, 71)),
    ("bsce", ("tiny_imagenet",)): SGD
    | SUMMED
    | dict(epochs=100, batch_size=128, learning_rate=0.1, weight_decay=5e-4)
    | dict(milestones=(40, 60), validation="test", seeds=(1, 42, 71)),
    ("bsce", ("gaussians",)): SGD | dict(epochs=5, seeds=(0, 1, 2, 3, 4)),
}
REGIMES = {(p, d): regime for (p, places), regime in REGIMES.items() for d in places}
EXHIBITS = {  # those with a regime of their own
    "fmfp-fig3": dict(epochs=90),
    "darkside-tab4/cifar10": dict(epochs=250, learning_rate=0.001, weight_decay=5e-4, milestones=())
    | dict(validation=5000, feature_scores=500, seeds=(0, 1, 2)),
    "darkside-tab4/cifar100": dict(epochs=170, learning_rate=0.1, weight_decay=1e-4)
    | dict(milestones=(90, 135), validation=5000, feature_scores=500, seeds=(0, 1, 2)),
    "bsce-tab7": SUMMED | dict(epochs=50, optimizer="adam", seeds=(1, 42, 71)),
    "bsce-tab8": SUMMED | dict(epochs=90, optimizer="adam", schedule="cosine"),
}
NETWORKS = {
    "fmfp": {
        "resnet110": "preact_resnet110",
        "wrn": "wrn_28_10",
        "densenet": "densenet_bc_100_12",
        "convmixer": "convmixer_256_16",
        "mobilenetv2": "mobilenet_v2",
        "efficientnet": "efficientnet_b0",
        "resnet18": "resnet18",
        "resnet50": "resnet50",
    },
    "darkside": {"vgg16": "vgg16_bn", "resnet50": "resnet50", "densenet121": "densenet121"},
    "overconf": {"resnet32": "resnet32", "cnn1d_8layer": "textcnn"},
    "mixup": {
        "resnet18": "resnet18",
        "resnet50": "resnet50",
        "resnet110": "resnet110_bottleneck",
        "resnet152": "resnet152",
        "resnet18_pretrained": "resnet18_imagenet:IMAGENET1K_V1",
        "resnet152_pretrained": "resnet152_imagenet:IMAGENET1K_V1",
    },
    "bsce": {
        "resnet50": "resnet50",
        "resnet110": "resnet110_bottleneck",
        "wrn26_10": "wrn_26_10",
        "densenet121": "densenet121",
        "2layer_net": "two_layers",
        "vit_b16": "vit_b_16:IMAGENET1K_V1",
    },
}
ON_IMAGENET = {
    "fmfp": "resnet18_imagenet",
    "darkside": "resnet50_imagenet",
    "bsce": "resnet50_imagenet:IMAGENET1K_V1",
}
COEFFICIENTS = {  # of methods whose cell does not say, by paper, in the text
    "fmfp": {"mixup": ("alpha", 0.2), "label_smoothing": ("epsilon", 0.05), "focal": ("gamma", 3)}
    | {"l1_norm": ("strength", 0.01), "cs_kd": ("temperature", 4), "crl": ("weight", 1)},
    "darkside": {"mixup": ("alpha", 0.2), "focal": ("gamma", 3)}
    | {"entropy_regularization": ("beta", 0.1)},
    "bsce": {"dual_focal": ("gamma", 5), "bsce": ("gamma", 4)},
}


def filled():
    return [(c, row["runs"]) for c, row in zip(CELLS, ROWS, strict=True) if row["runs"]]


def trained_on(cell):
    if cell.dataset.startswith(("cifar10.", "cifar10c")):
        return "cifar10"
    return "imagenet" if cell.dataset == "imagenet_v2" else cell.dataset


# --- the cells ------------------------------------------------------------------------------------


def test_every_cell_has_a_run_or_a_reason():
    assert len(ROWS) == 2246
    assert all(bool(row["run"]) != bool(row["reason"]) for row in ROWS)
    assert Counter(row["reason"] for row in ROWS) == {
        "": 2155,
        printed.AVERAGE: 80,
        printed.HYPOTHETICAL: 6,
        printed.NETWORK: 5,
    }


def test_data_set_and_network_are_the_papers():
    for cell, runs in filled():
        place = trained_on(cell)
        network = NETWORKS[cell.paper].get(cell.network)
        if place == "imagenet":
            network = ON_IMAGENET[cell.paper]
        if cell.exhibit == "darkside-tab4":  # its network for CIFAR-10 starts from weights
            network = {"cifar10": "vgg16_bn:IMAGENET1K_V1", "cifar100": "vgg16_bn"}[place]
        assert {(run.dataset, run.network) for run in runs} == {(place, network)}, cell


def test_method_and_coefficient_are_the_papers():
    for cell, runs in filled():
        (method,) = {run.method for run in runs}
        wanted = "erm" if cell.method in ("ts", "confidnet") or cell.method[:2] == "u_" else None
        wanted = wanted or parse(cell.method).name
        if trained_on(cell) == "imagenet" and method.startswith("label_smoothing"):
            wanted = "label_smoothing(epsilon=0.1)"
        if cell.exhibit in ("overconf-tab1", "overconf-tab2"):  # its public code detaches
            wanted = wanted.replace("focal", "focal_gra")
        assert method == wanted, cell
        assert {run.variant for run in runs} == {"code"}
        option, value = COEFFICIENTS.get(cell.paper, {}).get(cell.method, ("", 0))
        if option and "=" not in cell.variant:
            assert dict(runs[0].recipe.options)[option] == value, cell


def test_training_is_the_papers():
    checked = Counter()
    for cell, runs in filled():
        place = trained_on(cell)
        own = EXHIBITS.get(f"{cell.exhibit}/{place}", EXHIBITS.get(cell.exhibit))
        wanted = dict(own if own is not None else REGIMES[cell.paper, place])
        if cell.paper == "darkside" and cell.exhibit != "darkside-tab4":
            if cell.method in ("label_smoothing", "focal"):
                wanted["decay"] = 0.1
        if seeds := wanted.pop("seeds", None):
            assert tuple(run.seed for run in runs) == seeds, cell
        for run in runs:
            assert {k: getattr(run.protocol, k) for k in wanted} == wanted, cell
        checked[cell.paper] += 1
    assert checked == {"fmfp": 793, "darkside": 195, "overconf": 80, "mixup": 588, "bsce": 499}


def test_corrupted_and_collected_sets_are_taken_by_the_runs_that_need_them():
    for cell, runs in filled():
        if trained_on(cell) != cell.dataset:
            assert all(run.protocol.shifted == 10_000 for run in runs), cell


def test_precision_and_augmentation_are_not_shortened():
    for run in papers.runs():
        assert run.protocol.precision == "float32" and run.protocol.augment in (
            True,
            run.dataset not in ("gaussians", "20newsgroups"),
        )


# --- the plan as a whole --------------------------------------------------------------------------


def test_every_exhibit_that_needs_trainings_has_them():
    without = {exhibit for block in papers.blocks() for exhibit in block.exhibits}
    known = {line["id"] for line in papers.ledger("exhibits.csv")}
    assert without <= known
    free = {  # schematic, listing, derivation, or a row of other cells
        *("fmfp-fig1", "fmfp-fig7", "darkside-eq9", "darkside-eq12", "overconf-eq1"),
        *("overconf-eq2", "mixup-bg1", "mixup-eq2", "mixup-tab2", "mixup-eq4", "mixup-alg-mit"),
        *("mixup-figA", "bsce-fig1", "bsce-fig2", "bsce-eq6", "bsce-eq12", "bsce-proof9"),
    }
    assert known - without == free


def test_runs_have_names_of_their_own_and_come_seed_by_seed():
    runs = papers.runs()
    assert len(runs) == len({run.name for run in runs}) == len(set(runs))
    first = papers.runs("bsce", "bsce-tab1")
    assert [run.seed for run in first] == sorted(run.seed for run in first)
    assert {row["run"] for row in ROWS} - {""} <= {run.name for run in runs}


def test_a_selection_narrows_the_runs_and_keeps_their_names():
    whole = papers.runs("bsce", "bsce-tab1")
    some = papers.runs("bsce", "bsce-tab1", dataset="cifar100", network="densenet121", seeds=1)
    assert len(some) == 7 and {run.seed for run in some} == {1} and set(some) <= set(whole)
    name = papers.settings("bsce", "bsce-tab1")[3].name
    assert {run.network for run in papers.runs("bsce", setting=name)} == {"densenet121"}
    short = papers.runs("bsce", "bsce-tab1", epochs=35)
    assert {run.protocol.milestones for run in short} == {(15, 25), (14, 21)}
    assert {run.protocol.reduction for run in short} == {"sum"}


def test_settings_have_names_of_their_own():
    settings = papers.settings()
    assert len(settings) == len({s.name for s in settings})
    assert set(papers.settings("bsce", "bsce-tab1")) <= set(settings)


def test_where_text_and_code_describe_two_trainings_there_are_both():
    variants = {r.variant for r in papers.runs("fmfp", "fmfp-tab2") if r.method == "fmfp"}
    assert variants == {"code", "paper"}
    methods = {r.method for r in papers.runs("overconf", "overconf-tab1")}
    assert {"focal", "focal_gra"} <= methods


def test_every_network_of_a_paper_or_an_edition_is_there():
    networks = pytest.importorskip("calibkit_companion.training.networks")
    used = {run.network.partition(":")[0] for run in papers.runs()}
    for edition, chosen in plan.EDITIONS.items():
        used |= {s.network.partition(":")[0] for s in plan.settings(edition)} | {
            net for _, net, _ in chosen.others
        }
    assert used <= set(networks.NETWORKS)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: papers.runs("fmpf"), "did you mean 'fmfp'"),
        (lambda: printed.planned("fmpf"), "did you mean 'fmfp'"),
        (lambda: papers.runs("bsce", "bsce-tab9"), "unknown exhibit with runs 'bsce-tab9'"),
        (lambda: printed.planned(edition="big"), "unknown edition 'big'"),
    ],
)
def test_wrong_names_are_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()


# --- the command ----------------------------------------------------------------------------------


def test_csv_alone_in_the_words_of_the_ledger(capsys):
    assert cli.main(["plan", "--csv"]) == 0
    table = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert list(table[0]) == printed.COLUMNS and len(table) == 2246
    assert {"erl", "brier_loss"} <= {row["method"] for row in table}
    assert {"fpr95", "adaece"} <= {row["metric"] for row in table}
    names = {"tinyimagenet", "imagenetv2", "cifar10.1", "cifar10c", "toy_gaussians"}
    assert names <= {row["dataset"] for row in table}
    corrupted = [row for row in table if row["dataset"] == "cifar10c"]
    assert len(corrupted) == 36 and all(row["run"].startswith("cifar10-") for row in corrupted)


def test_a_command_names_exactly_the_runs_of_an_exhibit(capsys):
    command = "runs --edition paper --paper bsce --exhibit bsce-tab1 --missing"
    assert cli.main(command.split()) == 0
    listed = capsys.readouterr().out.split()
    wanted = {r.name for row in ROWS if row["exhibit"] == "bsce-tab1" for r in row["runs"]}
    assert set(listed) <= wanted and len(listed) == len(wanted) == 9 * 7 * 3
    assert cli.main(["runs", "--edition", "paper", "--exhibit", "bsce-tab99"]) == 2
    assert "unknown exhibit" in capsys.readouterr().err
    small = plan.Selection("smoke").of_exhibit("darkside-tab2")
    assert {run.method for run in small} == {
        *("erm", "entropy_regularization", "label_smoothing", "mixup", "focal")
    }


def test_table_ends_with_what_it_costs(capsys):
    assert cli.main(["plan", "--paper", "bsce"]) == 0
    *lines, total = capsys.readouterr().out.splitlines()
    assert any("cifar10-resnet50-erm-s1-" in line and "× 3 seeds" in line for line in lines)
    assert any("bsce-text-runtime" in line for line in lines)
    (counts,) = [line for line in lines if "published cells" in line]
    assert counts.startswith("499 published cells: 499 filled by")
    assert total.split()[0] == "all" and total.endswith(" h")


def test_both_test_set_and_training_set_are_named(capsys):
    cli.main(["plan", "--paper", "darkside"])
    lines = capsys.readouterr().out.splitlines()
    for shown in ("cifar10 → cifar10.1", "cifar10 → cifar10.2", "imagenet → imagenetv2"):
        assert sum(shown in line for line in lines) == 18


def test_a_small_edition_stands_in():
    rows = printed.planned("darkside", "smoke")
    by_method = {row["method"]: row["run"] for row in rows if row["run"]}
    assert by_method["erl"].startswith("gaussians-mlp-entropy_regularization-s0-")
    assert {row["reason"] for row in rows} <= {"", *printed.REASONS}


def first_of(*where):
    fields = ("exhibit", "dataset", "network", "method")
    return papers.find(next(c for c in CELLS if tuple(getattr(c, f) for f in fields) == where))[0]


def test_costs_by_hand():
    run = first_of("bsce-tab1", "cifar10", "resnet50", "erm")
    assert cost.images(run) == 350 * 45_000
    assert cost.hours(run) == pytest.approx(128 / 60)  # the paper's own 128 minutes
    sam, swa = (first_of("fmfp-tab2", "cifar10", "wrn", method) for method in ("sam", "swa"))
    assert cost.hours(sam) == pytest.approx(2 * cost.hours(swa))
    tiny = first_of("bsce-tab1", "tiny_imagenet", "resnet50", "erm")
    assert cost.images(tiny) == 100 * 100_000  # nothing held out
    assert cost.rate("resnet50", "tiny_imagenet") == (cost.MEASURED["resnet50"] / 4, False)


def test_multiplications_are_those_of_the_code():
    torch = pytest.importorskip("torch")
    from torch.utils.flop_counter import FlopCounterMode

    from calibkit_companion.training import networks

    assert set(cost.MULTIPLICATIONS) | set(cost.MEASURED) >= {
        run.network.partition(":")[0] for run in papers.runs() if run.dataset != "gaussians"
    }
    named = "resnet32 resnet18 resnet18_w16 resnet18_w32_s2 mobilenet_v2 vgg16_bn resnet18_imagenet"
    for name in named.split():
        side = 224 if name.endswith("_imagenet") else 32
        with torch.device("meta"):
            network, x = (
                networks.build(name, (3, side, side), 10).eval(),
                torch.empty(1, 3, side, side),
            )
            with FlopCounterMode(display=False) as counter:
                network(x)
        counted = counter.get_total_flops() / 2e6
        assert counted == pytest.approx(cost.MULTIPLICATIONS[name], rel=2e-3)


def test_the_prediction_for_one_gpu_is_worked_out_by_hand():
    place = plan.EDITIONS["cifar10"].shared()
    plain, sharp, double = place.runs([parse(m) for m in ("erm", "fmfp", "mit_a")], seeds=1)
    # 60 epochs of 45,000 samples; SAM goes forward and back twice; MIT does, and in float32.
    million = 60 * 45_000 * (1 + 2 + 2 * 2) / 1e6
    (line,) = cost.on_h100([plain, sharp, double])
    hours = million * 1e6 / 129_000 / 3600
    assert f"3 of resnet18_w32_s2, {million:.0f} M samples, 129,000/s, {hours:.1f} h" in line
    assert cost.on_h100(plan.runs("fmfp", "demo")) == []
    (line,) = cost.on_h100(plan.runs("fmfp", "cifar10", network="resnet18"))
    assert "36 of resnet18, " in line and "37,900/s" in line


def test_the_command_predicts_one_gpu_for_the_edition_that_is_for_one(capsys):
    cli.main(["plan", "--edition", "cifar10", "--paper", "mixup"])
    line = capsys.readouterr().out.splitlines()[-1]
    assert line == cost.on_h100(plan.runs("mixup", "cifar10"))[0]
    assert line.startswith("predicted for one H100 and all runs: 40 of resnet18_w32_s2, ")
    cli.main(["plan", "--edition", "smoke", "--paper", "mixup"])
    assert "predicted" not in capsys.readouterr().out


def test_the_speed_on_one_gpu_is_that_of_released_runs_together(monkeypatch):
    """Sixteen processes shared the H100 on 26 November; fourteen of them trained this network."""
    monkeypatch.setenv("CALIBKIT_CACHE", str(ROOT / "data_cache"))
    table = tables.settings()["cifar10-long"]
    runs = [info["provenance"] for info in table.infos.values()]
    there = [p for p in runs if "H100" in p["device"] and p["started"] < "2026-11-27"]
    assert len(there) == 14 and len({p["started"][:15] for p in there}) == 1
    together = sum(p["passes"]["backward"] / p["seconds"] for p in there)
    assert together == pytest.approx(cost.ON_H100["resnet18_w32_s2"], rel=0.01)
