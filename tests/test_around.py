"""What is around the library: workflows, forms, profiles, the cell a notebook starts with."""

import hashlib
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
from pathlib import Path

import pytest
import yaml

from calibkit_companion.experiments import plan

ROOT = Path(__file__).parent.parent
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
FORMS = sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("[!c]*.yml"))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def steps(path: Path) -> list[dict]:
    jobs = yaml.safe_load(path.read_text())["jobs"].values()
    return [step for job in jobs for step in job.get("steps", [])]


# --- workflows and forms ---


def test_each_python_that_is_promised_is_tested():
    promised = [c.split(" :: ")[-1] for c in PROJECT["classifiers"] if re.search(r"3\.\d+$", c)]
    unix = {"ubuntu", "macos"}  # where there is make
    for name, job, systems in (("tests", "suite", unix), ("wheel", "smoke", unix | {"windows"})):
        path = ROOT / ".github" / "workflows" / f"{name}.yml"
        matrix = yaml.safe_load(path.read_text())["jobs"][job]["strategy"]["matrix"]
        assert matrix["python"] == promised
        assert {os.split("-")[0] for os in matrix["os"]} == systems
    assert PROJECT["requires-python"] == f">={promised[0]}"


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda p: p.stem)
def test_workflows_name_what_there_is(path):
    text = path.read_text()
    targets = re.findall(r"^(\w+):.*##", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert set(re.findall(r"\bmake (\w+)", text)) <= {*targets, "in"}
    for step in steps(path):
        for script in re.findall(r"python (\S+\.py)", step.get("run", "")):
            assert (ROOT / script).exists(), script
        if "uses" in step:  # a tag can be moved; dependabot raises the sums
            assert re.search(r"@[0-9a-f]{40}$", step["uses"]), step["uses"]
            assert re.search(rf"{step['uses']}  # v\d+\.\d+\.\d+$", text, re.M), step["uses"]
    for called in re.findall(r"uses: \./(\S+)", text):
        assert (ROOT / called).exists()
    assert yaml.safe_load(text)["permissions"] == {"contents": "read"}  # more only where needed


def test_only_the_release_may_publish():
    able = [path.stem for path in WORKFLOWS if "gh-action-pypi-publish" in path.read_text()]
    assert able == ["release"]
    publish = yaml.safe_load((ROOT / ".github/workflows/release.yml").read_text())["jobs"][
        "publish"
    ]
    assert publish["permissions"] == {"id-token": "write"} and publish["needs"] == "wheel"


@pytest.mark.parametrize("path", FORMS, ids=lambda p: p.stem)
def test_forms_ask_for_what_an_answer_needs(path):
    form = yaml.safe_load(path.read_text())
    fields = [field for field in form["body"] if field["type"] != "markdown"]
    assert form["name"] and form["description"] and form["labels"]
    assert len({field["id"] for field in fields}) == len(fields)
    assert any(field.get("validations", {}).get("required") for field in fields)


def test_contributing_names_files_that_are_there():
    rows = re.findall(r"^\| [^|]+ \| (`.+) \|$", (ROOT / "CONTRIBUTING.md").read_text(), re.M)
    assert len(rows) > 10
    for row in rows:
        folder = ROOT
        for name in re.findall(r"`([^`]+)`", row):  # a bare name is in the folder named last
            path = ROOT / name if "/" in name or name == "Snakefile" else folder / name
            assert path.exists(), name
            folder = path if path.is_dir() else path.parent


# --- what is absent ---


def test_a_command_names_the_extra_that_it_needs():
    code = "import sys; sys.modules['torch'] = None; from calibkit import cli; "
    code += "sys.exit(cli.main(['train', '--edition', 'smoke']))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert line.startswith("calibkit: ") and "pip install 'calibkit[train]'" in line


# --- a notebook anywhere ---

LINE = '# %pip install -q "calibkit[book] @ git+https://github.com/calibkit/calibkit"  # on Colab'


@pytest.mark.parametrize("name", plan.NOTEBOOKS)
def test_one_visible_line_lets_a_notebook_start_anywhere(name):
    cells = json.loads((ROOT / "notebooks" / f"{name}.ipynb").read_text())["cells"]
    code = [c for c in cells if c["cell_type"] == "code"]
    assert "".join(code[0]["source"]) == LINE
    assert not {"remove-cell", "remove-input"} & set(code[0]["metadata"].get("tags", []))
    assert "parameters" in code[1]["metadata"]["tags"]


@pytest.mark.parametrize("name", plan.NOTEBOOKS)
def test_a_notebook_checks_its_parameters_before_it_reads_results(name):
    cells = json.loads((ROOT / "notebooks" / f"{name}.ipynb").read_text())["cells"]
    code = "\n".join("".join(c["source"]) for c in cells if c["cell_type"] == "code")
    if re.search(r"results\.load\(|claims\.board\(", code):
        begun, read = (
            re.search(text, code) for text in (r"page\.begin\(edition\)", r"\w+\.(load|board)\(")
        )
        assert begun and begun.start() < read.start()


def test_without_a_checkout_a_page_brings_the_released_records(tmp_path):
    """A package that is installed alone, a source to clone, an empty folder: as on Colab."""
    source, site, here = (tmp_path / name for name in ("source", "site", "here"))
    here.mkdir()
    for package in ("calibkit", "calibkit_companion"):
        shutil.copytree(ROOT / package, site / package)
    record = "cifar10-resnet18_w16-erm-s0-a038bbd2"
    parts = f"runs/{record}", "released/cifar10-plain"
    for part in parts:
        shutil.copytree(ROOT / "data_cache" / part, source / "data_cache" / part)
    for command in (["init", "-q"], ["add", "-f", "."], ["-c", "user.name=x", "-c",
                    "user.email=x@x", "commit", "-qm", "x"]):  # fmt: skip
        subprocess.run(["git", *command], cwd=source, check=True)
    code = (
        "from IPython.core.interactiveshell import InteractiveShell; InteractiveShell.instance();"
        "from calibkit_companion import page, results; page.begin();"
        "found = results.load('tour', setting='cifar10-plain').records('erm')[0];"
        "print(len(found.arrays['test_labels']), found.name)"
    )
    environment = {k: v for k, v in os.environ.items() if k != "CALIBKIT_CACHE"}
    environment |= {"PYTHONPATH": str(site), "CALIBKIT_SOURCE": source.as_uri()}
    done = subprocess.run([sys.executable, "-c", code], cwd=here, env=environment,
                          capture_output=True, text=True)  # fmt: skip
    assert done.stdout.split()[-2:] == ["10000", record], done.stderr[-1000:]
    assert (here / "calibkit-book" / "data_cache").is_dir()


# --- the archive ---


def load(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / ".ci" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def archive(tmp_path, monkeypatch):
    """Its script, for a project of two files and a rendered book of one page."""
    script = load("archive")
    (tmp_path / "html" / "sub").mkdir(parents=True)
    (tmp_path / "html" / "index.html").write_text("a page")
    (tmp_path / "html" / "sub" / "a.css").write_text("a style")
    files = {"README.md": (b"hello", 0o644), "run": (b"#!/bin/sh", 0o755)}
    monkeypatch.setattr(script, "tracked", lambda: dict(files))
    answers = {"status": b"", "log": b"1700000000", "rev-parse": b"c0ffee"}
    monkeypatch.setattr(script, "git", lambda command, *_: answers[command])
    script.answers = answers
    return script


def test_the_archive_holds_all_with_its_sums_and_has_the_same_bytes_again(archive, tmp_path):
    path = archive.main(tmp_path / "out", tmp_path / "html")
    first = path.read_bytes()
    os.utime(tmp_path / "html" / "index.html", (1, 1))
    assert archive.main(tmp_path / "out", tmp_path / "html").read_bytes() == first
    with tarfile.open(path) as file:
        file.extractall(tmp_path / "there", filter="data")
    top = tmp_path / "there" / path.name.removesuffix(".tar.gz")
    assert (top / "html" / "sub" / "a.css").read_text() == "a style"
    assert os.access(top / "run", os.X_OK) and not os.access(top / "README.md", os.X_OK)
    sums = dict(
        reversed(line.split("  ")) for line in (top / "SHA256SUMS").read_text().splitlines()
    )
    found = {p.relative_to(top).as_posix() for p in top.rglob("*") if p.is_file()}
    assert sums.keys() == found - {"SHA256SUMS"}
    for name, wanted in sums.items():
        assert hashlib.sha256((top / name).read_bytes()).hexdigest() == wanted
    described = json.loads((tmp_path / "out" / f"{top.name}.zenodo.json").read_text())["metadata"]
    assert described["version"] == PROJECT["version"] and described["license"] == "MIT"


def test_what_is_not_committed_or_not_rendered_is_not_archived(archive, tmp_path):
    with pytest.raises(SystemExit, match="make render"):
        archive.main(tmp_path / "out", tmp_path)
    archive.answers["status"] = b" M README.md"
    with pytest.raises(SystemExit, match="README.md"):
        archive.main(tmp_path / "out", tmp_path / "html")


# --- which build of torch ---


@pytest.mark.parametrize(
    ("wanted", "system", "driver", "named", "answers", "cpu"),
    [
        ("", "Linux", False, "", True, True),
        ("", "Linux", False, "", False, False),
        ("", "Linux", True, "", True, False),
        ("", "Darwin", False, "", True, False),
        ("cuda", "Linux", False, "", True, False),
        ("cpu", "Linux", True, "", True, True),
        ("", "Linux", False, "https://download.pytorch.org/whl/cu126", True, False),
    ],
)
def test_without_a_driver_torch_is_the_build_for_cpus(wanted, system, driver, named, answers, cpu):
    script = load("torch_index")
    arguments, said = script.choose(wanted, system, driver, named, lambda: answers)
    assert arguments == (f"--extra-index-url {script.CPU}" if cpu else "")
    assert ("CPU build" in said) == cpu and len(said.splitlines()) <= 1
    assert ("does not answer" in said) == (not answers)


def test_only_a_build_that_is_known_can_be_wanted():
    with pytest.raises(SystemExit, match="TORCH=gpu: it is cpu, cuda"):
        load("torch_index").choose("gpu", "Linux", False, "", lambda: True)


# --- profiles ---

SHARE = """
mkdir $0/$CUDA_VISIBLE_DEVICES || echo twice
sleep 0.3
rmdir $0/$CUDA_VISIBLE_DEVICES
echo $CUDA_VISIBLE_DEVICES
"""


@pytest.mark.skipif(sys.platform != "linux", reason="flock, and NVIDIA's GPUs")
def test_no_two_commands_have_the_same_gpu(tmp_path):
    smi = tmp_path / "nvidia-smi"
    smi.write_text("#!/bin/sh\nprintf '0\\n1\\n'\n")
    smi.chmod(0o755)
    environment = os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}", "TMPDIR": str(tmp_path)}
    command = [ROOT / "profiles" / "gpus" / "free-gpu", "bash", "-c", SHARE, str(tmp_path)]
    running = [
        subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
        for _ in range(5)
    ]
    said = [process.communicate(timeout=60)[0].split() for process in running]
    assert sorted(map(len, said)) == [1] * 5  # never "twice"
    assert {gpu for (gpu,) in said} == {"0", "1"}


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_record_travels_as_an_archive(tmp_path):
    """The workflow of the cloud profile, here with a folder in place of the bucket."""
    run = plan.runs("tour", "smoke")[0]
    command = [
        *("snakemake", "-s", str(ROOT / "profiles" / "records.smk"), "--cores", "1"),
        *("--workflow-profile", "none", "--directory", str(tmp_path), "--config", "edition=smoke"),
        *("--", f"records/{run.name}.tar"),
    ]
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run(command, env=os.environ | {"PATH": path}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    with tarfile.open(tmp_path / "records" / f"{run.name}.tar") as archive:
        files = {Path(name).name for name in archive.getnames()}
    assert {"run.json", "history.csv", "arrays.npz"} <= files
