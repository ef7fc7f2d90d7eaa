"""List the runs that a command, a paper or a page needs in an edition.

A run is one training: a data set, a network, a method, a protocol and a seed. The experiments of
each paper are in a file of `calibkit_companion.experiments.papers`. The workflow engine imports
this module for every job, so it needs the standard library only.
"""

from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from math import inf

from calibkit import terms
from calibkit_companion.experiments import papers
from calibkit_companion.experiments.editions import EDITIONS, Edition, setting, settings
from calibkit_companion.experiments.method import METHODS, Method, parsed
from calibkit_companion.experiments.needs import CARRIED, MATRIX, NOTEBOOKS, needs, papers_of
from calibkit_companion.experiments.papers import PAPERS
from calibkit_companion.experiments.papers.blocks import Need
from calibkit_companion.experiments.run import Run, Setting

__all__ = [
    "CARRIED",
    "EDITIONS",
    "GENERATED",
    "MATRIX",
    "METHODS",
    "NOTEBOOKS",
    "PAPERS",
    "TEXTS",
    "Edition",
    "Need",
    "Run",
    "Selection",
    "Setting",
    "applicable",
    "needs",
    "papers_of",
    "runs",
    "setting",
    "settings",
]

GENERATED = ("gaussians", "mnist1d", "digits")  # data that need no download
TEXTS = ("20newsgroups",)  # data whose inputs are token ids, which cannot be mixed


def applicable(methods: Iterable[Method], dataset: str) -> list[Method]:
    """Select the methods that can be trained on a data set: texts exclude those that mix inputs.

    Parameters
    ----------
    methods : the methods
    dataset : name of the data set
    """
    texts = dataset in TEXTS
    return [method for method in methods if not (texts and method.mixes)]


@dataclass(frozen=True)
class Selection:
    """A setting of an edition, perhaps with changes.

    A field that is None, empty or zero keeps the value of the edition.

    Attributes
    ----------
    edition : name of the edition
    setting : name of one of `settings`; by default the shared setting
    dataset, network : name of the data set and of the network
    seeds : number of seeds
    epochs : number of epochs; the protocol is scaled
    train_size : number of training samples
    variant : "code" or "paper", see `Protocol.rate`
    protocol : fields of `Protocol` to change, as pairs or a dict, such as ``{"batch_size": 512}``

    Examples
    --------
    >>> Selection("released", dataset="digits", seeds=2).command(["erm"])
    "calibkit train --edition released --method 'erm' --dataset digits --seeds 2"
    """

    edition: str
    setting: str | None = None
    dataset: str | None = None
    network: str | None = None
    seeds: int | None = None
    epochs: int | None = None
    train_size: int | None = None
    variant: str | None = None
    protocol: tuple[tuple[str, object], ...] = ()

    def __post_init__(self):
        terms.choose("edition", self.edition, EDITIONS)
        terms.choose("variant", self.variant or "code", ("code", "paper"))
        for f in fields(self):
            object.__setattr__(self, f.name, getattr(self, f.name) or None)
        object.__setattr__(self, "protocol", tuple(dict(self.protocol or ()).items()))

    @classmethod
    def of(cls, selection: "Selection | str", **changes) -> "Selection":
        """Make a selection from another selection, or from an edition, with some changed fields.

        Parameters
        ----------
        selection : a selection, or the name of an edition
        changes : fields to change

        Examples
        --------
        >>> Selection.of("demo", seeds=2) == Selection.of(Selection("demo", seeds=3), seeds=2)
        True
        """
        if isinstance(selection, cls):
            return replace(selection, **changes)
        return cls(selection, **changes)

    def command(self, methods: Iterable[str]) -> str:
        """Write the command that trains some methods in this selection.

        Parameters
        ----------
        methods : names of the methods
        """
        parts = ["calibkit train", f"--edition {self.edition}"]
        parts += [f"--method '{m}'" for m in methods]
        for f in fields(self)[1:-1]:
            if (value := getattr(self, f.name)) is not None:
                parts.append(f"--{f.name.replace('_', '-')} {value}")
        return " ".join(parts + [f"--set {name}={value}" for name, value in self.protocol])

    def place(self) -> Setting:
        """Return the selected setting, with the changes of the selection.

        Raises
        ------
        ValueError
            An unknown setting, or a value of the wrong type for a field of the protocol.
        """
        if self.setting in (None, "shared"):
            place = EDITIONS[self.edition].shared(self.dataset)
        else:
            place = setting(self.edition, self.setting)
        if self.epochs:
            place = place.shortened(self.epochs)
        changes = dict(self.protocol)
        if self.train_size:
            changes["train_size"] = self.train_size
        if changes:
            place = place.changed(changes)
        others = {name: getattr(self, name) for name in ("dataset", "network", "seeds")}
        others = {name: value for name, value in others.items() if value}
        return replace(place, **others) if others else place

    def runs(self, methods: Iterable[str | Method]) -> list[Run]:
        """List the runs of some methods in the selected setting.

        Parameters
        ----------
        methods : the methods, or their names

        Raises
        ------
        ValueError
            A name is unknown (the message lists valid ones), or a value has the wrong type.
        """
        return self.place().runs(parsed(methods), self.variant or "code", self.seeds or 0)

    def published(self, paper: str, exhibit: str = "") -> list[Run]:
        """List the runs of a paper as published, or only those of one exhibit.

        Parameters
        ----------
        paper : name of the paper
        exhibit : id of the exhibit; empty for all
        """
        names = ("setting", "dataset", "network", "seeds", "epochs")
        narrowed = {name: value for name in names if (value := getattr(self, name))}
        return papers.runs(paper, exhibit, **narrowed)

    def of_exhibit(self, exhibit: str, paper: str = "") -> list[Run]:
        """List the runs of an exhibit.

        In the edition "paper" they are the published experiments. In another edition they are its
        runs of the same methods.

        Parameters
        ----------
        exhibit : id of the exhibit, such as "bsce-tab1"
        paper : name of its paper; empty for any
        """
        if self.edition == "paper":
            return self.published(paper, exhibit)
        methods = {run.recipe for run in papers.runs(paper, exhibit)}
        return [run for run in self.of_page(exhibit.partition("-")[0]) if run.recipe in methods]

    def of_page(self, page: str) -> list[Run]:
        """List the runs of a page without repeats, in the order of `runs` in this module.

        Parameters
        ----------
        page : a notebook, a paper, "book" or "all"
        """
        whole, rows = papers_of(page), [need for need in needs(page) if isinstance(need, Need)]
        if self.edition == "paper":  # only the published experiments
            return list(dict.fromkeys(run for paper in whole for run in self.published(paper)))
        planned = []
        if not (self.dataset or self.network):
            planned += [run for paper in whole for run in self._own(paper)]
            own = (
                PAPERS if EDITIONS[self.edition].own else ()
            )  # a variant of the shared setting does not count
            for some, paper in ((row.methods, at) for row in rows for at in row.at if at in own):
                planned += [run for run in self._own(paper) if run.recipe in some]
        if self.setting in (None, "shared"):
            rows = [row for paper in whole for row in PAPERS[paper].rows] + rows
            planned += [run for row in rows for run in self._shared(row)]
        else:
            setting(self.edition, self.setting)  # refuse an unknown name
        return list(dict.fromkeys(planned))

    def _own(self, paper: str) -> list[Run]:
        """List the runs in the settings that follow a paper, or only in the selected setting."""
        rows, runs = [row for row in PAPERS[paper].rows if "shared" in row.at], []
        usual, swept = (
            [m for row in rows if (row.seeds == "sweep") == sweep for m in row.methods]
            for sweep in (False, True)
        )
        for place in EDITIONS[self.edition].settings(paper):
            if self.setting not in (None, place.name):
                continue
            place = place.shortened(self.epochs)
            main = dict.fromkeys([*(place.methods or usual), *dict(place.more)])
            its = place.runs(applicable(main, place.dataset), seeds=self.seeds or 0)
            if place.sweep_seeds:
                most = min(self.seeds or inf, place.sweep_seeds)
                its += place.runs(applicable(swept, place.dataset), seeds=most)
            runs += sorted(its, key=lambda run: run.seed)  # methods keep their order
        return runs

    def _shared(self, row: Need) -> list[Run]:
        """List the runs of one `Need` in the shared setting and in its variants."""
        edition, runs = EDITIONS[self.edition], []
        few = min(edition.seeds, 1 if edition.on_the_spot else 5)
        most = {"sweep": edition.sweep_seeds, "few": few}.get(row.seeds)  # None: all
        plain, places = replace(self, train_size=None, variant=None, protocol=()), edition.places()
        for changes in (c for at in row.at for c in places.get(at, ())):
            dataset = changes.get("dataset")
            if dataset and (self.dataset or self.network):
                continue
            seeds = self.seeds, changes.get("seeds"), edition.seeds_on.get(dataset, most)
            one = replace(plain, **changes | {"seeds": min(filter(None, seeds), default=None)})
            runs += one.runs(applicable(row.methods, one.dataset or edition.dataset))
        return runs


def runs(page: str, edition: str, setting: str = "", **changes) -> list[Run]:
    """List the runs of a page in an edition, without repeats.

    Settings that follow a paper come before the shared setting. In each, runs are sorted by seed,
    so that every method has one run before any method has two.

    Parameters
    ----------
    page : a notebook, a paper, "book" or "all"
    edition : name of the edition
    setting : name of a setting, to list only its runs; empty for all settings
    changes : further fields of `Selection`
    """
    return Selection(edition, setting, **changes).of_page(page)
