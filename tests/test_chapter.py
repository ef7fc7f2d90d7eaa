"""Chapters show every setting that has records, and say in words what the numbers say."""

import html
import re

import numpy as np
import pandas as pd
import pytest

from calibkit import explorable, metrics, stats
from calibkit.companion import chapter, claims, contrasts, notebook, plan, published
from calibkit.training import store
from tests import records


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("CALIBKIT_CACHE", str(tmp_path))
    return tmp_path


@pytest.fixture
def shown(monkeypatch):
    """HTML and Markdown as a cell displays them."""
    found = []
    monkeypatch.setattr("IPython.display.display", found.append)
    return found


def words(shown) -> str:
    return "\n".join(x.data if hasattr(x, "data") else x._repr_html_() for x in shown)


def fill(setting: str, methods: list[str], seeds: int, **how) -> list[store.Record]:
    runs = plan.select("released", methods, seeds=seeds, setting=setting)
    return [records.write(run, **how) for run in runs]


def test_a_chapter_opens_with_the_settings_that_have_records_in_one_box(cache, shown):
    fill("fashion-fmfp", ["erm", "mixup"], 2)
    pages = chapter.begin("fmfp", ["erm", "mixup", "crl"])
    assert [p.planned.name for p in pages] == ["fashion-fmfp"]
    (box,) = shown
    assert "1 of this edition's 4 settings" in box.data
    assert "Without records: CRL (Fashion-MNIST" in box.data
    assert "<code>calibkit train --edition released --paper fmfp</code>" in box.data


def test_the_line_in_short_is_of_a_setting_with_several_runs(cache, shown):
    several, alone = ["erm", "mixup"], ["erm", "mixup", "focal"]
    fill("cifar10-plain", alone, 1)
    one = chapter.begin("fmfp", alone)
    assert chapter.in_short(one, list(map(chapter.values, one)), ["auroc"], alone[1:]) == (
        "**In short**"
    )
    fill("fashion-fmfp", several, 3)
    pages = chapter.begin("fmfp", alone)
    said = chapter.in_short(pages, list(map(chapter.values, pages)), ["auroc"], alone[1:])
    assert said.startswith("**In short:** on Fashion-MNIST: mixup leaves the AUROC practically")
    assert "CIFAR-10" not in said
    fill("fashion-fmfp", alone, 3)
    fill("cifar10-plain", several, 2)
    pages = chapter.begin("fmfp", alone)
    said = chapter.in_short(pages, list(map(chapter.values, pages)), ["auroc"], alone[1:])
    assert " On CIFAR-10 (1 of 2 have several runs): Mixup " in said
    fill("cifar10-augmented", several, 2)  # another setting of the same data is said by its name
    pages = chapter.begin("fmfp", alone)
    said = chapter.in_short(pages, list(map(chapter.values, pages)), ["auroc"], alone[1:])
    assert " On CIFAR-10, memorised (no augmentation) (1 of 2 have several runs): Mixup " in said
    assert " On CIFAR-10, augmented (crops and flips): Mixup " in said
    fill("cifar10-plain", alone, 3)  # it leads now, and its other regime is told all the same
    fill("shared", several, 3)
    pages = chapter.begin("fmfp", alone)
    said = chapter.in_short(pages, list(map(chapter.values, pages)), ["auroc"], alone[1:])
    assert said.startswith("**In short:** on CIFAR-10, memorised (no augmentation): ")
    assert (
        " On CIFAR-10, augmented (crops and flips): Mixup " in said
        and "one protocol for all" in said
    )


def test_a_chapter_without_records_ends_with_the_command(cache, shown):
    with pytest.raises(notebook.NoRecords):
        chapter.begin("fmfp", ["erm"])
    assert "calibkit train --edition released" in words(shown)


def test_values_are_the_same_whether_a_record_keeps_its_predictions(cache):
    (record,) = fill("fashion-fmfp", ["erm"], 1)

    def now():
        return chapter.values(notebook.page(["erm"], setting="fashion-fmfp", seeds=1))

    whole = now()
    store.lighten(record)
    light = now()
    assert set(light.index) == set(whole.index) == {("erm", 0), ("ts", 0)}
    excess = ("excess_ece", "excess_ece_scaled", "excess_ece_optimal")
    for name in ("auroc", "adaptive_ece_scaled", "ece_binned", "mean_wrong", *excess):
        assert light.loc[("erm", 0), name] == pytest.approx(whole.loc[("erm", 0), name], abs=1e-6)
    for name in ("auroc", "ece", "nll"):
        assert light.loc[("ts", 0), name] == pytest.approx(whole.loc[("ts", 0), name], abs=1e-6)


def test_settings_without_predictions_are_left_out_of_what_needs_them(cache):
    for record in fill("fashion-fmfp", ["erm", "mixup"], 1):
        if "mixup" in record.name:
            store.lighten(record)
    page = notebook.page(["erm", "mixup"], setting="fashion-fmfp", seeds=1)
    (kept,) = chapter.whole([page], "erm")
    assert kept.records == {"erm": page.records["erm"]} and kept.title == page.title
    assert chapter.whole([page], "erm", "mixup") == []


def test_a_figure_of_predictions_says_of_how_many_runs_it_is(cache):
    written = fill("fashion-fmfp", ["erm"], 4)

    def page():
        return notebook.page(["erm"], setting="fashion-fmfp", seeds=4)

    for light, count in ((1, 3), (2, 1)):  # of two runs an interval would be useless
        store.lighten(written[light])
        (kept,) = chapter.whole([page()], "erm")
        assert len(kept.logits("erm")) == count
        assert f"{count} seed" in kept.setting and "4 seeds" in page().setting


TABLE = pd.DataFrame(
    {"auroc": [0.90, 0.92, 0.94, 0.95, 0.80, 0.82, 0.9001, 0.9201], "ece": 0.1},
    pd.MultiIndex.from_product(
        [["erm", "focal", "mixup", "swa"], [0, 1]], names=["method", "seed"]
    ),
)


def test_differences_are_paired_by_seed():
    found = chapter.differences(TABLE, "auroc", ["erm", "focal", "crl"])
    assert list(found) == ["focal"]
    assert found["focal"] == pytest.approx(stats.seed_interval([0.04, 0.03]))
    assert chapter.differences(TABLE, "nll", ["focal"]) == {}
    assert chapter.differences(TABLE, "auroc", ["focal"], than="crl") == {}


def test_a_sentence_names_each_direction_once():
    found = chapter.differences(TABLE, "auroc", ["focal", "mixup", "swa"])
    said = chapter.in_words(found, "auroc", within=0.001)
    assert said.startswith("Mixup (−10.0 points")
    assert said.endswith(
        ") lowers the AUROC; SWA leaves it practically unchanged; no clear change with focal loss"
    )
    other = chapter.in_words(found, "auroc", "CRL", within=0.001)
    assert "has a lower AUROC than CRL; SWA has practically the same; no clear difference" in other
    alone = chapter.in_words({"focal": stats.Interval(0.02, np.nan, np.nan)}, "auroc")
    assert alone == (
        "The AUROC changes by +2.0 points with focal loss (one run each, so no interval)"
    )
    both = chapter.in_words(dict.fromkeys(("focal", "swa"), stats.Interval(-2, -3, -1)), "ece")
    assert both.endswith(") lower the ECE")


def test_figures_that_need_room_have_one_setting_for_each_data_set(cache):
    for record in fill("fashion-fmfp", ["erm", "mixup"], 1):
        store.lighten(record)
    fill("shared", ["erm", "mixup"], 1)
    fill("cifar10-plain", ["erm"], 1)
    pages = notebook.pages(["erm", "mixup"], paper="fmfp", seeds=1)
    assert [p.planned.name for p in pages] == ["cifar10-plain", "fashion-fmfp", "shared"]
    assert [p.planned.name for p in chapter.one_each(pages)] == ["cifar10-plain", "shared"]
    own = chapter.one_each(pages, predictions=False)
    assert [p.planned.name for p in own] == ["cifar10-plain", "fashion-fmfp"]
    assert chapter.one_each(pages, ["mixup"])[0].methods == ["erm"]  # of CIFAR-10 there is no other
    assert "n = 400" in pages[1].setting  # records without predictions know it, too


def test_a_metric_of_one_method_has_the_interval_of_its_differences(cache):
    fill("fashion-fmfp", ["erm", "mixup"], 3)
    page = notebook.page(["erm", "mixup"], setting="fashion-fmfp", seeds=3)
    table = chapter.values(page)
    models = {r.info["run"]["seed"]: contrasts.Model(r) for r in page.records["erm"]}
    alone = contrasts.of_models(models, "auroc").mean().interval()
    assert notebook.mean(table["auroc"], "erm") == pytest.approx(alone)
    assert alone != pytest.approx(stats.seed_interval(table["auroc"]["erm"]))
    beside = published.beside(
        published.by_run(page.records), "fmfp-tab1", "cifar10", "resnet110", ["auroc"]
    ).set_index("method")
    assert tuple(beside.loc["erm", ["ours", "low", "high"]]) == pytest.approx(alone)
    # Of what has no replicates it is Student's, and nothing lies where the metric cannot be.
    other = table["auroc"].rename("mine")
    assert notebook.mean(other, "erm") == pytest.approx(stats.seed_interval(other["erm"]))
    assert np.isnan(notebook.mean(table["auroc"], "crl").estimate)
    assert notebook.half_width(stats.Interval(0.99, 0.96, 1.0)) == pytest.approx(0.03)


def test_what_a_recalibration_does_is_that_of_the_same_runs(cache):
    fill("fashion-fmfp", ["erm"], 3)
    its = notebook.page(["erm"], setting="fashion-fmfp", seeds=3).records["erm"]
    found = contrasts.between(its, its, "ece_scaled", "ece").interval()
    each = [r.replicates for r in its]
    gains = [r.estimate("excess_ece_ts_ece") - r.estimate("excess_ece") for r in each]
    assert found.estimate == pytest.approx(np.mean(gains))


def test_a_threshold_is_chosen_on_validation_samples(cache):
    fill("fashion-fmfp", ["erm", "mixup"], 2)
    page = notebook.page(["erm", "mixup", "crl"], setting="fashion-fmfp", seeds=2)
    seen = metrics.per_sample(page.logits("mixup")[0], page.labels)
    held_out = metrics.per_sample(*page.validation("mixup")[0])
    expected = explorable.show_risk_coverage(
        {
            "mixup": explorable.prepare_risk_coverage(
                seen["confidence"], seen["correct"], (held_out["confidence"], held_out["correct"])
            )
        },
        still="",
    ).html
    numbers = re.search(r'"coverage": ?(\[.*?\])', html.unescape(expected))[1]
    both = html.unescape(chapter.risk_coverage(page, ["erm", "mixup", "crl"]).html)
    assert numbers in both and both.count('"threshold"') == 2 and "CRL" not in both


def test_margins_of_chapters_are_those_of_claims():
    ours = chapter.margins("fmfp", ["label_smoothing", "mixup"])
    assert ours["auroc"] == claims.written_margin("fmfp-c09", "auroc")
    assert ours["mean_wrong"] == claims.written_margin("fmfp-c18", "confidence_wrong")
    flat = chapter.margins("fmfp", ["fmfp"])  # of several claims the strictest
    assert flat["auroc"] == claims.written_margin("fmfp-c13", "auroc") < ours["auroc"]
    assert chapter.margins("fmfp", ["fmfp"], "crl")["aurc"] == (
        claims.written_margin("fmfp-c14", "aurc")
    )
    swept = chapter.margins("overconf", ["label_smoothing"])  # whatever the coefficient
    assert swept["ece"] == claims.written_margin("overconf-c01", "ece")
    mixed = chapter.margins("mixup", ["mixup"])
    assert mixed["excess_ece_scaled"] == claims.written_margin("mixup-c02", "ece_scaled")
    papers = [chapter.margins(paper, ["mixup"])["auroc"] for paper in ("fmfp", "darkside")]
    assert chapter.margins(methods=["mixup"])["auroc"] == min(papers) < max(papers)


@pytest.fixture
def pages(cache):
    fill("fashion-fmfp", ["erm", "mixup"], 2)
    return [notebook.page(["erm", "mixup"], setting="fashion-fmfp", seeds=2)]


def test_cells_are_coloured_by_what_is_better(pages, shown):
    table = TABLE.assign(aurc=1 - TABLE.auroc)
    chapter.shaded(pages, [table], ["auroc", "aurc", "ece"], ["mixup", "focal", "crl"])
    _, *rows = re.findall(r"<tr><th>(.*?)</th>(.*?)</tr>", shown[0].data)
    assert [name for name, _ in rows] == ["AUROC (%)", "AURC × 1000", "ECE (%)"]
    assert "CRL" not in shown[0].data  # it has no record
    for _, cells in rows[:2]:  # mixup is worse both ways round, focal undecided
        first, second = re.findall(r"<td(.*?)>(.*?)</td>", cells)
        assert chapter.WORSE in first[0] and "background" not in second[0]
    assert chapter.NONE in rows[2][1]  # a difference of 0 for sure


LOWER = ("Mixup lowers it", "fmfp-c01", "auroc", "lower", ["mixup", "focal"], "erm")


def test_statements_are_put_to_each_setting_and_counted(pages, shown):
    higher = ("It rises", "fmfp-c01", "auroc", "higher", ["mixup"], "erm")
    chapter.judge(pages, [TABLE], [LOWER, higher])
    assert "✓ mixup" in shown[1].data and "? focal" in shown[1].data
    assert "✗ mixup" in shown[1].data
    assert "Of 3 comparisons, 1 agrees with the paper, 1 contradicts it and 1 is" in words(shown)


def test_a_statement_has_the_margin_of_its_claim(pages, shown):
    about = {"metric": "auroc", "methods": ["swa"], "than": "erm"}  # it rises by 0.01 points
    (of_claim,) = chapter.decided(TABLE, "fmfp-c13", stated="higher", **about).values()
    assert of_claim[1] == "practically none" and of_claim[0].low > 0
    chapter.judge(pages, [TABLE], [("It rises", "fmfp-c13", "auroc", "higher", ["swa"], "erm")])
    assert "= SWA" in shown[1].data
    (near,) = chapter.decided(TABLE, "fmfp-c08", stated="near", **about).values()
    assert near[1] == "holds"
    with pytest.raises(KeyError):  # that claim is not about the accuracy
        chapter.decided(TABLE, "fmfp-c13", "accuracy", "higher", ["swa"], "erm")


def test_one_run_decides_nothing(pages, shown):
    chapter.judge(pages, [TABLE.xs(0, level="seed", drop_level=False)], [LOWER])
    assert "(✓) mixup" in shown[1].data and "(✗) focal" in shown[1].data
    assert "Of 2 comparisons with one run each, 1 points the paper's way." in words(shown)


def test_the_setting_that_tells_most_is_shown_and_the_others_open(cache, shown):
    fill("cifar10-plain", ["erm", "mixup", "focal", "crl"], 1)
    fill("cifar10-plain", ["erm"], 3)  # more runs of one method have nothing to be compared with
    fill("fashion-fmfp", ["erm", "mixup", "focal"], 2)
    two = notebook.pages(["erm", "mixup", "focal"], paper="fmfp")
    assert [p.planned.name for p in two] == ["cifar10-plain", "fashion-fmfp"]
    assert chapter.fullest(two) == 1
    turned = TABLE.assign(auroc=1 - TABLE.auroc)  # mixup now above, focal below
    chapter.shaded(two, [turned, TABLE], ["auroc"], ["mixup", "focal"])
    first, opened = shown[0].data.split("<details>")
    assert two[1].title in first and two[0].title not in first
    assert f"{two[0].title}: the same sign in 0 of 2 cells</summary>" in opened
    chapter.judge(two, [turned, TABLE], [LOWER])
    first, opened = shown[2].data.split("<details>")
    assert "✓ mixup" in first and "✗ mixup" in opened and two[0].title in opened
    assert shown[1].data.count("Of 2 comparisons") == 2  # how many agree is said of each
    chapter.tell(two, lambda page: f"It is {page.planned.name}.")
    first, opened = shown[3].data.split("<details>")
    assert first.startswith(f"**{two[1].title}") and "** It is fashion-fmfp.\n" in first
    assert "It is cifar10-plain." in opened


def test_one_comparison_is_counted_as_one(pages, shown):
    chapter.judge(pages, [TABLE], [(*LOWER[:4], ["mixup"], "erm")])
    assert words(shown[:1]) == "The one comparison with several runs agrees with the paper."


def test_settings_are_columns_where_that_takes_less_room(pages):
    tables = [TABLE] * 3
    wide = chapter.forest(pages * 3, tables, ["auroc"], ["mixup", "focal"])
    assert [ax.get_title(loc="left").replace("\n", " ") for ax in wide.axes] == [pages[0].title] * 3
    assert wide.axes[0].get_xlim() == wide.axes[2].get_xlim()
    tall = chapter.forest(pages, [TABLE], ["auroc"], ["mixup", "focal"])
    assert len(tall.subfigs) == 1


def test_words_are_counted_by_the_margin(pages):
    low = stats.Interval(-0.002, -0.003, -0.001)
    found = {"mixup": low, "focal": low}
    assert chapter.tally(found, "auroc") == "all 2 methods lower the AUROC"
    assert chapter.tally(found, "auroc", within=0.0035) == (
        "all 2 methods leave the AUROC practically unchanged"
    )


def test_a_setting_with_nothing_to_say_is_not_named(pages, shown):
    chapter.tell(pages * 2, lambda page: " ")
    assert not shown


def test_published_cells_stand_over_ours(pages, shown):
    table = chapter.values(pages[0])
    chapter.beside(pages, [table], "fmfp-tab1", ["auroc", "aurc"], "cifar10", "resnet110")
    row = re.search(r"<th>ERM</th><td>(.*?)</td>", shown[0].data)[1]
    theirs, mine = row.split("<br>")
    assert theirs == "<i>90.8 ± 0.6</i>"
    assert mine.startswith(f"{100 * table.auroc['erm'].mean():.1f} ± ")


def test_a_figure_has_a_block_for_each_setting(pages):
    fig, parts = chapter.blocks(pages * 2, 1, 3, heights=[1, 4])
    assert [axes.shape for _, axes in parts] == [(1, 3)] * 2
    assert fig.get_figheight() == pytest.approx(1.6 + 4.6)
    assert [sub.get_suptitle() for sub in fig.subfigs] == [pages[0].title] * 2
    table = chapter.values(pages[0])
    fig = chapter.forest(
        pages, [table], ["auroc"], ["mixup"], "erm", "fmfp-tab1", "cifar10", "resnet110"
    )
    points = [line.get_xdata() for line in fig.subfigs[0].axes[0].lines if line.get_marker() == "^"]
    ours = chapter.differences(table, "auroc", ["mixup"])["mixup"].estimate
    assert sorted(float(np.ravel(x)[0]) for x in points) == pytest.approx(
        sorted([100 * ours, 86.93 - 90.76]), abs=0.02
    )
