"""Our metrics and maps compared with other libraries: same arrays, same process, values and times.

    python benchmarks/metrics.py [benchmarks/results/metrics.json]

Each pair is timed in turns, ours and theirs, and the best time of each is kept. A `ratio` is their
processor time over ours, both on one thread: ours cannot use more. torchmetrics runs a second time
with all cores, by the wall clock (`ratio_all_cores`). Libraries that cannot be imported are skipped
by name. `bars` holds our targets and whether this run reached them.
"""

import importlib
import importlib.metadata
import json
import os
import platform
import sys
import time
import tracemalloc
import warnings
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import numpy as np
from scipy.special import expit
from sklearn import metrics as sk
from sklearn.isotonic import IsotonicRegression

from calibkit import metrics, posthoc, stats
from calibkit.arrays import softmax

SIZES = [(10_000, 10), (10_000, 100), (50_000, 1_000)]
CONFIDENCES = [10_000, 50_000, 1_000_000]
REPLICATES, REPLICATE_SAMPLES = 1_000, 10_000
TARGETS = [  # how many times faster
    ("aurc", "torch-uncertainty", 2.0),
    ("augrc", "torch-uncertainty", 2.0),
    ("beta", "betacal", 1.5),
    ("isotonic", "scikit-learn", 2.0),
]
NOTES = {  # where values are not the same to five digits
    ("ece", "torchmetrics"): "adds up in float32: many samples cost it digits",
    ("mce", "torchmetrics"): "adds up in float32: many samples cost it digits",
    ("aurc", "torch-uncertainty"): "trapezoid rule from coverage 1/n, and ties in no defined order",
    ("augrc", "torch-uncertainty"): "starts at coverage 1/n, and ties in no defined order",
}
SECONDS = 2.0  # how long a pair takes turns; at least three of them


def sample(n: int, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Return float32 logits of a fallible, over-confident model, and labels."""
    rng = np.random.default_rng(0)
    labels = rng.integers(0, k, n)
    logits = rng.standard_normal((n, k), dtype=np.float32)
    logits[np.arange(n), labels] += 2 + rng.exponential(6, n).astype(np.float32)
    return logits, labels


def best(
    *functions: Callable[[], object], clock: Callable[[], float] = time.process_time
) -> list[float]:
    """Return the shortest time of each function, in seconds, timed in turns."""
    times = [[] for _ in functions]
    start = time.perf_counter()
    while len(times[0]) < 3 or time.perf_counter() - start < SECONDS:
        for function, taken in zip(functions, times, strict=True):
            before = clock()
            function()
            taken.append(clock() - before)
    return [min(taken) for taken in times]


class Other:
    """Import what is installed; remember why something is not."""

    def __init__(self) -> None:
        self.skipped: dict[str, str] = {}

    def __call__(self, module: str) -> object | None:
        try:
            return importlib.import_module(module)
        except Exception as error:  # whatever stops an import is printed as the reason
            name = module.split(".")[0]
            self.skipped[name] = f"{type(error).__name__}: {error}".splitlines()[0]
            print(f"skipped {name}: {self.skipped[name]}")
            return None


def from_probs(probs: np.ndarray, labels: np.ndarray, other: Other) -> list[tuple]:
    """List (metric, library, ours, theirs) for metrics of probabilities."""
    import torch

    k, p, y = probs.shape[1], torch.from_numpy(probs), torch.from_numpy(labels)
    theirs = {
        ("nll", "scikit-learn"): lambda: sk.log_loss(labels, probs, labels=np.arange(k)),
        ("brier", "scikit-learn"): lambda: sk.brier_score_loss(
            labels, probs, labels=np.arange(k), scale_by_half=False
        ),
    }
    if tm := other("torchmetrics.functional.classification"):
        for name, norm in (("ece", "l1"), ("mce", "max")):
            theirs[name, "torchmetrics"] = partial(
                tm.multiclass_calibration_error, p, y, k, n_bins=15, norm=norm
            )
    if netcal := other("netcal.metrics"):
        theirs["ece", "netcal"] = lambda: netcal.ECE(15).measure(probs, labels)
        theirs["mce", "netcal"] = lambda: netcal.MCE(15).measure(probs, labels)
    if relplot := other("relplot"):
        theirs["smooth_ece", "relplot"] = lambda: relplot.smECE(
            probs.max(1), (probs.argmax(1) == labels).astype(float)
        )
    if tu := other("torch_uncertainty.metrics.classification"):
        by_class = other("torch_uncertainty.metrics.classification.calibration")
        for name, metric in {
            "adaptive_ece": tu.AdaptiveCalibrationError("multiclass", num_classes=k, num_bins=15),
            "classwise_ece": by_class.ClasswiseCalibrationError(num_classes=k, num_bins=15),
            "brier": tu.BrierScore(k),
            "nll": tu.CategoricalNLL(),
            "aurc": tu.AURC(),
            "augrc": tu.AUGRC(),
        }.items():
            theirs[name, "torch-uncertainty"] = partial(afresh, metric, p, y)

    def ours(name: str) -> Callable[[], float]:
        if name in ("aurc", "augrc"):
            return lambda: getattr(metrics, name)(*metrics.top_label(probs, labels))
        return partial(getattr(metrics, name), probs, labels)

    return [(name, library, ours(name), f) for (name, library), f in theirs.items()]


def maps(n: int, other: Other) -> list[tuple]:
    """List (map, library, ours, theirs): fit to the probability of an event, and predict.

    The value of each is the Brier score of what it predicts.
    """
    rng = np.random.default_rng(0)
    event = rng.random(n) < 0.3
    odds = 2.0 * np.where(event, 1.0, -1.0) + 2.5 * rng.standard_normal(n) + 1.0
    p = expit(odds)
    labels, two = event.astype(int), np.stack([1 - p, p], axis=1)

    def brier(predicted: np.ndarray) -> float:
        return float(np.mean((predicted - event) ** 2))

    def ours(map_of: Callable) -> Callable[[], float]:
        def fit_and_predict() -> float:
            logits = np.log(two)
            return brier(map_of().fit(logits, labels).predict_proba(logits)[:, 1])

        return fit_and_predict

    pairs = [
        (
            "isotonic",
            "scikit-learn",
            ours(posthoc.IsotonicCalibration),
            lambda: brier(IsotonicRegression(out_of_bounds="clip").fit(p, event).predict(p)),
        )
    ]
    if betacal := other("betacal"):
        theirs = partial(betacal.BetaCalibration, "abm")
        pairs += [
            (
                "beta",
                "betacal",
                ours(posthoc.BetaCalibration),
                lambda: brier(theirs().fit(p, event).predict(p)),
            )
        ]
    if netcal := other("netcal.scaling"):
        pairs += [
            (
                "temperature",
                "netcal",
                ours(posthoc.TemperatureScaling),
                lambda: brier(netcal.TemperatureScaling().fit(p, labels).transform(p)),
            )
        ]
    return pairs


def from_confidence(confidence: np.ndarray, correct: np.ndarray, other: Other) -> list[tuple]:
    """List (metric, library, ours, theirs) for metrics of (confidence, correct)."""
    import torch

    def ece() -> float:
        table = metrics.reliability_bins(confidence, correct)
        gap = np.abs(table["accuracy"] - table["confidence"])
        return np.nansum(table["count"] * gap) / len(confidence)

    def scikit_learn_fpr() -> float:
        fpr, tpr, _ = sk.roc_curve(correct, confidence, drop_intermediate=False)
        return fpr[np.searchsorted(tpr, 0.95)]

    success, error = correct, -confidence
    theirs = {
        ("auroc", "scikit-learn"): lambda: sk.roc_auc_score(success, confidence),
        ("aupr_success", "scikit-learn"): lambda: sk.average_precision_score(success, confidence),
        ("aupr_error", "scikit-learn"): lambda: sk.average_precision_score(~success, error),
        ("fpr_at_tpr", "scikit-learn"): scikit_learn_fpr,
    }
    c, z = torch.from_numpy(confidence), torch.from_numpy(correct).long()
    if tm := other("torchmetrics.functional.classification"):
        ap = tm.binary_average_precision
        theirs["auroc", "torchmetrics"] = lambda: tm.binary_auroc(c, z)
        theirs["aupr_success", "torchmetrics"] = lambda: ap(c, z)
        theirs["aupr_error", "torchmetrics"] = lambda: ap(1 - c, 1 - z)
        theirs["ece", "torchmetrics"] = lambda: tm.binary_calibration_error(c, z, n_bins=15)
    if tu := other("torch_uncertainty.metrics.classification"):
        for name, metric in (("aurc", tu.AURC()), ("augrc", tu.AUGRC())):
            theirs[name, "torch-uncertainty"] = partial(from_its_state, metric, c, 1.0 - z)
    ours = {name: partial(getattr(metrics, name), confidence, correct) for name, _ in theirs}
    ours["ece"] = ece
    return [(name, library, ours[name], f) for (name, library), f in theirs.items()]


def from_its_state(metric: Callable, confidence: object, wrong: object) -> float:
    """Compute a risk-coverage metric from confidences and errors, which it keeps as its state."""
    metric.reset()
    metric.scores, metric.errors = [confidence], [wrong]
    return metric.compute()


def afresh(metric: Callable, probs: object, labels: object) -> float:
    """Run a metric that keeps a state, starting from an empty one."""
    metric.reset()
    metric.update(probs, labels)
    return metric.compute()


def timed(size: str, pairs: list[tuple]) -> list[dict]:
    """Time and compare each pair."""
    rows = []
    for metric, library, ours, theirs in pairs:
        row = {"size": size, "metric": metric, "library": library}
        row |= {"ours": float(ours()), "theirs": float(theirs())}
        row["note"] = NOTES.get((metric, library), "")
        row["ours_seconds"], row["theirs_seconds"] = best(ours, theirs)
        row["ratio"] = row["theirs_seconds"] / row["ours_seconds"]
        if library == "torchmetrics":
            torch = importlib.import_module("torch")
            torch.set_num_threads(os.cpu_count())
            one, many = best(ours, theirs, clock=time.perf_counter)
            row["ratio_all_cores"] = many / one
            torch.set_num_threads(1)
        rows.append(row)
        print(
            f"{size:>14} {metric:14} {library:18} ours {row['ours']:.6f} theirs {row['theirs']:.6f}"
            f"  {1e3 * row['ours_seconds']:8.2f} ms  {row['ratio']:6.1f} times faster"
        )
    return rows


def summary_cost(logits: np.ndarray, labels: np.ndarray) -> dict:
    """Compare `summary` with one softmax, maximum and argsort of NumPy over the same array."""

    def shared() -> np.ndarray:
        probs = np.exp(logits - logits.max(axis=1, keepdims=True))
        probs /= probs.sum(axis=1, keepdims=True)
        return probs

    def of_confidences() -> np.ndarray:
        return np.argsort(shared().max(axis=1))

    def of_array() -> tuple:
        probs = shared()
        return probs.max(axis=1), np.argsort(probs, axis=1)

    ours, confidences, array = best(
        lambda: metrics.summary(logits, labels), of_confidences, of_array
    )
    tracemalloc.start()
    metrics.summary(logits, labels)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    row = {
        "size": " x ".join(map(str, logits.shape)),
        "summary_seconds": ours,
        "softmax_max_argsort_of_confidences_seconds": confidences,
        "softmax_max_argsort_of_array_seconds": array,
        "over_confidences": ours / confidences,
        "over_array": ours / array,
        "extra_memory_over_input": peak / logits.nbytes,
    }
    print(
        f"{row['size']:>14} summary {1e3 * ours:.1f} ms: {row['over_confidences']:.2f} times"
        f" softmax + max + argsort of the confidences, {row['over_array']:.2f} times with argsort"
        f" of the array; extra memory {row['extra_memory_over_input']:.3f} of the input"
    )
    return row


def bootstrap_cost() -> dict:
    """Compare `stats.bootstrap` with resampling in a loop over scikit-learn, once each."""
    names = ["auroc", "aupr_success", "aupr_error", "aurc", "eaurc", "augrc", "fpr_at_tpr"]
    logits, labels = sample(REPLICATE_SAMPLES, 10)
    values = metrics.per_sample(logits, labels)
    confidence, correct = values["confidence"], values["correct"]

    def once(c: np.ndarray, z: np.ndarray) -> list[float]:
        r, area = 1 - z.mean(), sk.roc_auc_score(z, c)
        fpr, tpr, _ = sk.roc_curve(z, c, drop_intermediate=False)
        risk = np.cumsum(~z[np.argsort(-c)]) / np.arange(1, len(z) + 1)
        return [
            area,
            sk.average_precision_score(z, c),
            sk.average_precision_score(~z, -c),
            risk.mean(),
            risk.mean() - (r + (1 - r) * np.log(1 - r)),
            (1 - area) * r * (1 - r) + r**2 / 2,
            fpr[np.searchsorted(tpr, 0.95)],
        ]

    rng, start = np.random.default_rng(0), time.perf_counter()
    draws = (rng.integers(0, len(labels), len(labels)) for _ in range(REPLICATES))
    loop = np.quantile([once(confidence[i], correct[i]) for i in draws], [0.025, 0.975], axis=0)
    theirs = time.perf_counter() - start
    (ours,) = best(lambda: stats.bootstrap(logits, labels, names, n=REPLICATES))
    intervals = stats.bootstrap(logits, labels, names, n=REPLICATES)
    difference = max(
        abs(np.subtract(intervals[name][1:], ends)).max()
        for name, ends in zip(names, loop.T, strict=True)
    )
    row = {
        "replicates": REPLICATES,
        "samples": REPLICATE_SAMPLES,
        "metrics": names,
        "ours_seconds": ours,
        "theirs_seconds": theirs,
        "ratio": theirs / ours,
        "largest_difference_of_ends": difference,
    }
    print(
        f"bootstrap {ours:.3f} s, loop over scikit-learn {theirs:.1f} s: {row['ratio']:.0f} times"
    )
    return row


def machine() -> dict:
    """Say where and with what this ran."""
    model = platform.processor()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        lines = [line for line in cpuinfo.read_text().splitlines() if "model name" in line]
        model = lines[0].split(":")[1].strip() if lines else model
    return {"processor": model, "cores": os.cpu_count(), "threads": 1, "system": platform.system()}


def versions() -> dict:
    """Return the versions of all libraries compared."""
    names = (
        "numpy",
        "scipy",
        "scikit-learn",
        "torch",
        "torchmetrics",
        "netcal",
        "relplot",
        "torch-uncertainty",
        "betacal",
    )
    found = {"python": platform.python_version()}
    for name in names:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = None
    return found


def main(path: Path) -> None:
    """Run all and write one JSON file."""
    other = Other()
    other(
        "calibkit_companion.data.torchvision"
    )  # makes torchvision importable, which torchmetrics needs
    if torch := other("torch"):
        torch.set_num_threads(1)
    rows, summaries = [], []
    for n, k in SIZES:
        logits, labels = sample(n, k)
        summaries.append(summary_cost(logits, labels))
        rows += timed(f"{n} x {k}", from_probs(softmax(logits), labels, other))
    for n in CONFIDENCES:
        rng = np.random.default_rng(0)
        correct = rng.random(n) < 0.9
        draws = np.where(correct, rng.beta(8, 1, n), rng.beta(4, 2, n))
        confidence = (0.5 + draws / 2).astype(np.float32)
        rows += timed(f"{n}", from_confidence(confidence, correct, other))
    fitted = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the peers
        for n in CONFIDENCES[:2]:
            fitted += timed(f"{n} x 2", maps(n, other))
    bootstrap = bootstrap_cost()

    shared = [row for row in rows if row["library"] in ("torchmetrics", "netcal")]
    slowest = min(shared, key=lambda row: row["ratio"]) if shared else None
    bars = [
        ("summary over softmax + max + argsort", "<=", 2.5, summaries[-1]["over_confidences"]),
        ("summary: extra memory over input", "<", 1.0, summaries[-1]["extra_memory_over_input"]),
        ("bootstrap over a loop of scikit-learn", ">=", 30.0, bootstrap["ratio"]),
    ]
    cores = [row for row in rows if "ratio_all_cores" in row]
    if cores:
        row = min(cores, key=lambda row: row["ratio_all_cores"])
        where = "{metric}, {size}".format(**row)
        what = f"least ratio to torchmetrics on all cores ({where})"
        bars.append((what, ">=", 3.0, row["ratio_all_cores"]))
    if slowest:
        where = "{metric} against {library}, {size}".format(**slowest)
        bars.append(
            (f"least ratio to torchmetrics and netcal ({where})", ">=", 3.0, slowest["ratio"])
        )
    for name, library, least in TARGETS:
        its = [row for row in rows + fitted if (row["metric"], row["library"]) == (name, library)]
        ratios = [row["ratio"] for row in its]
        if ratios:
            bars.append((f"least ratio of {name} to {library}", ">=", least, min(ratios)))
    met = {"<=": np.less_equal, "<": np.less, ">=": np.greater_equal}
    result = {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": machine(),
        "versions": versions(),
        "skipped": other.skipped,
        "bars": [
            {
                "what": what,
                "bar": f"{sign} {bar}",
                "measured": value,
                "met": bool(met[sign](value, bar)),
            }
            for what, sign, bar, value in bars
        ],
        "summary": summaries,
        "bootstrap": bootstrap,
        "metrics": rows,
        "maps": fitted,
    }
    for bar in result["bars"]:
        verdict = "met" if bar["met"] else "MISSED"
        print(f"{verdict:6} {bar['what']}: {bar['measured']:.2f} {bar['bar']}")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(result, indent=1) + "\n")
    print(f"wrote {path}")


if __name__ == "__main__":
    default = Path(__file__).parent / "results" / "metrics.json"
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else default)
