"""Findings: a sentence written by hand, and its comparisons in words."""

import re
from html.parser import HTMLParser

import numpy as np
import pytest

from calibkit_companion import results
from calibkit_companion.pages import page, wording
from calibkit_companion.results import Number, Operand, Series


def compared(values, number, method="label_smoothing", to="erm", title="", setting="here", **other):
    """A row of these values by seed, in natural units; `other` are fields of the second number."""
    of = Operand(method, number, setting, title)
    against = Operand(to, number, setting, title).but(**other)
    return results.row(Series(dict(enumerate(values))), of, against)


def against(words, values, number, method="focal"):
    """A row that is compared with something in words."""
    return results.row(
        Series(dict(enumerate(values))), Operand(method, number), Operand(words=words)
    )


def changed(values, number):
    """A change of plain training through its epochs."""
    return results.row(Series(dict(enumerate(values))), Operand("erm", number))


LOWER, HIGHER = (-0.08, -0.07, -0.075), (0.01, 0.02, 0.015)
ALIKE, UNCLEAR = (0.0005, -0.0005, 0.0), (0.08, -0.08, 0.01)


@pytest.mark.parametrize(
    "row, words",
    [
        (
            compared(LOWER, Number("ece")),
            "The ECE of label smoothing is 7.5 points [6.3, 8.7] lower than that of plain "
            "training.",
        ),
        (
            compared(HIGHER, Number("ece", "ts_nll"), "focal"),
            "The ECE of focal loss after temperature scaling (fitted by NLL) is 1.5 points "
            "[0.3, 2.7] higher than that of plain training.",
        ),
        (
            compared(LOWER, Number("ece", "ts_nll"), "erm", recalibration="none"),
            "Temperature scaling (fitted by NLL) lowers the ECE of plain training by 7.5 points "
            "[6.3, 8.7].",
        ),
        (
            compared(ALIKE, Number("auroc", "ts_ece"), "erm", recalibration="none"),
            "Temperature scaling (fitted by ECE) changes the AUROC of plain training by too little "
            "to matter: 0.0 points [−0.1, +0.1].",
        ),
        (
            compared(UNCLEAR, Number("nll"), "brier"),
            "It is unclear whether the NLL of Brier loss is lower or higher than that of plain "
            "training: +0.003 [−0.196, +0.203].",
        ),
        (
            compared(
                HIGHER, Number("aurc", score="p_norm"), "mixup", "mixup", score="max_probability"
            ),
            "The AURC of mixup by the p-norm is 15.0 thousandths [2.6, 27.4] higher than its value "
            "by the largest probability.",
        ),
        (
            compared(HIGHER, Number("confidence"), "erm", metric="accuracy"),
            "The mean confidence of plain training is 1.5 points [0.3, 2.7] higher than its "
            "accuracy.",
        ),
        (
            changed(LOWER, Number("accuracy", since="third_rate")),
            "The accuracy of plain training falls by 7.5 points [6.3, 8.7] after the second drop "
            "of the learning rate.",
        ),
        (
            compared(LOWER, Number("auroc", since="third_rate"), "label_smoothing"),
            "The change of AUROC of label smoothing since the second drop of the learning rate is "
            "7.5 points [6.3, 8.7] lower than that of plain training.",
        ),
        (
            compared(HIGHER, Number("auroc"), "sam", at=9),
            "The AUROC of SAM is 1.5 points [0.3, 2.7] higher than that of plain training at "
            "epoch 9.",
        ),
        (
            against("chance", HIGHER, Number("ece", "ts_test")),
            "The ECE of focal loss at the temperature that is best on the test set is 1.5 points "
            "[0.3, 2.7] higher than chance.",
        ),
        (
            compared((), Number("ece"), "mixup"),
            "Nothing was measured for mixup.",
        ),
    ],
)
def test_a_comparison_is_a_sentence_with_its_unit_and_what_it_is_compared_with(row, words):
    assert wording.sentence(row) == words


def test_a_sentence_has_the_digits_of_the_row():
    """Rewording changes no number: those of the row are in the sentence, but for the sign."""
    for values in (LOWER, HIGHER, ALIKE, UNCLEAR):
        row = compared(values, Number("auroc"))
        numbers = re.findall(r"[\d.]+", row.format())
        assert sorted(re.findall(r"\d[\d.]*\d", wording.sentence(row))) == sorted(numbers)


def test_the_settings_of_an_effect_are_named_by_their_titles():
    one, two = (
        compared(HIGHER, Number("auroc"), "fmfp", title=f"CIFAR-10, {words}", setting=key)
        for key, words in (("cifar10-plain", "without augmentation"), ("cifar10-long", "60 epochs"))
    )
    assert wording.sentence(one - two) == (
        "The effect of FMFP on the AUROC differs from that in CIFAR-10, 60 epochs by too little to "
        "matter: 0.0 points [0.0, 0.0]."
    )
    assert wording.heading(one - two) == (
        "Effect on the AUROC, compared with the effect in CIFAR-10, 60 epochs, points"
    )


ON_100 = Number("ece", "binned", validation=100)


def test_a_difference_in_validation_size_names_both_sizes():
    """It once printed "on 100 validation samples … its value at epoch 1000"."""
    row = compared(HIGHER, ON_100, "focal", "focal", validation=1000)
    assert wording.sentence(row) == (
        "The ECE of focal loss after histogram binning on 100 validation samples is 1.5 points "
        "[0.3, 2.7] higher than its value on 1000 validation samples."
    )
    assert wording.heading(row) == (
        "ECE after histogram binning on 100 validation samples, compared with its value on 1000 "
        "validation samples, points"
    )
    whole = compared(HIGHER, ON_100, "focal", "focal", validation=0)
    assert wording.sentence(whole).endswith("higher than its value on all validation samples.")


def test_a_difference_of_effects_in_validation_size_names_both_sizes():
    few = compared(HIGHER, ON_100, "focal")
    many = compared(HIGHER, ON_100._replace(validation=1000), "focal")
    assert wording.sentence(few - many) == (
        "The effect of focal loss on the ECE after histogram binning on 100 validation samples "
        "differs from that on 1000 validation samples by too little to matter: 0.0 points "
        "[0.0, 0.0]."
    )


def test_two_methods_in_two_settings_are_both_named():
    """FMFP in A minus SAM in B once lost SAM."""
    fmfp = compared((0.02, 0.03, 0.025), Number("auroc"), "fmfp", title="A", setting="a")
    sam = compared((0.01, 0.02, 0.012), Number("auroc"), "sam", title="B", setting="b")
    assert wording.sentence(fmfp - sam).startswith("The effect of FMFP on the AUROC is 1.1 points")
    assert wording.sentence(fmfp - sam).endswith("higher than that of SAM in B.")
    assert wording.heading(fmfp - sam) == (
        "Effect on the AUROC, compared with the effect of SAM in B, points"
    )
    assert page.finding("FMFP gains more.", (fmfp - sam, "higher")).holds


def test_what_two_differences_are_both_compared_with_cancels():
    fmfp, sam = (compared(HIGHER, Number("auroc"), method) for method in ("fmfp", "sam"))
    assert (fmfp - sam).against == sam.of
    assert wording.sentence(fmfp - sam).startswith("The AUROC of FMFP differs from that of SAM by")


def test_levels_in_two_settings_are_no_effects():
    one, two = (
        results.row(Series(dict(enumerate(values))), Operand("erm", Number("ece"), name, title))
        for values, name, title in ((HIGHER, "a", "A"), ((0.1, 0.11, 0.105), "b", "B"))
    )
    assert wording.sentence(two - one).endswith("points [9.0, 9.0] higher than its value in A.")


def test_effects_over_different_methods_name_both_of_them():
    over_erm = compared(HIGHER, Number("auroc"), "fmfp")
    over_sam = compared(HIGHER, Number("auroc"), "swa", "sam")
    assert wording.sentence(over_erm - over_sam).startswith(
        "The effect of FMFP on the AUROC differs from that of SWA over SAM by"
    )
    assert wording.sentence(over_sam - over_erm).startswith(
        "The difference in AUROC between SWA and SAM differs from that of FMFP over plain training "
    )


class Cells(HTMLParser):
    """The text of every cell of a table, by row."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.rows: list[list[str]] = []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        if tag == "tr":
            self.rows.append([])
        elif tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_data(self, data):
        if self.rows and self.rows[-1]:
            self.rows[-1][-1] += data.strip()


def test_more_than_two_comparisons_are_a_table_with_headed_columns():
    rows = [
        compared(LOWER, Number("ece")),
        compared(HIGHER, Number("ece"), "mixup"),
        compared(ALIKE, Number("auroc"), "mixup"),
    ]
    text = page.finding("All differ.", *((row, row.outcome) for row in rows))._repr_markdown_()
    table = text[text.index("<table") : text.index("</table>")]
    assert Cells(table).rows == [
        ["Method", "Difference", "Outcome"],
        ["ECE, compared with plain training, points"],
        ["Label smoothing", "−7.5 [−8.7, −6.3]", "lower"],
        ["Mixup", "+1.5 [+0.3, +2.7]", "higher"],
        ["AUROC, compared with plain training, points"],
        ["Mixup", "0.0 [−0.1, +0.1]", "no difference"],
    ]
    assert "<details" not in text
    assert "\n\n" not in table  # Markdown would end the HTML there


def test_a_table_of_several_settings_names_the_setting_of_each_row():
    places = {"a": "CIFAR-10, 20 epochs", "b": "CIFAR-10, 60 epochs"}
    rows = [
        compared(values, Number(metric), title=title, setting=setting)
        for metric, values in (("ece", LOWER), ("auroc", HIGHER))
        for setting, title in places.items()
    ]
    text = page.finding("All differ.", *((row, row.outcome) for row in rows))._repr_markdown_()
    table = Cells(text[text.index("<table") : text.index("</table>")])
    assert table.rows == [
        ["Method", "Setting", "Difference", "Outcome"],
        ["ECE, compared with plain training, points"],
        ["Label smoothing", "CIFAR-10, 20 epochs", "−7.5 [−8.7, −6.3]", "lower"],
        ["Label smoothing", "CIFAR-10, 60 epochs", "−7.5 [−8.7, −6.3]", "lower"],
        ["AUROC, compared with plain training, points"],
        ["Label smoothing", "CIFAR-10, 20 epochs", "+1.5 [+0.3, +2.7]", "higher"],
        ["Label smoothing", "CIFAR-10, 60 epochs", "+1.5 [+0.3, +2.7]", "higher"],
    ]
    assert 'colspan="4"' in text


def test_a_table_of_models_alone_heads_them_as_models():
    """Rows without a method are of others' models, which are named by words."""
    rows = [
        results.row(
            Series(dict(enumerate(LOWER))), Operand(number=Number("ece"), words=name),
            Operand(words="its accuracy"),
        )
        for name in ("langid", "lingua", "magika")
    ]  # fmt: skip
    text = page.finding("All are lower.", *((row, "lower") for row in rows))._repr_markdown_()
    assert "<thead><tr><th>Model</th>" in text


def test_a_table_has_names_of_other_tools_as_they_write_them():
    rows = [
        compared(LOWER, Number("ece", "ts_nll"), "erm", recalibration="none"),
        compared(LOWER, Number("ece"), "langid", "langid", metric="accuracy"),
        compared(LOWER, Number("ece"), "mixup"),
        compared(LOWER, Number("ece"), "sam"),
    ]
    text = page.finding("All differ.", *((row, "lower") for row in rows))._repr_markdown_()
    table = Cells(text[text.index("<table") : text.index("</table>")])
    assert [row[0] for row in table.rows if len(row) > 1] == [
        "Method", "Plain training", "langid", "Mixup", "SAM",
    ]  # fmt: skip


def test_comparisons_of_different_kinds_are_sentences():
    kinds = ("ece", "auroc", "nll", "brier", "accuracy", "aurc", "augrc")
    rows = [(compared(LOWER, Number(kind)), "lower") for kind in kinds]
    text = page.finding("All differ.", *rows[:6])._repr_markdown_()
    assert "<table" not in text and text.count("<br>") == 5
    assert "<table" in page.finding("All differ.", *rows)._repr_markdown_()


def test_a_long_table_is_folded():
    rows = [compared(LOWER, Number("ece"), f"focal(gamma={i})") for i in range(1, 8)]
    text = page.finding("All differ.", *((row, "lower") for row in rows))._repr_markdown_()
    assert "<summary>The 7 comparisons behind this</summary>" in text and "\n\n<table" not in text


def test_a_comparison_that_stands_twice_is_shown_once():
    row = compared(LOWER, Number("ece"))
    text = page.finding("It lowers it.", (row, "lower"), (row, "lower"))._repr_markdown_()
    assert text.count("7.5 points") == 1


def test_a_finding_on_a_method_without_runs_says_that_nothing_was_measured():
    missing = results.Rows()["mixup"]
    measured = compared(HIGHER, Number("auroc"), "sam")
    text = page.finding("It lowers the AUROC.", (measured, "lower"), (missing, "lower"))
    assert "Nothing was measured for mixup." in text._repr_markdown_()


def test_a_finding_says_where_its_intervals_are_over_runs_alone():
    draws, auroc = {seed: np.linspace(-0.01, 0.01, 20) for seed in (0, 1)}, Number("auroc")
    alone, both = (
        results.row(Series({0: 0.1, 1: 0.2}, its), Operand("sam", auroc), Operand("erm", auroc))
        for its in ({}, draws)
    )
    for rows, said in (([alone], True), ([both], False), ([alone, both], False)):
        text = page.finding("It raises the AUROC.", *((row, "higher") for row in rows))
        assert ("over runs alone" in text._repr_markdown_()) == said


def test_a_finding_counts_the_test_samples_that_its_intervals_cover():
    draws, number = {seed: np.linspace(-0.01, 0.01, 20) for seed in (0, 1)}, Number("auroc")
    for its, said in (({}, False), (draws, True)):
        series = Series({0: 0.1, 1: 0.2}, its, n=10_000)
        row = results.row(series, Operand("sam", number), Operand("erm", number))
        text = page.finding("It raises the AUROC.", (row, "higher"))._repr_markdown_()
        assert ("10,000 test samples" in text) == said


def test_a_finding_on_networks_of_others_has_their_range_and_calls_them_no_seeds():
    both = results.Networks({"a": 0.01, "b": 0.03}, n=10_000)
    scaled = Operand("erm", Number("auroc", "ts_nll"), "by others")
    row = results.row(both, scaled, scaled.but(recalibration="none"))
    found = page.finding("It raises the AUROC.", (row, "higher"))
    text = found._repr_markdown_()
    assert found.holds and "2.0 points [1.0, 3.0]" in text
    assert "the lowest and the highest in brackets · by others · 2 networks · 10,000 test" in text
    assert "seed" not in text and "95 %" not in text


def test_a_finding_that_does_not_hold_says_so():
    text = page.finding("It lowers it.", (compared(HIGHER, Number("ece")), "lower"))
    assert "**These runs do not show it.**" in text._repr_markdown_()
