"""The sentences of ``words.jinja``, by name, and statements made of them."""

import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import jinja2

from calibkit import terms
from calibkit.report.written import FILTERS

Statement = dict[str, str]  # with the keys title, text, tone


def card(title: str, text: str, tone: str) -> Statement:
    """A statement; its tone is "good", "fair", "bad" or "unsure"."""
    return {"title": title, "text": text, "tone": tone}


@cache
def _words() -> jinja2.Template:
    environment = jinja2.Environment(undefined=jinja2.StrictUndefined)
    environment.filters |= FILTERS
    environment.globals["units"] = terms.UNITS
    source = Path(__file__).with_name("words.jinja").read_text(encoding="utf-8")
    return environment.from_string(source.replace("\n", " "))


def say(numbers: Any, *names: str, **values: Any) -> str:
    """Fill in the sentences of ``words.jinja`` with these names, and join them.

    `numbers` and `values` are what the templates may use.
    """
    known = {"numbers": numbers, "positive": getattr(numbers, "positive", None), **values}
    module = _words().make_module(known)
    return re.sub(" +", " ", " ".join(getattr(module, name)() for name in names)).strip()


def doubtful(doubts: Sequence[str]) -> list[Statement]:
    """The statement that replaces a verdict if there are doubts about the file."""
    way = "If the file is right as it is, --as-is gives a verdict."
    return [card("No verdict: is the file what it seems?", " ".join([*doubts, way]), "unsure")]
