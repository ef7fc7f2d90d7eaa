"""Read fitted maps from files."""

import os
from pathlib import Path
from typing import Any

import numpy as np

from calibkit import files, map_files
from calibkit.posthoc.affine import MatrixScaling, StructuredScaling, VectorScaling
from calibkit.posthoc.beta import BetaCalibration, TopVersusAll
from calibkit.posthoc.histogram import HistogramBinning
from calibkit.posthoc.isotonic import IsotonicCalibration
from calibkit.posthoc.recalibration import Recalibration, warn
from calibkit.posthoc.temperature import FixedTemperature, TemperatureScaling
from calibkit.precision import Floor, as_floor

# By their names in files and on the command line.
MAPS: dict[str, type[Recalibration]] = {
    kind._map: kind
    for kind in (
        TemperatureScaling,
        FixedTemperature,
        StructuredScaling,
        VectorScaling,
        MatrixScaling,
        BetaCalibration,
        TopVersusAll,
        IsotonicCalibration,
        HistogramBinning,
    )
}
MOST = 10_000_000  # classes of a map in a file
_TOO_LARGE = (OverflowError, RecursionError)


def load(path: str | os.PathLike[str], edited: bool = False) -> Recalibration:
    """Read a map that `Recalibration.save` or ``calibkit recalibrate`` wrote.

    Parameters
    ----------
    path : path
        A JSON file; nothing in it is executed.
    edited : bool
        Accept a file that was edited after it was saved. ``model.save(path, **model.about_)`` then
        writes it with a new seal.

    Returns
    -------
    Recalibration
        The fitted map. Its `about_` holds the rest of the file: thresholds, and where the map comes
        from. Its `class_names_`, if the file has them, give the order of the columns of an array.

    Raises
    ------
    ValueError
        The file is no JSON or no map, comes from a later version, or was edited or damaged. The
        message has one line that names the file.
    OSError
        If the file cannot be read.

    Warns
    -----
    PosthocWarning
        If version 0.1 saved the map, which has no seal: an edit would not be noticed.

    Examples
    --------
    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp(), "map.json")
    >>> FixedTemperature(2.0).save(file, class_names=["cat", "dog"])
    >>> kept = load(file)
    >>> kept, kept.about_
    (FixedTemperature(temperature=2.0), {'class_names': ['cat', 'dog']})
    """
    shown = files.shown(path)
    try:
        kept = map_files.read(Path(path).read_bytes(), edited)
        old = kept.pop("calibkit_map") == 1
        kind = MAPS.get(kept.pop("map"))
        if kind is None:
            raise ValueError(f"map: got another name, expected one of {', '.join(MAPS)}")
        options, k, fitted = (kept.pop(name) for name in ("options", "classes", "fitted"))
        model = kind(**options)
        if not (type(k) is int and 2 <= k <= MOST) and (k, kind) != (None, FixedTemperature):
            raise ValueError(f"classes: got {repr(k)[:40]}, expected a whole number from 2 on")
        for name in kind._kept:
            value = fitted.get(name, kind._later[name]) if name in kind._later else fitted[name]
            without = value is None and kind._later.get(name, 0) is None
            vars(model)[f"{name}_"] = None if without else model._restore(name, value, k)
        if not old and (other := {*fitted} ^ {*kind._kept} or {*options} ^ {*model.get_params()}):
            raise ValueError(
                f"{min(other)}: expected the keys that calibkit saves, no more or less"
            )
        model.floor_, model.zeros_ = _floor_of(kept.get("floor")), str(kept.get("zeros") or "")
    except map_files.Edited as error:
        way = f"posthoc.load({shown!r}, edited=True) accepts the edit"
        raise ValueError(f"{shown}: {error}; {way}") from error
    except (ValueError, KeyError, TypeError, AttributeError, *_TOO_LARGE) as error:
        reason = f"no {error}" if isinstance(error, KeyError) else str(error)
        raise ValueError(f"{shown}: {' '.join(reason.split())[:200]}") from error
    if old:
        note = "a map of version 0.1, without a seal: an edit would not be noticed; save it again"
        warn(f"{shown}: {note}", 3)
    if k is not None:
        model.classes_ = np.arange(k)
    model.about_ = kept
    names = kept.get("class_names")
    if isinstance(names, list) and len(names) == (k or len(names)):
        model.class_names_ = tuple(map(str, names))
    return model


def _floor_of(kept: Any) -> Floor | None:
    """Read what a probability of 0 counts as from a file; any error means that it is damaged."""
    floor = as_floor(kept)
    if floor is None:
        return None
    if np.shape(floor.each) not in ((), (2,)) or not 0 < np.min(floor.each) <= floor.row < 1:
        raise ValueError(f"floor: got {kept!r}, expected positive numbers")
    return floor
