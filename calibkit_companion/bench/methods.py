"""What a name stands for; a method of one's own trained beside plain training."""

import ast
import time
from collections.abc import Callable
from contextlib import suppress

from calibkit import terms
from calibkit_companion.data import catalogue
from calibkit_companion.experiments import plan, plugins
from calibkit_companion.experiments.cost import passes
from calibkit_companion.records import folders
from calibkit_companion.results import Results, Rows


def kind(text: str) -> str:
    """What a name stands for: "method", "recalibration", "score" or "metric".

    A class is a recalibration. Of a function the first arguments tell: ``(logits)`` is a score,
    ``(logits, labels)`` or ``(probs, labels)`` a metric, anything else a method.
    """
    return kind_and_source(text)[0]


def kind_and_source(text: str) -> tuple[str, plugins.Source | None]:
    """What a name stands for, and its source if that is a file."""
    name = plan.method(text).objective
    if not plugins.own(name):
        return "method", None
    source = plugins.source(name)
    if source.is_class:
        return "recalibration", source
    kinds = {"logits": "score", "logits labels": "metric", "probs labels": "metric"}
    return kinds.get(" ".join(arguments(source)), "method"), source


def arguments(source: plugins.Source) -> list[str]:
    """Names of the arguments of a function that have no default; the file is read, not run."""
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
    """The results of a setting, in which a method and ERM are trained where they have no record.

    Parameters
    ----------
    method : ``FILE.py:NAME``, or any method of `plan.METHODS`
    selection : a selection, or the name of an edition; its seeds are those of these two methods
    device, log : as `loop.train`
    changes : fields of `plan.Selection` to change, such as ``dataset="digits"``

    Raises
    ------
    ValueError
        An unknown name, something wrong with the file, or every run diverged; in one line.
    """
    selection = plan.Selection.of(selection, **changes)
    both = _runs(method, selection)
    if missing := [run for run in both if folders.verify(run) is None]:
        from calibkit_companion.training.loop import (
            train,  # late: torch is slow to import, may be absent
        )

        began = time.perf_counter()
        for done, run in enumerate(missing):
            left = (time.perf_counter() - began) / done * (len(missing) - done) if done else 0
            about = f", about {left / 60:.1f} min left" if left else ""
            log(f"training {done + 1}/{len(missing)}: {run.name}{about}")
            train(run, device=device, log=log)
    runs = Results(selection, train=False)
    for one in (both[0].method, "erm"):
        if not runs.records(one):
            raise ValueError(f"{terms.label(one)}: every run diverged, so there is nothing to rank")
        for record in runs.records(one):
            if not record.light and record.tables is None:
                with suppress(OSError):  # it keeps its replicates then: they take seconds to make
                    folders.add_replicates(record)
    return Results(selection, train=False)


def _runs(method: str, at: plan.Selection) -> list[plan.Run]:
    """Runs of a method, and those of plain training with the same seeds."""
    own = at.runs([method])
    seeds = {run.seed for run in own}  # plain training may be planned with more
    return list(dict.fromkeys([*own, *(run for run in at.runs(["erm"]) if run.seed in seeds)]))


def lacking_data(method: str, at: plan.Selection) -> str:
    """The command that gets the data of a setting; "" if they are there, or nothing is to train."""
    for run in _runs(method, at):
        if catalogue.source(run.dataset).places and folders.verify(run) is None:
            try:
                catalogue.locate(run.dataset, catalogue.data_root())
            except FileNotFoundError as error:
                return str(error)
    return ""


def rows(runs: Results, method: str) -> dict[str, Rows]:
    """A method minus ERM: ``before`` and ``after`` a temperature each, ``shifted``."""
    after = [m for m in SHOWN if not m.startswith("nll_")]
    return {
        "before": runs.compare(method, metric=SHOWN),
        "after": runs.compare(method, metric=after, recalibration=SCALED),
        "shifted": runs.compare(method, metric=SHIFTED, test_set="shifted"),
    }


def cost(runs: Results, method: str) -> dict[str, float]:
    """Forward and backward passes of a method, as multiples of those of ERM: it takes one each.

    Seconds would say what else the machine did.
    """
    run, its = runs.runs(method)[0], runs.records(method)[0].info["provenance"]
    if "passes" not in its:  # older records did not count them
        return dict(zip(("forward", "backward"), map(float, passes(run)), strict=True))
    scored = its["training_samples"] * run.protocol.epochs
    return {way: counted / scored for way, counted in its["passes"].items()}
