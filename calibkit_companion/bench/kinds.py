"""What a name on the command line stands for."""

import ast

from calibkit_companion.experiments import plan, plugins


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
