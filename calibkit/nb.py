"""What a notebook starts and ends with: parameters checked, records at hand, provenance."""

import ast
import html
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np

from calibkit import grid, store

DATASETS = {  # how pages call them; other names are shown as they are
    "gaussians": "five Gaussians",
    "mnist1d": "MNIST-1D",
    "digits": "8×8 digits",
    "fashion_mnist": "Fashion-MNIST",
    "cifar10": "CIFAR-10",
    "cifar100": "CIFAR-100",
    "svhn": "SVHN",
    "tiny_imagenet": "Tiny-ImageNet",
    "20newsgroups": "20 Newsgroups",
}


@dataclass
class Page:
    """The records of a notebook, by method, and what it says about them."""

    edition: str
    runs: list[grid.Run]
    records: dict[str, list[store.Record]] = field(default_factory=dict)
    missing: list[grid.Run] = field(default_factory=list)
    diverged: list[grid.Run] = field(default_factory=list)

    @property
    def methods(self) -> list[str]:
        """Methods which have at least one record."""
        return list(self.records)

    @cached_property
    def labels(self) -> np.ndarray:
        """Test labels (n,), the same in every run of a page."""
        return self._any.arrays["test_labels"].astype(np.int64)

    @property
    def _any(self) -> store.Record:
        return next(iter(self.records.values()))[0]

    def logits(self, method: str) -> list[np.ndarray]:
        """Test logits (n, k) of every seed."""
        return [r.arrays["test_logits"] for r in self.records[method]]

    def validation(self, method: str) -> list[tuple[np.ndarray, np.ndarray]]:
        """Validation logits and labels of every seed."""
        return [
            (r.arrays["validation_logits"], r.arrays["validation_labels"].astype(np.int64))
            for r in self.records[method]
        ]

    @property
    def setting(self) -> str:
        """Data, network, length, seeds and test samples in one line, for figures and tables."""
        run = self.runs[0]
        seeds = sorted({len(records) for records in self.records.values()})
        many = f"{seeds[0]}" if len(seeds) == 1 else f"{seeds[0]} to {seeds[-1]}"
        size = self._any.info["provenance"].get("training_samples") or run.protocol.train_size
        return (
            f"{DATASETS.get(run.dataset, run.dataset)}{f', {size:,} to train' if size else ''} · "
            f"{run.network} · "
            f"{run.protocol.epochs} epochs · {many} seed{'s' * (many != '1')} · "
            f"n = {len(self.labels):,}"
        )

    def _repr_html_(self) -> str:
        lines = [f"<b>{html.escape(self.setting)}</b>" if self.records else "<b>No records yet</b>"]
        note = self._any.info["provenance"]["data"] if self.records else ""
        if note:
            lines.append(html.escape(note))
        if self.diverged:
            lines.append("Diverged: " + html.escape(", ".join(r.name for r in self.diverged)))
        if self.missing:
            names = sorted({run.method for run in self.missing})
            lines.append(f"Not trained yet: {html.escape(', '.join(names))}. To fill the gap:")
            lines.append(f"<code>{html.escape(self.command(names))}</code>")
        return f'<div class="calibkit-page">{"<br>".join(lines)}</div>'

    def command(self, methods: Sequence[str]) -> str:
        """The command which trains the runs of some methods of this page."""
        run, chosen = self.runs[0], grid.EDITIONS[self.edition]
        parts = ["calibkit train", f"--edition {self.edition}"]
        parts += [f"--method '{m}'" for m in methods]
        if run.dataset != chosen.dataset:
            parts.append(f"--dataset {run.dataset}")
        if run.network != chosen.network:
            parts.append(f"--network {run.network}")
        seeds = len({r.seed for r in self.runs})
        if seeds != chosen.seeds:
            parts.append(f"--seeds {seeds}")
        own = chosen.protocol(run.dataset)
        if run.protocol.epochs != own.epochs:
            parts.append(f"--epochs {run.protocol.epochs}")
        if run.protocol.train_size != own.train_size:
            parts.append(f"--train-size {run.protocol.train_size}")
        if run.variant != "code":
            parts.append(f"--variant {run.variant}")
        return " ".join(parts)

    def provenance(self) -> "Provenance":
        """A box with what the numbers of this page came from."""
        return Provenance([r for records in self.records.values() for r in records])


def page(
    methods: Sequence[str],
    edition: str = "demo",
    dataset: str = "",
    network: str = "",
    seeds: int = 0,
    epochs: int = 0,
    train_size: int = 0,
    variant: str = "code",
) -> Page:
    """Check the notebook's parameters and bring the records of its runs.

    Missing runs are trained here and now where the edition is meant for that (smoke and demo);
    elsewhere they are listed in a box with the command that trains them.

    Parameters
    ----------
    methods : such as "erm" or "focal(gamma=5)+sam"; see `grid.METHODS`
    edition : one of `grid.EDITIONS`
    dataset, network, seeds, epochs, train_size : empty or zero for the edition's own
    variant : "code" or "paper", see `protocols.Protocol.rate`

    Raises
    ------
    ValueError
        An unknown edition, method, data set, network or injected parameter; the line names the
        valid ones.
    """
    check_parameters()
    runs = grid.select(
        edition, methods, dataset, network, seeds, epochs, train_size=train_size, variant=variant
    )
    result = Page(edition, runs)
    for number, run in enumerate(result.runs, 1):
        record = store.verify(run)
        if record is None and grid.EDITIONS[edition].on_the_spot:
            from calibkit.train import train

            print(f"training {number}/{len(result.runs)}: {run.name}", flush=True)
            record = train(run)
        if record is None:
            result.missing.append(run)
        elif record.diverged:
            result.diverged.append(run)
        else:
            result.records.setdefault(run.method, []).append(record)
    return result


def check_parameters(cells: Sequence[str] | None = None) -> None:
    """Refuse parameters which papermill injected and the notebook does not have.

    papermill only warns of a misspelt name and runs the defaults. `cells` are the sources run so
    far; by default those of the running notebook.
    """
    if cells is None:
        try:
            cells = get_ipython().user_ns["In"]  # noqa: F821 (a name of every notebook)
        except NameError:
            return
    injected = [i for i, cell in enumerate(cells) if cell.startswith("# Parameters\n")]
    if not injected:
        return
    valid = set().union(*(_assigned(cell) for cell in cells[: injected[0]]))
    for name in sorted(_assigned(cells[injected[0]]) - valid):
        grid.choose("parameter", name, valid)


def _assigned(source: str) -> set[str]:
    try:
        tree = ast.parse(source)
    except SyntaxError:  # a cell with notebook magic assigns no parameter
        return set()
    targets = [t for node in tree.body if isinstance(node, ast.Assign) for t in node.targets]
    return {t.id for t in targets if isinstance(t, ast.Name)}


def number(key: str, value: float, form: str = "{:.3f}") -> None:
    """Name a number, so that prose can show it: ``{glue:text}`key` ``."""
    text(key, form.format(value))


def text(key: str, words: str) -> None:
    """Name a few words that depend on the numbers, such as a verdict, as `number` does."""
    from myst_nb import glue

    glue(key, words.replace(" %", "\u00a0%"), display=False)  # a number keeps its unit


@dataclass
class Gap:
    lacking: str
    command: str

    def _repr_html_(self) -> str:
        words = [f"<b>Not shown here.</b> {html.escape(self.lacking)}"]
        if self.command:
            words.append(f"<code>{html.escape(self.command)}</code>")
        return f'<div class="calibkit-page">{"<br>".join(words)}</div>'


def gap(lacking: str, command: str = "") -> Gap:
    """A box in place of an exhibit: what is lacking, and the command which would fill it."""
    return Gap(lacking, command)


@dataclass
class Provenance:
    records: list[store.Record]

    def _repr_html_(self) -> str:
        if not self.records:
            return '<div class="calibkit-provenance">No runs.</div>'
        runs = [r.info["provenance"] for r in self.records]

        def all_of(key: str) -> str:
            return html.escape(", ".join(sorted({str(p[key]) for p in runs})))

        seconds = sum(p["seconds"] for p in runs)
        return (
            '<div class="calibkit-provenance">'
            f"{len(runs)} runs · {seconds / 60:.1f} minutes of training · {all_of('device')} · "
            f"torch {all_of('torch')} · NumPy {all_of('numpy')} · Python {all_of('python')} · "
            f"calibkit {all_of('calibkit')} ({all_of('commit')}) · "
            f"trained {min(p['started'] for p in runs)[:10]}</div>"
        )


def book_index(edition: str) -> Path:
    """Where `make book` puts the first page of an edition."""
    return Path("build", edition, "book", "_build", "html", "index.html").resolve()
