"""What surrounds the code stays true: pins, sources of notebooks, commands named in the README."""

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parent.parent
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))


HASH = r" \\\n    --hash=sha256:[0-9a-f]{64}"


def locked(name: str = "requirements.lock") -> list[str]:
    """The pins of a lock file, each with its hashes, if any."""
    text = re.sub(r"^#.*\n", "", (ROOT / name).read_text(), flags=re.M)
    return re.findall(rf"^\S+(?:{HASH})*$", text, re.M)


def pins() -> list[str]:
    both = [*locked(), *locked("requirements-builds.lock")]
    return sorted((line.split()[0] for line in both), key=str.lower)


def test_environment_repeats_the_locks():
    environment = yaml.safe_load((ROOT / "environment.yml").read_text())
    listed = next(d["pip"] for d in environment["dependencies"] if isinstance(d, dict))
    assert listed == [*pins(), "-e ."]


def test_all_files_have_sums_but_those_of_torch():
    """Whose builds for the CPU come from another index; a wheel for each platform is several."""
    assert all(re.fullmatch(rf"\S+(?:{HASH})+", line) for line in locked())
    several = next(line for line in locked() if line.startswith("numpy=="))
    assert several.count("--hash") > 20
    without = locked("requirements-builds.lock")
    assert [re.fullmatch(r"(\S+)==\S+", line)[1] for line in without] == ["torch", "torchvision"]
    assert "another index" in (ROOT / "requirements-builds.lock").read_text()


def test_what_is_fetched_from_elsewhere_is_named_by_its_sum():
    """The tools that build the wheel, and the image; of actions see test_around."""
    tools = [line for line in (ROOT / ".ci/build.txt").read_text().splitlines() if "==" in line]
    assert {line.split("==")[0] for line in tools} >= {"build", "hatchling", "twine"}
    assert all(re.fullmatch(r"[\w.-]+==\S+( ; .+)? \\", line) for line in tools)
    image = re.findall(r"^FROM (.*)", (ROOT / "profiles/kubernetes/Dockerfile").read_text(), re.M)
    assert image and all(re.fullmatch(r"\S+@sha256:[0-9a-f]{64}", name) for name in image)
    build = (ROOT / ".github/workflows/wheel.yml").read_text()
    assert "--require-hashes -r .ci/build.txt" in build and "--no-isolation" in build


def test_lock_is_exact_and_covers_the_project():
    assert all(re.fullmatch(r"[A-Za-z0-9._-]+==[^=*<>]+", line) for line in pins())
    names = {re.sub(r"[-_.]+", "-", line.split("==")[0]).lower() for line in pins()}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = [*project["dependencies"], *sum(project["optional-dependencies"].values(), [])]
    for requirement in wanted:
        name = re.match(r"[\w-]+", requirement)[0].lower()
        assert name == "calibkit" or name in names, name
    assert any(line.startswith("jupyter-book==1.") for line in pins())


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_notebook_sources_are_clean(path):
    notebook = json.loads(path.read_text())
    assert set(notebook["metadata"]) <= {"kernelspec", "language_info"}
    assert notebook["metadata"]["kernelspec"]["name"] == "python3"
    parameters = [c for c in notebook["cells"] if "parameters" in c["metadata"].get("tags", [])]
    assert len(parameters) == 1
    for cell in notebook["cells"]:
        assert not cell.get("outputs") and cell.get("execution_count") is None
        assert set(cell["metadata"]) <= {"tags", "mystnb"}
        if cell["cell_type"] == "code" and "figure" in cell["metadata"].get("mystnb", {}):
            figure = cell["metadata"]["mystnb"]
            assert figure["figure"]["caption"] and figure["figure"]["name"].startswith("fig-")
            assert figure["image"]["alt"]
            last = "".join(cell["source"]).splitlines()[-1]  # a second output is a second figure
            assert last.endswith(";") or not re.match(r"(fig|axe?s?)\b.*\)$", last), last
    source = "".join(parameters[0]["source"])
    assert not source.startswith("# Parameters")  # papermill's own header
    for line in source.splitlines():
        assert re.match(r"\w+ = .+#\s*\w", line) or not line.strip(), f"no help: {line}"


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_no_digit_about_results_is_typed(path):
    """Decimals are printed by the cell that computes them; formulas and code may have some."""
    for cell in json.loads(path.read_text())["cells"]:
        if cell["cell_type"] != "markdown":
            continue
        text = "".join(cell["source"])
        # Code, formulas, roles, headings, settings side by side (in tables, or as text, code and
        # here), sections, names.
        allowed = r"```.*?```|`[^`]*`|\$[^$]*\$|\{[^}]*\}|<[^>]*>|^\|.*?$|[Ss]ection \d+\.\d+"
        allowed += r"|\([^()]*in the code\)|^#.*?$|CIFAR-10\.\d|\]\([^)]*\)"
        allowed += r"|^- \*(?:Text|Code|Here):\*.*?$"
        text = re.sub(allowed, "", text, flags=re.DOTALL | re.MULTILINE)
        found = re.search(r".*\d\.\d.*", text)
        assert not found, found[0]


def test_every_notebook_has_its_runs_in_the_grid():
    from calibkit_companion.experiments import plan

    assert {p.stem for p in NOTEBOOKS} == set(plan.NOTEBOOKS)


def test_version_is_said_once():
    import calibkit

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["version"] == calibkit.__version__
    assert f"version: {calibkit.__version__}" in (ROOT / "CITATION.cff").read_text()
    assert f"## {calibkit.__version__}" in (ROOT / "CHANGELOG.md").read_text()


def in_a_fresh_python(code: str) -> str:
    return subprocess.check_output([sys.executable, "-c", code], text=True).strip()


@pytest.mark.parametrize("module", ["metrics", "posthoc", "confidence", "stats"])
def test_a_module_is_loaded_when_asked_for_and_nothing_heavy_with_it(module):
    """``import calibkit; calibkit.metrics`` for someone who has neither torch nor matplotlib."""
    found = in_a_fresh_python(
        "import sys, calibkit\n"
        "print('calibkit.metrics' in sys.modules, 'numpy' in sys.modules)\n"
        f"print(calibkit.{module}.__name__)\n"
        "heavy = {'torch', 'matplotlib', 'pandas', 'sklearn', 'seaborn'}\n"
        "print(sorted(heavy & {*sys.modules}))"
    )
    assert found.splitlines() == ["False False", f"calibkit.{module}", "[]"]


def test_figures_need_no_seaborn():
    """It takes a second to load; a gradient norm alone is drawn in its colours."""
    found = in_a_fresh_python(
        "import sys, matplotlib.pyplot as plt, calibkit.plots\n"
        "plt.style.use('calibkit.book')\n"
        "print('seaborn' in sys.modules, plt.rcParams['axes.grid'])"
    )
    assert found == "False True"


@pytest.mark.parametrize(
    ("absent", "code", "extra"),
    [
        ("torch", "calibkit.losses", "train"),
        ("matplotlib", "calibkit.plots", "report"),
        ("sklearn", "calibkit.confidence.TrustScore().fit(x, y).score(x, y)", "report"),
        ("torch", "calibkit.confidence.ConfidNet().fit(x, x, y)", "train"),
    ],
)
def test_what_is_not_installed_names_its_extra(absent, code, extra):
    found = in_a_fresh_python(
        f"import sys, numpy as np, calibkit; sys.modules[{absent!r}] = None\n"
        "x, y = np.eye(4), np.arange(4)\n"
        f"try: {code}\n"
        "except ModuleNotFoundError as error: print(error)"
    )
    (line,) = found.splitlines()
    assert line.endswith(f"pip install 'calibkit[{extra}]'")


def test_a_base_install_recalibrates():
    """Every method of `posthoc`, for someone who has neither torch nor scikit-learn."""
    found = in_a_fresh_python(
        "import sys, numpy as np, calibkit; sys.modules |= {'torch': None, 'sklearn': None}\n"
        "rng = np.random.default_rng(0); x, y = rng.normal(size=(60, 3)), np.arange(60) % 3\n"
        "from calibkit import posthoc\n"
        "kinds = {*posthoc.Recalibration.__subclasses__()} - {posthoc.FixedTemperature}\n"
        "print(len(kinds), *(k().fit(x, y).predict_proba(x).shape == (60, 3) for k in kinds))"
    )
    count, *done = found.split()
    assert int(count) == len(done) >= 6 and set(done) == {"True"}


def test_every_public_module_is_listed_and_found():
    found = in_a_fresh_python(
        "import calibkit\n"
        "assert {*calibkit.__all__} <= {*dir(calibkit)}\n"
        "print(*(getattr(calibkit, name).__name__ for name in calibkit.__all__))"
    )
    import calibkit

    assert found.split() == [f"calibkit.{name}" for name in calibkit.__all__]
    assert {"metrics", "losses", "posthoc", "stats", "report"} <= set(calibkit.__all__)
    with pytest.raises(AttributeError, match="has no attribute 'metric'"):
        calibkit.metric  # noqa: B018
    with pytest.raises(ImportError):
        from calibkit import nothing  # noqa: F401
    assert (Path(calibkit.__file__).parent / "py.typed").exists()
