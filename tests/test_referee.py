"""The referee's simulation in short: a few boards of each world, judged by the board's own code."""

import numpy as np
import pytest

from benchmarks import referee
from benchmarks.referee import Word
from calibkit_companion.claims import cases, verdict

pytest.importorskip("pyarrow")


@pytest.fixture(autouse=True)
def released(monkeypatch, root):
    monkeypatch.setenv("CALIBKIT_CACHE", str(root / "data_cache"))


@pytest.fixture
def root(request):
    return request.config.rootpath


def short(**more):
    found = referee.simulate(4, rules=("new",), paper="overconf", **more)
    return found["rules"]["new"]


def test_wrong_words_are_rare_in_both_worlds():
    worlds = short()
    assert all(its["words"] > 50 and its["wrong"] < 0.05 for its in worlds.values())
    assert all(its["power"] > 0.05 for its in worlds.values())


def test_rules_that_ask_for_less_are_caught(monkeypatch):
    with monkeypatch.context() as lax:  # a level of 10 %
        lax.setattr(cases, "shares", lambda its: {case.place.column: 0.9 for case in its})
        assert short()["right"]["wrong"] > 0.08
    monkeypatch.setattr(verdict, "word", lambda *_: "holds")
    assert short()["wrong"]["wrong"] > 0.5


def test_seeds_and_looks_are_those_of_the_settings():
    where = {place.name: place for place in referee.places("released")}
    claim = next(c for c in referee.claims("fmfp") if c.id == "fmfp-c16")
    rng, seeds, counted = np.random.default_rng(0), {}, {}
    for name in ("cifar10-augmented", "fashion-fmfp"):
        real = where[name]
        made = referee.Simulated(*(real.name, real.runs, real.column, real.title), real=real,
                                 claim=claim, rng=rng)  # fmt: skip
        made.draw(right=True)
        (leaf,) = claim.comparisons
        seeds[name], counted[name] = made.drawn[leaf].spread.seeds, made.part(leaf).looks
    assert seeds == {"cifar10-augmented": (3, 4, 6), "fashion-fmfp": (20,)}
    assert counted == {"cifar10-augmented": 7, "fashion-fmfp": 1}  # all looks at the setting


def test_the_rate_and_its_upper_end_by_hand():
    """Two boards of two words each: one word of the first is wrong."""
    words = [
        Word(0, True, "a", "x", "reversed", "unclear", True),
        Word(0, True, "b", "x", "holds", "holds", True),
        Word(1, True, "a", "x", "unclear", "unclear", True),
        Word(1, True, "b", "x", "falls short", "holds", False),
        Word(1, True, "c", "x", "not tested", "not tested", True),
    ]
    found = referee.rate(words[:3] + [words[3]._replace(first="holds")] + words[4:], 2)
    # Rates of 1/2 and 0 by board: a standard error of 1/4 about their mean.
    assert (found["wrong"], found["words"], found["boards_with_a_wrong_word"]) == (0.25, 4, 0.5)
    assert found["upper"] == pytest.approx(0.25 + 1.96 * 0.25)
    assert referee.rate(words, 2)["wrong"] == 0.5  # falling short where it is there is wrong, too
    assert referee.power(words) == pytest.approx(1 / 3, abs=1e-3)
    refuted = [Word(0, False, "a", "x", "holds", "falls short", True)]
    assert referee.power(refuted) == 1 and referee.rate(refuted * 2, 2)["wrong"] == 1
