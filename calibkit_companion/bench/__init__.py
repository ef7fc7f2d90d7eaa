"""The bench, which compares a user's method, recalibration, score or metric with the usual one.

`build` writes an HTML page. Its parts can be called in a notebook, too: `kind` says what a file
defines, `trained` trains a method and plain training, and `rows` compares the two by
`results.Results.compare`.

In a setting, all runs have the same data, network, protocol and seeds. A method is compared with
plain training, a recalibration with temperature scaling, and a score with the largest probability.
A metric is computed for each method and compared with its value for plain training.
"""

# ruff: noqa: F401 (names for those who use the package)
from calibkit_companion.bench.methods import SHOWN, cost, kind, rows, trained
from calibkit_companion.bench.page import QUESTIONS, answers, apply, build, judged, table, tried
