"""Write every number that the project shows into one JSON file, to compare two versions of it.

Run from the root of a repository, after ``make release`` or with the pages of ``book/notebooks``:

    python benchmarks/shown.py --out before.json    # at the old version
    python benchmarks/shown.py --out after.json     # at the new one
    python benchmarks/shown.py --diff before.json after.json    # exit code 1 if anything differs

The file holds section, then key, then the lines shown. Sections: the outputs of the executed pages,
the board of claims, results by metric and recalibration, lists of runs, cells and data sets,
reports on example files, the help of each command. `--only SECTION` takes one of them.

It imports nothing of the project: it runs ``python -m calibkit`` in the current folder and reads
notebooks. HTML is reduced to its visible text and to the numbers that explorable figures carry.
Pictures are counted where no CSV beside them holds what they draw. Masked, as they differ between
two runs of one version: addresses of objects, absolute paths.
"""

import argparse
import csv
import difflib
import hashlib
import json
import math
import os
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from html.parser import HTMLParser
from pathlib import Path

import numpy as np

EDITIONS = "smoke demo released cifar10 paper".split()
RECALIBRATIONS = "none ts_nll ts_ece ts_test binned".split()
METRICS = """accuracy auroc aupr_error aupr_success fpr_at_tpr aurc eaurc augrc ece excess_ece
    adaptive_ece classwise_ece nll brier overconfidence_error""".split()
ALONE = """risk_at_coverage_0.8 coverage_at_risk_0.05 debiased_ece ece_scaled ece_optimal
    excess_adaptive_ece excess_classwise_ece brier_calibration brier_refinement temperature
    train_accuracy mce confidence confidence_gap histogram_overlap sure_when_wrong""".split()
MAPS = "temperature structured vector matrix beta top isotonic histogram".split()
ROOT = Path.cwd()
LONG = 200  # characters; of longer words, such as packed arrays, the file keeps a hash
CLOSE = 1e-12  # relative difference of numbers that count as equal
NUMBER = re.compile(r"(?<![\w.])(\d+(?:\.\d+)?(?:[eE][-+]?\d+)?)(?!\w)")
PATH = re.compile(r"""(?<![\w/:.])/(?:work|home|root|tmp|Users|var|private)/[^\s'"<>,;)]*""")


# --- lines ---


def lines_of(text: str) -> list[str]:
    """The lines of a text that are not empty, without what differs between runs."""
    text = re.sub(r"\b0x[0-9a-f]{6,}\b", "0x…", text)
    text = PATH.sub(lambda m: "<path>/" + re.sub(r"^tmp\w+$", "", m[0].rpartition("/")[2]), text)
    return [line.rstrip() for line in text.splitlines() if line.strip()]


def flat(value, name: str = "") -> list[str]:
    """A JSON value as lines ``name: value``, one for each number or text in it."""
    if isinstance(value, dict | list) and value:
        items = sorted(value.items()) if isinstance(value, dict) else enumerate(value)
        return [line for key, its in items for line in flat(its, f"{name}/{key}")]
    text = json.dumps(value, ensure_ascii=False)
    if len(text) > LONG and " " not in text:
        text = f"{len(text)} characters, {hashlib.sha256(text.encode()).hexdigest()}"
    return [line for line in lines_of(f"{name}: {text}")]


class Visible(HTMLParser):
    """The visible text of HTML in `lines`, a row of a table in each; `pictures` counts images."""

    INLINE = "a b i em strong small span code sub sup th td abbr".split()

    def __init__(self, text: str) -> None:
        super().__init__()
        self.parts, self.hidden, self.pictures, self.more = [], 0, 0, []
        self.feed(text)
        self.close()
        words = (" ".join(line.split()) for line in "".join(self.parts).split("\n"))
        self.lines = lines_of("\n".join(line for line in words if line.strip(" |"))) + self.more

    def handle_starttag(self, tag: str, attributes: list) -> None:
        given = dict(attributes)
        self.hidden += tag in ("style", "script")
        self.pictures += tag == "img"
        self.parts.append(" | " if tag in ("td", "th") else "" if tag in self.INLINE else "\n")
        if tag == "calibkit-explorable":
            self.more += flat(json.loads(given["numbers"]), given["kind"])
        elif inside := given.get("srcdoc"):
            page = Visible(inside)
            self.more += page.lines
            self.pictures += page.pictures

    def handle_endtag(self, tag: str) -> None:
        self.hidden -= tag in ("style", "script")
        self.parts.append("" if tag in self.INLINE else "\n")

    def handle_data(self, text: str) -> None:
        if not self.hidden:
            self.parts.append(text.replace("\n", " "))


def visible(text: str) -> list[str]:
    page = Visible(text)
    return page.lines + [f"pictures: {page.pictures}"] * bool(page.pictures)


# --- pages ---


def pages(options) -> dict[str, list[str]]:
    """By page and place among its cells with outputs: what the cell shows."""
    found = {}
    for path in sorted(Path(options.pages).glob("*.ipynb")):
        cells = json.loads(path.read_text("utf-8"))["cells"]
        outputs = [cell["outputs"] for cell in cells if cell.get("outputs")]
        for i, its in enumerate(outputs):
            found[f"{path.stem} {i:03}"] = [line for output in its for line in shown(output)]
    if not found:
        sys.exit(f"no notebook in {options.pages}")
    return found


def shown(output: dict) -> list[str]:
    """One output of a cell, below a line that says its kind."""
    if output["output_type"] == "stream":
        return [f"[{output['name']}]", *lines_of("".join(output["text"]))]
    if output["output_type"] == "error":
        return ["[error]", *lines_of(f"{output['ename']}: {output['evalue']}")]
    data = {
        kind: "".join(its) for kind, its in output["data"].items() if isinstance(its, str | list)
    }
    lines = []
    for kind in ("text/markdown", "text/html", "text/csv"):
        if kind in data:
            lines += [f"[{kind}]", *(visible if kind == "text/html" else lines_of)(data[kind])]
    pictures = [kind for kind in data if kind.startswith("image/")]
    if pictures and "text/csv" not in data:
        lines.append(f"[pictures: {len(pictures)}]")
    return lines or ["[text/plain]", *lines_of(data.get("text/plain", ""))]


# --- commands ---


def calibkit(*words: str, folder: Path = ROOT) -> str:
    """What a command prints; if it fails, with its exit code and what it says of that."""
    env = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "COLUMNS": "100"}
    command = [sys.executable, "-m", "calibkit", *words]
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True)
    failed = f"\nexit code {done.returncode}\n{done.stderr}" if done.returncode else ""
    return done.stdout + failed


def printed(commands: list[str], cores: int) -> dict[str, list[str]]:
    """By command, the lines that it prints; numbers of JSON one a line."""

    def one(command: str) -> list[str]:
        text = calibkit(*command.split())
        return flat(json.loads(text)) if "--json" in command else lines_of(text)

    with ThreadPoolExecutor(cores) as pool:
        return dict(zip(commands, pool.map(one, commands), strict=True))


def claims(options) -> dict[str, list[str]]:
    return printed(["claims --json", "claims"], options.cores)


def results(options) -> dict[str, list[str]]:
    """Of every setting, as one call compares them all."""
    asked = [(metric, how) for metric in METRICS for how in RECALIBRATIONS]
    asked += [(metric, "none") for metric in ALONE]
    commands = [f"results --metric {metric} --recalibration {how} --csv" for metric, how in asked]
    return printed(commands, options.cores)


def listings(options) -> dict[str, list[str]]:
    missing = [f"runs --paper all --missing --edition {edition}" for edition in EDITIONS]
    others = ["runs --edition released", "plan", "plan --csv", "data list"]
    return printed(missing + others, options.cores)


def helps(options) -> dict[str, list[str]]:
    """The help of every command and of the commands below it."""

    def add(*words: str) -> None:
        text = calibkit(*words, "--help")
        found[" ".join(words) or "calibkit"] = lines_of(text)
        for name in re.findall(r"^    ([a-z]\w*)", text, re.MULTILINE):
            add(*words, name)

    found: dict[str, list[str]] = {}
    add()
    return found


# --- reports on example files ---


def examples(folder: Path) -> None:
    """Prediction files of every kind, from one seed."""
    random = np.random.default_rng(20261127)

    def scores(labels, classes: int, signal=2.0, sharp=2.5):
        noise = random.normal(size=(len(labels), classes))
        return sharp * (noise + signal * np.eye(classes)[labels])

    def probabilities(logits):
        powers = np.exp(logits - logits.max(1, keepdims=True))
        return powers / powers.sum(1, keepdims=True)

    def table(name: str, columns: dict, **form) -> None:
        with open(folder / name, "w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file, **form)
            writer.writerow(columns)
            writer.writerows(zip(*columns.values(), strict=True))

    def lines(name: str, rows: list[dict]) -> None:
        text = "\n".join(json.dumps(row) for row in rows)
        (folder / name).write_text(text + "\n", encoding="utf-8")

    y, val_y = random.integers(10, size=900), random.integers(10, size=700)
    for name, signal, sharp in (("ten", 1.6, 3.0), ("ten_b", 1.8, 1.2), ("ten_c", 1.4, 2.0)):
        arrays = {"logits": scores(y, 10, signal, sharp), "labels": y}
        arrays |= {"val_logits": scores(val_y, 10, signal, sharp), "val_labels": val_y}
        np.savez(folder / f"{name}.npz", **arrays)
    np.savez(folder / "no_validation.npz", logits=scores(y, 10), labels=y)
    np.savez(folder / "few.npz", logits=scores(y[:60], 10, 3.5), labels=y[:60])
    site = np.array(["north", "south", "west"])[random.integers(3, size=900)]
    np.savez(folder / "groups.npz", logits=scores(y, 10), labels=y, groups=site)
    weights = random.exponential(size=900)
    np.savez(folder / "weights.npz", probs=probabilities(scores(y, 10)), labels=y, weights=weights)
    np.save(folder / "scores.npy", scores(y, 10))
    (folder / "labels.txt").write_text("\n".join(map(str, y)) + "\n")
    tokens = random.integers(5, size=(40, 12))
    wide = scores(tokens.ravel(), 5).reshape(40, 12, 5)
    np.savez(folder / "tokens.npz", logits=wide, labels=tokens)

    z = (random.random(3000) < 0.04).astype(int)
    p = probabilities(scores(z, 2, 1.5, 1.5))[:, 1]
    split = np.where(random.random(3000) < 0.5, "val", "test")
    names = np.array(["fine", "fraud"])[z]
    table("rare.csv", {"prob_fraud": p, "label": names, "split": split})
    age = np.where(random.random(900) < 0.3, "old", "young")
    three = probabilities(scores(y % 3, 3))
    columns = {f"prob_{c}": three[:, i] for i, c in enumerate("abc")}
    table("site.csv", columns | {"label": np.array(list("abc"))[y % 3], "site": site, "age": age})
    commas = {f"logit_{c}": [f"{v:.6f}".replace(".", ",") for v in scores(y % 2, 2)[:, i]]
              for i, c in enumerate(("no", "yes"))}  # fmt: skip
    table("commas.csv", commas | {"label": np.array(["no", "yes"])[y % 2]}, delimiter=";")
    leaf = random.integers(21, size=1200)  # of a tree: many samples with equal scores
    right = (random.random(1200) < 0.1 + 0.8 * leaf / 20).astype(int)
    table("tree.csv", {"prob_1": leaf / 20, "label": right})
    confidence = random.beta(6, 2, size=1000)
    correct = random.random(1000) < confidence**1.5
    for name, part in (("answers", slice(0, 500)), ("answers_b", slice(500, 1000))):
        rows = [
            {"confidence": c, "correct": bool(r)} for c, r in zip(confidence, correct, strict=True)
        ]
        lines(f"{name}.jsonl", rows[part])
    days = [f"2026-{1 + i // 250:02}-{1 + i % 25:02}" for i in range(1000)]
    late = random.random(1000) < confidence ** np.linspace(1, 3, 1000)
    table("dated.csv", {"date": days, "confidence": confidence, "correct": late.astype(int)})
    rows = []
    for i in range(300):
        size, target = 3 + i % 3, int(random.integers(3))
        each = random.normal(size=size) * 2 - 10 + 2.5 * (np.arange(size) == target)
        pairs = [[float(v), bool(v == max(each))] for v in each]
        rows.append({"doc_id": i, "target": target, "filtered_resps": pairs, "filter": "none",
                     "acc": float(each.argmax() == target)})  # fmt: skip
    lines("harness.jsonl", rows)
    content = {"probs": three.tolist(), "labels": (y % 3).tolist()}
    (folder / "three.json").write_text(json.dumps(content))


REPORTS = """ten.npz
ten.npz --target-risk 0.05 0.1
ten.npz --against ten_b.npz
ten.npz --fail-if ece>0.001
no_validation.npz
few.npz
groups.npz
weights.npz
scores.npy --labels labels.txt
tokens.npz --tokens
rare.csv --positive fraud --budget 50 --cost-ratio 10 --precision 0.3 --recall 0.8
site.csv --group site --group age
commas.csv
tree.csv
answers.jsonl
harness.jsonl
three.json""".splitlines()
COMPARISONS = """ten.npz ten_b.npz
ten.npz ten_b.npz ten_c.npz
answers.jsonl answers_b.jsonl --unpaired
dated.csv""".splitlines()


def reports(options) -> dict[str, list[str]]:
    """What is printed about the example files, the JSON and the visible text of the pages."""
    real = sorted(str(path) for path in ROOT.glob("data_cache/runs/cifar10-*-s0-*/arrays.npz"))[:2]
    commands = [f"report {words}" for words in REPORTS + real]
    commands += [f"compare {words}" for words in COMPARISONS]
    for words in ("ten.npz", "no_validation.npz", "rare.csv --positive fraud --budget 50"):
        commands += [f"recalibrate {words} --map {kind}" for kind in MAPS]
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        examples(folder)

        def one(number: int) -> dict[str, list[str]]:
            command, out = commands[number], folder / f"out{number}"
            name = " ".join(Path(w).parent.name if "/" in w else w for w in command.split())
            save = ["--save", f"{out}.json"] if command.startswith("recal") else ["--out", str(out)]
            found = {f"{name}: text": lines_of(calibkit(*command.split(), *save, folder=folder))}
            for file in sorted([*out.glob("*.json"), *folder.glob(f"out{number}.json")]):
                found[f"{name}: json"] = flat(json.loads(file.read_text("utf-8")))
            for file in sorted(out.glob("*.html")):
                found[f"{name}: page"] = visible(file.read_text("utf-8"))
            return found

        with ThreadPoolExecutor(options.cores) as pool:
            found = {k: v for its in pool.map(one, range(len(commands))) for k, v in its.items()}
        for command in (f"report {REPORTS[0]}", f"compare {COMPARISONS[0]}"):
            text = calibkit(*command.split(), "--json", folder=folder)
            found[f"{command} --json"] = flat(json.loads(text))
    return found


# --- comparison ---


def close(a: str, b: str) -> bool:
    """Whether two lines differ only in numbers, and in these by no more than rounding."""
    first, second = NUMBER.split(a), NUMBER.split(b)
    return len(first) == len(second) and all(
        x == y or (i % 2 and math.isclose(float(x), float(y), rel_tol=CLOSE))
        for i, (x, y) in enumerate(zip(first, second, strict=True))
    )


def compare(first: dict, second: dict, most: int = 20) -> int:
    """Print the keys that differ, with their first lines; 1 if there are any."""
    differ = 0
    for section in sorted(first.keys() | second.keys()):
        a, b = first.get(section, {}), second.get(section, {})
        counts = {"equal": 0, "equal but for rounding": 0, "different": 0}
        for key in sorted(a.keys() | b.keys()):
            x, y = a.get(key, []), b.get(key, [])
            same = key in a and key in b and len(x) == len(y)
            if same and x == y:
                counts["equal"] += 1
            elif same and all(map(close, x, y)):
                counts["equal but for rounding"] += 1
                print(f"~ {section} / {key}: {sum(map(str.__ne__, x, y))} lines")
            else:
                counts["different"] += 1
                where = "" if key in a and key in b else " only in " + "AB"[key in b]
                print(f"! {section} / {key}{where}")
                changes = (
                    list(difflib.unified_diff(x, y, lineterm="", n=0))[2:] if not where else []
                )
                changes = [line for line in changes if not line.startswith("@@")]
                print(*(f"    {line[:LONG]}" for line in changes[:most]), sep="\n")
                print(f"    ... of {len(changes)} lines" * (len(changes) > most))
        print(f"{section}: {', '.join(f'{n} keys {how}' for how, n in counts.items())}")
        differ += counts["different"]
    return int(differ > 0)


SECTIONS = {"pages": pages, "claims": claims, "results": results, "listings": listings,
            "report": reports, "help": helps}  # fmt: skip


def main() -> int:
    released = "build/released/book/notebooks"
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", help="the file to write")
    parser.add_argument("--only", choices=SECTIONS, help="this section alone")
    default = released if Path(released).is_dir() else "book/notebooks"
    parser.add_argument(
        "--pages", default=default, help="folder of executed notebooks (%(default)s)"
    )
    parser.add_argument("--cores", type=int, default=2, help="commands at once (%(default)s)")
    parser.add_argument("--diff", nargs=2, metavar=("A", "B"), help="compare two such files")
    options = parser.parse_args()
    chosen = [options.only] if options.only else list(SECTIONS)
    if options.diff:
        two = (json.loads(Path(path).read_text("utf-8")) for path in options.diff)
        return compare(*({name: its[name] for name in chosen if name in its} for its in two))
    if not options.out:
        parser.error("--out FILE or --diff A B")
    found = {}
    for name in chosen:
        found[name] = SECTIONS[name](options)
        print(
            f"{name}: {len(found[name])} keys, {sum(map(len, found[name].values()))} lines",
            flush=True,
        )
    text = json.dumps(found, indent=1, sort_keys=True, ensure_ascii=False)
    Path(options.out).write_text(text + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
