"""Pages bring their records, refuse wrong parameters, and say what is missing and how to get it."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

from calibkit import grid, metrics, nb, stats, store
from tests import records


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("CALIBKIT_CACHE", str(tmp_path))
    return tmp_path


def test_page_trains_what_is_missing_and_reuses_it(cache, capsys):
    page = nb.page(["erm", "sam"], "smoke", seeds=2, epochs=2)
    assert capsys.readouterr().out.count("training") == 4
    assert page.methods == ["erm", "sam"] and len(page.logits("sam")) == 2
    assert page.logits("erm")[0].shape == (len(page.labels), 5)
    logits, labels = page.validation("erm")[1]
    assert len(logits) == len(labels) == 200
    assert page.setting == "five Gaussians, 300 to train · mlp · 2 epochs · 2 seeds · n = 5,000"
    assert "2 epochs" in page._repr_html_() and "Not trained" not in page._repr_html_()
    assert "4 runs" in page.provenance()._repr_html_()
    again = nb.page(["sam"], "smoke", seeds=1, epochs=2)
    assert capsys.readouterr().out == ""
    np.testing.assert_array_equal(again.logits("sam")[0], page.logits("sam")[0])


def test_missing_runs_of_a_large_edition_are_a_box_with_the_command(cache):
    page = nb.page(["erm", "focal(gamma=5)"], "cifar10", network="resnet20", seeds=1)
    assert page.methods == [] and len(page.missing) == 2
    html = page._repr_html_()
    assert "No records yet" in html
    command = "calibkit train --edition cifar10 --method &#x27;erm&#x27;"
    assert command in html and "--network resnet20 --seeds 1" in html


def test_the_command_of_a_box_selects_exactly_the_missing_runs(cache):
    import shlex

    from calibkit import cli

    page = nb.page(["erm", "focal(gamma=5)"], "cifar10", "svhn", "resnet20", seeds=2, epochs=7)
    command = page.command([run.method for run in page.missing[::2]])
    options = cli._parser().parse_args(shlex.split(command)[1:])
    assert cli._selected(options) == page.missing


def test_diverged_runs_are_shown_as_such(cache):
    run = grid.select("smoke", ["erm"], seeds=1)[0]
    store.save(run, "diverged", [], {}, {"seconds": 1.0})
    page = nb.page(["erm"], "smoke", seeds=1)
    assert page.diverged == [run] and page.methods == []
    assert run.name in page._repr_html_()


@pytest.fixture
def made_up(cache):
    """A page of two methods and two seeds, whose records were drawn at random."""
    runs = grid.select("smoke", ["erm", "fmfp"], "digits", seeds=2)
    for run in runs:
        records.write(run)
    return nb.collect("smoke", runs)


def test_collect_trains_nothing_unless_asked(made_up, capsys):
    more = grid.select("smoke", ["sam"], "digits", seeds=1)
    page = nb.collect("smoke", [*made_up.runs, *more])
    assert page.methods == ["erm", "fmfp"] and page.missing == more
    assert capsys.readouterr().out == ""


def test_table_has_a_row_per_training(made_up):
    table = made_up.table()
    assert table.index.tolist() == [("erm", 0), ("erm", 1), ("fmfp", 0), ("fmfp", 1)]
    assert table.index.names == ["method", "seed"] and "epoch" not in table
    found = metrics.summary(made_up.logits("fmfp")[0], made_up.labels)
    assert table.auroc["fmfp", 0] == pytest.approx(found["auroc"])
    own = made_up.table(lambda record: {"n": len(record.arrays["test_labels"])})
    assert own.n.tolist() == [400] * 4
    assert nb.Page("smoke", []).table().empty


def test_answers_also_of_the_first_samples_alone(made_up):
    logits = made_up.logits("erm")
    confidence, correct = made_up.answers(logits)
    np.testing.assert_array_equal(correct[1], logits[1].argmax(1) == made_up.labels)
    few, right = made_up.answers(z[:50] for z in logits)
    np.testing.assert_array_equal(few[0], confidence[0][:50])
    np.testing.assert_array_equal(right[0], correct[0][:50])


def test_gradients_of_an_epoch_with_and_without_what_is_learned(made_up):
    for record in made_up.records["fmfp"]:
        record.arrays["train_epochs"] = np.array([1, 3, 7])
    arrays = made_up.records["fmfp"][1].arrays
    brier, norm = made_up.gradients("fmfp", 3)
    np.testing.assert_allclose(norm[1], arrays["train_gradient_norm"][1])
    seen = arrays["train_brier"][1] >= 2**-14
    arrays["train_brier"][1, 0] = 1e-6
    brier, norm = made_up.gradients("fmfp", 3, faint=False)
    np.testing.assert_allclose(brier[1], arrays["train_brier"][1][1:][seen[1:]])
    assert len(norm[1]) == len(brier[1])


def test_shifted_has_a_row_per_training_and_shift(cache):
    runs = grid.select("fashion", ["erm", "fmfp"], seeds=2)
    for run in runs:
        records.write(run)
    table = nb.collect("fashion", runs).shifted()
    assert len(table) == 2 * 2 * 4
    record = nb.collect("fashion", runs).records["fmfp"][1]
    kind, severity = record.shifted["shift"][3], record.shifted["severity"][3]
    assert table.auroc["fmfp", 1, kind, severity] == record.shifted["auroc"][3]


def test_shifted_is_empty_without_shifts(made_up):
    assert made_up.shifted().empty


def test_stamp_says_the_setting(made_up):
    fig = plt.figure()
    made_up.stamp(fig, " · first seed")
    assert fig._supxlabel.get_text() == made_up.setting + " · first seed"
    plt.close(fig)


VALUES = pd.DataFrame(
    {"auroc": [0.80, 0.82, 0.84, 0.90, 0.93, 0.5], "nll": [1.0, 1.0, 1.0, 0.5, 0.6, 0.7]},
    pd.MultiIndex.from_tuples(
        [("erm", 0), ("erm", 1), ("erm", 2), ("fmfp", 0), ("fmfp", 1), ("fmfp", 7)]
    ),
)


def test_differences_are_of_pairs_of_the_same_seed():
    found = nb.difference(VALUES.auroc, "fmfp", "erm")
    assert found == pytest.approx(stats.seed_interval([0.10, 0.11]))
    assert found.estimate == pytest.approx(0.105) and found.verdict == "higher"
    assert np.isnan(nb.difference(VALUES.auroc, "sam", "erm")).all()
    assert np.isnan(nb.difference(VALUES.auroc.drop(index=[0, 1], level=1), "fmfp", "erm")).all()


def test_differences_in_words():
    assert nb.points(nb.difference(VALUES.auroc, "fmfp", "erm")) == "+10.5 (+4.1 to +16.9)"
    assert nb.points(stats.Interval(-0.0001, np.nan, np.nan)) == "+0.0"
    assert nb.points(stats.seed_interval([np.nan])) == "–"
    assert nb.in_units(stats.Interval(0.1, -0.2, 0.3), "nll") == "+0.100 (−0.200 to +0.300)"


@pytest.mark.parametrize(
    ("values", "outcome"),
    [
        ([0.1, 0.11], "holds"),
        ([-0.1, -0.11], "the opposite"),
        ([0.1], "undecided"),
        ([0.1, -0.1], "undecided"),
        ([np.nan], "not on this page"),
    ],
)
def test_outcome_of_a_statement(values, outcome):
    assert nb.outcome(stats.seed_interval(values), "higher") == outcome


@pytest.fixture
def glued(monkeypatch):
    words = {}
    monkeypatch.setattr("myst_nb.glue", lambda key, value, display: words.update({key: value}))
    return words


def test_statements_and_their_tally_are_named(glued):
    said = [
        nb.statement("a", stats.Interval(0.1, 0.05, 0.15), "higher"),
        nb.statement("b", stats.Interval(0.1, 0.05, 0.15), "lower", 2, scale=1),
        nb.statement("c", stats.Interval(0.1, -0.05, 0.25), "lower"),
        nb.statement("d", stats.Interval(0.1, -0.05, 0.25), "lower"),
    ]
    nb.tally("page", said)
    assert glued["a"] == "holds" and glued["a-by"] == "+10.0 (+5.0 to +15.0)"
    assert glued["b"] == "the opposite" and glued["b-by"] == "+0.10 (+0.05 to +0.15)"
    assert glued["page-holds"] == "1 holds" and glued["page-open"] == "2 are undecided"
    assert glued["page-opposite"] == "1 comes out the opposite way"


def test_rank_counts_from_either_end():
    assert nb.rank(VALUES.auroc, "erm") == "2 of 2"  # 0.82 after 0.777
    assert nb.rank(VALUES.auroc, "erm", lowest=False) == "1 of 2"
    assert nb.rank(VALUES.auroc, "sam") == "–"


def test_tables_of_means_and_differences():
    half = stats.seed_interval([0.80, 0.82, 0.84]).high - 0.82
    assert f"82.0 ± {100 * half:.1f}" in nb.means(VALUES).to_html()
    html = nb.differences(VALUES, [("fmfp", "erm"), ("sam", "erm")]).to_html()
    assert "FMFP − ERM" in html and "AUROC (%)" in html and "NLL" in html
    assert "<b>higher</b><br>+10.5 (+4.1 to +16.9)" in html
    assert html.count("<b>cannot be told</b><br>–") == 2  # no run of SAM
    assert "white-space: normal" in nb.lists({"a": {"b": "words"}}).to_html()


PARAMETERS = 'edition = "demo"  # which\nseeds = 0'


def test_injected_parameters_must_exist():
    nb.check_parameters([PARAMETERS])
    nb.check_parameters([PARAMETERS, "# Parameters\nseeds = 3\n"])
    with pytest.raises(
        ValueError,
        match=r"unknown parameter 'sedes' .did you mean 'seeds'\?.; valid: edition, seeds",
    ):
        nb.check_parameters(["%matplotlib inline", PARAMETERS, "# Parameters\nsedes = 3\n"])


def test_html_of_names_is_escaped(cache):
    page = nb.page(["erm"], "cifar10", dataset="imagefolder:<script>", seeds=1)
    assert "<script>" not in page._repr_html_()
