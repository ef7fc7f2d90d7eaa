"""How far a book has come: one line every few seconds, for runs, pages and the book together."""

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from threading import Thread

# What the parts of a cheap edition cost, in seconds of a processor. Only their ratios matter.
RUN, PAGE, BOOK = 1.7, 7.0, 50.0


def estimate(cost: float, left: float, seconds: float, since: float = 0) -> str:
    """What there is to say when work of a cost is done as far as `left`.

    Parameters
    ----------
    seconds : from the beginning to when something was finished last
    since : seconds from then on, in which the estimate counts down

    >>> estimate(100, 75, 30), estimate(100, 75, 30, since=12)
    ('25 % done, about 1.5 min left', '25 % done, about 1.3 min left')
    >>> estimate(100, 99, 30)  # too early to tell
    ''
    """
    done = cost - left
    if done < 0.03 * cost:
        return ""
    rest = max(0.0, seconds * left / done - since)
    return f"{100 * done / cost:.0f} % done, about {rest / 60:.1f} min left"


def follow(
    costs: Mapping[str, float], every: float = 10.0, say: Callable[[str], None] = print
) -> Thread:
    """Say how far some files have come, as long as this process lives and one is not there.

    Parameters
    ----------
    costs : each file that is to be, with what it costs to make
    every : seconds between two lines
    say : called with a line
    """
    start, left = time.monotonic(), dict(costs)

    def still_to_be() -> dict[str, float]:
        return {file: cost for file, cost in left.items() if not Path(file).exists()}

    left = still_to_be()
    total = sum(left.values())

    def watch() -> None:
        nonlocal left
        changed = start
        while left:
            time.sleep(every)
            before, left, now = left, still_to_be(), time.monotonic()
            changed = changed if len(left) == len(before) else now
            if line := estimate(total, sum(left.values()), changed - start, now - changed):
                say(line)

    thread = Thread(target=watch, daemon=True)
    thread.start()
    return thread
