"""Check the built book in a browser: broken links, console errors, bytes, accessibility.

    python benchmarks/pages.py book/_build/html [--only fmfp --only tour]

Each page is opened from the disk in Chromium with an empty cache. The weight of a page is that of
all files that it loads, uncompressed. axe-core (from axe-playwright-python) judges accessibility,
on a wide screen in light mode. The exit code is 1 if anything is broken.
"""

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterable
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag, urlparse

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results" / "pages.json"
SERIOUS = ("serious", "critical")
HEAVY = 1.5e6  # bytes of a page with all that it loads


class Document(HTMLParser):
    """The anchors of a page and what it leads to."""

    def __init__(self, path: Path):
        super().__init__()
        self.anchors, self.links = {"", "top"}, []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attributes):
        found = dict(attributes)
        self.anchors |= {found.get("id"), found.get("name") if tag == "a" else None}
        if tag in ("a", "link"):
            self.links.append(found.get("href"))
        if tag in ("script", "img", "iframe", "source"):
            self.links.append(found.get("src"))


def pages(folder: Path) -> list[Path]:
    """Those of the book, without what its theme keeps among its files."""
    return [p for p in sorted(folder.rglob("*.html")) if "_static" not in p.parts]


def broken_links(folder: Path) -> list[tuple[str, str]]:
    """Page and link, for links within the book that lead to no file or to no anchor in it."""
    documents = {path.resolve(): Document(path) for path in pages(folder)}
    broken = []
    for path, document in documents.items():
        for link in filter(None, document.links):
            address, anchor = urldefrag(link)
            if urlparse(address).scheme:
                continue
            address = unquote(address.split("?")[0])
            target = (path.parent / address).resolve() if address else path
            known = documents.get(target)
            if not target.is_file() or (known and unquote(anchor) not in known.anchors):
                broken.append((path.relative_to(folder.resolve()).as_posix(), link))
    return sorted(set(broken))


def visit(chromium, path: Path, axe=None) -> dict:
    """What loading a page asks for and complains about, and what axe-core finds there."""
    page = chromium.new_page(viewport={"width": 1300, "height": 900}, color_scheme="light")
    asked, complaints = [], []
    page.on("request", lambda r: r.url.startswith("data:") or asked.append(r.url))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("console", lambda m: m.type == "error" and complaints.append(m.text))
    page.on("requestfailed", lambda r: complaints.append(f"not loaded: {r.url}"))
    page.goto(path.resolve().as_uri(), wait_until="load")
    page.wait_for_load_state("networkidle")  # index.html leads on
    page.evaluate("() => scrollTo(0, document.body.scrollHeight)")  # images that wait to be seen
    page.wait_for_timeout(300)
    files = {Path(unquote(urlparse(url).path)) for url in asked if url.startswith("file:")}
    found = {
        "bytes": sum(file.stat().st_size for file in files if file.is_file()),
        "requests": len(asked),
        "outside": sorted(url for url in asked if not url.startswith("file:")),
        "console": list(complaints),  # axe-core asks for the sheets again, in vain from a disk
    }
    if axe:
        violations = axe.run(page).response["violations"]
        found["axe"] = [
            (v["id"], v["impact"], len(v["nodes"]), v["nodes"][0]["html"][:200]) for v in violations
        ]
    page.close()
    return found


def crawl(folder: Path, paths: Iterable[Path]) -> dict[str, dict]:
    """What is met on each page, each in a browser that has not been there before."""
    from axe_playwright_python.sync_playwright import Axe

    sys.path.insert(0, str(ROOT))
    from tests.browser import browser

    with browser() as chromium:
        return {path.relative_to(folder).as_posix(): visit(chromium, path, Axe()) for path in paths}


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="of the built book: book/_build/html")
    parser.add_argument("--only", action="append", default=[], help="a page; repeatable")
    parser.add_argument("--save", action="store_true", help="write benchmarks/results/pages.json")
    options = parser.parse_args(arguments)
    links = broken_links(options.folder)
    paths = [p for p in pages(options.folder) if not options.only or p.stem in options.only]
    found = crawl(options.folder, paths)

    print(f"{'page':44}{'kB':>7}{'requests':>10}{'errors':>8}{'axe':>5}{'serious':>9}")
    findings = Counter()
    examples = {}
    for name, its in found.items():
        serious = [f for f in its["axe"] if f[1] in SERIOUS]
        findings.update({f[:2]: f[2] for f in its["axe"]})
        examples |= {f[0]: (name, f[3]) for f in its["axe"]}
        numbers = its["bytes"] / 1e3, its["requests"], len(its["console"]), len(its["axe"])
        print("{:44}{:7,.0f}{:10}{:8}{:5}{:9}".format(name, *numbers, len(serious)))
    for page, link in links:
        print(f"broken: {page}: {link}")
    for name, its in found.items():
        for text in (*its["console"], *its["outside"]):
            print(f"{name}: {' '.join(text.split())[:200]}")
    for (rule, impact), n in findings.most_common():
        print(f"axe: {rule} ({impact}): {n}, such as {examples[rule][0]}: {examples[rule][1]}")
    if options.save:
        summary = {
            "broken": links,
            "pages": {
                name: {k: its[k] for k in ("bytes", "requests")}
                | {"errors": len(its["console"]), "axe": [f[:3] for f in its["axe"]]}
                for name, its in found.items()
            },
        }
        RESULTS.write_text(json.dumps(summary, indent=1) + "\n")
    bad = any(
        its["console"] or its["outside"] or its["bytes"] > HEAVY
        or any(f[1] in SERIOUS for f in its["axe"])
        for its in found.values()
    )  # fmt: skip
    return int(bool(links) or bad)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
