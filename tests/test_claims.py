"""What a claim is said to be follows from records: it changes when they do, and says what lacks."""

import html
import json
import re
from dataclasses import replace
from importlib.resources import files
from math import isnan, nan
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.stats import t as student

from calibkit import cli, stats, terms
from calibkit_companion import claims, results
from calibkit_companion.claims import (
    cases,
    derivations,
    judging,
    margins,
    power,
    preconditions,
    settings,
    verdict,
    words,
)
from calibkit_companion.claims.claim import read
from calibkit_companion.claims.verdict import Comparison, Computed, Joined, Part, Side
from calibkit_companion.experiments import papers, plan
from calibkit_companion.experiments.method import parse
from calibkit_companion.records import folders
from calibkit_companion.results import derived, printed
from calibkit_companion.results.measure import SCORES
from calibkit_companion.results.number import Number
from tests import records


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("CALIBKIT_CACHE", str(tmp_path))
    # Made records keep no replicates; a few make the same outcomes in a tenth of the time.
    records.few_replicates(monkeypatch, 20)
    return tmp_path


def write(*methods, edition="smoke", seeds=2, train_size=0, **kind):
    for run in plan.Selection(edition, dataset="digits", seeds=seeds, train_size=train_size).runs(
        methods
    ):
        records.write(run, **kind)


def place(edition="smoke", **where):
    runs = results.Results(plan.Selection(edition, dataset="digits", **where), train=False)
    return settings.Place("shared", runs, "digits", "Digits")


def judged(identity, where=None, **changed):
    """The row of a claim on the records that were written; `changed` are fields of the claim."""
    claim = replace(by_id(identity), **changed)
    (row,) = judging._rows(claim, [where or place()])
    return row


def by_id(identity):
    return next(claim for claim in claims.claims() if claim.id == identity)


def raw():
    for paper in plan.PAPERS:
        path = files("calibkit_companion") / "experiments/papers" / f"{paper}.json"
        yield from json.loads(path.read_text("utf-8"))


# --- the claims as data ---------------------------------------------------------------------------


def test_every_claim_is_there_once_and_names_known_exhibits():
    found = claims.claims()
    assert [claim.id for claim in found] == [entry["id"] for entry in raw()]
    for paper in plan.PAPERS:
        its = [claim.id for claim in claims.claims(paper)]
        assert its == [f"{paper}-c{i + 1:02}" for i in range(len(its))]
    known = {line["id"] for line in papers.ledger("exhibits.csv")}
    for claim in found:
        assert claim.exhibits and {*claim.exhibits, *claim.tables} <= known
        assert all(e.startswith(claim.paper) for e in claim.exhibits)
        assert len(claim.statement) > 30 and claim.support
        assert claim.across in verdict.QUANTIFIERS
        assert claim.untested or list(claim.check.leaves())


def test_checks_are_made_of_known_parts():
    for claim in claims.claims():
        for leaf in claim.check.leaves():
            assert leaf.side in verdict.SIDES and leaf.margin >= 0
            if isinstance(leaf, Computed):
                assert callable(getattr(derivations, leaf.name)) and leaf.says
                continue
            for side in leaf.sides:
                assert all(parse(method) for method in side.methods)
                number = side.number
                assert number.recalibration in ("none", "ts_nll", "ts_ece", "ts_test", "binned")
                assert number.score in ("max_probability", *SCORES)
                assert number.test_set in ("clean", "shifted", "collected")
                known = {**terms.METRICS, **derived.METRICS, **derived.OF_RECORD}
                assert number.metric in known or number.metric.startswith("risk_at_coverage_")


@pytest.mark.parametrize(
    ("changed", "complaint"),
    [
        ({"marginn": 1}, "fmfp-c16: unknown key 'marginn'"),
        ({"check": {"metric": "auroc", "off": "sam"}}, "fmfp-c16: unknown key 'off'"),
        (
            {"check": {"metric": "auroc", "of": {"metod": "sam"}, "is": "above", "than": "erm"}},
            "unknown key 'metod'",
        ),
        ({"presumes": {"overconfidence": True}}, "unknown key 'overconfidence'"),
        ({"across": "some"}, "fmfp-c16: unknown quantifier 'some'"),
        (
            {"check": {"metric": "auroc", "of": "sam", "is": "up", "than": "erm"}},
            "unknown side 'up'",
        ),
    ],
)
def test_no_key_of_the_data_is_ignored(changed, complaint):
    """A misspelt field would change a claim silently."""
    entry = next(entry for entry in raw() if entry["id"] == "fmfp-c16")
    assert read(entry, "fmfp").comparisons == by_id("fmfp-c16").comparisons
    with pytest.raises(ValueError, match=re.escape(complaint)):
        read(entry | changed, "fmfp")


def test_no_machine_name_reaches_a_reader():
    for claim in claims.claims():
        for leaf in claim.comparisons:
            said = words.described(leaf)
            assert not re.search(r"[a-z]_[a-z]|[a-z]:[a-z]|@", said), said
            assert said[0].isupper()


# --- the margins, and the papers' own tables ------------------------------------------------------


def test_margins_are_those_of_the_rule():
    """Written down with the claims, so that a look at outcomes cannot move them."""
    stated = {entry["id"] for entry in raw() if '"by": ' in json.dumps(entry)}
    for claim in claims.claims():
        for leaf in claim.comparisons:
            if claim.id not in stated:
                assert leaf.margin == margins.by_rule(claim, leaf), (claim.id, leaf)
    assert len(stated) < 5  # where its support says why


def leaf_of(identity, metric, **fields):
    its = by_id(identity).comparisons
    wanted = dict(metric=metric, **fields)
    return next(x for x in its if all(getattr(x.first.number, k) == v for k, v in wanted.items()))


def margin(identity, metric, **fields):
    return margins.by_rule(by_id(identity), leaf_of(identity, metric, **fields))


def test_margins_by_hand():
    cells = printed.cells("fmfp-tab2")
    auroc = cells[cells.metric == "auroc"].set_index(["dataset", "network", "method"]).value
    gains = auroc.xs("fmfp", level="method") - auroc.xs("erm", level="method")
    half = margin("fmfp-c16", "auroc")  # FMFP above plain training: by the effect
    assert half == pytest.approx(min(gains) / 2, abs=1e-5) and half > 0.004
    # By the printed ±, where no harm is claimed.
    cells = printed.cells().query("paper == 'fmfp'")
    table = cells[cells.exhibit.isin(["fmfp-tab1", "fmfp-tab4"]) & (cells.metric == "auroc")]
    assert margin("fmfp-c01", "auroc") == pytest.approx(0.0035, abs=2e-4)
    assert 0.0025 < table["std"].median() < 0.0045
    # Parity without a printed ±: as much as the paper itself calls competitive.
    assert margin("bsce-c05", "accuracy") == 0.0039
    assert margin("darkside-c04", "auroc") == 0.0076
    assert margin("fmfp-c18", "confidence_gap") == 0.005  # printed nowhere
    # AURC is the mean risk over coverages: half a point would be more than mixup adds to it.
    aurc = cells[cells.metric == "aurc"]["std"].median()
    risk = margin("fmfp-c07", "risk_at_coverage_0.7")
    assert risk == pytest.approx(aurc, rel=0.05) and risk < 0.005
    scaled = printed.cells().query("paper == 'overconf'")
    scaled = scaled[scaled.metric == "ece_scaled"]["std"].median()
    for identity, after in (("overconf-c08", "ts_ece"), ("overconf-c09", "ts_test")):
        assert margin(identity, "ece", recalibration=after) == pytest.approx(scaled)


def test_right_predictions_may_lose_what_the_papers_own_lose():
    """The ECE and the accuracy that AURC and E-AURC imply give mean confidence: 97.9, 94.8 %."""
    cells = printed.table("fmfp-tab2", "cifar10", "resnet110")

    def confidence(method):
        best = cells.aurc[method] - cells.eaurc[method]  # of a perfect ranking
        errors = np.linspace(0.01, 0.2, 100_000)
        error = errors[np.argmin(np.abs(errors + (1 - errors) * np.log1p(-errors) - best))]
        return 1 - error + cells.ece[method]

    leaf = leaf_of("fmfp-c18", "confidence_correct")
    assert leaf.margin == pytest.approx(confidence("erm") - confidence("fmfp"), abs=5e-4)


# Rules that the paper's own printed numbers fail, or too few of its places: what that says.
EXCEPTIONS = {
    "darkside-c03": "6 of 7: focal loss is lower on ImageNet",
    "darkside-c05": "3 of 6: the words say more than the table",
}


def test_every_rule_was_put_to_the_papers_own_cells():
    found = {claim.id: claims.printed(claim) for claim in claims.claims()}
    failing = {i: p for i, p in found.items() if p.places and not p.bears}
    assert failing.keys() == EXCEPTIONS.keys()
    for identity, own in failing.items():
        assert EXCEPTIONS[identity].startswith(f"{own.held} of {own.places}")
    for claim in claims.claims():
        assert bool(claim.exception) == (claim.id in EXCEPTIONS)
        own = found[claim.id]
        assert own.held <= own.places
        assert own.outcome in (*claims.OUTCOMES, "no ±", "not printed")
    counted = {i: (p.held, p.places) for i, p in found.items()}
    assert counted["fmfp-c16"] == (8, 8) and counted["darkside-c09"] == (3, 6)
    assert counted["bsce-c01"] == (8, 9) and counted["bsce-c02"] == (5, 9)
    assert counted["bsce-c13"][1] == 36  # nine settings, four metrics


def test_a_printed_spread_leaves_unclear_what_printed_means_decide():
    """Three runs of ± 0.6 points do not tell 90.70 from 90.76 %."""
    found = claims.printed(by_id("fmfp-c20"))
    assert found.held == 8 and found.outcome == "unclear"
    found = claims.printed(by_id("fmfp-c16"))
    assert found.held == 8 and found.outcome == "holds"
    assert claims.printed(by_id("bsce-c01")).outcome == "no ±"
    assert str(claims.printed(by_id("fmfp-c07"))) == "not printed"


# --- the rule -------------------------------------------------------------------------------------


def part(differences, side="above", by=0.0, **more):
    leaf = Comparison(Side("fmfp", Number("auroc")), Side("erm", Number("auroc")), side, by)
    return Part(leaf, stats.mean_over_seeds(differences or [nan]).interval, **more)


@pytest.mark.parametrize(
    ("differences", "side", "by", "expected"),
    [
        ([1.0, 1.1, 0.9], "above", 0, "holds"),
        ([1.0, 1.1, 0.9], "below", 0, "reversed"),
        ([-1.0, 1.1, 0.9], "above", 0, "unclear"),
        ([1.0, 1.1, 0.9], "above", 2, "falls short"),  # clear, and within the margin
        ([1.0, 1.1, 0.9], "above", 1, "holds"),
        # Moving away from what is claimed never makes a refuted claim unclear.
        ([0.0, 0.1, -0.1], "below", 0.4, "falls short"),
        ([0.2, 0.3, 0.1], "below", 0.4, "falls short"),
        ([-0.2, -0.3, -0.1], "above", 0.4, "falls short"),
        ([0.2, 0.3, 0.1], "below", 0.01, "unclear"),
        ([1.0, 1.1, 0.9], "below", 0.4, "reversed"),
        ([0.01, 0.011], "near", 0.1, "holds"),
        ([0.2, 0.201], "near", 0.1, "reversed"),
        ([0.01, 0.011], "at most", 0.1, "holds"),
        ([0.0, 0.0], "at most", 0, "holds"),
        ([0.0, 0.0], "near", 0, "holds"),
        ([-0.01, -0.011], "at least", 0.1, "holds"),
        ([0.2, 0.201], "at most", 0.1, "reversed"),
        ([-0.05, 0.15, 0.3], "at most", 0.1, "unclear"),
        ([1.0], "above", 0, "unclear"),
        ([], "above", 0, "unclear"),
    ],
)
def test_a_comparison_is_judged_by_its_interval(differences, side, by, expected):
    assert part(differences, side, by).word() == expected
    other = {"above": "below", "below": "above", "at most": "at least", "at least": "at most"}
    mirrored = [-d for d in differences]
    assert part(mirrored, other.get(side, side), by).word() == expected


def test_what_is_clear_in_the_claimed_direction_is_never_reversed():
    rng = np.random.default_rng(0)
    for _ in range(500):
        low, width, by = rng.uniform(0, 1), rng.uniform(0, 1), rng.uniform(0, 1)
        interval = stats.Interval(low + width / 2, low + 1e-9, low + width)
        found = verdict.word(interval, "above", by)
        assert found == ("holds" if interval.high > by else "falls short")
        assert verdict.word(interval, "above", by) in ("holds", "falls short")
        # The word of a page and that of a claim agree on where the difference lies.
        page = interval.outcome(by)
        assert (page == "higher") == (found == "holds")


YES, NO, OPEN, SMALL = [1.0, 1.01], [-1.0, -1.01], [-1.0, 1.0], [0.0, 0.01]


@pytest.mark.parametrize(
    ("quantifier", "parts", "expected"),
    [
        ("all", [YES, YES], "holds"),
        ("all", [YES, NO], "reversed"),
        ("all", [YES, SMALL], "falls short"),
        ("all", [SMALL, NO], "reversed"),
        ("all", [YES, OPEN], "unclear"),
        ("any", [YES, NO], "holds"),
        ("any", [NO, NO], "reversed"),
        ("any", [NO, SMALL], "falls short"),
        ("any", [NO, OPEN], "unclear"),
        ("most", [YES, YES, NO], "holds"),
        ("most", [YES, NO], "reversed"),
        ("most", [YES, NO, SMALL], "falls short"),
        ("most", [YES, OPEN, OPEN], "unclear"),
        ("nearly all", [YES, YES, YES, YES, NO], "holds"),
        ("nearly all", [YES, YES, YES, NO, NO], "reversed"),
        ("nearly all", [YES, YES, YES, OPEN, NO], "unclear"),
        ("all", [YES, None], "not tested"),
        ("all", [NO, None], "reversed"),
        ("any", [YES, None], "holds"),
        ("most", [YES, YES, None], "holds"),
        ("most", [YES, None, None], "not tested"),
    ],
)
def test_quantifiers(quantifier, parts, expected):
    leaves = [part(p, by=0.2) if p else part([], lacks=("no run of", "X")) for p in parts]
    join = Joined(quantifier, leaves)
    assert join.word() == expected
    assert any(join.deciding() is leaf for leaf in leaves)
    if expected in ("reversed", "holds"):
        assert join.deciding().word() == expected


def just(sign):
    """A comparison that the usual level tells, and half of it does not."""
    found = Part(part(YES).leaf, stats.MeanOverSeeds(sign * 2.1, 1.0, 1e-6, 20, 19.0).interval)
    assert found.word(0.05) != "unclear" and found.word(0.025) == "unclear"
    return found


@pytest.mark.parametrize(
    ("quantifier", "parts", "expected"),
    [
        ("all", [just(1), just(1)], "holds"),  # every one has to: the usual level
        ("all", [part(YES), just(-1)], "unclear"),  # one fails for all
        ("any", [part(NO), just(1)], "unclear"),
        ("any", [just(-1), just(-1)], "reversed"),
        ("most", [part(YES), just(1), part(NO)], "unclear"),  # any two of three would do
        ("most", [part(YES), part(YES), just(-1)], "holds"),
        ("nearly all", [part(YES)] * 3 + [just(1), part(NO)], "unclear"),
    ],
)
def test_the_fewer_decide_the_more_strictly_they_are_judged(quantifier, parts, expected):
    assert Joined(quantifier, parts).word() == expected


def test_a_wrong_majority_is_as_rare_as_the_level_says():
    """Three of six hold for sure, three are nothing: most of them do not hold."""
    rng, wrong, trials = np.random.default_rng(0), 0, 2000
    leaf = part(YES).leaf
    of = lambda estimate: Part(leaf, stats.MeanOverSeeds(estimate, 1.0, 1e-9, 20, 19.0).interval)  # noqa: E731
    for _ in range(trials):
        parts = [of(99.0)] * 3 + [of(z) for z in rng.normal(size=3)]
        wrong += Joined("most", parts).word() == "holds"
    assert wrong / trials < 0.04  # 0.025 on one side; 0.07 if each had the usual level


OUT = "left out"


@pytest.mark.parametrize(
    ("quantifier", "parts", "expected"),
    [
        ("most", [YES, YES, YES, OUT, OUT], "holds"),  # three of five, whoever is left
        ("most", [YES, YES, NO, OUT, OUT], "unclear"),
        ("most", [NO, NO, NO, OUT, OUT], "reversed"),
        ("most", [NO, NO, OUT, OUT, OUT], "unclear"),
        ("nearly all", [YES, YES, YES, YES, OUT], "holds"),
        ("nearly all", [YES, YES, YES, OUT, OUT], "unclear"),
        ("nearly all", [NO, NO, YES, OUT, OUT], "reversed"),
        ("all", [YES, OUT], "holds"),  # every one that is left
        ("all", [NO, OUT], "reversed"),
        ("any", [NO, OUT], "reversed"),
        ("all", [OUT, OUT], "unclear"),
        # Without runs: the count is out of reach by that alone, or not.
        ("most", [YES, OPEN, OPEN, None, None], "unclear"),
        ("most", [YES, YES, None, None, None], "not tested"),
        ("most", [YES, YES, OUT, None, None], "unclear"),
        ("nearly all", [YES, YES, YES, None, None], "not tested"),
        ("any", [OPEN, None], "unclear"),
        ("any", [NO, None], "not tested"),  # what could still make it hold was not run
        ("all", [YES, OUT, None], "not tested"),
    ],
)
def test_what_is_left_out_counts_for_neither_side(quantifier, parts, expected):
    made = [
        part(YES, left_out=True)
        if p is OUT
        else part(p, by=0.2)
        if p
        else part([], lacks=("no run of", "X"))
        for p in parts
    ]
    assert Joined(quantifier, made).word() == expected
    # The same from the other side: what is claimed and what is denied change places.
    turned = {"holds": "reversed", "reversed": "holds"}
    if quantifier == "most" and len(parts) % 2 and None not in parts:
        for p in made:
            p.leaf = replace(p.leaf, side="below")
        assert Joined(quantifier, made).word() == turned.get(expected, expected)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ([YES, (YES, True)], ("holds", "holds", "holds")),
        ([YES, (NO, True)], ("unclear", "reversed", "holds")),
        ([NO, (YES, True)], ("reversed", "reversed", "reversed")),
        ([(YES, True)], ("unclear", "holds", "unclear")),
        ([YES, (NO, False)], ("unclear (precondition)", "reversed", "holds")),
        ([YES, (YES, False)], ("holds", "holds", "holds")),
        ([OPEN, (OPEN, False)], ("unclear", "unclear", "unclear")),
        ([OPEN, (NO, False)], ("unclear (precondition)", "reversed", "unclear")),
        ([YES, None, (OPEN, True)], ("not tested", "not tested", "not tested")),
    ],
)
def test_a_word_stands_with_and_without_those_in_doubt(words, expected):
    parts = []
    for p in words:
        its, sure = p if isinstance(p, tuple) else (p, None)
        doubted = () if sure is None else (verdict.Doubt("ECE not lowered", "X", sure),)
        lacks = None if its else ("no run of", "X")
        parts.append(part(its, by=0.2, doubts=doubted, lacks=lacks))
    found = cases.judge(Joined("all", tuple(parts)))
    assert found[:3] == expected


def test_each_of_several_looks_is_stricter():
    interval = stats.MeanOverSeeds(2.1, 1.0, 1e-6, 20, 19.0).interval  # p = 0.036
    once, often = (Part(part(YES).leaf, interval, looks=looks) for looks in (1, 2))
    assert once.word() == "holds" and often.word() == "unclear"  # each of two: 0.029
    assert Joined("all", (often,)).word() == "unclear"


def test_the_seeds_that_would_decide_are_those_that_do_in_four_of_five_cases():
    rng, spread = np.random.default_rng(0), 1.0
    mean = stats.MeanOverSeeds(0.7, 0.0, spread**2, 4, 3.0)
    open_ = Part(part(YES).leaf, mean.interval, 4, mean=mean)
    k = power.seeds_needed(open_)
    drawn = rng.normal(0.7, spread, size=(4000, k))
    t = drawn.mean(axis=1) / (drawn.std(axis=1, ddof=1) / k**0.5)
    share = np.mean(t > student.ppf(0.975, k - 1))
    assert 0.76 < share < 0.88 and 12 < k < 30
    assert power.seeds_needed(replace(open_, looks=3)) > k
    assert power.seeds_needed(replace(open_, mean=None)) == 0
    sure = stats.MeanOverSeeds(9.0, 0.0, 1.0, 4, 3.0)
    assert power.seeds_needed(Part(open_.leaf, sure.interval, 4, mean=sure)) == 0  # decided
    hopeless = stats.MeanOverSeeds(0.7, 4.0, 1.0, 4, 3.0)  # the test set alone leaves it open
    assert power.seeds_needed(Part(open_.leaf, hopeless.interval, 4, mean=hopeless)) == 0


def test_a_column_that_is_decided_hands_its_share_on():
    """Holm's rule: of three columns two are sure, so the third has all of the five per cent."""
    where = place()
    sure, nearly = part(YES), just(1)

    def share(*parts):
        its = [
            cases.Case(replace(where, column=str(i)), Joined("all", (p,)))
            for i, p in enumerate(parts)
        ]
        return [*cases.shares(its).values()]

    assert share(sure, sure, nearly) == pytest.approx([0.05 / 3, 0.05 / 3, 0.05])
    assert share(sure, nearly, nearly) == pytest.approx([0.05 / 3, 0.025, 0.025])
    assert share(nearly, nearly) == pytest.approx([0.025, 0.025])


def test_a_paper_is_judged_by_its_own_coefficients():
    claim = by_id("overconf-c07")
    of = lambda data: {leaf.first.method for leaf in claim.check_on(data).leaves()}  # noqa: E731
    assert of("cifar10") == {"label_smoothing", "l1_norm(strength=0.05)"}  # its table 1
    assert of("20newsgroups") == {"label_smoothing(epsilon=0.09)", "l1_norm"}
    assert of("fashion_mnist") == {"label_smoothing", "l1_norm"}  # not in the paper
    assert by_id("fmfp-c01").check_on("cifar10") == by_id("fmfp-c01").check


def test_the_deciding_comparison():
    strong, weak = part([2.0, 2.01]), part([0.5, 0.52])
    assert Joined("all", [strong, weak]).deciding() is weak
    assert Joined("any", [strong, weak]).deciding() is strong
    assert Joined("most", [weak, part(NO), strong]).deciding() is weak
    for quantifier, parts in (("all", [strong, OPEN, weak]), ("most", [strong, NO, OPEN])):
        parts = [p if isinstance(p, Part) else part(p) for p in parts]
        assert Joined(quantifier, parts).deciding().interval().estimate == 0


def test_of_an_undecided_claim_what_goes_against_it_is_shown_first():
    """By itself it is reversed; among three that have to hold it is not clear enough."""
    against, weak = part([-0.45, -0.4, -0.25]), part([0.2, 0.3, 0.1])
    assert against.word() == "reversed" and weak.word() == "unclear"
    parts = [part([0.3, 0.6, 0.4]), weak, against]
    assert Joined("all", parts).word() == "unclear"  # one of three: at 0.05 / 3
    assert Joined("all", parts).deciding() is against
    assert Joined("all", parts[:2]).deciding() is weak


def test_an_undecided_claim_shows_what_keeps_it_open():
    """Of what is not clear enough, first what is unclear at 95 %, then at the level given."""
    yes, no, weak, weaker = part(YES), part(NO), part([0.3, 0.5, 0.4]), part([0.3, 0.6, 0.4])
    unclear = part([0.2, 0.3, -0.3])
    some = Joined("nearly all", [yes, yes, no, weaker, unclear])
    assert some.word() == "unclear" and weaker.word(0.05 / 2) == "unclear"
    assert weaker.word() == "holds" and some.deciding() is unclear
    some = Joined("nearly all", [yes, yes, no, weak, weaker])
    assert [p.word(0.025) for p in (weak, weaker)] == ["holds", "unclear"]
    assert weak.word(0.025 / 2) == some.word(0.025) == "unclear"
    assert some.deciding(0.025) is weaker and weak.clarity() > weaker.clarity()


def test_nested_quantifiers():
    inner = Joined("all", [part(YES), part(NO)])
    assert Joined("any", [inner, part(YES)]).word() == "holds"
    assert Joined("all", [inner, part(YES)]).word() == "reversed"
    assert len(list(Joined("all", [inner, part(YES)]).leaves())) == 3
    # Each of two has to hold: what one of three decides for its own part has a third of the level.
    some = Joined("any", [part(NO), part(NO), just(1)])
    assert Joined("all", [some, part(YES)]).word() == "unclear"


# --- from records ---------------------------------------------------------------------------------


def test_an_outcome_turns_with_the_records():
    free = {"presumes": {}}  # made networks are as over-confident as they come
    write("erm", separation=0.5)
    write("fmfp", separation=3.0)
    found = judged("fmfp-c16", **free)
    assert (found.outcome, found.seeds, found.setting) == ("holds", 2, "shared")
    assert found.estimate > 0.1
    assert found.comparison == "AUROC by log-odds: FMFP minus plain training"
    write("erm", separation=3.0)
    write("fmfp", separation=0.5)
    assert judged("fmfp-c16", **free).outcome == "reversed"
    write("fmfp", separation=3.0)
    assert judged("fmfp-c16", **free).outcome == "falls short"


def test_calibration_errors_are_compared_as_the_papers_print_them():
    write("erm", sharpness=6.0)
    write("fmfp", sharpness=1.0)
    found = judged("fmfp-c17", presumes={})
    rows = place().runs.compare("fmfp", metric=["ece", "excess_ece"])
    leaf = leaf_of("fmfp-c17", "ece")
    mean = place().part(leaf).interval().estimate
    assert mean == pytest.approx(rows["fmfp", "ece"].estimate)
    assert mean != pytest.approx(rows["fmfp", "excess_ece"].estimate) and found.seeds == 2


def test_one_run_alone_tests_nothing():
    write("erm", "fmfp", seeds=1)
    found = judged("fmfp-c16", presumes={})
    assert found.outcome == "not tested" and "one run only" in found.precondition


def test_what_is_missing_is_named():
    write("erm", "mixup")
    found = judged("fmfp-c01")
    assert found.outcome == "not tested"
    assert "no run of label smoothing, focal loss, CS-KD, L1 norm" in found.precondition
    lacks = [its.lacks for its in found.compared()]
    assert lacks[:2] == ["", "no run of label smoothing"]
    assert judged("fmfp-c21").outcome == "not tested"
    assert isnan(found.estimate) and found.seeds == 0 and found.measured == ""


def test_runs_of_another_variant_or_protocol_are_no_evidence():
    for changed in (
        {"variant": "paper"},
        {"protocol": {"reduction": "sum", "clip_norm": 2.0}},
        {"epochs": 3},
    ):
        for run in plan.Selection("smoke", dataset="digits", **changed).runs(["erm", "fmfp"]):
            records.write(run)
    assert judged("fmfp-c16").precondition == "no run of plain training"


def test_test_sets_collected_again_are_no_corruptions():
    (run,) = plan.Selection("released", dataset="digits", seeds=1).runs(["erm"])
    record = records.write(run)
    tables = {"shifted": record.shifted, "collected": dict(record.shifted)}
    tables["collected"]["shift"] = np.array(["cifar10_1"] * len(record.shifted["shift"]))
    tables["collected"] |= {"severity": np.zeros(4), "auroc": np.array([0.5] * 4)}
    both = zip(*(tables[name].items() for name in tables), strict=True)
    tables["all_shifted"] = {k: np.concatenate([one, other]) for (k, one), (_, other) in both}
    made = type("Made", (), {"replicates": record.replicates} | tables)()
    value = lambda where: results.measured(made, Number("auroc", test_set=where))[0]  # noqa: E731
    assert value("collected") == 0.5 == value("cifar10_1-0")
    assert value("shifted") == pytest.approx(record.shifted["auroc"].mean())
    assert isnan(value("cifar10_2-0"))


# --- what a claim presumes ------------------------------------------------------------------------


def with_erm(**kind):
    write("erm", seeds=4, **kind)
    return place(seeds=4)


def doubts(claim, where):
    """What a setting fails of what a claim presumes: the reason, and whether that is sure."""
    return {doubt.why: doubt.sure for doubt in preconditions.of_setting(claim, where)}


@pytest.mark.parametrize(
    ("interval", "found"),
    [
        ((0.5, 0.2, 0.8), True), ((0.05, 0.0, 0.1), False), ((0.2, 0.0, 0.3), None),
        ((0.1, 0.1, 0.1), True), ((0.2, nan, nan), True), ((0.0, nan, nan), False),
    ],
)  # fmt: skip
def test_a_threshold_is_cleared_by_an_interval(interval, found):
    assert (
        preconditions.above(stats.Interval(*interval), 0.1 + 1e-9 * (interval[0] != 0.1)) is found
    )


def test_a_claim_about_overconfidence_needs_an_overconfident_network():
    claim = by_id("fmfp-c16")
    assert claim.presumes == {"overconfident": True}
    timid = with_erm(sharpness=0.0, right=0.99, separation=5.0)
    gap = timid.interval(Side("erm", Number("confidence")), Side("erm", Number("accuracy")))
    assert gap.high < preconditions.overconfidence("fmfp") / 2
    ((why, sure),) = doubts(claim, timid).items()
    assert (
        sure
        and f"over-confident by {gap.format(100, 1)} points; the claim presumes at least" in why
    )
    assert doubts(claim, with_erm(sharpness=6.0, right=0.6)) == {}
    # Half of what its tables print for plain training on CIFAR-10.
    cells = printed.cells().query("paper == 'fmfp'")
    eces = cells[(cells.dataset == "cifar10") & (cells.method == "erm") & (cells.metric == "ece")]
    assert preconditions.overconfidence("fmfp") == pytest.approx(eces.value.median())


@pytest.mark.parametrize(
    ("identity", "learned", "met"),
    [("overconf-c11", 0.96, False), ("overconf-c11", 0.98, True), ("fmfp-c27", 0.98, False)],
)
def test_memorising_is_presumed_or_ruled_out(identity, learned, met):
    write("fmfp", train_accuracy=[learned] * 7)
    where = with_erm(train_accuracy=[learned] * 7)
    assert (doubts(by_id(identity), where) == {}) == met


@pytest.mark.parametrize(("end", "met"), [(0.85, True), (0.899, False), (0.9, False)])
def test_what_heals_a_decay_is_judged_where_there_is_one(end, met, monkeypatch):
    drops = replace(plan.EDITIONS["smoke"].protocols[""], milestones=(1, 3))  # four epochs are left
    monkeypatch.setitem(plan.EDITIONS["smoke"].protocols, "", drops)
    where = with_erm(sharpness=6.0, right=0.6, auroc=[0.9] * 5 + [end] * 2)
    said = [*doubts(by_id("fmfp-c22"), where)]
    assert (not said) == met and all("after the second drop" in why for why in said)


def test_the_weights_of_gradients_are_judged_where_the_loss_is_summed():
    claim = by_id("bsce-c05")
    assert [*doubts(claim, place())] == [
        "its authors sum the loss over the batch, here it is averaged"
    ]
    assert doubts(claim, place(protocol={"reduction": "sum", "clip_norm": 2.0})) == {}


def by_seed(method, name, values, **kind):
    """Records of a method, one for each value of something, which its epochs have if a list."""
    runs = plan.Selection("smoke", dataset="digits", seeds=len(values)).runs([method])
    for run, value in zip(runs, values, strict=True):
        records.write(run, **{name: value}, **kind)


def test_what_a_precondition_on_the_edge_would_decide_is_unclear():
    """Plain training knows 97 % of its training set in one run, and not in the other."""
    claim = replace(by_id("fmfp-c16"), presumes={"memorised": True})
    write("fmfp", separation=3.0)
    for learned, outcome, sure in (
        ((0.98, 0.981), "holds", None),
        ((0.96, 0.961), "not tested", True),
        ((0.96, 0.98), "unclear (precondition)", False),
    ):
        by_seed("erm", "train_accuracy", [[x] * 7 for x in learned], separation=0.5)
        (found,) = judging._rows(claim, [place()])
        assert found.outcome == outcome
        assert [*doubts(claim, place()).values()] == ([] if sure is None else [sure])
    assert found.everything == "holds" and "97 %; whether that is so is open." in found.precondition


WEAK = {"train_accuracy": [0.95] * 7}


def test_a_method_that_does_not_learn_is_marked():
    """Two points behind on the training set and on the test set."""
    write("erm", separation=0.5)
    write("fmfp", separation=3.0, right=0.4, **WEAK)
    found = judged("fmfp-c16", presumes={})
    assert (found.outcome, found.everything, found.without) == ("unclear", "holds", "unclear")
    ((method, why, sure, comparison, measured, alone),) = found.marked
    assert (method, why, sure, alone) == ("FMFP", preconditions.UNFIT, True, "holds")
    assert comparison == "AUROC by log-odds: FMFP minus plain training"
    assert measured == found.measured
    said = "Judged with every method, the claim holds. Judged without FMFP, it is unclear."
    assert said in found.precondition
    (compared,) = found.compared()
    assert compared[:4] == (comparison, measured, "holds", 2) and compared.lacks == ""
    assert compared.doubts == (f"With FMFP, {preconditions.UNFIT}.",)
    assert judged("fmfp-c16", presumes={"learns": False}).outcome == "holds"


def test_a_method_as_accurate_on_the_test_set_is_judged():
    write("erm", separation=0.5)
    write("fmfp", separation=3.0, **WEAK)
    found = judged("fmfp-c16", presumes={})
    assert found.outcome == "holds" and not found.marked
    assert found.precondition == f"With FMFP, {preconditions.LEARNED_LESS}. That counts as fitted."
    write("fmfp", separation=3.0, train_accuracy=[0.985] * 7)  # within two points
    assert judged("fmfp-c16", presumes={}).precondition == ""


def test_exclusions_cut_both_ways():
    """Three of five neither lower the ECE nor agree with those that do."""
    five = ["mixup", "label_smoothing", "focal", "cs_kd", "l1_norm"]
    write("erm", separation=1.5, sharpness=6.0, seeds=4)
    for harmed, everything in ((five[2:], "holds"), (five[:2], "reversed")):
        for method in five:
            lowers, harms = method in five[:2], method in harmed
            kind = {"separation": 0.1 if harms else 4.0, "sharpness": 1.0 if lowers else 9.0}
            write(method, seeds=4, **kind)
        found = judged("fmfp-c01", place(seeds=4), presumes={})
        assert (found.outcome, found.everything, found.without) == (
            "unclear",
            everything,
            "unclear",
        )
        assert {mark.method for mark in found.marked} == {"Focal loss", "CS-KD", "L1 norm"}
        assert {mark.why for mark in found.marked} == {preconditions.NOT_LOWERED}
        said = f"With focal loss, CS-KD and L1 norm, {preconditions.NOT_LOWERED}."
        assert said in found.precondition
    for method in five:  # three lower it and harm: that is most of five, whoever counts
        write(method, separation=0.1, sharpness=1.0 if method in five[:3] else 9.0, seeds=4)
    assert judged("fmfp-c01", place(seeds=4), presumes={}).outcome == "holds"


def test_a_method_on_the_edge_leaves_unclear_what_it_would_turn():
    """Mixup lowers the ECE in one run, raises it in the other, and harms in both."""
    write("erm", separation=1.5, sharpness=6.0)
    by_seed("mixup", "sharpness", (1.0, 9.0), separation=0.1)
    of, than = (Side(method, Number("auroc")) for method in ("mixup", "erm"))
    leaf = replace(leaf_of("darkside-c12", "auroc"), first=of, second=than)
    found = judged("darkside-c12", presumes={}, check=Joined("all", (leaf,)))
    assert (found.outcome, found.everything) == ("unclear (precondition)", "holds")
    why = preconditions.PERHAPS_NOT_LOWERED
    assert [(mark.sure, mark.why) for mark in found.marked] == [(False, why)]


def test_networks_of_others_are_no_sample_and_have_to_agree():
    """From the lowest to the highest, each with 1.96 standard deviations over the test set."""
    draws = {"a": np.array([-0.1, 0.1]), "b": np.array([-0.2, 0.2])}
    series = results.Networks({"a": 1.0, "b": 3.0}, draws, 100)
    assert series.mean().interval() == pytest.approx((2.0, 1 - 0.196, 3 + 0.392), abs=1e-3)
    alone = series - results.Networks({"a": 0.5, "b": 4.0})
    assert alone.mean().interval() == (-0.25, -1.0, 0.5) and alone.covers == "networks"
    public = results.Results(plan.Selection("released"), table={Number("auroc"): series})
    where = settings.Place(settings.PUBLIC, public, "public", "")
    leaf = Comparison(Side("erm", Number("auroc")), 0.0, "above", 0.0)
    assert where.part(leaf).word() == "holds"
    assert where.part(replace(leaf, second=0.9)).word() == "unclear"  # on one of them


def test_one_setting_cannot_refute_that_something_happens_somewhere():
    write("erm", sharpness=6.0)
    write("entropy_regularization", "label_smoothing", "mixup", "focal", sharpness=1.0)
    found = judged("darkside-c09", presumes={})
    assert found.outcome in ("unclear", "holds")
    plain = judged("darkside-c09", presumes={}, exists=False)
    assert plain.outcome in ("reversed", "falls short", "unclear", "holds")
    assert found.outcome == "unclear" or plain.outcome == "holds"


def test_what_cannot_be_tested_says_why():
    for row in claims.board("smoke"):
        claim = by_id(row.claim)
        if claim.untested:
            assert (row.outcome, row.precondition) == ("not tested", claim.untested)
        if row.outcome == "not tested":
            assert row.precondition


# --- the board ------------------------------------------------------------------------------------


def test_the_level_is_shared_by_the_columns_that_test_a_claim():
    write("erm", separation=0.5)
    write("fmfp", separation=3.0)
    here = place()
    claim = replace(by_id("fmfp-c16"), presumes={})
    alone = judging._rows(claim, [here])
    other = replace(here, name="other", column="other")
    empty = replace(place("demo"), name="empty", column="empty")
    both = judging._rows(claim, [here, other, empty])
    assert [row.level for row in alone] == [pytest.approx(0.95)]
    assert [row.level for row in both] == [pytest.approx(0.975)] * 2 + [0.95]
    assert [row.outcome == "not tested" for row in both] == [False, False, True]
    assert tuple(alone[0][5:8]) == pytest.approx(both[0][5:8])  # the interval shown is the usual


def test_a_row_says_where_its_interval_is_over_runs_alone():
    write("erm", sharpness=3.0)
    write("fmfp", separation=3.0)
    auroc = judging._rows(replace(by_id("fmfp-c16"), presumes={}), [place()])[0]
    shown = stats.Interval(*auroc[5:8]).format(100, digits=1, sign=True)
    assert (auroc.covers, auroc.measured) == ("runs and test set", shown)
    claim = by_id("darkside-c14")
    measured = replace(claim, presumes={}, check=Joined("all", tuple(claim.comparisons)))
    beyond = judging._rows(measured, [place()])[0]
    assert beyond.covers == "runs" and beyond.measured.endswith("] (over runs alone)")


def test_a_column_shows_its_papers_own_setting_if_it_tests_the_claim():
    claim = replace(by_id("fmfp-c16"), presumes={})
    made = replace(place("released"), column="fashion_mnist")
    for run in made.runs.runs("erm") + made.runs.runs("fmfp"):
        records.write(run, separation=3.0 if run.method == "fmfp" else 0.5)
    shared = replace(made, name="shared")
    own = replace(made, name="fashion-fmfp")
    assert [r.shown for r in judging._rows(claim, [shared, own])] == [False, True]
    empty = replace(place("released", network="mlp"), name="fashion-fmfp", column="fashion_mnist")
    assert [r.shown for r in judging._rows(claim, [empty, shared])] == [False, True]


def test_a_board_has_each_claim_in_each_setting():
    rows = claims.board("smoke")
    names = {place.name for place in claims.places("smoke")}
    for claim in claims.claims():
        its = [row for row in rows if row.claim == claim.id]
        own = not claim.comparisons or claim.untested or claim.datasets
        assert len(its) == (1 if own else len(names))
        assert len({row.column for row in its}) == sum(row.shown for row in its)
        assert all(row.outcome in claims.OUTCOMES for row in its)
    mathematics = [row for row in rows if row.column == judging.MATHEMATICS]
    assert mathematics and all(row.outcome != "not tested" for row in mathematics)
    counts = claims.counts(rows)
    tested = claims.titles(rows)
    shown = sum(row.shown and row.column in tested for row in rows)
    assert list(counts) == list(tested.values())
    assert sum(sum(its.values()) for its in counts.values()) == shown
    line = claims.headline(rows)
    its = counts["Mathematics"]
    assert f"**Mathematics**: of {len(mathematics)} tested, {its['holds']} hold" in line


def test_the_board_trains_nothing(cache):
    claims.board("smoke", "fmfp")
    assert not list(cache.glob("runs/*/run.json"))


def test_wrong_names_are_refused():
    with pytest.raises(ValueError, match="did you mean 'demo'"):
        claims.board("demmo")
    with pytest.raises(ValueError, match="unknown paper 'mixupp'"):
        claims.board("smoke", paper="mixupp")


def test_command_line(capsys):
    assert cli.main(["claims", "--edition", "smoke", "--paper", "mixup"]) == 0
    text = capsys.readouterr().out
    assert re.search(r"^mixup-c01  Before any", text, re.M)
    assert "its own table      no" in text or "holds in 14 of 16 by its means" in text
    assert "no records of this edition" in text
    assert cli.main(["claims", "--edition", "smoke", "--paper", "bsce", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    names = "claim setting precondition outcome comparison estimate low high seeds printed"
    names += " level looks needed everything without counted marked"
    assert all(list(row) == names.split() for row in rows)
    assert all(row["outcome"] in claims.OUTCOMES for row in rows)
    identity = next(row for row in rows if row["claim"] == "bsce-c08")
    assert identity["outcome"] == "holds" and identity["counted"] == "reproduced"
    assert identity["estimate"] < 1e-9
    assert cli.main(["claims", "--paper", "nobody"]) == 2


def test_a_card_has_each_claim_of_a_paper_with_its_anchor():
    write("erm", separation=0.5, sharpness=6.0)
    write("fmfp", separation=3.0, sharpness=6.0)
    runs = place().runs
    card = claims.card("fmfp", runs)._repr_html_()
    for claim in claims.claims("fmfp"):
        assert f'id="{claim.id}"' in card
    assert "By its means the claim holds in 8 of 8 places." in card


def test_the_papers_own_table_says_also_what_its_means_say():
    card = claims.card("fmfp", place().runs)._repr_html_()
    for identity, said in (
        (
            "fmfp-c13",
            "◇ unclear by the ± of the paper's own table. By its means the claim holds in 8",
        ),
        (
            "fmfp-c16",
            "● holds by the ± of the paper's own table. By its means the claim holds in 8",
        ),
        ("fmfp-c18", "Shown in a figure only"),
    ):
        its = card[card.index(f'id="{identity}"') :].partition("In print:</b> ")[2]
        text = html.unescape(re.sub("<[^>]+>", "", its[:300]))
        assert " ".join(text.split()).startswith(said), identity


def test_a_line_says_what_became_of_a_claim_and_where():
    write("erm", separation=0.5, sharpness=6.0)
    write("fmfp", separation=3.0, sharpness=6.0)
    rows = judging.board_of([place()], [replace(by_id("fmfp-c16"), presumes={})])
    card = claims.Card(rows)._repr_html_()
    line = card[card.index('id="fmfp-c16"') :].partition("</summary>")[0]
    text = " ".join(re.sub("<[^>]+>", " ", line).split())
    assert text.endswith("FMFP raises the AUROC over plain training fmfp-c16 ● holds 8×8 digits")
    bsce = claims.card("bsce", place().runs)._repr_html_()
    assert "exponents were tuned by the paper" in bsce
    assert "exponents were tuned by the paper" not in card
    mixup = claims.card("mixup", place().runs)._repr_html_()
    assert "a lower ECE than plain training by one of its α (our reading)" in mixup


@pytest.mark.parametrize(
    ("across", "exists", "outcomes", "expected"),
    [
        ("all", False, ["reversed", "holds"], True),
        ("all", True, ["reversed", "reversed"], False),
        ("most", False, ["reversed"], False),  # one setting
        ("most", False, ["reversed", "not tested"], False),
        ("most", False, ["reversed", "falls short"], True),
        ("most", False, ["reversed", "falls short", "unclear", "holds"], False),  # half
        ("most", False, ["reversed", "falls short", "unclear"], True),
        ("any", True, ["reversed", "falls short"], False),
    ],
)
def test_one_setting_does_not_refute_what_is_claimed_for_most(across, exists, outcomes, expected):
    claim = replace(by_id("fmfp-c16"), across=across, exists=exists)
    assert cases.refuted(claim, outcomes) is expected


def test_a_failure_that_refutes_nothing_is_unclear_and_told():
    write("erm", separation=3.0, seeds=4)
    write("fmfp", separation=0.5, seeds=4)
    most, here = {"presumes": {}, "across": "most"}, place(seeds=4)
    found = judged("fmfp-c16", here, **most)
    assert (found.outcome, found.fails, found.everything) == ("unclear", "reversed", "reversed")
    assert found.precondition == (
        "It is reversed here. Its paper claims it, by its words or its tables, for most settings. "
        "One setting does not refute that."
    )
    other = replace(here, name="other", column="other")
    rows = judging._rows(replace(by_id("fmfp-c16"), **most), [here, other])
    assert [row.outcome for row in rows] == ["reversed", "reversed"]


def test_a_setting_that_alone_holds_of_most_says_so():
    write("erm", separation=0.5, seeds=4)
    write("fmfp", separation=3.0, seeds=4)
    most, here = {"presumes": {}, "across": "most"}, place(seeds=4)
    found = judged("fmfp-c16", here, **most)
    assert found.outcome == "holds"
    assert found.precondition == (
        "It holds here. Its paper claims it, by its words or its tables, for most settings. "
        "One setting does not reproduce that."
    )
    other = replace(here, name="other", column="other")
    rows = judging._rows(replace(by_id("fmfp-c16"), **most), [here, other])
    assert [(row.outcome, row.precondition) for row in rows] == [("holds", "")] * 2
    for changed in ({"across": "all"}, {"across": "any", "exists": True}):
        assert judged("fmfp-c16", here, **(most | changed)).precondition == ""


# --- numbers that only claims ask for -------------------------------------------------------------


def found(metric, method="erm", where=None, **fields):
    side = {k: fields.pop(k) for k in list(fields) if k in Side._fields}
    return (where or place()).series(Side(method, Number(metric, **fields), **side)).values


def test_periods_of_the_history():
    for run in plan.Selection("smoke", dataset="digits", seeds=1).runs(["erm"]):
        records.write(run, ece=[1, 2, 3, 4, 5, 6, 7])
    assert found("ece", at="late") == {0: 6.5}  # after 5.25 of 7 epochs
    assert found("ece", at="settled") == {0: 4.0}
    assert found("ece", at="second_rate") == {0: 3.5} and found("ece", at="third_rate") == {0: 6.0}


def test_differences_and_recalibrations():
    write("erm", sharpness=3.0)
    write("mixup", sharpness=1.0)
    erm, mixup = found("ece"), found("ece", "mixup")
    assert found("ece", minus="mixup") == {s: erm[s] - mixup[s] for s in (0, 1)}
    assert found("ece", recalibration="ts_nll") != found("ece", recalibration="ts_ece")
    history = place().runs.records("erm")[0].history
    scaled = found("ece", recalibration="ts_ece")[0]
    assert scaled == pytest.approx(history["ece_scaled"][-1], rel=1e-4)
    assert found("accuracy", recalibration="ts_test") == found("accuracy")
    few, most = (found("ece", recalibration="binned", validation=n) for n in (20, 0))
    assert few != most and all(v < erm[s] for s, v in most.items())


def test_a_temperature_best_for_ranking_gains_what_a_search_finds():
    write("erm", seeds=1)
    predictions = place().runs.predictions("erm")
    from calibkit import metrics

    def auroc(temperature):
        return metrics.auroc(*predictions.rescaled(temperature).confident())

    gain = found("auroc_gain_of_temperature")[0]
    assert 0 <= gain <= max(auroc(t) for t in np.geomspace(0.05, 20, 200)) - auroc(1.0) + 1e-3
    assert gain >= auroc(2.0) - auroc(1.0) - 2e-3


def test_lowest_coefficient():
    for gamma, sharpness in ((1, 4.0), (3, 0.5), (5, 3.0)):
        write(f"focal(gamma={gamma})", sharpness=sharpness, separation=2.0, right=0.6)
    grid = tuple(f"focal(gamma={g})" for g in (1, 3, 5))
    eces = {g: found("ece", f"focal(gamma={g})") for g in (1, 3, 5)}
    assert found("ece", "", lowest=grid) == {s: min(eces, key=lambda g: eces[g][s]) for s in (0, 1)}


def test_the_same_coefficient_in_every_run_gives_no_interval():
    leaf = next(by_id("overconf-c06").check.leaves())
    grid, sizes = leaf.first.lowest, plan.EDITIONS["smoke"].sizes
    for size, best in zip((sizes[0], sizes[-1]), (grid[-1], grid[0]), strict=True):
        for m in grid:
            kind = {"sharpness": 0.5 if m == best else 4.0, "separation": 2.0, "right": 0.6}
            write(m, train_size=size, **kind)
    part = place().part(leaf)
    assert part.seeds == 2 and part.word() == "not tested"
    assert part.lacks[0].startswith("the same coefficient in every run")


def test_scores_are_read_from_runs_which_keep_them():
    write("erm")
    scored = plan.EDITIONS["smoke"].scored
    for run in plan.Selection("smoke", dataset="digits", protocol=scored).runs(["erm"]):
        records.write(run)
    assert found("auroc", score="trust_score") != found("auroc")
    side = Side("erm", Number("auroc", score="confidnet"))
    assert set(place().series(side).values) == {0, 1}


def test_confidnet_needs_time_to_learn(monkeypatch):
    write("erm")
    side = Side("erm", Number("auroc", score="confidnet"))
    for samples, enough in ((5000, False), (90_000, True)):
        monkeypatch.setitem(records.TRAINED, "training_samples", samples)
        for run in plan.Selection(
            "smoke", dataset="digits", protocol=plan.EDITIONS["smoke"].scored
        ).runs(["erm"]):
            records.write(run)
        its = place().series(side)
        assert isinstance(its, tuple) != enough
        assert enough or "fewer than 20,000" in its[0]


# --- mathematics ----------------------------------------------------------------------------------


def test_mathematics_is_worked_out_once_for_each_state_of_the_code(monkeypatch):
    calls = []
    monkeypatch.setattr(derivations, "brier_offset", lambda: calls.append(1) or 1e-12)
    for of, times in (("code", 1), ("code", 1), ("other code", 2)):
        monkeypatch.setattr(settings, "checksum", lambda of=of: of)
        settings.mathematics.cache_clear()  # as another process would
        assert settings.mathematics()["brier_offset"] == 1e-12 and len(calls) == times
    settings.mathematics.cache_clear()


def test_derivations_against_closed_forms():
    fixed = 1 / (1 + (0.3 / 0.7) ** (1 / 3))  # of 0.7 (1-q)^3 = 0.3 q^3
    assert derivations.gradient_weight_bias() == pytest.approx(0.7 - fixed, abs=1e-6)
    assert derivations.focal_factor_peak() == pytest.approx(np.exp(-2), abs=1e-6)  # γ = 1
    assert derivations.inverse_focal_slope() == pytest.approx(1, abs=1e-3)
    assert derivations.weight_axes() == 0
    assert 0.01 < derivations.ternary_alignment() < 0.1 and derivations.binary_brier() < 1e-9


def test_diverged_runs_count_for_nothing():
    write("erm", separation=0.5)
    write("fmfp", separation=3.0)
    for run in plan.Selection("smoke", dataset="digits").runs(["fmfp"]):
        folders.save(run, "diverged", [], {}, records.TRAINED)
    assert judged("fmfp-c16", presumes={}).precondition == "no run of FMFP"


@pytest.mark.parametrize(
    ("share", "sure", "said"),
    [
        ((0.99, 0.985, 0.995), True, "99.0 [98.5, 99.5] % of its training set right"),
        ((0.97, 0.965, 0.975), False, "whether that is so is open"),
    ],
)
def test_a_method_without_errors_left_is_doubted(share, sure, said):
    claim = SimpleNamespace(presumes={"errors left": ["mixup"]})
    place = SimpleNamespace(interval=lambda side: stats.Interval(*share))
    (doubt,) = preconditions.of_setting(claim, place)
    assert doubt.sure is sure and said in doubt.why
    assert doubt.why.startswith("mixup gets 9")
