"""The file of a fitted map: JSON of known keys, and a seal over its bytes.

The last line is the seal: the SHA-256 of all bytes before it. It shows damage and edits made by
mistake, to a threshold for instance; it is no signature, since anyone can compute it.
"""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

VERSION = 2
MAP = ("calibkit_map", "map", "options", "classes", "fitted")  # every file has these
# What version 0.1 of calibkit added in `calibkit recalibrate`, and what has come since. A new key
# goes into the last line, and into the table of book/deploy.md.
FIRST = ("class_names", "scores", "floor", "fitted_on", "measured", "thresholds", "warnings")
FIRST += ("calibkit",)
SINCE = ("zeros", "chosen", "refused", "harm", "inputs", "sampling")
OWN = "about"  # whatever else the caller of `save` said
KNOWN = {*MAP, *FIRST, *SINCE, OWN}
_SEAL = b',\n "seal": "'
_END = b'"\n}\n'


class Edited(ValueError):
    """The file is not as it was saved."""


def content_of(kept: Mapping[str, Any], about: Mapping[str, Any]) -> bytes:
    """The bytes of a file: `kept`, which says what the map is, and what else it shall say.

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
        raise ValueError(f"about: got {', '.join(twice)}, which the file has already")
    known = {key: value for key, value in about.items() if key in KNOWN}
    own = {key: value for key, value in about.items() if key not in KNOWN}
    both = {**kept, **known} | ({OWN: own} if own else {})
    lines = [f" {json.dumps(k)}: {json.dumps(v, allow_nan=False)}" for k, v in both.items()]
    body = ("{\n" + ",\n".join(lines)).encode()
    return body + _SEAL + hashlib.sha256(body).hexdigest().encode() + _END


def read(content: bytes, edited: bool = False) -> dict[str, Any]:
    """What a file says, as it was given to `content_of`, in one mapping.

    Raises
    ------
    ValueError
        In one line: not JSON, no map, of a later version, edited, or of unknown or missing keys.
        With `edited`, an edit is no error.
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
            raise Edited("has lost its seal")
        if not edited and seal != hashlib.sha256(body).hexdigest().encode() + _END:
            raise Edited("was edited since it was saved: its seal does not fit")
        if unknown := sorted(found.keys() - KNOWN - {"seal"}):
            raise ValueError(f"got unknown keys {', '.join(unknown)[:80]}; update calibkit")
    found.pop("seal", None)
    if missing := [key for key in MAP if key not in found]:
        raise ValueError(f"no {', '.join(map(repr, missing))}")
    own = found.pop(OWN, {}) if version > 1 else {}
    if not isinstance(own, dict) or own.keys() & KNOWN:
        raise ValueError(f"{OWN}: expected an object of other keys")
    return found | own


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("got a key twice")
    return found


def _no_number(name: str) -> None:
    raise ValueError(f"got {name}, expected numbers")
