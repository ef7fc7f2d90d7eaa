"""One table of results and one comparison: values, intervals and words; tables equal folders."""

from dataclasses import replace
from math import isnan, nan

import numpy as np
import pytest

from calibkit import cli, metrics, stats
from calibkit_companion import results
from calibkit_companion.experiments import plan
from calibkit_companion.pages import page, wording
from calibkit_companion.records import deviations, folders, keys, release
from calibkit_companion.records.keys import Key, read_replicate_name
from calibkit_companion.records.record import LightRecord
from calibkit_companion.results import derived, printed
from calibkit_companion.results.measure import Series
from calibkit_companion.results.number import Number
from calibkit_companion.results.rows import Operand, row
from tests import records

AUROCS = Operand("sam", Number("auroc")), Operand("erm", Number("auroc"))
METHODS = ("label_smoothing", "mixup", "focal", "cs_kd", "l1_norm", "crl", "sam", "swa", "fmfp")


@pytest.fixture(scope="module")
def plain():
    return results.load("fmfp", setting="cifar10-plain")


# --- the ruler ---


def test_margins_are_what_the_papers_print():
    cells = printed.cells()
    median = cells[cells["std"].notna()].groupby("metric")["std"].median()
    for metric, margin in results.MARGINS.items():
        assert margin == pytest.approx(median[metric], rel=1e-6), metric


def test_a_difference_pairs_seeds_and_resamples_by_hand():
    rng = np.random.default_rng(0)
    shared = rng.normal(size=200)
    a = Series({0: 0.9, 1: 0.8, 2: 0.85}, {s: shared + rng.normal(size=200) for s in range(3)}, 9)
    b = Series({1: 0.7, 2: 0.8, 3: 0.1}, {s: shared + rng.normal(size=200) for s in (1, 2, 3)}, 9)
    difference = a - b
    assert difference.values == pytest.approx({1: 0.1, 2: 0.05})
    assert np.array_equal(difference.draws[1], a.draws[1] - b.draws[1])
    found = row(difference, *AUROCS)
    wanted = stats.mean_over_seeds(
        np.array([0.1, 0.05]), np.stack([a.draws[s] - b.draws[s] for s in (1, 2)])
    ).interval()
    assert found.interval == pytest.approx(wanted) and found.seeds == 2
    assert found.covers == "runs and test set"


def test_of_two_test_sets_a_draw_says_nothing_about_the_other():
    draws = {0: np.arange(4.0)}
    here, there = (Series({0: 1.0}, draws, 4, name) for name in ("a/clean", "b/clean"))
    assert np.array_equal((here - here).draws[0], np.zeros(4))
    assert not np.array_equal((here - there).draws[0], np.zeros(4))


def test_one_run_has_no_interval_and_no_word():
    found = row(Series({0: 0.1}), *AUROCS)
    assert isnan(found.low) and found.outcome == "unclear" and found.covers == ""


# --- released records ---


def test_ts_is_plain_training_after_temperature_scaling(plain):
    rows = plain.compare(["ts"], metric="ece")
    assert rows["ts"].of == plain.operand("erm", Number("ece", "ts_nll"))
    assert rows["ts"].against == plain.operand("erm", Number("ece"))
    scaled = {"recalibration": "ts_nll", "against": {"recalibration": "none"}}
    same = plain.compare("erm", metric="ece", **scaled)["erm"]
    assert rows["ts"].interval == same.interval
    assert rows.frame.method.tolist() == ["ts"]  # as it was asked for
    assert wording.sentence(rows["ts"]).startswith("Temperature scaling (fitted by NLL) lowers")
    assert repr(rows["ts"]).startswith("Row(erm − erm (recalibration=none): ece −")


def test_label_smoothing_hides_errors_on_cifar10(plain):
    found = plain.compare("label_smoothing", metric="auroc")["label_smoothing"]
    assert found.estimate == pytest.approx(-0.0137, abs=4e-4)
    assert found.low == pytest.approx(-0.0204, abs=1.5e-3)
    assert found.high == pytest.approx(-0.0069, abs=1.5e-3)
    assert found.outcome == "lower" and found.seeds >= 4


def test_the_command_line_says_it_in_columns_and_knows_its_metrics(plain, capsys):
    call = ["results", "--setting", "cifar10-plain", "--method", "label_smoothing", "--metric"]
    assert cli.main([*call, "auroc", "--csv"]) == 0
    columns, line = (text.split(",") for text in capsys.readouterr().out.splitlines())
    assert columns == "setting method estimate low high seeds outcome".split()
    its = dict(zip(columns, line, strict=True))
    found = plain.compare("label_smoothing")["label_smoothing"]
    assert [float(its[end]) for end in ("estimate", "low", "high")] == list(found.interval)
    assert (its["seeds"], its["outcome"]) == (str(found.seeds), "lower")
    assert cli.main([*call, "aurocc"]) == 2
    assert "unknown metric 'aurocc' (did you mean 'auroc'?)" in capsys.readouterr().err


def test_refinement_is_the_nll_after_one_temperature(plain):
    predictions = plain.predictions("erm")
    record = plain.typical("erm")
    by_hand = metrics.nll(predictions.rescaled().probs, predictions.labels)
    refinement = results.measured(record, Number("nll_refinement"))[0]
    assert refinement == pytest.approx(by_hand, abs=1e-4)
    removed = results.measured(record, Number("nll_calibration"))[0]
    assert refinement + removed == pytest.approx(
        metrics.nll(predictions.probs, predictions.labels), abs=1e-6
    )
    spread = results.measured(record, Number("nll_refinement"))[1]
    assert np.array_equal(spread, results.measured(record, Number("nll", "ts_nll"))[1])


def test_p_norm_gives_label_smoothing_back_what_it_lost(plain):
    gain = plain.compare(
        "label_smoothing", "label_smoothing", score="p_norm", against={"score": "max_probability"}
    )["label_smoothing"]
    assert gain.estimate == pytest.approx(0.0063, abs=1e-3) and gain.outcome == "higher"


def test_a_score_of_its_own_setting_is_compared_by_auroc(plain):
    predictions = plain.predictions("erm")
    record = plain.typical("erm")
    from calibkit import confidence

    p = confidence.choose_p(predictions.validation_logits, predictions.validation_labels)
    correct = predictions.confident()[1]
    by_hand = metrics.auroc(confidence.p_norm(predictions.logits, p), correct)
    assert results.measured(record, Number("auroc", score="p_norm"))[0] == pytest.approx(by_hand)


def test_every_number_of_the_frame_is_there_once_and_is_that_of_compare(plain):
    frame = plain.frame
    assert {"temperature", "p", "sure_when_wrong"} <= set(frame.metric)  # not drawn
    key = [c for c in frame if c not in ("value", "n")]
    assert not frame.duplicated(key).any() and len(frame) > 10_000
    wanted = frame[
        (frame.metric == "auroc")
        & (frame.recalibration == "none")
        & (frame.test_set == "clean")
        & (frame.score == "max_probability")
    ].pivot(index="seed", columns="method", values="value")
    for method in METHODS:
        if method in wanted:
            difference = (wanted[method] - wanted["erm"]).dropna().mean()
            assert plain.compare(method)[method].estimate == pytest.approx(difference)


def test_a_column_means_the_same_whatever_it_is_called_or_rounded_to(plain):
    one = plain.compare("sam", metric="ece")["sam"]
    many = plain.compare(["sam", "swa"], metric=["auroc", "ece"])["sam", "ece"]
    assert one.interval == many.interval and one.outcome == many.outcome


def test_what_nobody_measured_is_no_data(plain):
    rows = plain.compare(["sam"], metric="auroc")
    assert rows["nobody"].outcome == "no data" and isnan(rows["nobody"].estimate)
    assert "nobody" not in rows


@pytest.mark.parametrize("metric", ["auroc", "ece", "nll_refinement"])
def test_bench_chapter_and_board_say_the_same_of_every_method_of_a_setting(plain, metric):
    from calibkit_companion import bench
    from calibkit_companion.claims import settings, verdict
    from calibkit_companion.claims.verdict import Comparison, Side

    place = settings.Place(plain.name, plain, "cifar10", plain.title)
    erm = Side("erm", Number(metric))
    said = {"higher": "holds", "lower": "reversed", "no difference": "falls short"}
    for method in METHODS:
        ours = plain.compare(method, metric=metric)[method]
        theirs = bench.rows(plain, method)["before"]
        if metric in bench.SHOWN:
            theirs = theirs[method, metric]
            assert (theirs.interval, theirs.outcome) == (ours.interval, ours.outcome)
        claim = Comparison(Side(method, ours.number), erm, "above", ours.margin)
        part = place.part(claim)
        assert part.interval() == ours.interval and part.covers == ours.covers
        word = replace(part, looks=1).word()  # pages do not count looks, the board does
        assert word == said.get(ours.outcome, word) and word in verdict.OUTCOMES
        assert (word in ("holds", "reversed")) == (ours.outcome in ("higher", "lower"))
    assert {"auroc", "ece"} <= set(bench.SHOWN)


# --- findings ---


def test_a_finding_is_stated_only_where_its_rows_bear_it_out(plain):
    auroc = plain.compare(["label_smoothing", "sam"])
    stated = page.finding("It hides errors.", (auroc["label_smoothing"], "lower"))
    assert stated.holds and "**It hides errors.**" in stated._repr_markdown_()
    wrong = page.finding("It hides errors.", (auroc["sam"], "lower"))
    assert not wrong.holds and "do not show it" in wrong._repr_markdown_()
    assert "The AUROC of SAM is " in wrong._repr_markdown_()
    with pytest.raises(ValueError, match="unknown outcome 'fewer'"):
        page.finding("It hides errors.", (auroc["sam"], "fewer"))
    with pytest.raises(ValueError, match="at least one that supports"):
        page.finding("It hides errors.")


# --- tables ---


@pytest.fixture
def kept_runs(tmp_path, monkeypatch):
    """Folders of runs of the smoke edition, with replicates."""
    monkeypatch.setenv("CALIBKIT_CACHE", str(tmp_path))
    runs = [r for r in plan.runs("all", "smoke", setting="shared") if r.method in ("erm", "focal")]
    for run in runs[:4]:
        record = records.write(run, train_accuracy=[0.5, nan, 0.7, 0.8, 1e-4 / 3, 0.9, 1.0])
        folders.add_replicates(record)
    return runs[:4]


def shifted(run):
    """A record with shifted test sets, as no run of the smoke edition has."""
    run = replace(run, protocol=replace(run.protocol, shifted=100))
    return folders.add_replicates(records.write(run))


def reduce(root):
    """What `calibkit delete` leaves of collected runs."""
    for file in (root / "runs").glob("*/*"):
        if file.name != "arrays.npz":
            file.unlink()


def same(ours, theirs):
    for name in ("history", "shifted"):
        mine, other = getattr(ours, name), getattr(theirs, name)
        assert mine.keys() == other.keys()
        assert all(np.array_equal(mine[k], other[k], equal_nan=k != "shift") for k in mine)
    mine, other = ours.replicates, theirs.replicates
    assert set(mine.names) == set(other.names) and mine.temperatures == other.temperatures
    assert mine.p == other.p
    for name in other.names:
        assert mine.estimate(name) == other.estimate(name)
        assert np.array_equal(mine.deviation(name), other.deviation(name), equal_nan=True)
        key = read_replicate_name(name)
        assert ours.measured(key) == other.estimate(name)
        assert np.array_equal(ours.deviation(key), other.deviation(name), equal_nan=True)
    assert ours.info == theirs.info


@pytest.mark.parametrize("score", ["max_probability", "log_odds", "p_norm"])
@pytest.mark.parametrize("recalibration", keys.Recalibration)
def test_a_number_is_read_by_the_name_under_which_it_is_written(recalibration, score):
    key = Key("risk_at_coverage_0.8", recalibration, score)
    if score == "p_norm" and recalibration != "none":  # no file has these
        return
    assert read_replicate_name(keys.replicate_name(key)) == key
    if name := keys.column(key):
        assert keys.read_column(name) == key


def test_an_unknown_recalibration_is_refused_with_the_known_ones():
    with pytest.raises(ValueError, match="unknown recalibration 'ts_nl' .did you mean 'ts_nll'.*"):
        keys.Recalibration("ts_nl")


def test_tables_hold_what_the_folders_hold(tmp_path, kept_runs):
    held = [folders.load(run) for run in kept_runs] + [shifted(kept_runs[0])]
    for record in held:
        _ = record.history, record.shifted, record.replicates, record.arrays
    release.write(tmp_path / "released" / "shared", held)
    reduce(tmp_path)
    runs = [*kept_runs, replace(kept_runs[0], protocol=replace(kept_runs[0].protocol, shifted=100))]
    for run, record in zip(runs, held, strict=True):
        again = folders.load(run)
        assert again.tables is not None
        same(again, record)
        assert np.array_equal(again.arrays["test_logits"], record.arrays["test_logits"])
    folders.load(kept_runs[0]).predictions.unlink()
    light = folders.load(kept_runs[0])
    assert light.light and not folders.load(kept_runs[1]).light
    same(light, held[0])
    with pytest.raises(LightRecord, match=f"calibkit train --again {light.name}"):
        _ = light.arrays


def test_a_number_that_stands_twice_is_refused(tmp_path, kept_runs):
    row = dict.fromkeys(Key._fields, "none") | {"validation": 0, "value": 1.0}
    held = [folders.load(run) for run in kept_runs]
    release.write(tmp_path / "released" / "shared", held, lambda record: [row] * 2)
    reduce(tmp_path)
    with pytest.raises(ValueError, match=r"results-\w+.parquet: two rows for the same run and num"):
        _ = folders.load(kept_runs[0]).replicates


def test_a_local_folder_comes_before_a_row(tmp_path, kept_runs):
    results.collect("smoke", say=lambda line: None)
    assert all(folders.load(run).tables is None for run in kept_runs)
    reduce(tmp_path)
    assert all(folders.load(run).tables is not None for run in kept_runs)
    assert folders.has(kept_runs[0]) and not folders.has(replace(kept_runs[0], seed=99))


def test_who_collects_again_touches_only_what_has_something_new(tmp_path, kept_runs):
    other = next(r for r in plan.runs("all", "smoke") if r.dataset != kept_runs[0].dataset)
    folders.add_replicates(records.write(other))
    results.collect("smoke", say=lambda line: None)
    held = {run: folders.load(run) for run in kept_runs}
    for record in held.values():
        _ = record.history, record.shifted, record.replicates
    reduce(tmp_path)
    said: list[str] = []
    results.collect("smoke", say=said.append)
    assert said == []  # nothing is new, with folders or without
    files = {f: f.read_bytes() for f in tmp_path.glob("released/*/*.*")}
    more = next(r for r in plan.runs("all", "smoke", setting="shared") if r.method == "mixup")
    folders.add_replicates(records.write(more))
    results.collect("smoke", say=said.append)
    assert [line.partition(":")[0] for line in said] == ["shared"] and "1 of them" in said[0]
    changed = {f.parent.name for f, was in files.items() if not f.exists() or f.read_bytes() != was}
    assert changed == {"shared"}
    reduce(tmp_path)
    assert folders.load(more).tables is not None
    for run, record in held.items():  # rows of the others were taken over as they are
        same(folders.load(run), record)


def test_what_was_worked_out_is_collected(tmp_path, kept_runs):
    of_run = folders.load(kept_runs[0])
    number = Number("sure_when_wrong")
    found = results.measured(of_run, number)[0]
    assert 0 < found < 1
    results.collect("smoke", say=lambda line: None)
    reduce(tmp_path)
    for run in kept_runs[:2]:
        folders.load(run).predictions.unlink()
    derived._file(of_run).unlink()
    assert results.measured(folders.load(kept_runs[0]), number)[0] == found
    light = folders.load(kept_runs[1])  # for which it was never worked out
    assert isnan(results.measured(light, number)[0])


def test_who_filters_by_a_metric_reads_its_rows_alone(tmp_path, kept_runs):
    from pyarrow import parquet

    release.write(tmp_path / "released" / "shared", [folders.load(run) for run in kept_runs])
    file = parquet.ParquetFile(next(tmp_path.glob("released/shared/results-*.parquet")))
    groups = [file.read_row_group(i, ["metric"])["metric"] for i in range(file.num_row_groups)]
    metrics_ = [set(group.to_pylist()) for group in groups]
    assert all(len(its) == 1 for its in metrics_) and len(metrics_) == len(set().union(*metrics_))


def test_predictions_of_every_epoch_become_rows_with_intervals(tmp_path, monkeypatch):
    from calibkit import posthoc

    monkeypatch.setenv("CALIBKIT_CACHE", str(tmp_path))
    here = results.Results(plan.Selection("smoke", seeds=2), train=False)
    runs = [run for method in ("erm", "focal") for run in here.runs(method)]
    held = [records.write(run, sharpness=1 + run.seed + 3 * (run.method == "erm")) for run in runs]
    for run, record in zip(runs, held, strict=True):  # as `loop` does at every evaluated epoch
        last = [record.arrays[f"{part}_logits"] for part in ("test", "validation")]
        kept = {3: [(x / 2).astype(np.float16) for x in last]}
        folders.save_epochs(run, kept | {7: [x.astype(np.float16) for x in last]})
    release.write(tmp_path / "released" / "shared", held, derived.rows)
    reduce(tmp_path)
    here = results.Results(plan.Selection("smoke", seeds=2), train=False)
    frame = here.frame
    assert set(frame.method) == {"erm", "focal"} and set(frame.seed) == {0, 1}
    assert set(frame["at"]) == {3, 7, "end"} and not frame.duplicated(list(frame)[:-2]).any()
    record = folders.load(runs[0])
    logits, held_out = (held[0].arrays[f"{p}_logits"] / 2 for p in ("test", "validation"))
    logits, held_out = (x.astype(np.float16).astype(np.float32) for x in (logits, held_out))
    labels, held_labels = (held[0].arrays[f"{p}_labels"] for p in ("test", "validation"))
    by_hand = metrics.summary(logits, labels.astype(int))
    for metric in ("accuracy", "auroc", "aurc", "ece", "nll"):
        its = results.measured(record, Number(metric, at=3))[0]
        assert its == pytest.approx(by_hand[metric], abs=1e-9)
        assert results.measured(record, Number(metric, at=3))[1].std() > 0
    for metric in ("auroc", "aurc"):
        its, drawn = results.measured(record, Number(metric, score="log_odds", at=3))
        assert its == pytest.approx(by_hand[metric], abs=1e-9) and drawn.std() > 0
    best = posthoc.optimal_temperature(held_out, held_labels.astype(int), "nll")[0]
    after = metrics.nll(posthoc.softmax(logits / best), labels.astype(int))
    assert results.measured(record, Number("temperature", "ts_nll", at=3))[0] == best
    assert results.measured(record, Number("nll_refinement", at=3))[0] == pytest.approx(after)
    removed = results.measured(record, Number("nll_calibration", at=3))[0]
    assert removed == pytest.approx(by_hand["nll"] - after)
    found = here.compare("focal", metric="nll_refinement", at=3)["focal"]
    assert found.covers == "runs and test set" and found.seeds == 2
    last, usual = (here.compare("focal", at=at)["focal"] for at in (7, "end"))
    assert last.estimate == pytest.approx(usual.estimate, abs=2e-3)  # half precision
    assert last.low == pytest.approx(usual.low, abs=5e-3)
    assert here.compare("focal", metric="auroc", at=5)["focal"].covers == "runs"  # of the history


# --- two rankings ---


def as_of_version_01(run):
    """A record that has the ranking by confidence alone."""
    record = records.write(run)
    whole = record.replicates
    old = [i for i, name in enumerate(whole.names) if not name.endswith("_log_odds")]
    names = tuple(whole.names[i] for i in old)
    assert len(names) == len(whole.names) - 48
    numbers = whole.estimates[old], whole.deviations[old]
    record.__dict__["replicates"] = deviations.Replicates(
        names, *numbers, whole.temperatures, whole.p
    )
    return folders.add_replicates(record)


def of_smoke():
    return results.Results(plan.Selection("smoke", seeds=2), train=False)


def test_a_setting_is_ranked_by_log_odds_if_all_its_runs_have_it(tmp_path, kept_runs):
    found = of_smoke().compare("focal", metric=["auroc", "aurc", "ece"], recalibration="ts_nll")
    assert found["focal", "auroc"].number.score == "log_odds"
    assert found["focal", "ece"].number.score == "max_probability"
    assert "AUROC after temperature scaling (fitted by NLL) by log-odds" in page.number_label(
        found["focal", "auroc"].number
    )
    by_run = {run: folders.load(run).replicates for run in kept_runs}
    gaps = [
        by_run[b].estimate("auroc_ts_nll_log_odds") - by_run[a].estimate("auroc_ts_nll_log_odds")
        for a, b in zip(kept_runs[:2], kept_runs[2:], strict=True)
    ]
    assert [run.method for run in kept_runs] == ["erm", "erm", "focal", "focal"]
    assert found["focal", "auroc"].estimate == pytest.approx(np.mean(gaps))
    assert of_smoke().mean("erm", "risk_at_coverage_0.8")["erm"].number.score == "log_odds"
    # Both sides by the same: a histogram makes confidences equal, and has no log-odds.
    sides = {"recalibration": "binned", "against": {"recalibration": "none"}}
    assert of_smoke().compare("erm", **sides)["erm"].number.score == "max_probability"


def test_one_run_without_logits_keeps_the_old_ranking_for_all(tmp_path, kept_runs):
    expected = as_of_version_01(kept_runs[0]).replicates.estimate("auroc")
    held = [folders.load(run) for run in kept_runs]
    release.write(tmp_path / "released" / "shared", held)
    reduce(tmp_path)
    folders.load(kept_runs[0]).predictions.unlink()
    assert folders.load(kept_runs[0]).light
    number = Number("auroc", score="log_odds")
    assert results.measured(folders.load(kept_runs[1]), number)[1].std() > 0
    found = of_smoke().compare("focal")["focal"].number
    assert found.score == "max_probability" and "log-odds" not in page.number_label(found)
    assert of_smoke().series("erm", Number("auroc")).values[0] == expected


def test_logits_of_an_older_record_give_both_rankings_when_it_is_collected(tmp_path, kept_runs):
    old = as_of_version_01(kept_runs[0])
    number = Number("auroc", "ts_nll", "log_odds")
    worked_out, drawn = results.measured(old, number)
    assert worked_out == pytest.approx(old.resampled().estimate("auroc_ts_nll_log_odds"))
    expected = old.resampled().deviation("auroc_ts_nll_log_odds")
    assert drawn == pytest.approx(expected, abs=1e-6)
    release.write(tmp_path / "released" / "shared", [old], derived.rows)
    reduce(tmp_path)
    folders.load(kept_runs[0]).predictions.unlink()
    light = folders.load(kept_runs[0])
    assert light.light and results.measured(light, number)[0] == pytest.approx(worked_out)
    assert light.measured(Key("auroc")) == old.replicates.estimate("auroc")


def test_released_settings_are_ranked_as_in_version_01(plain):
    for place in plain.settings:
        found = place.compare(["focal", "fmfp"], metric=["auroc", "aurc"])
        assert {its.number.score for its in found.values()} <= {"max_probability"}


def test_every_record_has_one_home():
    homes = results.home()
    assert homes["cifar10-resnet18_w16-erm-s0-a038bbd2"] == "cifar10-plain"
    assert homes["fashion_mnist-cnn-erm-s0-6db124f7"] == "shared"
    assert set(homes) == {run.name for run in plan.runs("all", "released")}
