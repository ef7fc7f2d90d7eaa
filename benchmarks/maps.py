r"""Compare recalibration maps with temperature scaling on real networks.

    CALIBKIT_DATA=... python benchmarks/maps.py [benchmarks/results/maps.json]
    CALIBKIT_DATA=... python benchmarks/maps.py benchmarks/results/few.json \
        --per-class 10 20 50 100 200

Each map is fitted to the validation logits of a network and measured on its test set. The networks
are the records with predictions in `data_cache`, and the twelve fully trained networks of Mukhoti
et al. 2020, if `$CALIBKIT_DATA/public_logits` has them. Differences are from temperature scaling
fitted by NLL, paired sample by sample. If probmetrics is installed, its structured scaling and its
top-versus-all temperature are measured, too. The second command fits only temperature scaling and
the structured matrix, to random subsets with so many validation samples per class.
"""

import argparse
import importlib.metadata
import json
import math
import os
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from calibkit import metrics, posthoc, stats
from calibkit.arrays import softmax
from calibkit.posthoc.rows import with_top
from calibkit_companion.records import folders

ROOT = Path(__file__).resolve().parent
SKIP_MATRIX = 40  # classes from which a free matrix is not fitted: k² parameters, hours of overfit


# --- candidates that the library does not have ----------------------------------------------------


@dataclass
class Smoothed:
    """A map's probabilities, mixed with 1 / (n + 1) of the uniform distribution (Laplace)."""

    inner: posthoc.Recalibration

    def fit(self, logits, labels):
        self.inner.fit(logits, labels)
        self.weight = 1 / (len(labels) + 1)
        return self

    def predict_proba(self, logits):
        probs = self.inner.predict_proba(logits)
        return (1 - self.weight) * probs + self.weight / probs.shape[1]


@dataclass
class TopVersusAll:
    """The top-label confidence recalibrated as a binary problem (Le Coz et al. 2024).

    A binary map of right against wrong gives the confidence; the other classes share the rest.
    """

    inner: posthoc.Recalibration

    def fit(self, logits, labels):
        self.inner.fit(self._pairs(softmax(logits)), (logits.argmax(axis=1) == labels).astype(int))
        return self

    @staticmethod
    def _pairs(probs):
        top = np.clip(probs.max(axis=1), 1e-12, 1 - 1e-12)
        return np.log(np.stack([1 - top, top], axis=1))

    def predict_proba(self, logits):
        probs = softmax(logits)
        return with_top(probs, self.inner.predict_proba(self._pairs(probs))[:, 1])


@dataclass
class TopVersusAllTemperature:
    """The temperature of lowest binary NLL of right against wrong (Le Coz et al. 2024)."""

    temperature: float = field(default=1.0, init=False)

    def fit(self, logits, labels):
        from scipy.optimize import minimize_scalar

        correct = logits.argmax(axis=1) == labels

        def nll(x):
            top = softmax(logits / np.exp(x)).max(axis=1).clip(1e-12, 1 - 1e-12)
            return -np.log(np.where(correct, top, 1 - top)).mean()

        found = minimize_scalar(nll, bounds=(-4, 4), method="bounded", options={"xatol": 1e-6})
        self.temperature = math.exp(found.x)
        return self

    def predict_proba(self, logits):
        return softmax(logits / self.temperature)


def candidates(k: int) -> dict[str, object]:
    maps = {
        "temperature": posthoc.TemperatureScaling(),
        "temperature, smoothed": Smoothed(posthoc.TemperatureScaling()),
        "temperature, top versus all": TopVersusAllTemperature(),
        "vector": posthoc.VectorScaling(),
        "structured vector": posthoc.StructuredScaling("vector"),
        "structured matrix": posthoc.StructuredScaling(),
        "histogram": posthoc.HistogramBinning(),
        "isotonic": posthoc.IsotonicCalibration(),
        "isotonic, smoothed": Smoothed(posthoc.IsotonicCalibration()),
        "isotonic, top versus all": TopVersusAll(posthoc.IsotonicCalibration()),
        "beta": posthoc.BetaCalibration(),
        "beta, top versus all": posthoc.TopVersusAll(),
    }
    if k < SKIP_MATRIX:
        maps["matrix"] = posthoc.MatrixScaling()
    return maps


# --- networks -------------------------------------------------------------------------------------


def networks() -> Iterator[tuple[str, str, dict]]:
    """Group, name and arrays (``val`` and ``test`` logits and labels) of each network."""
    names = ("validation_logits", "validation_labels", "test_logits", "test_labels")
    for file in sorted(folders.runs_root().glob("*/arrays.npz")):
        run = file.parent.name
        if not run.startswith("gaussians"):  # a toy
            with np.load(file) as kept:
                yield run.split("-")[0], run, _arrays(kept, names)
    names = ("val_logits", "val_labels", "logits", "labels")
    public = Path(os.environ.get("CALIBKIT_DATA", "")) / "public_logits"
    for file in sorted(public.glob("*.npz")):
        with np.load(file) as kept:
            if "val_logits" in kept.files:
                yield f"public {file.stem.split('-')[0]}", file.stem, _arrays(kept, names)


def cases(options: argparse.Namespace) -> Iterator[tuple[str, str, dict, dict]]:
    """Networks as in `networks`, and the maps to fit; asked for sizes, a group is one of these."""
    for group, name, data in networks():
        k, n = data["val"][0].shape[1], len(data["val"][1])
        maps = candidates(k)
        if not group.startswith(options.only):
            continue
        if not options.per_class:
            yield group, name, data, maps | (peers(k) if options.peers else {})
        order = np.random.default_rng(0).permutation(n)
        for size in (size for size in options.per_class or () if size * k <= n):
            val = tuple(x[order[: size * k]] for x in data["val"])
            both = {x: maps[x] for x in ("temperature", "structured matrix")}
            yield f"{size} a class, {k} classes", name, data | {"val": val}, both


def _arrays(kept, names: tuple[str, ...]) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    val, val_labels, test, labels = (kept[name] for name in names)
    return {
        "val": (val.astype(np.float64), val_labels.astype(int)),
        "test": (test.astype(np.float64), labels.astype(int)),
    }


def measured(model, val, test) -> tuple[dict, np.ndarray, np.ndarray]:
    start = time.process_time()
    model.fit(*val)
    seconds = time.process_time() - start
    probs, labels = np.asarray(model.predict_proba(test[0]), dtype=np.float64), test[1]
    rows = np.arange(len(labels))
    with np.errstate(divide="ignore"):
        nll = -np.log(probs[rows, labels])
    brier = (probs**2).sum(axis=1) - 2 * probs[rows, labels] + 1
    row = {
        "nll": float(nll.mean()),
        "infinite": int(np.isinf(nll).sum()),
        "brier": float(brier.mean()),
        "accuracy": float((probs.argmax(axis=1) == labels).mean()),
        "ece": metrics.ece(probs, labels),
        "excess_ece": metrics.excess_ece(probs, labels),
        "classwise_ece": metrics.classwise_ece(probs, labels),
        "auroc": metrics.auroc(probs.max(axis=1), probs.argmax(axis=1) == labels),
        "seconds": seconds,
    }
    return row, nll, brier


def peers(k: int) -> dict[str, object]:
    try:
        from probmetrics.calibrators import SMSCalibrator, SVSCalibrator
    except ImportError as error:
        print(f"skipped probmetrics: {error}")
        return {}

    class Peer:
        def __init__(self, inner):
            self.inner = inner

        def fit(self, logits, labels):
            self.inner.fit(softmax(logits).astype(np.float32), labels)
            return self

        def predict_proba(self, logits):
            return self.inner.predict_proba(softmax(logits).astype(np.float32))

    return {
        "structured vector (probmetrics)": Peer(SVSCalibrator()),
        "structured matrix (probmetrics)": Peer(SMSCalibrator()),
    }


def summary(rows: list[dict]) -> list[dict]:
    """A row for each group of networks and map: means, and how often clearly better or worse."""
    table = []
    for group in [*dict.fromkeys(row["group"] for row in rows), "all"]:
        here = [row for row in rows if group in (row["group"], "all")]
        for name in dict.fromkeys(row["map"] for row in here):
            mine = [row for row in here if row["map"] == name]
            line = {"group": group, "map": name, "networks": len(mine)}
            for metric in ("nll", "brier", "ece", "excess_ece", "classwise_ece", "accuracy"):
                line[metric] = float(np.mean([row[metric] for row in mine]))
            line["infinite"] = sum(row["infinite"] > 0 for row in mine)
            line["seconds"] = float(np.mean([row["seconds"] for row in mine]))
            for metric in ("nll", "brier"):
                ends = [row[f"{metric}_change"] for row in mine]
                line[f"{metric}_better"] = sum(high < 0 for _, _, high in ends)
                line[f"{metric}_worse"] = sum(low > 0 for _, low, _ in ends)
            table.append(line)
    return table


def versions() -> dict[str, str]:
    found = {}
    for name in ("calibkit", "numpy", "scipy", "probmetrics"):
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = "absent"
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", nargs="?", type=Path, default=ROOT / "results" / "maps.json")
    parser.add_argument("--only", default="", help="groups whose name begins so")
    parser.add_argument("--peers", action="store_true", help="probmetrics beside ours")
    parser.add_argument("--per-class", nargs="+", type=int, help="validation samples to fit to")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    rows = []
    for group, name, data, maps in cases(options):
        k = data["val"][0].shape[1]
        for map_name, model in maps.items():
            row, nll, brier = measured(model, data["val"], data["test"])
            if map_name == "temperature":
                base = nll, brier
            for metric, mine, theirs in (("nll", nll, base[0]), ("brier", brier, base[1])):
                gap = stats.seed_interval(mine - theirs) if np.isfinite(mine).all() else None
                row[f"{metric}_change"] = list(gap) if gap else [math.inf] * 3
            rows.append({"group": group, "network": name, "classes": k, "map": map_name} | row)
        print(name, flush=True)
    found = [row for row in summary(rows) if row["group"] != "all" or not options.per_class]
    lines = ",\n  ".join(json.dumps(line) for line in _rounded(found))
    about = {"versions": versions(), "seconds": "of one thread, to fit"}
    options.out.write_text(f'{json.dumps(about)[:-1]}, "summary": [\n  {lines}\n]}}\n')
    for line in found:
        print({k: round(v, 4) if isinstance(v, float) else v for k, v in line.items()})


def _rounded(value):
    """Six digits, infinity by name."""
    if isinstance(value, dict):
        return {key: _rounded(x) for key, x in value.items()}
    if isinstance(value, list):
        return [_rounded(x) for x in value]
    if isinstance(value, float):
        return float(f"{value:.6g}") if math.isfinite(value) else str(value)
    return value


if __name__ == "__main__":
    main()
