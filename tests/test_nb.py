"""Pages bring their records, refuse wrong parameters, and say what is missing and how to get it."""

import numpy as np
import pytest

from calibkit import grid, nb, store


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("CALIBKIT_CACHE", str(tmp_path))
    return tmp_path


def test_page_trains_what_is_missing_and_reuses_it(cache, capsys):
    page = nb.page(["erm", "sam"], "smoke", seeds=2, epochs=2)
    assert capsys.readouterr().out.count("training") == 4
    assert page.methods == ["erm", "sam"] and len(page.logits("sam")) == 2
    assert page.logits("erm")[0].shape == (len(page.labels), 5)
    logits, labels = page.validation("erm")[1]
    assert len(logits) == len(labels) == 200
    assert page.setting == "five Gaussians, 300 to train · mlp · 2 epochs · 2 seeds · n = 5,000"
    assert "2 epochs" in page._repr_html_() and "Not trained" not in page._repr_html_()
    assert "4 runs" in page.provenance()._repr_html_()
    again = nb.page(["sam"], "smoke", seeds=1, epochs=2)
    assert capsys.readouterr().out == ""
    np.testing.assert_array_equal(again.logits("sam")[0], page.logits("sam")[0])


def test_missing_runs_of_a_large_edition_are_a_box_with_the_command(cache):
    page = nb.page(["erm", "focal(gamma=5)"], "cifar10", network="resnet20", seeds=1)
    assert page.methods == [] and len(page.missing) == 2
    html = page._repr_html_()
    assert "No records yet" in html
    command = "calibkit train --edition cifar10 --method &#x27;erm&#x27;"
    assert command in html and "--network resnet20 --seeds 1" in html


def test_the_command_of_a_box_selects_exactly_the_missing_runs(cache):
    import shlex

    from calibkit import cli

    page = nb.page(["erm", "focal(gamma=5)"], "cifar10", "svhn", "resnet20", seeds=2, epochs=7)
    command = page.command([run.method for run in page.missing[::2]])
    options = cli._parser().parse_args(shlex.split(command)[1:])
    assert cli._selected(options) == page.missing


def test_diverged_runs_are_shown_as_such(cache):
    run = grid.select("smoke", ["erm"], seeds=1)[0]
    store.save(run, "diverged", [], {}, {"seconds": 1.0})
    page = nb.page(["erm"], "smoke", seeds=1)
    assert page.diverged == [run] and page.methods == []
    assert run.name in page._repr_html_()


PARAMETERS = 'edition = "demo"  # which\nseeds = 0'


def test_injected_parameters_must_exist():
    nb.check_parameters([PARAMETERS])
    nb.check_parameters([PARAMETERS, "# Parameters\nseeds = 3\n"])
    with pytest.raises(
        ValueError,
        match=r"unknown parameter 'sedes' .did you mean 'seeds'\?.; valid: edition, seeds",
    ):
        nb.check_parameters(["%matplotlib inline", PARAMETERS, "# Parameters\nsedes = 3\n"])


def test_html_of_names_is_escaped(cache):
    page = nb.page(["erm"], "cifar10", dataset="imagefolder:<script>", seeds=1)
    assert "<script>" not in page._repr_html_()
