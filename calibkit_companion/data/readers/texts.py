"""Read 20 Newsgroups as token ids."""

import re
from collections import Counter
from pathlib import Path

import numpy as np

from calibkit_companion.data.readers.images import folders_of
from calibkit_companion.data.readers.parts import Parts, damaged

VOCABULARY, LENGTH = 20_000, 500  # ids per text; id 0 is padding, 1 unknown


def tokens(text: str) -> list[str]:
    """Split a text into words and numbers, in lower case.

    All white space is alike, because one copy of the data has tabs in place of new lines.

    Parameters
    ----------
    text : the text
    """
    return re.findall(r"\w+", text.lower())


def newsgroups(base: Path, draft: Path) -> Parts:
    """Read 20 Newsgroups, split by date: token ids (n, LENGTH) of the first words of each post."""
    classes = folders_of(base / "20news-bydate-train")
    texts: dict[str, list[list[str]]] = {}
    labels = {}
    for part in ("train", "test"):
        texts[part], labels[part] = [], []
        for label, group in enumerate(classes):
            folder = base / f"20news-bydate-{part}" / group
            # The names of posts are numbers; a copy in wide use has one file with another name.
            posts = [p for p in folder.glob("*") if p.name.isdigit()]
            for post in sorted(posts, key=lambda p: int(p.name)):
                if not (content := post.read_bytes()):
                    raise damaged(post, "empty")
                texts[part].append(tokens(content.decode("latin-1")))
                labels[part].append(label)
    counts = Counter(word for text in texts["train"] for word in text)
    common = sorted(counts, key=lambda w: (-counts[w], w))[: VOCABULARY - 2]
    place = {word: i for i, word in enumerate(common, start=2)}
    ids = {}
    for part in texts:
        ids[part] = np.zeros((len(texts[part]), LENGTH), np.uint16)
        for row, text in zip(ids[part], texts[part], strict=True):
            row[: len(text)] = [place.get(word, 1) for word in text[:LENGTH]]
    return Parts(
        ids["train"],
        np.array(labels["train"]),
        ids["test"],
        np.array(labels["test"]),
        classes,
        f"first {LENGTH} words of each post with its header; {VOCABULARY:,} commonest words",
    )
