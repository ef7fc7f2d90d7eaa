"""The paper's numbers are those of the released pages; its authors and references are there."""

import html
import json
import re
from pathlib import Path

import pytest
import yaml
from pybtex.database import parse_file

ROOT = Path(__file__).parent.parent
PAPER = (ROOT / "paper" / "paper.md").read_text(encoding="utf-8")
HEAD = yaml.safe_load(PAPER.split("---\n")[1])
BODY = PAPER.split("---\n", 2)[2]
SOURCES = re.findall(r"<!-- (\w+): (.+?) -->", BODY)


def said(page: str) -> str:
    """What a released page says, without markup."""
    cells = json.loads((ROOT / "book/notebooks" / f"{page}.ipynb").read_text("utf-8"))["cells"]
    outputs = [o.get("data", {}) for cell in cells for o in cell.get("outputs", [])]
    kinds = "text/markdown", "text/html"
    parts = [c["source"] for c in cells] + [o[kind] for o in outputs for kind in kinds if kind in o]
    text = re.sub(r"<[^>]+>", " ", " ".join("".join(part) for part in parts))
    return " ".join(html.unescape(text).split())


@pytest.mark.parametrize(("page", "words"), SOURCES)
def test_a_number_is_that_of_its_page(page, words):
    assert words in said(page)


def test_each_number_has_a_source():
    """The digits before a comment are those in it, whatever their signs, or are words in it."""
    number = re.compile(r"\d+(?:[.,]\d+)*")
    text = re.sub(r"<!-- Each number .*? -->|\[@[^\]]*\]|@\w+|CIFAR-10|90 %", "", BODY)
    *pieces, rest = re.split(r"(<!-- \w+: .+? -->)", text)
    for before, source in zip(pieces[::2], pieces[1::2], strict=True):
        assert {*number.findall(before)} <= {*number.findall(source)}, (before, source)
    assert not number.findall(rest)


def test_the_paper_and_the_citation_agree():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert HEAD["title"] == citation["title"]
    assert [a["name"] for a in HEAD["authors"]] == [a["name"] for a in citation["authors"]]


def test_what_is_cited_is_listed_and_the_other_way_round():
    listed = set(parse_file(ROOT / "paper" / "paper.bib").entries)
    assert set(re.findall(r"@(\w+)", BODY)) == listed


def test_the_paper_is_short():
    """JOSS asks for 250 to 1,000 words, or somewhat more with its newer sections."""
    words = re.sub(r"<!--.*?-->", "", BODY, flags=re.DOTALL).split()
    assert 600 < len(words) < 1_100
