"""The experiments of the five papers: exhibits, settings and methods, as their tables have them.

Read this package as the experiment sections of the papers. A printed number comes from the paper's
text; where the text is silent, a choice comes from the authors' public code; where both are silent,
a comment says that the choice is ours. Where text and code disagree on the training, there is a
block for each, and `variant` names it.

Each paper has a file (`blocks.Paper`) and, beside it, its claims as data. `runs` lists the runs of
a paper or of one exhibit as published; `find` lists those behind a published cell. Free of torch
and quick to import: the workflow engine reads it for every job.
"""

import csv
from dataclasses import replace
from functools import cache
from importlib.resources import files

from calibkit import terms
from calibkit_companion.experiments.method import METHODS, Method, parse
from calibkit_companion.experiments.names import Name
from calibkit_companion.experiments.papers import bsce, darkside, fmfp, mixup, overconf
from calibkit_companion.experiments.papers.blocks import Block, Paper
from calibkit_companion.experiments.run import Run, Setting

PAPERS: dict[str, Paper] = {
    "fmfp": fmfp.PAPER,
    "darkside": darkside.PAPER,
    "overconf": overconf.PAPER,
    "mixup": mixup.PAPER,
    "bsce": bsce.PAPER,
}


@cache
def ledger(name: str) -> list[dict[str, str]]:
    """The lines of a file of the ledger.

    Parameters
    ----------
    name : ``exhibits.csv``, ``numbers.csv`` or ``networks.csv``

    Examples
    --------
    >>> ledger("numbers.csv")[0]["metric"], ledger("numbers.csv")[0]["value"]
    ('aurc', '9.94')
    """
    text = (files("calibkit_companion") / "experiments/ledger" / name).read_text(encoding="utf-8")
    return list(csv.DictReader(text.splitlines()))


def blocks(paper: str = "", exhibit: str = "") -> list[Block]:
    """The blocks of a paper or of one exhibit.

    Parameters
    ----------
    paper : its name; empty for all papers
    exhibit : id of the exhibit; empty for all

    Raises
    ------
    ValueError
        The paper does not exist, or the exhibit has no runs.
    """
    if paper:
        terms.choose("paper", paper, PAPERS)
    its = [b for name in ([paper] if paper else PAPERS) for b in PAPERS[name].blocks]
    if exhibit:
        terms.choose("exhibit with runs", exhibit, {e: b for b in its for e in b.exhibits})
    return [b for b in its if not exhibit or exhibit in b.exhibits]


def runs(
    paper: str = "",
    exhibit: str = "",
    *,
    seeds: int = 0,
    epochs: int = 0,
    **where: str,
) -> list[Run]:
    """The runs of a paper, or of one exhibit, as published: without repeats, seed by seed.

    Every method has its first run before any method has its second.

    Parameters
    ----------
    paper, exhibit : as `blocks` takes them
    seeds : the most seeds of each method; 0 for all
    epochs : the same protocols in so many epochs; 0 for as published
    where : ``setting``, ``dataset`` or ``network`` to select

    Examples
    --------
    >>> [run.seed for run in runs("bsce", "bsce-text-runtime")]
    [1, 1, 42, 42, 71, 71]
    >>> len(runs("mixup", "mixup-tab1", dataset="svhn", network="resnet50"))
    4
    """
    order: dict[Run, int] = {}
    for block in blocks(paper, exhibit):
        for place in block.settings:
            here = {"setting": place.name, "dataset": place.dataset, "network": place.network}
            if not where.items() <= here.items():
                continue
            most = min(filter(None, (seeds, block.seeds)), default=0)
            for method in block.methods:
                its = place.shortened(epochs).runs([method], block.variant, most)
                for i, run in enumerate(its):
                    order.setdefault(run, i)
    return sorted(order, key=order.get)


def settings(paper: str = "", exhibit: str = "") -> list[Setting]:
    """The settings of a paper or of one exhibit, without repeats.

    Parameters
    ----------
    paper, exhibit : as `blocks` takes them
    """
    return list(dict.fromkeys(s for b in blocks(paper, exhibit) for s in b.settings))


# Training data of test sets that have none of their own.
TRAINED_ON = {
    "cifar10c": "cifar10",
    "cifar10.1": "cifar10",
    "cifar10.2": "cifar10",
    "imagenet_v2": "imagenet",
}


# Names in tables that are computed from a run of plain training: temperature scaling, other scores,
# weights of the toy.
OF_ERM = ("ts", "confidnet", "u_gbs", "u_dfl", "u_fl")


def trained(cell) -> tuple[str, str]:
    """Data set and method of the training behind a published cell.

    Parameters
    ----------
    cell : a `printed.Cell`
    """
    method = "erm" if cell.method in OF_ERM else cell.method
    return TRAINED_ON.get(cell.dataset, cell.dataset), method


def find(cell) -> list[Run]:
    """The runs whose mean over seeds a published cell is.

    A method without a coefficient has the coefficient of its block.

    Parameters
    ----------
    cell : a `printed.Cell`

    Returns
    -------
    list of Run
        Empty if there is none.
    """
    dataset, text = trained(cell)
    there = _index().get((cell.exhibit, dataset, cell.ours), {})
    name = Name.read(text)
    if name.base not in METHODS:
        return []
    meant = PAPERS[cell.paper].meant.get(name.base, name.base)
    for method in (parse(str(replace(name, base=meant))), parse(text)):
        if method in there:
            return there[method]
    alike = [other for other in there if _axes(other) == _axes(method)]
    return there[alike[0]] if len(alike) == 1 else []


def _axes(method: Method) -> tuple[str, str, str]:
    """Objective, update and averaging of a method, without its coefficients."""
    return method.objective, method.update, method.averaging


@cache
def _index() -> dict[tuple[str, str, str], dict[Method, list[Run]]]:
    """Runs of the variant "code" by exhibit, data set and network, then by method."""
    index: dict[tuple[str, str, str], dict[str, list[Run]]] = {}
    for block in blocks():
        for run in block.runs() if block.variant != "paper" else ():
            for exhibit in block.exhibits:
                methods = index.setdefault((exhibit, run.dataset, run.network), {})
                its = methods.setdefault(run.recipe, [])
                if run not in its:
                    its.append(run)
    return index
