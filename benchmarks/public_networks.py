"""Measure networks that others trained in full, and write tables to data_cache/released/public.

    python benchmarks/public_networks.py logits idelbayev pytorch_resnet_cifar10/pretrained_models
    python benchmarks/public_networks.py logits peterson base_predictions/test
    python benchmarks/public_networks.py results

``logits`` computes the logits of an author's networks on the test images of CIFAR-10, or copies
published logits, and writes them to ``$CALIBKIT_DATA/public_logits`` (see `public`). ``results``
measures all logits in that folder. The tables have metrics, bins and curves only, and no logits,
weights or votes.
"""

import argparse
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd
import people
import public
import torch
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax
from torch import Tensor, nn

from calibkit import arrays, confidence, metrics, posthoc, stats, terms
from calibkit_companion.data import catalogue, splits
from calibkit_companion.records import deviations as resampled
from calibkit_companion.records import tables
from calibkit_companion.records.keys import read_fit_name, read_replicate_name
from calibkit_companion.results import derived
from calibkit_companion.training import networks

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)  # theirs, which are ImageNet's
DEPTHS = (20, 32, 44, 56)
DRAWS = 200
TITLES = {f"resnet{n}": f"ResNet-{n}" for n in (*DEPTHS, 50, 110)}
TITLES |= {"wrn_26_10": "WRN-26-10", "densenet121": "DenseNet-121"}
TITLES |= {
    "basic_resnet110": "ResNet-110 (basic)",
    "preact_resnet164": "PreAct-ResNet-164",
    "vgg15_bn": "VGG-15",
    "densenet_bc100": "DenseNet-BC-100",
    "wrn_28_10": "WRN-28-10",
    "resnext29": "ResNeXt-29",
    "pyramidnet110": "PyramidNet-110",
    "shake_shake26": "Shake-Shake-26",
}
POWERS = (1, 2, 3, 4, 5, 6, 7, 8, 9, 10)
RANKING = [
    n for n in resampled.COMPARED if n.startswith(("auroc", "aupr", "aurc", "eaurc", "fpr", "risk"))
]


class LateStride(nn.Module):
    """A residual block whose second convolution has the stride, where He et al. use the first."""

    def __init__(self, inputs: int, outputs: int):
        super().__init__()
        self.stride, self.more = outputs // inputs, (outputs - inputs) // 2
        self.residual = nn.Sequential(
            nn.Conv2d(inputs, inputs, 3, 1, 1, bias=False),
            nn.BatchNorm2d(inputs),
            nn.ReLU(),
            nn.Conv2d(inputs, outputs, 3, self.stride, 1, bias=False),
            nn.BatchNorm2d(outputs),
        )

    def forward(self, x: Tensor) -> Tensor:
        skip = x[:, :, :: self.stride, :: self.stride]
        skip = nn.functional.pad(skip, (0, 0, 0, 0, self.more, self.more))
        return (self.residual(x) + skip).relu()


def late_resnet(depth: int) -> nn.Module:
    """A ResNet that widens in the last block of a stage, not in the first of the next."""
    n = (depth - 2) // 6
    widths = [16] * n + [32] * n + [64] * (n + 1)
    blocks = [LateStride(*pair) for pair in zip(widths[:-1], widths[1:], strict=True)]
    stem = [nn.Conv2d(3, 16, 3, 1, 1, bias=False), nn.BatchNorm2d(16), nn.ReLU()]
    return nn.Sequential(*stem, *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10))


def he_resnet(depth: int) -> nn.Module:
    return networks.build(f"resnet{depth}", (3, 32, 32), 10)


@dataclass(frozen=True)
class Author:
    """Who trained networks, how, and where they are published."""

    source: str  # repository and commit
    trained: str
    licence: str
    files: str = ""  # of weights
    build: object = he_resnet
    unused: tuple[str, ...] = ()  # parts of names of weights that no layer uses
    logits: dict[str, str] = field(default_factory=dict)  # by network, its file of logits


AUTHORS = {
    "idelbayev": Author(
        "github.com/akamaster/pytorch_resnet_cifar10 d5489e8",
        "200 epochs, all 50,000 images, best epoch by test accuracy",
        "BSD 2-clause",
        "resnet{}-*.th",
    ),
    "fattori": Author(
        "github.com/fattorib/ResNets-CIFAR10 4d030ee",
        "180 to 200 epochs, 47,500 images",
        "none given",
        "resnet{}.pth",
        late_resnet,
        (".conv_block.", "_block.bn."),
    ),
    "teguh": Author(
        "github.com/theo-obadiah-teguh/NeuralNets 15ad1f2",
        "164 epochs, all 50,000 images",
        "none given",
        "resnet{}.pth",
    ),
    "": Author(  # those whose logits are published
        "github.com/AIgen/df-posthoc-calibration 2e41ac9, of torrvision/focal_calibration",
        "350 epochs, 45,000 images",
        "MIT; its README says non-commercial",
    ),
    "peterson": Author(
        "github.com/jcpeterson/cifar10-human-experiments efadada",
        "160 epochs or more, by the configurations beside them",
        "MIT for the code that trained them, none given for the logits",
        logits={
            "basic_resnet110": "resnet_basic_110_test.npz",
            "preact_resnet164": "resnet_preact_bottleneck_164_test.npz",
            "vgg15_bn": "vgg_15_BN_64_test.npz",
            "densenet_bc100": "densenet_BC_100_12_test.npz",
            "wrn_28_10": "wrn_28_10_test.npz",
            "resnext29": "resnext_29_8x64d_test.npz",
            "pyramidnet110": "pyramidnet_basic_110_270_test.npz",
            "shake_shake26": "shake_shake_26_2x64d_SSI_cutout16_test.npz",
        },
    ),
}


def with_weights(network: nn.Module, weights: dict[str, Tensor], unused=()) -> nn.Module:
    """A network with the weights of another: same order, different names."""
    own = [name for name in network.state_dict() if not name.endswith("num_batches_tracked")]
    skip = ("num_batches_tracked", *unused)
    theirs = [w for name, w in weights.items() if not any(part in name for part in skip)]
    network.load_state_dict(dict(zip(own, theirs, strict=True)), strict=False)
    return network.eval()


@torch.inference_mode()
def logits_of(network: nn.Module, images: np.ndarray) -> Tensor:
    """Logits (n, 10) of images (n, 3, 32, 32) uint8."""
    parts = (torch.from_numpy(np.array(images[i : i + 500])) for i in range(0, len(images), 500))
    return torch.cat([network(splits.normalise(x, MEAN, STD)) for x in parts])


def write_logits(author: str, folder: Path) -> None:
    """Logits of an author's networks on the test images of CIFAR-10, in the official order."""
    found = _copied(author, folder) if AUTHORS[author].logits else _computed(author, folder)
    labels = public.official_labels().astype(np.uint8)
    for network, logits in found:
        out = public.folder() / f"cifar10-{network}-erm-{author}.npz"
        np.savez_compressed(out, logits=logits, labels=labels)
        print(f"{out.name}: {100 * (logits.argmax(1) == labels).mean():.2f} % right", flush=True)


def _copied(author: str, folder: Path) -> Iterator[tuple[str, np.ndarray]]:
    for network, name in AUTHORS[author].logits.items():
        with np.load(folder / name, allow_pickle=False) as file:
            if not np.array_equal(file["labels"], public.official_labels()):
                raise ValueError(f"{folder / name}: not in the official order")
            yield network, file["logits"]


def _computed(author: str, folder: Path) -> Iterator[tuple[str, np.ndarray]]:
    torch.set_num_threads(1)
    chosen, parts = AUTHORS[author], catalogue.read("cifar10")
    place = public.official_place(parts.test_labels)
    for depth in DEPTHS:
        (file,) = folder.glob(chosen.files.format(depth))
        weights = torch.load(file, map_location="cpu", weights_only=True)
        network = with_weights(
            chosen.build(depth), weights.get("state_dict", weights), chosen.unused
        )
        logits = np.empty((len(place), 10), np.float32)
        logits[place] = logits_of(network, parts.test).numpy()
        yield f"resnet{depth}", logits


# --- results --------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Measured:
    """The predictions of a network, with temperatures and p that are fitted on other images.

    They are fitted on validation images. Without validation images, each half of the test images
    gets the temperature and p that are fitted on the other half.
    """

    given: public.Predictions

    def fitted(self, fit, apply) -> tuple[list[float], np.ndarray]:
        """Return the fitted values, and the results of `apply` on images not used for the fit."""
        z, y = self.given.logits, self.given.labels
        if self.given.val_logits is not None:
            found = fit(self.given.val_logits, self.given.val_labels)
            return [found], apply(z, found)
        first, parts, found = first_half(len(y)), [None, None], []
        for other in (0, 1):
            mask = first == bool(other)
            found.append(fit(z[~mask], y[~mask]))
            parts[other] = apply(z[mask], found[-1])
        out = np.empty((len(y), *parts[0].shape[1:]))
        for other in (0, 1):
            out[first == bool(other)] = parts[other]
        return found, out


def first_half(n: int) -> np.ndarray:
    return np.random.default_rng(0).permutation(n) < n // 2


def temperature(objective: str):
    return lambda z, y: posthoc.optimal_temperature(z, y, objective)[0]


def measure(given: public.Predictions) -> dict[str, list[dict]]:
    """Rows of the tables for one network."""
    z, y = given.logits, given.labels
    own, correct = Measured(given), z.argmax(axis=1) == y
    found = resampled.replicates_of_run(z, y, given.val_logits, given.val_labels, n=DRAWS)
    kept = [i for i, name in enumerate(found.names) if not name.endswith("_p_norm")]
    numbers = [tuple(map(str, read_replicate_name(found.names[i])[:3])) for i in kept]
    values, deviations = [*found.estimates[kept]], [*found.deviations[kept]]
    fits = {key: [value] for key, value in found.temperatures.items()}
    scaled = {}
    for key in ("ts_nll", "ts_ece"):
        fits[key], scaled[key] = own.fitted(temperature(key[3:]), np.divide)
        if given.val_logits is None:
            after = resampled.replicates_of_run(scaled[key], y, n=DRAWS)
            for i, name in enumerate(after.names):
                if name in resampled.COMPARED:
                    numbers.append((name, key, "max_probability"))
                    values.append(after.estimates[i])
                    deviations.append(after.deviations[i])
    ps, score = own.fitted(lambda z, y: confidence.choose_p(z, y, POWERS), confidence.p_norm)
    score = score if len(set(ps)) == 1 else comparable(score)
    estimates, more = replicates_of_score(stats.Answers(score, correct))
    numbers += [(name, "none", "p_norm") for name in RANKING]
    values, deviations = [*values, *estimates], [*deviations, *more]
    for name, (value, drawn) in of_claims(given).items():
        numbers.append((name, "none", "max_probability"))
        values.append(value)
        deviations.append(drawn - value)
    steps, step = resampled.Replicates((), np.array(values), np.array(deviations), {}).quantised()

    draws = np.array(deviations)
    _, low, high = zip(
        *(people.interval(v, v + d) for v, d in zip(values, draws, strict=True)), strict=True
    )
    seed = list(AUTHORS).index(given.author) if given.author else 0
    run = {"run": given.name, "setting": "public", "dataset": given.dataset}
    run |= {"network": given.network, "method": given.method, "seed": seed}
    place = {"test_set": given.test_set, "at": "end"}
    results = [
        run | {"metric": m, "recalibration": r, "score": s} | place
        | {"value": float(value), "low": a, "high": b, "n": len(y)}
        | {"step": one, "steps": each.tobytes()}
        for (m, r, s), value, a, b, one, each in zip(
            numbers, values, low, high, step[:, 0], steps, strict=True
        )
    ]  # fmt: skip
    fits = [("temperature", str(read_fit_name(k)), t) for k, t in fits.items()]
    for name, key, fit in [*fits, ("p", "none", ps)]:
        row = {"metric": name, "recalibration": key}
        score_name = "p_norm" if name == "p" else "max_probability"
        results.append(run | row | {"score": score_name} | place
                       | {"value": float(np.mean(fit)), "n": len(y)})  # fmt: skip
    author = AUTHORS[given.author]
    about = {"source": author.source, "trained": author.trained, "licence": author.licence}
    about |= {
        "title": f"{terms.DATASETS[given.dataset]}, {TITLES.get(given.network, given.network)}",
        "author": given.author or "focal_calibration",
        "held_out": given.val_logits is not None,
    }
    before, after = (numbers.index(("auroc", "none", s)) for s in ("max_probability", "p_norm"))
    gain = values[after] - values[before]
    gain = people.interval(gain, gain + draws[after] - draws[before])
    about |= dict(zip(("p_norm_gain", "gain_low", "gain_high"), gain, strict=True))
    centred = z - z.mean(axis=1, keepdims=True)
    length = np.linalg.norm(centred, axis=1, keepdims=True)
    alike = confidence.maximum_probability(centred / length * np.median(length))
    plain = confidence.maximum_probability(z)
    about["equal_length_gain"] = metrics.auroc(alike, correct) - metrics.auroc(plain, correct)
    scores = {"max_probability": plain, "p_norm": score}
    return {
        "networks": [run | about | lengths(z, correct)],
        "results": results,
        "reliability": reliability(given.name, {"none": z, "ts_nll": scaled["ts_nll"]}, y),
        "risk_coverage": risk_coverage(given.name, scores, correct),
        "p_norm": [
            {"run": given.name, "p": p, "auroc": metrics.auroc(confidence.p_norm(z, p), correct)}
            for p in (0.5, 1, 1.5, *range(2, 21))
        ],
    }


def of_claims(given: public.Predictions) -> dict[str, tuple[float, np.ndarray]]:
    """Compute the metrics that claims need for one network: values, and deviations by resample."""
    correct = given.logits.argmax(axis=1) == given.labels
    warm = [confidence.maximum_probability(given.logits / t) for t in derived.TEMPERATURES]
    auroc = stats.replicates([stats.Answers(one, correct) for one in warm], None, ["auroc"], DRAWS)
    plain = stats.replicates([given.logits], given.labels, ["auroc"], DRAWS)
    gain = "auroc_gain_of_temperature"
    found = {gain: (derived.METRICS[gain](given), (auroc.max(axis=0) - plain[0])[:, 0])}
    sure = confidence.maximum_probability(given.logits)

    def parts(drawn=slice(None)) -> tuple[float, float]:
        its = metrics.refinement_decomposition(sure[drawn], correct[drawn])
        gap = abs(its["confidence"] - correct[drawn].mean())
        return its["residual"], its["ece"] - gap

    counts = people.resamples(len(correct), DRAWS)
    draws = np.array([parts(np.repeat(np.arange(len(correct)), c)) for c in counts])
    names = ("eq9_residual", "ece_beyond_gap")
    return found | dict(zip(names, zip(parts(), draws.T, strict=True), strict=True))


def replicates_of_score(answers: stats.Answers) -> tuple[np.ndarray, np.ndarray]:
    """Estimates (names,) of `RANKING` and deviations (names, draws) on the shared resamples."""
    ranking = metrics.Ranking.of(*answers)
    covered = [float(n.rpartition("_")[2]) for n in RANKING if n.startswith("risk_at")]
    functions = metrics.ranked_metrics(coverages=covered)
    estimates = np.array([functions[name](ranking) for name in RANKING])
    draws = stats.replicates([answers], None, RANKING, n=DRAWS)[0]
    return estimates, (draws - estimates).T


def comparable(score: np.ndarray) -> np.ndarray:
    """Make the scores of two halves with different p comparable, as ranks within each half."""
    out, first = np.empty(len(score)), first_half(len(score))
    for mask in (first, ~first):
        out[mask] = np.searchsorted(np.sort(score[mask]), score[mask]) / mask.sum()
    return out


def lengths(z: np.ndarray, correct: np.ndarray) -> dict[str, float]:
    """Measure how well the length of centred logits separates right from wrong, given direction."""
    centred = z - z.mean(axis=1, keepdims=True)
    length, direction = np.linalg.norm(centred, axis=1), confidence.p_norm(z, 2)
    counts = people.resamples(len(z), DRAWS)
    draws = [at_equal(direction[r], length[r], correct[r])
             for r in (np.repeat(np.arange(len(z)), c) for c in counts)]  # fmt: skip
    value = at_equal(direction, length, correct)
    _, low, high = people.interval(value, np.array(draws))
    ratio = np.median(length[correct]) / np.median(length[~correct])
    return {"length_auroc": metrics.auroc(length, correct), "length_ratio": ratio,
            "length_given_direction": value, "length_low": low, "length_high": high}  # fmt: skip


def at_equal(given: np.ndarray, score: np.ndarray, correct: np.ndarray, groups: int = 40) -> float:
    """Compute the AUROC of a score among predictions with similar values of another score."""
    group = np.argsort(np.argsort(given, kind="stable"), kind="stable") * groups // len(given)
    won = pairs = 0.0
    for g in range(groups):
        right, wrong = score[(group == g) & correct], score[(group == g) & ~correct]
        if len(right) and len(wrong):
            more = len(right) * len(wrong)
            won += (
                metrics.auroc(np.r_[right, wrong], np.arange(len(right) + len(wrong)) < len(right))
                * more
            )
            pairs += more
    return won / pairs


def reliability(run: str, logits: dict[str, np.ndarray], labels: np.ndarray) -> list[dict]:
    rows = []
    for key, z in logits.items():
        each = metrics.per_sample(z, labels)
        table = metrics.reliability_bins(each["confidence"], each["correct"])
        edges = table.pop("edges")
        table = pd.DataFrame(table).assign(
            run=run, recalibration=key, low=edges[:-1], high=edges[1:]
        )
        rows += table.to_dict("records")
    return rows


def risk_coverage(run: str, scores: dict[str, np.ndarray], correct: np.ndarray) -> list[dict]:
    rows, at = [], np.linspace(0.02, 1, 99)
    for name, score in scores.items():
        coverage, risk = metrics.risk_coverage(score, correct)
        place = np.minimum(np.searchsorted(coverage, at - 1e-12), len(risk) - 1)
        rows += [{"run": run, "score": name, "coverage": c, "risk": r}
                 for c, r in zip(at, risk[place], strict=True)]  # fmt: skip
    return rows


# --- people ---------------------------------------------------------------------------------------


def measure_people(given: public.Predictions, votes: np.ndarray, review: public.Review) -> dict:
    """Rows of the tables on people for one network, and its answers to compare."""
    z, y = given.logits, given.labels
    counts, rows = people.resamples(len(y), DRAWS), []
    resampled = [np.repeat(np.arange(len(y)), c) for c in counts]
    shares, doubted = people.shares(votes), review.index[~review.confirmed]
    first = first_half(len(y))
    after = {"none": z, "ts_nll": Measured(given).fitted(temperature("nll"), np.divide)[1],
             "ts_people": z.copy()}  # fmt: skip
    for mask in (first, ~first):  # each half by the other
        after["ts_people"][mask] /= temperature_of_people(z[~mask], shares[~mask])

    def add(metric, recalibration, value, draws=None):
        low, high = people.interval(value, np.array(draws))[1:] if draws else (np.nan, np.nan)
        rows.append({"run": given.name, "metric": metric, "recalibration": recalibration,
                     "value": float(value), "low": low, "high": high, "n": len(y)})  # fmt: skip

    predicted = z.argmax(axis=1)
    correct, agreement = predicted == y, shares[np.arange(len(y)), predicted]
    for key, logits in after.items():
        sure = confidence.maximum_probability(logits)
        for whom, truth in (("labels", correct.astype(float)), ("people", agreement)):
            found = people.calibration_error(sure, truth)
            draws = [people.calibration_error(sure[r], truth[r]) for r in resampled]
            for i, name in enumerate(("ece", "ece_floor", "gap")):
                add(f"{name}_{whom}", key, found[i], [d[i] for d in draws])
    sure = confidence.maximum_probability(z)
    keep = np.ones(len(y), bool)
    keep[doubted] = False
    for name, score in (("", sure), ("_by_agreement", agreement)):
        every, kept = [], []
        for r in resampled:
            every.append(metrics.auroc(score[r], correct[r]))
            kept.append(metrics.auroc(score[r[keep[r]]], correct[r[keep[r]]]))
        value = metrics.auroc(score, correct)
        confirmed = people.auroc_without(score, correct, doubted)
        add(f"auroc{name}", "none", value, every)
        add(f"auroc_confirmed{name}", "none", confirmed, kept)
        add(f"auroc_gain{name}", "none", confirmed - value, [*np.subtract(kept, every)])
    probs, by_people = arrays.softmax(z), shares.argmax(axis=1) == predicted
    add("errors", "none", (~correct).sum())
    add("errors_people_make", "none", (by_people & ~correct).sum())
    add("errors_unconfirmed", "none", (~correct)[doubted].sum())
    add("errors_sure", "none", (~correct & (agreement < 0.1) & (sure > 0.9)).sum())
    add("agreement", "none", agreement.mean())
    add("distance", "none", people.distance(probs, votes).mean())
    add("squared_distance", "none", people.squared_distance(probs, votes).mean())
    add("brier_people", "none", ((probs**2).sum(1) - 2 * (probs * shares).sum(1) + 1).mean())
    return {"people": rows, "weights": weight_rows(given.name, probs, y, votes, counts)}


def temperature_of_people(logits: np.ndarray, shares: np.ndarray) -> float:
    """The temperature with the lowest cross-entropy against people's shares."""

    def cross_entropy(log_t: float) -> float:
        return -(shares * log_softmax(logits / np.exp(log_t), axis=1)).sum(axis=1).mean()

    return float(np.exp(minimize_scalar(cross_entropy, bounds=(-2, 3), method="bounded").x))


def weight_rows(run, probs, labels, votes, counts) -> list[dict]:
    """Correlate each weight with the distance from people's answers, for one network."""
    weights, rows = people.weights(probs, labels), []
    names, x = list(weights), np.stack(list(weights.values()), axis=1)
    distance = people.distance(probs, votes)
    squared = people.squared_distance(probs, votes)
    targets = {"distance": distance, "squared": squared}
    disputed = people.shares(votes)[np.arange(len(labels)), labels] < 0.9
    subsets = {"all": np.ones(len(labels), bool), "disputed": disputed}
    known = people.true_correlation(x, probs, votes)
    for images, mask in subsets.items():
        for target, t in targets.items():
            for kind in ("pearson", "spearman"):
                a, b = x[mask], t[mask]
                if kind == "spearman":
                    a, b = people.ranks(a), people.ranks(b[:, None])[:, 0]
                values = people.correlation(a, b)
                draws = people.correlation(a, b, counts[:, mask])
                # Of images chosen by their votes the halves are not independent.
                exact = (images, kind, target) == ("all", "pearson", "squared")
                for i, name in enumerate(names):
                    ahead = values[i] - values[0]
                    _, low, high = people.interval(values[i], draws[:, i])
                    _, ahead_low, ahead_high = people.interval(ahead, draws[:, i] - draws[:, 0])
                    rows.append(
                        {"run": run, "images": images, "target": target, "kind": kind,
                         "weight": name, "value": values[i], "low": low, "high": high,
                         "ahead": ahead, "ahead_low": ahead_low, "ahead_high": ahead_high,
                         "noiseless": known[i] if exact else np.nan,
                         "n": int(mask.sum())}
                    )  # fmt: skip
    return rows


def crowd(votes: np.ndarray, labels: np.ndarray, review: public.Review, splits: int = 20) -> dict:
    """Describe people's answers alone, and how well one half of people predicts the other half."""
    shares, rng, found, answers = people.shares(votes), np.random.default_rng(0), [], []
    for _ in range(splits):
        a, b = people.halves(votes, rng)
        one, other = people.shares(a), people.shares(b)
        said = one.argmax(axis=1)
        right = said == labels
        error = people.calibration_error(one.max(axis=1), other[np.arange(len(a)), said])
        answers.append(stats.Answers(one.max(axis=1), right))
        found.append({
            "half_distance": people.distance(one, b).mean(),
            "half_ece_people": error.error,
            "half_ece_people_floor": error.floor,
            "half_ece_labels": people.calibration_error(one.max(axis=1), right * 1.0).error,
            "half_errors": (~right).sum(),
            "half_auroc": metrics.auroc(one.max(axis=1), right),
        })  # fmt: skip
    means = pd.DataFrame(found).mean()
    draws = stats.replicates(answers, None, ["auroc"], DRAWS).mean(axis=0)[:, 0]
    _, low, high = people.interval(means["half_auroc"], draws)
    of_label = shares[np.arange(len(labels)), labels]
    return {key: float(value) for key, value in {
        "images": len(labels),
        "votes": votes.sum(axis=1).mean(),
        "share_of_label": of_label.mean(),
        "unanimous": (shares.max(axis=1) == 1).mean(),
        "disputed": (of_label < 0.9).mean(),
        "majority_against_label": (shares.argmax(axis=1) != labels).sum(),
        "disagreement": (1 - (shares**2).sum(axis=1) + people.vote_noise(votes)).mean(),
        "vote_noise": people.vote_noise(votes).mean(),
        "reviewed": len(review.index),
        "confirmed": review.confirmed.sum(),
        **means,
        "half_auroc_low": low,
        "half_auroc_high": high,
    }.items()}  # fmt: skip


def write_results() -> None:
    """The tables of all networks whose logits are in the data folder."""
    out = tables.released_root() / "public"
    out.mkdir(parents=True, exist_ok=True)
    votes, review = public.votes(), public.review()
    rows: dict[str, list[dict]] = {}
    for name in public.names():
        given = public.predictions(name)
        parts = measure(given)
        if given.test_set == public.OFFICIAL:
            parts |= measure_people(given, votes, review)
        for table, more in parts.items():
            rows.setdefault(table, []).extend(more)
        print(name, flush=True)
    for table, of in rows.items():
        pd.DataFrame(of).to_parquet(
            out / f"{table}.parquet", compression="zstd", compression_level=9, index=False
        )
    facts = crowd(votes, public.official_labels(), review)
    (out / "crowd.json").write_text(json.dumps(facts, indent=1) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    logits = commands.add_parser("logits", help="of an author's networks")
    logits.add_argument("author", choices=[name for name in AUTHORS if name])
    logits.add_argument("folder", type=Path, help="where the author's files are")
    commands.add_parser("results", help="of all logits in the data folder")
    arguments = parser.parse_args()
    if arguments.command == "logits":
        write_logits(arguments.author, arguments.folder)
    else:
        write_results()


if __name__ == "__main__":
    main()
