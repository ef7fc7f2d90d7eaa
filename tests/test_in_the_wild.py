"""Confidences of detectors that people deploy: how the table is made, and what it may hold."""

import json
import random
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from benchmarks import in_the_wild
from calibkit.report import predictions

ROOT = Path(__file__).parent.parent
TABLE = ROOT / "data_cache/released/public/in_the_wild.parquet"


# --- how answers are judged ---


def test_a_folder_of_manual_pages_says_the_language():
    found = [
        in_the_wild.language_of(name) for name in ("man3", "pt_BR", "zh_TW", "nb", "de", "man")
    ]
    assert found == ["en", "pt", "zh", "no", "de", None]


def test_paragraphs_have_no_markup():
    page = ".TH X 1\n.SH NAME\nLes \\fBfichiers\\fP\nsont l\\(aqun \\-\\- ou non.\n.B gras\nFin.\n"
    assert list(in_the_wild.paragraphs(page)) == ["Les fichiers sont l'un -- ou non.", "Fin."]
    assert list(in_the_wild.paragraphs("Mit \\(dq Zeichen.\nOhne.")) == ["Ohne."]


def test_a_snippet_begins_and_ends_with_a_word():
    text = "Dieses Programm liest eine Datei und schreibt ihren Inhalt auf die Standardausgabe."
    rng = random.Random(0)
    found = [s for _ in range(50) if (s := in_the_wild.snippet(text, "de", rng))]
    assert found and all(s in text and 10 <= len(s) <= 90 for s in found)
    words = set(re.findall(r"\w+", text))
    assert all(set(re.findall(r"\w+", s)) <= words for s in found)


@pytest.mark.parametrize(
    ("text", "language"),
    [("--help -v -x 123 456 789 %%% ---", "de"), ("option file name " * 3, "ru")],
)
def test_options_and_foreign_letters_are_no_prose(text, language):
    rng = random.Random(0)
    assert not any(in_the_wild.snippet(text, language, rng) for _ in range(20))


def test_a_word_is_judged_by_the_word_that_stands_there():
    names = "level page_num block_num par_num line_num word_num left top width height conf text"
    head = names.replace(" ", "\t")
    place = "\t1\t1\t1\t1\t1\t"
    rows = [
        f"4{place}0\t0\t90\t20\t-1\t",
        f"5{place}0\t0\t40\t20\t96.5\tone",
        f"5{place}50\t0\t40\t20\t41\ttvvo",
        f"5{place}0\t50\t400\t4\t95\t ",
        f"5{place}300\t0\t40\t20\t20\tthree",
    ]
    boxes = [(0, -5, 42, 30), (50, -5, 92, 30)]
    found = list(in_the_wild.judged("\n".join([head, *rows]), ["one", "two"], boxes, "clean"))
    assert [(a.confidence, a.correct) for a in found] == [
        (0.965, True),
        (0.41, False),
        (0.2, False),
    ]


# --- the table ---


def test_the_table_has_no_texts():
    table = pd.read_parquet(TABLE)
    assert table.columns.tolist() == ["detector", "confidence", "correct", "group"]
    assert table.confidence.dtype == np.float32 and table.correct.dtype == bool
    assert table.confidence.dropna().between(0, 1).all()
    groups = table.groupby("detector", observed=True).group.unique()
    assert set(groups["Tesseract"]) == set(in_the_wild.KINDS)
    assert len(groups["lingua"]) == 28 and all(len(name) == 2 for name in groups["lingua"])
    assert all(re.fullmatch(r"\w{1,8}", name) for name in groups["magika"])
    assert not in_the_wild.VAGUE & set(groups["magika"])
    assert TABLE.stat().st_size < 300_000


def test_only_answers_that_were_withheld_lack_a_confidence():
    table = pd.read_parquet(TABLE)
    missing = table[table.confidence.isna()]
    assert set(missing.detector) <= {"pycld2", "magika"} and not missing.correct.any()
    assert table.groupby("detector", observed=True).size().min() > 2000


def test_the_versions_are_kept():
    about = json.loads((ROOT / "data_cache/released/public/in_the_wild.json").read_text())
    assert about["languages"]["langid"] and about["files"]["magika"] and about["words"]["tesseract"]
    assert "manpages-de" in about["languages"] and "rust-src" in about["files"]


# --- the recipe for such files ---


def test_the_recipe_makes_files_that_a_report_reads(tmp_path, monkeypatch):
    text = (ROOT / "book/recipes.md").read_text().partition("(recipe-words)=")[2]
    text = text.partition("(recipe-")[0]
    monkeypatch.chdir(tmp_path)
    session: dict = {}
    for block in re.findall(r"^```python\n(.*?)^```", text, re.M | re.S):
        exec(compile(block, "recipe", "exec"), session)
    words, files = (predictions.read(name) for name in ("words.csv", "types.csv"))
    np.testing.assert_allclose(words.confidences, [0.961, 0.915, 0.382, 0.959])
    assert words.labels.tolist() == [1, 1, 0, 1]
    np.testing.assert_allclose(files.confidences, [0.99, 0.62])
    assert files.labels.tolist() == [1, 0]
