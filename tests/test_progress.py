"""What `make book` says before it begins: runs, pages and the book by cost, and a question."""

import sys
from types import SimpleNamespace

import pytest

from calibkit.companion import plan, progress


def test_the_demo_is_told_as_it_was_measured(tmp_path):
    runs = {str(tmp_path / run.name): progress.RUN for run in plan.runs("book", "demo")}
    pages = {str(tmp_path / f"{name}.ipynb"): progress.PAGE for name in plan.NOTEBOOKS}
    said = progress.announce(runs | pages | {str(tmp_path / "book"): progress.BOOK}, cores=2)
    assert said.startswith(
        f"To do: {len(runs)} short runs, {len(pages)} pages and the book. About "
    )
    busy = progress.announce(runs, cores=2, load=2.0)
    assert minutes(busy) == pytest.approx(2 * minutes(progress.announce(runs, cores=2)), abs=1)
    assert "2 other processes" in busy
    for path in runs:
        open(path, "w").close()
    assert progress.announce(runs, 2) == "Nothing to do."


def minutes(said: str) -> int:
    return int(said.split(" minute")[0].split()[-1])


@pytest.fixture
def bare(monkeypatch, tmp_path):
    """A machine without a GPU and without records, on which a sample takes a second."""
    import torch

    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setenv("CALIBKIT_CACHE", str(tmp_path))
    monkeypatch.setattr(progress, "seconds_a_sample", lambda network: 1.0)


def terminal(monkeypatch, there: bool):
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(isatty=lambda: there))


def test_long_training_without_a_gpu_is_asked_about_on_a_terminal(bare, monkeypatch, capsys):
    terminal(monkeypatch, True)
    assert not progress.confirmed("cifar10", 2, ask=lambda question: "")
    assert progress.confirmed("cifar10", 2, ask=lambda question: "y")
    runs = plan.runs("book", "cifar10")
    days = progress.samples(runs) / 2 / 86400
    assert f"{len(runs)} runs" in (said := capsys.readouterr().out)
    assert f"about {days:,.0f} days on 2 cores" in said


def test_without_a_terminal_it_begins_only_when_told_to(bare, monkeypatch, capsys):
    terminal(monkeypatch, False)
    assert not progress.confirmed("cifar10", 2)
    assert "YES=1" in capsys.readouterr().out
    assert progress.confirmed("cifar10", 2, yes=True)
    assert progress.confirmed("demo", 2)  # cheap: no question


def test_sam_takes_every_step_twice():
    (plain,) = (r for r in plan.runs("tour", "cifar10") if (r.method, r.seed) == ("erm", 0))
    (sharp,) = (r for r in plan.runs("fmfp", "cifar10")
                if (r.method, r.seed, r.protocol) == ("sam", 0, plain.protocol))  # fmt: skip
    assert progress.samples([sharp]) == 2 * progress.samples([plain]) > 0
