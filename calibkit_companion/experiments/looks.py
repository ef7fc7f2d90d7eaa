"""The planned number of seeds of each setting, and each look at its results: ``looks.toml``.

A look is a date on which results were computed while seeds were still added. The module does not
import torch, because the plan reads it for every job.
"""

import tomllib
from functools import cache
from importlib.resources import files

from calibkit_companion.experiments.method import parse


@cache
def settings() -> dict[str, dict]:
    """Read ``looks.toml``: for each setting, the planned seeds, and the looks with their dates."""
    text = (files("calibkit_companion") / "experiments/looks.toml").read_text("utf-8")
    return tomllib.loads(text)


def planned(setting: str) -> dict:
    """Return the planned numbers of seeds of a setting, as fields of a `Setting`.

    ``seeds`` is for all methods, and ``more`` for exceptions. Empty for a setting that is not in
    the file.

    >>> planned("cifar10-long")
    {'seeds': 3, 'more': (('erm', 7), ('label_smoothing', 7))}
    """
    some = dict(settings().get(setting, {"planned": {}})["planned"])
    if not some:
        return {}
    return {"seeds": some.pop("usual"), "more": tuple(some.items())}


def seeds(setting: str, method: str) -> list[int]:
    """List the number of seeds of a method at each look at a setting; the planned number is last.

    >>> seeds("cifar10-long", "erm")
    [1, 1, 1, 3, 7]
    """
    return _seeds(settings()[setting], parse(method).name)


def _seeds(file: dict, name: str) -> list[int]:
    """List the numbers of seeds from the part of the file about one setting (see `seeds`)."""
    now, found = 0, []
    for look in (*file["looks"], file["planned"]):
        now = look.get(name, look.get("usual", now))
        found.append(now)
    return found


def taken(setting: str) -> int:
    """Count the looks at the results of a setting, including the look at the planned number.

    Every verdict on the setting is corrected for this number of looks. A look at which no method
    has a second seed is not counted, because nothing can be judged then. As long as the planned
    number of seeds is not reached, the final look is counted in advance.

    >>> taken("cifar10-plain"), taken("cifar10-augmented"), taken("fashion-fmfp")
    (5, 7, 1)
    """
    if setting not in settings():
        return 1
    *looks, _ = _each_look(setting)
    judged = sum(max(look) > 1 for look in looks)
    return max(judged + (not complete(setting)), 1)


def complete(setting: str) -> bool:
    """Whether every method of a setting has its planned seeds. True if the file lacks the setting.

    >>> complete("cifar10-plain"), complete("cifar10-long"), complete("a setting of my own")
    (True, False, True)
    """
    if setting not in settings():
        return True
    *_, last, planned = _each_look(setting)
    return last == planned


def _each_look(setting: str) -> list[tuple[int, ...]]:
    """List the seeds of all methods at each look at a setting; the planned numbers are last."""
    file = settings()[setting]
    names = sorted({name for look in file["looks"] for name in look} - {"date", "commit"})
    return list(zip(*(_seeds(file, name) for name in names), strict=True))
