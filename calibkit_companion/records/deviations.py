"""How far metrics of a run lie from their estimates on resamples of its test set."""

import warnings
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from calibkit import metrics
from calibkit.arrays import (
    Array,
    ArrayLike,
    Kind,
    as_labels,
    as_logits,
    log_odds,
    to_numpy,
)
from calibkit.precision import log_of_map
from calibkit.stats.models import Answers, Model, Ranked
from calibkit.stats.resamples import evaluated, evaluator
from calibkit_companion.records.keys import BY_LOG_ODDS

# What every run keeps replicates of, as trained and behind recalibration; and as trained alone.
COMPARED = (
    "accuracy", "ece", "adaptive_ece", "classwise_ece",
    "ece_floor", "excess_ece", "excess_adaptive_ece", "excess_classwise_ece",
    "nll", "brier", "auroc", "aupr_error", "aupr_success", "aurc", "eaurc", "fpr_at_tpr",
    *(f"risk_at_coverage_{share}" for share in (0.5, 0.6, 0.7, 0.8, 0.9, 0.95)),
)  # fmt: skip
RANKING = ("auroc", "aupr_error", "aupr_success", "aurc", "eaurc", "fpr_at_tpr")  # by the p-norm
UNCHANGED = ("confidence", "confidence_gap", "histogram_overlap", "ece_correct")


@dataclass(frozen=True, eq=False)
class Replicates:
    """Metrics of one run on resamples of its test set: how far each lies from its estimate.

    What is drawn depends only on the size of the test set, so the i-th replicate of every run on
    that set has the same samples, and differences of deviations come from paired resamples. Made by
    `replicates_of_run`, kept in a file of some 30 KB, used by `mean_over_seeds`.

    Attributes
    ----------
    names : tuple of str
        Metrics (`COMPARED` and a few more) as trained, ``auroc``; `COMPARED` after each
        recalibration, ``auroc_ts_nll``; `RANKING` by the p-norm of the logits, ``auroc_p_norm``;
        and what ranks by the log-odds, ``auroc_log_odds`` and ``auroc_ts_nll_log_odds``: without
        that ending it ranks by the confidence, as in version 0.1. Older files have no p-norm and no
        log-odds.
    estimates : array (names,)
        Values on the whole test set.
    deviations : array (names, n)
        Replicate minus estimate; ``nan`` where a replicate leaves the metric undefined.
    temperatures : dict of str to float
        Of ``ts_nll``, ``ts_ece`` and ``optimal``.
    p : float, optional
        Of `confidence.p_norm`, with the highest AUROC on the validation data.
    """

    names: tuple[str, ...]
    estimates: Array
    deviations: Array
    temperatures: dict[str, float]
    p: float | None = None

    @cached_property
    def _place(self) -> dict[str, int]:
        return {name: i for i, name in enumerate(self.names)}

    def __contains__(self, name: str) -> bool:
        return name in self._place

    def estimate(self, name: str) -> float:
        """A metric on the whole test set.

        Parameters
        ----------
        name : str
            One of `names`.

        Returns
        -------
        float
            In the units of the metric.

        Raises
        ------
        KeyError
            If the metric is not among `names`.
        """
        return float(self.estimates[self._place[name]])

    def deviation(self, name: str) -> Array:
        """What each resample adds to a metric.

        Parameters
        ----------
        name : str
            One of `names`.

        Returns
        -------
        array of float64, shape (n,)
            Replicate minus estimate, in the units of the metric.

        Raises
        ------
        KeyError
            If the metric is not among `names`.
        """
        return self.deviations[self._place[name]].astype(np.float64)

    def save(self, path: str | Path) -> None:
        """Write an ``.npz`` without pickles, some 30 KB.

        Deviations are rounded to 255 steps up to the largest, which changes their standard
        deviation by less than 0.1 %; with 200 replicates it is uncertain by 5 % anyway.

        Parameters
        ----------
        path : path
            File to write, ending in ``.npz``.
        """
        steps, step = self.quantised()
        np.savez_compressed(
            path,
            names=np.array(self.names),
            estimates=self.estimates,
            steps=steps,
            step=step,
            recalibrations=np.array(list(self.temperatures), dtype=np.str_),
            temperatures=np.array(list(self.temperatures.values()), dtype=np.float64),
            p=np.array([] if self.p is None else [self.p], dtype=np.float64),
        )

    def quantised(self) -> tuple[Array, Array]:
        """Deviations in whole steps, as files keep them.

        Returns
        -------
        steps : array (names, n) of int8
            From -127 to 127; -128 where a replicate leaves the metric undefined.
        step : array (names, 1) of float32
            Size of a step, in the units of the metric.

        Examples
        --------
        >>> kept = Replicates(("ece",), np.array([0.1]), np.array([[-0.02, 0.01]]), {})
        >>> kept.quantised()[0].tolist()
        [[-127, 64]]
        """
        most = np.nanmax(np.abs(self.deviations), axis=1, initial=0, keepdims=True)
        step = np.where(most > 0, most / 127, 1)
        steps = np.where(np.isnan(self.deviations), -128, np.rint(self.deviations / step))
        return steps.astype(np.int8), step.astype(np.float32)

    @classmethod
    def load(cls, path: str | Path) -> "Replicates":
        """Read what `save` wrote.

        Parameters
        ----------
        path : path
            The file.

        Returns
        -------
        Replicates
            With deviations in float32.
        """
        with np.load(path, allow_pickle=False) as file:
            of = zip(file["recalibrations"].tolist(), file["temperatures"].tolist(), strict=True)
            steps = file["steps"]
            deviations = np.where(steps == -128, np.nan, steps * file["step"]).astype(np.float32)
            p = next(iter(file["p"].tolist()), None) if "p" in file else None
            return cls(tuple(file["names"].tolist()), file["estimates"], deviations, dict(of), p)


def replicates_of_run(
    logits: ArrayLike,
    labels: ArrayLike,
    val_logits: "ArrayLike | None" = None,
    val_labels: "ArrayLike | None" = None,
    n: int = 200,
    seed: int = 0,
    kind: Kind = "logits",
) -> Replicates:
    """Metrics of a run on resamples of its test set, as trained and after recalibration.

    By the p-norm of the logits, too, with the p of the highest AUROC on the validation data.
    Recalibrations are ``ts_nll`` and ``ts_ece`` (temperature scaling by the NLL and by the ECE of
    the validation data), ``binned`` (histogram binning fitted there) and ``optimal`` (the
    temperature of lowest ECE on the test set itself). None is refitted in a replicate, so
    replicates show the uncertainty of the test set, given the run, its validation data and the fit.

    Parameters
    ----------
    logits : array or tensor, shape (m, k)
        Scores before the softmax of the test set.
    labels : array or tensor of integers, shape (m,)
        Its true classes, 0 to k - 1.
    val_logits : array or tensor, shape (v, k), optional
        Scores before the softmax of the validation set; without it there is only ``optimal``.
    val_labels : array or tensor of integers, shape (v,), optional
        Its true classes.
    n : int
        Replicates, at least 2. Each draws m samples with replacement.
    seed : int
        Same seed, same resamples; runs can be compared if they share `n` and `seed`.
    kind : {"logits", "probs"}
        "probs" if the logits are probabilities, which are refused otherwise.

    Returns
    -------
    Replicates
        Of all metrics, as trained and after each recalibration.

    Raises
    ------
    ValueError
        If an argument is empty, malformed or not finite, a label is out of range, or there are
        fewer than two replicates.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> labels = rng.integers(0, 3, 100)
    >>> logits = rng.normal(size=(100, 3)) + 2 * np.eye(3)[labels]
    >>> found = replicates_of_run(logits, labels, n=20)
    >>> found.deviation("auroc").shape, found.estimate("accuracy") == found.estimate(
    ...     "accuracy_optimal"
    ... )
    ((20,), True)
    """
    from calibkit import confidence, posthoc  # here: nothing else needs them

    given, logits = logits, as_logits(logits, kind=kind)
    labels = as_labels(labels, logits.shape[1], len(logits))
    temperatures, parts, p = {}, {"": (logits, (*COMPARED, *UNCHANGED))}, None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", posthoc.PosthocWarning)
        if val_logits is not None:
            held_out = as_logits(val_logits, "val_logits", kind), val_labels
            right = held_out[0].argmax(axis=1) == to_numpy(val_labels, "val_labels")
            if logits.shape[1] > 2 and right.any() and not right.all():  # two classes: all the same
                p = confidence.choose_p(*held_out)
            for objective in ("nll", "ece"):
                best = posthoc.optimal_temperature(*held_out, objective)
                temperatures[f"ts_{objective}"] = best[0]
            binned = posthoc.HistogramBinning().fit(*held_out).predict_proba(logits)
            parts["_binned"] = log_of_map(binned), COMPARED
        temperatures["optimal"] = posthoc.optimal_temperature(logits, labels, "ece")[0]
    parts |= {f"_{name}": (logits / value, COMPARED) for name, value in temperatures.items()}
    for part in [part for part in parts if part != "_binned"]:  # that makes equal confidences
        its = metrics.per_sample(parts[part][0], labels)
        odds = Ranked(its["confidence"], its["correct"], log_odds(parts[part][0]))
        parts[part + BY_LOG_ODDS] = odds, tuple(filter(metrics.ranks, COMPARED))
    if p is not None:
        scores = Answers(confidence.p_norm(logits, p), logits.argmax(axis=1) == labels)
        parts["_p_norm"] = scores, RANKING
    evaluators = [
        evaluator(
            Model(scores if part else given, labels, asked, "logits" if part else kind, True),
            asked,
        )
        for part, (scores, asked) in parts.items()
    ]
    names = [metric + part for part, (_, asked) in parts.items() for metric in asked]
    estimates = np.concatenate([evaluate(None) for evaluate in evaluators])
    values = evaluated(evaluators, len(labels), n, seed)
    deviations = (np.concatenate(values, axis=1) - estimates).T.astype(np.float32)
    return Replicates(tuple(names), estimates, deviations, temperatures, p)
