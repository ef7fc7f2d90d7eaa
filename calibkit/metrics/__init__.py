"""Calibration and failure prediction: how good is a confidence, and good for what?

There are two kinds of function, which differ in what they take.

- *Calibration*, from ``probs`` (n, k) and ``labels`` (n,): is a prediction with confidence 0.8
  right in 80 of 100 cases? `ece` and its relatives, `nll`, `brier`. Those of the top label also
  take ``confidence`` (n,) and ``correct`` (n,): `ece` describes these arguments.
- *Failure prediction*, from ``confidence`` (n,) and ``correct`` (n,): do right predictions get a
  higher confidence than wrong ones? `auroc`, `aurc`, `fpr_at_tpr` and their relatives. The positive
  class is a right prediction in all of them: `auroc` describes these arguments.

This holds for all functions:

- Shares and errors are fractions: multiply them by 100 (AURC: by 1000) to compare with printed
  tables. `nll` is in nats.
- An argument that is empty, malformed, not finite, of another length than the others or outside
  the range that its description gives raises a `ValueError` of one line that names it. So does a
  label that is out of range, and a row of ``probs`` that does not sum to 1.
- A metric that the data leave undefined, such as the AUROC of a model that is never wrong, is
  ``nan`` with one `UndefinedMetricWarning`.
- No value depends on the order of the samples: those of equal confidence count as one group.
- A whole-number `sample_weight` has the same effect as repeating the row that often. Metrics that
  scikit-learn has, too, equal those of scikit-learn with the same weights.

Which to take: `ece`, `excess_ece`, `nll` and `brier` for calibration, `auroc`, `aurc` and
`fpr_at_tpr` for failure prediction, `risk_coverage` and `threshold_at_risk` to choose what to
accept. `summary` computes all metrics from logits, and is faster than calling several functions.
In single precision, a softmax rounds many confidences of a very confident network to 1, so that
they tie. `summary` sorts by log-odds instead, which still differ; `confidence.log_odds` returns
them.

The five papers: Zhu et al., ECCV 2022 (fmfp for short); Singh et al. 2021 (darkside); Wang et al.,
NeurIPS 2021 (overconf); Wang et al., CVPR 2023 (mixup); Lin et al., CVPR 2025 (bsce).
"""

from calibkit.metrics.bins import Bins, Scheme
from calibkit.metrics.calibration import (
    adaptive_ece,
    debiased_ece,
    ece,
    mce,
    overconfidence_error,
    reliability_bins,
)
from calibkit.metrics.chance import Binned, ece_floor, excess_ece, mean_deviation
from calibkit.metrics.classes import brier, brier_decomposition, classwise_ece, nll
from calibkit.metrics.failure import (
    augrc,
    aupr_error,
    aupr_success,
    aurc,
    auroc,
    coverage_at_risk,
    eaurc,
    fpr_at_tpr,
    risk_at_coverage,
    risk_coverage,
    threshold_at_risk,
)
from calibkit.metrics.overview import RANKING, per_sample, ranked_metrics, ranks, summary
from calibkit.metrics.ranking import Ranking, UndefinedMetricWarning
from calibkit.metrics.separation import (
    confidence_gap,
    ece_correct,
    histogram_overlap,
    refinement_decomposition,
)
from calibkit.metrics.smooth import smooth_ece
from calibkit.metrics.top import top_label

__all__ = [
    "Scheme",
    "Binned",
    "UndefinedMetricWarning",
    "Ranking",
    "Bins",
    "top_label",
    "ece",
    "adaptive_ece",
    "mce",
    "ece_floor",
    "mean_deviation",
    "excess_ece",
    "debiased_ece",
    "overconfidence_error",
    "smooth_ece",
    "reliability_bins",
    "nll",
    "brier",
    "classwise_ece",
    "brier_decomposition",
    "auroc",
    "aupr_success",
    "aupr_error",
    "risk_coverage",
    "aurc",
    "eaurc",
    "augrc",
    "fpr_at_tpr",
    "risk_at_coverage",
    "coverage_at_risk",
    "threshold_at_risk",
    "refinement_decomposition",
    "confidence_gap",
    "histogram_overlap",
    "ece_correct",
    "per_sample",
    "summary",
    "RANKING",
    "ranks",
    "ranked_metrics",
]
