"""How many seeds each setting is to have, and how often its results are looked at: `looks.toml`.

Free of torch and quick to import: the plan reads it for every job.
"""

import tomllib
from collections.abc import Iterable
from functools import cache
from importlib.resources import files

from calibkit_companion.experiments.method import parse


@cache
def settings() -> dict[str, dict]:
    """The file: for each setting what is planned and the looks taken, each with its date."""
    text = (files("calibkit_companion") / "experiments/looks.toml").read_text("utf-8")
    return tomllib.loads(text)


def planned(setting: str) -> dict:
    """The planned numbers of seeds as fields of a `Setting`: those of all methods, and of some.

    Of a setting that was never looked at it has none.

    >>> planned("cifar10-long")
    {'seeds': 3, 'more': (('erm', 7), ('label_smoothing', 7))}
    """
    some = dict(settings().get(setting, {"planned": {}})["planned"])
    if not some:
        return {}
    return {"seeds": some.pop("usual"), "more": tuple(some.items())}


def seeds(setting: str, method: str) -> list[int]:
    """The seeds of a method at each look of a setting, and last what is planned.

    >>> seeds("cifar10-long", "erm")
    [1, 1, 1, 3, 7]
    """
    method, now, found = parse(method).name, 0, []
    for look in (*settings()[setting]["looks"], settings()[setting]["planned"]):
        now = look.get(method, look.get("usual", now))
        found.append(now)
    return found


def taken(setting: str, methods: Iterable[str]) -> int:
    """How often what some methods share is looked at, the look at the planned number included.

    A look counts if it brought seeds that all of them have. One seed alone is not judged, and is
    no look.

    >>> taken("cifar10-long", ["erm", "label_smoothing"]), taken("cifar10-long", ["erm", "mixup"])
    (2, 1)
    """
    if setting not in settings():
        return 1
    each = [seeds(setting, method) for method in methods]
    shared = {min(its) for its in zip(*each, strict=True)}
    return max(sum(n > 1 for n in shared), 1)
