#!/usr/bin/env bash
# ml-confusion-matrix 2.0.0 (npm), getFalseOmissionRate(label), Node.js.
# Guess: the share of wrong ones among the negative answers, FN / (FN + TN): one minus
#   getNegativePredictiveValue of the same package, as getFalseDiscoveryRate is one minus
#   getPositivePredictiveValue.
# Seen: it divides by the positive rows: FN / (FN + TP), which is getFalseNegativeRate.
# Wrong number: of a test with few sick people "32 % of those sent home are sick", where 1 % are.
set -euo pipefail
command -v npm >/dev/null || { echo "This finding needs Node.js and npm."; exit 2; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
echo '{"private": true}' > package.json
npm install --silent --no-audit --no-fund ml-confusion-matrix@2.0.0
cat > run.js <<'EOF'
const assert = require('assert');
const { ConfusionMatrix } = require('ml-confusion-matrix');
let state = 1;
const random = () => (state = (state * 16807) % 2147483647) / 2147483647;
const sick = Array.from({ length: 5000 }, () => (random() < 0.04 ? 1 : 0));
const answer = sick.map((one) => (random() < (one ? 0.7 : 0.1) ? 1 : 0));
const matrix = ConfusionMatrix.fromLabels(sick, answer);
const count = (a, b) => sick.filter((one, i) => one === a && answer[i] === b).length;
const right = count(1, 0) / (count(1, 0) + count(0, 0));
const found = matrix.getFalseOmissionRate(1);
console.log(`false omission rate ${found.toFixed(4)}, by hand ${right.toFixed(4)}, one minus the ` +
  `negative predictive value ${(1 - matrix.getNegativePredictiveValue(1)).toFixed(4)}, ` +
  `false negative rate ${matrix.getFalseNegativeRate(1).toFixed(4)}`);
assert(Math.abs(1 - matrix.getNegativePredictiveValue(1) - right) < 1e-9 && right < 0.02);
assert(Math.abs(1 - matrix.getPositivePredictiveValue(1) - matrix.getFalseDiscoveryRate(1)) < 1e-9);
assert(found > 0.2 && Math.abs(found - matrix.getFalseNegativeRate(1)) < 1e-9);
EOF
node run.js
