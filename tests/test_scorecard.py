"""The scorecard counts every claim once and leads to its card; a card says what decides and why."""

import doctest
import html
import re

import pytest

from calibkit_companion import claims, results
from calibkit_companion.claims import fates, judging, scorecard, settings
from calibkit_companion.claims.judging import Judged
from calibkit_companion.experiments import plan
from calibkit_companion.records import folders
from tests import records


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("CALIBKIT_CACHE", str(tmp_path))
    records.few_replicates(monkeypatch, 20)
    return tmp_path


def row(claim, column, outcome, **more):
    return Judged(claim, column, "", outcome, column=column, title=f"On {column}", **more)


def text(made) -> str:
    shown = re.sub(r"<style>.*?</style>|<[^>]+>", " ", made._repr_html_(), flags=re.S)
    return " ".join(html.unescape(shown).split())


@pytest.mark.parametrize(
    ("outcomes", "expected"),
    [
        (["holds", "unclear", "not tested"], "reproduced"),
        (["falls short", "unclear"], "not reproduced"),
        (["reversed", "falls short"], "not reproduced"),
        (["holds", "falls short"], "different by setting"),
        (["holds", "reversed", "unclear"], "different by setting"),
        (["unclear", "not tested"], "unclear"),
        (["unclear (precondition)"], "unclear"),
        (["not tested", "not tested"], "not tested"),
    ],
)
def test_what_became_of_a_claim(outcomes, expected):
    assert fates.fate(outcomes) == fates.fate(reversed(outcomes)) == expected
    assert expected in fates.FATES


def test_a_line_counts_its_claims_and_rests_on_the_settings_that_decide():
    rows = [
        row("bsce-c01", "a", "unclear"),
        row("bsce-c02", "a", "holds"),  # claimed for most settings: one does not reproduce it
        row("bsce-c03", "a", "holds"),
        row("bsce-c03", "b", "holds"),
        row("bsce-c04", "a", "reversed"),
        row("bsce-c04", "b", "unclear"),
        row("bsce-c05", "a", "not tested"),
        row("bsce-c05", "b", "holds", shown=False),  # what no column shows counts for nothing
        row("bsce-c06", judging.MATHEMATICS, "holds"),
    ]
    found = fates.by_fate(rows, "bsce")
    counted = {name: [told.claim.id for told in its] for name, its in found.items()}
    assert counted == {
        "reproduced": ["bsce-c03", "bsce-c06"],  # first what more settings decide
        "not reproduced": ["bsce-c04"],
        "different by setting": [],
        "unclear": ["bsce-c01", "bsce-c02"],
        "not tested": ["bsce-c05"],
    }
    assert found["reproduced"][0].rests == {"holds": "On a; On b"}
    assert found["not reproduced"][0].rests == {"reversed": "On a"}
    assert found["unclear"][1].rests == {"unclear": "holds in one setting (On a), claimed for most"}
    assert "◇ unclear holds in one setting (On a), claimed for most" in text(claims.Card(rows))
    said = text(claims.Scorecard(rows))
    assert "6 claims" in said and "2 reproduced 1 of these computed" in said
    assert "1 not tested" in said
    counted = claims.answer(rows)
    assert counted.startswith("**Of 6 claims 2 reproduced (1 computed), 1 did not (1 on On a")
    assert counted.endswith("and 1 could not be tested.**") and "differ" not in counted
    assert "✕ reversed: On a" in said and "different" not in said
    assert 'href="claims.html#bsce-c03-a"' in claims.Scorecard(rows)._repr_html_()


def test_a_line_names_few_settings_and_says_which_one_it_rests_on_alone():
    where = ["a", "b", "c", "d"]
    rows = [row("bsce-c01", column, "holds") for column in where]
    rows += [row("bsce-c02", column, "unclear") for column in where]
    rows += [row("fmfp-c16", "fashion_mnist", "falls short")]
    first, second = fates.told(rows, "bsce")
    assert first.rests == {"holds": "On a; On b; On c; and 1 more"}
    assert second.rests == {"unclear": "in 4 settings"}
    assert "1 not reproduced 1 of these on Fashion-MNIST alone" in text(claims.Scorecard(rows))
    assert "1 did not (1 on Fashion-MNIST alone)" in claims.answer(rows)


def test_the_scorecard_has_every_claim_of_a_board_once_and_leads_to_its_cards():
    rows = claims.board("smoke")
    for paper in plan.PAPERS:
        told = [its.claim for line in fates.by_fate(rows, paper).values() for its in line]
        assert sorted(claim.id for claim in told) == [c.id for c in claims.claims(paper)]
    cards = claims.Card(rows)._repr_html_()
    links = re.findall(r'href="claims\.html#([\w-]+)"', claims.Scorecard(rows)._repr_html_())
    assert len(links) > 5 and all(f'id="{link}"' in cards for link in links)


def test_a_short_form_is_short_and_what_it_shortens_differs():
    shortened = [claim for claim in claims.claims() if claim.in_short]
    assert shortened
    for claim in shortened:
        assert len(claim.in_short) < len(claim.statement) and claim.in_short.endswith(".")


def test_a_card_has_the_comparisons_both_words_and_the_level():
    for method, how in (("erm", {"separation": 0.5}), ("fmfp", {"separation": 3.0, "right": 0.4})):
        for run in plan.Selection("smoke", dataset="digits", seeds=2).runs([method]):
            records.write(run, **how, train_accuracy=[0.99 if method == "erm" else 0.9] * 7)
    runs = results.Results(plan.Selection("smoke", dataset="digits"), train=False)
    where = [settings.Place("shared", runs, "digits", "Digits")]
    (claim,) = (c for c in claims.claims("fmfp") if c.id == "fmfp-c26")
    (found,) = judging.board_of(where, [claim])
    assert found.anchor == "fmfp-c26-digits"
    made = claims.Card([found])
    assert 'id="fmfp-c26-digits"' in made._repr_html_()
    said = text(made)
    assert found.everything == found.without == found.outcome == "unclear"
    assert "With FMFP, the accuracy is more than two points below" in said
    assert f"Judged by the interval of {found.judged_at}." in said
    assert "What would change it" in said
    for one in found.compared():
        assert one.comparison in said and one.measured in said and one.claimed in said
    assert {one.claimed.partition(",")[0] for one in found.compared()} == {"above 0", "below 0"}


def test_a_claim_for_most_that_holds_once_names_also_the_settings_that_leave_it_open():
    rows = [row("bsce-c02", "a", "holds")]
    rows += [row("bsce-c02", column, "unclear") for column in "bc"]
    rows += [row("bsce-c02", "d", "unclear (precondition)")]
    (told,) = fates.told(rows, "bsce")
    assert told.fate == "unclear"
    assert told.rests == {
        "unclear": "holds in one setting (On a), claimed for most; unclear in 2 settings",
        "unclear (precondition)": "On d",
    }


@pytest.mark.parametrize(
    ("at_level", "said", "unsaid"),
    [
        ("unclear", "At the wider interval of the verdict it is not.", "by luck"),
        ("holds", "One of several comparisons can be clear by luck", "wider interval"),
    ],
)
def test_a_card_gives_the_one_reason_why_what_is_clear_by_itself_does_not_decide(
    at_level, said, unsaid
):
    found = row("bsce-c02", "a", "unclear", alone="holds", at_level=at_level, seeds=3)
    shown = text(claims.Card([found]))
    assert f"By itself, with all looks counted, the comparison above is clear. {said}" in shown
    assert unsaid not in shown


def test_a_card_says_what_makes_its_level_higher():
    for fields, said in (
        ({"level": 0.95}, "95 %"),
        ({"level": 0.9875, "sharing": 4}, "98.75 %, because 4 settings share the 5 %"),
        ({"level": 0.984, "looks": 5}, "98.4 %, because we look at the results 5 times"),
        (
            {"level": 0.9964, "sharing": 4, "looks": 5},
            "99.64 %, because 4 settings share the 5 % and we look at the results 5 times",
        ),
    ):
        assert row("bsce-c02", "a", "unclear", **fields).judged_at == said


def test_the_cost_is_that_of_the_records():
    assert str(scorecard.compute("smoke")) == "no runs"
    runs = plan.Selection("smoke").of_page("book")[:3]
    spent = (7200.0, "1 thread of A"), (5400.0, "1 thread of B"), (600.0, "NVIDIA C")
    for run, (seconds, device) in zip(runs, spent, strict=True):
        info = records.TRAINED | {"seconds": seconds, "device": device}
        folders.save(run, "diverged", [], {}, info)
    found = scorecard.compute("smoke")
    assert found == (3, 3.5, 10.0)
    assert str(found) == "3 runs, 4 core-hours and 10 minutes on a GPU"


def test_examples():
    assert doctest.testmod(fates).attempted and not doctest.testmod(fates).failed
