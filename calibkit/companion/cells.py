"""For each published cell the run that fills it, and what all of them would cost.

`rows` is what ``calibkit plan`` prints: data sets, networks, methods and metrics as the papers'
ledger spells them, and the name of a run or one of `REASONS`. Free of torch.
"""

import csv
import io
from collections import Counter
from collections.abc import Sequence

from calibkit import terms
from calibkit.companion import papers, plan, printed
from calibkit.companion.progress import images
from calibkit.training.runs import PASSES, Run

COLUMNS = "paper exhibit dataset network method variant metric run reason".split()
# Why no run can fill a cell: the paper made up its distributions; it is computed from cells of the
# same table; the text does not say of which network it is; small editions leave out some methods.
REASONS = (HYPOTHETICAL, AVERAGE, NETWORK, ABSENT) = (
    *("hypothetical row", "average of other cells"),
    *("network not stated", "not in this edition"),
)
# The ledger of the papers keeps their words where this library has its own.
_SPELT = {
    "dataset": {
        "tiny_imagenet": "tinyimagenet",
        "imagenet_v2": "imagenetv2",
        "gaussians": "toy_gaussians",
    },
    "network": {"two_layers": "2layer_net"},
    "method": {"entropy_regularization": "erl", "brier": "brier_loss"},
    "metric": {"fpr_at_tpr": "fpr95", "adaptive_ece": "adaece"},
}
_SPELT_IN = {
    "darkside-fig1": {"cifar10": "cifar10(inferred)", "vgg16": "vgg16(inferred)"},
    "bsce-tab8": {
        "pre_ts": "main_value(assumed pre_ts)",
        "post_ts": "value_in_parentheses(assumed post_ts)",
    },
}


def rows(paper: str = "", edition: str = "paper") -> list[dict]:
    """A row for each published cell, in the order of the ledger.

    Parameters
    ----------
    paper : str
        Only that paper's; empty for all.
    edition : str
        "paper", or another edition, whose runs stand in for the published ones.

    Returns
    -------
    list of dict
        `COLUMNS`, and ``runs``: all seeds, of which ``run`` is the name of the first. ``run`` or
        ``reason`` is empty. The name of a run begins with what it is trained on, which is not
        always what a cell was tested on.

    Examples
    --------
    >>> row = rows("darkside")[126]
    >>> row["dataset"], row["run"][:24], row["reason"]
    ('cifar10.1', 'cifar10-vgg16_bn-erm-s0-', '')
    """
    terms.choose("edition", edition, plan.EDITIONS)
    if paper:
        terms.choose("paper", paper, papers.PAPERS)
    table = []
    stand_ins: dict[str, dict] = {}
    for cell, raw in zip(printed.every(), printed.ledger(), strict=True):
        if paper and cell.paper != paper:
            continue
        reason = _reason(cell)
        runs: Sequence[Run] = ()
        if not reason and edition == "paper":
            runs = papers.find(cell.paper, cell.exhibit, cell.dataset, cell.network, cell.method)
        elif not reason:
            if cell.paper not in stand_ins:
                stand_ins[cell.paper] = _stand_ins(cell.paper, edition)
            runs = _stand_in(stand_ins[cell.paper], cell)
        if not (runs or reason):
            reason = ABSENT
        spelt = {
            c: _SPELT_IN.get(cell.exhibit, {}).get(raw[c], _SPELT.get(c, {}).get(raw[c], raw[c]))
            for c in COLUMNS[:-2]
        }
        name = runs[0].name if runs else ""
        table.append(spelt | {"run": name, "reason": reason, "runs": tuple(runs)})
    return table


def runs(exhibit: str, selection: plan.Selection, paper: str = "") -> list[Run]:
    """The runs of an exhibit: as published, or those of another edition by the same methods.

    `paper` may name the paper once more.
    """
    if selection.edition == "paper":
        return selection.published(paper, exhibit)
    methods = {run.method for run in papers.runs(paper, exhibit)}
    page = exhibit.partition("-")[0]
    return [run for run in selection.of_page(page) if run.method in methods]


def _reason(cell) -> str:
    if cell.dataset == "hypothetical":
        return HYPOTHETICAL
    if cell.network.startswith("avg_"):
        return AVERAGE
    return NETWORK if cell.network == "-" and cell.dataset != "imagenet" else ""


def _stand_ins(paper: str, edition: str) -> dict[str, dict[str, list[Run]]]:
    """The runs of a small edition by data set and method, each in its first setting."""
    places: dict[str, dict[str, list[Run]]] = {}
    for run in plan.runs(paper, edition):
        if run.variant == "code":
            its = places.setdefault(run.dataset, {}).setdefault(run.method, [])
            if not its or (its[0].network, its[0].protocol) == (run.network, run.protocol):
                its.append(run)
    return places


def _stand_in(index: dict[str, dict[str, list[Run]]], cell) -> Sequence[Run]:
    method = "erm" if cell.method in papers.OF_ERM else cell.method
    place = papers.TRAINED_ON.get(cell.dataset, cell.dataset)
    for methods in (index.get(place, {}), *index.values()):
        if method in methods:
            return methods[method]
    return ()


# --- as text --------------------------------------------------------------------------------------


def as_csv(table: Sequence[dict]) -> str:
    """`COLUMNS`, one line for each cell."""
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    writer.writerows(table)
    return text.getvalue()


def as_text(table: Sequence[dict]) -> str:
    """A table of the cells, then `totals`."""
    lines = []
    for row in table:
        place, runs = row["dataset"], row["runs"]
        trained = runs[0].dataset if runs else place
        trained = _SPELT["dataset"].get(trained, trained)
        if trained != place and not place.startswith(f"{trained}("):
            place = f"{trained} → {place}"
        what = row["run"] + (f"  × {len(runs)} seeds" if len(runs) > 1 else "")
        line = row | {"dataset": place}
        lines.append([*(line[c] for c in COLUMNS[1:7]), what or f"({row['reason']})"])
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)][:6]
    text = [
        "  ".join([*(f"{part:{w}}" for part, w in zip(line, widths, strict=False)), line[-1]])
        for line in lines
    ]
    return "\n".join([*text, "", *totals(table)])


# --- what it costs --------------------------------------------------------------------------------

# Pixels a side.
_SIDES = {"tiny_imagenet": 64, "imagenet": 224}
# Millions of multiplications for an image of 32 pixels a side, of 224 where the stem is ImageNet's
# and for the ViT, whatever the size of its images. `tests/test_papers.py` counts them anew.
MULTIPLICATIONS = {
    "preact_resnet110": 253.1,
    "wrn_28_10": 5243.3,
    "densenet_bc_100_12": 287.9,
    "convmixer_256_16": 1343.0,
    "mobilenet_v2": 296.5,
    "efficientnet_b0": 62.8,
    "vgg16_bn": 313.2,
    "resnet32": 68.9,
    "resnet18": 555.4,
    "resnet50": 1297.8,
    "resnet110_bottleneck": 2723.9,
    "resnet152": 3722.1,
    "wrn_26_10": 5243.3,
    "densenet121": 888.4,
    "resnet18_imagenet": 1813.6,
    "resnet50_imagenet": 4087.2,
    "resnet152_imagenet": 11511.5,
    "vit_b_16": 17563.1,
}
# Samples a second in training. bsce, section 15: ResNet-50, 350 epochs of 45,000 images in 128
# minutes on one RTX 4090. The others are ours, on one thread of an AMD EPYC with bfloat16.
MEASURED = {
    "resnet50": 350 * 45_000 / (128 * 60),
    "textcnn": 1519.0,
    "cnn": 9091.0,
    "mlp": 64857.0,
    "resnet18_w16": 560.0,
    "resnet18_w32_s2": 700.0,
}


FASTEST = 10_000.0  # small networks wait for memory and launches, whatever they multiply


def rate(network: str, dataset: str) -> tuple[float, bool]:
    """Samples a second in training, and whether that was measured for this network and size.

    Where it was not, it is taken to fall as the number of multiplications rises.
    """
    name = network.partition(":")[0]
    side = _SIDES.get(dataset, 32)
    if name in MEASURED and (side == 32 or name != "resnet50"):
        return MEASURED[name], True
    if name not in MULTIPLICATIONS:
        return FASTEST, False
    usual = 224 if name.endswith("_imagenet") else 32
    scale = 1.0 if name == "vit_b_16" else (side / usual) ** 2
    assumed = MEASURED["resnet50"] * MULTIPLICATIONS["resnet50"] / (MULTIPLICATIONS[name] * scale)
    return min(assumed, FASTEST), False


def hours(run: Run) -> float:
    """At `rate`: SAM takes each step twice; some objectives pass more than one image a sample."""
    forward, backward = PASSES.get(run.recipe.objective, (1, 1))
    passes = (forward + 2 * backward) / 3 * (2 if run.recipe.update == "sam" else 1)
    return images(run) * passes / rate(run.network, run.dataset)[0] / 3600


def totals(table: Sequence[dict]) -> list[str]:
    """Cells by run or reason; then runs, images and hours of each network, and of all."""
    reasons = Counter(row["reason"] for row in table if row["reason"])
    runs = list(dict.fromkeys(run for row in table for run in row["runs"]))
    filled = sum(bool(row["run"]) for row in table)
    counts = ", ".join(f"{n:,} {reason}" for reason, n in reasons.most_common())
    lines = [
        f"{len(table):,} published cells: {filled:,} filled by {len(runs):,} runs"
        + (f", {len(table) - filled:,} by none ({counts})" if counts else ""),
        "hours: samples a second of each network, * measured (resnet50: RTX 4090, by bsce; others:",
        "one CPU thread, by us), else assumed from resnet50 by the number of multiplications",
    ]
    kinds: dict[tuple[str, int], list[Run]] = {}
    for run in runs:
        kinds.setdefault((run.network, _SIDES.get(run.dataset, 32)), []).append(run)
    for (network, _), its in kinds.items():
        pace, known = rate(network, its[0].dataset)
        places = "/".join(dict.fromkeys(run.dataset for run in its))
        lines.append(
            f"  {network:32} {places:24} {len(its):5,} runs {sum(map(images, its)) / 1e6:10,.0f} M "
            f"images {pace:9,.0f}/s{'*' if known else ' '} {sum(map(hours, its)):9,.1f} h"
        )
    lines.append(
        f"  {'all':57} {len(runs):5,} runs {sum(map(images, runs)) / 1e6:10,.0f} M images "
        f"{'':12} {sum(map(hours, runs)):9,.1f} h"
    )
    return lines
