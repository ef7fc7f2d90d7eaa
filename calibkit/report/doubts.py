"""Whether labels, columns and answers belong together: cheap checks of what a file says it is.

A doubt is a sentence. Where there is one, a report gives its numbers without a verdict.
"""

import numpy as np
from scipy.optimize import linear_sum_assignment
from scipy.stats import rankdata

from calibkit.arrays import Array, exp_shifted, row_sums
from calibkit.report.names import Naming, few_of

CELLS = 4_000_000  # of scores that are looked at; of more, a random part of the rows
ROWS = 200_000  # at most
LEAST = 40  # rows
MOST = 2000  # classes whose order is checked: a table of all pairs must fit
GAIN = 0.05  # of accuracy, on rows that an order was not chosen on
EXPECTED = 20  # errors that confidences imply, where there is none


def doubts_of(logits: Array, labels: Array, names: tuple[str, ...]) -> list[str]:
    """What speaks against these labels being of these columns; sentences.

    Parameters
    ----------
    logits : array (n, k)
    labels : array (n,) of int
    names : tuple of str
        Of the classes; may be empty.
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
    most = min(max(CELLS // k, 2000), ROWS)
    if n <= most:
        return np.arange(n)
    return np.sort(np.random.default_rng(0).choice(n, most, replace=False))


def _probs(logits: Array) -> Array:
    out = np.empty_like(logits)
    exp_shifted(logits, out=out)
    return out / row_sums(out)[:, None]


def _sorted_rows(logits: Array, labels: Array) -> str:
    """Columns in the order of their size in every row, as the best of many are."""
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
    claimed = float(_probs(logits)[:, first].mean())
    if (labels == first).mean() > claimed - 0.1:  # that class is the most common
        return ""
    return (
        f"Column {first + 1} is the largest in every row, and each row is sorted: are the columns "
        "sorted, as the best of many are? Then no column belongs to a class; save the scores "
        "before they were sorted."
    )


def _belong(logits: Array, labels: Array) -> bool:
    """Whether scores say anything about their columns' labels; true if all rows are the same."""
    if not np.ptp(logits, axis=0).any():
        return True
    fair, k = _centred(logits).argmax(axis=1), logits.shape[1]
    shares = (np.bincount(x, minlength=k) / len(x) for x in (fair, labels))
    chance = float(np.prod(list(shares), axis=0).sum())
    spread = np.sqrt(chance * (1 - chance) / len(labels))
    return bool((fair == labels).mean() > chance + 3 * spread)


def _no_error(logits: Array, labels: Array) -> str:
    """Every label is the answer, although the confidences imply many errors."""
    answer = logits.argmax(axis=1)
    if (answer != labels).any():
        return ""
    expected = float((1 - _probs(logits).max(axis=1)).sum())
    if expected < EXPECTED:
        return ""
    return (
        f"Every label is the most probable class, although the confidences imply some "
        f"{expected:,.0f} errors among {len(labels):,}: are the labels the model's own answers, "
        "or samples that it was trained on?"
    )


def _other_order(logits: Array, labels: Array, names: tuple[str, ...]) -> str:
    """Labels that fit other columns far better: counted from 1, or in another order."""
    n, k = logits.shape
    if k < 3:  # of two, a report says that a class gets lower probabilities than the rest
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
    fair = _centred(logits).argmax(axis=1)  # a bias for a class is no order
    half = np.random.default_rng(0).permutation(n) < n // 2
    for guess in (answer, fair):
        held = np.empty(n, dtype=bool)  # right in an order that was found on the other half
        for part in (half, ~half):
            held[part] = (_assigned(fair[~part], labels[~part], k)[guess] == labels)[part]
        if not _far_better(held, guess == labels):
            return ""
    other = _assigned(fair, labels, k)
    moved = [f"{names[i]!r} holds {names[other[i]]!r}" for i in range(k) if other[i] != i]
    return (
        f"The columns seem to be in another order than the labels say: "
        f"{_share(other[answer] == labels)} right in another order, {_share(own)} in this one "
        f"({', '.join(moved[:3])}{', …' if len(moved) > 3 else ''}). Name the columns after their "
        "classes (prob_NAME), or give class_names."
    )


def _centred(logits: Array) -> Array:
    """Scores as the share of rows with a smaller one in the same column."""
    return rankdata(logits, axis=0)


def _assigned(answer: Array, labels: Array, k: int) -> Array:
    """For each column the label that fits it best, one to one."""
    counts = np.zeros((k, k))
    np.add.at(counts, (answer, labels), 1)
    counts[np.diag_indices(k)] += 1e-6  # a column without evidence stays
    return linear_sum_assignment(counts, maximize=True)[1]


def _far_better(other: Array, own: Array) -> bool:
    """Whether more are right by `GAIN`, and by four standard errors of the difference."""
    gain = other.astype(np.float64) - own
    return bool(gain.mean() > max(GAIN, 4 * gain.std() / np.sqrt(len(gain))))


def _share(right: Array) -> str:
    return f"{100 * right.mean():.1f}\u00a0%"


# --- the model's own answers ---


def of_answers(
    logits: Array, answers: Array, names: tuple[str, ...]
) -> tuple[list[str], list[str]]:
    """What to note, and to doubt, where the file's own answers are not the most probable class.

    Parameters
    ----------
    logits : array (n, k)
    answers : array (n,) of int
        Classes; -1 where an answer is none.
    names : tuple of str
        Of the classes.
    """
    known = answers >= 0
    if not known.any():
        return [], []
    answers, own = answers[known], logits[known].argmax(axis=1)
    top = logits[known].max(axis=1)
    tied = logits[known][np.arange(len(answers)), answers] == top  # a tie is no difference
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
        which = f" ({', '.join(moved[:3])}{', …' if len(moved) > 3 else ''})" if better else ""
        return [], [f"{words}{which}: are the columns in another order than the classes?"]
    return [f"{words}. Accuracy is of the most probable class."], []


def _threshold(logits: Array, answers: Array, name: str) -> str:
    """Words for a threshold on the probability of class 1 that gives the answers; "" if none."""
    p = _probs(logits.astype(np.float64))[:, 1]
    yes, no = p[answers == 1], p[answers == 0]
    if not len(yes) or not len(no) or yes.min() < no.max():
        return ""
    return f"as by a threshold of {yes.min():.3g} on the probability of {name!r}"


def to_classes(answers: Array, names: tuple[str, ...], k: int) -> Array:
    """Answers as classes by name or number, -1 where they are none."""
    number = {str(i): i for i in range(k)} if not names else {}
    number |= {name: i for i, name in enumerate(names)}
    if names and set(answers.tolist()) <= {"-1", "1"} and k == 2 and "-1" not in number:
        number |= {"-1": 0, "1": 1}
    distinct, place = np.unique(answers, return_inverse=True)
    if not any(x in number for x in distinct):
        number |= {str(i): i for i in range(k)}
    return np.array([number.get(str(x), -1) for x in distinct], dtype=np.int64)[place]


def unknown_answers(answers: Array, classes: Array) -> str:
    """A note on answers that are no classes; "" if all are."""
    odd = np.unique(answers[classes < 0])
    if not len(odd):
        return ""
    return Naming("Answers that are no class", f", such as {few_of(odd[:2])}", ", were not used.")
