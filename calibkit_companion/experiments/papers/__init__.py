"""The experiments of the five papers: exhibits x settings x methods, as their own tables have them.

Read it as the experiment sections. What a paper prints comes from its text; where the text is
silent, from its authors' public code; where both are, a comment says that the choice is ours. Where
text and code disagree on the training itself, there is a block for each and `variant` names it.

A file each has all that is known of a paper (`blocks.Paper`), beside it, as data, its claims.
`runs` lists the runs of a paper or of one exhibit as published, `find` those behind a published
cell. Free of torch and quick to import: the workflow engine reads it for every job.
"""

import csv
import re
from functools import cache
from importlib.resources import files

from calibkit import terms
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
    """The lines of a file of the ledger: ``exhibits.csv``, ``numbers.csv``, ``networks.csv``.

    >>> ledger("numbers.csv")[0]["metric"], ledger("numbers.csv")[0]["value"]
    ('aurc', '9.94')
    """
    text = (files("calibkit_companion") / "experiments/ledger" / name).read_text(encoding="utf-8")
    return list(csv.DictReader(text.splitlines()))


def blocks(paper: str = "", exhibit: str = "") -> list[Block]:
    """The blocks of a paper or of one exhibit; of all papers without a name.

    Raises
    ------
    ValueError
        For a paper that does not exist, or an exhibit without runs.
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

    Every method has its first run before any has its second. The rest narrows them down: to one
    ``setting``, ``dataset`` or ``network``, to so many seeds, or to the same protocols in fewer
    epochs.

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
    """The settings of a paper or of one exhibit, without repeats."""
    return list(dict.fromkeys(s for b in blocks(paper, exhibit) for s in b.settings))


# What a test set was trained on, where that is another set.
TRAINED_ON = {
    "cifar10c": "cifar10",
    "cifar10.1": "cifar10",
    "cifar10.2": "cifar10",
    "imagenet_v2": "imagenet",
}


# What is made of a run of plain cross-entropy: a temperature, other scores, weights of the toy.
OF_ERM = ("ts", "confidnet", "u_gbs", "u_dfl", "u_fl")


def trained(cell) -> tuple[str, str]:
    """Data set and method of the training behind a published `printed.Cell`."""
    method = "erm" if cell.method in OF_ERM else cell.method
    return TRAINED_ON.get(cell.dataset, cell.dataset), method


def find(cell) -> list[Run]:
    """The runs whose mean, over seeds, a published `printed.Cell` is; empty if there is none.

    A method without a coefficient is the one that its block has.
    """
    dataset, method = trained(cell)
    at = _index().get((cell.exhibit, dataset, cell.ours), {})
    base, *options = re.split(r"(?=\()", method)
    meant = "".join([PAPERS[cell.paper].meant.get(base, base), *options])
    method = meant if meant in at else method
    if method in at:
        return at[method]
    alike = [m for m in at if terms.parts(m)[::2] == terms.parts(method)[::2]]
    return at[alike[0]] if len(alike) == 1 else []


@cache
def _index() -> dict[tuple[str, str, str], dict[str, list[Run]]]:
    """Runs by exhibit, data set and network, then by method; as the code has it."""
    index: dict[tuple[str, str, str], dict[str, list[Run]]] = {}
    for block in blocks():
        for run in block.runs() if block.variant != "paper" else ():
            for exhibit in block.exhibits:
                methods = index.setdefault((exhibit, run.dataset, run.network), {})
                its = methods.setdefault(run.method, [])
                if run not in its:
                    its.append(run)
    return index
