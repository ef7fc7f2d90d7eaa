"""The experiments of the five papers: exhibits (tables and figures), settings and methods.

Read this package as the experiment sections of the papers. Numbers such as epochs come from the
paper's text. If the text is silent, a choice comes from the authors' public code. If both are
silent, a comment says that the choice is ours. If text and code disagree, there is a block for
each, with a different `variant`.

Each paper has a file with a `blocks.Paper`, and a file with its claims. `runs` lists the runs of a
paper or of one exhibit as published. `find` lists the runs that reproduce a printed number. The
package does not import torch, because the workflow engine imports it for every job.
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
    """Read the lines of a file of the ledger, which holds what the papers print.

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
    """List the blocks of a paper, or only those of one exhibit.

    Parameters
    ----------
    paper : name of the paper; empty for all papers
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
    """List the runs of a paper or of one exhibit as published, without repeats.

    Runs are sorted by seed: every method has its first run before any method has its second run.

    Parameters
    ----------
    paper : name of the paper; empty for all papers
    exhibit : id of the exhibit; empty for all
    seeds : most seeds of each method; 0 for all
    epochs : number of epochs to which protocols are scaled; 0 for the published protocols
    where : ``setting``, ``dataset`` or ``network``, to list only the runs with this value

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
    """List the settings of a paper or of one exhibit, without repeats.

    Parameters
    ----------
    paper : name of the paper; empty for all papers
    exhibit : id of the exhibit; empty for all
    """
    return list(dict.fromkeys(s for b in blocks(paper, exhibit) for s in b.settings))


# For data sets that consist of a test set only: the data set that networks were trained on.
TRAINED_ON = {
    "cifar10c": "cifar10",
    "cifar10.1": "cifar10",
    "cifar10.2": "cifar10",
    "imagenet_v2": "imagenet",
}


# Methods in the papers' tables whose numbers are computed from a run of plain training: temperature
# scaling, other confidence scores, weights in the toy experiment.
OF_ERM = ("ts", "confidnet", "u_gbs", "u_dfl", "u_fl")


def trained(cell) -> tuple[str, str]:
    """Return the training data and the method of the network behind a printed number.

    Parameters
    ----------
    cell : the `printed.Cell` with the number

    Returns
    -------
    tuple of str
        Name of the data set, and name of the method.
    """
    method = "erm" if cell.method in OF_ERM else cell.method
    return TRAINED_ON.get(cell.dataset, cell.dataset), method


def find(cell) -> list[Run]:
    """Find the runs that reproduce a printed number by their mean over seeds.

    A method without a coefficient in the paper's table has the coefficient of its block.

    Parameters
    ----------
    cell : the `printed.Cell` with the number

    Returns
    -------
    list of Run
        Empty if no run reproduces the number.
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
    """Return objective, update and averaging of a method, without coefficients."""
    return method.objective, method.update, method.averaging


@cache
def _index() -> dict[tuple[str, str, str], dict[Method, list[Run]]]:
    """Group the runs of the variant "code" by exhibit, data set and network, and then by method."""
    index: dict[tuple[str, str, str], dict[str, list[Run]]] = {}
    for block in blocks():
        for run in block.runs() if block.variant != "paper" else ():
            for exhibit in block.exhibits:
                methods = index.setdefault((exhibit, run.dataset, run.network), {})
                its = methods.setdefault(run.recipe, [])
                if run not in its:
                    its.append(run)
    return index
