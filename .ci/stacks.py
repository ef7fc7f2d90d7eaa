"""Compare the book of one stack with that of another: pages, anchors, icons, links of types.

    make render && make render STACK=newest
    python .ci/stacks.py book/_build/html build/newest/_build/html

Ends with 1 if the second book lacks a page or an anchor of the first, has fewer icons, or leads a
type of the reference to an attribute.
"""

import re
import sys
from pathlib import Path

# An object of the reference, and a link that is no code: a word of a type.
OBJECT = re.compile(r'<dl class="py (\w+)">\s*<dt[^>]*? id="([\w.]+)"')
TYPE = re.compile(r'<a class="reference internal" href="[^"]*" title="([\w.]+)">(?!<code)')


def pages(folder: Path) -> dict[str, str]:
    """Those of the book by their addresses."""
    files = (p for p in sorted(folder.rglob("*.html")) if "_static" not in p.parts)
    return {p.relative_to(folder).as_posix(): p.read_text(encoding="utf-8") for p in files}


def anchors(found: dict[str, str]) -> set[str]:
    return {
        f"{page}#{name}"
        for page, text in found.items()
        for name in re.findall(r'\bid="([^"]+)"', text)
    }


def icons(folder: Path) -> int:
    """Icons that have a rule in the theme's sheet."""
    css = (folder / "_static/styles/pydata-sphinx-theme.css").read_text(encoding="utf-8")
    return len(re.findall(r'\.fa-[\w-]+(?::+before)?\{(?:content|--fa):"\\', css))


def types(found: dict[str, str]) -> dict[str, str]:
    """What words of types in the reference lead to, and of which kind that is."""
    kinds = {name: kind for text in found.values() for kind, name in OBJECT.findall(text)}
    linked = {name for text in found.values() for name in TYPE.findall(text)}
    return {name: kinds.get(name, "nothing") for name in linked}


def main(one: str, other: str) -> int:
    folders = Path(one), Path(other)
    first, second = map(pages, folders)
    false = {n: kind for n, kind in types(second).items() if kind not in ("class", "exception")}
    lost = sorted({*first} - {*second}) + sorted(anchors(first) - anchors(second))
    for folder, found in zip(folders, (first, second), strict=True):
        print(f"{folder}: {len(found)} pages, {len(anchors(found))} anchors, {icons(folder)} icons")
    print(f"lost: {', '.join(lost[:20]) or 'nothing'}")
    print(f"types that lead to no class: {', '.join(false) or 'none'}")
    return bool(lost or false or icons(folders[1]) < icons(folders[0]))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
