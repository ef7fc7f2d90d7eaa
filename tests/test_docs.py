"""Documentation that runs: every block of Python, and every command as its own parser reads it."""

import inspect
import json
import re
import shlex
from importlib import import_module
from pathlib import Path

import matplotlib.pyplot as plt
import pytest
import yaml

from calibkit import cli, confidence, losses, metrics, posthoc, report, stats
from calibkit_companion import cli as companion_cli
from calibkit_companion import data
from calibkit_companion.experiments import plan
from tests.records import write

pytestmark = pytest.mark.usefixtures("few_resamples")
ROOT = Path(__file__).parent.parent
PAGES = [*sorted((ROOT / "book").glob("*.md")), ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))


FENCE = re.compile(r"^```(\S*)[^\n]*\n(.*?)^```", re.DOTALL | re.MULTILINE)


def blocks(text: str, *languages: str) -> list[str]:
    return [body for language, body in FENCE.findall(text) if language in languages]


def prose(path: Path) -> str:
    if path.suffix == ".md":
        return path.read_text()
    cells = json.loads(path.read_text())["cells"]
    return "\n\n".join("".join(c["source"]) for c in cells if c["cell_type"] == "markdown")


def commands(path: Path, program: str) -> list[list[str]]:
    """Arguments of every call of a program, as the shell would pass them."""
    return calls_in(prose(path), program)


def calls_in(text: str, program: str) -> list[list[str]]:
    lines = [line for body in blocks(text, "bash", "sh") for line in joined(body)]
    for body in blocks(text, "console"):
        lines += [line[2:] for line in joined(body) if line.startswith("$ ")]
    calls = []
    for line in lines:
        lexer = shlex.shlex(line, posix=True, punctuation_chars="&|;<>")
        lexer.whitespace_split, lexer.commenters = True, "#"
        call: list[str] = []
        for word in [*lexer, ";"]:
            if word in ("&", "&&", "|", ";", ">", "2>"):
                if call[:1] == [program]:
                    calls.append(call[1:])
                call = []
            elif call or not re.match(r"\w+=", word):  # variables set for the call
                call.append(word)
    return calls


def joined(body: str) -> list[str]:
    return re.sub(r"\\\n\s*", " ", body).splitlines()


def every(program: str) -> list:
    return [
        pytest.param(call, id=f"{path.stem}: {' '.join(call)}"[:90])
        for path in [*PAGES, *NOTEBOOKS]
        for call in commands(path, program)
    ]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty folder to work in, with records at hand that the pages may ask for."""
    monkeypatch.setenv("CALIBKIT_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    write(plan.runs("confidence_histograms", "released")[0])
    yield tmp_path
    plt.close("all")


@pytest.mark.parametrize(
    "page", [p for p in PAGES if blocks(p.read_text(), "python")], ids=lambda p: p.stem
)
def test_python_runs(page, folder, capsys):
    """One page (one recipe) is one session, and prints what the page shows (`SHOWING`)."""
    session, said, made, end, text = {}, [], 0, 0, page.read_text()
    for fence in FENCE.finditer(text):
        if page.stem == "recipes" and "\n## " in text[end : fence.start()]:
            session = {}
        end = fence.end()
        language, source = fence.groups()
        if language == "python":
            exec(compile(source, f"{page.name}: {source[:40]}", "exec"), session)
        if language == "console" and page.stem in SHOWING:
            for call in calls_in(fence[0], "calibkit"):
                if Path(call[1]).exists():  # the reader's own do not
                    assert cli.main(call) in (0, 3), call  # 3: a gate shuts
                    made += 1
        printed = capsys.readouterr()
        said += [squeezed(line) for line in (printed.out + printed.err).splitlines()]
        if language == "text" and page.stem in SHOWING:
            for line in map(squeezed, source.splitlines()):
                assert line == "…" or line in said, line
    assert made >= SHOWING.get(page.stem, 0)


# Pages whose commands are run, how many; their blocks of text are what was printed before.
SHOWING = {
    "recipes": 7,
    "deploy": 6,
    "guide_language_models": 2,
    "guide_imbalanced": 0,
    "coming_from": 0,
    "README": 0,
}


def squeezed(line: str) -> str:
    """A printed line without what few resamples change: intervals, p-values, digits by chance."""
    line = line.strip().replace("\N{NO-BREAK SPACE}", " ")
    return re.sub(r"\[[^\]]*,[^\]]*\]|\(p = \S+\)|\S+ % \[[^\]]*\] by chance", "[]", line)


def test_the_table_of_sample_sizes_is_that_of_the_simulation(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    sample_sizes = import_module("sample_sizes")
    found = json.loads((ROOT / "benchmarks/results/sample_sizes.json").read_text())
    assert sample_sizes.TABLES.read_text(encoding="utf-8") == sample_sizes.as_tables(found)
    assert found["draws"] == sample_sizes.DRAWS >= 4_000  # of fewer the noise looks like findings
    first = [r for r in found["confidence"] if r["rate"] == 0.1 and r["of_auroc"] == 0.83]
    assert [row["n"] for row in first] == list(sample_sizes.SIZES)


def test_every_page_is_looked_at():
    """A fence in another spelling would pass unseen."""
    known = {"python", "bash", "console", "text", ""}
    for path in [*PAGES, *NOTEBOOKS]:
        for fence in re.findall(r"^```(\S+)", prose(path), re.MULTILINE):
            assert fence in known or fence.startswith("{"), (path.name, fence)
    for program, least in (("calibkit", 15), ("papermill", 8), ("make", 5), ("snakemake", 2)):
        assert len(every(program)) >= least, program


@pytest.mark.parametrize("call", every("calibkit"))
def test_calibkit_commands(call):
    options = cli.parser().parse_args(call)
    if call[0] in ("train", "runs"):
        assert companion_cli.selected(options)
    elif call[:2] == ["data", "get"] and call[2] != "NAME":
        assert call[2] in {row["name"] for row in data.listing()}
    elif call[0] == "claims":
        assert options.edition in plan.EDITIONS


@pytest.mark.parametrize("call", every("papermill"))
def test_papermill_commands(call):
    from papermill.__main__ import papermill

    options = papermill.make_context("papermill", call.copy()).params
    path = ROOT / options["notebook_path"]
    assert path.exists()
    cells = json.loads(path.read_text())["cells"]
    (cell,) = [c for c in cells if "parameters" in c["metadata"].get("tags", [])]
    known = set(re.findall(r"^(\w+) = ", "".join(cell["source"]), re.MULTILINE))
    given = {name for name, _ in options["parameters"]}
    given |= {name for text in options["parameters_yaml"] for name in re.findall(r"^(\w+):", text)}
    assert given <= known


@pytest.mark.parametrize(
    "call", [call for path in PAGES for call in commands(path, "papermill") if "network" in call]
)
def test_papermill_commands_have_records(call, monkeypatch):
    """A pair of data set and network that nobody has trained is an error in a fresh clone."""
    from calibkit_companion.records import folders

    chosen = {call[i + 1]: call[i + 2] for i, word in enumerate(call) if word == "-p"}
    monkeypatch.setenv("CALIBKIT_CACHE", str(ROOT / "data_cache"))
    selection = plan.Selection(
        "released", dataset=chosen.get("dataset", ""), network=chosen["network"]
    )
    (page,) = (Path(word).stem for word in call if word.startswith("notebooks/"))
    assert any(folders.load(run) for run in selection.of_page(page))


@pytest.mark.parametrize("call", every("make"))
def test_make_commands(call):
    targets = re.findall(r"^(\w+):.*##", (ROOT / "Makefile").read_text(), re.MULTILINE)
    settings = re.findall(r"^(\w+) \?=", (ROOT / "Makefile").read_text(), re.MULTILINE) + ["TRAIN"]
    for word in call:
        assert word in targets or word.partition("=")[0] in settings, word


@pytest.mark.parametrize("call", every("snakemake"))
def test_snakemake_commands(call):
    from snakemake.cli import get_argument_parser

    options = get_argument_parser().parse_args(call)
    if options.workflow_profile:
        assert (ROOT / options.workflow_profile / "config.yaml").exists()
    edition = [word for word in call if word.startswith("edition=")]
    assert all(word.partition("=")[2] in plan.EDITIONS for word in edition)


def test_pages_load_no_script_unasked():
    """jupyter-book adds every .js below _static to every page, MathJax to some a second time."""
    asked = yaml.safe_load((ROOT / "book/_config.yml").read_text())["sphinx"]["config"]
    static = ROOT / "book/_static"
    found = sorted(str(path.relative_to(static)) for path in static.rglob("*.js"))
    assert found == sorted(asked["html_js_files"])


# --- docstrings, which pytest runs as doctests ---


def sections(value) -> dict[str, str]:
    parts = re.split(r"^(\w+)\n-+\n", inspect.getdoc(value), flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def test_margins_are_those_of_the_verdicts():
    from calibkit_companion import results

    printed = re.search(r"their ± \((.*?)\)", (ROOT / "book/how_to_read.md").read_text())[1]
    found = dict(re.findall(r"([\d.]+) (?:points )?of (\w+)", printed))
    scale = {"ece": 100, "auroc": 100, "accuracy": 100, "nll": 1}
    found = {metric.lower(): float(number) for number, metric in found.items()}
    assert found == {
        metric: pytest.approx(k * results.margin(metric)) for metric, k in scale.items()
    }


def test_constants_of_the_report_have_the_values_that_its_page_gives():
    text = (ROOT / "book/api_report.md").read_text()
    rows = re.findall(r"^\| `(\w+)\.([A-Z_]+)` \| (.+?) \|", text, re.M)
    assert len(rows) > 5
    for module, name, shown in rows:
        value = getattr(import_module(f"calibkit.report.{module}"), name)
        expected = str(value) if isinstance(value, int) else ", ".join(f"`{key}`" for key in value)
        assert shown == expected, name


def test_reference_names_every_network_and_every_data_set():
    from calibkit_companion.training.networks import NETWORKS

    rows = re.findall(r"^\| (`.+?) \|", (ROOT / "book/api_training.md").read_text(), re.M)
    named = re.findall(r"`(\w+)`", " ".join(rows))
    assert sorted(named) == sorted([*NETWORKS, *(row["name"] for row in data.listing())])


REFERENCE_PAGES = "".join(p.read_text() for p in sorted((ROOT / "book").glob("api*.md")))
REFERENCE = re.findall(r"automodule:: calibkit\.(\w+)$", REFERENCE_PAGES, re.M)
FUNCTIONS = [
    pytest.param(function, id=f"{module}.{name}")
    for module in (*REFERENCE, "report.assessment", "report.checks")
    for name, function in vars(import_module(f"calibkit.{module}")).items()
    if inspect.isfunction(function) and function.__module__ == f"calibkit.{module}"
    if not name.startswith("_")
]
FUNCTIONS += [  # what a package hands on from its modules
    pytest.param(function, id=f"{package.__name__.rpartition('.')[2]}.{name}")
    for package in (data, report, metrics, posthoc, stats)
    for name in package.__all__
    if inspect.isfunction(function := getattr(package, name))
]
METHODS = [
    pytest.param(method, id=method.__qualname__)
    for module in (confidence, losses, metrics, posthoc, stats)
    for kind, value in vars(module).items()
    if inspect.isclass(value) and value.__module__.startswith(module.__name__) and kind[0] != "_"
    if value not in (metrics.Ranking, metrics.Bins)  # not in the reference
    for name, method in vars(value).items()
    if inspect.isfunction(method) and not name.startswith("_")
]


def parameters_in(function) -> list[str]:
    """Names in the section `Parameters` of a function."""
    described = re.findall(
        r"^\**(\w+(?:, \w+)*)(?: : .+)?\n {4}\S", sections(function).get("Parameters", ""), re.M
    )
    return [name for names in described for name in names.split(", ")]


def described_elsewhere(function) -> set[str]:
    """Parameters of the functions that a sentence "Arguments as in `NAME`" names."""
    found = re.search(r"\barguments as in `[^.]*?\.(?:\s|$)", inspect.getdoc(function), re.I)
    names = re.findall(r"as in `(\w+)`", found[0]) if found else []
    others = [getattr(metrics, name) for name in names]
    for other in others:
        assert parameters_in(other) == list(inspect.signature(other).parameters), other
    return {parameter for other in others for parameter in parameters_in(other)}


def test_arguments_described_elsewhere_are_those_of_the_function_named():
    assert described_elsewhere(metrics.mce) == {"probs", "labels", "bins", "sample_weight"}
    assert "bins" in described_elsewhere(metrics.histogram_overlap)
    assert described_elsewhere(metrics.ece) == set()


def test_every_module_of_the_reference_is_looked_at():
    assert {"metrics", "losses", "posthoc", "stats", "plots", "explorable"} <= set(REFERENCE)
    assert {"data.load", "report.verdict", "report.checks.checks"} <= {f.id for f in FUNCTIONS}


@pytest.mark.parametrize("function", FUNCTIONS)
def test_help_of_a_function_has_an_example_that_runs(function):
    assert ">>> " in sections(function).get("Examples", "")


@pytest.mark.parametrize(
    "function", [f for f in FUNCTIONS if not f.id.startswith(("data.", "report."))] + METHODS
)
def test_help_of_a_function_says_what_goes_in_and_out(function):
    signature = inspect.signature(function)
    asked = [name for name in signature.parameters if name != "self"]
    own, shared = parameters_in(function), described_elsewhere(function)
    assert sorted({*own, *shared} & {*asked}) == sorted(asked)
    assert own == [name for name in asked if name in own]  # in order, and none that is not there
    returns = re.search(r"^.+\n {4}\S", sections(function).get("Returns", ""), re.MULTILINE)
    assert returns or signature.return_annotation is None
