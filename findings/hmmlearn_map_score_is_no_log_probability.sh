#!/usr/bin/env bash
# hmmlearn 0.3.3 (PyPI), GaussianHMM.decode(X, algorithm="map").
# Guess: as with "viterbi", the first value is the log probability of the path that is returned.
# Seen: it is the sum over time of the largest posterior, between T / K and T, though it is
#   returned and documented as log probability: +974 for 1,000 steps. With one state it is T, the
#   most that there can be.
# Wrong number: a positive log likelihood; and the number of states chosen by it is always one.
#   score() and decode(algorithm="viterbi") are logarithms, and choose the two states of the data.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder/env"
"$folder/env/bin/pip" install -q --disable-pip-version-check \
    hmmlearn==0.3.3 scikit-learn==1.9.1 numpy==2.4.6 scipy==1.17.1
"$folder/env/bin/python" -W ignore - <<'EOF'
import numpy as np
from hmmlearn.hmm import GaussianHMM

draw = np.random.default_rng(0)
state = [0]
for _ in range(1_999):
    state.append(1 - state[-1] if draw.random() < 0.1 else state[-1])
X = (np.array(state) * 3.0 + draw.normal(size=2_000))[:, None]
train, test = X[:1_000], X[1_000:]

found = {}
for states in (1, 2):
    model = GaussianHMM(states, random_state=0, n_iter=50).fit(train)
    by_map, _ = model.decode(test, algorithm="map")
    by_viterbi, _ = model.decode(test, algorithm="viterbi")
    found[states] = by_map, by_viterbi, model.score(test)
    assert abs(by_map - model.predict_proba(test).max(1).sum()) < 1e-6
    print(f"{states} states: map {by_map:.1f}, viterbi {by_viterbi:.1f}, score {found[states][2]:.1f}")

assert abs(found[1][0] - 1_000) < 1e-6 and 900 < found[2][0] < 1_000  # by "map" one state wins
assert found[2][1] > found[1][1] + 50 and found[2][2] > found[1][2] + 50  # by logarithms two do
EOF
