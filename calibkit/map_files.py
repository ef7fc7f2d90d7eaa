"""Write and read the file of a fitted map: JSON with known keys and a seal.

The last line is the seal, the SHA-256 of all bytes before it. It reveals damage, and edits by
mistake, for instance to a threshold. It is no signature, since anyone can compute it.
"""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

VERSION = 2
MAP = ("calibkit_map", "map", "options", "classes", "fitted")  # keys of every file
# FIRST: keys that `calibkit recalibrate` of version 0.1 added. SINCE: keys of later versions. A new
# key goes into SINCE, and into the table of book/deploy.md.
FIRST = ("class_names", "scores", "floor", "fitted_on", "measured", "thresholds", "warnings")
FIRST += ("calibkit",)
SINCE = ("zeros", "chosen", "refused", "harm", "inputs", "sampling")
OWN = "about"  # holds the keys that the caller of `save` made up
KNOWN = {*MAP, *FIRST, *SINCE, OWN}
_SEAL = b',\n "seal": "'
_END = b'"\n}\n'


class Edited(ValueError):
    """The file was changed after it was saved."""


def content_of(kept: Mapping[str, Any], about: Mapping[str, Any]) -> bytes:
    """Return the bytes of a map's file.

    Parameters
    ----------
    kept : mapping
        The keys `MAP`, which define the map.
    about : mapping
        What else the file says. Unknown keys go into an object "about".

    Returns
    -------
    bytes
        JSON, one key on each line, with the seal at the end.

    Raises
    ------
    ValueError
        `about` has a key of `MAP`, or a number is NaN or infinite.

    Examples
    --------

    >>> print(content_of({"calibkit_map": 2}, {"scores": "logits", "by": "me"}).decode())
    {
     "calibkit_map": 2,
     "scores": "logits",
     "about": {"by": "me"},
     "seal": "fb4d53f4d8a75de761c0a167a8a5286903ec7c7ccfee64d5f1fba23dd21ecf83"
    }
    <BLANKLINE>
    """
    if twice := sorted(({*MAP, OWN, "seal"}) & about.keys()):
        raise ValueError(f"about: got {', '.join(twice)}, expected other keys: the map uses these")
    known = {key: value for key, value in about.items() if key in KNOWN}
    own = {key: value for key, value in about.items() if key not in KNOWN}
    both = {**kept, **known} | ({OWN: own} if own else {})
    lines = [f" {json.dumps(k)}: {json.dumps(v, allow_nan=False)}" for k, v in both.items()]
    body = ("{\n" + ",\n".join(lines)).encode()
    return body + _SEAL + hashlib.sha256(body).hexdigest().encode() + _END


def read(content: bytes, edited: bool = False) -> dict[str, Any]:
    """Read the bytes of a map's file; the opposite of `content_of`.

    Parameters
    ----------
    content : bytes
        The whole file.
    edited : bool
        Whether to accept a file that was changed after it was saved.

    Returns
    -------
    dict
        `kept` and `about` of `content_of` in one mapping.

    Raises
    ------
    Edited
        The file was changed after it was saved, and `edited` is false.
    ValueError
        The file is no JSON or no map, comes from a later version, or has unknown or missing keys.
    """
    found = json.loads(content.decode(), object_pairs_hook=_once, parse_constant=_no_number)
    if not isinstance(found, dict) or "calibkit_map" not in found:
        raise ValueError("got no key 'calibkit_map', expected a map that calibkit saved")
    version = found["calibkit_map"]
    if type(version) is not int or version < 1:
        raise ValueError(f"calibkit_map: got {str(version)[:40]!r}, expected 1 or 2")
    if version > VERSION:
        raise ValueError(f"got a map of a later version, expected 1 or {VERSION}; update calibkit")
    if version == 1:
        newer = sorted({*SINCE, OWN, "seal"} & found.keys())
        if newer and not edited:
            raise Edited(f"has {', '.join(newer)}, which came after the version 1 that it names")
    else:
        body, mark, seal = content.rpartition(_SEAL)
        if not edited and not mark:
            raise Edited("was edited since it was saved: its last line, the seal, is missing")
        if not edited and seal != hashlib.sha256(body).hexdigest().encode() + _END:
            raise Edited("was edited since it was saved: its seal does not fit")
        if unknown := sorted(found.keys() - KNOWN - {"seal"}):
            raise ValueError(f"got unknown keys {', '.join(unknown)[:80]}; update calibkit")
    found.pop("seal", None)
    if missing := [key for key in MAP if key not in found]:
        raise ValueError(f"got no key {', '.join(map(repr, missing))}, expected a whole map")
    own = found.pop(OWN, {}) if version > 1 else {}
    if not isinstance(own, dict) or own.keys() & KNOWN:
        raise ValueError(f"{OWN}: expected an object without keys that the map itself uses")
    return found | own


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object of JSON as a dict; `ValueError` if a key occurs twice."""
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("got a key twice")
    return found


def _no_number(name: str) -> None:
    """Refuse NaN and Infinity, which are no JSON."""
    raise ValueError(f"got {name}, expected numbers")
