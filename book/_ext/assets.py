"""A built page brings what it uses: of 2.5 MB of icons the twenty that it shows, no scripts unused.

Icons are Font Awesome's, which the theme ships as a script of 1.5 MB and as fonts. The script goes;
of the fonts and of their rules remain the icons that a page or a rule of the theme names. Two forms
of the theme are known: Font Awesome 6 (`content: "\\f185"`, fonts as .ttf and .woff2) and 7
(`--fa: "\\f185"`, fonts as .woff2 alone, which fontTools reads with brotli). In any other form the
build fails, since all icons would be empty boxes.
"""

import io
import re
import shutil
from pathlib import Path

from fontTools import subset
from fontTools.ttLib import TTFont
from sphinx.errors import ExtensionError

ICON = re.compile(r"\bfa-[a-z0-9-]+")
RULE = re.compile(r'((?:\.fa-[a-z0-9-]+(?::+before)?,?)+)\{(content|--fa):"\\([0-9a-f]+) ?"\}')
FONT = re.compile(
    r'url\([^)]*?/([\w-]+)\.woff2\)(?: format\("woff2"\),url\([^)]*?\.ttf\) format\("truetype"\))?'
)
# Script, and what a page has where it is of use.
SCRIPTS = {
    "togglebutton.js": 'class="[^"]*(toggle|dropdown)',
    "design-tabs.js": 'class="[^"]*sd-tab',
    "copybutton.js": 'class="[^"]*highlight',
    "clipboard.min.js": 'class="[^"]*highlight',
}
STYLES = {
    "togglebutton.css": SCRIPTS["togglebutton.js"],
    "sphinx-design.min.css": r'class="[^"]*sd-',
}
# These search while one types, which the book has switched off.
SEARCH = ("searchtools.js", "language_data.js", "searchindex.js")
SCRIPTS |= {name: 'id="search-results"' for name in SEARCH}
SCRIPTS["fontawesome.js"] = "(?!)"  # nothing: the fonts have the icons
SIGNATURE = re.compile(r"<dl>\s*((?:<dd><em class=\"sig-param\">.*?</em>,</dd>\s*)+)</dl>")


def lighten(html: str) -> str:
    """A page without the scripts and sheets that nothing on it needs."""
    body = html[html.find("</head>") :]
    for name in (name for name, use in (SCRIPTS | STYLES).items() if not re.search(use, body)):
        file = rf'="(?:[^"]*/)?{re.escape(name)}(?:\?[^"]*)?"'
        html = re.sub(rf"\s*<script[^>]*src{file}[^>]*></script>", "", html)
        html = re.sub(rf"\s*<link[^>]*href{file}[^>]*/>", "", html)
        if name == "togglebutton.js":
            html = re.sub(r"\s*<script>(?:let toggle|var togglebutton)[^<]*</script>", "", html)
    # For those who hear the page: an arrow of the contents has a name, lists are lists.
    html = re.sub(r'(<summary)(><span class="toctree-toggle")', r'\1 aria-label="Subpages"\2', html)
    html = html.replace(' role="doc-biblioentry"', "").replace('<div role="list" ', "<div ")
    return SIGNATURE.sub(lambda its: as_lines(its[1]), html)


def as_lines(parameters: str) -> str:
    """Parameters of a long signature, a line each, of which Sphinx makes a list without terms."""
    lines = re.sub(r"<(/?)dd>", r"<\1span>", parameters)
    return f'<span class="sig-lines">{lines}</span>'


def with_icons(css: str, used: set[str], fonts: Path) -> str:
    """The theme's sheet with the rules and the fonts of the icons that are used.

    Raises ExtensionError where no rule is of use, or the fonts lack the sign of one.
    """
    kept, signs = set(), set()

    def rule(match):
        names = [n for n in match[1].split(",") if n.strip(".").split(":")[0] in used]
        if names:
            kept.add(int(match[3], 16))
        return f'{",".join(names)}{{{match[2]}:"\\{match[3]}"}}' if names else ""

    css = RULE.sub(rule, css)
    signs = kept | {int(sign, 16) for sign in re.findall(r'"\\(f[0-9a-f]{3}|e[0-9a-f]{3})"', css)}
    options = subset.Options(flavor="woff", layout_features=[], hinting=False, name_IDs=[])
    drawn = set()
    for name in {match[1] for match in FONT.finditer(css)}:
        path = fonts / f"{name}.ttf"
        font = TTFont(path if path.exists() else path.with_suffix(".woff2"), recalcTimestamp=False)
        drawn |= font.getBestCmap().keys()
        chosen = subset.Subsetter(options)
        chosen.populate(unicodes=signs)
        chosen.subset(font)
        font.flavor = "woff"
        file = io.BytesIO()
        font.save(file, reorderTables=False)
        (fonts / f"{name}.woff").write_bytes(file.getvalue())
    if not kept or not kept <= drawn:
        raise ExtensionError(
            "the theme's style sheet and fonts have no icon that the pages use, in no form that "
            "book/_ext/assets.py knows"
        )
    return FONT.sub(r'url(../vendor/fontawesome/webfonts/\1.woff) format("woff")', css)


def finish(app, exception) -> None:
    """Go over the built book."""
    if exception or app.builder.format != "html":
        return
    folder = Path(app.outdir)
    used = set()
    for page in (p for p in folder.rglob("*.html") if "_static" not in p.parts):
        html = page.read_text(encoding="utf-8")
        used |= set(ICON.findall(html))
        if (lighter := lighten(html)) != html:
            page.write_text(lighter, encoding="utf-8")
    static = folder / "_static"
    sheet, fonts = static / "styles/pydata-sphinx-theme.css", static / "vendor/fontawesome/webfonts"
    css = sheet.read_text(encoding="utf-8")
    if ".woff)" not in css:  # else the files are those of an earlier build
        sheet.write_text(with_icons(css, used, fonts), encoding="utf-8")
    unused = (
        "**/*.map",
        "**/fontawesome.js*",
        "*macros.html",
        "**/webfonts/*.ttf",
        "**/webfonts/*.woff2",
    )
    for file in {file for pattern in unused for file in static.glob(pattern)}:
        file.unlink()
    shutil.rmtree(static / "locales", ignore_errors=True)  # the theme's words in other languages


def setup(app) -> dict:
    """Sphinx calls this."""
    app.connect("build-finished", finish)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
