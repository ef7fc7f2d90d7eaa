"""Simulate the board of claims, to see how often it gives a claim a wrong word.

    python -m benchmarks.referee [--boards 200] [benchmarks/results/referee.json]

In half of the simulated boards every claim of the papers is right, in the other half every claim is
wrong. The numbers are drawn. Everything else is real: the claims, the code that judges them, the
settings with their seeds and looks, and the variances between runs and of the test set.

- **Effects.** A right claim has at least as many comparisons with an effect beyond the margin as
  its words need, and a wrong claim has fewer. The effects of other comparisons are zero or
  opposite.
- **Preconditions** are noisy: half of them lie within four standard errors of their threshold, on
  either side. If a precondition is not met, the effect is that of the other world.
- **Looks.** A word counts as soon as it is given at any look.

The word *holds* is wrong for a wrong claim. The words *reversed* and *falls short* are wrong for a
right claim. The rate of wrong words is over all claims and columns whose word is not "not tested".
Its upper end is that of a 95 % interval with boards as clusters. `power` is the share of right
claims that hold, or of wrong claims that are refuted, at the planned number of seeds and with their
preconditions met. Under the old rules ("before") looks are not counted, preconditions are judged by
their estimates, methods that fail one are removed, and a single setting refutes a claim about most
settings.
"""

import argparse
import json
import time
from collections import Counter
from collections.abc import Iterator
from math import nan
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks.simulated import Drawn, Simulated
from calibkit_companion.claims import cases, claims, places, preconditions, verdict
from calibkit_companion.claims.claim import Claim
from calibkit_companion.claims.settings import PUBLIC, Place
from calibkit_companion.experiments import plan

RULES = ("new", "new, looks not counted", "before")


def before(case: cases.Case) -> str:
    """Judge by the old rules: remove methods that fail a precondition, and judge the others."""
    if case.check is None:
        return "not tested"
    left = case.check.put(lambda part: None if part.doubts else part)
    fitted = {preconditions.UNFIT, preconditions.PERHAPS_UNFIT}
    whole = case.check.put(lambda part: None if {d.why for d in part.doubts} - fitted else part)
    word = left.word() if left.parts else "not tested"
    return "unclear" if word in verdict.DECIDED and whole.word() != word else word


def columns(claim: Claim, where: list[Place]) -> list[Place]:
    """Choose one place for each column of the board, if possible the setting after the paper."""
    own = [s.name for s in plan.EDITIONS["released"].settings(claim.paper)]
    found: dict[str, Place] = {}
    for place in sorted(where, key=lambda place: place.name not in own):
        found.setdefault(place.column, place)
    return [*found.values()]


class Word(NamedTuple):
    board: int
    right: bool
    claim: str
    column: str
    first: str  # the first word given at any look, or else the last
    last: str
    met: bool  # whether the preconditions are met in truth


def words(claim: Claim, where: list[Place], right: bool, board: int, rules: str, spreads: dict,
          seed: int) -> Iterator[Word]:  # fmt: skip
    """Yield the words that a claim gets in every column of a board."""
    rng = np.random.default_rng([seed, board, right, int(claim.id[-2:]), sum(map(ord, claim.id))])
    made = []
    for place in columns(claim, where):
        one = Simulated(place.name, place.runs, place.column, place.title, real=place, claim=claim,
                        rng=rng, spreads=spreads, rules=rules)  # fmt: skip
        if one.anything() and one.draw(right):
            made.append(one)
    seen: dict[str, list[str]] = {place.column: [] for place in made}
    numbers = (d for place in made for d in place.drawn.values() if isinstance(d, Drawn))
    most = max((len(number.spread.seeds) for number in numbers), default=0)
    for look in range(most):
        its = [cases.case_of(claim, at_look(place, look)) for place in made]
        if rules == "before":
            found = [before(case) for case in its]
            refuted = not claim.exists
        else:
            alphas = cases.shares(its)
            found = [case.verdict(alphas[case.place.column]).outcome for case in its]
            refuted = cases.refuted(claim, found)
        for place, word in zip(made, found, strict=True):
            fails = word in verdict.REFUTED and not refuted
            seen[place.column].append("unclear" if fails else word)
    for place in made if most else ():
        its = seen[place.column]
        first = next((word for word in its if word in verdict.DECIDED), its[-1])
        yield Word(board, right, claim.id, place.column, first, its[-1], place.drawn["setting"])


def at_look(place: Simulated, look: int) -> Simulated:
    place.look = look
    return place


def rate(found: list[Word], boards: int) -> dict:
    """Compute the share of wrong words with its upper end, and the share of boards with any."""
    tested, wrong = np.zeros(boards), np.zeros(boards)
    for word in found:
        against = verdict.REFUTED if word.right else ("holds",)
        tested[word.board] += word.first != "not tested"
        wrong[word.board] += word.first in against
    share = wrong.sum() / tested.sum()
    # The ratio of two sums over independent boards.
    error = np.sqrt(((wrong - share * tested) ** 2).sum() * boards / (boards - 1)) / tested.sum()
    return {
        "wrong": round(float(share), 4),
        "upper": round(float(share + 1.96 * error), 4),
        "words": int(tested.sum()),
        "boards": boards,
        "boards_with_a_wrong_word": round(float((wrong > 0).mean()), 3),
        "given": dict(Counter(word.first for word in found).most_common()),
    }


def power(found: list[Word]) -> float:
    """Compute the share of claims that get the right word at the planned number of seeds."""
    met = [word for word in found if word.met and word.last != "not tested"]
    wanted = [word.last == "holds" if word.right else word.last in verdict.REFUTED
              for word in met]  # fmt: skip
    return round(float(np.mean(wanted)), 3) if wanted else nan


def simulate(boards: int, seed: int = 0, rules: tuple[str, ...] = RULES, paper: str = "") -> dict:
    """The rates of wrong words and the power in each world, by each set of rules."""
    where = [place for place in places("released") if place.name != PUBLIC]
    asked = [c for c in claims(paper or None) if c.comparisons and not (c.untested or c.datasets)]
    spreads: dict = {}
    report = {"claims": len(asked), "rules": {}}
    for name in rules:
        report["rules"][name] = {}
        some = boards if name == "new" else -(-boards // 4)  # for comparison
        for right in (True, False):
            found = [
                word
                for board in range(some)
                for claim in asked
                for word in words(claim, where, right, board, name, spreads, seed)
            ]
            its = rate(found, some) | {"power": power(found)}
            report["rules"][name]["right" if right else "wrong"] = its
    return report | ({"loss_of_power": loss(report["rules"])} if rules == RULES else {})


def loss(rules: dict) -> dict:
    """Compute how much power each change of the rules costs, in each world.

    The rule that one setting no longer refutes a claim about most settings is counted with the
    preconditions.
    """
    new, uncounted, before = (rules[name] for name in RULES)
    other = "preconditions_and_claims_for_most_settings"
    return {
        world: {
            other: round(before[world]["power"] - uncounted[world]["power"], 3),
            "looks": round(uncounted[world]["power"] - new[world]["power"], 3),
        }
        for world in new
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--boards", type=int, default=200)
    parser.add_argument("path", nargs="?", type=Path)
    options = parser.parse_args()
    began = time.process_time()
    result = simulate(options.boards)
    result["core_seconds"] = round(time.process_time() - began)
    text = json.dumps(result, indent=1)
    print(text)
    if options.path:
        options.path.write_text(text + "\n")
