"""Operating points: thresholds on the confidence for given error rates, and what they achieve."""

from collections.abc import Sequence
from dataclasses import dataclass

from calibkit.report import estimates, thresholds
from calibkit.report.design import Design
from calibkit.report.facts import Facts
from calibkit.report.predictions import Predictions
from calibkit.report.scores import Samples
from calibkit.stats import Interval


@dataclass(frozen=True)
class OperatingPoint(Facts):
    """A threshold on the confidence for an error rate, and what it achieves.

    Attributes
    ----------
    target : float
        The error rate asked for, a fraction of 1.
    threshold : float or None
        None if no threshold reaches the target.
    coverage, risk : Interval
        Share of samples accepted, and errors among these. Without a validation set the risk is
        cross-fitted.
    accepted, wrong : int
        Counts among all samples, at that threshold.
    kept : bool or None
        True or False if the interval of the risk is on one side of the target, else None.
    """

    target: float
    threshold: float | None
    coverage: Interval
    risk: Interval
    accepted: int
    wrong: int
    kept: bool | None

    @property
    def reached(self) -> bool:
        """Whether some threshold reaches the target."""
        return self.threshold is not None


def operating_points(data: Predictions, target_risk: Sequence[float] = ()) -> list[OperatingPoint]:
    """Thresholds on the confidence for given error rates, and what they achieve.

    A threshold comes from `metrics.threshold_at_risk` on the validation set; its coverage and error
    rate are measured on the test set. Without a validation set the threshold is chosen on all
    samples, and the error rate is cross-fitted: see `thresholds.Judge`.

    Parameters
    ----------
    data : Predictions
    target_risk : sequence of float
        By default `thresholds.targets`.

    Returns
    -------
    list of OperatingPoint
        By target.

    Examples
    --------
    >>> from calibkit.report.predictions import from_arrays
    >>> scores = {"probs": [[0.9, 0.1], [0.4, 0.6], [0.7, 0.3]] * 20, "labels": [0, 1, 1] * 20}
    >>> point, _ = operating_points(from_arrays(scores), [0.1, 0.5])
    >>> point.threshold, point.accepted, point.wrong
    (0.89, 20, 0)
    """
    held = None if data.validation is None else data.validation.judged()
    return points_of(data.test.judged(), held, target_risk, data.test.design)


def points_of(
    test: Samples, held: Samples | None, target_risk: Sequence[float], design: Design
) -> list[OperatingPoint]:
    """The same of scores: chosen on `held`, if there are such, and measured on `test`."""
    points, judge = [], thresholds.Judge(test, held, clusters=design.clusters)
    wrong = ~test.y
    for target in sorted(target_risk or thresholds.targets(held or test)):
        threshold, accept, fitted = judge("target_risk", target)
        risk = design.share(wrong, fitted)
        points.append(
            OperatingPoint(
                target=float(target),
                threshold=threshold,
                coverage=design.share(accept),
                risk=risk,
                accepted=int(accept.sum()),
                wrong=int((accept & wrong).sum()),
                kept=estimates.kept(risk, at_most=target),
            )
        )
    return points


def main_point(points: Sequence[OperatingPoint], error: float) -> OperatingPoint | None:
    """The threshold for the headline: the one that halves the errors, or comes closest.

    It must give clearly fewer errors than answering everything.
    """
    usable = [point for point in points if point.reached and point.risk.high < error]
    halving = [point for point in usable if point.target <= error / 2]
    return halving[-1] if halving else usable[0] if usable else None
