"""Chromium for tests of what a page does, not only of what it says."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")


@contextmanager
def browser() -> Iterator:
    """Open a headless Chromium, that of the system or playwright's; skip the test without one."""
    api = pytest.importorskip("playwright.sync_api")
    path = next(filter(None, map(shutil.which, NAMES)), None)
    with api.sync_playwright() as play:
        try:  # without a graphics card: to emulate one costs a tenth more
            flags = ["--no-sandbox", "--disable-gpu"]
            chromium = play.chromium.launch(executable_path=path, args=flags)
        except api.Error as error:
            pytest.skip(f"no Chromium: {str(error).splitlines()[0]}")
        yield chromium
        chromium.close()


def visit(chromium, url: str, **context):
    """Open a page that must ask for nothing but itself; `page.asked` has what else it asked for."""
    page = chromium.new_context(**context).new_page()
    page.set_default_timeout(110_000)  # a busy machine takes its time
    page.asked, page.complaints = [], []
    page.on("request", lambda r: r.url.startswith(("data:", url)) or page.asked.append(r.url))
    page.on("pageerror", lambda error: page.complaints.append(str(error)))
    page.on("console", lambda m: m.type == "error" and page.complaints.append(m.text))
    page.goto(url)
    return page


class Figure:
    """What a reader does with an explorable figure and sees of it."""

    def __init__(self, page, kind):
        self.page, self.root = page, page.locator(f"calibkit-explorable[kind={kind}]")

    def slide(self, name, value):
        set_value = "(e, v) => { e.value = v; e.dispatchEvent(new Event('input')) }"
        self.root.locator(f"[name={name}]").evaluate(set_value, value)
        self.settle()

    def choose(self, name, value):
        self.root.locator(f"fieldset[name={name}] input[value='{value}']").check(force=True)
        self.settle()

    def settle(self):
        self.page.evaluate("() => new Promise((done) => requestAnimationFrame(() => done()))")

    def number(self, name, place=0):
        return self.root.locator(f"[data-number={name}]").nth(place).text_content()

    def text(self):
        return self.root.locator(".card").inner_text()

    def says(self, part=""):
        """Its sentence, once it has this part: the page may be busy."""
        return self.root.locator("[aria-live=polite]", has_text=part).text_content()


def fixed(value, digits):
    """As the page rounds it: 0.8125 to 0.813."""
    return f"{value + 1e-12:.{digits}f}".replace("-", "−")


def percent(value, digits=1):
    """As the page writes it: a share that is neither nothing nor all never reads as either."""
    short = 100 * min(value, 1 - value) if 0 < value < 1 else 1
    while digits < 5 and short < 0.5 * 10**-digits:
        digits += 1
    return f"{fixed(100 * value, digits)}\u00a0%"
