#!/usr/bin/env bash
# crowd-kit 1.4.2 (PyPI), DawidSkene(100).fit_predict_proba: the probability of each label from the
# answers of many people, most of whom did few tasks, as on a crowdsourcing site.
# Guess: it learns who is reliable, so that it is at least as often right as the majority, and its
#   probabilities are about right where the answers are drawn from its own model.
# Seen: each person's table of errors is fitted to a few answers without smoothing. Who agreed with
#   the others in ten tasks counts as nearly faultless, and one such vote decides a task "for
#   certain". Ten tasks a person, three answers a task: it is less often right than the majority.
# Wrong number: labels with a probability above 0.99 are wrong in 9 %; a mean confidence of 0.93 at
#   an accuracy of 0.84, where the majority is right in 0.90. 10 % of the tasks are positive, it
#   says 24 %. OneCoinDawidSkene, one number a person, is right in 0.94.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder/env"
"$folder/env/bin/pip" install -q --disable-pip-version-check crowd-kit==1.4.2 scikit-learn==1.9.1 \
    numpy==2.4.6 scipy==1.17.1 pandas==3.1.1
"$folder/env/bin/python" -W ignore - 2> "$folder/errors" <<'EOF' || { cat "$folder/errors"; exit 1; }
import numpy as np
import pandas as pd
from crowdkit.aggregation import DawidSkene, MajorityVote, OneCoinDawidSkene

tasks, answers, tasks_of_a_person = 1_000, 3, 10
people = tasks * answers // tasks_of_a_person
found = {}
for seed in range(5):
    draw = np.random.default_rng(seed)
    truth = (draw.random(tasks) < 0.1).astype(int)
    skill = draw.beta(8, 2, people)  # right in 80 %
    rows = [
        (task, person, truth[task] if draw.random() < skill[person] else 1 - truth[task])
        for task in range(tasks)
        for person in draw.choice(people, answers, replace=False)
    ]
    table = pd.DataFrame(rows, columns=["task", "worker", "label"])
    for model in MajorityVote(), DawidSkene(100), OneCoinDawidSkene(100):
        p = model.fit_predict_proba(table).reindex(range(tasks))
        right, confidence = p.idxmax(axis=1) == truth, p.max(axis=1)
        sure = confidence > 0.99
        found.setdefault(type(model).__name__, []).append(
            (right.mean(), confidence.mean(), sure.mean(), 1 - right[sure].mean(), p[1].mean())
        )
found = {name: np.mean(values, axis=0) for name, values in found.items()}
for name, (accuracy, mean, sure, wrong, positive) in found.items():
    print(f"{name}: accuracy {accuracy:.2f}, mean confidence {mean:.2f}; above 0.99: {sure:.0%} of"
          f" the tasks, {wrong:.1%} of them wrong; mean probability of a positive {positive:.2f}")

accuracy, mean, sure, wrong, positive = found["DawidSkene"]
assert mean > accuracy + 0.05 and found["MajorityVote"][0] > accuracy + 0.03
assert sure > 0.4 and wrong > 0.05 and positive > 0.17
assert found["OneCoinDawidSkene"][0] > accuracy + 0.05
EOF
