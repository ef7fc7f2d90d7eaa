"""The book's own extensions of Sphinx: formulas, links, and what a page does without."""

import importlib
import re
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml
from docutils import nodes
from pybtex.database import parse_file

from tests.browser import browser, visit

ROOT = Path(__file__).parent.parent
BOOK = ROOT / "book"
CONFIG = yaml.safe_load((BOOK / "_config.yml").read_text())["sphinx"]["config"]


@pytest.fixture(autouse=True)
def of_the_book(monkeypatch):
    monkeypatch.syspath_prepend(str(BOOK / "_ext"))
    yield
    for name in ("formulas", "links", "assets"):
        sys.modules.pop(name, None)


def extension(name):
    return importlib.import_module(name)


# --- formulas ---


@pytest.mark.parametrize(
    ("latex", "parts"),
    [
        (r"\frac{a}{b}", ["<mfrac><mi>a</mi><mi>b</mi></mfrac>"]),
        (r"\conf", ["<mover", "<mi>p</mi>"]),
        (r"a &= b \\ c &= d", ["<mtable", "<mtr", "<mi>d</mi>"]),
        (r"\begin{aligned} a &= b \\ c &= d \end{aligned}", ["<mtable"]),
    ],
)
def test_a_formula_is_mathml(latex, parts):
    formulas = extension("formulas")
    config = SimpleNamespace(formula_macros=CONFIG["formula_macros"])
    translator = SimpleNamespace(builder=SimpleNamespace())
    formulas.prepare(SimpleNamespace(config=config, builder=translator.builder))
    written = formulas.mathml(translator, nodes.math_block(latex, latex), True)
    assert written.startswith("<math")
    assert all(part in written for part in parts), written


# --- links ---


@pytest.fixture(scope="module")
def bibliography():
    entries = parse_file(BOOK / "references.bib").entries
    citations = [SimpleNamespace(citation_id=k, entry=e) for k, e in entries.items()]
    return SimpleNamespace(citations=citations)


@pytest.mark.parametrize(
    ("words", "entry"),
    [
        ("Guo et al. (2017)", "guo2017"),
        ("Wang et al., 2021", "wang2021"),
        ("Wang et al. (2023)", "wang2023"),
        ("Hendrycks and Gimpel, 2017", "hendrycks2017"),
        ("Brier, 1950", "brier1950"),
        ("Zhu et al.", "zhu2022"),
        ("Wang et al.", None),  # which of the two?
        ("Guo et al. (2018)", None),
        ("Bibliography", None),
    ],
)
def test_words_of_a_citation_name_one_entry(bibliography, words, entry):
    found = extension("links").cited(bibliography, words)
    assert (found and found.citation_id) == entry


def test_almost_every_entry_leads_to_its_paper(bibliography):
    known = {"doi", "eprint", "url"}
    without = {c.citation_id for c in bibliography.citations if not known & set(c.entry.fields)}
    assert without <= {"zadrozny2001", "kish1965", "korn1998"}  # in no archive that we know of


def works_named(text: str) -> set[tuple[str, str]]:
    """First author and year of each work that a text cites, such as "Guo et al., 2017"."""
    name = r"[A-ZÀ-Þ][a-zß-ɏ][\w’-]*"
    more = rf"(?: et al\.|(?:, {name})*,? (?:and|&) {name})"
    flat = re.sub(r"\s+", " ", text)
    found = re.findall(rf"({name}){more}?,? \(?((?:19|20)\d\d[a-z]?)\b", flat)
    no_authors = {"NeurIPS", "November", "January"}
    return {(author, year) for author, year in found if author not in no_authors}


def test_works_are_found_by_their_first_author():
    text = (
        "Guo et al. 2017; Korn and\nGraubard (1998); Tan & Le, 2019; Kish, 1965; He et al. (2016b)"
    )
    text += "; Stephenson, Coelho and Jolliffe, 2008; 28 November 2026; CVPR 2023; of 2048 rows"
    works = "Guo 2017, Korn 1998, Tan 2019, Kish 1965, He 2016b, Stephenson 2008"
    assert works_named(text) == {tuple(work.split()) for work in works.split(", ")}


def test_the_bibliography_has_every_work_that_code_and_pages_cite(bibliography):
    listed = {
        (
            str(citation.entry.persons["author"][0].rich_last_names[-1]),
            citation.entry.fields["year"],
        )
        for citation in bibliography.citations
    }
    code = (
        path for name in ("calibkit", "calibkit_companion") for path in (ROOT / name).rglob("*.py")
    )
    for path in (*code, *(ROOT / "notebooks").glob("*.ipynb"), *BOOK.glob("*.md")):
        missing = works_named(path.read_text(encoding="utf-8")) - listed
        assert not missing, (path.name, missing)


def test_citations_in_notebooks_name_an_entry(bibliography):
    """Else the reader is left at the top of the bibliography."""
    links = extension("links")
    for path in (*(ROOT / "notebooks").glob("*.ipynb"), *BOOK.glob("*.md")):
        for words in re.findall(r"\[([^]\[]+)\]\([./]*bibliography\.md\)", path.read_text()):
            ambiguous = words in ("Wang et al.", "bibliography", "Bibliography")
            assert ambiguous or links.cited(bibliography, words), (path.name, words)


def test_claims_have_anchors_and_html_finds_those_of_docutils():
    links = extension("links")
    fold = '<details><summary><span class="name">fmfp-c09</span> Words</summary>fmfp-c11</details>'
    body = fold + "<td>fmfp-c10</td><td>fmfp-c10</td>" + '<td id="own">bsce-c01</td>'
    context = {"body": body + '<a href="overconf.html#overconf-figA">'}
    elsewhere = dict(context)
    links.anchor_html(None, "notebooks/claims", "", context, None)
    assert re.findall(r'<\w+ id="([\w-]+)"', context["body"]) == ["fmfp-c09", "fmfp-c10", "own"]
    assert 'href="#fmfp-c10"' in context["body"]
    assert 'href="overconf.html#overconf-figa"' in context["body"]
    again = dict(context)
    links.anchor_html(None, "notebooks/claims", "", again, None)
    assert again == context
    links.anchor_html(None, "notebooks/fmfp", "", elsewhere, None)  # other pages only name them
    assert elsewhere["body"].startswith(body)


def test_the_first_use_of_a_term_is_explained_and_leads_to_the_glossary():
    links = extension("links")
    first, code, second = "An ECE of 0. BSCE-GRA.", nodes.literal("ECE", "ECE"), "ECE again"
    paragraph = nodes.paragraph("", "", code, nodes.Text(first))
    doctree = nodes.section("", nodes.title("", "ECE"), paragraph, nodes.paragraph("", second))
    terms = {"ECE": "a gap", "BSCE": "no", "BSCE-GRA": "gradients"}
    builder = SimpleNamespace(get_relative_uri=lambda page, to: f"../{to}.html")
    app = SimpleNamespace(config=SimpleNamespace(terms=terms), builder=builder)
    links.explain(app, doctree, "page")
    found = [(n.astext(), n["explanation"]) for n in doctree.findall(nodes.abbreviation)]
    assert found == [("ECE", "a gap"), ("BSCE-GRA", "gradients")]
    assert [n["refuri"] for n in doctree.findall(nodes.reference)] == [
        "../glossary.html#term-ECE", "../glossary.html#term-BSCE-GRA"
    ]  # fmt: skip
    assert doctree.astext().count("ECE") == 4  # no word is lost


def test_the_glossary_has_the_methods_that_papers_abbreviate():
    links, config = extension("links"), SimpleNamespace()
    links.glossary(SimpleNamespace(srcdir=BOOK), config)
    assert {"ECE", "AUROC", "CS-KD", "MMCE", "FLSD-53", "BSCE-GRA", "CRL"} <= set(config.terms)
    assert all(its.endswith(".") for its in config.terms.values())


def test_a_type_of_the_reference_links_to_no_attribute():
    """As Sphinx 9 would: its `find_obj` is asked for an attribute where no class has the name."""
    from docutils.utils import new_document
    from sphinx.addnodes import pending_xref

    known = {("Refinement", "class"), ("n", "attr")}
    domain = SimpleNamespace(
        find_obj=lambda _, module, outer, name, kind, mode: (name, kind) in known
    )
    page = new_document("api")
    page.settings.env = SimpleNamespace(get_domain=lambda name: domain)
    for word, kind in (
        ("n", "class"),
        ("Refinement", "class"),
        ("misspelt", "class"),
        ("n", "attr"),
    ):
        page += pending_xref("", nodes.emphasis(word, word),
                             refdomain="py", reftype=kind, reftarget=word)  # fmt: skip
    extension("links").TypesAreClasses(page).run()
    left = [(link["reftarget"], link["reftype"]) for link in page.findall(pending_xref)]
    assert left == [("Refinement", "class"), ("misspelt", "class"), ("n", "attr")]
    assert page.astext().split() == ["n", "Refinement", "misspelt", "n"]


# --- what a page does without ---


def test_a_page_keeps_the_scripts_that_it_uses():
    assets = extension("assets")
    names = ("fontawesome.js", "searchindex.js", "togglebutton.js", "copybutton.js", "figures.js")
    head = "".join(f'<script src="../_static/{name}?v=1"></script>' for name in names)
    page = f"<head>{head}</head><body>{{}}</body>"
    assert re.findall(r"/([\w]+)\.js", assets.lighten(page.format(""))) == ["figures"]
    code = assets.lighten(page.format('<div class="highlight-python"></div>'))
    assert re.findall(r"/([\w]+)\.js", code) == ["copybutton", "figures"]
    search = assets.lighten(page.format('<div id="search-results"></div>'))
    assert re.findall(r"/([\w]+)\.js", search) == ["searchindex", "figures"]
    assert assets.lighten(code) == code


@pytest.fixture
def theme(tmp_path) -> tuple[str, Path]:
    """The style sheet of the theme that is installed, and a folder with its fonts."""
    import pydata_sphinx_theme

    folder = Path(pydata_sphinx_theme.__file__).parent / "theme" / "pydata_sphinx_theme" / "static"
    for font in (folder / "vendor" / "fontawesome" / "webfonts").iterdir():
        (tmp_path / font.name).write_bytes(font.read_bytes())
    return (folder / "styles" / "pydata-sphinx-theme.css").read_text(), tmp_path


def as_fontawesome_7(css: str) -> str:
    """The icons of a sheet as Font Awesome 7 writes them: a property each, one file a font."""
    css = re.sub(
        r'((?:\.fa-[\w-]+:+before,?)+)\{content:(?="\\)',
        lambda its: re.sub(":+before", "", its[1]) + "{--fa:",
        css,
    )
    return re.sub(r'(\.woff2\)) format\("woff2"\),url\([^)]*\) format\("truetype"\)', r"\1", css)


@pytest.mark.parametrize("form", [str, as_fontawesome_7])
def test_only_icons_in_use_keep_their_rule_and_their_sign(theme, form):
    from fontTools.ttLib import TTFont

    assets = extension("assets")
    css, fonts = form(theme[0]), theme[1]
    assert form is str or '.fa-sun{--fa:"' in css and ".ttf" not in css
    lighter = assets.with_icons(css, {"fa-sun", "fa-magnifying-glass"}, fonts)
    assert re.search(r'\.fa-sun(:before)?\{(content|--fa):"\\f185"\}', lighter)
    assert ".fa-dice-three" in css and ".fa-dice-three" not in lighter
    assert ".woff2" not in lighter and ".ttf" not in lighter
    assert "webfonts/fa-solid-900.woff" in lighter
    signs = TTFont(fonts / "fa-solid-900.woff").getBestCmap()
    assert 0xF185 in signs and 0xF527 not in signs  # the sun, not the dice
    assert (fonts / "fa-solid-900.woff").stat().st_size < 20_000


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (r"\.fa-[\w-]+(:+before)?\{(content|--fa):[^}]*\}", ""),  # no rules
        (r"(@font-face\{)[^}]*", r"\1"),  # no fonts
        (r'"\\f185"', r'"\\e999"'),  # a sign that no font has
    ],
)
def test_a_theme_in_another_form_fails_the_build(theme, old, new):
    """Fonts are deleted after the icons are taken from them: without any, each is an empty box."""
    from sphinx.errors import ExtensionError

    css, fonts = theme
    changed = re.sub(old, new, css)
    assert changed != css
    with pytest.raises(ExtensionError, match="assets.py"):
        extension("assets").with_icons(changed, {"fa-sun"}, fonts)


# --- in a browser ---

SMALL = """<!doctype html><title>t</title><style>{css}</style>
<div class="bd-article"><figure><img alt="two curves" src="data:image/svg+xml,
%3Csvg xmlns='http://www.w3.org/2000/svg' width='90' height='60'/%3E"></figure>
<details><summary>more</summary><details><summary>and more</summary>
<p id="fmfp-figa">here</p></details></details></div>
<script>{figures}</script><script>{anchors}</script>"""


@pytest.fixture
def small(tmp_path):
    static = BOOK / "_static"
    parts = {"css": "", **{n: (static / f"{n}.js").read_text() for n in ("figures", "anchors")}}
    (tmp_path / "small.html").write_text(SMALL.format(**parts))
    return (tmp_path / "small.html").as_uri()


@pytest.fixture(scope="module")
def chromium():
    with browser() as opened:
        yield opened


def test_a_figure_is_enlarged_by_click_and_key_and_closed_by_both(chromium, small):
    page = visit(chromium, small)
    large = page.locator("dialog[open] img")
    page.locator("figure img").click()
    assert large.get_attribute("alt") == "two curves"
    page.keyboard.press("Escape")
    assert large.count() == 0
    page.locator("figure img").focus()
    page.keyboard.press("Enter")
    assert large.count() == 1
    large.click()
    assert large.count() == 0 and not page.complaints


def test_an_anchor_with_capitals_is_found_and_unfolds_what_hides_it(chromium, small):
    page = visit(chromium, f"{small}#fmfp-figA")
    page.locator("#fmfp-figa").wait_for(state="visible")
