"""Runs are named by their content, methods are points on three axes, and names are checked."""

import json
import re
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from calibkit_companion.experiments import plan
from calibkit_companion.experiments.method import parse
from calibkit_companion.experiments.papers import protocols
from calibkit_companion.experiments.protocol import Protocol
from calibkit_companion.records import tables

NOTEBOOKS = Path(__file__).parent.parent / "notebooks"
PLAIN, AUGMENTED, SUMMED_PLAIN, LONG = (
    plan.setting("released", f"cifar10-{name}").protocol
    for name in ("plain", "augmented", "bsce", "long")
)
RUN = plan.Run("mnist1d", "cnn", parse("erm"), 0, Protocol(epochs=10))


def test_name_is_readable_stable_and_safe():
    # A changed name orphans every committed record: this literal may change only on purpose.
    assert RUN.name == "mnist1d-cnn-erm-s0-3fcecf8b"
    assert RUN.name == plan.Run("mnist1d", "cnn", parse("erm"), 0, Protocol(epochs=10)).name
    odd = replace(RUN, recipe=parse("focal(gamma=5)+sam"))
    assert odd.name.startswith("mnist1d-cnn-focal-gamma5-sam-s0-")
    assert not set(odd.name) & set(" ()=+/\\'\"$;")


@pytest.mark.parametrize(
    "change",
    [
        {"dataset": "digits"},
        {"network": "mlp"},
        {"recipe": parse("sam")},
        {"seed": 1},
        {"variant": "paper"},
        {"protocol": Protocol(epochs=11)},
    ],
)
def test_every_part_of_the_content_changes_the_hash(change):
    assert replace(RUN, **change).name[-8:] != RUN.name[-8:]


def test_settings_at_their_defaults_do_not_show_in_the_content():
    assert RUN.content == {
        "dataset": "mnist1d",
        "network": "cnn",
        "method": {},
        "seed": 0,
        "protocol": {"epochs": 10},
    }
    content = replace(RUN, recipe=parse("focal+sam"), variant="paper").content
    assert content["method"] == {"objective": "focal", "options": {"gamma": 3.0}, "update": "sam"}
    assert content["variant"] == "paper"


def test_same_content_is_the_same_run():
    assert replace(RUN, recipe=parse("erm+sam+swa")) == replace(RUN, recipe=parse("fmfp"))
    assert replace(RUN, recipe=parse("focal(gamma=3)")) == replace(RUN, recipe=parse("focal"))
    spaced = replace(RUN, recipe=parse(" focal ( gamma = 5.0 ) + swa "))
    assert spaced.method == "focal(gamma=5)+swa"


def test_method_text_round_trips():
    for name, known in plan.METHODS.items():
        assert known.name == name
        for axes in ("+sam", "+swa", "+sam+swa"):
            combined = parse(name + axes)
            assert parse(combined.name) == combined


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("ermm", "unknown method 'ermm' .did you mean 'erm'.*: erm, .*: calibkit train --help"),
        ("focal(gama=2)", "unknown option of focal 'gama'.*valid: gamma"),
        ("focal(gamma=x)", "option gamma of focal: got 'x', expected a finite number"),
        ("focal(gamma=nan)", "option gamma of focal: got 'nan', expected a finite number"),
        ("erm+adam", "unknown axis 'adam'.*valid: sam, swa"),
        ("focal(", "expected name"),
    ],
)
def test_bad_method_is_refused_in_one_line(text, message):
    with pytest.raises(ValueError, match=message) as error:
        parse(text)
    assert "\n" not in str(error.value)


def test_selection_and_shared_runs():
    demo = plan.runs("fmfp", "demo")
    assert {run.dataset for run in demo} == {"mnist1d"}
    own, paper_variant, scored = plan.PAPERS["fmfp"].rows
    assert len(demo) == len({run.name for run in demo}) == 3 * len(own.methods) + 1 + 1
    assert [run.seed for run in demo if run.variant == "paper"] == [0]  # on the spot one will do
    assert [run.method for run in demo if run.protocol.feature_scores] == ["erm"]
    carried = plan.runs("fmfp", "cifar10")
    assert [run.seed for run in carried if run.variant == "paper"] == [0, 1, 2]
    assert set(plan.runs("tour", "demo")) < set(demo)
    everything = plan.runs("all", "demo")
    assert len({run.name for run in everything}) == len(everything)
    few = plan.runs("fmfp", "demo", seeds=2, dataset="digits")
    assert {(run.dataset, run.seed) for run in few} == {("digits", 0), ("digits", 1)}
    sizes = {run.protocol.train_size for run in plan.runs("overconf", "demo")}
    assert sizes == {250, 1000}
    shared = plan.runs("other_data", "released", setting="shared")
    last = {(run.dataset, run.network): run.seed for run in shared if run.method == "mixup"}
    last |= {(run.dataset, run.method): run.seed for run in shared if run.method in ("erm", "crl")}
    assert last == {
        ("fashion_mnist", "cnn"): 4,
        ("fashion_mnist", "erm"): 9,
        ("fashion_mnist", "crl"): 4,
        ("20newsgroups", "erm"): 2,
        ("20newsgroups", "crl"): 2,
    }
    mixed = {run.dataset for run in shared if run.method == "mixup"}
    assert mixed == {"fashion_mnist"}  # token ids cannot be mixed
    # What would have to be fetched is left out of an edition that trains on the spot.
    wanted = {run.dataset for run in plan.runs("claims", "released")}
    assert wanted == {"cifar10", "fashion_mnist", "20newsgroups", "gaussians"}
    assert {run.dataset for run in plan.runs("claims", "demo")} == {"mnist1d", "gaussians"}
    asked = plan.runs("other_data", "released", dataset="digits")
    assert {run.dataset for run in asked} == {"digits"}
    chosen = plan.Selection("demo", dataset="fashion_mnist", network="mlp", seeds=2, epochs=5).runs(
        ["erm"]
    )
    assert [(r.dataset, r.network, r.seed, r.protocol.epochs) for r in chosen] == [
        ("fashion_mnist", "mlp", 0, 5),
        ("fashion_mnist", "mlp", 1, 5),
    ]
    with pytest.raises(ValueError, match="unknown edition 'huge'.*valid: cifar10, demo, paper"):
        plan.Selection("huge").runs(["erm"])


def test_the_edition_for_one_gpu_has_the_regime_of_the_longest_released_setting():
    place, long = plan.EDITIONS["cifar10"].shared(), plan.setting("released", "cifar10-long")
    assert (place.network, place.seeds) == (long.network, 3) == ("resnet18_w32_s2", 3)
    assert place.protocol == replace(LONG, evaluate_every=2)
    assert (LONG.epochs, LONG.milestones, LONG.augment) == (60, (24, 39, 51), True)
    runs = plan.runs("book", "cifar10")
    assert runs == plan.runs("all", "cifar10")
    counts = Counter((run.dataset, run.network) for run in runs)
    assert counts == {
        ("cifar10", "resnet18_w32_s2"): 258,
        ("20newsgroups", "textcnn"): 18,
        ("gaussians", "mlp"): 3,
    }
    released = {run.name for run in plan.runs("book", "released")}
    # Texts and toys are runs of the released tables. Those on CIFAR-10 are not: one device trains
    # all of them, and they keep their predictions.
    assert {run.dataset for run in runs if run.name in released} == {"20newsgroups", "gaussians"}
    assert not any(run.name in released for run in runs if run.dataset == "cifar10")
    # The full training set is the setting itself, so that no run is trained under two names.
    sizes = Counter(r.protocol.train_size for r in plan.runs("overconf", "cifar10"))
    assert sizes == {None: 47, 5_000: 15, 15_000: 15}
    full = plan.Selection("cifar10", train_size=plan.EDITIONS["cifar10"].sizes[-1])
    assert full.runs(["focal"]) == plan.Selection("cifar10").runs(["focal"])


@pytest.mark.parametrize("page", plan.NOTEBOOKS)
def test_the_edition_for_one_gpu_has_what_every_page_needs(page):
    runs = plan.runs(page, "cifar10")
    rows = [row for paper in plan.papers_of(page) for row in plan.PAPERS[paper].rows]
    rows += [need for need in plan.needs(page) if isinstance(need, plan.Need)]
    places = plan.EDITIONS["cifar10"].places()
    for row in rows:
        for changes in (c for at in row.at for c in places.get(at, ())):
            of = {"dataset": "cifar10", "network": "resnet18_w32_s2"} | changes
            its = {
                r.recipe for r in runs if (r.dataset, r.network) == (of["dataset"], of["network"])
            }
            assert its >= set(plan.applicable(row.methods, of["dataset"])), (row, changes)
    assert not [run for run in runs if run.dataset == "tiny_imagenet"]
    one = plan.runs(page, "cifar10", seeds=1)
    assert {run.seed for run in one} <= {0} and {r.method for r in one} == {r.method for r in runs}


def test_a_larger_network_or_other_data_are_one_option_away():
    full = plan.runs("fmfp", "cifar10", network="resnet18")
    assert {(r.dataset, r.network, r.protocol.epochs) for r in full} == {
        ("cifar10", "resnet18", 60)
    }
    assert {r.method for r in full} == {r.method for r in plan.runs("fmfp", "cifar10")}
    hundred = plan.runs("other_data", "cifar10", dataset="cifar100")
    assert len(hundred) == 3 * len(plan.CARRIED) and {r.dataset for r in hundred} == {"cifar100"}


def test_settings_of_the_protocol_by_name():
    (run,) = plan.Selection("demo", seeds=1, protocol={"batch_size": 50, "clip_norm": 2.0}).runs(
        ["erm"]
    )
    assert (run.protocol.batch_size, run.protocol.clip_norm) == (50, 2.0)
    assert run.name != plan.Selection("demo", seeds=1).runs(["erm"])[0].name
    with pytest.raises(ValueError, match="unknown setting 'batchsize'.*did you mean 'batch_size'"):
        plan.Selection("demo", protocol={"batchsize": 50}).runs(["erm"])
    with pytest.raises(ValueError, match="setting batch_size: got 'many', expected a value such"):
        plan.Selection("demo", protocol={"batch_size": "many"}).runs(["erm"])


def test_grid_imports_nothing_heavy():
    heavy = "{'torch', 'numpy', 'pandas', 'matplotlib'}"
    code = "import sys; from calibkit_companion.experiments import plan; "
    code += f"plan.runs('all', 'paper'); print({heavy} & {{*sys.modules}})"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "set()"


def test_step_schedule_drops_after_its_milestones():
    rate = protocols.FMFP_CIFAR.rate
    assert [rate(e) for e in (1, 80)] == [0.1, 0.1]
    assert rate(81) == pytest.approx(0.01) and rate(131) == pytest.approx(1e-3)
    assert rate(200) == pytest.approx(1e-4)


def test_averaging_schedule_is_the_one_traced_in_the_authors_code():
    # Learning rates printed by the public fmfp scripts at these epochs.
    traced = {
        1: 0.1,
        51: 0.05,
        101: 0.0,
        111: 0.0024,
        120: 0.0087,
        121: 0.0096,
        126: 0.030,
        131: 0.05,
    }
    for epoch, rate in traced.items():
        assert protocols.FMFP_CIFAR.rate(epoch, "swa") == pytest.approx(rate, abs=3e-4), epoch
    assert protocols.FMFP_CIFAR.rate(200, "swa") == pytest.approx(0.05)


def test_averaging_schedule_as_written_starts_from_the_baseline():
    plain, rate = protocols.FMFP_CIFAR.rate, protocols.FMFP_CIFAR.rate
    for epoch in (1, 80, 81, 120):
        assert rate(epoch, "swa", "paper") == plain(epoch)
    assert rate(121, "swa", "paper") == 0.05


def test_shortened_keeps_proportions():
    short = protocols.FMFP_CIFAR.shortened(40)
    assert (short.epochs, short.milestones, short.swa_start) == (40, (16, 26, 34), 24)
    assert short.swa_anneal == 2 and short.snapshots == (4, 16, 28)
    one = protocols.FMFP_CIFAR.shortened(1)
    assert one.epochs == 1 and one.evaluate_every == 1
    with pytest.raises(ValueError, match="epochs: got 0"):
        protocols.FMFP_CIFAR.shortened(0)


# A run takes hours: a change that gives it another name orphans its record.
def test_released_records_keep_their_names(monkeypatch):
    monkeypatch.setenv("CALIBKIT_CACHE", str(NOTEBOOKS.parent / "data_cache"))
    released = tables.where().keys()
    assert len(released) >= 1551
    assert released <= {run.name for run in plan.runs("book", "released")}


def test_a_paper_is_trained_in_its_own_regime_first():
    found = plan.runs("bsce", "released")
    assert found[0].protocol.reduction == "sum" and found[0].protocol.clip_norm == 2
    assert [run.seed for run in found[:27]] == 9 * [0] + 9 * [1] + 9 * [2]
    decays = {run.method: run.protocol.decay for run in plan.runs("darkside", "released")[:5]}
    assert decays["erm"] == decays["mixup"] == 0.2
    assert decays["label_smoothing"] == decays["focal"] == 0.1
    own = plan.runs("mixup", "released", setting="cifar10-mixup")
    assert {run.protocol.precision for run in own if run.method.startswith("mit")} == {"float32"}
    assert {run.protocol.precision for run in own if run.method == "mixup"} == {"bfloat16"}


@pytest.mark.parametrize("page", plan.NOTEBOOKS)
def test_a_page_names_the_records_of_a_paper_that_it_shows(page):
    """Or the workflow would not make it anew when one of them comes."""
    cells = json.loads((NOTEBOOKS / f"{page}.ipynb").read_text())["cells"]
    code = "\n".join("".join(c["source"]) for c in cells if c["cell_type"] == "code")
    for shown in re.findall(r'results\.load\(\s*"(\w+)"', code):
        rows = (need for need in plan.needs(page) if isinstance(need, plan.Need))
        named = {*plan.papers_of(page), *(at for row in rows for at in row.at)}
        assert shown in (page, "all") or set(plan.papers_of(shown)) <= named


def test_a_setting_has_more_seeds_or_methods_than_its_paper():
    place = plan.setting("released", "cifar10-plain")
    seeds = {
        m: [run.seed for run in place.runs([parse(m)])] for m in ("erm", "swa", "mixup(alpha=0.50)")
    }
    assert seeds == {"erm": [*range(6)], "swa": [*range(4)], "mixup(alpha=0.50)": [*range(3)]}
    assert [run.seed for run in place.runs([parse("erm")], seeds=2)] == [0, 1]
    own = plan.runs("fmfp", "released", setting="cifar10-plain")
    assert {"entropy_regularization", "mixup(alpha=0.5)", "crl"} <= {run.method for run in own}


def test_fewer_seeds_may_be_asked_for_than_a_setting_gives_a_method():
    few = plan.Selection("released", "cifar10-plain", seeds=1)
    assert [run.seed for run in few.runs(["erm", "fmfp"])] == [0, 0]


def test_settings_have_names():
    names = [s.name for s in plan.settings("released")]
    assert len(set(names)) == len(names)
    chosen = plan.setting("released", "cifar10-plain")
    assert chosen.protocol == PLAIN
    assert plan.Selection("released", setting="cifar10-plain").runs(["fmfp"]) == chosen.runs(
        [parse("fmfp")]
    )
    with pytest.raises(ValueError, match=r"unknown setting 'cifar10-plane' \(did you mean"):
        plan.setting("released", "cifar10-plane")
