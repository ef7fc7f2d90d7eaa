#!/usr/bin/env bash
# pgmpy 1.1.2 (PyPI; numpy 2.4.6, pandas 3.1.1, scipy 1.17.1, scikit-learn 1.9.1): the test of
# conditional independence that get_ci_test and PC take by default for a table of numbers and
# categories: PillaiTrace.
# Guess: where X and Y are independent given Z the p-value is even: below 0.05 in 5 %.
# Seen: X and Y are predicted from Z by forests, and the residuals (of the training rows) are
#   compared. What the forests miss of Z is in both residuals. With 500 rows and five columns in Z
#   the test rejects nearly always. Fisher's z does not, where Y is a number.
# Wrong number: a level of 5 % is one of about 90 %: seven of eight true independences are rejected.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder/env"
"$folder/env/bin/pip" install -q --disable-pip-version-check \
    pgmpy==1.1.2 numpy==2.4.6 pandas==3.1.1 scipy==1.17.1 scikit-learn==1.9.1
"$folder/env/bin/python" -W ignore - <<'EOF'
import logging

import numpy as np
import pandas as pd
from pgmpy.ci_tests import FisherZ, PillaiTrace, get_ci_test

logging.disable(logging.CRITICAL)
draw = np.random.default_rng(0)
ROWS, CAUSES, TABLES = 500, 5, 8
of_numbers, of_both = [], []
for _ in range(TABLES):
    causes = draw.normal(size=(ROWS, CAUSES))
    names = [f"Z{i}" for i in range(CAUSES)]
    table = pd.DataFrame(causes, columns=names)
    table["X"] = causes.sum(1) + draw.normal(size=ROWS)
    table["Y"] = causes.sum(1) + draw.normal(size=ROWS)
    of_numbers.append(FisherZ(table).run_test("X", "Y", names)[1])
    table["Y"] = pd.Categorical(np.where(table["Y"] > 0, "high", "low"))
    test = get_ci_test(data=table)
    assert type(test) is PillaiTrace
    of_both.append(test.run_test("X", "Y", names)[1])
level = {"Fisher's z, numbers": np.mean(np.array(of_numbers) < 0.05),
         "default, numbers and categories": np.mean(np.array(of_both) < 0.05)}
for name, share in level.items():
    print(f"{name}: rejects {share:.2f} of {TABLES} true independences")
print("median p-value of the default:", np.median(of_both))

assert level["Fisher's z, numbers"] < 0.3
assert level["default, numbers and categories"] > 0.6 and np.median(of_both) < 0.02
EOF
