"""Check cheaply whether the labels, the columns of scores and the answers of a file fit together.

A doubt is a sentence about what seems wrong. With a doubt, a report shows numbers but no verdict.
"""

import numpy as np
from scipy.optimize import linear_sum_assignment
from scipy.stats import rankdata

from calibkit.arrays import Array, softmax
from calibkit.report.names import Names, Naming, few_of, first_three

CELLS = 4_000_000  # scores that are checked at most; from a larger file, random rows are taken
ROWS = 200_000  # rows that are checked at most
LEAST = 40  # rows that a check needs
MOST = 2000  # classes whose order is checked at most: a table of all pairs must fit into memory
GAIN = 0.05  # gain in accuracy from which another order of the columns is suspected
EXPECTED = 20  # errors implied by the confidences from which a lack of errors is suspicious


def doubts_of(logits: Array, labels: Array, names: Names) -> list[str]:
    """Check whether labels and columns of scores belong together.

    Parameters
    ----------
    logits : array (n, k)
        Logits, or logarithms of probabilities.
    labels : array (n,) of int
        True classes, from 0.
    names : tuple of str
        Names of the classes; may be empty.

    Returns
    -------
    list of str
        Doubts; empty if labels and columns seem to fit, or for fewer than `LEAST` rows.
    """
    n, k = logits.shape
    if n < LEAST:
        return []
    names = names or tuple(map(str, range(k)))
    rows = _some(n, k)
    logits, labels = logits[rows].astype(np.float64), labels[rows]
    checks = (_sorted_rows(logits, labels), _no_error(logits, labels))
    found = [doubt for doubt in checks if doubt]
    return found or [doubt for doubt in (_other_order(logits, labels, names),) if doubt]


def _some(n: int, k: int) -> Array:
    """The rows to check: all, or a random part of many."""
    most = min(max(CELLS // k, 2000), ROWS)
    if n <= most:
        return np.arange(n)
    return np.sort(np.random.default_rng(0).choice(n, most, replace=False))


def _sorted_rows(logits: Array, labels: Array) -> str:
    """The doubt that every row is sorted by score, as in a top-5 list; "" if it is not."""
    k = logits.shape[1]
    if k < 3:
        return ""
    steps = np.diff(logits, axis=1)
    down, up = (steps <= 0).all(), (steps >= 0).all()
    if down == up:  # neither, or all equal
        return ""
    first = 0 if down else k - 1
    if _belong(logits, labels):
        return ""
    claimed = float(softmax(logits, kind=None)[:, first].mean())
    if (labels == first).mean() > claimed - 0.1:  # the first column may be a very common class
        return ""
    return (
        f"Column {first + 1} is the largest in every row, and each row is sorted: were the scores "
        "sorted, as in a top-5 list? Then no column belongs to a class; save the scores before "
        "they are sorted."
    )


def _belong(logits: Array, labels: Array) -> bool:
    """Whether scores (n, k) predict the labels (n,) better than chance; true if all rows are equal.

    Each column is ranked by itself first, so that a bias for a class has no effect.
    """
    if not np.ptp(logits, axis=0).any():
        return True
    fair, k = _centred(logits).argmax(axis=1), logits.shape[1]
    shares = (np.bincount(x, minlength=k) / len(x) for x in (fair, labels))
    chance = float(np.prod(list(shares), axis=0).sum())
    spread = np.sqrt(chance * (1 - chance) / len(labels))
    return bool((fair == labels).mean() > chance + 3 * spread)


def _no_error(logits: Array, labels: Array) -> str:
    """The doubt that every answer is right although the confidences imply errors; "" if not so."""
    answer = logits.argmax(axis=1)
    if (answer != labels).any():
        return ""
    expected = float((1 - softmax(logits, kind=None).max(axis=1)).sum())
    if expected < EXPECTED:
        return ""
    return (
        f"Every label is the most probable class, although the confidences imply some "
        f"{expected:,.0f} errors among {len(labels):,}: are the labels the model's own answers, "
        "or samples that it was trained on?"
    )


def _other_order(logits: Array, labels: Array, names: Names) -> str:
    """The doubt that labels belong to other columns: counted from 1, or in another order; or ""."""
    n, k = logits.shape
    if k < 3:  # for two classes, the caution `reversed` of a report covers this
        return ""
    answer = logits.argmax(axis=1)
    own = answer == labels
    for step in (-1, 1):
        moved = labels + step
        if moved.min() < 0 or moved.max() >= k:
            continue
        if _far_better(answer == moved, own):
            sign = "minus" if step < 0 else "plus"
            return (
                f"The labels {sign} 1 fit far better: {_share(answer == moved)} right in place of "
                f"{_share(own)}. Are they counted from {1 if step < 0 else 0}, and the columns "
                f"from {0 if step < 0 else 1}?{' (A label of -1: --minus-one class.)' * (step > 0)}"
            )
    if k > MOST:
        return ""
    best = (_assigned(answer, labels, k)[answer] == labels).mean()
    if best - own.mean() <= GAIN:  # no order is better by that much
        return ""
    fair = _centred(logits).argmax(axis=1)  # answers without a bias for some class
    half = np.random.default_rng(0).permutation(n) < n // 2
    for guess in (answer, fair):
        right = np.empty(n, dtype=bool)  # in an order that was found on the other half of the rows
        for part in (half, ~half):
            right[part] = (_assigned(fair[~part], labels[~part], k)[guess] == labels)[part]
        if not _far_better(right, guess == labels):
            return ""
    other = _assigned(fair, labels, k)
    moved = [f"{names[i]!r} holds {names[other[i]]!r}" for i in range(k) if other[i] != i]
    return (
        f"The columns seem to be in another order than the labels say: "
        f"{_share(other[answer] == labels)} right in another order, {_share(own)} in this one "
        f"({first_three(moved)}). Name the columns after their "
        "classes (prob_NAME), or give class_names."
    )


def _centred(logits: Array) -> Array:
    """The rank of each score (n, k) among all rows of its column."""
    return rankdata(logits, axis=0)


def _assigned(answer: Array, labels: Array, k: int) -> Array:
    """Assign a label to each column, one to one, so that most answers become right: (k,) of int."""
    counts = np.zeros((k, k))
    np.add.at(counts, (answer, labels), 1)
    counts[np.diag_indices(k)] += 1e-6  # a column without evidence stays
    return linear_sum_assignment(counts, maximize=True)[1]


def _far_better(other: Array, own: Array) -> bool:
    """Whether `other` is right more often than `own` by `GAIN` and by four standard errors.

    Both are (n,) of bool and say which answers are right.
    """
    gain = other.astype(np.float64) - own
    return bool(gain.mean() > max(GAIN, 4 * gain.std() / np.sqrt(len(gain))))


def _share(right: Array) -> str:
    return f"{100 * right.mean():.1f}\u00a0%"


# --- the model's own answers ---


def of_answers(logits: Array, answers: Array, names: Names) -> tuple[list[str], list[str]]:
    """Compare the answers that a file gives with the most probable classes.

    Parameters
    ----------
    logits : array (n, k)
        Logits, or logarithms of probabilities.
    answers : array (n,) of int
        The class of each answer; -1 for an answer that is no class.
    names : tuple of str
        Names of the classes.

    Returns
    -------
    list of str, list of str
        Notes and doubts; both are empty if all answers are the most probable class.
    """
    known = answers >= 0
    if not known.any():
        return [], []
    answers, own = answers[known], logits[known].argmax(axis=1)
    top = logits[known].max(axis=1)
    tied = logits[known][np.arange(len(answers)), answers] == top  # as probable as the top class
    differ = (own != answers) & ~tied
    if not differ.any():
        return [], []
    k, share = logits.shape[1], f"{int(differ.sum()):,} of {len(answers):,}"
    words = f"The file's own answers differ from the most probable class in {share} rows"
    if k > MOST:
        return [f"{words}. Accuracy is of the most probable class."], []
    if k == 2 and (cut := _threshold(logits[known], answers, names[1])):
        return [f"{words}, {cut}. Accuracy is of the most probable class."], []
    other = _assigned(own, answers, k)
    better = _far_better(other[own] == answers, own == answers) and len(answers) >= LEAST
    if better or differ.mean() > 0.5:
        moved = [f"{names[i]!r} is answered {names[other[i]]!r}" for i in range(k) if other[i] != i]
        which = f" ({first_three(moved)})" if better else ""
        return [], [f"{words}{which}: are the columns in another order than the classes?"]
    return [f"{words}. Accuracy is of the most probable class."], []


def _threshold(logits: Array, answers: Array, name: str) -> str:
    """The words "as by a threshold of …" if one on class 1 explains all answers; otherwise ""."""
    p = softmax(logits.astype(np.float64), kind=None)[:, 1]
    yes, no = p[answers == 1], p[answers == 0]
    if not len(yes) or not len(no) or yes.min() < no.max():
        return ""
    return f"as by a threshold of {yes.min():.3g} on the probability of {name!r}"


def to_classes(answers: Array, names: Names, k: int) -> Array:
    """The class (n,) of each answer, matched by name or number; -1 if an answer is no class."""
    number = {str(i): i for i in range(k)} if not names else {}
    number |= {name: i for i, name in enumerate(names)}
    if names and set(answers.tolist()) <= {"-1", "1"} and k == 2 and "-1" not in number:
        number |= {"-1": 0, "1": 1}
    distinct, place = np.unique(answers, return_inverse=True)
    if not any(x in number for x in distinct):
        number |= {str(i): i for i in range(k)}
    return np.array([number.get(str(x), -1) for x in distinct], dtype=np.int64)[place]


def unknown_answers(answers: Array, classes: Array) -> str:
    """A note on answers that are no class; "" if every answer is a class."""
    odd = np.unique(answers[classes < 0])
    if not len(odd):
        return ""
    return Naming("Answers that are no class", f", such as {few_of(odd[:2])}", ", were not used.")
