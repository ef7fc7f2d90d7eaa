"""The keys of the numbers of a run, and the names that files give them.

A number is a metric, after a recalibration, ranked by a score (`Key`). Tables of results have a
column for each of the three. Other files join them to one name. There are two spellings of a
recalibration in such names, and this module translates both:

- `deviations.Replicates` has names such as ``auroc_ts_nll_log_odds`` and ``ece_optimal``;
- histories, tables of shifted test sets and the papers' ledger have columns such as ``ece_scaled``,
  ``ece_optimal`` and ``ece_binned``.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import NamedTuple

from calibkit.terms import choose

BY_LOG_ODDS = "_log_odds"  # ending of names of metrics whose score is the log-odds


class Recalibration(StrEnum):
    """What is done to the logits of a run before a number is measured.

    Tables of results, commands and `results.Number` spell a recalibration by these values.
    """

    NONE = "none"  # as trained
    TS_NLL = "ts_nll"  # the temperature of lowest NLL on the validation data
    TS_ECE = "ts_ece"  # the temperature of lowest ECE on the validation data
    TS_TEST = "ts_test"  # the temperature of lowest ECE on the test data
    BINNED = "binned"  # histogram binning, fitted on the validation data

    @classmethod
    def _missing_(cls, value: object) -> None:
        """Raise an error that lists the valid names."""
        choose("recalibration", str(value), list(map(str, cls)))

    @property
    def scales(self) -> bool:
        """Whether the recalibration divides the logits by a temperature; predictions then stay."""
        return self in (Recalibration.TS_NLL, Recalibration.TS_ECE, Recalibration.TS_TEST)

    @property
    def objective(self) -> str:
        """The metric that the temperature minimises: "nll" or "ece"."""
        return "nll" if self is Recalibration.TS_NLL else "ece"


class Key(NamedTuple):
    """The key of a number among all numbers that a run has at its end or at an epoch.

    Attributes
    ----------
    metric : a name in `calibkit.terms.METRICS`
    recalibration : a `Recalibration`, or its value
    score : the score that ranks the samples: "max_probability", "log_odds" or "p_norm"
    validation : number of validation samples on which the recalibration is fitted; 0 means all
    """

    metric: str
    recalibration: str = Recalibration.NONE
    score: str = "max_probability"
    validation: int = 0


_IN_REPLICATES = {Recalibration.TS_TEST: "optimal"}  # the others are spelt by their values
_IN_COLUMNS = {
    Recalibration.TS_ECE: "_scaled",
    Recalibration.TS_TEST: "_optimal",
    Recalibration.BINNED: "_binned",
}
_BY_P_NORM = "_p_norm"


# --- names in `deviations.Replicates` -------------------------------------------------------------


def replicate_name(key: Key) -> str:
    """The name of a number in `deviations.Replicates`.

    >>> replicate_name(Key("ece", "ts_test")), replicate_name(Key("auroc", score="p_norm"))
    ('ece_optimal', 'auroc_p_norm')
    >>> replicate_name(Key("auroc", "ts_test", "log_odds"))
    'auroc_optimal_log_odds'
    """
    metric, recalibration, score, _ = key
    if score not in ("max_probability", "log_odds"):
        return f"{metric}_{score}"
    after = "" if recalibration == Recalibration.NONE else f"_{fit_name(recalibration)}"
    return metric + after + BY_LOG_ODDS * (score == "log_odds")


def read_replicate_name(name: str) -> Key:
    """Translate a name of `deviations.Replicates` into the key of the number.

    >>> read_replicate_name("ece_optimal")[:3]
    ('ece', <Recalibration.TS_TEST: 'ts_test'>, 'max_probability')
    >>> read_replicate_name("auroc_ts_nll_log_odds")[:3]
    ('auroc', <Recalibration.TS_NLL: 'ts_nll'>, 'log_odds')
    >>> read_replicate_name("auroc_p_norm")[:3]
    ('auroc', <Recalibration.NONE: 'none'>, 'p_norm')
    """
    if name.endswith(_BY_P_NORM):
        return Key(name.removesuffix(_BY_P_NORM), score="p_norm")
    return _read(name, {x: f"_{fit_name(x)}" for x in Recalibration if x != Recalibration.NONE})


def fit_name(recalibration: str) -> str:
    """The name of a recalibration in `deviations.Replicates`.

    >>> fit_name("ts_nll"), fit_name("ts_test")
    ('ts_nll', 'optimal')
    """
    return _IN_REPLICATES.get(recalibration, str(recalibration))


def read_fit_name(name: str) -> Recalibration:
    """Translate the name of a recalibration in `deviations.Replicates` into the recalibration.

    >>> read_fit_name("optimal")
    <Recalibration.TS_TEST: 'ts_test'>
    """
    return {fit_name(recalibration): recalibration for recalibration in Recalibration}[name]


# --- columns of histories, of shifted test sets and of the papers' ledger -------------------------


def column(key: Key) -> str:
    """The column of a number in a history or a table of shifted test sets; empty without a column.

    >>> column(Key("ece", "ts_ece")), column(Key("auroc", "ts_ece", "log_odds"))
    ('ece_scaled', 'auroc_scaled_log_odds')
    >>> column(Key("ece", "ts_nll")), column(Key("auroc", score="p_norm"))
    ('', '')
    """
    metric, recalibration, score, validation = key
    after = {Recalibration.NONE: "", **_IN_COLUMNS}.get(recalibration)
    if after is None or score not in ("max_probability", "log_odds") or validation:
        return ""
    return metric + after + BY_LOG_ODDS * (score == "log_odds")


def read_column(name: str) -> Key:
    """Translate a column of a history or of a table of shifted test sets into a key.

    >>> read_column("ece_optimal")[:2]
    ('ece', <Recalibration.TS_TEST: 'ts_test'>)
    >>> read_column("auroc_log_odds")[:3]
    ('auroc', <Recalibration.NONE: 'none'>, 'log_odds')
    """
    return _read(name, _IN_COLUMNS)


def test_sets(table: Mapping) -> list[str]:
    """The name of the test set in each row of a table of shifted test sets, as in `results.Number`.

    >>> test_sets({"shift": ["blur", "cifar10_1"], "severity": [3.0, 0.0]})
    ['blur-3', 'cifar10_1-0']
    """
    rows = zip(table.get("shift", ()), table.get("severity", ()), strict=True)
    return [f"{kind}-{severity:.0f}" for kind, severity in rows]


def _read(name: str, endings: Mapping[Recalibration, str]) -> Key:
    """The key of a name that ends in one of `endings`, in `BY_LOG_ODDS`, in both or in neither."""
    plain = name.removesuffix(BY_LOG_ODDS)
    score = "max_probability" if plain == name else "log_odds"
    for recalibration, ending in endings.items():
        if plain.endswith(ending):
            return Key(plain.removesuffix(ending), recalibration, score)
    return Key(plain, score=score)
