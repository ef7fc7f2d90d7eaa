"""From nothing to a rendered book at smoke scale, the way a reader does it; then what is in it."""

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from subprocess import PIPE, STDOUT

import pytest
from filelock import FileLock

from calibkit_companion.experiments import plan
from calibkit_companion.records import manifest, tables

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parent.parent
BIN = Path(sys.executable).parent
# A toy has no shifted test sets; `test_release` asks for that figure.
RELEASED = {"fig-shift"}


def surroundings(cache: Path) -> dict:
    """Where and how the commands of a reader run: in the checkout, with records elsewhere."""
    environment = os.environ | {
        "PATH": f"{BIN}:{os.environ['PATH']}",
        "CALIBKIT_CACHE": str(cache),
        "JUPYTER_PLATFORM_DIRS": "1",
    }
    return {"cwd": ROOT, "env": environment, "text": True}


def snakemake_command(folder: Path) -> list[str]:
    return [
        *("snakemake", "--cores", "2"),
        *("--config", "edition=smoke", f"build={folder / 'build'}"),
    ]


def snakemake(folder: Path) -> subprocess.CompletedProcess:
    return subprocess.run(
        snakemake_command(folder), **surroundings(folder / "a cache"), capture_output=True
    )


@pytest.fixture(scope="module")
def book(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("book")
    done = snakemake(folder)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-6000:]
    told = [int(share) for share in re.findall(r"steps \((\d+)%\) done", done.stderr)]
    assert told and told == sorted(told) and told[-1] == 100
    assert "damaged" not in done.stdout
    return folder


def test_a_page_is_remade_when_a_table_that_it_reads_changes(tmp_path):
    """As by git, which may bring new results of old runs."""
    cache, page = tmp_path / "a cache", tmp_path / "build/released/book/notebooks/fmfp.ipynb"
    shutil.copytree(ROOT / "data_cache" / "released", cache / "released")
    page.parent.mkdir(parents=True)
    command = ["snakemake", "-n", "--cores", "1", "--rerun-triggers", "mtime"]
    command += ["--config", "edition=released", f"build={tmp_path / 'build'}", "--", str(page)]

    def planned():
        done = subprocess.run(command, **surroundings(cache), capture_output=True, check=True)
        return "updated input files" in done.stdout + done.stderr

    page.touch()
    assert not planned()
    plain = manifest.file_of(cache / "released" / "cifar10-plain")
    for table in (plain, cache / "released" / "public" / "people.parquet"):
        page.touch()
        later = page.stat().st_mtime + 1
        os.utime(table, (later, later))
        assert planned(), table
        os.utime(table, (later - 60, later - 60))


def test_the_demo_trains_what_no_released_table_holds(tmp_path):
    """`calibkit train` finds a record in a table and writes none, which would end the workflow."""
    command = ["snakemake", "-n", "--cores", "1", "-F", "--printshellcmds", "--quiet", "host"]
    command += ["--config", "edition=demo", f"build={tmp_path / 'build'}"]
    done = subprocess.run(
        command, **surroundings(ROOT / "data_cache"), capture_output=True, check=True
    )
    lines = (done.stdout + done.stderr).splitlines()
    trained = {word for line in lines if "calibkit train" in line for word in line.split()}
    planned = {run.name for run in plan.runs("book", "demo")}
    released = planned & tables.where().keys()
    assert released and trained & planned == planned - released


@pytest.mark.parametrize("gpus", [1, 100])
def test_a_job_with_a_gpu_trains_up_to_eight_runs_but_leaves_each_gpu_a_job(gpus, tmp_path):
    command = ["snakemake", "-n", "--cores", "1", "--printshellcmds", "--quiet", "host"]
    command += ["--resources", f"gpu={gpus}", "--config", "edition=cifar10", "train=1"]
    command += ["launcher=profiles/gpus/free-gpu", f"build={tmp_path / 'build'}"]
    done = subprocess.run(command, **surroundings(tmp_path), capture_output=True, check=True)
    lines = [line for line in (done.stdout + done.stderr).splitlines() if "calibkit train" in line]
    assert all("profiles/gpus/free-gpu python -m calibkit train" in line for line in lines)
    planned = {run.name for run in plan.runs("book", "cifar10")}
    trained = [[word for word in line.split() if word in planned] for line in lines]
    assert sorted(sum(trained, [])) == sorted(planned)
    least, *others = sorted(map(len, trained))
    assert set(others) == {min(8, -(-len(planned) // gpus))} and 0 < least <= others[0]


@pytest.mark.timeout(2400)
def test_a_second_make_waits_for_the_first_and_has_nothing_to_do(book):
    with FileLock(book / "build" / "smoke" / ".lock"):
        second = subprocess.Popen(
            snakemake_command(book), **surroundings(book / "a cache"), stdout=PIPE, stderr=STDOUT
        )
        said = iter(second.stdout.readline, "")
        assert any("Another make is building" in line for line in said)  # ends with the process
        with pytest.raises(subprocess.TimeoutExpired):
            second.wait(timeout=2)
    rest, _ = second.communicate(timeout=300)
    assert second.returncode == 0 and "Nothing to be done" in rest


def pages(book: Path) -> list[Path]:
    html = book / "build" / "smoke" / "book" / "_build" / "html"
    found = [p for p in html.rglob("*.html") if "_static" not in p.parts]
    assert {p.stem for p in found} >= {"index", "intro", "search", "api", *plan.NOTEBOOKS}
    return found


class Page(HTMLParser):
    def __init__(self, path: Path):
        super().__init__()
        self.loaded, self.images, self.anchors, self.text = [], [], set(), ""
        self.feed(path.read_text())

    def handle_starttag(self, tag, attributes):
        found = dict(attributes)
        if tag in ("script", "img", "iframe", "source"):
            self.loaded.append(found.get("src") or "")
        if tag == "link" and "stylesheet" in (found.get("rel") or ""):
            self.loaded.append(found.get("href") or "")
        if tag == "img":
            self.images.append(found)
        self.anchors.add(found.get("id"))

    def handle_data(self, data):
        self.text += data


def test_pages_load_nothing_from_outside(book):
    for path in pages(book):
        outside = [a for a in Page(path).loaded if re.match(r"(https?:)?//", a)]
        assert not outside, (path.name, outside)
    html = book / "build" / "smoke" / "book" / "_build" / "html"
    for sheet in html.rglob("*.css"):
        assert not re.search(r"@import\s+url\([\"']?https?:", sheet.read_text(errors="replace")), (
            sheet
        )


def test_no_link_is_broken_and_a_page_is_light_quiet_and_accessible(book):
    pytest.importorskip("axe_playwright_python")
    spec = importlib.util.spec_from_file_location("crawler", ROOT / "benchmarks" / "pages.py")
    crawler = importlib.util.module_from_spec(spec)  # the book's extension has its name, too
    spec.loader.exec_module(crawler)
    html = book / "build" / "smoke" / "book" / "_build" / "html"
    assert not crawler.broken_links(html)
    some = [html / "notebooks" / "tour.html", html / "api_metrics.html", html / "search.html"]
    for name, met in crawler.crawl(html, some).items():
        assert not met["console"] and not met["outside"], (name, met)
        assert met["bytes"] < crawler.HEAVY, (name, met["bytes"])
        serious = [found for found in met["axe"] if found[1] in crawler.SERIOUS]
        assert not serious, (name, serious)


def test_every_picture_is_there_and_described(book):
    for path in pages(book):
        for image in Page(path).images:
            assert image.get("alt", "").strip(), (path.name, image)
            if not image["src"].startswith("data:"):
                assert (path.parent / image["src"].split("?")[0]).exists(), (
                    path.name,
                    image["src"],
                )


def executed(book: Path) -> list[tuple[str, dict]]:
    folder = book / "build" / "smoke" / "book" / "notebooks"
    return [(n, json.loads((folder / f"{n}.ipynb").read_text())) for n in plan.NOTEBOOKS]


def test_every_figure_was_drawn_and_stands_on_its_page(book):
    by_name = {p.stem: Page(p) for p in pages(book)}
    for name, notebook in executed(book):
        for cell in notebook["cells"]:
            figure = cell["metadata"].get("mystnb", {}).get("figure")
            if figure and figure["name"] not in RELEASED:
                kinds = [k for o in cell["outputs"] for k in o.get("data", {})]
                assert kinds.count("image/png") + kinds.count("image/svg+xml") == 1, figure["name"]
                assert figure["name"].lower() in by_name[name].anchors  # as docutils writes it


def test_each_page_says_what_its_numbers_came_from(book):
    by_name = {p.stem: Page(p).text for p in pages(book)}
    for name, needs in plan.NOTEBOOKS.items():
        if needs:
            assert "five Gaussians" in by_name[name], name
            # Of the gradients, only the figures say it: they are those of training samples.
            said = re.search("n = 5,000|5,000 test samples", by_name[name])
            assert said or name == "gradient_norms", name
            assert "minutes of training" in by_name[name], name
        assert f"papermill notebooks/{name}.ipynb" in by_name[name], name


def test_pages_train_what_is_planned_and_no_more(book):
    """Else a book takes longer than it says; `your_method` trains two methods beside ERM."""
    planned = {run.name for run in plan.runs("book", "smoke")}
    trained = {path.parent.name for path in (book / "a cache" / "runs").glob("*/run.json")}
    assert trained >= planned
    own = re.compile(r"gaussians-mlp-(erm|(flooded|remembered)-[0-9a-f]{12}.*)-s\d-\w+")
    assert not [name for name in trained - planned if not own.fullmatch(name)]


def test_types_of_the_reference_lead_to_classes(book):
    """`make render STACK=newest` and .ci/stacks.py have the same of the newest Sphinx."""
    spec = importlib.util.spec_from_file_location("stacks", ROOT / ".ci" / "stacks.py")
    stacks = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(stacks)
    html = book / "build" / "smoke" / "book" / "_build" / "html"
    found = stacks.types(stacks.pages(html))
    assert found["calibkit.curves.Refinement"] == "class"
    assert set(found.values()) <= {"class", "exception"}, found


def test_records_that_are_there_outlive_the_training_of_another(book):
    runs = book / "a cache" / "runs"
    lost, other = (runs / run.name / "run.json" for run in plan.runs("book", "smoke")[:2])
    before = {path: path.stat() for path in runs.glob("*/run.json")}
    shutil.rmtree(lost.parent)
    done = subprocess.run(
        [*snakemake_command(book), "--", str(lost)],
        **surroundings(book / "a cache"),
        capture_output=True,
    )
    assert done.returncode == 0 and lost.exists(), done.stderr[-3000:]
    assert other.stat().st_ino == before[other].st_ino  # Snakemake renews its time, no more
    for path, was in before.items():  # no page is old now
        os.utime(path, ns=(was.st_atime_ns, was.st_mtime_ns))


def test_misspelt_parameter_stops_the_notebook_in_one_line(book):
    """Other wrong names are refused in the same way; `test_notebook` has them without a kernel."""
    command = [
        *("papermill", "notebooks/reliable_overfitting.ipynb", os.devnull, "-k", "python3"),
        *("--cwd", "notebooks", "--no-progress-bar", "-p", "edition", "smoke"),
        *("-p", "datset", "digits"),
    ]
    done = subprocess.run(command, **surroundings(book / "a cache"), capture_output=True)
    assert done.returncode != 0
    last = [line for line in done.stderr.splitlines() if line.startswith("ValueError")]
    message = "unknown parameter 'datset' (did you mean 'dataset'?); valid: "
    assert last and message in last[-1], done.stderr[-2000:]


def test_a_page_that_fails_says_why_and_is_tried_again(book):
    built = book / "build" / "smoke"
    page, index = (
        built / "book" / p for p in ("notebooks/benchmarks.ipynb", "_build/html/index.html")
    )
    (built / "benchmarks.ipynb").unlink()
    (built / "benchmarks.ipynb").mkdir()  # where papermill writes
    done = subprocess.run(
        [*snakemake_command(book), "--forcerun", str(page)],
        **surroundings(book / "a cache"),
        capture_output=True,
    )
    assert done.returncode != 0 and "benchmarks.log ends with" in done.stdout
    assert "IsADirectoryError" in done.stdout, done.stdout[-2000:]
    assert not index.exists()  # or the next make would find nothing to do
