"""The one line that `make book` says again and again counts runs, pages and the book by cost."""

import sys
from types import SimpleNamespace

import pytest

from calibkit.companion import plan, progress


def test_what_is_there_already_does_not_count_and_the_last_line_is_whole(tmp_path):
    files = [tmp_path / name for name in "abc"]
    files[0].touch()
    lines = []

    def say(line):
        lines.append(line)
        for file in files[2:]:
            file.touch()

    thread = progress.follow({str(files[0]): 50, str(files[1]): 1, str(files[2]): 3}, 0.05, say)
    files[1].touch()
    thread.join(timeout=30)
    assert not thread.is_alive()
    assert lines[0].startswith("25 % done, about ")
    assert lines[-1] == "100 % done, about 0.0 min left"


def test_nothing_to_do_is_nothing_to_say(tmp_path):
    (tmp_path / "a").touch()
    thread = progress.follow({str(tmp_path / "a"): 1}, 0.01, lambda line: 1 / 0)
    thread.join(timeout=30)
    assert not thread.is_alive()


def test_an_even_pace_is_told_as_it_is():
    for left in (90, 50, 10):
        minutes = float(progress.estimate(100, left, 600 - 6 * left).split()[-3])
        assert minutes == left / 10


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
