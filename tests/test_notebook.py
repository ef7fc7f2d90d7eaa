"""Pages bring their records, refuse wrong parameters, and say what is missing and how to get it."""

import os
import re
from pathlib import Path
from types import SimpleNamespace

import matplotlib.pyplot as plt
import nbformat
import numpy as np
import pandas as pd
import papermill
import pytest

from calibkit import metrics, stats
from calibkit.companion import chapter, contrasts, notebook, plan
from calibkit.companion.evidence import Evidence
from calibkit.companion.statements import Subject
from calibkit.training import store
from tests import records


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("CALIBKIT_CACHE", str(tmp_path))
    return tmp_path


def test_page_trains_what_is_missing_and_reuses_it(cache, capsys):
    page = notebook.page(["erm", "sam"], "smoke", seeds=2, epochs=2)
    assert capsys.readouterr().out.count("training") == 4
    assert page.methods == ["erm", "sam"] and len(page.logits("sam")) == 2
    assert page.logits("erm")[0].shape == (len(page.labels), 5)
    logits, labels = page.validation("erm")[1]
    assert len(logits) == len(labels) == 200
    assert page.setting == "five Gaussians, 300 to train · mlp · 2 epochs · 2 seeds · n = 5,000"
    assert "2 epochs" in page._repr_html_() and "Not trained" not in page._repr_html_()
    assert "4 runs" in page.provenance()._repr_html_()
    again = notebook.page(["sam"], "smoke", seeds=1, epochs=2)
    assert capsys.readouterr().out == ""
    np.testing.assert_array_equal(again.logits("sam")[0], page.logits("sam")[0])


def test_a_page_beside_trains_only_what_the_workflow_waits_for(cache):
    """Else a page trains a run while the workflow does, and clears its record away."""
    (page,) = notebook.beside(["erm"], "smoke", "bsce", seeds=1, epochs=2)
    assert [p.name for p in (cache / "runs").iterdir() if p.is_dir()] == [page.runs[0].name]


@pytest.mark.parametrize("edition", ["smoke", "demo"])
def test_pages_of_a_cheap_edition_train_what_its_book_plans_and_no_more(monkeypatch, edition):
    asked = []

    def collect(edition, runs, train):
        asked.extend(runs)
        return notebook.Page(edition, runs)

    monkeypatch.setattr(notebook, "collect", collect)
    notebook.pages([*plan.METHODS], edition)
    assert asked and set(asked) <= set(plan.runs("book", edition))
    asked.clear()
    notebook.page(["mixup(alpha=3)"], edition)
    assert asked and not set(asked) & set(plan.runs("book", edition))  # somebody's own wish


def test_missing_runs_of_a_large_edition_are_a_box_with_the_command(cache):
    page = notebook.page(["erm", "focal(gamma=5)"], "cifar10", network="resnet20", seeds=1)
    assert page.methods == [] and len(page.missing) == 2
    html = page._repr_html_()
    assert "No records yet" in html
    command = "calibkit train --edition cifar10 --method &#x27;erm&#x27;"
    assert "<details>" not in html and command in html and "--network resnet20 --seeds 1" in html


def test_the_command_of_a_box_selects_exactly_the_missing_runs(cache):
    import shlex

    from calibkit import cli

    asked = plan.Selection("cifar10", dataset="svhn", network="resnet20", seeds=2, epochs=7)
    page = notebook.page(["erm", "focal(gamma=5)"], asked)
    command = page.command([run.method for run in page.missing[::2]])
    options = cli._parser().parse_args(shlex.split(command)[1:])
    assert cli._selected(options) == page.missing


def test_what_is_asked_for_by_name_goes_before_the_selection():
    asked = plan.Selection("cifar10", network="resnet20", seeds=2, epochs=7)
    page = notebook.page(["erm"], asked, variant="paper", seeds=1)
    (run,) = page.runs
    assert (run.network, run.protocol.epochs, run.variant) == ("resnet20", 7, "paper")
    assert page.runs == plan.select(asked, ["erm"], seeds=1, variant="paper")
    assert plan.select("cifar10", ["erm"], seeds=1)[0].network != "resnet20"
    with pytest.raises(TypeError, match="'datset'"):
        notebook.page(["erm"], asked, datset="svhn")
    evidence = Evidence(asked, variant="paper", seeds=1)
    assert evidence.missing(Subject.read("erm"), "ece") == page.runs


def test_pages_draw_once_from_the_test_set_of_a_run(cache, monkeypatch):
    run = plan.select("smoke", ["erm"], "digits", seeds=1)[0]
    model = contrasts.Model(records.write(run))
    drawn = {metric: model.deviation(metric) for metric in ("auroc", "ece")}
    assert not np.array_equal(drawn["auroc"], drawn["ece"])
    calls = []
    draw = stats.replicates
    monkeypatch.setattr(stats, "replicates", lambda *of: calls.append(of) or draw(*of))
    for metric, before in drawn.items():  # as another page would
        np.testing.assert_array_equal(contrasts.Model(store.load(run)).deviation(metric), before)
    assert calls == []
    files = sorted(cache.glob("drawn/*/*"))
    assert len(files) == 2
    files[0].write_bytes(files[0].read_bytes()[:-8])  # a disk was full
    np.testing.assert_array_equal(
        contrasts.Model(store.load(run)).deviation("auroc"), drawn["auroc"]
    )
    assert len(calls) == 1
    os.utime(files[0], (0, 0))  # drawn by code of before
    contrasts.Model(store.load(run)).deviation("auroc")
    assert len(calls) == 2
    again = contrasts.Model(records.write(run, separation=0.1))  # trained again: not the same
    assert not np.array_equal(again.deviation("auroc"), drawn["auroc"])
    scaled = contrasts.Model(again.record, "scaled").deviation("auroc")
    assert not np.array_equal(scaled, again.deviation("auroc"))


def test_diverged_runs_are_shown_as_such(cache):
    run = plan.select("smoke", ["erm"], seeds=1)[0]
    store.save(run, "diverged", [], {}, {"seconds": 1.0})
    page = notebook.page(["erm"], "smoke", seeds=1)
    assert page.diverged == [run] and page.methods == []
    assert run.name in page._repr_html_()


@pytest.fixture
def made_up(cache):
    """A page of two methods and two seeds, whose records were drawn at random."""
    runs = plan.select("smoke", ["erm", "fmfp"], "digits", seeds=2)
    for run in runs:
        records.write(run)
    return notebook.collect("smoke", runs)


def test_collect_trains_nothing_unless_asked(made_up, capsys):
    more = plan.select("smoke", ["sam"], "digits", seeds=1)
    page = notebook.collect("smoke", [*made_up.runs, *more])
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
    assert notebook.Page("smoke", []).table().empty


def test_answers_also_of_the_first_samples_alone(made_up):
    logits = made_up.logits("erm")
    confidence, correct = made_up.predictions(logits)
    np.testing.assert_array_equal(correct[1], logits[1].argmax(1) == made_up.labels)
    few, right = made_up.predictions(z[:50] for z in logits)
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
    runs = plan.select("released", ["erm", "fmfp"], seeds=2)
    for run in runs:
        records.write(run)
    table = notebook.collect("released", runs).shifted()
    assert len(table) == 2 * 2 * 4
    record = notebook.collect("released", runs).records["fmfp"][1]
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
    found = notebook.difference(VALUES.auroc, "fmfp", "erm")
    assert found == pytest.approx(stats.seed_interval([0.10, 0.11]))
    assert found.estimate == pytest.approx(0.105) and found.verdict == "higher"
    assert np.isnan(notebook.difference(VALUES.auroc, "sam", "erm")).all()
    assert np.isnan(
        notebook.difference(VALUES.auroc.drop(index=[0, 1], level=1), "fmfp", "erm")
    ).all()


def test_differences_in_words():
    assert (
        notebook.points(notebook.difference(VALUES.auroc, "fmfp", "erm")) == "+10.5 [+4.1, +16.9]"
    )
    assert notebook.points(stats.Interval(-0.0001, np.nan, np.nan)) == "+0.0"
    assert notebook.points(stats.seed_interval([np.nan])) == "–"
    assert notebook.in_units(stats.Interval(0.1, -0.2, 0.3), "nll") == "+0.100 [−0.200, +0.300]"


@pytest.mark.parametrize(
    ("values", "outcome"),
    [
        ([0.1, 0.11], "holds"),
        ([-0.1, -0.11], "the opposite"),
        ([0.1], "open"),
        ([0.1, -0.1], "open"),
        ([np.nan], "not available"),
    ],
)
def test_outcome_of_a_statement(values, outcome):
    found = stats.seed_interval(values)
    assert notebook.outcome(found, "higher") == outcome
    assert notebook.outcome(found, "higher", margin=2.0) in (
        ("practically none",) if np.isfinite(found.low) and found.high < 2 else ("open", outcome)
    )


@pytest.fixture
def unlike(cache):
    """A page of two methods, of which the second ranks better and is less sure."""
    runs = plan.select("smoke", ["erm", "fmfp"], "digits", seeds=2)
    for run in runs:
        better = run.method == "fmfp"
        records.write(run, separation=1.5 if better else 0.5, sharpness=2.5 if better else 3.0)
    return notebook.collect("smoke", runs)


def test_a_page_and_the_claims_have_one_interval_for_one_difference(unlike):
    sides = {m: Subject((m,)) for m in ("fmfp", "erm", "ts_ece")}
    for light in (False, True):
        for its in unlike.records.values() if light else ():
            its[:] = [store.lighten(record) for record in its]
        evidence = Evidence("smoke", dataset="digits")
        table, wide = unlike.table(), chapter.values(unlike)
        asked = [("fmfp", m, m) for m in ("auroc", "ece", "ece_scaled", "aurc", "brier", "nll")]
        asked += [("fmfp", "mean_correct", "confidence_correct"), ("ts", "auroc", "auroc")]
        for method, column, metric in asked:
            who = sides["ts_ece" if method == "ts" else method]
            theirs = evidence.difference(who, sides["erm"], metric).interval()
            for values in (wide, table) if column in table and method != "ts" else (wide,):
                found = notebook.difference(values[column], method, "erm")
                np.testing.assert_allclose(found, theirs, rtol=1e-3)
            assert theirs != pytest.approx((0, 0, 0), abs=1e-6)


def test_what_is_no_metric_of_a_network_has_students_interval(unlike):
    table = unlike.table()
    for values in (1 - table["auroc"], 100 * table["auroc"], table["auroc"].rename("mine")):
        pairs = values.xs("fmfp") - values.xs("erm")
        found = notebook.difference(values, "fmfp", "erm")
        assert found == pytest.approx(stats.seed_interval(pairs))
        assert found != pytest.approx(notebook.difference(table["auroc"], "fmfp", "erm"))


@pytest.fixture
def said(monkeypatch):
    """What a cell displays, as Markdown."""
    shown = []
    monkeypatch.setattr("IPython.display.display", lambda one: shown.append(one))
    return shown


@pytest.mark.parametrize(
    "sentence",
    [
        "ERM is narrowest for –, and the rest follows.",
        "The ECE is nan %.",
        "The best is None.",
        "It grows by inf.",
        "Lower for .",
        "There  the worse one.",
        "Methods: [].",
        "See ().",
        "An ECE of {ece}.",
        "An ECE of  %.",
        "| a | b |\n| --- | --- |\n| ERM | – |",
        "",
    ],
)
def test_a_sentence_with_a_hole_is_refused(said, sentence):
    with pytest.raises(ValueError, match="a sentence with a hole"):
        notebook.say("A good one.", sentence) if sentence else notebook.say("")
    assert not said


@pytest.mark.parametrize(
    "sentence",
    [
        "An ECE of 4.1 % [3.9, 4.3] (five seeds), −0.1 points.",
        "Pages 1–3 … say so; information is informative.",
        "`{}` and $\\{x\\}$ are code and formulas, [Guo et al. (2017)](https://x.org/a_(b)).",
        "| a | b |\n| --- | ---: |\n| ERM   |  1.2 |",
        "- One\n- Two\n\n**Bold.** *Also.*",
    ],
)
def test_whole_sentences_are_printed_as_markdown(said, sentence):
    notebook.say(sentence)
    assert said[0].data == sentence.replace(" %", "\u00a0%").replace("[3.9, ", "[3.9,\u00a0")


def test_paragraphs_of_a_cell_lose_its_indentation(said):
    notebook.say(
        """One line
        and another.""",
        "- a list",
    )
    assert said[0].data == "One line\nand another.\n\n- A list"


def test_sentences_begin_with_a_capital_letter(said):
    notebook.say("mixup and\nfocal do.", "- label smoothing\n- ERM, e.g. this\n\n**one** is")
    assert (
        said[0].data == "Mixup and\nfocal do.\n\n- Label smoothing\n- ERM, e.g. this\n\n**One** is"
    )


def test_names_in_a_sentence_are_never_none():
    with pytest.raises(ValueError, match="write the sentence for this case"):
        notebook.named([])


def test_changes_have_the_units_of_tables():
    assert notebook.change(stats.Interval(0.0012, 0.0002, 0.0022), "aurc", 1) == (
        "+1.2 × 10⁻³ [+0.2, +2.2]"
    )
    assert notebook.change(stats.Interval(-0.1, -0.2, 0.0), "nll", 2) == "−0.10 [−0.20, +0.00]"
    lower = notebook.verdict(stats.Interval(-0.02, -0.03, -0.01), "ece", "FMFP", "ERM")
    assert lower == "FMFP has a lower ECE than ERM, by 2.0 points [1.0, 3.0]"


def test_statements_stand_beside_what_comes_out_and_are_counted(said):
    notebook.statements(
        [
            ("the ECE falls", stats.Interval(-0.1, -0.15, -0.05), "lower", "ece"),
            ("the NLL rises", stats.Interval(-0.1, -0.15, -0.05), "higher", "nll"),
            ("not here", stats.seed_interval([np.nan]), "higher", "nll"),
        ]
    )
    (shown,) = said
    shown.data = shown.data.replace("\u00a0", " ")  # a cell with a number does not wrap
    assert "| the ECE falls | holds | −10.0 points [−15.0, −5.0] |" in shown.data
    assert "not here" not in shown.data
    assert shown.data.endswith(
        "Of these 2 statements, 1 holds here and 1 comes out the opposite way."
    )
    assert "None of these" in notebook.score(["not available"])
    single = stats.Interval(-0.1, np.nan, np.nan)
    notebook.statements([("falls", single, "lower", "ece"), ("rises", single, "higher", "ece")])
    shown = said[1].data.replace("\u00a0", " ")
    assert "| falls | (as stated) | −10.0 points |" in shown
    notebook.statements([("falls", stats.Interval(-0.1, -0.15, -0.05), "lower", "ece", 0.2)])
    assert "| falls | practically none |" in said[2].data.replace("\u00a0", " ")
    assert "| rises | (the opposite) | −10.0 points |" in shown
    assert shown.endswith("the direction is as stated in 1 of 2.")


def test_numbers_keep_their_unit_and_their_interval(said):
    notebook.say("It is 3.0 % [−1.0, +2.5] of (a, b), [see](x), and 1 [2, 3].")
    assert said[0].data == (
        "It is 3.0\u00a0% [−1.0,\u00a0+2.5] of (a, b), [see](x), and 1 [2,\u00a03]."
    )


def test_tables_look_alike():
    table = pd.DataFrame({"a": [1.0]}, ["row"])
    html = notebook.tabulate(table, classes="calibkit-sortable").to_html()
    assert 'class="dataframe calibkit-table calibkit-sortable"' in html and "row" in html
    words = notebook.tabulate(table.style, index=False, words=True).to_html()
    assert 'class="dataframe calibkit-table words"' in words and "row</th>" not in words


def test_a_page_without_records_ends_with_the_command_and_becomes_a_short_page(cache, tmp_path):
    source = [
        nbformat.v4.new_markdown_cell("# Title\n\nAbout it."),
        nbformat.v4.new_code_cell('edition = "cifar10"', metadata={"tags": ["parameters"]}),
        nbformat.v4.new_code_cell(
            "from calibkit.companion import notebook\n"
            'page = notebook.page(["erm"], edition)\n'
            "notebook.require(page)"
        ),
        nbformat.v4.new_markdown_cell('<a id="a-label"></a>\n## A section'),
        nbformat.v4.new_code_cell("page.labels"),
    ]
    path, executed = tmp_path / "page.ipynb", tmp_path / "executed.ipynb"
    nbformat.write(nbformat.v4.new_notebook(cells=source), path)
    with pytest.raises(papermill.PapermillExecutionError, match="NoRecords"):
        papermill.execute_notebook(path, executed, kernel_name="python3", progress_bar=False)
    assert notebook.shorten(executed)
    page = nbformat.read(executed, as_version=4)
    assert page.cells[0].source == '<a id="a-label"></a>\n# Title\n\nAbout it.'
    assert len(page.cells) == 3
    (box,) = page.cells[2].outputs  # and no error
    assert "calibkit train --edition cifar10" in box["data"]["text/html"]


def test_a_page_that_fails_otherwise_is_no_short_page(tmp_path):
    error = nbformat.v4.new_output("error", ename="KeyError", evalue="'x'", traceback=[])
    cell = nbformat.v4.new_code_cell("1", outputs=[error])
    nbformat.write(nbformat.v4.new_notebook(cells=[cell]), tmp_path / "page.ipynb")
    before = (tmp_path / "page.ipynb").read_bytes()
    assert not notebook.shorten(tmp_path / "page.ipynb")
    assert (tmp_path / "page.ipynb").read_bytes() == before


def test_a_page_with_records_goes_on(made_up, said):
    notebook.require(made_up, notebook.Page("smoke", []))
    (box,) = said  # one for all settings
    assert made_up.setting in box.data and "No records yet" in box.data
    with pytest.raises(notebook.NoRecords):
        notebook.require()


def test_a_figure_of_predictions_says_how_many_seeds_keep_them():
    light, whole = SimpleNamespace(light=True), SimpleNamespace(light=False)
    assert notebook.Page("smoke", [], {"erm": [whole, whole]}).drawn_seeds == ""
    few = notebook.Page("smoke", [], {"erm": [whole, light, light], "sam": [whole, light]})
    assert few.drawn_seeds == " · drawn: 1 seed whose predictions are kept"


def test_rank_counts_from_either_end():
    assert notebook.rank(VALUES.auroc, "erm") == "2 of 2"  # 0.82 after 0.777
    assert notebook.rank(VALUES.auroc, "erm", lowest=False) == "1 of 2"
    assert notebook.rank(VALUES.auroc, "sam") == "–"


def test_tables_of_means_and_differences():
    half = stats.seed_interval([0.80, 0.82, 0.84]).high - 0.82
    assert f"82.0 ± {100 * half:.1f}" in notebook.means(VALUES).to_html()
    html = notebook.differences(VALUES, [("fmfp", "erm"), ("sam", "erm")]).to_html()
    assert "FMFP − ERM" in html and "AUROC (%)" in html and "NLL" in html
    assert "<b>higher</b><br>+10.5 [+4.1, +16.9]" in html
    assert html.count("<b>cannot be told</b><br>–") == 2  # no run of SAM
    assert "white-space: normal" in notebook.lists({"a": {"b": "words"}}).to_html()


PARAMETERS = 'edition = "demo"  # which\nseeds = 0'


def test_injected_parameters_must_exist():
    notebook.check_parameters([PARAMETERS])
    notebook.check_parameters([PARAMETERS, "# Parameters\nseeds = 3\n"])
    with pytest.raises(
        ValueError,
        match=r"unknown parameter 'sedes' .did you mean 'seeds'\?.; valid: edition, seeds",
    ):
        notebook.check_parameters(["%matplotlib inline", PARAMETERS, "# Parameters\nsedes = 3\n"])


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"edition": "smok"}, r"unknown edition 'smok' .did you mean 'smoke'\?.; valid: "),
        ({"edition": "smoke", "network": "mpl"}, "'mpl'"),
    ],
)
def test_unknown_names_are_refused(cache, wrong, message):
    with pytest.raises(ValueError, match=message):
        notebook.pages(["erm"], plan.Selection(**wrong), "fmfp")


def test_html_of_names_is_escaped(cache):
    page = notebook.page(["erm"], "cifar10", dataset="imagefolder:<script>", seeds=1)
    assert "<script>" not in page._repr_html_()


# --- the source notebooks -------------------------------------------------------------------------

SOURCES = sorted((Path(__file__).parent.parent / "notebooks").glob("*.ipynb"))
ROLE = re.compile(r"(?<!`)\{[a-z:]+\}`\w")


def code_of(page) -> list[str]:
    """Sources of the code cells, without the one that brings calibkit to Colab."""
    cells = [c.source for c in page.cells if c.cell_type == "code"]
    return [source for source in cells if "calibkit-book" not in source]


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.stem)
def test_a_notebook_reads_the_same_in_jupyterlab(path):
    page = nbformat.read(path, as_version=4)
    for cell in page.cells:
        assert not ROLE.search(cell.source), f"a role is raw text in JupyterLab: {cell.source}"
        assert "input_transformers" not in cell.source
        assert not cell.get("outputs")
    assert not re.search(
        r"\bglue\(|notebook\.(number|text|statement|tally|gap)\(", "\n".join(code_of(page))
    )


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.stem)
def test_a_notebook_is_short(path):
    lines = sum(len(c.splitlines()) for c in code_of(nbformat.read(path, as_version=4)))
    assert lines <= 350
