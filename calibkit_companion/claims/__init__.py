"""The claims of the five papers, each put to every setting that has records.

A **claim** is data (``papers/PAPER.json``): a statement, a check made of comparisons, and what it
presumes. A **comparison** is a difference of one number between two methods and the side on which
the paper puts it: below or above 0, near it, at most or at least 0. It

- *holds* if its interval lies on the claimed side and reaches beyond the margin;
- *falls short* if the interval rules out any difference beyond the margin on the claimed side, and
  does not lie beyond it on the other: the effect is smaller, absent or, not surely, the other way;
- is *reversed* if it lies on the other side, or where a difference was denied;
- is *unclear* otherwise.

Claims that nothing changes, or not for the worse, hold within the margin. **The margin** is written
down with each comparison, by one rule (`margins.by_rule`) that looks only at what is printed.

**A claim combines comparisons**: "all", "any", "most", "nearly all" (four fifths). If r of m
decide, each is judged at 0.05 / (m - r + 1): the chance of deciding a claim wrongly is then at most
0.05 (Benjamini and Heller 2008). The 5 % are shared once more by the columns in which a claim is
tested, since each of them may decide it (Holm 1979), and by the looks at a setting while seeds are
added (Pocock 1977; `calibkit_companion.experiments.looks`).

**One setting refutes what a paper claims for all settings.** What it claims for most settings, by
its words or its own tables, is refuted where at least two fail, and more than half of those that
test it (`cases.refuted`); it is reproduced where at least two hold and none fails. That something
happens somewhere is refuted by none.

**A claim is judged where it makes sense**: where the plain network is as over-confident as it
presumes, and by methods that learn there and do what it says they do. An interval tells whether it
is so (`preconditions`). Where a setting fails, the claim is *not tested*, with the reason. A method
that fails stays: a claim has a word where the one with it and the one without it agree, and is
*unclear* otherwise. Where it is open whether a precondition is met, and the word hangs on it, it is
*unclear (precondition)*. Settings never melt into one verdict: `board` gives a row for each claim
and setting, and `fates` says what became of a claim over all of them.

**The paper's own table** is judged from its printed ±: over runs alone, unpaired (`printed`).
"""

# ruff: noqa: F401 (names for those who use the package)
from calibkit_companion.claims.claim import claims
from calibkit_companion.claims.display import COLORS, SIGNS, Card, card, counts, headline, titles
from calibkit_companion.claims.fates import answer, told
from calibkit_companion.claims.in_print import printed
from calibkit_companion.claims.judging import board
from calibkit_companion.claims.scorecard import Scorecard, compute
from calibkit_companion.claims.settings import places
from calibkit_companion.claims.verdict import OUTCOMES
