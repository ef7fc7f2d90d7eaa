"""Train a user's method beside plain training, and tell what a user's file defines."""

import ast
import time
from collections.abc import Callable
from contextlib import suppress

from calibkit import terms
from calibkit_companion.data import catalogue
from calibkit_companion.experiments import plan, plugins
from calibkit_companion.experiments.cost import passes
from calibkit_companion.experiments.method import parse
from calibkit_companion.records import folders
from calibkit_companion.results import Results, Rows


def kind(text: str) -> str:
    """Tell what a name stands for: "method", "recalibration", "score" or "metric".

    A class is a recalibration. A function with the argument ``(logits)`` is a score. A function
    with the arguments ``(logits, labels)`` or ``(probs, labels)`` is a metric. Any other function
    is a method.

    Parameters
    ----------
    text : ``FILE.py:NAME``, or a method of `plan.METHODS`
    """
    return kind_and_source(text)[0]


def kind_and_source(text: str) -> tuple[str, plugins.Source | None]:
    """Tell what a name stands for, and return the source of a user's function.

    Parameters
    ----------
    text : ``FILE.py:NAME``, or a method of `plan.METHODS`

    Returns
    -------
    tuple of str and plugins.Source or None
        The result of `kind`; and the source, None for a method of `plan.METHODS`.
    """
    name = parse(text).objective
    if not plugins.own(name):
        return "method", None
    source = plugins.source(name)
    if source.is_class:
        return "recalibration", source
    kinds = {"logits": "score", "logits labels": "metric", "probs labels": "metric"}
    return kinds.get(" ".join(arguments(source)), "method"), source


def arguments(source: plugins.Source) -> list[str]:
    """List the arguments of a user's function that have no default, without executing the file.

    Parameters
    ----------
    source : the source of the function
    """
    if not isinstance(source.definition, ast.FunctionDef):
        return []
    given = source.definition.args
    names = [a.arg for a in (*given.posonlyargs, *given.args)]
    return names[: len(names) - len(given.defaults)]


RANKING = ("auroc", "aurc", "eaurc", "aupr_error", "fpr_at_tpr", "risk_at_coverage_0.8")
SHOWN = (
    *("accuracy", "ece", "excess_ece", "nll", "nll_refinement", "nll_calibration", "brier"),
    *RANKING,
)
SHIFTED = ("accuracy", "ece", "nll", "brier", "auroc", "aurc")


SCALED = "ts_nll"


def trained(
    method: str,
    selection: plan.Selection | str = "demo",
    *,
    device: str = "",
    log: Callable = lambda line: None,
    **changes,
) -> Results:
    """Train the missing runs of a method and of plain training, and return the results.

    Parameters
    ----------
    method : ``FILE.py:NAME``, or any method of `plan.METHODS`
    selection : a selection, or the name of an edition; both methods are trained with its seeds
    device : torch device; by default "cuda" if available, else "cpu"
    log : function that takes one line of text; called after each evaluated epoch
    changes : fields of `plan.Selection` to change, such as ``dataset="digits"``

    Raises
    ------
    ValueError
        A name is unknown, the file has an error, or every run of a method diverged.
    """
    selection = plan.Selection.of(selection, **changes)
    both = _runs(method, selection)
    if missing := [run for run in both if folders.verify(run) is None]:
        from calibkit_companion.training.loop import train  # late: torch may be absent

        began = time.perf_counter()
        for done, run in enumerate(missing):
            left = (time.perf_counter() - began) / done * (len(missing) - done) if done else 0
            about = f", about {left / 60:.1f} min left" if left else ""
            log(f"training {done + 1}/{len(missing)}: {run.name}{about}")
            train(run, device=device, log=log)
    runs = Results(selection, train=False)
    for one in (both[0].method, "erm"):
        if not runs.records(one):
            raise ValueError(f"{terms.label(one)}: every run diverged; nothing can be compared")
        for record in runs.records(one):
            if not record.light and record.tables is None:
                with suppress(OSError):  # to keep replicates, which take seconds to make
                    folders.add_replicates(record)
    return Results(selection, train=False)


def _runs(method: str, at: plan.Selection) -> list[plan.Run]:
    """List the runs of a method, and the runs of plain training with the same seeds."""
    own = at.runs([method])
    seeds = {run.seed for run in own}  # plain training may have more seeds
    return list(dict.fromkeys([*own, *(run for run in at.runs(["erm"]) if run.seed in seeds)]))


def lacking_data(method: str, at: plan.Selection) -> str:
    """Say which data set of a setting is missing, and which command downloads it.

    Parameters
    ----------
    method : name of the method to be trained
    at : the setting

    Returns
    -------
    str
        Empty if the data are on this machine or no run has to be trained.
    """
    for run in _runs(method, at):
        if catalogue.source(run.dataset).places and folders.verify(run) is None:
            try:
                catalogue.locate(run.dataset, catalogue.data_root())
            except FileNotFoundError as error:
                return str(error)
    return ""


def rows(runs: Results, method: str) -> dict[str, Rows]:
    """Compare a method with plain training, metric by metric.

    Parameters
    ----------
    runs : results of a setting
    method : name of the method

    Returns
    -------
    dict of Rows
        Method minus plain training: ``before`` has the numbers as trained, ``after`` those after
        temperature scaling of both, and ``shifted`` those on shifted test sets.
    """
    after = [m for m in SHOWN if not m.startswith("nll_")]
    return {
        "before": runs.compare(method, metric=SHOWN),
        "after": runs.compare(method, metric=after, recalibration=SCALED),
        "shifted": runs.compare(method, metric=SHIFTED, test_set="shifted"),
    }


def cost(runs: Results, method: str) -> dict[str, float]:
    """Compare the cost of a method with plain training, in passes through the network.

    Seconds would depend on the other work of the machine.

    Parameters
    ----------
    runs : results of a setting
    method : name of the method

    Returns
    -------
    dict of float
        Forward and backward passes, each as a multiple of the passes of plain training.
    """
    run, its = runs.runs(method)[0], runs.records(method)[0].info["provenance"]
    if "passes" not in its:  # older records did not count them
        return dict(zip(("forward", "backward"), map(float, passes(run)), strict=True))
    scored = its["training_samples"] * run.protocol.epochs
    return {way: counted / scored for way, counted in its["passes"].items()}
