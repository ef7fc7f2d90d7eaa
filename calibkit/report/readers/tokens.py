"""Turn scores of tokens and of pixels into samples: each token or pixel becomes one sample."""

import math
from collections.abc import Mapping

import numpy as np

from calibkit.arrays import Array, ArrayLike, to_numpy

SCORES = ("logits", "probs", "val_logits", "val_probs")


def flattened(arrays: Mapping[str, ArrayLike], notes: list[str]) -> dict[str, ArrayLike]:
    """Reshape scores and labels so that each token or pixel is a row.

    Labels, weights, groups, names and clusters are repeated or reshaped to match. Without clusters
    in the file, the texts or images become the clusters.

    Parameters
    ----------
    arrays : mapping of str to array
        Scores are (texts, tokens, k) for texts; (images, k, height, width), as torch has them, or
        (images, height, width, k) for images.
    notes : list of str
        Sentences for the user are added here.

    Returns
    -------
    dict of str to array
        The same names; scores are (texts × tokens, k).

    Raises
    ------
    ValueError
        There is not one label for each token or pixel.
    """
    flat = dict(arrays)
    for prefix in ("", "val_"):
        for kind in ("logits", "probs"):
            scores = to_numpy(flat.get(prefix + kind, 0.0), prefix + kind)
            if scores.ndim < 3:
                continue
            labels = to_numpy(flat.get(f"{prefix}labels", ()), f"{prefix}labels")
            if labels.shape == scores.shape[:-1]:
                places = labels.shape
            elif labels.shape == (places := (len(scores), *scores.shape[2:])):
                scores = np.moveaxis(scores, 1, -1)
            else:
                raise ValueError(
                    f"{prefix}labels: got shape {labels.shape}, expected {scores.shape[:-1]}, one "
                    f"for each {'token' if scores.ndim == 3 else 'pixel'}"
                )
            flat[prefix + kind] = scores.reshape(-1, scores.shape[-1])
            flat[f"{prefix}labels"] = labels.reshape(-1)
            for name in (f"{prefix}weights", f"{prefix}clusters", "" if prefix else "groups"):
                if name in flat and len(to_numpy(flat[name])) == places[0]:
                    each = math.prod(places[1:])
                    flat[name] = np.repeat(to_numpy(flat[name]), each, axis=0)
            if not prefix and len(to_numpy(flat.get("ids", ()))) == places[0]:
                flat["ids"] = _each(np.asarray(flat["ids"]), math.prod(places[1:]))
            clustered = "cluster_name" in arrays
            if places[0] > 1 and not clustered:
                own = np.repeat(np.arange(places[0]), math.prod(places[1:]))
                flat[f"{prefix}clusters"] = np.char.add(prefix, own.astype(str))
                flat["cluster_name"] = "text" if len(places) == 2 else "image"
            notes.append(_said(places, "validation " * bool(prefix), clustered))
    return flat


def has_tokens(arrays: Mapping[str, ArrayLike]) -> bool:
    """Whether some scores have more than two axes, as those of tokens and pixels have."""
    scores = (arrays[name] for name in SCORES if name in arrays)
    return any(np.ndim(to_numpy(each)) > 2 for each in scores)


def _each(ids: Array, many: int) -> Array:
    """The names of `many` tokens for each text in `ids`: "text:0", "text:1" and so on."""
    places = np.tile([f":{i}" for i in range(many)], len(ids)).astype(object)
    return np.repeat(ids, many, axis=0) + places[:, None]


def _said(places: tuple[int, ...], which: str, clustered: bool) -> str:
    whole, part = ("texts", "token") if len(places) == 2 else ("images", "pixel")
    size = " × ".join(f"{x:,}" for x in places[1:])
    said = f"{places[0]:,} {which}{whole} of {size} {part}s: each {part} is a sample."
    if clustered:
        return said
    said += f" {part.capitalize()}s of one {whole[:-1]} depend on each other, so"
    if places[0] == 1:
        return f"{said} the intervals are too narrow."
    return f"{said} over {part}s the intervals are too narrow. The {whole} are the clusters."
