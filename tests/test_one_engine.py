"""One difference has one interval, on the scoreboard and on every page, whatever page says it."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

from calibkit.companion import chapter, claims, contrasts, notebook, plan

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


def comparisons(paper):
    """What the claims of a paper compare of two methods in its own settings."""
    for claim in claims.claims(paper):
        for leaf in claim.check.leaves():
            if not isinstance(leaf, claims.Comparison) or not isinstance(leaf.than, str):
                continue
            plain = all(len(s.methods) == 1 and not s.dataset and not s.size for s in leaf.sides)
            if plain and not (leaf.against or leaf.sized or "|" in leaf.of + leaf.than):
                yield leaf


@pytest.mark.skipif(not (RECORDS / "runs").is_dir(), reason="no records in this checkout")
def test_pages_have_the_intervals_of_the_scoreboard(monkeypatch):
    monkeypatch.setenv("CALIBKIT_CACHE", str(RECORDS))
    compared = 0
    for paper in plan.PAPERS:
        asked = list(comparisons(paper))
        names = sorted(
            {"erm"} | {named(m) for leaf in asked for m in (leaf.of, leaf.than)} - MAPPED
        )
        for page in notebook.pages(names, "released", paper):
            table = chapter.values(page)
            evidence = contrasts.Evidence("released", setting=page.chosen.name)
            for leaf in asked:
                column = COLUMNS.get(leaf.metric, leaf.metric)
                of, than = named(leaf.of), named(leaf.than)
                if column not in table or not {of, than} <= {*page.methods, "ts"}:
                    continue
                found = notebook.difference(table[column], of, than)
                if np.isnan(found.low):  # a claim borrows the spread of other runs, a page does not
                    continue
                sides = contrasts.Subject.read(leaf.of), contrasts.Subject.read(leaf.than)
                theirs = evidence.difference(*sides, leaf.metric).interval()
                np.testing.assert_allclose(found, theirs, rtol=2e-3, atol=2e-6, err_msg=str(leaf))
                compared += 1
    assert compared > 100


@pytest.mark.parametrize("name", MINE)
def test_only_what_has_no_replicates_is_judged_by_seeds_alone(name):
    cells = json.loads((ROOT / "notebooks" / f"{name}.ipynb").read_text())["cells"]
    calls = ["".join(c["source"]) for c in cells if "seed_interval(" in "".join(c["source"])]
    known = OVER_SEEDS.get(name, set())
    for source in calls:
        assert any(re.search(rf"\b{word}\b", source) for word in known), source
