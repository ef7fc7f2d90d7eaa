"""Run `calibkit report` on sixty files of the kinds that people have.

    python benchmarks/report_files.py [benchmarks/results/report_files.json] [--only NAME]

Every file is written to a temporary folder, and the command runs on it as from a shell. The samples
are drawn from a known model, so each file comes with text that the report must contain and text
that it must not contain. The results are a JSON file, and a Markdown table beside it.
"""

import contextlib
import io
import json
import os
import re
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy.special import expit, logit

from calibkit import cli
from calibkit.arrays import softmax

N = 3000


class Case(NamedTuple):
    """A kind of file: who has it, how it is made, and what is true of it."""

    name: str
    make: Callable[[Path], list[str]]  # writes into a folder, returns arguments of the command
    says: str = ""  # a regular expression that the output matches
    never: str = ""  # and one that it does not
    refused: bool = False


# --- what is in the files: labels drawn from known probabilities ---


def many(n: int = N, k: int = 5, temperature: float = 1.0, seed: int = 0):
    """Logits that are too sharp for their labels if the temperature is below 1."""
    rng = np.random.default_rng(seed)
    logits = 2 * rng.normal(size=(n, k))
    labels = (softmax(logits).cumsum(1) > rng.random((n, 1))).argmax(1)
    return logits / temperature, labels


def event(n: int = N, rate: float = 0.3, odds: float = 1.0, seed: int = 0, skill: float = 1.8):
    """Probability of an event of a given rate, and whether it happened; off by a factor of odds."""
    rng = np.random.default_rng(seed)
    score = skill * rng.normal(size=n)
    low, high = -20.0, 20.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (low, middle) if expit(middle + score).mean() > rate else (middle, high)
    p = expit(low + score)
    return expit(logit(p) + np.log(odds)), rng.random(n) < p


def tree(n: int = N, leaves: int = 8, seed: int = 0):
    """Probabilities of a decision tree: a row for each leaf."""
    rng = np.random.default_rng(0)
    rows = rng.dirichlet(np.ones(3), leaves)
    rng = np.random.default_rng(seed + 1)
    probs = rows[rng.integers(leaves, size=n)]
    return probs, (probs.cumsum(1) > rng.random((n, 1))).argmax(1)


def npz(folder: Path, *options: str, **arrays) -> list[str]:
    np.savez(folder / "preds.npz", **arrays)
    return [str(folder / "preds.npz"), *options]


def table(folder: Path, *options: str, name: str = "preds.csv", form=None, **columns) -> list[str]:
    frame, path = pd.DataFrame(columns), folder / name
    kind = name.removesuffix(".gz").rpartition(".")[2]
    if kind == "parquet":
        frame.to_parquet(path)
    elif kind == "feather":
        frame.to_feather(path)
    elif kind == "jsonl":
        frame.to_json(path, orient="records", lines=True)
    elif kind == "json":
        frame.to_json(path, orient="records")
    else:
        frame.to_csv(path, index=False, **(form or {}))
    return [str(path), *options]


def text(folder: Path, content: str, name: str = "preds.csv") -> list[str]:
    (folder / name).write_text(content, encoding="utf-8")
    return [str(folder / name)]


def harness(folder: Path, strings: bool = True, generated: bool = False) -> list[str]:
    logits, labels = many(400, 4)
    lines = []
    for i, (row, y) in enumerate(zip(logits, labels, strict=True)):
        pairs = [[x - 20, False] for x in row]
        if strings:
            pairs = [[str(x), str(flag)] for x, flag in pairs]
        if generated:
            pairs = ["The answer is 4."]
        target = str(int(y)) if strings else int(y)
        doc = {"question": f"question {i}", "subject": "law" if i % 2 else "physics"}
        found = {"doc_id": i, "doc": doc, "target": target, "filtered_resps": pairs}
        lines.append(json.dumps(found | {"acc": float(row.argmax() == y)}))
    return text(folder, "\n".join(lines), "samples_mmlu.jsonl")


def tensors(folder: Path, **values) -> list[str]:
    import torch

    torch.save(values, folder / "preds.pt")
    return [str(folder / "preds.pt")]


def pickled(folder: Path) -> list[str]:
    np.save(folder / "preds.npy", np.array([{"logits": 1}], dtype=object), allow_pickle=True)
    return [str(folder / "preds.npy")]


def shifted(folder: Path) -> list[str]:
    q, z = event(4000, 0.3, seed=1)
    _, y = event(20_000, 0.3, seed=2)
    p, y = event(20_000, 0.3, seed=2)
    keep = ~y | (np.random.default_rng(0).random(len(y)) < 0.26)  # a tenth is positive
    return table(
        folder,
        label=np.r_[y[keep], z].astype(int),
        prob_sick=np.r_[p[keep], q],
        split=["test"] * int(keep.sum()) + ["val"] * len(q),
    )


def weighted(folder: Path) -> list[str]:
    """All positives and a tenth of the negatives, each of which stands for ten."""
    p, y = event(20_000, 0.05)
    keep = y | (np.random.default_rng(0).random(len(y)) < 0.1)
    weight = np.where(y, 1, 10)[keep]
    return table(folder, label=y[keep].astype(int), prob_sick=p[keep], weight=weight)


def of_tree(folder: Path) -> list[str]:
    (p, y), (q, z) = tree(900), tree(900, seed=9)
    return npz(folder, probs=p, labels=y, val_probs=q, val_labels=z)


def leaked(folder: Path) -> list[str]:
    x, y = many(900)
    return npz(folder, logits=x, labels=y, val_logits=x, val_labels=y)


def validated(folder: Path, temperature: float) -> list[str]:
    (x, y), (v, z) = many(temperature=temperature), many(seed=1, temperature=temperature)
    return npz(folder, logits=x, labels=y, val_logits=v, val_labels=z)


def pairs(n: int = N, power: float = 1.0, seed: int = 0) -> dict:
    rng = np.random.default_rng(seed)
    right = rng.beta(3, 2, n)
    return {"confidence": right**power, "correct": rng.random(n) < right}


def in_words(folder: Path) -> list[str]:
    """What a language model says when asked how sure it is: 80, 90, 95, 100."""
    rng = np.random.default_rng(0)
    said = rng.choice([0.8, 0.9, 0.95, 1.0], N)
    return table(folder, name="said.jsonl", confidence=said, correct=rng.random(N) < 0.7)


def columns(logits, names, prefix="logit_") -> dict:
    return {f"{prefix}{name}": column for name, column in zip(names, logits.T, strict=True)}


ABC = np.array(list("abcde"))
X, Y = many()
SHARP, SHARP_Y = many(temperature=0.4)
FLAT, FLAT_Y = many(temperature=2.5)
P, E = event()
FRAUD, FRAUD_E = event(20_000, 0.023, odds=30, skill=2.0)
BIG, BIG_Y = many(20_000, 200)
RNG = np.random.default_rng(5)
FALSE_ALARM = "identical to those|Strongly|far too"
CASES = [
    # many classes
    Case("logits, calibrated", lambda f: npz(f, logits=X, labels=Y), "No sign|Right on average"),
    Case(
        "logits, too sharp", lambda f: npz(f, logits=SHARP, labels=SHARP_Y), "Strongly over-conf"
    ),
    Case("logits, too flat", lambda f: npz(f, logits=FLAT, labels=FLAT_Y), "under-confident"),
    Case("with a validation set", lambda f: validated(f, 0.4), "Temperature scaling would help"),
    Case("validation set = test set", leaked, "scores identical to those of a validation"),
    Case("decision tree with validation set", of_tree, "only 8 distinct", "identical to those"),
    Case("200 classes", lambda f: npz(f, logits=BIG, labels=BIG_Y), "report.html"),
    Case("float16 logits", lambda f: npz(f, logits=X.astype(np.float16), labels=Y), "report.html"),
    Case("probabilities", lambda f: npz(f, probs=softmax(X), labels=Y), "No sign|Right on"),
    Case(
        "probabilities to two decimals",
        lambda f: npz(f, probs=softmax(X).round(2), labels=Y),
        "are rounded|2 decimals",
        "Strongly",
    ),
    Case("probabilities called logits", lambda f: npz(f, logits=softmax(X), labels=Y), "sum to 1"),
    Case("one-hot labels", lambda f: npz(f, logits=X, labels=np.eye(5)[Y]), "report.html"),
    Case(
        "labels -100 among them",
        lambda f: npz(f, logits=X, labels=np.where(np.arange(N) % 10 == 0, -100, Y)),
        "300 of 3,000 samples have no label",
    ),
    Case("all right", lambda f: npz(f, logits=X, labels=X.argmax(1)), "No verdict.*own answers"),
    Case(
        "labels shuffled",
        lambda f: npz(f, logits=3 * X, labels=RNG.permutation(Y)),
        "Do the labels match|over-confident",
    ),
    Case("40 samples", lambda f: npz(f, logits=X[:40], labels=Y[:40]), "report.html"),
    Case(
        "groups in an array",
        lambda f: npz(f, logits=X, labels=Y, groups=np.arange(N) % 3),
        "report.html",
    ),
    Case(
        "two columns of groups",
        lambda f: table(
            f, "--group", "site", "--group", "age",
            label=ABC[Y], site=RNG.integers(4, size=N), age=RNG.integers(3, size=N),
            **columns(X, ABC),
        ),
        "report.html",
    ),  # fmt: skip
    # two classes
    Case(
        "fraud, trained with class weights",
        lambda f: table(f, label=np.where(FRAUD_E, "fraud", "legit"), prob_fraud=FRAUD),
        "Probability of “fraud” is far too high.*Class weights",
        "under-confident",
    ),
    Case(
        "fraud, flag 200",
        lambda f: table(f, "--budget", "200", label=FRAUD_E.astype(int), prob_fraud=FRAUD),
        "To flag at most 200",
    ),
    Case(
        "fraud, a miss costs 50",
        lambda f: table(f, "--cost-ratio", "50", label=FRAUD_E.astype(int), prob_fraud=FRAUD),
        "If a missed “fraud” costs 50",
    ),
    Case(
        "fraud, the other class named",
        lambda f: table(
            f, "--positive", "legit", label=np.where(FRAUD_E, "fraud", "legit"), prob_fraud=FRAUD
        ),
        "Probability of “legit” is too low",
    ),
    Case("two classes, calibrated", lambda f: npz(f, probs=P, labels=E.astype(int)), "", "too "),
    Case("y_true and y_prob", lambda f: table(f, y_true=E.astype(int), y_prob=P), "No sign|Right"),
    Case("y_proba of scikit-learn", lambda f: npz(f, y_proba=np.c_[1 - P, P], y_test=E.astype(int)),
         "Read 'y_"),
    Case("scores of a margin", lambda f: npz(f, scores=logit(P), y_true=E.astype(int)), "report"),
    Case("p_ columns", lambda f: table(f, label=E.astype(int), p_0=1 - P, p_1=P), "report.html"),
    Case("validation 30 %, test 10 % positive", shifted, "is not as common as in validation"),
    Case("sampled negatives, weighted", weighted, "Samples are weighted", "far too"),
    Case(
        "only 6 positives",
        lambda f: table(f, label=(np.arange(N) < 6).astype(int), prob_sick=event(N, 0.01)[0]),
        "Too few samples of “sick”",
        "Strongly|far too",
    ),
    Case(
        "probability of the wrong class",
        lambda f: table(f, label=E.astype(int), prob_sick=1 - P),
        "gets lower probabilities than the rest",
    ),
    Case(
        "random forest, 10 trees",
        lambda f: table(f, label=E.astype(int), prob_sick=P.round(1).clip(0, 1)),
        "distinct confidences",
        "identical to those",
    ),
    Case("percentages", lambda f: table(f, label=E.astype(int), prob_sick=100 * P),
         "read as percentages", "too "),
    Case("labels -1 and 1", lambda f: npz(f, probs=P, labels=2 * E.astype(int) - 1),
         "read as the two classes -1 and 1", "too "),
    Case("columns in another order", lambda f: npz(f, logits=X[:, [1, 2, 0, 4, 3]], labels=Y),
         "No verdict.*another order", "Strongly"),
    # confidences of answers
    Case("pairs, calibrated", lambda f: table(f, **pairs()), "No sign|Right on", "Strongly"),
    Case("pairs, over-confident", lambda f: npz(f, **pairs(power=0.3)), "Strongly over-confident"),
    Case("pairs as JSON lines", lambda f: table(f, name="p.jsonl", **pairs()), "report.html"),
    Case("pairs as Parquet", lambda f: table(f, name="p.parquet", **pairs()), "report.html"),
    Case("confidence in words", in_words, "only 3 distinct"),
    Case(
        "answer, label and confidence",
        lambda f: table(
            f, label=ABC[Y], prediction=ABC[X.argmax(1)], confidence=softmax(X).max(1)
        ),
        "is right if 'prediction' and 'label' are the same",
    ),
    Case(
        "log-probability of an answer",
        lambda f: table(f, logprob=np.log(pairs()["confidence"]), correct=pairs()["correct"]),
        r"exp\(logprob\)",
    ),
    Case("lm-evaluation-harness", harness, "normalised over the choices"),
    Case("the same, older", lambda f: harness(f, strings=False), "normalised over the choices"),
    # formats
    Case("semicolons, decimal commas", lambda f: table(
        f, form={"sep": ";", "decimal": ","}, label=ABC[Y], **columns(X, ABC)), "semicolons"),
    Case("csv.gz", lambda f: table(f, name="p.csv.gz", label=ABC[Y], **columns(X, ABC)), "report"),
    Case("feather", lambda f: table(f, name="p.feather", label=ABC[Y], **columns(X, ABC)), "repo"),
    Case("JSON rows", lambda f: table(f, name="p.json", label=ABC[Y], **columns(X, ABC)), "report"),
    Case(
        "JSON arrays",
        lambda f: text(f, json.dumps({"logits": X.tolist(), "labels": Y.tolist()}), "p.json"),
        "report.html",
    ),
    Case(
        "JSON lines with a list of probabilities",
        lambda f: text(f, "\n".join(json.dumps({"probs": p.tolist(), "label": int(y)})
                                    for p, y in zip(softmax(X), Y, strict=True)), "p.jsonl"),
        "report.html",
    ),  # fmt: skip
    Case("tensors", lambda f: tensors(f, logits=__import__("torch").tensor(X),
                                      labels=__import__("torch").tensor(Y)), "report.html"),
    Case(
        "token scores",
        lambda f: npz(
            f, "--tokens", logits=X.reshape(300, 10, 5),
            labels=np.where(np.arange(N) % 10 < 7, Y, -100).reshape(300, 10),
        ),
        "each token is a sample",
    ),  # fmt: skip
    # refused
    Case("token scores without --tokens", lambda f: npz(
        f, logits=X.reshape(300, 10, 5), labels=Y.reshape(300, 10)), "--tokens", refused=True),
    Case("pickled objects", pickled, "could run code", refused=True),
    Case("generated text", lambda f: harness(f, generated=True), "confidence and correct",
         refused=True),
    Case("scores 0 to 10 as a probability", lambda f: table(
        f, label=E.astype(int), prob_sick=10 * P), r"from 0\.\d+ to \d", "-[89]", refused=True),
    Case("answers only", lambda f: table(f, label=ABC[Y], pred=ABC[X.argmax(1)]),
         "expected prob_NAME", refused=True),
    Case("labels from 1", lambda f: npz(f, logits=X, labels=Y + 1), "counted from 0", refused=True),
    Case("one column, unclear labels", lambda f: table(
        f, label=np.where(E, "up", "down"), y_prob=P), "probability of", refused=True),
    Case("empty file", lambda f: text(f, ""), "the file is empty", refused=True),
    Case("a picture called .npz", lambda f: text(f, "\x89PNG not arrays", "preds.npz"), "NumPy",
         refused=True),
]  # fmt: skip


def run(case: Case) -> dict:
    """Report on one file; what was printed, and whether it is as it must be."""
    start = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        arguments = case.make(Path(folder))
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = cli.main(["report", *arguments, "--out", os.path.join(folder, "report")])
        printed = (out.getvalue() + err.getvalue()).replace(folder + os.sep, "")
    lines = [line for line in printed.splitlines() if line.strip()]
    flat = " ".join(printed.split()).replace("\u00a0", " ")
    right = (code == 2 and len(lines) == 1) if case.refused else code == 0
    right &= bool(re.search(case.says, flat)) and not (case.never and re.search(case.never, flat))
    shown = arguments[0].rpartition(os.sep)[2]
    options = [word.replace(folder + os.sep, "") for word in arguments[1:]]
    return {
        "name": case.name,
        "file": " ".join([shown, *options]),
        "outcome": "refused" if code else "report",
        "as_it_must": right,
        "said": [lines[0].removeprefix("calibkit: ")] if code else lines[::2][:4],
        "printed": printed,
        "seconds": round(time.perf_counter() - start, 2),
    }


def as_table(rows: list[dict]) -> str:
    """The results as a Markdown table."""
    right = sum(row["as_it_must"] for row in rows)
    lines = [
        "# What `calibkit report` makes of files people have",
        "",
        f"{right} of {len(rows)} as they must be. Made by `python benchmarks/report_files.py`.",
        "",
        "| what | file | outcome | said |",
        "| --- | --- | --- | --- |",
    ]
    for row in rows:
        said = " · ".join(row["said"]).replace("|", "\\|").replace("\u00a0", " ")
        mark = "" if row["as_it_must"] else " **not as it must be**"
        lines.append(f"| {row['name']} | `{row['file']}` | {row['outcome']}{mark} | {said} |")
    return "\n".join(lines) + "\n"


def main(arguments: list[str]) -> int:
    """Run all cases, or those whose name contains a text; write and print the results."""
    only = arguments[arguments.index("--only") + 1] if "--only" in arguments else ""
    rows = []
    for case in CASES:
        if only in case.name:
            rows.append(run(case))
            print(f"{'ok ' if rows[-1]['as_it_must'] else 'NOT'} {case.name}", flush=True)
            if not rows[-1]["as_it_must"]:
                print(rows[-1]["printed"])
    if arguments and arguments[0] != "--only":
        path = Path(arguments[0])
        kept = [{k: v for k, v in row.items() if k != "printed"} for row in rows]
        found = {"date": f"{datetime.now(UTC):%Y-%m-%d}", "files": kept}
        path.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        path.with_suffix(".md").write_text(as_table(rows), encoding="utf-8")
    return 0 if all(row["as_it_must"] for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
