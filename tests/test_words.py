"""One name for each thing: how often readers still meet a name that was given up.

The names and what stands in their place are in CONTRIBUTING.md ("How we write"). A ceiling only
goes down: whoever removes some lowers it.
"""

import ast
import json
import re
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
# What a reader no longer meets, and how often each is still there.
RETIRED = {
    "memorised": r"\bmemori[sz](?:e|es|ed|ing|ation)\b",
    "a temperature": r"\b(?:a|one|its) temperature\b(?! of\b)",
    "ranks errors": r"\branks\b|\brank(?:ed)? (?:\w+ ){0,2}(?:errors|worse|better|them)\b",
    "ERM": r"\bERM\b",
    "setting keys": r"\b(?:cifar10|fashion)-(?:[a-z]+)\b|\btexts-long\b",
    "in 60 epochs": r"\bin (?:20|60)\b(?! %)",
}
CEILING = {
    "memorised": 6,
    "a temperature": 1,
    "ranks errors": 3,
    "ERM": 1,
    "setting keys": 4,
    "in 60 epochs": 4,
}


def sentences_of_code(source: str) -> list[str]:
    """Strings of two words or more in Python code, which it may print; docstrings are no text."""
    tree = ast.parse(source)
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    docstrings = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, documented) and node.body and isinstance(node.body[0], ast.Expr)
    }
    return [
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
        if id(node) not in docstrings and " " in node.value.strip()
    ]


def prose(text: str) -> str:
    """Markdown without its code, in which keys stay, and without the rows of tables."""
    text = re.sub(r"^```(?!\{(?:admonition|figure|glossary)).*?^```", "", text, flags=re.M | re.S)
    text = re.sub(r"`[^`\n]+`|\]\([^)\n]*\)|<a id=[^>]*>", "", text)
    return re.sub(r"^\|.*$", "", text, flags=re.M)


def of_notebook(path: Path) -> list[str]:
    """Markdown, captions, and the sentences that the code of a notebook puts on the page."""
    texts = []
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        source = "".join(cell["source"])
        shown = cell["metadata"].get("mystnb", {})
        texts.append(shown.get("figure", {}).get("caption", ""))
        texts.append(shown.get("image", {}).get("alt", ""))
        code = re.sub(r"^ *[%!].*$", "", source, flags=re.M)
        texts += [source] if cell["cell_type"] == "markdown" else sentences_of_code(code)
    return texts


def texts() -> dict[str, str]:
    """What readers meet, by file: pages, and strings that the packages may print."""
    found = {}
    for path in sorted((ROOT / "notebooks").glob("*.ipynb")):
        found[path.name] = prose("\n\n".join(of_notebook(path)))
    for path in [*sorted((ROOT / "book").glob("*.md")), ROOT / "README.md"]:
        if path.name not in ("glossary.md", "migration.md"):  # they explain names given up
            found[path.name] = prose(path.read_text(encoding="utf-8"))
    for package in ("calibkit", "calibkit_companion"):
        for path in sorted((ROOT / package).rglob("*.py")):
            code = sentences_of_code(path.read_text(encoding="utf-8"))
            found[str(path.relative_to(ROOT))] = prose("\n\n".join(code))
        for path in sorted((ROOT / package).rglob("*.jinja")):
            found[str(path.relative_to(ROOT))] = path.read_text(encoding="utf-8")
    return found


@pytest.mark.parametrize("name", RETIRED)
def test_a_retired_name_becomes_no_more_frequent(name):
    counts = Counter({file: len(re.findall(RETIRED[name], text)) for file, text in texts().items()})
    assert counts.total() <= CEILING[name], counts.most_common(8)


def test_retired_names_are_found_in_prose_and_in_what_code_prints_and_not_in_commands():
    text = (
        "On memorised data `cifar10-plain`, one temperature.\n```bash\ncalibkit cifar10-long\n```\n"
    )
    assert re.findall(RETIRED["memorised"], prose(text)) == ["memorised"]
    assert re.findall(RETIRED["a temperature"], prose(text)) == ["one temperature"]
    assert not re.findall(RETIRED["setting keys"], prose(text))
    code = 'def f():\n    "ERM in a docstring."\n    print("minus ERM", "erm")\n'
    assert sentences_of_code(code) == ["minus ERM"]


def test_the_glossary_is_in_alphabetical_order():
    text = (ROOT / "book" / "glossary.md").read_text(encoding="utf-8")
    words = re.findall(r"(?:\n\n|\{glossary\}\n)(\S.*)\n  \S", text)
    assert len(words) > 50 and words == sorted(words, key=str.lower)
