"""Figures of the chapters: what is better is blue, and the paper's numbers stand beside ours."""

import matplotlib.pyplot as plt
import pytest
from matplotlib.colors import to_hex

from calibkit import metrics, plots
from calibkit_companion import results
from calibkit_companion.pages import figures


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


def row(metric, values, method="sam", to="erm"):
    its = results.Series(dict(enumerate(values)))
    of, against = (results.Operand(name, results.Number(metric)) for name in (method, to))
    return results.row(its, of, against if to else None)


def drawn(ax) -> list[tuple[str, bool]]:
    """The colour of each dot, and whether it is filled."""
    dots = [line for line in ax.lines if line.get_marker() == "o"]
    return [(to_hex(d.get_color()), to_hex(d.get_markerfacecolor()) != "#ffffff") for d in dots]


def test_lower_is_better_for_an_error_and_worse_for_a_ranking():
    down, same = [-0.02, -0.021, -0.022], [-0.02, 0.0, 0.02]
    panels = {
        "ECE": {"sam": row("ece", down), "swa": row("ece", same)},
        "AUROC": {"sam": row("auroc", down), "swa": row("auroc", down[:2])},
        "Confidence": {"sam": row("confidence", down)},  # neither is better
    }
    left, middle, right = figures.verdicts(panels, published={"ECE": {"sam": -0.03}}).axes
    x = {line.get_marker(): line.get_xdata() for line in left.lines if line.get_ydata()[0] == 0}
    assert (*x["o"], *x["D"]) == pytest.approx((-2.1, -3.0))  # the paper's is the diamond
    several = figures.verdicts(panels, published={"ECE": {"sam": [-0.03, -0.01, 0.01]}}).axes[0]
    x = {line.get_marker(): line.get_xdata() for line in several.lines if line.get_ydata()[0] == 0}
    assert (*x["|"], *x["D"]) == pytest.approx((-3.0, -1.0, 1.0, -1.0))  # and the median
    sam = panels["ECE"]["sam"]
    assert left.lines[0].get_xdata() == pytest.approx((100 * sam.low, 100 * sam.high))
    assert drawn(left) == [(figures.BETTER.lower(), True), (figures.UNTOLD.lower(), True)]
    assert drawn(middle)[0] == (figures.WORSE.lower(), True)
    assert not drawn(middle)[1][1]  # two runs
    assert drawn(right)[0][0] not in (figures.BETTER.lower(), figures.WORSE.lower())
    assert "← better" in left.get_xlabel() and "better →" in middle.get_xlabel()
    assert len(left.figure.legends[0].get_texts()) == 6  # one of each that is there
    assert [text.get_text() for text in right.texts] == ["not run"]  # SWA


def test_a_row_without_a_number_is_no_empty_line():
    rows = {"sam": row("ece", [0.1, 0.2, 0.3]), "swa": row("ece", [])}
    (ax,) = figures.verdicts({"ECE": rows}).axes
    assert [(text.get_text(), text.get_position()[1]) for text in ax.texts] == [("not run", 1)]
    assert len(drawn(ax)) == 1


def test_calibration_stands_against_ranking():
    rows = {("sam", m): row(m, v) for m, v in (("ece", [-0.02, -0.021]), ("auroc", [0.01, 0.012]))}
    fig = figures.trade_off({"here": rows})
    (dot,) = (
        line for line in fig.axes[0].lines if line.get_marker() == plots.look("sam")["marker"]
    )
    assert (*dot.get_xdata(), *dot.get_ydata()) == pytest.approx((-2.05, 1.1))
    assert [text.get_text() for text in fig.legends[0].get_texts()] == ["SAM"]


def test_a_heading_stands_over_its_names_and_an_empty_one_nowhere():
    rows = {"sam": row("ece", [0.1, 0.2, 0.3]), "Other words": row("ece", [0.1, 0.2, 0.3])}
    groups = {"first": ["sam"], "none of these": ["fmfp"], "second": ["Other words"]}
    (ax,) = figures.verdicts({"ECE": rows}, groups).axes
    assert [t.get_text() for t in ax.texts] == ["first", "second"]
    assert [t.get_text() for t in ax.get_yticklabels()] == ["SAM", "Other words"]
    assert [t.get_position()[1] for t in ax.texts] == [0, 2] and list(ax.get_yticks()) == [1, 3]
    with pytest.raises(ValueError, match="got no rows"):
        figures.verdicts({"ECE": {}})


def test_a_dagger_stands_behind_the_interval_of_what_is_marked():
    rows = {"sam": row("ece", [0.1, 0.2, 0.3]), "swa": row("ece", [0.1])}
    (ax,) = figures.verdicts({"ECE": rows}, marked={"ECE": ["sam"], "AUROC": ["swa"]}).axes
    (mark,) = ax.texts
    assert mark.get_text() == " †"
    assert mark.get_position()[0] == pytest.approx(100 * rows["sam"].high)
    assert ax.figure.legends[0].get_texts()[-1].get_text() == figures.DAGGER


def test_a_headline_stands_below_the_legend():
    rows = {"sam": row("ece", [0.1, 0.2, 0.3])}
    fig = figures.verdicts({"ECE": rows})
    figures.headline(fig, "a setting")
    fig.canvas.draw()
    title, legend = fig._suptitle, fig.legends[0].get_window_extent()
    assert title.get_text() == "\na setting" and title.get_window_extent().x0 < legend.x0


def test_bars_write_what_is_printed_and_what_is_here():
    ours = {"erm": row("ece", [0.09, 0.1, 0.11], "erm", ""), "sam": row("ece", [0.05], to="")}
    (ax,) = figures.bars({"ECE": ours}, {"ECE": {"erm": 0.041, "not drawn": 0.5}}).axes
    assert sorted(t.get_text() for t in ax.texts) == ["10.0", "4.1", "5.0"]
    assert ax.get_xlim()[0] == 0
    high = {m: row("auroc", [v], m, "") for m, v in (("erm", 0.9), ("sam", 0.92))}
    (ax,) = figures.bars({"AUROC": high}, {}).axes
    assert 85 < ax.get_xlim()[0] < 90  # far from zero the axis starts near the bars' ends
    assert [bar.get_x() + bar.get_width() for bar in ax.patches] == pytest.approx([90, 92])


def test_curves_of_zhu_leave_out_the_first_few_answers():
    curve = metrics.risk_coverage([0.9] + [0.5] * 99, [False] + [True] * 99)
    ax = figures.risk_of_zhu({"erm": curve})
    assert ax.lines[0].get_xdata().min() > 0.02 and ax.lines[0].get_ydata().max() < 100
