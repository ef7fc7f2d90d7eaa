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
        The error rate that the threshold should keep, a fraction of 1.
    threshold : float or None
        The lowest confidence that is accepted; None if no threshold reaches the target.
    coverage, risk : Interval
        Share of samples that are accepted, and share of errors among these (fractions of 1).
        Without a validation set, the risk is cross-fitted.
    accepted, wrong : int
        Number of accepted samples, and of errors among these, in the whole test set.
    kept : bool or None
        Whether the risk is at most the target; None if its interval contains the target.
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
    """Choose a threshold on the confidence for each error rate, and measure what it achieves.

    A threshold is chosen on the validation set, and its coverage and error rate are measured on the
    test set. Without a validation set, the threshold is chosen on all samples, and the error rate
    is cross-fitted: see `thresholds.Judge`.

    Parameters
    ----------
    data : Predictions
    target_risk : sequence of float
        Error rates, fractions of 1; by default those of `thresholds.targets`.

    Returns
    -------
    list of OperatingPoint
        One for each error rate, ascending.

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
    """The operating points for scores: thresholds are chosen on `held` (validation) or `test`."""
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
    """The operating point that a report recommends: the one that comes closest to half the errors.

    `error` is the error rate without a threshold. The point must have clearly fewer errors.
    """
    usable = [point for point in points if point.reached and point.risk.high < error]
    halving = [point for point in usable if point.target <= error / 2]
    return halving[-1] if halving else usable[0] if usable else None
