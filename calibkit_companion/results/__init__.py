"""Every measured number, and the one function that compares methods."""

from calibkit_companion.results.derived import Number, Predictions
from calibkit_companion.results.runs import (
    MARGINS,
    Networks,
    Results,
    Row,
    Rows,
    Series,
    check_parameters,
    collect,
    home,
    late,
    load,
    margin,
    measured,
    row,
)

__all__ = [
    "MARGINS",
    "Networks",
    "Number",
    "Predictions",
    "Results",
    "Row",
    "Rows",
    "Series",
    "check_parameters",
    "collect",
    "home",
    "late",
    "load",
    "margin",
    "measured",
    "row",
]
