"""How many seeds each setting is to have, and how often its results are looked at: `looks.toml`.

Free of torch and quick to import: the plan reads it for every job.
"""

import tomllib
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
    return _seeds(settings()[setting], parse(method).name)


def _seeds(file: dict, name: str) -> list[int]:
    """The same from the part of the file that is about one setting, by the name that it uses."""
    now, found = 0, []
    for look in (*file["looks"], file["planned"]):
        now = look.get(name, look.get("usual", now))
        found.append(now)
    return found


def taken(setting: str) -> int:
    """How often a setting is looked at while seeds are added, the planned number included.

    All looks count for every verdict on the setting. A look at which no method has a second seed
    can judge nothing and is not counted. The planned number is one more look until it is reached.

    >>> taken("cifar10-plain"), taken("cifar10-augmented"), taken("fashion-fmfp")
    (5, 7, 1)
    """
    if setting not in settings():
        return 1
    file = settings()[setting]
    names = {name for look in file["looks"] for name in look} - {"date", "commit"}
    *looks, planned = zip(*(_seeds(file, name) for name in names), strict=True)
    judged = sum(max(look) > 1 for look in looks)
    return max(judged + (looks[-1] != planned), 1)
