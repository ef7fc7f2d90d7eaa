#!/usr/bin/env bash
# PySpark 4.3.0 with scikit-learn 1.9.1 (PyPI); needs Java 17 or newer.
# Guess: BinaryClassificationEvaluator() with its defaults gives the area under the ROC curve of
#   the model's probability, whichever classifier made it.
# Seen: it ranks by rawPrediction. Of a DecisionTreeClassifier that is the number of training rows
#   of a class in the leaf, not their share: a large leaf of few positives ranks above a small
#   leaf of many. Forests and boosted trees are not concerned.
# Wrong number: an AUROC of 0.50 (chance) for a tree whose AUROC is 0.72. A search over trees by
#   this default prefers other trees. evaluator.setRawPredictionCol("probability") is right.
set -euo pipefail
command -v java >/dev/null || { echo "This finding needs Java 17 or newer."; exit 2; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder/env"
"$folder/env/bin/pip" install -q --disable-pip-version-check \
    pyspark==4.3.0 scikit-learn==1.9.1 numpy==2.4.6 scipy==1.17.1
cd "$folder"
PYSPARK_PYTHON="$folder/env/bin/python" "$folder/env/bin/python" - 2>spark.log <<'EOF' || { cat spark.log; exit 1; }
import numpy as np
from pyspark.ml.classification import DecisionTreeClassifier
from pyspark.ml.evaluation import BinaryClassificationEvaluator
from pyspark.ml.linalg import Vectors
from pyspark.sql import SparkSession
from sklearn.metrics import roc_auc_score

spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
draw = np.random.default_rng(0)
X = draw.normal(size=(20_000, 5))
y = draw.random(20_000) < 1 / (1 + np.exp(2 - X[:, 0] - X[:, 1] * X[:, 2]))
rows = [(float(label), Vectors.dense(row)) for row, label in zip(X.tolist(), y)]
train = spark.createDataFrame(rows[:10_000], ["label", "features"]).coalesce(1)
test = spark.createDataFrame(rows[10_000:], ["label", "features"]).coalesce(1)
model = DecisionTreeClassifier(maxDepth=5, minInstancesPerNode=20).fit(train)
scored = model.transform(test)

by_default = BinaryClassificationEvaluator().evaluate(scored)
of_probability = BinaryClassificationEvaluator(rawPredictionCol="probability").evaluate(scored)
found = scored.select("label", "probability", "rawPrediction").collect()
label = [row[0] for row in found]
probability = [row[1][1] for row in found]
count = [row[2][1] for row in found]
print(f"AUROC by default {by_default:.3f}, of the probability {of_probability:.3f}")
print(f"scikit-learn: of rawPrediction {roc_auc_score(label, count):.3f}, "
      f"of the probability {roc_auc_score(label, probability):.3f}")
print("rawPrediction and probability of one row:", found[0][2], found[0][1])
spark.stop()

assert abs(of_probability - roc_auc_score(label, probability)) < 1e-3
assert abs(by_default - roc_auc_score(label, count)) < 1e-3
assert of_probability - by_default > 0.1
assert max(count) > 100 and max(count) == int(max(count))
EOF
