"""Turn the folders of runs into the released tables."""

from collections.abc import Callable

from calibkit_companion.experiments import plan
from calibkit_companion.records import folders, release, tables
from calibkit_companion.records.record import Record
from calibkit_companion.results import derived


def home(edition: str = "released") -> dict[str, str]:
    """Return the setting whose tables hold each run, by the name of the run.

    A run of several settings belongs to the first of them in the plan. A run of no setting belongs
    to tables with the name of its data set, such as ``20newsgroups-other``.
    """
    homes: dict[str, str] = {}
    for name in dict.fromkeys(s.name for s in plan.settings(edition)):
        for run in plan.runs("all", edition, setting=name):
            place = plan.setting(edition, name)
            own = name != "shared" or run.protocol == place.protocol_of(run.recipe)
            same = (run.dataset, run.network) == (place.dataset, place.network)
            homes.setdefault(run.name, name if own and same else f"{run.dataset}-other")
    return homes


def collect(edition: str = "released", say: Callable = print) -> None:
    """Add the folders of runs to the released tables.

    The tables of a setting are written again if they lack a run or a number, or if version 0.1.0
    wrote them. Other tables stay as they are.

    Parameters
    ----------
    edition : name of the edition whose runs are collected
    say : function that takes one line of text for each setting that is written
    """
    with release.held():
        homes = home(edition)
        by_setting: dict[str, list[Record]] = {}
        for run in plan.runs("all", edition):
            if record := folders.load(run):
                kept = tables.find(run.name)
                if kept and kept[0] == record.info:  # in a folder and in tables: take the tables
                    record = Record(run.name, kept[1].folder, *kept)
                by_setting.setdefault(homes[run.name], []).append(record)
        before, moving = tables.settings(), {}
        for name, records in by_setting.items():
            its = before.get(name)
            others = (r for other, rest in by_setting.items() if other != name for r in rest)
            moving[name] = [r for r in others if its and r.tables is its]
            known = its.infos if its else {}
            new = [r for r in records if r.tables is None or derived.rows(r)]
            same = known.keys() == {record.name for record in records}
            if new or not same or not its.opened.sealed:
                release.write(tables.released_root() / name, records + moving[name], derived.rows)
                say(f"{name}: {len(records)} runs, {len(new)} of them new or with new numbers")
        for name, gone in moving.items():  # after another setting's tables hold them
            if gone:
                now = tables.settings()[name]
                its = [Record(r.name, now.folder, now.infos[r.name], now) for r in by_setting[name]]
                release.write(tables.released_root() / name, its)
