#!/usr/bin/env bash
# torch 2.13.0 (PyPI), on the CPU: torch.distributions.Categorical(probs=...) of probabilities in
# bfloat16 or float16, as a network under autocast or in half precision gives them.
# Guess: bfloat16 has the range of float32 and three digits, so that log_prob and entropy are
#   within 1 % or so: a vocabulary of 32,000 equally probable tokens has a perplexity of 32,000.
# Seen: probabilities are clamped to the type's epsilon before the logarithm: 1/128 in bfloat16,
#   1/1024 in float16. What is rarer counts as that. Categorical(logits=...) of the same bfloat16
#   scores is right. Bernoulli does the same.
# Wrong number: the perplexity of 32,000 equal tokens is 127 (bfloat16) or 1,022 (float16); that of
#   a policy or language model 127 for 19,400. The true token's loss never exceeds 4.9.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder/env"
"$folder/env/bin/pip" install -q --disable-pip-version-check torch==2.13.0 numpy==2.4.6
"$folder/env/bin/python" -W ignore - <<'EOF'
import torch
from torch.distributions import Bernoulli, Categorical

torch.manual_seed(0)
tokens = 32_000
logits = torch.randn(500, tokens)
exact = logits.softmax(-1)
token = torch.multinomial(exact, 1)[:, 0]


def perplexities(distribution):
    entropy = distribution.entropy().float().mean().exp().item()
    return entropy, (-distribution.log_prob(token).float()).mean().exp().item()


found = {}
for kind in torch.float32, torch.bfloat16, torch.float16:
    uniform = Categorical(probs=torch.full((tokens,), 1 / tokens, dtype=kind), validate_args=False)
    found[kind] = (
        uniform.entropy().float().exp().item(),
        *perplexities(Categorical(probs=exact.to(kind), validate_args=False)),
        *perplexities(Categorical(logits=exact.log().to(kind))),
        -Bernoulli(probs=torch.tensor(1e-4, dtype=kind))
        .log_prob(torch.ones((), dtype=kind))
        .item(),
    )
    equal, entropy, drawn, by_logits, drawn_by_logits, rare = found[kind]
    print(f"{kind}: perplexity of equal tokens {equal:,.0f}; of the model by its entropy"
          f" {entropy:,.0f}, by its tokens {drawn:,.0f}; from logits {by_logits:,.0f} and"
          f" {drawn_by_logits:,.0f}; loss of an event of 1 in 10,000: {rare:.2f}")
    print("  largest error of the probabilities themselves:",
          f"{((exact.to(kind).float() - exact).abs() / exact).max():.4f}")

assert abs(found[torch.float32][0] / tokens - 1) < 1e-3
assert 120 < found[torch.bfloat16][0] < 135 and 950 < found[torch.float16][0] < 1_100
assert found[torch.float32][1] > 15_000 and found[torch.bfloat16][1] < 200
assert found[torch.bfloat16][2] < 200 < 15_000 < found[torch.bfloat16][3]
assert found[torch.bfloat16][5] < 5 < 9 < found[torch.float32][5]
EOF
