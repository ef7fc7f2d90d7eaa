"""Read the numbers of all runs, and compare methods.

A **number** of a run is a metric, after a recalibration, ranked by a confidence score, on a test
set, at an epoch (`Number`). Numbers are in natural units: shares are numbers from 0 to 1 and not
per cent, and the NLL is in nats. In the table of all numbers, `Results.frame`, method, data set,
network and seed are columns::

    runs = results.load("fmfp")                       # a setting of the released edition
    runs.frame                                        # tidy: a row for each run and number
    runs.compare(["mixup", "sam"], to="erm", metric="auroc")

`Results.compare` compares some methods with another method, paired by seed and by resample of the
test set. It returns a `Row` for each method: the difference, its interval, the number of seeds and
the outcome, one of four words. All pages, the board of claims, the bench and the commands compare
methods by this function.

**The interval** covers two sources of uncertainty, the runs and the test set
(`calibkit.stats.mean_over_seeds`), if the records keep replicates of the number. Otherwise it
covers the runs alone, and `Row.covers` says so. A single run has no interval.

**The outcome** (`stats.Interval.outcome`) is *higher* or *lower* if the interval excludes 0 and
reaches beyond the margin. It is *no difference* if the whole interval lies within the margin, else
*unclear*. The margin of a metric is the median of the ± that the papers print for it (`MARGINS`).

The metric ``ece`` is the calibration error that the papers print. ``excess_ece`` is the ECE minus
the ECE that a calibrated model shows by chance.
"""

# ruff: noqa: F401 (names for those who use the package)
from calibkit_companion.results.change import epochs
from calibkit_companion.results.collection import collect, home
from calibkit_companion.results.measure import Networks, Series, measured
from calibkit_companion.results.number import MARGINS, Number, margin
from calibkit_companion.results.predictions import Predictions
from calibkit_companion.results.rows import Operand, Row, Rows, row
from calibkit_companion.results.runs import Results, late, load
