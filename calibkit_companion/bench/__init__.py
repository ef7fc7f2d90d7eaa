"""Something of one's own beside what there is: a method, a recalibration, a score, a metric.

`build` writes the page. Its parts serve in a notebook as well: `kind` says what a file holds,
`trained` trains a method and plain training where they have no record, and `rows` compares, by
`results.Results.compare` and nothing else. Within a setting all have the same data, network,
protocol and seeds; methods are compared with plain training (ERM), a recalibration with one
temperature, a score with the maximum probability.
"""

# ruff: noqa: F401 (names for those who use the package)
from calibkit_companion.bench.methods import SHOWN, cost, kind, rows, trained
from calibkit_companion.bench.page import QUESTIONS, answers, apply, build, judged, table, tried
