"""A verdict follows from records: it changes when they do, and says what it lacks without them."""

import re
import shlex
from collections import Counter
from math import inf, isnan, sqrt

import numpy as np
import pytest

from calibkit import claims, cli, derivations, evidence, grid, metrics, published, stats
from calibkit.evidence import Evidence, Who
from tests import records


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("CALIBKIT_CACHE", str(tmp_path))
    return tmp_path


def write(*methods, edition="smoke", seeds=2, train_size=0, **kind):
    for run in grid.select(edition, methods, "digits", seeds=seeds, train_size=train_size):
        records.write(run, **kind)


def verdict(identity, **where):
    where = {"edition": "smoke", "dataset": "digits"} | where
    paper = identity.partition("-")[0]
    return next(v for v in claims.evaluate(**where, paper=paper) if v.id == identity)


# --- the claims as data ---------------------------------------------------------------------------


def leaves(check):
    for quantifier in ("all", "any", "most"):
        if quantifier in check:
            for part in check[quantifier]:
                yield from leaves(part)
            return
    yield check


def test_every_claim_is_there_once_and_names_known_exhibits():
    found = claims.claims()
    assert len({claim["id"] for claim in found}) == len(found) == 101
    counts = Counter(claim["paper"] for claim in found)
    assert counts == {"fmfp": 27, "darkside": 18, "overconf": 20, "mixup": 15, "bsce": 21}
    known = set(published.exhibits().id)
    for claim in found:
        assert claim["id"] == f"{claim['paper']}-c{claim['id'][-2:]}"
        assert claim["exhibits"] and set(claim["exhibits"]) <= known
        assert all(e.startswith(claim["paper"]) for e in claim["exhibits"])
        assert len(claim["statement"]) > 30 and claim["paper_support"]


def test_checks_are_made_of_known_parts():
    methods = []
    for claim in claims.claims():
        for leaf in leaves(claim["check"]):
            kinds = {"metric", "computed", "beyond"} & set(leaf)
            assert len(kinds) == 1, claim["id"]
            if "computed" in leaf:
                assert callable(getattr(derivations, leaf["computed"]))
            if "metric" in leaf:
                sides = [x for key in ("of", "than", "order") for x in claims._list(leaf.get(key))]
                methods += [x for side in sides for x in claims._list(side) if x]
            assert leaf.get("is", "above") in claims._SIDES
            assert leaf.get("rows", "all") in ("all", "any", "most")
    for text in methods:
        if isinstance(text, str):
            for name in Who.read(text).choices():
                if name not in (*evidence._MAPPED, *evidence._SCORED):
                    grid.method(name)


# --- the rule -------------------------------------------------------------------------------------


def row(differences, side="above", by=0.0, samples=0.0, **more):
    return claims._Row("x", claims._SIDES[side](by), differences, differences, samples, **more)


@pytest.mark.parametrize(
    ("differences", "side", "by", "expected"),
    [
        ([1.0, 1.1, 0.9], "above", 0, "holds"),
        ([1.0, 1.1, 0.9], "below", 0, "fails"),
        ([-1.0, 1.1, 0.9], "above", 0, "inconclusive"),
        ([1.0, 1.1, 0.9], "above", 2, "fails"),
        ([0.01, 0.011], "near", 0.1, "holds"),
        ([0.2, 0.201], "near", 0.1, "fails"),
        ([0.01, 0.011], "at most", 0.1, "holds"),
        ([-0.01, -0.011], "at least", 0.1, "holds"),
        ([0.2, 0.201], "at most", 0.1, "fails"),
        ([1.0], "above", 0, "inconclusive"),
        ([], "above", 0, "inconclusive"),
    ],
)
def test_a_comparison_is_judged_by_its_interval(differences, side, by, expected):
    assert row(differences, side, by).verdict(0.95) == expected


def test_the_two_doubts_add_in_squares():
    seeds = row([1.0, 2.0, 3.0]).interval(0.95)
    assert seeds.high - 2 == pytest.approx(4.302653 / sqrt(3), rel=1e-6)  # Student, 2 degrees
    both = row([1.0, 2.0, 3.0], samples=2.0).interval(0.95)
    assert both.high - 2 == pytest.approx(np.hypot(seeds.high - 2, 2.0))
    wider = row([1.0, 1.0, 1.0], samples=2.0).interval(0.99)
    assert wider.high - 1 == pytest.approx(2.0 * 2.575829 / 1.959964, rel=1e-6)


def test_one_training_borrows_its_spread():
    borrowed = claims._Row("x", (0, inf), [1.0], [0.1, 0.2, 0.3])
    assert borrowed.borrowed
    half = borrowed.interval(0.95).high - 1
    assert half == pytest.approx(0.1 * 4.302653, rel=1e-6)  # of one training: not over root 3
    assert isnan(claims._Row("x", (0, inf), [1.0], [1.0]).interval(0.95).low)


YES, NO, OPEN = [1.0, 1.01], [-1.0, -1.01], [-1.0, 1.0]


@pytest.mark.parametrize(
    ("quantifier", "parts", "expected"),
    [
        ("all", [YES, YES], "holds"),
        ("all", [YES, NO], "fails"),
        ("all", [YES, OPEN], "inconclusive"),
        ("any", [YES, NO], "holds"),
        ("any", [NO, NO], "fails"),
        ("any", [NO, OPEN], "inconclusive"),
        ("most", [YES, YES, NO], "holds"),
        ("most", [YES, NO], "fails"),
        ("most", [YES, OPEN, OPEN], "inconclusive"),
        ("all", [YES, None], "needs data"),
        ("all", [NO, None], "fails"),
        ("any", [YES, None], "holds"),
        ("most", [YES, YES, None], "holds"),
        ("most", [YES, None, None], "needs data"),
    ],
)
def test_quantifiers(quantifier, parts, expected):
    rows = [row(p) if p else row([], beyond="nowhere") for p in parts]
    join = claims._Join(quantifier, rows)
    assert join.verdict(0.95, 0.95) == expected
    if expected != "needs data":
        assert join.deciding(0.95, 0.95) in rows


def test_what_decides_alone_is_judged_more_strictly():
    hardly = row([-1.0, -1.2, -0.2])  # 95 % leaves out 0 only just, or not at all
    level = next(q / 100 for q in range(99, 0, -1) if hardly.verdict(q / 100) == "fails")
    join = claims._Join("all", [row(YES), hardly])
    assert join.verdict(level, level) == "fails"
    assert join.verdict(level, 0.999) == "inconclusive"
    assert join.deciding(level, 0.999) is hardly
    opposite = claims._Join("any", [row(NO), row([1.0, 1.2, 0.2])])
    assert opposite.verdict(level, level) == "holds"
    assert opposite.verdict(level, 0.999) == "inconclusive"


def test_the_deciding_comparison():
    strong, weak = row([2.0, 2.01]), row([0.5, 0.52])
    assert claims._Join("all", [strong, weak]).deciding(0.95, 0.95) is weak
    assert claims._Join("any", [strong, weak]).deciding(0.95, 0.95) is strong
    assert claims._Join("all", [strong, row(OPEN), weak]).deciding(0.95, 0.95).differences == OPEN


def test_nested_quantifiers():
    inner = claims._Join("all", [row(YES), row(NO)])
    assert claims._Join("any", [inner, row(YES)]).verdict(0.95, 0.95) == "holds"
    assert claims._Join("all", [inner, row(YES)]).verdict(0.95, 0.95) == "fails"
    assert len(list(claims._Join("all", [inner, row(YES)]).rows())) == 3


# --- from records to verdicts ---------------------------------------------------------------------


def test_a_verdict_turns_with_the_records(cache):
    assert verdict("fmfp-c16").verdict == "needs data"
    write("erm", separation=0.5)
    write("fmfp", separation=3.0)
    found = verdict("fmfp-c16")
    assert found.verdict == "holds" and 0 < found.low < found.estimate < found.high
    assert (found.seeds, found.n) == (2, 400)
    assert (found.dataset, found.network) == ("digits", "mlp")
    assert "auroc of fmfp − erm = +" in found.why

    for run in (cache / "runs").iterdir():  # the same names, the other way round
        for file in run.iterdir():
            file.unlink()
        run.rmdir()
    write("erm", separation=3.0)
    write("fmfp", separation=0.5)
    turned = verdict("fmfp-c16")
    assert turned.verdict == "fails" and turned.high < 0 and turned.command == ""


def test_seeds_that_disagree_conclude_nothing():
    write("erm", separation=1.0)
    for run in grid.select("smoke", ["fmfp"], "digits"):
        records.write(run, separation=[0.5, 1.5][run.seed])
    found = verdict("fmfp-c16")
    assert found.verdict == "inconclusive" and found.low <= 0 <= found.high


def test_one_training_alone_is_never_enough():
    write("erm", separation=0.5, seeds=1)
    write("fmfp", separation=3.0, seeds=1)
    found = verdict("fmfp-c16")
    assert found.verdict == "inconclusive" and found.seeds == 1 and isnan(found.low)
    assert "one training only" in found.why


def test_a_coefficient_borrows_the_spread_of_its_default():
    write("erm", "mixup", seeds=2)
    write("mixup(alpha=0.1)", "mixup(alpha=0.5)", "mixup(alpha=1)", seeds=1, sharpness=1.5)
    found = verdict("mixup-c01")
    assert found.seeds == 1 and not isnan(found.low)
    assert "spread between seeds from the default" in found.why


def test_diverged_trainings_leave_a_claim_open():
    from calibkit import store

    write("erm")
    for run in grid.select("smoke", ["fmfp"], "digits"):
        store.save(run, "diverged", [], {}, records.TRAINED)
    found = verdict("fmfp-c16")
    assert found.verdict == "inconclusive" and "diverged" in found.why


def test_without_records_mathematics_is_judged_and_the_rest_names_its_command():
    found = claims.evaluate("smoke", "digits")
    assert len(found) == 101
    judged = [v for v in found if v.verdict != "needs data"]
    expected = Counter(holds=8, fails=2)
    assert Counter(v.verdict for v in judged) == expected
    assert {v.id for v in judged if v.verdict == "fails"} == {"bsce-c20", "bsce-c21"}
    beyond = []
    for v in found:
        assert v.verdict in claims.VERDICTS and v.why
        if v.verdict != "needs data":
            continue
        if not v.command:
            beyond.append(v.id)
            assert "record" in v.why
        for command in filter(None, v.command.split(" && ")):
            options = cli._parser().parse_args(shlex.split(command)[1:])
            assert cli._selected(options)
    # Collected test sets, weights, pretrained networks; this edition has no shifted test sets.
    assert len(beyond) == 8 and "fmfp-c21" in beyond


def test_the_commands_bring_exactly_what_is_missing(cache):
    """Records of the runs that the commands select, and no others, leave no claim without data."""
    commands = {
        command
        for v in claims.evaluate("smoke", "digits")
        for command in filter(None, v.command.split(" && "))
    }
    parser = cli._parser()
    runs = {
        run: None
        for command in commands
        for run in cli._selected(parser.parse_args(shlex.split(command)[1:]))
    }
    for run in runs:
        records.write(run, n=5000 if run.dataset == "gaussians" else 60, k=5)
    found = claims.evaluate("smoke", "digits")
    assert [v.id for v in found if v.verdict == "needs data" and v.command] == []
    assert Counter(v.verdict for v in found)["needs data"] == 8
    assert not any("nan" in v.why for v in found)


SHIFTED = {"dataset": "fashion_mnist", "network": "cnn", "edition": "fashion"}


def test_a_claim_about_shift_is_judged_on_the_shifts_of_the_records(cache):
    before = verdict("fmfp-c21", **SHIFTED)
    assert before.verdict == "needs data" and "calibkit train --edition fashion" in before.command
    for method, separation in (("erm", 0.5), ("crl", 2.0), ("fmfp", 3.5)):
        for run in grid.select("fashion", [method]):
            records.write(run, separation=separation)
    found = verdict("fmfp-c21", **SHIFTED)
    assert found.verdict == "holds" and found.seeds == 5 and found.n == 400
    assert "shifted:" in found.comparison
    shifted = Evidence("fashion")
    run = grid.select("fashion", ["crl"])[1]
    record = shifted.models("crl", Who(("crl",)), "ece")[1].record
    assert record.name == run.name and len(record.shifted["auroc"]) == 4
    value = shifted.series(Who.read("crl"), "shifted:auroc")[1]
    assert value == pytest.approx(record.shifted["auroc"].mean())
    assert value < record.history["auroc"][-1]
    scaled = shifted.series(Who.read("ts"), "shifted:ece")
    assert scaled == shifted.series(Who.read("erm"), "shifted:ece_scaled")


def test_records_without_shifted_test_sets_cannot_judge_shift():
    write("erm", "crl", "fmfp")
    found = verdict("fmfp-c21")
    assert found.verdict == "needs data" and not found.command
    assert "records of this edition hold no shifted test sets of digits" in found.why
    for run in grid.select("fashion", ["erm", "crl", "fmfp"], "20newsgroups", "mlp"):
        records.write(run, shifts=())  # asked for, but texts have none
    found = verdict("fmfp-c21", edition="fashion", dataset="20newsgroups", network="mlp")
    assert "no shifted test sets of 20newsgroups" in found.why


def test_scores_are_read_from_runs_which_keep_them():
    write("erm", "fmfp", separation=0.5)
    before = verdict("darkside-c13")
    assert before.verdict == "needs data"
    assert before.command.endswith("--method 'erm' --dataset digits --set scores=True")
    assert "no record of erm with scores on digits, mlp" in before.why
    runs = grid.select("smoke", ["erm"], "digits", settings={"scores": True})
    for run in runs:
        records.write(run, separation=0.5)
    assert verdict("darkside-c13").verdict != "needs data"
    found = Evidence("smoke", "digits")
    model = found.models("trust_score", Who(("trust_score",)), "auroc")[0]
    (confidence, correct) = model.samples["confidence"], model.samples["correct"]
    assert model.record.name == runs[0].name
    assert confidence.max() > 1  # no probability, so another array than the usual one
    assert found.series(Who.read("trust_score"), "auroc")[0] == pytest.approx(
        metrics.auroc(confidence, correct)
    )
    own = model.record.arrays["test_confidnet"].astype(float)
    bins = np.clip(np.ceil(own * 15), 1, 15)
    by_hand = sum(abs((own - correct)[bins == b].sum()) / len(own) for b in range(1, 16))
    assert found.series(Who.read("confidnet"), "ece")[0] == pytest.approx(by_hand)


def test_the_bootstrap_of_scores_is_that_of_probabilities_where_both_exist():
    for run in grid.select("smoke", ["erm"], "digits", seeds=1, settings={"scores": True}):
        record = records.write(run)
    write("erm", "mixup", seeds=1, separation=2.0)
    usual = Evidence("smoke", "digits")
    models = [usual.models(m, Who((m,)), "auroc")[0] for m in ("erm", "mixup")]
    found = evidence._resampled(models, "auroc")
    logits = [m.logits for m in models]
    expected = stats.compare(*logits, models[0].labels, ["auroc"], n=200)["auroc"]
    assert found.estimate == pytest.approx(expected.estimate)
    assert found.low == pytest.approx(expected.low, abs=0.01)
    assert found.high == pytest.approx(expected.high, abs=0.01)
    n, half = usual.samples([Who(("mixup",)), Who(("confidnet",))], "auroc")
    assert n == len(record.arrays["test_labels"]) and 0 < half < 0.2


def test_runs_of_another_variant_or_setting_are_no_evidence():
    """A record of the same method, data and seed counts only if its protocol is the edition's."""
    for changed in ({"variant": "paper"}, {"settings": dict(grid.SUMMED)}, {"epochs": 3}):
        for run in grid.select("smoke", ["erm", "fmfp"], "digits", **changed):
            records.write(run)
    for run in grid.select("smoke", ["erm"], "digits", settings={"scores": True}):
        records.write(run)
    found = verdict("fmfp-c16")
    assert found.verdict == "needs data"
    write("erm", separation=0.5)
    write("fmfp", separation=3.0)
    found = verdict("fmfp-c16")
    assert (found.verdict, found.seeds) == ("holds", 2)
    plain = {run.name for run in grid.select("smoke", ["erm", "fmfp"], "digits")}
    models = Evidence("smoke", "digits")
    used = {
        model.record.name
        for method in ("erm", "fmfp")
        for model in models.models(method, Who((method,)), "auroc").values()
    }
    assert used == plain


def test_verdicts_on_runs_of_another_setting_are_their_own(capsys):
    write("erm", separation=0.5)
    write("fmfp", separation=3.0)
    for name, separation in (("erm", 3.0), ("fmfp", 0.5)):
        for run in grid.select("smoke", [name], "digits", settings=dict(grid.SUMMED)):
            records.write(run, separation=separation)
    summed = claims.evaluate("smoke", "digits", "mlp", "fmfp", settings=dict(grid.SUMMED))
    found = {claim.id: claim for claim in summed}["fmfp-c16"]
    assert (verdict("fmfp-c16").verdict, found.verdict) == ("holds", "fails")
    lacking = next(c for c in summed if c.command and "fmfp" in c.command).command
    assert "--set reduction=sum --set clip_norm=2.0" in lacking
    chosen = ["--edition", "smoke", "--dataset", "digits", "--paper", "fmfp"]
    assert cli.main(["claims", *chosen, "--set", "reduction=sum", "--set", "clip_norm=2.0"]) == 0
    assert re.search(r"^fails +fmfp-c16 ", capsys.readouterr().out, re.M)


def test_wrong_names_are_refused():
    with pytest.raises(ValueError, match="did you mean 'demo'"):
        claims.evaluate("demmo")
    with pytest.raises(ValueError, match="unknown paper 'mixupp'"):
        claims.evaluate("smoke", paper="mixupp")


def test_command_line(capsys):
    assert cli.main(["claims", "--edition", "smoke", "--paper", "mixup"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert re.match(r"needs data +mixup-c01 ", lines[0])
    assert lines[-1] == "15 claims: 2 holds, 0 fails, 0 inconclusive, 13 needs data"
    assert cli.main(["claims", "--paper", "nobody"]) == 2


# --- metrics by seed ------------------------------------------------------------------------------


def series(metric, who="erm", **where):
    return Evidence("smoke", "digits", **where).series(Who.read(who), metric)


def test_change_since_the_best_epoch_is_judged_by_the_other_seed():
    curves = {0: [0.1, 0.9, 0.5, 0.5, 0.5, 0.5, 0.4], 1: [0.2, 0.3, 0.8, 0.5, 0.5, 0.5, 0.6]}
    for run in grid.select("smoke", ["erm"], "digits"):
        records.write(run, auroc=curves[run.seed], accuracy=[0, 1, 2, 3, 4, 5, 6])
    # Seed 0 looks at the third epoch, seed 1 at the second.
    assert series("since_best:auroc:auroc") == pytest.approx({0: 0.4 - 0.5, 1: 0.6 - 0.3})
    assert series("since_best:auroc:accuracy") == {0: 4.0, 1: 5.0}
    low = {0: [5, 1, 2, 2, 2, 2, 2], 1: [5, 2, 1, 2, 2, 2, 3]}
    for run in grid.select("smoke", ["sam"], "digits"):
        records.write(run, ece_optimal=low[run.seed])
    assert series("since_best:ece_optimal:ece_optimal", "sam") == {0: 0.0, 1: 1.0}


def test_periods_of_the_history():
    for run in grid.select("smoke", ["erm"], "digits", seeds=1):
        records.write(run, ece=[1, 2, 3, 4, 5, 6, 7])
    assert series("ece") == {0: 7.0}
    assert series("late:ece") == {0: 6.5}  # after 5.25 of 7 epochs
    assert series("settled:ece") == {0: 4.0}
    assert series("second_rate:ece") == {0: 3.5} and series("third_rate:ece") == {0: 6.0}


def test_differences_ratios_and_maps():
    write("erm", sharpness=3.0)
    write("mixup", sharpness=1.0)
    erm, mixup = series("ece"), series("ece", "mixup")
    assert series("ece", "erm - mixup") == {s: erm[s] - mixup[s] for s in (0, 1)}
    assert series("seconds", "erm / mixup") == {0: 1.0, 1: 1.0}
    assert series("ece", "ts") == series("ece_scaled")
    models = Evidence("smoke", "digits").models("erm", Who(("erm",)), "ece")
    history = models[0].record.history
    assert series("ece_scaled")[0] == pytest.approx(history["ece_scaled"][-1], rel=1e-4)
    assert series("ece_optimal")[0] == pytest.approx(history["ece_optimal"][-1], rel=1e-4)
    assert series("accuracy", "ts_test") == series("accuracy")
    few, most = series("ece_binned@20"), series("ece_binned")
    assert few != most and all(v < erm[s] for s, v in most.items())


def test_metrics_which_only_claims_ask_for():
    write("erm", seeds=1)
    model = Evidence("smoke", "digits").models("erm", Who(("erm",)), "ece")[0]
    confidence, correct = model.samples["confidence"], model.samples["correct"]
    assert series("confidence_wrong")[0] == pytest.approx(confidence[~correct].mean())
    assert series("sure_when_wrong")[0] == (confidence[~correct] > 0.95).sum() / (~correct).sum()
    low = confidence < 0.5
    assert series("overconfidence_below_half")[0] == pytest.approx(
        confidence[low].mean() - correct[low].mean()
    )
    order = np.argsort(-confidence, kind="stable")[:200]
    assert series("risk_at_coverage_0.5")[0] == pytest.approx(1 - correct[order].mean())
    gap = series("ece_correct")[0] + series("confidence_gap")[0]
    assert series("confidence_wrong")[0] == pytest.approx(1 - gap, rel=1e-5)
    assert series("gradient_follows_brier")[0] > 0.8  # so the records were made


def test_lowest_coefficient():
    for gamma, sharpness in ((1, 4.0), (3, 0.5), (5, 3.0)):
        write(f"focal(gamma={gamma})", sharpness=sharpness, separation=2.0, right=0.6)
    eces = {g: series("ece", f"focal(gamma={g})") for g in (1, 3, 5)}
    assert series("lowest:ece", "focal(gamma=1|3|5)") == {
        s: min(eces, key=lambda g: eces[g][s]) for s in (0, 1)
    }


def test_who():
    who = Who.read("erm - label_smoothing(epsilon=0.01) @ cifar100/resnet50")
    assert (who.methods, who.operator) == (("erm", "label_smoothing(epsilon=0.01)"), "-")
    assert (who.dataset, who.network) == ("cifar100", "resnet50")
    assert str(who) == "erm - label_smoothing(epsilon=0.01) on cifar100, resnet50"
    assert who.at_defaults().methods == ("erm", "label_smoothing")
    assert Who.read("focal(gamma=3)+sam").at_defaults().methods == ("focal+sam",)
    choices = Who.read("mixup(alpha=0.1|1)").choices()
    assert choices == {"mixup(alpha=0.1)": 0.1, "mixup(alpha=1)": 1.0}
    assert Who.read("mit_a(alpha=0.1,margin=0)").choices().keys() == {"mit_a(alpha=0.1,margin=0)"}


def test_learning_rates_count_their_drops():
    rates = np.array([0.1, 0.1, 0.02, 0.02, 0.004])
    assert evidence._rates({"learning_rate": rates}).tolist() == [0, 0, 1, 1, 2]


# --- mathematics ----------------------------------------------------------------------------------


def test_derivations_against_closed_forms():
    fixed = 1 / (1 + (0.3 / 0.7) ** (1 / 3))  # of 0.7 (1-q)^3 = 0.3 q^3
    assert derivations.gradient_weight_bias() == pytest.approx(0.7 - fixed, abs=1e-6)
    assert derivations.focal_factor_peak() == pytest.approx(np.exp(-2), abs=1e-6)  # γ = 1
    assert derivations.inverse_focal_slope() == pytest.approx(1, abs=1e-3)
    assert derivations.weight_axes() == 0
    assert derivations.ternary_brier() > 0.1 > derivations.binary_brier()
