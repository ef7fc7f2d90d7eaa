"""Write every number that the project shows into one JSON file, to compare two versions of it.

Run from the root of a repository, after ``make release`` or with the pages of ``book/notebooks``:

    python benchmarks/shown.py --out before.json    # at the old version
    python benchmarks/shown.py --out after.json     # at the new one
    python benchmarks/shown.py --diff before.json after.json    # exit code 1 if anything differs

The file holds section, key, lines shown. It imports nothing of the project: it runs ``python -m
calibkit`` in the current folder and reads notebooks. HTML is reduced to its visible text and to the
numbers that explorable figures carry. Pictures are counted where no CSV holds what they draw.
Addresses of objects and absolute paths are masked, as they differ between runs of one version.
"""

import argparse
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
import pandas as pd

RECALIBRATIONS = "none ts_nll ts_ece ts_test binned".split()
METRICS = """accuracy auroc aupr_error aupr_success fpr_at_tpr aurc eaurc augrc ece excess_ece
    adaptive_ece classwise_ece nll brier overconfidence_error""".split()
ALONE = """risk_at_coverage_0.8 coverage_at_risk_0.05 debiased_ece ece_scaled ece_optimal
    excess_adaptive_ece excess_classwise_ece brier_calibration brier_refinement temperature
    train_accuracy mce confidence confidence_gap histogram_overlap sure_when_wrong""".split()
RESULTS = [(metric, how) for metric in METRICS for how in RECALIBRATIONS]
RESULTS += [(metric, "none") for metric in ALONE]
LISTINGS = [
    *(f"runs --paper all --missing --edition {edition}"
      for edition in "smoke demo released cifar10 paper".split()),
    "runs --edition released", "plan", "plan --csv", "data list",
]  # fmt: skip
REPORTS = """ten.npz | ten.npz --target-risk 0.05 0.1 | ten.npz --against ten_b.npz
    | ten.npz --fail-if ece>0.001 | no_validation.npz | few.npz | groups.npz | weights.npz
    | scores.npy --labels labels.txt | tokens.npz --tokens | commas.csv | tree.csv | answers.jsonl
    | rare.csv --positive fraud --budget 50 --cost-ratio 10 --precision 0.3 --recall 0.8
    | site.csv --group site --group age | harness.jsonl | three.json""".split("|")
COMPARISONS = """ten.npz ten_b.npz | ten.npz ten_b.npz ten_c.npz
    | answers.jsonl answers_b.jsonl --unpaired | dated.csv""".split("|")
RECALIBRATED = "ten.npz | no_validation.npz | rare.csv --positive fraud --budget 50".split("|")
MAPS = "temperature structured vector matrix beta top isotonic histogram".split()
ROOT = Path.cwd()
RELEASED = Path("build/released/book/notebooks")
LONG = 200  # characters; of longer words, such as packed arrays, the file keeps a hash
CLOSE = 1e-12  # relative difference of numbers that count as equal
NUMBER = re.compile(r"(?<![\w.])(\d+(?:\.\d+)?(?:[eE][-+]?\d+)?)(?!\w)")
PATH = re.compile(r"""(?<![\w/:.])/(?:work|home|root|tmp|Users|var|private)/[^\s'"<>,;)]*""")


def lines_of(text: str) -> list[str]:
    """Split a text into lines without empty lines, and mask what differs between runs."""
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
    return lines_of(f"{name}: {text}")


class Visible(HTMLParser):
    """The visible text of HTML in `lines`, a row of a table in each; `pictures` counts images."""

    INLINE = "a b i em strong small span code sub sup abbr".split()

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
        self.parts.append(" | " if tag in ("td", "th") else "\n" * (tag not in self.INLINE))
        if tag == "calibkit-explorable":
            self.more += flat(json.loads(given["numbers"]), given["kind"])
        elif "srcdoc" in given:
            self.more += visible(given["srcdoc"])

    def handle_endtag(self, tag: str) -> None:
        self.hidden -= tag in ("style", "script")
        self.parts.append("\n" * (tag not in (*self.INLINE, "td", "th")))

    def handle_data(self, text: str) -> None:
        self.parts.append("" if self.hidden else text.replace("\n", " "))


def visible(text: str) -> list[str]:
    page = Visible(text)
    return page.lines + [f"pictures: {page.pictures}"] * bool(page.pictures)


def pages(folder: str) -> dict[str, list[str]]:
    """Return what each cell of each page shows, by page and number of the cell."""
    found = {}
    for path in sorted(Path(folder).glob("*.ipynb")):
        cells = json.loads(path.read_text("utf-8"))["cells"]
        outputs = [cell["outputs"] for cell in cells if cell.get("outputs")]
        for i, its in enumerate(outputs):
            found[f"{path.stem} {i:03}"] = [line for output in its for line in shown(output)]
    return found or sys.exit(f"no notebook in {folder}")


def shown(output: dict) -> list[str]:
    """One output of a cell, each kind below a line that names it."""
    if output["output_type"] == "stream":
        return [f"[{output['name']}]", *lines_of("".join(output["text"]))]
    if output["output_type"] == "error":
        return ["[error]", *lines_of(f"{output['ename']}: {output['evalue']}")]
    data, lines = output["data"], []
    for kind in ("text/markdown", "text/html", "text/csv"):
        if kind in data:
            read = visible if kind == "text/html" else lines_of
            lines += [f"[{kind}]", *read("".join(data[kind]))]
    if "text/csv" not in data and (pictures := sum(kind.startswith("image/") for kind in data)):
        lines.append(f"[pictures: {pictures}]")
    return lines or ["[text/plain]", *lines_of("".join(data.get("text/plain", "")))]


def calibkit(command: str, folder: Path = ROOT) -> list[str]:
    """The lines that a command prints, of JSON one for each number; its exit code, if not 0."""
    env = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "COLUMNS": "100"}
    words = [sys.executable, "-m", "calibkit", *command.split()]
    done = subprocess.run(words, cwd=folder, env=env, capture_output=True, text=True)
    if done.returncode:
        return lines_of(f"{done.stdout}\nexit code {done.returncode}\n{done.stderr}")
    return flat(json.loads(done.stdout)) if "--json" in words else lines_of(done.stdout)


def helps() -> dict[str, list[str]]:
    """The help of every command and of the commands below it."""
    found, left = {}, [""]
    while left:
        name = left.pop()
        found[name or "calibkit"] = calibkit(f"{name} --help")
        below = re.findall(r"^    ([a-z]\w*)", "\n".join(found[name or "calibkit"]), re.MULTILINE)
        left += [f"{name} {command}".strip() for command in below]
    return found


def examples(folder: Path) -> None:
    """Write prediction files of many kinds, from one seed."""
    random = np.random.default_rng(20261127)

    def scores(labels, classes: int, signal=2.0, sharp=2.5):
        noise = random.normal(size=(len(labels), classes))
        return sharp * (noise + signal * np.eye(classes)[labels])

    def probabilities(logits):
        powers = np.exp(logits - logits.max(1, keepdims=True))
        return powers / powers.sum(1, keepdims=True)

    def table(name: str, columns: dict, **form) -> None:
        pd.DataFrame(columns).to_csv(folder / name, index=False, **form)

    def write(name: str, rows: list[dict]) -> None:
        (folder / name).write_text("".join(json.dumps(row) + "\n" for row in rows))

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
    np.savetxt(folder / "labels.txt", y, "%d")
    tokens = random.integers(5, size=(40, 12))
    of_tokens = scores(tokens.ravel(), 5).reshape(40, 12, 5)
    np.savez(folder / "tokens.npz", logits=of_tokens, labels=tokens)

    z = (random.random(3000) < 0.04).astype(int)
    p = probabilities(scores(z, 2, 1.5, 1.5))[:, 1]
    split = np.where(random.random(3000) < 0.5, "val", "test")
    event = np.where(z, "fraud", "fine")
    table("rare.csv", {"prob_fraud": p, "label": event, "split": split})
    age = np.where(random.random(900) < 0.3, "old", "young")
    three = probabilities(scores(y % 3, 3))
    columns = {f"prob_{c}": three[:, i] for i, c in enumerate("abc")}
    table("site.csv", columns | {"label": np.array(list("abc"))[y % 3], "site": site, "age": age})
    columns = {f"logit_{c}": scores(y % 2, 2)[:, i] for i, c in enumerate(("no", "yes"))}
    columns |= {"label": np.where(y % 2, "yes", "no")}
    table("commas.csv", columns, sep=";", decimal=",", float_format="%.6f")
    leaf = random.integers(21, size=1200)  # of a tree: many samples with equal scores
    right = (random.random(1200) < 0.1 + 0.8 * leaf / 20).astype(int)
    table("tree.csv", {"prob_1": leaf / 20, "label": right})
    confidence = random.beta(6, 2, size=1000)
    correct = random.random(1000) < confidence**1.5
    pairs = zip(confidence.tolist(), correct.tolist(), strict=True)
    rows = [{"confidence": c, "correct": right} for c, right in pairs]
    write("answers.jsonl", rows[:500])
    write("answers_b.jsonl", rows[500:])
    days = [f"2026-{1 + i // 250:02}-{1 + i % 25:02}" for i in range(1000)]
    late = random.random(1000) < confidence ** np.linspace(1, 3, 1000)
    table("dated.csv", {"date": days, "confidence": confidence, "correct": late.astype(int)})
    rows = []
    for i in range(300):
        size, target = 3 + i % 3, int(random.integers(3))
        each = random.normal(size=size) * 2 - 10 + 2.5 * (np.arange(size) == target)
        row = {"doc_id": i, "target": target, "acc": float(each.argmax() == target)}
        rows.append(row | {"filtered_resps": [[float(v), bool(v == max(each))] for v in each]})
    write("harness.jsonl", rows)
    write("three.json", [{"probs": three.tolist(), "labels": (y % 3).tolist()}])


def reports(together) -> dict[str, list[str]]:
    """What is printed about the example files, the JSON and the visible text of the pages."""
    real = sorted(str(path) for path in ROOT.glob("data_cache/runs/cifar10-*-s0-*/arrays.npz"))[:2]
    commands = [f"report {words}" for words in REPORTS + real]
    commands += [f"compare {words}" for words in COMPARISONS]
    commands += [f"recalibrate {words} --map {kind}" for words in RECALIBRATED for kind in MAPS]
    commands += [f"report {REPORTS[0]} --json", f"compare {COMPARISONS[0]} --json"]

    def one(number: int) -> dict[str, list[str]]:
        command, out = commands[number], folder / str(number)
        out.mkdir()
        name = " ".join(Path(w).parent.name if "/" in w else w for w in command.split())
        save = f"--save {out}/map.json" if command.startswith("recalibrate") else f"--out {out}"
        found = {f"{name}: text": calibkit(f"{command} {save}", folder)}
        for file in sorted(out.glob("*.json")):
            found[f"{name}: json"] = flat(json.loads(file.read_text("utf-8")))
        for file in sorted(out.glob("*.html")):
            found[f"{name}: page"] = visible(file.read_text("utf-8"))
        return found

    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        examples(folder)
        return {k: v for its in together(one, range(len(commands))) for k, v in its.items()}


def close(a: str, b: str) -> bool:
    """Whether two lines differ only in numbers, and in these by no more than rounding."""
    first, second = NUMBER.split(a), NUMBER.split(b)
    return len(first) == len(second) and all(
        x == y or (i % 2 and math.isclose(float(x), float(y), rel_tol=CLOSE))
        for i, (x, y) in enumerate(zip(first, second, strict=True))
    )


def compare(first: dict, second: dict, most: int = 20) -> int:
    """Print the keys that differ, with the first of their lines; 1 if any do, or there are none."""
    counts = dict.fromkeys(("equal", "equal but for rounding", "different"), 0)
    keys = {(section, key) for its in (first, second) for section in its for key in its[section]}
    for section, key in sorted(keys):
        x, y = (its.get(section, {}).get(key) for its in (first, second))
        if x == y:
            counts["equal"] += 1
        elif x is None or y is None:
            counts["different"] += 1
            print(f"! {section} / {key}: only in {'AB'[x is None]}")
        elif len(x) == len(y) and all(map(close, x, y)):
            counts["equal but for rounding"] += 1
            print(f"~ {section} / {key}: {sum(map(str.__ne__, x, y))} lines")
        else:
            counts["different"] += 1
            changes = list(difflib.unified_diff(x, y, lineterm="", n=0))[2:]
            changes = [line[:LONG] for line in changes if not line.startswith("@@")]
            print(f"! {section} / {key}: {len(changes)} lines", *changes[:most], sep="\n    ")
    print(", ".join(f"{n:,} keys {how}" for how, n in counts.items()))
    return int(counts["different"] > 0 or not keys)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", help="the file to write")
    default = RELEASED if RELEASED.is_dir() else "book/notebooks"
    parser.add_argument("--pages", default=default, help="executed notebooks (%(default)s)")
    parser.add_argument("--cores", type=int, default=2, help="commands at once (%(default)s)")
    parser.add_argument("--diff", nargs=2, metavar=("A", "B"), help="compare two such files")
    names = "pages claims results listings report help".split()
    parser.add_argument("--only", choices=names, help="this section alone")
    options = parser.parse_args()
    chosen = [options.only] if options.only else names
    if options.diff:
        two = (json.loads(Path(path).read_text("utf-8")) for path in options.diff)
        return compare(*({k: v for k, v in its.items() if k in chosen} for its in two))
    if not options.out:
        parser.error("--out FILE or --diff A B")

    def together(task, items) -> list:
        with ThreadPoolExecutor(options.cores) as pool:
            return list(pool.map(task, items))

    def printed(commands: list[str]) -> dict[str, list[str]]:
        return dict(zip(commands, together(calibkit, commands), strict=True))

    results = [f"results --metric {metric} --recalibration {how} --csv" for metric, how in RESULTS]
    sections = {
        "pages": lambda: pages(options.pages),
        "claims": lambda: printed(["claims --json", "claims"]),
        "results": lambda: printed(results),
        "listings": lambda: printed(LISTINGS),
        "report": lambda: reports(together),
        "help": helps,
    }
    found = {}
    for name in chosen:
        found[name] = sections[name]()
        print(
            f"{name}: {len(found[name])} keys, {sum(map(len, found[name].values()))} lines",
            flush=True,
        )
    text = json.dumps(found, indent=1, sort_keys=True, ensure_ascii=False)
    Path(options.out).write_text(text + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
