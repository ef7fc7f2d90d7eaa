"""What things are called: methods, metrics and their units, data sets. Standard library only."""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from difflib import get_close_matches
from typing import NamedTuple


class Entry(NamedTuple):
    """A method of the papers: what it is called, how it is drawn, what it trains with.

    Attributes
    ----------
    label, color, marker : on pages and in figures
    objective : a function of `calibkit.losses`, or of `training.objectives`; empty: of its own name
    options : coefficients of the objective
    update : of the weights, "sgd" or "sam"
    averaging : of the weights, "none" or "swa"
    revision : raised when what it computes changes: older records then belong to another run
    """

    label: str
    color: str
    marker: str
    objective: str = ""
    update: str = "sgd"
    averaging: str = "none"
    revision: int = 0
    options: Mapping[str, float] = {}


# Every method, in the order of figures and tables. Coefficients are those of the paper which uses a
# method as its own or, for a baseline, of fmfp. Okabe-Ito colours for the methods met most, the
# rest chosen so that the methods of one paper stay apart (at least 15 CIELAB units) for normal,
# protan and deutan eyes; the marker tells them apart in print.
METHODS = {
    "erm": Entry("ERM", "#000000", "o", objective="cross_entropy"),
    "label_smoothing": Entry("Label smoothing", "#E69F00", "s", options={"epsilon": 0.05}),
    "entropy_regularization": Entry("Entropy reg.", "#9C6500", "h", options={"beta": 0.1}),
    # folded: the larger ratio first, always
    "mixup": Entry("Mixup", "#56B4E9", "^", options={"alpha": 0.2, "folded": 0.0}),
    "mixup_dt": Entry("Mixup-DT", "#3A86CC", "<", revision=1, options={"alpha": 1.0}),
    "mixup_to": Entry("Mixup-TO", "#7AB0C4", ">", options={"alpha": 1.0}),
    "mixup_sc": Entry("Mixup-SC", "#614993", "v", options={"alpha": 1.0}),
    "mixup_io": Entry("Mixup-IO", "#7C74A1", "d", options={"alpha": 1.0}),
    "mit_l": Entry("MIT-L", "#56BBA7", "X", options={"alpha": 1.0, "margin": 0.0}),
    "mit_a": Entry("MIT-A", "#0E4F45", "P", options={"alpha": 1.0, "margin": 0.5}),
    "focal": Entry("Focal", "#009E73", "D", options={"gamma": 3.0}),
    "inverse_focal": Entry("Inverse focal", "#4BC1A9", "v", options={"gamma": 1.0}),
    "dual_focal": Entry("Dual focal", "#4D5700", "p", options={"gamma": 5.0}),
    "flsd53": Entry("FLSD-53", "#023D1E", "8"),
    "l1_norm": Entry(
        "L1 norm", "#6E6870", "X", objective="logit_penalty", options={"p": 1.0, "strength": 0.01}
    ),
    "cs_kd": Entry("CS-KD", "#8F713B", "p", options={"temperature": 4.0, "weight": 1.0}),
    "crl": Entry("CRL", "#C077A5", "v", revision=1, options={"weight": 1.0}),
    "sam": Entry("SAM", "#DF9CA4", "<", objective="cross_entropy", update="sam"),
    "swa": Entry("SWA", "#913900", ">", objective="cross_entropy", averaging="swa"),
    "fmfp": Entry("FMFP", "#D55E00", "*", objective="cross_entropy", update="sam", averaging="swa"),
    "brier": Entry("Brier loss", "#882255", "H"),
    "mmce": Entry("MMCE", "#8C5941", "d", options={"formula": 0.0, "weight": 2.0}),
    "bsce": Entry("BSCE", "#6FA8DC", "<", options={"beta": 2.0, "gamma": 4.0}),
    "bsce_gra": Entry("BSCE-GRA", "#0072B2", "P", options={"beta": 2.0, "gamma": 4.0}),
    # The gradient-weighted form keeps the colour of its loss and is drawn dashed.
    "focal_gra": Entry("Focal-GRA", "#009E73", "d", options={"gamma": 3.0}),
    "flsd53_gra": Entry("FLSD-53-GRA", "#023D1E", "h"),
    "dual_focal_gra": Entry("Dual focal-GRA", "#4D5700", "X", options={"gamma": 5.0}),
    "consistency_gra": Entry(
        "Consistency-GRA", "#A89400", "^", options={"draws": 10.0, "noise": 0.5}
    ),
}
_SUFFIXES = {"sam": "SAM", "swa": "SWA", "ts": "TS"}
_GREEK = {"alpha": "α", "beta": "β", "gamma": "γ", "epsilon": "ε"}

# metric: (label, factor as the papers print it, higher is better? None: neither)
METRICS = {
    "accuracy": ("Accuracy", 100, True),
    "auroc": ("AUROC", 100, True),
    "aupr_success": ("AUPR-Success", 100, True),
    "aupr_error": ("AUPR-Error", 100, True),
    "fpr_at_tpr": ("FPR at 95 % TPR", 100, False),
    "risk_at_coverage_0.8": ("Risk at 80 % coverage", 100, False),
    "coverage_at_risk_0.05": ("Coverage at 5 % risk", 100, True),
    "ece": ("ECE", 100, False),
    "ece_floor": ("ECE by chance alone", 100, None),
    "excess_ece": ("Excess ECE", 100, False),
    "debiased_ece": ("Debiased ECE", 100, False),
    "ece_scaled": ("ECE after scaling", 100, False),
    "ece_optimal": ("Optimal ECE", 100, False),
    "ece_binned": ("ECE after binning", 100, False),
    "adaptive_ece": ("Adaptive ECE", 100, False),
    "adaptive_ece_floor": ("Adaptive ECE by chance alone", 100, None),
    "excess_adaptive_ece": ("Excess adaptive ECE", 100, False),
    "adaptive_ece_scaled": ("Adaptive ECE after scaling", 100, False),
    "classwise_ece": ("Classwise ECE", 100, False),
    "classwise_ece_floor": ("Classwise ECE by chance alone", 100, None),
    "excess_classwise_ece": ("Excess classwise ECE", 100, False),
    "classwise_ece_scaled": ("Classwise ECE after scaling", 100, False),
    "avg_gain_accuracy": ("Mean gain in accuracy", 100, True),
    "avg_gain_ece": ("Mean change of scaled ECE", 100, False),
    "aurc": ("AURC", 1000, False),
    "eaurc": ("E-AURC", 1000, False),
    "augrc": ("AUGRC", 1000, False),
    "nll": ("NLL", 1, False),
    "brier": ("Brier score", 1, False),
    "brier_calibration": ("Brier score: calibration", 1, False),
    "brier_refinement": ("Brier score: refinement", 1, False),
    "brier_uncertainty": ("Brier score: uncertainty", 1, None),
    "brier_resolution": ("Brier score: resolution", 1, True),
    "brier_within_bin": ("Brier score: within bins", 1, None),
    "temperature": ("Temperature", 1, None),
    "train_accuracy": ("Training accuracy", 100, True),
    "ece_correct": ("ECE of correct", 100, False),
    "mce": ("MCE", 100, False),
    "overconfidence_error": ("Over-confidence error", 100, False),
    "confidence": ("Mean confidence", 100, None),
    "confidence_gap": ("Confidence gap", 100, True),
    "histogram_overlap": ("Histogram overlap", 1, False),
    "nll_refinement": ("NLL after one temperature", 1, False),
    "nll_calibration": ("NLL that one temperature removes", 1, False),
    # What only claims ask for.
    "confidence_correct": ("Confidence of correct predictions", 100, None),
    "confidence_wrong": ("Confidence of wrong predictions", 100, None),
    "sure_when_wrong": ("Share of wrong predictions with confidence above 0.95", 100, False),
    "overconfidence_below_half": ("Confidence minus accuracy below 0.5", 100, None),
    "extra_ece_of_binning": ("Extra ECE of binning with few samples", 100, False),
    "ece_beyond_gap": ("ECE beyond |confidence − accuracy|", 100, None),
    "eq9_residual": ("Residual of equation 9", 100, None),
    "auroc_gain_of_temperature": ("AUROC gained at the temperature best for it", 100, None),
    "max_logit_range": ("Range of the largest logit", 1, None),
    "learned_late_means_unsure": ("Rank correlation of early learning and a large logit", 1, None),
    "gradient_spread": ("Spread of the gradient norm at like Brier scores", 100, None),
    "correlation_of_brier_beyond_dual_focal": (
        "Correlation with the true error, Brier weight minus dual focal weight", 1, None),
    "correlation_of_dual_focal_beyond_focal": (
        "Correlation with the true error, dual focal weight minus focal weight", 1, None),
}  # fmt: skip

UNITS = {100: "\u00a0%", 1000: "\u00a0‰", 1: ""}  # by the factor of a metric

# What each metric of `metrics.summary` is, for readers who meet it in a table.
MEANINGS = {
    "accuracy": "Share of the predictions that are right.",
    "confidence": "Probability of the predicted class, averaged: what the model claims.",
    "ece": "Distance between confidence and accuracy, averaged over bins of equal width.",
    "ece_floor": "The ECE that a model with these confidences and no calibration error would show.",
    "excess_ece": "The ECE minus what chance alone would show: the one to compare models by.",
    "adaptive_ece": "Like the ECE, with the same number of samples in every bin.",
    "adaptive_ece_floor": "The adaptive ECE without any calibration error.",
    "excess_adaptive_ece": "The adaptive ECE minus what chance alone would show.",
    "classwise_ece": "Calibration error of the probability of every class, averaged over classes.",
    "classwise_ece_floor": "The classwise ECE without any calibration error.",
    "excess_classwise_ece": "The classwise ECE minus what chance alone would show.",
    "debiased_ece": "Root mean square calibration error, without what chance adds to its square.",
    "mce": "The largest distance between confidence and accuracy in any bin; noisy in small bins.",
    "overconfidence_error": "How far bins claim too much, weighted by their size and confidence.",
    "ece_correct": "How far the right predictions fall short of a confidence of 1, on average.",
    "auroc": "Chance that a right prediction is more confident than a wrong one.",
    "aupr_success": "Area under the precision-recall curve of finding the right predictions.",
    "aupr_error": "Area under the precision-recall curve of finding the wrong predictions.",
    "aurc": "Error rate among the accepted, averaged over all shares that could be accepted.",
    "eaurc": "How much of the AURC a perfect order of the same predictions would save.",
    "augrc": "Share of all samples that are wrong and accepted, averaged over all thresholds.",
    "fpr_at_tpr": "Share of the errors let through when 95 % of the right predictions are.",
    "risk_at_coverage_0.8": "Error rate of the most confident 80 %.",
    "coverage_at_risk_0.05": "The largest share that can be accepted with 5 % errors or fewer.",
    "confidence_gap": "Mean confidence of the right predictions minus that of the wrong ones.",
    "histogram_overlap": "Area shared by the confidence histograms of right and wrong predictions.",
    "nll": "Negative logarithm of the probability given to the true class, averaged.",
    "nll_refinement": "NLL after one temperature: what recalibration leaves.",
    "nll_calibration": "NLL that one temperature removes.",
    "brier": "Squared distance of the probabilities from the truth, summed over classes.",
    "brier_calibration": "The part of the Brier score that recalibration can repair.",
    "brier_refinement": "The part of the Brier score that recalibration cannot repair.",
    "brier_uncertainty": "The Brier score of always predicting the frequencies of the classes.",
    "brier_resolution": "How much of the uncertainty is removed by knowing the bin.",
    "brier_within_bin": "What is hidden by putting different probabilities into one bin.",
}

DATASETS = {  # what pages call them; other names are shown as they are
    "gaussians": "five Gaussians",
    "mnist1d": "MNIST-1D",
    "digits": "8×8 digits",
    "fashion_mnist": "Fashion-MNIST",
    "cifar10": "CIFAR-10",
    "cifar100": "CIFAR-100",
    "svhn": "SVHN",
    "tiny_imagenet": "Tiny-ImageNet",
    "20newsgroups": "20 Newsgroups",
    "imagenet": "ImageNet",
    "cifar10c": "CIFAR-10-C",
    "cifar10.1": "CIFAR-10.1",
    "cifar10.2": "CIFAR-10.2",
    "imagenet_v2": "ImageNet-v2",
}


def choose(kind: str, name: str, valid) -> None:
    """Refuse an unknown name, in one line that lists the valid ones."""
    if name not in valid:
        close = get_close_matches(str(name), list(valid), n=1)
        hint = f" (did you mean {close[0]!r}?)" if close else ""
        raise ValueError(f"unknown {kind} {name!r}{hint}; valid: {', '.join(sorted(valid))}")


@contextmanager
def extras() -> Iterator[None]:
    """For imports that not every install has: the error names the extra that brings the module."""
    try:
        yield
    except ModuleNotFoundError as error:
        extra = "train" if error.name in ("torch", "torchvision", "mnist1d") else "report"
        hint = f"; pip install 'calibkit[{extra}]'"
        raise ModuleNotFoundError(f"{error}".removesuffix(hint) + hint, name=error.name) from None


def label(method: str) -> str:
    """What a method is called, with its options in brackets and its flat-minima axes.

    >>> label("bsce_gra+sam+swa"), label("erm+swa+sam")
    ('BSCE-GRA + SAM + SWA', 'FMFP')
    >>> label("focal(gamma=5)").replace("\u00a0", " ")  # non-breaking spaces
    'Focal (γ = 5)'
    """
    base, options, axes = parts(method)
    options = re.sub(r",(?=\w)", ", ", options)
    options = re.sub(r"\b(\w+)=(?=\S)", lambda m: f"{_GREEK.get(m[1], m[1])}\u00a0=\u00a0", options)
    base, own, _ = base.partition("@")  # from somebody's own file
    name = base.replace("_", " ")
    name = base if own else METHODS[base].label if base in METHODS else name
    words = [name + (f" {options}" if options else "")]
    return " + ".join(words + [_SUFFIXES.get(axis, axis) for axis in axes])


def parts(method: str) -> tuple[str, str, list[str]]:
    """A method's name, its options in brackets, and the axes that have no name of their own.

    >>> parts("focal(gamma=5)+sam"), parts("erm+sam+swa"), parts("ts")
    (('focal', '(gamma=5)', ['sam']), ('fmfp', '', []), ('erm', '', ['ts']))
    """
    if method == "ts":  # a name of its own in published tables
        method = "erm+ts"
    name, *axes = (part.strip() for part in str(method).split("+"))
    base, options = re.fullmatch(r"([^(]*)(\(.*\))?", name, flags=re.DOTALL).groups()
    flat = "+".join(axis for axis in ("sam", "swa") if axis in axes)
    if base == "erm" and flat and not options:  # these have names of their own
        base = {"sam": "sam", "swa": "swa", "sam+swa": "fmfp"}[flat]
        axes = [axis for axis in axes if axis not in ("sam", "swa")]
    return base, options or "", axes


def metric_label(metric: str, unit: bool = True) -> tuple[str, int, bool | None]:
    """Label, factor and direction of a metric; unknown names are allowed."""
    label, scale, higher = METRICS.get(metric, (metric.replace("_", " "), 1, None))
    if metric.startswith("risk_at_coverage_"):
        label = f"Risk at {100 * float(metric.rpartition('_')[2]):.0f} % coverage"
        scale, higher = 100, False
    return (
        label + (" × 1000" if scale == 1000 else " (%)" if scale == 100 and unit else ""),
        scale,
        higher,
    )


def header(metric: str) -> str:
    """Label of a metric with its unit, as at the head of a column.

    >>> header("aurc"), header("ece")
    ('AURC × 1000', 'ECE (%)')
    """
    return metric_label(metric)[0]
