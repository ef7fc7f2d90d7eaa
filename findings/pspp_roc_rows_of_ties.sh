#!/usr/bin/env bash
# PSPP 1.6.2 (Debian 12: pspp 1.6.2-2), ROC ... /PRINT=COORDINATES, with scores that repeat (a
# scale, votes, rounded probabilities).
# Guess: a row "positive if greater than or equal to t" has the sensitivity and specificity of
#   that rule.
# Seen: it has if the rows come sorted. The same rows shuffled: the area is the same, but where a
#   score occurs in both groups the table has more rows, in which sensitivity has moved on and
#   1 - specificity has not: the two are of different cut-offs.
# Wrong number: for "0.4 or more" sensitivity 0.43 and 1 - specificity 0.42, no better than
#   chance; the rule has 0.74 and 0.42.
set -euo pipefail
if ! dpkg-query -W pspp 2>/dev/null | grep -q 1.6.2-2; then
    apt-get install -y -qq pspp=1.6.2-2 >/dev/null  # into the system: Debian 12, as root
fi
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
# 400 rows: how many of each group have the scores 0, 0.2, ... 1.
"${PYTHON:-python3}" - <<'EOF'
import random

counts = {1: (10, 30, 46, 31, 31, 4), 0: (49, 94, 62, 39, 4, 0)}
rows = [f"{step / 5:.1f} {group}\n" for group, of_score in counts.items()
        for step, count in enumerate(of_score) for _ in range(count)]
open("sorted.txt", "w").writelines(rows)
random.Random(0).shuffle(rows)
open("shuffled.txt", "w").writelines(rows)
EOF
pspp --version | head -1
for order in sorted shuffled; do
    cat > roc.sps <<EOF
DATA LIST LIST NOTABLE FILE='$order.txt' /p (F8.1) y (F1.0).
ROC p BY y (1) /PRINT=SE COORDINATES.
EOF
    pspp -O format=csv -o "$order.csv" roc.sps >/dev/null
done
cat shuffled.csv
"${PYTHON:-python3}" - <<'EOF'
import csv

pairs = [line.split() for line in open("sorted.txt")]


def rate(group, cut):
    scores = [float(p) for p, y in pairs if y == group]
    return round(sum(p >= cut for p in scores) / len(scores), 2)


def wrong_rows(order):
    """Rows of PSPP's table of coordinates that are off by more than their rounding."""
    rows = list(csv.reader(open(f"{order}.csv")))
    start = max(i for i, row in enumerate(rows) if "Sensitivity" in row)
    table = [[float(cell) for cell in row[1:]] for row in rows[start + 1 :] if len(row) == 4]
    return [(cut, found, (rate("1", cut), rate("0", cut))) for cut, *found in table
            if abs(found[0] - rate("1", cut)) > 0.011 or abs(found[1] - rate("0", cut)) > 0.011]


for order in ("sorted", "shuffled"):
    print(order, "rows, wrong in the table:", len(wrong_rows(order)))
    for cut, found, true in wrong_rows(order):
        print(f"  {cut} or more: PSPP {found}, true {true}")
assert not wrong_rows("sorted")
assert len(wrong_rows("shuffled")) >= 2
assert any(abs(a - b) < 0.02 for _, (a, b), _ in wrong_rows("shuffled"))  # the line of chance
EOF
