"""What `make book` says before it begins: runs, pages and the book by cost, and a question."""

import sys
from types import SimpleNamespace

import pytest

from book import before
from calibkit_companion.experiments import cost, plan


def test_the_demo_is_told_as_it_was_measured(tmp_path):
    runs = {str(tmp_path / run.name): before.RUN for run in plan.runs("book", "demo")}
    pages = {str(tmp_path / f"{name}.ipynb"): before.PAGE for name in plan.NOTEBOOKS}
    said = before.announce(runs | pages | {str(tmp_path / "book"): before.BOOK}, cores=2)
    assert said.startswith(f"To do: {len(runs)} short runs, {len(pages)} pages, the book. About ")
    busy = before.announce(runs, cores=2, others=2)
    assert "beside 2 busy processes" in busy
    assert _last(busy) == pytest.approx(2 * _last(before.announce(runs, 2)), abs=1)
    for path in runs:
        open(path, "w").close()
    assert before.announce(runs, 2) == "Nothing to do."
    some = {str(n): before.RUN for n in range(181)}
    words = (
        "To do: 181 short runs. About 5 CPU-minutes: on 2 cores beside 2 busy processes about 5."
    )
    assert before.announce(some, 2, others=2) == words


def _last(said: str) -> int:
    return int(said.rstrip(".").split()[-1])


@pytest.fixture
def bare(monkeypatch, tmp_path):
    """A machine without a GPU and without records, on which a sample takes a second."""
    import torch

    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setenv("CALIBKIT_CACHE", str(tmp_path))
    monkeypatch.setattr(before, "seconds_a_sample", lambda network: 1.0)


def terminal(monkeypatch, there: bool):
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(isatty=lambda: there))


def test_long_training_without_a_gpu_is_asked_about_on_a_terminal(bare, monkeypatch, capsys):
    terminal(monkeypatch, True)
    assert not before.confirmed("cifar10", 2, ask=lambda question: "")
    assert before.confirmed("cifar10", 2, ask=lambda question: "y")
    runs = plan.runs("book", "cifar10")
    hours = sum(map(cost.samples, runs)) / 2 / 3600
    assert f"{len(runs)} runs" in (said := capsys.readouterr().out)
    assert f"about {hours:,.0f} hours on 2 cores" in said


def test_without_a_terminal_it_begins_only_when_told_to(bare, monkeypatch, capsys):
    terminal(monkeypatch, False)
    assert not before.confirmed("cifar10", 2)
    assert "YES=1" in capsys.readouterr().out
    assert before.confirmed("cifar10", 2, yes=True)
    assert before.confirmed("demo", 2)  # cheap: no question
