"""Every measured number in one table, and the one function that compares methods.

A **number** is what a run measured: a metric, behind a recalibration, by a confidence score, on a
test set, at an epoch (`Number`). Runs, and all that identifies them, are columns::

    runs = results.load("fmfp")                       # a setting of the released edition
    runs.frame                                        # tidy: a row for each run and number
    runs.compare(["mixup", "sam"], to="erm", metric="auroc")

`Results.compare` pairs two methods seed by seed and resample by resample and gives a `Row` for
each: estimate, interval, seeds and one of four words. Chapters, the board of claims, the bench and
the command line call it and nothing else.

**The interval** covers two sources of uncertainty, the runs and the test set
(`calibkit.stats.mean_over_seeds`), where a record keeps replicates of the number; a row says in
`covers` when it is over seeds alone. A single run has no interval.

**The words** (`stats.Interval.outcome`): *higher* or *lower* if the interval excludes 0 and reaches
beyond the margin, *no difference* if all of it lies within the margin, else *unclear*. The margin
of a metric is the ± that the papers print for it, the median over their tables (`MARGINS`).

A calibration error is compared as its column says: ``ece`` is the error that the papers print,
``excess_ece`` what is left of it after the part that chance alone shows.
"""

# ruff: noqa: F401 (names for those who use the package)
from calibkit_companion.results.change import epochs
from calibkit_companion.results.collection import collect, home
from calibkit_companion.results.measure import Networks, Series, measured
from calibkit_companion.results.number import MARGINS, Number, margin
from calibkit_companion.results.predictions import Predictions
from calibkit_companion.results.rows import Operand, Row, Rows, row
from calibkit_companion.results.runs import Results, late, load
