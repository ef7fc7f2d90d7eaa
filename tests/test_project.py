"""What surrounds the code stays true: pins, sources of notebooks, commands named in the README."""

import json
import re
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


def test_what_has_one_build_has_hashes():
    assert all(re.fullmatch(rf"\S+(?:{HASH})+", line) for line in locked())
    of_the_platform = locked("requirements-builds.lock")
    assert all(re.fullmatch(r"\S+", line) for line in of_the_platform)
    assert {line.split("==")[0] for line in of_the_platform} >= {"torch", "torchvision", "numpy"}


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
    source = "".join(parameters[0]["source"])
    assert not source.startswith("# Parameters")  # papermill's own header
    for line in source.splitlines():
        assert re.match(r"\w+ = .+#\s*\w", line) or not line.strip(), f"no help: {line}"


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_no_digit_about_results_is_typed(path):
    """Decimals in prose come from glue; formulas, code and citations may have them."""
    for cell in json.loads(path.read_text())["cells"]:
        if cell["cell_type"] != "markdown":
            continue
        text = "".join(cell["source"])
        # Code, formulas, roles, headings, rows of tables (settings side by side), sections, names.
        allowed = r"```.*?```|`[^`]*`|\$[^$]*\$|\{[^}]*\}|<[^>]*>|^\|.*?$|[Ss]ection \d+\.\d+"
        allowed += r"|\([^()]*in the code\)|^#.*?$|CIFAR-10\.\d"
        text = re.sub(allowed, "", text, flags=re.DOTALL | re.MULTILINE)
        found = re.search(r".*\d\.\d.*", text)
        assert not found, found[0]


def test_every_notebook_has_its_runs_in_the_grid():
    from calibkit import grid

    assert {p.stem for p in NOTEBOOKS} == set(grid.NOTEBOOKS)


def test_version_is_said_once():
    import calibkit

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["version"] == calibkit.__version__
    assert f"version: {calibkit.__version__}" in (ROOT / "CITATION.cff").read_text()
    assert f"## {calibkit.__version__}" in (ROOT / "CHANGELOG.md").read_text()
