#!/usr/bin/env bash
# ml-roc-multiclass 0.2.0 (npm), getAuc(getRocCurve(labels, scores)), Node.js.
# Guess: the area under the ROC curve: 0.5 in the mean for scores that are noise, below 0.5 for a
#   model that ranks the wrong way round. (Classes count in the order in which they first occur,
#   the later one as the positive one.)
# Seen: an area below 0.5 is replaced by one minus the area, each pair of classes by itself, before
#   the mean is taken. The curve itself is right.
# Wrong number: noise, judged on folds of 20 rows, has a mean AUC of 0.60; a model with 0.18 gets
#   0.82, and no mean over folds can show that nothing was learned.
set -euo pipefail
command -v npm >/dev/null || { echo "This finding needs Node.js and npm."; exit 2; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
echo '{"private": true}' > package.json
npm install --silent --no-audit --no-fund ml-roc-multiclass@0.2.0
cat > run.js <<'EOF'
const assert = require('assert');
const { getAuc, getRocCurve } = require('ml-roc-multiclass');
let state = 1;
const random = () => (state = (state * 16807) % 2147483647) / 2147483647;
const mean = (values) => values.reduce((a, b) => a + b, 0) / values.length;
const pairs = (label, score) => {
  const of = (kind) => score.filter((_, i) => label[i] === kind);
  return mean(of('yes').flatMap((a) => of('no').map((b) => (a > b ? 1 : a === b ? 0.5 : 0))));
};
const tool = (label, score) => getAuc(getRocCurve(label, score));
const rows = (n) => Array.from({ length: n }, (_, i) => (i % 2 ? 'yes' : 'no'));

const label = rows(1000);
const score = label.map((kind) => (kind === 'yes' ? 0.8 : 0) + 2 * random());
const turned = score.map((value) => -value);
console.log(`a model: ${tool(label, score).toFixed(3)}, by pairs ${pairs(label, score).toFixed(3)}; ` +
  `turned: ${tool(label, turned).toFixed(3)}, by pairs ${pairs(label, turned).toFixed(3)}`);
assert(Math.abs(tool(label, score) - pairs(label, score)) < 1e-6 && pairs(label, turned) < 0.3);
assert(Math.abs(tool(label, turned) - 1 + pairs(label, turned)) < 1e-6);

const folds = Array.from({ length: 400 }, () => [rows(20), rows(20).map(random)]);
const noise = mean(folds.map((fold) => tool(...fold)));
const right = mean(folds.map((fold) => pairs(...fold)));
console.log(`noise on folds of 20 rows: ${noise.toFixed(3)}, by pairs ${right.toFixed(3)}`);
assert(noise > 0.58 && Math.abs(right - 0.5) < 0.03);
EOF
node run.js
