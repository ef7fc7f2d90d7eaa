"""What identifies a number of a run, and how files spell it: every spelling is translated here.

A number is a metric, after a recalibration, ranked by a score (`Key`). Tables of results have a
column for each of these. Other files join them to one name, and spell a recalibration in two ways:

- `deviations.Replicates` has names such as ``auroc_ts_nll_log_odds`` and ``ece_optimal``;
- histories, tables of shifted test sets and the papers' ledger have columns such as ``ece_scaled``,
  ``ece_optimal`` and ``ece_binned``.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import NamedTuple

from calibkit.terms import choose

BY_LOG_ODDS = "_log_odds"  # ends the name of a metric that is ranked by them


class Recalibration(StrEnum):
    """What is done to the logits of a run before a number is measured.

    The values are the spelling of tables of results, of commands and of `results.Number`.
    """

    NONE = "none"  # as trained
    TS_NLL = "ts_nll"  # the temperature of lowest NLL on the validation data
    TS_ECE = "ts_ece"  # the temperature of lowest ECE on the validation data
    TS_TEST = "ts_test"  # the temperature of lowest ECE on the test data
    BINNED = "binned"  # histogram binning, fitted on the validation data

    @classmethod
    def _missing_(cls, value: object) -> None:
        """Refuse another name in one line with the valid ones."""
        choose("recalibration", str(value), list(map(str, cls)))

    @property
    def scales(self) -> bool:
        """Whether it divides the logits by a temperature, so that no prediction changes."""
        return self in (Recalibration.TS_NLL, Recalibration.TS_ECE, Recalibration.TS_TEST)

    @property
    def objective(self) -> str:
        """What its temperature minimises: "nll" or "ece"."""
        return "nll" if self is Recalibration.TS_NLL else "ece"


class Key(NamedTuple):
    """What identifies a number of a run, at its end or at an epoch.

    Attributes
    ----------
    metric : as `calibkit.terms.METRICS` has it
    recalibration : what is done to the logits before it is measured
    score : what ranks the samples: "max_probability", "log_odds", "p_norm"
    validation : on how many validation samples the recalibration is fitted; 0: all
    """

    metric: str
    recalibration: str = Recalibration.NONE
    score: str = "max_probability"
    validation: int = 0


_IN_REPLICATES = {Recalibration.TS_TEST: "optimal"}  # the others have their values there
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
    """The key of a number by its name in `deviations.Replicates`.

    >>> read_replicate_name("ece_optimal")[:3]
    ('ece', <Recalibration.TS_TEST: 'ts_test'>, 'max_probability')
    >>> read_replicate_name("auroc_ts_nll_log_odds")[:3]
    ('auroc', <Recalibration.TS_NLL: 'ts_nll'>, 'log_odds')
    >>> read_replicate_name("auroc_p_norm")[:3]
    ('auroc', <Recalibration.NONE: 'none'>, 'p_norm')
    """
    if name.endswith(_BY_P_NORM):
        return Key(name.removesuffix(_BY_P_NORM), score="p_norm")
    plain, score = _without_log_odds(name)
    for recalibration in list(Recalibration)[1:]:
        ending = f"_{fit_name(recalibration)}"
        if plain.endswith(ending):
            return Key(plain.removesuffix(ending), recalibration, score)
    return Key(plain, score=score)


def fit_name(recalibration: str) -> str:
    """What `deviations.Replicates` calls a recalibration, among its temperatures and in its names.

    >>> fit_name("ts_nll"), fit_name("ts_test")
    ('ts_nll', 'optimal')
    """
    return _IN_REPLICATES.get(recalibration, str(recalibration))


def read_fit_name(name: str) -> Recalibration:
    """The recalibration that `deviations.Replicates` calls so.

    >>> read_fit_name("optimal")
    <Recalibration.TS_TEST: 'ts_test'>
    """
    return {fit_name(recalibration): recalibration for recalibration in Recalibration}[name]


# --- columns of histories, of shifted test sets and of the papers' ledger -------------------------


def column(key: Key) -> str:
    """The column of a number; empty if no such file has one.

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
    """The key of a number by its column.

    >>> read_column("ece_optimal")[:2]
    ('ece', <Recalibration.TS_TEST: 'ts_test'>)
    >>> read_column("auroc_log_odds")[:3]
    ('auroc', <Recalibration.NONE: 'none'>, 'log_odds')
    """
    plain, score = _without_log_odds(name)
    for recalibration, ending in _IN_COLUMNS.items():
        if plain.endswith(ending):
            return Key(plain.removesuffix(ending), recalibration, score)
    return Key(plain, score=score)


def test_sets(table: Mapping) -> list[str]:
    """The test set of each row in a table of shifted test sets, as `results.Number` names it.

    >>> test_sets({"shift": ["blur", "cifar10_1"], "severity": [3.0, 0.0]})
    ['blur-3', 'cifar10_1-0']
    """
    rows = zip(table.get("shift", ()), table.get("severity", ()), strict=True)
    return [f"{kind}-{severity:.0f}" for kind, severity in rows]


def _without_log_odds(name: str) -> tuple[str, str]:
    """A name without the ending that says that the log-odds rank, and the score that ranks."""
    plain = name.removesuffix(BY_LOG_ODDS)
    return plain, "max_probability" if plain == name else "log_odds"
