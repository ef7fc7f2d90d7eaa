"""Where the sides of a comparison ran on different devices, it is said once, with its effect."""

import csv
import io
import json
from dataclasses import replace
from math import nan, sqrt
from pathlib import Path

import numpy as np
import pytest

from calibkit import cli
from calibkit_companion import bench, claims, results
from calibkit_companion.claims import judging
from calibkit_companion.claims.settings import Place
from calibkit_companion.experiments import plan
from calibkit_companion.pages import devices as said
from calibkit_companion.pages import page
from calibkit_companion.records import devices, tables
from calibkit_companion.records.keys import Key
from calibkit_companion.results import Number, Operand, Series
from tests import records

CPU, GPU = "1 thread of AMD EPYC", "NVIDIA H100 80GB HBM3"
DIGITS = plan.Selection("smoke", dataset="digits", seeds=2)
HERE, THERE = "a CPU", "an NVIDIA H100"


def level(method, *devices_of, number=None):
    """The level of a method whose seeds ran on these devices, as a row."""
    values = {seed: 0.8 + 0.01 * seed for seed in range(len(devices_of))}
    series = Series(values, trained=((method, dict(enumerate(devices_of))),))
    return results.row(series, Operand(method, number or Number("auroc")))


def difference(of, against, **number):
    """A row: SAM on the first devices minus plain training on the second."""
    each = Number(**{"metric": "auroc"} | number)
    return level("sam", *of, number=each) - level("erm", *against, number=each)


# --- what differs ---


def test_nothing_is_said_within_one_device():
    assert said.said_of([difference([HERE, HERE], [HERE, HERE])]) == ""
    assert said.said_of([difference([THERE, THERE], [THERE, THERE])]) == ""
    assert said.said_of([level("sam", HERE, THERE)]) == ""  # a level has no other side


def test_seeds_are_paired_so_that_a_mixture_alone_is_no_difference():
    assert said.said_of([difference([HERE, THERE], [HERE, THERE])]) == ""
    assert said.said_of([difference([HERE, THERE], [THERE, HERE])]) != ""


def test_seeds_of_one_side_alone_do_not_count():
    assert said.said_of([difference([HERE, HERE, THERE], [HERE, HERE])]) == ""
    text = said.said_of([difference([THERE, HERE, HERE], [HERE])])
    assert text.startswith("Plain training ran on a CPU, SAM on an NVIDIA H100.")


def test_both_sides_are_named_with_the_devices_of_their_seeds():
    text = said.said_of([difference([HERE, THERE], [HERE, HERE])])
    assert text.startswith("Plain training ran on a CPU; SAM on a CPU and an NVIDIA H100.")


def test_several_comparisons_are_said_in_one_sentence():
    crl = level("crl", THERE, THERE) - level("erm", HERE, HERE)
    swa = level("swa", HERE, HERE) - level("erm", HERE, HERE)
    text = said.said_of([difference([THERE, THERE], [HERE, HERE]), crl, swa])
    assert text.startswith("Plain training ran on a CPU; CRL and SAM on an NVIDIA H100.")
    assert "SWA" not in text


def test_an_effect_compared_with_an_effect_has_four_sides():
    here = difference([HERE], [HERE])
    there = difference([THERE], [THERE])
    text = said.said_of([replaced(here, "a") - replaced(there, "b")])
    assert text.startswith("a and b: Plain training and SAM ran on a CPU and an NVIDIA H100.")


def replaced(row, setting):
    """A row as if measured in another setting, so that nothing cancels."""
    of, against = (replace(side, setting=setting) for side in (row.of, row.against))
    return row._replace(of=of, against=against)


def test_two_gpus_are_named_and_no_effect_of_a_gpu_is_claimed():
    text = said.said_of([difference(["a Tesla T4"], [THERE])])
    assert text == "SAM ran on a Tesla T4, plain training on an NVIDIA H100."


def test_settings_are_named_where_there_are_several():
    one = replaced(difference([THERE], [HERE]), "one")
    two = replaced(difference([HERE], [HERE]), "two")
    assert said.said_of([one, two]).startswith("one: Plain training ran on a CPU, SAM on")
    assert said.said_of([one, one]).startswith("Plain training ran on a CPU, SAM on")


@pytest.mark.parametrize("which", [{"at": "late"}, {"test_set": "shifted"}, {"since": "settled"}])
def test_of_other_numbers_than_those_of_the_end_the_effect_is_not_known(which):
    text = said.said_of([difference([THERE], [HERE], **which)])
    assert text.endswith("How much that changes these numbers is not known.")


# --- the effect ---


def test_the_effect_by_hand():
    """Within groups, GPU − CPU is 1 and 3: 2 on the mean; residuals ±0.5, so that s² = 1."""
    found = devices.within([[(False, 1.0), (True, 2.0)], [(False, 5.0), (True, 8.0)]])
    assert found == devices.Effect(2.0, 1.0, 4, 2**0.5)


def test_the_effect_is_that_of_least_squares_with_a_level_for_each_group():
    rng = np.random.default_rng(0)
    groups = [
        [(bool(gpu), float(rng.normal(j) + 0.3 * gpu)) for gpu in on]
        for j, on in enumerate(((0, 0, 1), (1, 0, 1, 1), (0, 1)))
    ]
    design, wanted = [], []
    for j, group in enumerate(groups):
        for gpu, number in group:
            design.append([gpu, *(j == i for i in range(3))])
            wanted.append(number)
    design = np.array(design, float)
    fitted, (rest,), *_ = np.linalg.lstsq(design, np.array(wanted), rcond=None)
    error = sqrt(rest / (9 - 4) * np.linalg.inv(design.T @ design)[0, 0])
    apart = sqrt(2 * rest / (9 - 4))
    assert devices.within(groups) == pytest.approx((fitted[0], error, 9, apart))
    alone = [(False, 4.0), (False, 7.0)]  # a group on one device says nothing
    assert devices.within([*groups, alone, []]) == devices.within(groups)
    missing = [[*groups[0], (True, nan)], *groups[1:]]
    assert devices.within(missing) == devices.within(groups)


def test_without_both_devices_or_without_a_spread_there_is_no_effect():
    assert devices.within([]) is None
    assert devices.within([[(False, 1.0), (False, 2.0)]]) is None
    assert devices.within([[(False, 1.0), (True, 2.0)]]) is None


def test_the_released_effect_is_that_of_runs_that_differ_in_seed_and_device_alone():
    """The same by the histories of the runs, which the tables of numbers do not use."""
    groups = {}
    for run in plan.runs("all", "released"):
        found = tables.find(run.name)
        if found and found[0]["status"] == "done":
            info, its = found
            number = its.rows("history", run.name)["auroc"][-1]
            gpu = "NVIDIA" in info["provenance"]["device"]
            groups.setdefault(replace(run, seed=0), []).append((gpu, number))
    wanted = devices.within(groups.values())
    assert (*devices.effect(Key("auroc")),) == pytest.approx((*wanted,), rel=1e-4)
    assert devices.effect(Key("no such metric")) is None


# --- where it is printed ---


def test_a_finding_says_it_once():
    rows = [difference([THERE, THERE], [HERE, HERE], metric=m) for m in ("auroc", "ece")]
    text = page.finding("All differ.", *((row, row.outcome) for row in rows))._repr_markdown_()
    assert text.count("SAM on an NVIDIA H100") == 1 and text.endswith("</small>")
    assert text.count("A GPU in place of a CPU changes AUROC by ") == 1
    assert " points and ECE by " in text
    alike = difference([HERE, HERE], [HERE, HERE])
    text = page.finding("It differs.", (alike, alike.outcome))._repr_markdown_()
    assert "CPU" not in text and text.endswith("2 seeds</small>")


@pytest.fixture
def mixed(tmp_path, monkeypatch):
    """Runs of the smoke edition: focal loss on a GPU, plain training and Brier loss on a CPU."""
    monkeypatch.setenv("CALIBKIT_CACHE", str(tmp_path))
    records.few_replicates(monkeypatch, 30)
    for method, device in (("erm", CPU), ("focal", GPU), ("brier", CPU)):
        for place in (plan.Selection("smoke", seeds=2), DIGITS):
            for run in place.runs([method]):
                records.write(run, device=device)


def test_rows_of_records_know_where_both_sides_ran(mixed):
    found = results.Results(plan.Selection("smoke", seeds=2), train=False).compare(
        ["focal", "brier"], metric=["auroc", "ece"]
    )
    assert [said.differ(row.series) for row in found.values()] == [True, False] * 2


def test_the_command_says_it_once_beside_its_table(mixed, capsys):
    asked = ["results", "--edition", "smoke", "--seeds", "2", "--csv", "--method", "brier"]
    assert cli.main([*asked, "--method", "focal"]) == 0
    out, err = capsys.readouterr()
    assert len(list(csv.reader(io.StringIO(out)))) == 3
    assert err.count("Plain training ran on a CPU, focal loss on an NVIDIA H100.") == 1
    assert cli.main(asked) == 0
    assert "CPU" not in "".join(capsys.readouterr())


def test_a_claim_says_it_on_its_card(mixed):
    runs = results.Results(DIGITS, train=False)
    where = [Place("shared", runs, "digits", "Digits")]
    rows = judging.board_of(where, claims.claims("fmfp"))
    tested = [row for row in rows if row.outcome != "not tested"]
    for row in rows:
        compared = {m for p in row.parts if p.series for side in p.leaf.sides for m in side.methods}
        assert bool(row.devices) == ("focal" in compared and len(compared) > 1)
    mixed_rows = [row for row in tested if row.devices]
    assert 0 < len(mixed_rows) < len(tested)
    text = claims.Card(rows)._repr_html_()
    said_there = text.count("<b>Devices:</b> Plain training ran on a CPU, focal loss on an NVIDIA")
    assert said_there == text.count("Devices:") == len(mixed_rows)


def test_the_bench_says_it_of_a_method_trained_elsewhere(mixed, tmp_path):
    bench.build("focal", plan.Selection("smoke", seeds=2), tmp_path / "bench")
    text = Path(tmp_path, "bench", "bench.html").read_text(encoding="utf-8")
    assert "Plain training ran on a CPU, focal loss on an NVIDIA H100." in text
    assert json.loads(Path(tmp_path, "bench", "bench.json").read_text())["name"] == "Focal loss"


def test_tables_tell_it_as_folders_do(mixed, monkeypatch):
    place = plan.Selection("smoke", seeds=2)
    before = results.Results(place, train=False).compare("focal")["focal"].series.trained
    results.collect("smoke", say=lambda line: None)
    monkeypatch.setattr(tables, "FRESH", -1)
    assert results.Results(place, train=False).compare("focal")["focal"].series.trained == before
