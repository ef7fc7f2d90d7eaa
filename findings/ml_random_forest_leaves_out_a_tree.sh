#!/usr/bin/env bash
# ml-random-forest 2.1.0 (npm), RandomForestClassifier.predictProbability(rows, label), Node.js.
# Guess: the share of trees that vote for the label; over all labels they sum to one.
# Seen: the first tree's vote is left out of the count, but not of the number of trees that it is
#   divided by. The probabilities of all labels sum to (n - 1) / n; a row on which 10 trees agree
#   has 0.9.
# Wrong number: no probability of ten trees exceeds 0.9; and a rule "probability of 1 at least
#   0.5" answers other than predict, always to the disadvantage of the label that is asked for.
set -euo pipefail
command -v npm >/dev/null || { echo "This finding needs Node.js and npm."; exit 2; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
echo '{"private": true}' > package.json
npm install --silent --no-audit --no-fund ml-random-forest@2.1.0
cat > run.js <<'EOF'
const assert = require('assert');
const { RandomForestClassifier } = require('ml-random-forest');
let state = 1;
const random = () => (state = (state * 16807) % 2147483647) / 2147483647;
const X = [], y = [];
for (let i = 0; i < 400; i++) {
  X.push([random(), random()]);
  y.push(random() < X[i][0] ? 1 : 0);
}
const mean = (values) => values.reduce((a, b) => a + b, 0) / values.length;
for (const trees of [10, 50]) {
  const forest = new RandomForestClassifier(
    { seed: 3, nEstimators: trees, maxFeatures: 1.0, replacement: true, noOOB: true });
  forest.train(X.slice(0, 200), y.slice(0, 200));
  const test = X.slice(200);
  const one = forest.predictProbability(test, 1);
  const zero = forest.predictProbability(test, 0);
  const votes = forest.predictionValues(test).to2DArray().map(mean);
  const sums = one.map((p, i) => p + zero[i]);
  const most = Math.max(...one);
  console.log(`${trees} trees: probabilities sum to ${mean(sums).toFixed(4)}; largest ` +
    `${most.toFixed(3)} where ${Math.max(...votes)} of the trees vote for it; mean of class 1 ` +
    `${mean(one).toFixed(4)}, of the votes ${mean(votes).toFixed(4)}`);
  const expected = (trees - 1) / trees;
  assert(sums.every((s) => Math.abs(s - expected) < 1e-5));
  assert(trees > 10 || (Math.max(...votes) === 1 && Math.abs(most - expected) < 1e-5));
  assert(one.every((p, i) => p <= votes[i] + 1e-5) && mean(one) < mean(votes) - 0.005);
}
EOF
node run.js
