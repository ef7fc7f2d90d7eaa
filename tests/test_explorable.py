"""The explorable figures show what calibkit.metrics says, wherever their sliders stand."""

import re

import numpy as np
import pytest

from calibkit import explorable, metrics, plots, stats
from calibkit.arrays import softmax
from tests.browser import Figure, browser, fixed, percent, visit


def make(n=2000, k=10, sharp=2.0, seed=0, skill=1.5):
    """Logits whose labels are drawn from their softmax, then made over-confident."""
    rng = np.random.default_rng(seed)
    logits = skill * rng.normal(size=(n, k))
    labels = (softmax(logits).cumsum(1) > rng.random((n, 1))).argmax(1)
    return sharp * logits, labels


def answers(logits, labels):
    found = metrics.per_sample(logits, labels)
    return found["confidence"], found["correct"]


# --- numbers ---


@pytest.mark.parametrize("k", [2, 3, 10])
def test_packed_logits_give_the_same_metrics(k):
    logits, labels = make(4000, k)
    logits[0] = 0  # a tie, of which the first class wins
    packed = explorable.pack(logits, labels)
    assert packed["bytes"].shape == (4000, k) and packed["bytes"].dtype == np.uint8
    restored, truth = explorable.unpack(packed)
    np.testing.assert_array_equal(truth == 0, logits.argmax(1) == labels)
    for temperature in (0.5, 1, 3):
        was = metrics.summary(logits / temperature, labels)
        now = metrics.summary(restored / temperature, truth)
        for name in ("accuracy", "ece", "auroc", "brier", "nll"):
            assert now[name] == pytest.approx(was[name], abs=5e-4), (name, temperature)


@pytest.mark.parametrize("k", [10, 60])
def test_as_trained_sliders_and_tables_say_the_same(k):
    rng = np.random.default_rng(0)
    labels = rng.integers(0, k, 3000)
    logits = 2.2 * rng.normal(size=(3000, k)) + 5 * np.eye(k)[labels]
    restored, truth = explorable.unpack(explorable.pack(logits, labels))
    was, now = metrics.summary(logits, labels), metrics.summary(restored, truth)
    for name in ("confidence", "ece", "auroc"):
        assert now[name] == pytest.approx(was[name], abs=4e-5), name


def test_many_classes_share_what_is_left():
    """Exact at temperature 1 but for rounding; at others much the same."""
    logits, labels = make(3000, 60, skill=3)
    packed = explorable.pack(logits, labels)
    assert packed["bytes"].shape[1] == 11 and packed["counted"]
    restored, truth = explorable.unpack(packed)
    for temperature, allowed in ((0.5, 2e-3), (1, 5e-4), (2, 5e-3), (3, 0.05)):
        was = metrics.summary(logits / temperature, labels)
        now = metrics.summary(restored / temperature, truth)
        for name in ("accuracy", "ece", "auroc", "nll"):
            assert now[name] == pytest.approx(was[name], abs=allowed), (name, temperature)


def test_of_many_samples_a_random_part_is_kept():
    logits, labels = make(500)
    numbers = explorable.reliability(logits, labels, most=200)
    assert (numbers["n"], numbers["total"]) == (200, 500)
    assert len(explorable.show_reliability(numbers).html) < 40_000


def test_ten_thousand_samples_of_ten_classes_fit():
    figure = explorable.show_reliability(explorable.reliability(*make(10_000)), still="data:,")
    assert len(figure.html) < 150_000


def test_thresholds_by_counting():
    c, z = answers(*make())
    numbers = explorable.histograms(c, z)
    for i in (0, 1, 500, 937, 1000):
        assert numbers["accepted_right"][i] == (z & (c.astype(float) >= i / 1000)).sum()
        assert numbers["accepted_wrong"][i] == (~z & (c.astype(float) >= i / 1000)).sum()
    assert numbers["right"].sum() == z.sum() and numbers["wrong"].sum() == (~z).sum()
    marked = explorable.histograms(c, z, marks=[0.9, 0.93721])
    assert marked["marks"].tolist() == [0.93721]  # 0.9 is a step already
    assert marked["accepted_right"][938] == (z & (c.astype(float) >= 0.93721)).sum()


def test_targets_are_those_of_coverage_at_risk():
    c, z = answers(*make())
    numbers = explorable.risk_coverage(c, z)
    for i in range(0, len(explorable.TARGETS), 10):
        expected = metrics.coverage_at_risk(c, z, explorable.TARGETS[i])
        assert numbers["accepted"][i] / len(z) == expected
        if expected:
            assert numbers["accepted"][i] == (c >= numbers["threshold"][i]).sum()
            assert numbers["wrong"][i] == (~z & (c >= numbers["threshold"][i])).sum()
    held_out = answers(*make(seed=1))
    other = explorable.risk_coverage(c, z, held_out)
    np.testing.assert_array_equal(
        other["threshold"], explorable.risk_coverage(*held_out)["threshold"]
    )
    assert other["accepted"][60] == (c >= other["threshold"][60]).sum()


def test_what_does_not_belong_together_is_refused():
    c, z = answers(*make(100))
    a, b = (explorable.histograms(c, z, bins) for bins in (10, 20))
    with pytest.raises(ValueError, match="different edges"):
        explorable.show_histograms({"erm": a, "fmfp": b})
    with pytest.raises(ValueError, match="nothing to show"):
        explorable.show_histograms({})
    with pytest.raises(ValueError, match="expected \\(epochs, n\\)"):
        explorable.gradients(np.zeros((1, 5, 3)), np.zeros(5, int), np.ones((1, 4)))
    with pytest.raises(ValueError, match="loss: got 'hinge'"):
        explorable.show_gradients({"moments": []}, loss="hinge")


# --- in a browser ---

MODELS = {"erm": make(), "fmfp": make(1500, sharp=0.7, seed=2)}
PREPARED = {m: explorable.reliability(*data, 1.73) for m, data in MODELS.items()}
EPOCHS = [1, 2, 4, 6, 8]


def histories(seed):
    rng = np.random.default_rng(seed)
    columns = {name: 0.5 + 0.4 * rng.random(5) for name in ("auroc", "accuracy", "ece", "nll")}
    return {"epoch": np.array(EPOCHS)} | columns


def curves(method):
    stored = {e: answers(*make(400, seed=e)) for e in (1, 4, 8)}
    return explorable.overfitting([histories(len(method)), histories(9)], stored)


def tracked():
    rng = np.random.default_rng(0)
    logits = np.stack([make(600, sharp=s)[0] for s in (0.3, 1.5)])
    norms = 1 + 3 * rng.random((2, 600)).astype(np.float32)
    return explorable.gradients(logits, make(600)[1], norms, [1, 30])


OVER = {m: curves(m) for m in MODELS}
TRACKED = tracked()
ANSWERS = {m: answers(*data) for m, data in MODELS.items()}
HELD_OUT = answers(*make(seed=5))
FIGURES = {
    "reliability": lambda: explorable.show_reliability(PREPARED),
    "histograms": lambda: explorable.show_histograms(
        {m: explorable.histograms(*pair) for m, pair in ANSWERS.items()}
    ),
    "overfitting": lambda: explorable.show_overfitting(OVER),
    "gradients": lambda: explorable.show_gradients(TRACKED),
    "risk_coverage": lambda: explorable.show_risk_coverage(
        {m: explorable.risk_coverage(*pair, HELD_OUT) for m, pair in ANSWERS.items()}
    ),
}


@pytest.fixture(scope="module")
def chromium():
    with browser() as opened:
        yield opened


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    """One page with all figures, as a notebook's outputs would stand on it."""
    body = "".join(f"<h2>{name}</h2>{show()._repr_html_()}" for name, show in FIGURES.items())
    path = tmp_path_factory.mktemp("page") / "page.html"
    path.write_text(f"<!doctype html><meta charset=utf-8><title>Figures</title><body>{body}")
    return path.as_uri()


@pytest.fixture(scope="module")
def page(chromium, url):
    page = visit(chromium, url, viewport={"width": 900, "height": 1000}, offline=True)
    yield page
    assert page.asked == [] and page.complaints == []


@pytest.mark.parametrize("scheme", ["equal_width", "equal_mass"])
@pytest.mark.parametrize(
    ("log_temperature", "bins", "model"), [(0, 15, 0), (0.9, 7, 0), (-1.3, 30, 1), (2, 50, 1)]
)
def test_reliability(page, scheme, log_temperature, bins, model):
    figure = Figure(page, "reliability")
    figure.choose("model", model)
    figure.choose("scheme", scheme)
    figure.slide("bins", bins)
    figure.slide("temperature", log_temperature)
    temperature = round(2**log_temperature, 2)
    logits, labels = explorable.unpack(list(PREPARED.values())[model])
    probs = softmax(logits / temperature)
    kind = {"equal_width": "ece", "equal_mass": "adaptive_ece"}[scheme]
    expected = {
        "ece": percent(getattr(metrics, kind)(probs, labels, bins), 2),
        "floor": percent(metrics.ece_floor(probs, bins=bins, of=kind), 2),
        "nll": fixed(metrics.nll(probs, labels), 3),
        "accuracy": percent(np.mean(probs.argmax(1) == labels), 2),
        "auroc": percent(metrics.auroc(probs.max(1), probs.argmax(1) == labels), 2),
    }
    assert {name: figure.number(name) for name in expected} == expected
    assert all(value in figure.says() for value in expected.values())
    assert f"temperature {temperature:.2f}" in figure.says()
    # The picture too: a dot for each bin that has samples, at its confidence and accuracy.
    table = metrics.reliability_bins(probs.max(1), probs.argmax(1) == labels, bins, scheme)
    seen = figure.root.locator(".bin title").all_text_contents()
    some = table["count"] > 0
    assert len(seen) == some.sum()
    for title, *exact in zip(
        seen, table["confidence"][some], table["accuracy"][some], table["count"][some], strict=True
    ):
        shown = [float(x) for x in re.findall(r"[\d.]+", re.sub(r"(?<=\d),(?=\d)", "", title))]
        # A tie such as 0.4125 may be rounded either way.
        assert shown == pytest.approx([float(x) for x in exact], abs=5e-4 + 1e-9), title
        assert re.fullmatch(r"confidence 0\.\d{3}, accuracy [01]\.\d{3}, [\d,]+ samples", title)


def test_the_fitted_temperature_is_a_button_and_keys_move_sliders(page):
    figure = Figure(page, "reliability")
    figure.root.get_by_role("button", name="fitted: T = 1.73").click()
    figure.settle()
    assert "temperature 1.73" in figure.says()
    figure.root.get_by_role("button", name="as trained").click()
    figure.settle()
    assert "temperature 1.00" in figure.says()
    figure.slide("bins", 15)
    figure.root.locator("[name=bins]").focus()
    page.keyboard.press("ArrowRight")
    figure.settle()
    assert figure.root.locator("[name=bins]").get_attribute("aria-valuetext") == "16"


def test_curves_over_the_temperature_come_by_themselves(page):
    page.locator("calibkit-explorable[kind=reliability] .spark").nth(4).wait_for(timeout=20_000)


@pytest.mark.parametrize(("threshold", "model"), [(0.9, 0), (0.417, 1), (1, 0), (0, 1)])
def test_histograms(page, threshold, model):
    figure = Figure(page, "histograms")
    figure.choose("model", model)
    figure.slide("threshold", round(1000 * threshold))
    c, z = list(ANSWERS.values())[model]
    accept = c >= threshold
    wrong = int((accept & ~z).sum())
    risk = percent(wrong / accept.sum()) if accept.any() else "–"
    assert figure.number("coverage") == percent(accept.mean())
    assert figure.number("risk") == risk
    assert figure.number("through") == f"{wrong:,}"
    assert figure.number("caught") == f"{(~z).sum() - wrong:,}"
    assert figure.number("lost") == f"{(z & ~accept).sum():,}"
    assert f"threshold of {threshold:.3f} answers {percent(accept.mean())}" in figure.says()
    if accept.any():
        _, low, high = stats.wilson(wrong, accept.sum())
        assert f"95\u00a0%: {fixed(100 * low, 1)} to {percent(high)}" in figure.text()
        at = metrics.risk_at_coverage(c, z, accept.mean())
        assert figure.number("risk") == percent(at)


def test_the_threshold_can_be_dragged_in_the_picture(page):
    figure = Figure(page, "histograms")
    box = figure.root.locator("svg[role=img]").bounding_box()
    y = box["y"] + box["height"] / 2
    page.mouse.move(box["x"] + 0.8 * box["width"], y)
    page.mouse.down()
    page.mouse.move(box["x"] + 0.5 * box["width"], y, steps=3)
    page.mouse.up()
    figure.settle()
    value = float(re.search(r"threshold of (\S+) answers", figure.says())[1])
    assert 0.4 < value < 0.6
    assert float(figure.root.locator("[name=threshold]").input_value()) == 1000 * value


@pytest.mark.parametrize(("place", "model"), [(0, 0), (3, 1), (4, 0)])
def test_overfitting(page, place, model):
    figure = Figure(page, "overfitting")
    figure.choose("model", model)
    figure.choose("metric", "ece")
    figure.slide("epoch", place)
    numbers = list(OVER.values())[model]
    for name, curve in numbers["curves"].items():
        digits = (lambda v: fixed(v, 3)) if name == "nll" else (lambda v: percent(v, 2))
        assert figure.number(name) == digits(curve[place])
        assert figure.number(name) in figure.says()
        best = numbers["best"][name]
        own = "its best" if best == place else f"best {digits(curve[best])}, epoch {EPOCHS[best]}"
        assert own in figure.text()
    stored = min((1, 4, 8), key=lambda e: abs(e - EPOCHS[place]))
    picture = figure.root.locator("svg[role=img]").nth(1).text_content()
    assert f"epoch {stored}" in picture
    assert f"AUROC {percent(metrics.auroc(*answers(*make(400, seed=stored))))}" in picture


@pytest.mark.parametrize("loss", explorable.LOSSES)
def test_gradients(page, loss):
    figure = Figure(page, "gradients")
    figure.root.locator("select").select_option(loss)
    for moment, gamma, beta in ((0, 3, 2.5), (1, 1, 1)):
        figure.choose("epoch", moment)
        figure.slide("gamma", gamma)
        figure.slide("beta", beta)
        brier, norm = explorable.gradient_norms(TRACKED["moments"][moment], loss, gamma, beta)
        spread = percent(plots.gradient_spread(brier, norm), 0)
        few = np.argmax(np.sort(norm)[::-1].cumsum() >= norm.sum() / 2) + 1
        assert figure.number("spread") == spread
        assert figure.number("hardest") == percent(few / len(norm))
        assert f"spread {spread};" in figure.says()
    gamma_used, beta_used = (name in explorable.LOSSES[loss] for name in ("gamma", "beta"))
    assert figure.root.locator("[name=gamma]").is_enabled() == gamma_used
    assert figure.root.locator("[name=beta]").is_enabled() == beta_used


@pytest.mark.parametrize("place", [0, 20, 60])
def test_risk_coverage(page, place):
    figure = Figure(page, "risk_coverage")
    figure.slide("target", place)
    target = explorable.TARGETS[place]
    c_val, z_val = HELD_OUT
    threshold = metrics.threshold_at_risk(c_val, z_val, target)
    for row, (c, z) in enumerate(ANSWERS.values()):
        accept = c >= threshold
        assert figure.number("coverage", row) == percent(accept.mean())
        if not accept.any():
            assert figure.number("threshold", row) == "none"
            continue
        assert float(figure.number("threshold", row)) == threshold
        assert figure.number("risk", row) == percent((~z[accept]).mean(), 2)
        assert f"{percent((~z[accept]).mean())} of them wrong" in figure.says()
        _, low, high = stats.wilson((~z & accept).sum(), accept.sum())
        assert f"{fixed(100 * low, 1)} to {percent(high)}" in figure.text()
    assert f"Aimed at {100 * target:g}\u00a0% errors" in figure.says()


def test_an_address_brings_back_what_was_seen(chromium, url):
    page = visit(chromium, url)
    figure = Figure(page, "gradients")
    figure.root.locator("select").select_option("dual_focal")
    figure.slide("gamma", 2.5)
    figure.choose("axes", "log")
    page.wait_for_function(
        "location.hash.includes('gamma=2.5') && location.hash.includes('axes=log')"
    )
    said, address = figure.says("γ = 2.5"), page.evaluate("location.href")
    assert "#explorable-4&" in address  # the fourth figure of the page
    again = visit(chromium, address)
    assert Figure(again, "gradients").says(said) == said
    assert again.locator("fieldset[name=axes] input[value=log]").is_checked()
    # The fitted temperature lies between two places of its slider.
    other = Figure(again, "reliability")
    other.root.get_by_role("button", name="fitted: T = 1.73").click()
    again.wait_for_function("location.hash.startsWith('#explorable-1&')")
    found = visit(chromium, again.evaluate("location.href"))
    assert Figure(found, "reliability").says("temperature 1.73")


@pytest.mark.parametrize("state", ["bins=9999&temperature=x", "model=7&scheme=<img>", "", "&&=&%"])
def test_an_address_that_makes_no_sense_changes_nothing(chromium, url, page, state):
    found = visit(chromium, f"{url}#explorable-1&{state}")
    figure = Figure(found, "reliability")
    figure.settle()
    assert "temperature 1.00" in figure.says() and found.complaints == []
    assert figure.root.locator("[name=bins]").input_value() == "15"


def test_still_pictures_stand_where_scripts_are_off(chromium, url):
    page = visit(chromium, url, java_script_enabled=False)
    pictures = page.locator("calibkit-explorable img")
    assert pictures.count() == len(FIGURES)
    for i in range(len(FIGURES)):
        assert pictures.nth(i).is_visible() and pictures.nth(i).bounding_box()["width"] > 300
        assert "not interactive" in pictures.nth(i).get_attribute("alt")
    assert page.asked == []


def test_phones_have_no_cut_figures_and_dark_pages_dark_ones(chromium, url):
    page = visit(chromium, url, viewport={"width": 390, "height": 800}, has_touch=True)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert not page.locator("calibkit-explorable img").first.is_visible()
    over = (
        "(t) => t.getBoundingClientRect().right - t.closest('.card').getBoundingClientRect().right"
    )
    assert page.locator("calibkit-explorable[kind=risk_coverage] table").evaluate(over) < 0
    assert page.locator("calibkit-explorable[dark]").count() == 0
    figure = Figure(page, "histograms")
    figure.root.locator("fieldset[name=model] label").nth(1).tap()
    figure.settle()
    assert f"AUROC {percent(metrics.auroc(*ANSWERS['fmfp']))}" in figure.text()
    page.evaluate("document.body.style.background = '#111'")
    page.wait_for_function("document.querySelectorAll('calibkit-explorable[dark]').length === 5")
    assert page.complaints == []
