#!/usr/bin/env bash
# openskill 6.2.0 (PyPI; numpy 2.4.6): predict_win, the probability that each team wins.
# Guess: of eight players whose skills are known exactly, the predicted probabilities are about the
#   shares of races that each wins; a player who always wins gets about 1.
# Seen: with two teams that is so. With n teams each number is a mean over pairs, divided so that
#   all add up to 1; none can exceed 2 / n. Who always wins gets 0.25 of eight, 0.40 of five. With
#   skills spread over three times the game's noise the favourite of eight wins 0.46 of the races and
#   gets 0.21, the last wins 0.001 and gets 0.04. All five models of the package share it.
# Wrong number: a favourite's probability of 0.25 for 1.00; log loss 1.69 for 1.38.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder/env"
"$folder/env/bin/pip" install -q --disable-pip-version-check openskill==6.2.0 numpy==2.4.6
"$folder/env/bin/python" - <<'EOF'
import numpy as np
from openskill import models

draw = np.random.default_rng(0)
MODELS = (
    models.PlackettLuce, models.BradleyTerryFull, models.BradleyTerryPart,
    models.ThurstoneMostellerFull, models.ThurstoneMostellerPart,
)


def predicted(model, skills):
    return np.array(model.predict_win([[model.rating(mu=mu, sigma=1e-6)] for mu in skills]))


def won(skills, noise, races=200_000):
    """The share of races that each wins: the highest sum of skill and noise."""
    first = (skills + noise * draw.normal(size=(races, len(skills)))).argmax(1)
    return np.bincount(first, minlength=len(skills)) / races


for model in (make() for make in MODELS):
    name = type(model).__name__
    for n, most in ((2, 1.0), (5, 0.4), (8, 0.25)):
        skills = np.array([100.0] + [20.0] * (n - 1))
        assert won(skills, model.beta, 1000)[0] == 1
        assert abs(predicted(model, skills)[0] - most) < 1e-6, (name, n)
    pair = np.array([27.0, 23.0])
    assert abs(predicted(model, pair) - won(pair, model.beta)).max() < 0.01

    skills = 25 + model.beta * np.linspace(1.5, -1.5, 8)
    share, said = won(skills, model.beta), predicted(model, skills)
    loss, best = -(share * np.log(said)).sum(), -(share * np.log(share)).sum()
    print(f"{name:22} wins {share.round(3)}\n{'':22} said {said.round(3)}")
    print(f"{'':22} log loss {loss:.2f}, of the shares themselves {best:.2f}")
    assert 0.45 < share[0] < 0.53 and said[0] < 0.24 and said[-1] > 20 * share[-1]
    assert loss > best + 0.3
EOF
