#!/usr/bin/env bash
# transformers 5.24.0 with accelerate 1.15.0 and torch 2.13.0 (PyPI): Trainer.evaluate() of a
# language model on texts of different lengths, padded, padding labelled -100.
# Guess: eval_loss is the mean loss of a predicted token, so that exp(eval_loss) is the perplexity,
#   and per_device_eval_batch_size is a matter of speed and memory.
# Seen: in each batch the tokens' losses are divided by the number of labels, the first of each text
#   included, which nothing predicts. Then a batch counts once per ROW. So a short text's tokens
#   count more than a long one's, by an amount that depends on which texts share a batch, and all
#   losses are too low by a factor (length - 1) / length.
# Wrong number: where long texts are easier (15 tokens in the mean), one model on the same texts
#   has a perplexity of 63, 42 or 39, with batches of 1, 32 or 200 texts. It is 51.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder/env"
"$folder/env/bin/pip" install -q --disable-pip-version-check transformers==5.24.0 \
    accelerate==1.15.0 torch==2.13.0 numpy==2.4.6
"$folder/env/bin/python" -W ignore - "$folder" <<'EOF'
import sys

import numpy as np
import torch
import transformers
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

transformers.utils.logging.set_verbosity_error()
draw = np.random.default_rng(0)
torch.manual_seed(0)
torch.set_num_threads(1)
words, padding = 200, 0


def texts(n):
    rows = []
    for _ in range(n):
        length = int(np.clip(draw.lognormal(2.2, 1.0), 2, 120))
        if length > 20:  # long texts repeat themselves and are easier
            row = (draw.integers(1, words) + np.arange(length)) % (words - 1) + 1
        else:
            row = draw.integers(1, words, length)
        rows.append({"input_ids": row.tolist()})
    return rows


def batch(rows):
    longest = max(len(row["input_ids"]) for row in rows)
    ids = torch.full((len(rows), longest), padding)
    real = torch.zeros_like(ids)
    for i, row in enumerate(rows):
        ids[i, : len(row["input_ids"])] = torch.tensor(row["input_ids"])
        real[i, : len(row["input_ids"])] = 1
    labels = torch.where(real == 1, ids, -100)
    return {"input_ids": ids, "attention_mask": real, "labels": labels}


training, held_out = texts(600), texts(200)
model = GPT2LMHeadModel(GPT2Config(
    vocab_size=words, n_positions=128, n_embd=32, n_layer=2, n_head=2,
    bos_token_id=padding, eos_token_id=padding, pad_token_id=padding))
trainer = Trainer(
    model=model,
    args=TrainingArguments(
        sys.argv[1], per_device_train_batch_size=16, num_train_epochs=3, learning_rate=5e-3,
        report_to=[], use_cpu=True, save_strategy="no", disable_tqdm=True, seed=0),
    train_dataset=training,
    data_collator=batch,
)
trainer.train()
model.eval()
sums, lengths = np.empty(len(held_out)), np.array([len(row["input_ids"]) for row in held_out])
with torch.no_grad():
    for i, row in enumerate(held_out):
        one = batch([row])
        loss = model(input_ids=one["input_ids"]).logits[0, :-1].log_softmax(-1)
        sums[i] = -loss.gather(1, one["input_ids"][0, 1:, None]).sum()
by_tokens = np.exp(sums.sum() / (lengths - 1).sum())
print(f"mean length {lengths.mean():.1f}; perplexity {by_tokens:.1f}")
found = {}
for size in 1, 4, 8, 32, 200:
    trainer.args.per_device_eval_batch_size = size
    found[size] = np.exp(trainer.evaluate(held_out)["eval_loss"])
    starts = range(0, len(held_out), size)
    means = [sums[i : i + size].sum() / lengths[i : i + size].sum() for i in starts]
    rows = [len(sums[i : i + size]) for i in starts]
    print(f"batches of {size}: exp(eval_loss) {found[size]:.1f}, as explained above"
          f" {np.exp(np.average(means, weights=rows)):.1f}")
    assert abs(np.exp(np.average(means, weights=rows)) / found[size] - 1) < 0.01
assert found[1] > 1.25 * found[32] and found[1] > 1.4 * found[200]
assert found[200] < 0.85 * by_tokens
EOF
