"""A method, a recalibration, a score or a metric of one's own beside what there is."""

from calibkit_companion.bench.page import (
    QUESTIONS,
    SHOWN,
    answers,
    apply,
    build,
    cost,
    judged,
    kind,
    rows,
    table,
    trained,
    tried,
)

__all__ = [
    "QUESTIONS",
    "SHOWN",
    "answers",
    "apply",
    "build",
    "cost",
    "judged",
    "kind",
    "rows",
    "table",
    "trained",
    "tried",
]
