"""Turn `deviations.Replicates` into rows of the tables of results."""

import numpy as np

from calibkit_companion.records.keys import Key, read_fit_name, read_replicate_name


def rows_of(replicates, steps: np.ndarray, step: np.ndarray) -> list[dict]:
    """Make a row of the tables of results for each number of some replicates.

    Parameters
    ----------
    replicates : `deviations.Replicates` of a run
    steps : int8 array (names, n), deviations as multiples of a step
    step : float array (names, 1), size of a step

    Returns
    -------
    list of dict
        The fields of `Key`, ``value`` and, for a number with replicates, ``step`` and ``steps``.
    """
    rows = []
    for i, name in enumerate(replicates.names):
        value = {"value": float(replicates.estimates[i])}
        drawn = {"step": float(step[i, 0]), "steps": steps[i].tobytes()}
        rows.append(read_replicate_name(name)._asdict() | value | drawn)
    fitted = [
        (Key("temperature", read_fit_name(name)), temperature)
        for name, temperature in replicates.temperatures.items()
    ]
    if replicates.p is not None:
        fitted.append((Key("p", score="p_norm"), replicates.p))
    return rows + [key._asdict() | {"value": float(value)} for key, value in fitted]
