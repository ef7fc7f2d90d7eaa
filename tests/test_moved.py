"""Old imports work and warn; each names the place where its module is now."""

import subprocess
import sys
import warnings

import pytest

OLD = {  # a statement of version 0.1, and what its warning names
    "from calibkit import data": "calibkit_companion.data",
    "from calibkit.data import load, listing": "calibkit_companion.data",
    "from calibkit.data.catalogue import SOURCES": "calibkit_companion.data.catalogue",
    "from calibkit.companion import claims, figures, page, plan, printed, results": (
        "calibkit_companion"
    ),
    "from calibkit.companion.papers import fmfp": "calibkit_companion.experiments.papers",
    "import calibkit.companion.papers.fmfp": "calibkit_companion.experiments.papers.fmfp",
    "from calibkit.companion.results import Number, NoRecords, load": (
        "calibkit_companion.results"
    ),
    "from calibkit.companion.claims import Claim, Judged, Place, board, overconfidence, word": (
        "calibkit_companion.claims"
    ),
    "from calibkit.companion.derived import Number, Predictions, value": (
        "calibkit_companion.results.derived"
    ),
    "from calibkit.training import store, tables": "calibkit_companion.records.folders",
    "from calibkit.training.store import DamagedRecord, Record, load, save": (
        "calibkit_companion.records.folders and calibkit_companion.records.record"
    ),
    "from calibkit.training.tables import find, write": ("calibkit_companion.records.tables"),
    "from calibkit.training.runs import METHODS, Method, Run, Setting, method": (
        "calibkit_companion.experiments.run"
    ),
    "from calibkit.training.protocols import FMFP_CIFAR, Protocol": (
        "calibkit_companion.experiments.protocol"
    ),
    "from calibkit.training.networks import Network, build": "calibkit_companion.training.networks",
    "from calibkit.training import loop": "calibkit_companion.training.loop",
    "from calibkit.stats import BY_LOG_ODDS, COMPARED, Replicates, replicates_of_run": (
        "calibkit_companion.records.deviations"
    ),
    "from calibkit.report.files import arrays_of, format_of, table_of": "calibkit.report.readers",
}


def in_a_fresh_python(code: str) -> subprocess.CompletedProcess:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)


@pytest.mark.parametrize("statement", OLD)
def test_an_old_import_works_and_says_where_the_module_is_now(statement):
    pytest.importorskip("torch")
    done = in_a_fresh_python(statement)
    assert done.returncode == 0, done.stderr
    assert f" moved to {OLD[statement]}" in done.stderr
    assert "<string>:1: DeprecationWarning" in done.stderr


def test_old_names_are_the_same_objects():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        from calibkit.companion.plan import runs
        from calibkit.training.store import Record
    from calibkit_companion.experiments import plan
    from calibkit_companion.records import record

    assert runs is plan.runs and Record is record.Record


def test_an_unknown_old_name_is_an_error():
    done = in_a_fresh_python("from calibkit.companion import nothing_of_this_name")
    assert "ImportError: cannot import name 'nothing_of_this_name'" in done.stderr
    done = in_a_fresh_python("import calibkit.training.nothing_of_this_name")
    assert "ModuleNotFoundError: No module named" in done.stderr


def test_the_library_loads_no_old_name_and_no_companion():
    code = "import sys, calibkit; from calibkit import metrics, report, stats; print(*sys.modules)"
    loaded = in_a_fresh_python(code).stdout.split()
    assert not [name for name in loaded if name.startswith("calibkit_companion")]
    assert not {"calibkit.companion", "calibkit.data", "calibkit.training"} & set(loaded)
