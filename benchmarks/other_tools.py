"""Compute numbers by other tools on fixed data, for the page "Coming from another tool".

    python benchmarks/other_tools.py [GROUP ...]

Each group of tools runs in a virtual environment of its own, with pinned versions, in a temporary
folder. The group `r` needs Debian's packages r-cran-ranger, r-cran-caret, r-cran-modelmetrics,
r-cran-mlmetrics and r-cran-jsonlite. The values go to `results/other_tools.json`, with tool and
version; groups that are not named keep theirs. `tests/test_coming_from.py` computes our values on
the same data and checks how the two are related.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parent
RESULTS = ROOT / "results" / "other_tools.json"
TORCH = ("torch==2.13.0", "numpy==2.4.6")
GROUPS = {  # what each environment installs
    "torch": (*TORCH, "torchmetrics==1.9.0", "netcal==1.4.0", "keras==3.15.1"),
    "torch_uncertainty": (*TORCH, "torchmetrics==1.9.0", "torch-uncertainty==0.13.0"),
    "torcheval": (*TORCH, "torcheval==0.0.7"),
    "mapie": ("mapie==1.6.0", "scikit-learn==1.9.1", "uncertainty-calibration==0.1.4"),
    "trees": (
        *("scikit-learn==1.9.1", "lightgbm==4.7.0", "xgboost==3.2.0", "catboost==1.2.10"),
        *("duckdb==2.0.1", "pandas==2.3.3", "polars==2.1.0"),
    ),
    "scikit_plot": (
        *("scikit-plot==0.3.7", "scikit-learn==1.4.2", "scipy==1.11.4", "matplotlib==3.8.4"),
        "six",  # it imports it without naming it
    ),
    "fastai": ("fastai==2.8.7", "scikit-learn==1.6.1"),
    "nannyml": ("nannyml==0.13.1", "statsmodels==0.15.0"),  # which it imports without naming it
    "r": (),
}
N = 4000


# --- the data -------------------------------------------------------------------------------------


def samples() -> dict[str, np.ndarray]:
    """The fixed data of all rows, N samples each.

    - ``event``, ``claimed``: whether an event happened, and the probability that a model gave it,
      over-confident and too high on the whole; ``score`` is its log-odds, ``wide`` that times 100,
      and ``fair`` the true log-odds, those of a calibrated model;
    - ``votes``: the probability rounded to the share of 20 votes;
    - ``rare``, ``rare_claimed``: an event in 6 of 100 samples, and its true probability;
      ``levels``: the same probability in five levels, 0 to 1;
    - ``separated``, ``separated_claimed``: an event and a score that orders it nearly without
      error, but lies too near one half;
    - ``logits`` (N, 4), ``labels``: an over-confident classifier; ``drawn``: labels for which the
      same logits are calibrated; ``coarse``: the logits in few steps.
    """
    rng = np.random.default_rng(0)
    normal = rng.normal(size=N)
    event = rng.random(N) < sigmoid(1.2 * normal - 0.3)
    score = 2.5 * normal + 1
    rare_score = rng.normal(-3, 0.6, N)
    rare = rng.random(N) < sigmoid(rare_score)
    separated = rng.random(N) < 0.3
    apart = np.where(separated, 1.0, -1.0) + rng.normal(scale=0.35, size=N)
    labels = rng.integers(0, 4, N)
    logits = 4 * rng.normal(size=(N, 4))
    logits[np.arange(N), labels] += 4
    drawn = (softmax(logits).cumsum(axis=1) < rng.random((N, 1))).sum(axis=1)
    return {
        "event": event.astype(int),
        "score": score,
        "fair": 1.2 * normal - 0.3,
        "claimed": sigmoid(score),
        "wide": 100 * score,
        "votes": np.round(20 * sigmoid(score)) / 20,
        "rare": rare.astype(int),
        "rare_claimed": sigmoid(rare_score),
        "levels": np.digitize(sigmoid(rare_score), [0.03, 0.05, 0.08, 0.12]) / 4,
        "separated": separated.astype(int),
        "separated_claimed": sigmoid(apart - 1.0),
        "labels": labels,
        "logits": logits,
        "drawn": drawn.clip(max=3),
        "coarse": np.round(logits / 8),
    }


def sigmoid(score: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-score))


def softmax(logits: np.ndarray) -> np.ndarray:
    weight = np.exp(logits - logits.max(axis=1, keepdims=True))
    return weight / weight.sum(axis=1, keepdims=True)


def two_columns(probability: np.ndarray) -> np.ndarray:
    return np.stack([1 - probability, probability], axis=1)


def within_ties(confidence: np.ndarray, first: np.ndarray) -> np.ndarray:
    """Sort rows by confidence; of equal confidences, the rows in `first` come first."""
    return np.lexsort([~first.astype(bool), confidence])


# --- one function for each group; it runs in the group's environment ----------------------------

Rows = dict[str, tuple[str, object]]  # key -> (tool as its package is called, value)


def torch(data: dict[str, np.ndarray]) -> Rows:
    import os

    os.environ["KERAS_BACKEND"] = "torch"
    import keras
    from netcal.metrics import ECE
    from netcal.scaling import TemperatureScaling
    from torch import from_numpy
    from torchmetrics import classification as tm

    probs, event = softmax(data["logits"]), from_numpy(data["event"])
    score = from_numpy(data["fair"])

    def temperature(dtype):
        return float(TemperatureScaling().fit(probs.astype(dtype), data["labels"]).temperature[0])

    at_once, one_by_one = (tm.BinaryCalibrationError(n_bins=15) for _ in range(2))
    for row in range(N):
        one_by_one.update(score[row : row + 1], event[row : row + 1])
    of_batches = tm.MulticlassCalibrationError(num_classes=4, n_bins=15)
    batches = [
        float(of_batches(from_numpy(probs[i : i + 128]), from_numpy(data["drawn"][i : i + 128])))
        for i in range(0, N, 128)
    ]
    auc = keras.metrics.AUC(from_logits=True)
    auc.update_state(data["event"], data["wide"])
    return {
        "netcal_ece": ("netcal", ECE(15).measure(two_columns(data["claimed"]), data["event"])),
        "netcal_temperature": ("netcal", temperature(np.float64)),
        "netcal_temperature_float32": ("netcal", temperature(np.float32)),
        "torchmetrics_ece_votes": (
            "torchmetrics",
            tm.BinaryCalibrationError(n_bins=10)(from_numpy(data["votes"]), event),
        ),
        "torchmetrics_ece_at_once": ("torchmetrics", at_once(score, event)),
        "torchmetrics_ece_one_by_one": ("torchmetrics", one_by_one.compute()),
        "torchmetrics_ece_mean_of_batches": ("torchmetrics", np.mean(batches)),
        "torchmetrics_ece_of_all": ("torchmetrics", of_batches.compute()),
        "torchmetrics_auroc": ("torchmetrics", tm.BinaryAUROC()(from_numpy(data["wide"]), event)),
        "keras_auc": ("keras", float(auc.result())),
    }


def torch_uncertainty(data: dict[str, np.ndarray]) -> Rows:
    from importlib.util import find_spec, module_from_spec, spec_from_file_location

    from torch import from_numpy

    # The file of the metric alone: the whole package imports lightning and torchvision.
    folder = Path(find_spec("torch_uncertainty").origin).parent
    spec = spec_from_file_location("one", folder / "metrics/classification/risk_coverage.py")
    spec.loader.exec_module(one := module_from_spec(spec))
    right = softmax(data["logits"]).argmax(axis=1) == data["labels"]
    confidence = softmax(data["logits"]).max(axis=1).round(1)

    def aurc(order):
        metric, wrong = one.AURC(), (~right[order]).astype(int)
        metric.update(from_numpy(two_columns(1 - confidence[order])), from_numpy(wrong))
        return float(metric.compute())

    orders = (within_ties(-confidence, right), within_ties(-confidence, ~right))
    return {"torch_uncertainty_aurc": ("torch-uncertainty", [aurc(order) for order in orders])}


def torcheval(data: dict[str, np.ndarray]) -> Rows:
    from torch import from_numpy
    from torcheval.metrics.functional import multiclass_accuracy

    given = from_numpy(data["coarse"]), from_numpy(data["labels"])
    return {
        f"torcheval_top{k}": ("torcheval", multiclass_accuracy(*given, num_classes=4, k=k))
        for k in (1, 2)
    }


def mapie(data: dict[str, np.ndarray]) -> Rows:
    import calibration
    from mapie.metrics.calibration import expected_calibration_error

    def ece(bins):
        return expected_calibration_error(
            data["event"], data["claimed"], num_bins=bins, split_strategy="uniform"
        )

    given = softmax(data["logits"]), data["labels"]
    return {
        "mapie_ece": ("mapie", ece(15)),
        "mapie_ece_two_bins": ("mapie", ece(2)),
        "uncertainty_calibration": (
            "uncertainty-calibration",
            calibration.get_calibration_error(*given),
        ),
        "uncertainty_calibration_ece": ("uncertainty-calibration", calibration.get_ece(*given)),
    }


def trees(data: dict[str, np.ndarray]) -> Rows:
    import catboost.utils
    import lightgbm
    import xgboost
    from sklearn.metrics import average_precision_score, brier_score_loss

    rare, levels, nothing = data["rare"], data["levels"], np.zeros((N, 1))

    def of_lightgbm(metric, labels, scores, **settings):
        """Compute a metric of LightGBM for given scores, by a model that adds nothing to them."""
        rows = lightgbm.Dataset(nothing, label=labels, init_score=scores)
        settings = {"metric": metric, "learning_rate": 1e-12, "verbose": -1} | settings
        keep = lightgbm.record_evaluation(found := {})
        lightgbm.train(settings, rows, 1, valid_sets=[rows], callbacks=[keep])
        return found["training"][metric][0]

    rows = xgboost.DMatrix(nothing, label=rare)
    rows.set_base_margin(levels)
    settings = {"objective": "binary:logistic", "eval_metric": "aucpr", "eta": 0}
    xgboost.train(
        settings, rows, 1, evals=[(rows, "rows")], evals_result=(found := {}), verbose_eval=False
    )
    average = of_lightgbm("average_precision", rare, levels, objective="binary")
    mu = of_lightgbm(
        "auc_mu", data["labels"], data["logits"].ravel("F"), objective="multiclass", num_class=4
    )
    return {
        "sklearn_brier": ("scikit-learn", brier_score_loss(data["event"], data["claimed"])),
        "sklearn_temperature": ("scikit-learn", sklearn_temperature(data)),
        "sklearn_average_precision": ("scikit-learn", average_precision_score(rare, levels)),
        "lightgbm_average_precision": ("lightgbm", average),
        "xgboost_aucpr": ("xgboost", found["rows"]["aucpr"][0]),
        "catboost_prauc": ("catboost", catboost.utils.eval_metric(rare, levels, "PRAUC")[0]),
        "lightgbm_auc_mu": ("lightgbm", mu),
        "duckdb_ntile": ("duckdb", duckdb_ntile(data)),
        "polars_ordinal": ("polars", polars_ordinal(data)),
    }


def sklearn_temperature(data: dict[str, np.ndarray]) -> float:
    """Temperature of logits times 10,000, as a linear machine on unscaled features has them."""
    from sklearn.base import BaseEstimator, ClassifierMixin
    from sklearn.calibration import CalibratedClassifierCV
    from sklearn.frozen import FrozenEstimator

    class Given(ClassifierMixin, BaseEstimator):
        classes_ = np.arange(4)

        def fit(self, x, y):
            return self

        def __sklearn_is_fitted__(self):
            return True

        def decision_function(self, x):
            return x

        def predict(self, x):
            return x.argmax(axis=1)

    model = CalibratedClassifierCV(FrozenEstimator(Given()), method="temperature")
    model.fit(10_000 * data["logits"], data["labels"])
    return 1 / model.calibrated_classifiers_[0].calibrators[0].beta_


def tied_confidences(data: dict[str, np.ndarray]) -> list[tuple[np.ndarray, np.ndarray]]:
    """Confidences in tenths and correctness, in two orders: of equal ones the right come first, or
    the wrong.
    """
    probs = softmax(data["logits"])
    confidence, right = probs.max(axis=1).round(1), probs.argmax(axis=1) == data["drawn"]
    orders = (within_ties(confidence, first) for first in (right, ~right))
    return [(confidence[order], right[order].astype(int)) for order in orders]


NTILE = """
    SELECT sum(abs(off)) / sum(n) FROM (
        SELECT sum(correct - p) AS off, count(*) AS n FROM (
            SELECT correct, p, ntile(10) OVER (ORDER BY p) AS bin FROM pairs
        ) AS ranked GROUP BY bin
    ) AS binned"""


def duckdb_ntile(data: dict[str, np.ndarray]) -> list[float]:
    import duckdb
    import pandas as pd

    found = []
    for p, correct in tied_confidences(data):
        connection = duckdb.connect()
        connection.register("pairs", pd.DataFrame({"p": p, "correct": correct}))
        connection.execute("SET threads = 1")
        found.append(float(connection.execute(NTILE).fetchone()[0]))
    return found


def polars_ordinal(data: dict[str, np.ndarray]) -> list[float]:
    import polars

    found = []
    for p, correct in tied_confidences(data):
        rank = polars.Series(p).rank("ordinal").to_numpy() - 1
        found.append(ece_by_rank(p, correct, rank))
    return found


def ece_by_rank(p: np.ndarray, correct: np.ndarray, rank: np.ndarray) -> float:
    """Calibration error of ten bins of equal count, by ranks from 0."""
    off = np.bincount((10 * rank // N).astype(int), correct - p)
    return float(np.abs(off).sum() / N)


def scikit_plot(data: dict[str, np.ndarray]) -> Rows:
    import matplotlib

    matplotlib.use("agg")
    import scikitplot

    probs = two_columns(data["rare_claimed"])
    ax = scikitplot.metrics.plot_calibration_curve(data["rare"], [probs], n_bins=10)
    (line,) = (line for line in ax.lines if len(line.get_xdata()) > 2)
    return {"scikit_plot_curve": ("scikit-plot", line.get_xydata().tolist())}


def fastai(data: dict[str, np.ndarray]) -> Rows:
    from fastai.data.core import DataLoaders
    from fastai.learner import Learner
    from fastai.metrics import BrierScore
    from torch import eye, from_numpy, nn
    from torch.utils.data import TensorDataset

    scores = from_numpy(np.stack([np.zeros(N), data["score"]], axis=1))
    rows = TensorDataset(scores, from_numpy(data["event"]))
    loaders = DataLoaders.from_dsets(rows, rows, bs=500, device="cpu")
    network = nn.Linear(2, 2, bias=False, dtype=scores.dtype)
    network.weight.data = eye(2, dtype=scores.dtype)  # hands the scores on
    learner = Learner(loaders, network, nn.CrossEntropyLoss(), metrics=BrierScore())
    _, found = learner.validate()
    return {"fastai_brier": ("fastai", found)}


def nannyml(data: dict[str, np.ndarray]) -> Rows:
    import nannyml
    import pandas as pd

    frame = pd.DataFrame({"p": data["separated_claimed"], "y": data["separated"]})
    frame["said"] = (frame.p >= 0.5).astype(int)
    reference, later = frame[: N // 2], frame[N // 2 :].drop(columns="y")
    estimator = nannyml.CBPE(
        y_pred_proba="p",
        y_pred="said",
        y_true="y",
        problem_type="classification_binary",
        metrics=["accuracy"],
        chunk_number=1,
    )
    found = estimator.fit(reference).estimate(later).filter(period="analysis").to_df()
    return {"nannyml_accuracy": ("nannyml", float(found["accuracy", "value"].iloc[0]))}


# --- running them ---------------------------------------------------------------------------------


def as_json(value: object) -> object:
    if isinstance(value, list):
        return value
    return float(value)


def measure(group: str, path: str) -> None:
    """Print the rows of a group as JSON; this runs in the group's environment."""
    rows = globals()[group](dict(np.load(path)))
    found = {
        key: {"tool": tool, "version": version(tool), "value": as_json(value)}
        for key, (tool, value) in rows.items()
    }
    print("\n" + json.dumps(found))


def write_csv(path: Path, columns: dict[str, np.ndarray]) -> None:
    """A table with a header; an array of two axes becomes several columns."""
    names = [
        name if values.ndim == 1 else f"{name}_{k}"
        for name, values in columns.items()
        for k in range(values.size // len(values))
    ]
    rows = np.column_stack(list(columns.values()))
    np.savetxt(path, rows, "%.17g", ",", header=",".join(names), comments="")


def run(group: str, folder: Path) -> dict:
    """Install a group's tools, and return the rows that they give."""
    data = samples()
    if group == "r":
        write_csv(folder / "classes.csv", {"labels": data["labels"], "logit": data["logits"]})
        columns = ("event", "claimed", "rare", "rare_claimed", "levels")
        write_csv(folder / "events.csv", {name: data[name] for name in columns})
        command = ["Rscript", str(ROOT / "other_tools.R"), str(folder)]
    else:
        environment = folder / group
        subprocess.run([sys.executable, "-m", "venv", str(environment)], check=True)
        pip = [str(environment / "bin/pip"), "install", "--quiet"]
        subprocess.run([*pip, *GROUPS[group]], check=True)
        np.savez(folder / "samples.npz", **data)
        command = [str(environment / "bin/python"), __file__, group]
        command += ["--measure", str(folder / "samples.npz")]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("groups", nargs="*", choices=[*GROUPS, []], metavar="GROUP")
    parser.add_argument("--measure", help="the file of samples; within an environment only")
    options = parser.parse_args()
    if options.measure:
        measure(options.groups[0], options.measure)
        return
    kept = json.loads(RESULTS.read_text())["rows"] if RESULTS.exists() else {}
    for group in options.groups or GROUPS:
        with tempfile.TemporaryDirectory() as folder:
            found = run(group, Path(folder))
        print(json.dumps(found, indent=1), flush=True)
        kept |= found
        rows = ",\n".join(f'  "{key}": {json.dumps(row)}' for key, row in sorted(kept.items()))
        date = datetime.now(UTC).date().isoformat()
        RESULTS.write_text(f'{{\n "date": "{date}",\n "rows": {{\n{rows}\n }}\n}}\n')


if __name__ == "__main__":
    main()
