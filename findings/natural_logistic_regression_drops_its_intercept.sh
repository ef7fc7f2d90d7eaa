#!/usr/bin/env bash
# natural 8.1.1 (npm), LogisticRegressionClassifier, getClassifications(text), Node.js.
# Guess: like every logistic regression it has an intercept, so that the mean probability of a
#   class is about its frequency; probabilities of three classes sum to one.
# Seen: it learns an intercept and drops it when training ends. A text of unknown words has 0.5,
#   whatever the frequency of the class; the rarer the class, the worse. Of three classes each is
#   a regression of its own: such a text has 0.5 for all three.
# Wrong number: 5 % of the texts are spam, and the mean probability of spam is 0.15. Cut-offs and
#   forecasts of volume from it are off threefold.
set -euo pipefail
command -v npm >/dev/null || { echo "This finding needs Node.js and npm."; exit 2; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
echo '{"private": true}' > package.json
npm install --silent --no-audit --no-fund natural@8.1.1
cat > run.js <<'EOF'
const assert = require('assert');
const { LogisticRegressionClassifier } = require('natural');
let state = 1;
const random = () => (state = (state * 16807) % 2147483647) / 2147483647;
const pick = (words) => words[Math.floor(random() * words.length)];
const telling = [['meeting', 'lunch', 'report', 'team'], ['buy', 'cheap', 'pills', 'offer'],
  ['goal', 'match', 'player', 'coach']];
const neutral = ['today', 'please', 'send', 'note'];
const text = (kind) => [0, 1, 2].map(
  () => pick(random() < 0.25 ? telling[kind] : neutral)).join(' ');
const learn = (kinds) => {
  const model = new LogisticRegressionClassifier();
  kinds.forEach((kind) => model.addDocument(text(kind), `class ${kind}`));
  model.train();
  return (words) => Object.fromEntries(
    model.getClassifications(words).map(({ label, value }) => [label, value]));
};
const found = {};
for (const share of [0.5, 0.05]) {
  const models = 8, n = 1000;
  let mean = 0, frequency = 0;
  for (let m = 0; m < models; m++) {
    const ask = learn(Array.from({ length: 600 }, () => (random() < share ? 1 : 0)));
    assert(ask('zebra')['class 1'] === 0.5);
    for (let i = 0; i < n; i++) {
      const kind = random() < share ? 1 : 0;
      frequency += kind / n / models;
      mean += ask(text(kind))['class 1'] / n / models;
    }
  }
  found[share] = mean / frequency;
  console.log(`${models} models: frequency ${frequency.toFixed(3)}, mean probability ` +
    `${mean.toFixed(3)}; 0.5 for a text of unknown words`);
}
assert(Math.abs(found[0.5] - 1) < 0.1 && found[0.05] > 2);
const three = learn(Array.from({ length: 600 }, (_, i) => i % 3))('zebra');
console.log('three classes, a text of unknown words:', three);
assert(Object.values(three).length === 3 && Object.values(three).every((p) => p === 0.5));
EOF
DOTENV_CONFIG_QUIET=true node run.js
