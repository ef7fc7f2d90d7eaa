# Runs -> notebooks -> book. `snakemake -n` shows what is missing.
#   snakemake --config edition=demo
#   snakemake --config edition=cifar10 train=1    # on a GPU: also train runs without a record
# Every job rereads this file, so it imports nothing heavy.
import json
import os
import shlex
import sys
import time
from contextlib import suppress
from glob import escape as glob_escape, glob

from filelock import FileLock, Timeout

from calibkit import terms
from calibkit_companion.experiments.plan import EDITIONS, NOTEBOOKS, runs
from snakemake.logging import logger

sys.path.append("book")
import before

EDITION = config.get("edition", "demo")
terms.choose("edition", EDITION, EDITIONS)
STARTED = time.time()
CHATTER = "Select jobs", "Execute ", "Touching ", "Building DAG", "Using shell", "Assuming "
BUILD = f"{config.get('build', 'build')}/{EDITION}"
CACHE = os.environ.get("CALIBKIT_CACHE", "data_cache")
RUNS = f"{CACHE}/runs"
CHEAP = EDITIONS[EDITION].on_the_spot
os.makedirs(BUILD, exist_ok=True)
INDEX = f"{BUILD}/tables.json"
if workflow.is_main_process:  # its jobs, maybe on other machines, must not decide anew
    from calibkit_companion.records import tables
    # By run, the table that it is a row of: nothing to train.
    TABLES = {name: str(path) for name, path in tables.where().items()}
    # Cheap runs share a process on each of up to four cores, whose start takes longer than two
    # runs. Up to eight others share one, which trains them side by side if it has a GPU.
    PROCESSES, MOST = min(4, os.cpu_count() or 1), None
    if not CHEAP:
        gpus = dict(workflow.global_resources).get("gpu", 1)
        PROCESSES, MOST = int(getattr(gpus, "value", gpus)), 8
    with open(f"{INDEX}.{os.getpid()}", "w") as file:
        json.dump([TABLES, PROCESSES, MOST], file)
    os.replace(file.name, INDEX)
else:
    with open(INDEX) as file:
        TABLES, PROCESSES, MOST = json.load(file)
# By such a file, those that are read with it: a manifest changes with each of them.
BESIDE = {path: glob(f"{glob_escape(os.path.dirname(path))}/*.parquet") if path.endswith(".parquet") else [path] for path in set(TABLES.values())}
PUBLIC = []  # what pages read besides: networks of others, and what was worked out
if not CHEAP:
    PUBLIC = glob(f"{CACHE}/released/public/*.parquet") + glob(f"{CACHE}/released/derived.json")


def wanted(notebook):
    """Records a notebook waits for: all if training is cheap or requested, else existing ones."""
    files = {run.name: f"{RUNS}/{run.name}/run.json" for run in runs(notebook, EDITION)}
    files = [f if os.path.exists(f) else TABLES.get(name, f) for name, f in files.items()]
    train = CHEAP or config.get("train")
    files = dict.fromkeys(f for f in files if train or os.path.exists(f))
    return [*(path for f in files for path in sorted(BESIDE.get(f, [f]))), *sorted(PUBLIC)]


if workflow.is_main_process and not workflow.dryrun:  # held until this process ends, however it does
    LOCK = FileLock(f"{BUILD}/.lock")
    try:
        LOCK.acquire(timeout=0)
    except Timeout:
        print(f"Another make is building {BUILD}; waiting for it.", flush=True)
        LOCK.acquire()
    # A wrong clock leaves files from the future, which Snakemake refuses as inputs.
    for made in (f"{RUNS}/*/run.json", *sum(BESIDE.values(), PUBLIC), "notebooks/*", "book/*", f"{BUILD}/*", f"{BUILD}/book/notebooks/*"):
        for path in glob(made):
            with suppress(OSError):  # gone by now, or not ours
                if os.path.getmtime(path) > time.time():
                    os.utime(path)

    # Long runs are announced by `book/before.py` itself, in hours.
    COSTS = {f: before.RUN for name in NOTEBOOKS for f in wanted(name)} if CHEAP else {}
    COSTS |= {f"{BUILD}/book/notebooks/{name}.ipynb": before.PAGE for name in NOTEBOOKS}
    COSTS[f"{BUILD}/book/_build/html/searchindex.js"] = before.BOOK  # comes last
    busy = round(os.getloadavg()[0]) if hasattr(os, "getloadavg") else 0
    print(before.announce(COSTS, workflow.cores, busy), flush=True)
    logger.addFilter(lambda record: not record.getMessage().startswith(CHATTER))

wildcard_constraints: notebook="|".join(NOTEBOOKS)
localrules: all, pages, book

rule all:
    input: f"{BUILD}/book/_build/html/index.html"

QUEUE = [run.name for run in runs("book", EDITION) if run.name not in TABLES]
SIZE = -(-len(QUEUE) // max(1, PROCESSES))
SIZE = min(SIZE, MOST or SIZE)
BATCHES = [QUEUE[i : i + SIZE] for i in range(0, len(QUEUE), SIZE)] if QUEUE else []

TO_LOG = "> {log:q} 2>&1" if CHEAP else "2> {log:q}"  # long runs print their progress
KEEP = "--replicates" if CHEAP else ""  # else each page would compute them for itself
LAUNCHER = config.get("launcher", "")  # put before each command, such as profiles/gpus/free-gpu
for names in BATCHES:
    rule:
        name: f"train_{names[0]}"
        output: [update(f"{RUNS}/{name}/run.json") for name in names]  # existing ones stay
        log: f"{CACHE}/logs/{names[0]}.log"
        params: names=names
        threads: 1
        resources: gpu=0 if CHEAP else 1
        shell: f"{LAUNCHER} python -m calibkit train {{params.names}} --edition {EDITION} --quiet {KEEP} {TO_LOG}"

TOY_RUNS = EDITIONS[EDITION].seeds if CHEAP else 0  # 0: the page's default

# Start programs without the IRI grammar that jsonschema would spend a second reading each time, and
# with a garbage collector that looks less often: Sphinx takes three quarters of the time.
def quickly(module, program):
    code = f"import gc, sys; gc.set_threshold(100_000); sys.modules[\"rfc3987_syntax\"] = None; from {module} import {program}; {program}()"
    return f"python -c '{code}'"

PALETTE = "" if CHEAP else " && python book/palette.py {params.draft:q}"  # lighter figures

rule notebook:
    input:
        source="notebooks/{notebook}.ipynb",
        runs=lambda w: wanted(w.notebook),
    output: f"{BUILD}/book/notebooks/{{notebook}}.ipynb"
    log: f"{BUILD}/logs/{{notebook}}.log"
    params:
        draft=f"{BUILD}/{{notebook}}.ipynb",  # with the traceback if it fails
        edition=lambda w: f"-p edition {EDITION}" if NOTEBOOKS[w.notebook] else "",
        # A page trains its own toys, with as many seeds as its edition.
        toys=lambda w: f"-p toy_runs {TOY_RUNS}" if TOY_RUNS and w.notebook == "bsce" else "",
    retries: 1  # kernels can race for a port
    shell:
        f"OMP_NUM_THREADS=1 PYTHONSTARTUP=\"$PWD/book/_ext/kernel.py\" {quickly('papermill.cli', 'papermill')} {{input.source:q}} {{params.draft:q}} {{params.edition}} {{params.toys}}"
        " -k python3 --cwd notebooks --no-progress-bar > {log:q} 2>&1 || python book/_ext/pages.py {params.draft:q} >> {log:q} 2>&1"
        f"{PALETTE} && cp {{params.draft:q}} {{output:q}}"  # a page without records is a short one

BOOK = shlex.quote(f"{BUILD}/book").replace("{", "{{").replace("}", "}}")

rule pages:
    input: [path for path in glob("book/*.*") + glob("book/_ext/*.py") + glob("book/_static/**", recursive=True) if os.path.isfile(path)]
    output: touch(f"{BUILD}/pages.done")
    shell: f"mkdir -p {BOOK} && cp -r book/*.* book/_static book/_ext {BOOK}/"

rule book:
    input: expand(f"{BUILD}/book/notebooks/{{notebook}}.ipynb", notebook=NOTEBOOKS), rules.pages.output
    output: f"{BUILD}/book/_build/html/index.html"
    log: f"{BUILD}/logs/book.log"
    shell:  # a warning fails the build, but only after index.html is written and looks done
        f"{quickly('jupyter_book.cli.main', 'main')} build {BOOK} -W -n --keep-going > {{log:q}} 2>&1 && touch {{output:q}}"
        " || (rm -f {output:q}; exit 1)"

onerror:  # say why, as Snakemake itself shows only the command
    with suppress(OSError):  # an existing book hides a missing page from Snakemake
        os.remove(f"{BUILD}/book/_build/html/index.html")
    for path in glob(f"{BUILD}/logs/*.log") + glob(f"{CACHE}/logs/*.log"):
        with open(path, errors="replace") as file:
            words = [line.rstrip() for line in file if line.strip()]
        if os.path.getmtime(path) > STARTED and any("Error" in line for line in words[-8:]):
            print(f"\n{path} ends with", *words[-8:], sep="\n    ", flush=True)
