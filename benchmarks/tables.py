"""Write the tables of ``book/deploy.md``, from the results of `maps` (two) and `temperature`.

python benchmarks/tables.py
"""

import json
import re
from pathlib import Path

RESULTS = Path(__file__).resolve().parent / "results"
PAGE = RESULTS.parent.parent / "book" / "deploy.md"


def maps() -> str:
    """A row for each map: all networks, then those with a hundred classes."""
    rows = json.loads((RESULTS / "maps.json").read_text())["summary"]
    groups = ("all", "public cifar100")
    found = {(row["group"], row["map"]): row for row in rows}
    counts = [found[group, "temperature"]["networks"] for group in groups]
    head = ["Map"]
    for name, count in zip(("All networks", "CIFAR-100"), counts, strict=True):
        head += [
            f"{name} ({count}): NLL clearly better / worse",
            "Brier",
            "mean NLL",
            "mean ECE, %",
        ]
    lines = ["| " + " | ".join(head) + " |", "|" + " --- |" * len(head)]
    for name in dict.fromkeys(row["map"] for row in rows):
        cells = [name]
        for group in groups:
            row = found.get((group, name))
            cells += _cells(row, name) if row else ["–"] * 4
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _cells(row: dict, name: str) -> list[str]:
    pairs = [f"{row[f'{m}_better']} / {row[f'{m}_worse']}" for m in ("nll", "brier")]
    if name == "temperature":
        pairs = ["–", "–"]
    nll = "infinite" if row["infinite"] else f"{row['nll']:.4f}"
    return [*pairs, nll, f"{100 * row['ece']:.2f}"]


def few() -> str:
    """A row for each number of validation samples a class, a column for each number of classes."""
    rows = json.loads((RESULTS / "few.json").read_text())["summary"]
    found = {row["group"]: row for row in rows if row["map"] == "structured matrix"}
    sizes, classes = (
        sorted({int(re.findall(r"\d+", group)[i]) for group in found}) for i in (0, 1)
    )
    counts = [found[f"{sizes[0]} a class, {k} classes"]["networks"] for k in classes]
    head = ["Samples a class"]
    head += [f"{k} classes ({count})" for k, count in zip(classes, counts, strict=True)]
    lines = ["| " + " | ".join(head) + " |", "|" + " --- |" * len(head)]
    for size in sizes:
        of = [found.get(f"{size} a class, {k} classes") for k in classes]
        cells = [f"{row['nll_better']} / {row['nll_worse']}" if row else "–" for row in of]
        lines.append("| " + " | ".join([str(size), *cells]) + " |")
    return "\n".join(lines)


def temperature() -> str:
    """A row for each library."""
    rows = json.loads((RESULTS / "temperature.json").read_text())["rows"]
    sizes = list(dict.fromkeys(row["size"] for row in rows))
    names = [f"{int(n):,} × {int(k):,}" for n, k in (size.split(" x ") for size in sizes)]
    lines = ["| Library | " + " | ".join(names) + " |", "|" + " --- |" * (len(sizes) + 1)]
    for library in dict.fromkeys(row["library"] for row in rows):
        seconds = {row["size"]: row["seconds"] for row in rows if row["library"] == library}
        lines.append(f"| {library} | " + " | ".join(f"{seconds[s]:.3f}" for s in sizes) + " |")
    return "\n".join(lines)


def filled(page: str) -> str:
    """The page with its tables."""
    for name, table in (("maps", maps()), ("few", few()), ("temperature", temperature())):
        mark = f"<!-- {name} -->\n"
        page = re.sub(
            f"{mark}.*?<!-- end -->", f"{mark}\n{table}\n\n<!-- end -->", page, flags=re.S
        )
    return page


if __name__ == "__main__":
    PAGE.write_text(filled(PAGE.read_text()))
