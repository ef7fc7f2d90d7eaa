#!/usr/bin/env bash
# LightGBM 4.7.0, XGBoost 3.2.0 (xgboost-cpu) and CatBoost 1.2.10 (PyPI): NDCG@5 of a ranking
# model on validation queries, many of which have no relevant document, as logs of clicks do.
# Guess: such a query is left out, or counts 0 as in scikit-learn's ndcg_score.
# Seen: all three count it as 1, a perfect ranking, and so does the MAP of LightGBM and XGBoost.
#   CatBoost's MAP counts it 0 beside its own NDCG. (XGBoost documents it, with "ndcg@5-" for 0.)
# Wrong number: with 58 % of such queries NDCG@5 is 0.76, where the other queries have 0.42 and
#   scikit-learn says 0.18. Adding queries without a click makes every model "better", and a
#   ranking by chance gets 0.65.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder/env"
"$folder/env/bin/pip" install -q --disable-pip-version-check lightgbm==4.7.0 xgboost-cpu==3.2.0 \
    catboost==1.2.10 numpy==2.4.6 scipy==1.17.1 scikit-learn==1.9.1 pandas==2.3.3
"$folder/env/bin/python" -W ignore - <<'EOF'
import catboost
import lightgbm
import numpy as np
import xgboost
from sklearn.metrics import ndcg_score

draw = np.random.default_rng(0)
QUERIES, SIZE, TOP = 1_000, 20, 5


def rows():
    X = draw.normal(size=(QUERIES * SIZE, 5))
    odds = np.exp(X[:, 0] - 4.2 + 0.5 * draw.normal(size=len(X)))
    return X, (draw.random(len(X)) < odds / (1 + odds)).astype(int)


(X, y), (V, t) = rows(), rows()
group, of_query = np.full(QUERIES, SIZE), np.repeat(np.arange(QUERIES), SIZE)
relevant = t.reshape(QUERIES, SIZE)
empty = relevant.sum(1) == 0


def means(score):
    score = score.reshape(QUERIES, SIZE)
    each = np.array([ndcg_score([a], [b], k=TOP) for a, b in zip(relevant, score)])
    return each[~empty].mean(), each.mean(), np.where(empty, 1, each).mean()


log, scores, logged = {}, {}, {}
train = lightgbm.Dataset(X, y, group=group)
model = lightgbm.train(
    {"objective": "lambdarank", "metric": ["ndcg", "map"], "eval_at": [TOP], "verbose": -1,
     "num_threads": 1, "num_leaves": 7}, train, 30,
    valid_sets=[lightgbm.Dataset(V, t, group=group, reference=train)],
    callbacks=[lightgbm.record_evaluation(log)])
last = {k: v[-1] for k, v in log["valid_0"].items()}
scores["LightGBM"], logged["LightGBM"] = model.predict(V), (last["ndcg@5"], last["map@5"])

log, test = {}, xgboost.DMatrix(V, t, group=group)
model = xgboost.train(
    {"objective": "rank:ndcg", "eval_metric": ["ndcg@5", "map@5"], "max_depth": 3, "nthread": 1},
    xgboost.DMatrix(X, y, group=group), 30, evals=[(test, "test")], evals_result=log,
    verbose_eval=False)
last = {k: v[-1] for k, v in log["test"].items()}
scores["XGBoost"], logged["XGBoost"] = model.predict(test), (last["ndcg@5"], last["map@5"])

model = catboost.CatBoost(
    {"loss_function": "YetiRank", "custom_metric": ["NDCG:top=5", "MAP:top=5"], "iterations": 30,
     "depth": 3, "verbose": False, "thread_count": 1, "allow_writing_files": False,
     "use_best_model": False})
model.fit(catboost.Pool(X, y, group_id=of_query), eval_set=catboost.Pool(V, t, group_id=of_query))
last = {k.split(":")[0]: v[-1] for k, v in model.get_evals_result()["validation"].items()
        if "top=5" in k}
scores["CatBoost"], logged["CatBoost"] = model.predict(V), (last["NDCG"], last["MAP"])

print(f"queries without a relevant document: {empty.mean():.3f}")
for name, score in scores.items():
    others, zero, one = means(score)
    ndcg, precision = logged[name]
    print(f"{name}: NDCG@5 {ndcg:.3f}, MAP@5 {precision:.3f}; by scikit-learn: the other queries "
          f"{others:.3f}, all {zero:.3f}, with 1 for those without {one:.3f}")
    assert abs(ndcg - one) < 0.01 and others < 0.5 and zero < 0.2
    assert precision < 0.2 if name == "CatBoost" else precision > 0.7
chance = means(draw.random(len(t)))
print(f"a ranking by chance: {chance[2]:.3f}")
assert empty.mean() > 0.5 and 0.6 < chance[2] < 0.75
EOF
