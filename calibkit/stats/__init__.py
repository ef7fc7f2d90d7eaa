"""How sure is a number? Intervals over test samples and over seeds, and differences of models.

Two sources of uncertainty are kept apart. *Samples*: another test set of the same size would have
given another value (`bootstrap`, `compare`, `wilson`). *Seeds*: another run would have given
another model (`seed_interval`). `mean_over_seeds` joins the two, from resamples of the test set
(`replicates`) that all runs share.

A bootstrap replicate here is a change of counts, not a new array: confidences are sorted once, and
each replicate says how often each of them was drawn. With 50,000 samples or more, random blocks of
samples are drawn in place of single ones (see `bootstrap`).

Calibration errors are compared by their excess over what chance alone would show (see
`calibkit.metrics.ece_floor`): the plain errors of two calibrated models differ if their accuracies
do. `compare` gives differences of plain errors without a verdict.
"""

from typing import TYPE_CHECKING

from calibkit._moved import names_moved
from calibkit.stats.comparison import UNJUDGED, bootstrap, compare, compare_all, replicates
from calibkit.stats.interval import Interval, Unjudged, wilson
from calibkit.stats.models import Answers, Metric, Ranked, Samples
from calibkit.stats.seeds import MeanOverSeeds, mean_over_seeds, seed_interval

__all__ = [
    "UNJUDGED",
    "Metric",
    "Interval",
    "Unjudged",
    "Answers",
    "Ranked",
    "Samples",
    "wilson",
    "bootstrap",
    "compare",
    "compare_all",
    "replicates",
    "MeanOverSeeds",
    "mean_over_seeds",
    "seed_interval",
]

if not TYPE_CHECKING:
    _MOVED = ("BY_LOG_ODDS", "COMPARED", "RANKING", "UNCHANGED", "Replicates", "replicates_of_run")
    __getattr__ = names_moved(__name__, _MOVED, "calibkit_companion.records.deviations")
