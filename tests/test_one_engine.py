"""One difference has one interval, on the scoreboard and on every page, whatever page says it."""

import ast
import json
import re
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from calibkit.companion import chapter, claims, contrasts, notebook, plan
from calibkit.companion.evidence import Evidence
from calibkit.companion.statements import Subject

ROOT = Path(__file__).parent.parent
RECORDS = ROOT / "data_cache"
COLUMNS = {"confidence_correct": "mean_correct", "confidence_wrong": "mean_wrong"}
# Numbers that no record has replicates of: over seeds alone, as their page says.
OVER_SEEDS = {
    "fmfp": {"since_best"},  # change since the best epoch
    "fmfp_2": {"lost"},
    "darkside": {"residual"},  # of equation 9
    "overconf": {"unsure", "remembered"},  # gaps below a confidence, rank correlations
    "bsce_2": {"shares", "trained"},  # sure when wrong; toy networks
}
MINE = [*OVER_SEEDS, "mixup", "bsce", "matrix", "deviations", "results", "published", "claims"]


MAPPED = {"ts", "ts_nll", "ts_test", "trust_score", "confidnet"}


def named(method):
    """What a page calls a method of a claim: there "ts" has the temperature of lowest ECE."""
    known = {"ts": "ts_nll", "ts_ece": "ts"}
    if method in known or method in MAPPED:
        return known.get(method, method)
    return plan.method_name(plan.method(method))


JUDGED = {"fmfp": "fmfp", "fmfp_2": "fmfp", "darkside": "darkside"}  # page: paper
JUDGED |= {"overconf": "overconf", "mixup": "mixup"}
SIDES = {"higher": "above", "lower": "below"}
# Statements printed by `notebook.statements` whose claims have no margin but 0.
WITHOUT = {"gradient_norms": ("bsce-c10", "gradient_spread")}


def code(name):
    """The code cells of a page."""
    cells = json.loads((ROOT / "notebooks" / f"{name}.ipynb").read_text())["cells"]
    return ["".join(c["source"]) for c in cells if c["cell_type"] == "code"]


def judged(name):
    """The statements of a page, from those lines of its source that need no records."""
    known = {}
    for source in code(name):
        with suppress(SyntaxError):
            for node in ast.parse(source).body:
                if isinstance(node, (ast.Assign, ast.AugAssign)):
                    with suppress(Exception):  # it needs a record or the library
                        exec(compile(ast.Module([node], []), name, "exec"), known)
    return known["statements"]


def base(method):
    return re.match(r"\w+", method)[0]


def comparisons(paper):
    """What the claims of a paper compare of two methods in its own settings."""
    for claim in claims.claims(paper):
        for leaf in claim.check.leaves():
            if not isinstance(leaf, claims.Comparison) or not isinstance(leaf.than, str):
                continue
            plain = all(len(s.methods) == 1 and not s.dataset and not s.size for s in leaf.sides)
            if plain and not (leaf.against or leaf.sized or "|" in leaf.of + leaf.than):
                yield claim.id, leaf


@pytest.mark.skipif(not (RECORDS / "runs").is_dir(), reason="no records in this checkout")
def test_pages_have_the_intervals_of_the_scoreboard(monkeypatch):
    monkeypatch.setenv("CALIBKIT_CACHE", str(RECORDS))
    compared, words, moved = 0, 0, 0
    for paper in plan.PAPERS:
        asked = list(comparisons(paper))
        names = sorted(
            {"erm"} | {named(m) for _, leaf in asked for m in (leaf.of, leaf.than)} - MAPPED
        )
        said = [s for name, its in JUDGED.items() if its == paper for s in judged(name)]
        for page in notebook.pages(names, "released", paper):
            table = chapter.values(page)
            evidence = Evidence("released", setting=page.planned.name)
            for claim, leaf in asked:
                column = COLUMNS.get(leaf.metric, leaf.metric)
                of, than = named(leaf.of), named(leaf.than)
                if column not in table or not {of, than} <= {*page.methods, "ts"}:
                    continue
                found = notebook.difference(table[column], of, than)
                if np.isnan(found.low):  # a claim borrows the spread of other runs, a page does not
                    continue
                sides = Subject.read(leaf.of), Subject.read(leaf.than)
                theirs = evidence.difference(*sides, leaf.metric).interval()
                np.testing.assert_allclose(found, theirs, rtol=2e-3, atol=2e-6, err_msg=str(leaf))
                compared += 1
                for _, about, metric, stated, methods, other in said:
                    side = SIDES.get(stated, stated)
                    if (about, metric, other, side) == (claim, column, than, leaf.side):
                        its = {m: m for m in methods} | {named(m): m for m in methods if m != "ts"}
                        if of not in its:
                            continue
                        rest = about, metric, stated, [its[of]], than
                        _, word = chapter.decided(table, *rest)[its[of]]
                        assert word == contrasts.outcome(theirs, leaf.side, leaf.margin), rest
                        words += 1
                        moved += word != contrasts.outcome(theirs, leaf.side)
    assert compared > 100
    assert words > 40 and moved  # without the margin some would be another


@pytest.mark.parametrize("name", JUDGED)
def test_what_a_page_states_is_what_its_claim_compares(name):
    """The claim whose margin decides is about that metric, these methods and this side."""
    paper = {c.id: c for c in claims.claims(JUDGED[name])}
    for words, claim, metric, stated, methods, than in judged(name):
        side, column = SIDES.get(stated, stated), chapter._CLAIMED.get(metric, metric)
        for method in methods:
            pair = base(method), base(than)
            leaves = paper[claim].check.leaves()
            for leaf in (x for x in leaves if isinstance(x, claims.Comparison)):
                one, two = (base(str(m)) for m in (leaf.of, leaf.than))
                turned = {"above": "below", "below": "above"}.get(leaf.side, leaf.side)
                if leaf.metric == column and (one, two, leaf.side) == (*pair, side):
                    break
                if leaf.metric == column and (two, one, turned) == (*pair, side):
                    break
            else:
                pytest.fail(f"{claim} does not compare {method} with {than}: {words}")


@pytest.mark.parametrize("name", plan.NOTEBOOKS)
def test_statements_have_the_margins_of_claims(name):
    sources = code(name)
    if any("notebook.statements(" in source for source in sources):
        if name in WITHOUT:
            assert claims.written_margin(*WITHOUT[name]) == 0
        else:
            assert any("claims.written_margin" in source for source in sources)


@pytest.mark.parametrize("name", MINE)
def test_only_what_has_no_replicates_is_judged_by_seeds_alone(name):
    cells = json.loads((ROOT / "notebooks" / f"{name}.ipynb").read_text())["cells"]
    calls = ["".join(c["source"]) for c in cells if "seed_interval(" in "".join(c["source"])]
    known = OVER_SEEDS.get(name, set())
    for source in calls:
        assert any(re.search(rf"\b{word}\b", source) for word in known), source


@pytest.mark.parametrize("name", plan.NOTEBOOKS)
def test_no_page_lets_go_of_the_networks_behind_its_table(name):
    """Without them its differences would have intervals of their own."""
    assert not any("attrs.clear" in source for source in code(name))
