"""Whatever stands in a file or an argument, what comes out is a result or an error with a name."""

import contextlib
import functools
import hashlib
import io
import json
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from calibkit import cli
from calibkit.report import predictions
from calibkit_companion.experiments import plan
from calibkit_companion.experiments.method import parse
from calibkit_companion.experiments.protocol import Protocol
from calibkit_companion.records import folders
from calibkit_companion.records.record import DamagedRecord, Record

RUN = plan.Run("gaussians", "mlp", parse("erm"), 0, Protocol(epochs=3))
quick = settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)

# --- files: bytes changed, cut out, doubled or put in, anywhere ---

edits = st.lists(
    st.tuples(
        st.sampled_from(("change", "cut", "insert", "repeat")),
        st.floats(0, 1),  # where, as a share of the file
        st.binary(min_size=1, max_size=12),
    ),
    min_size=1,
    max_size=4,
)


def edited(content: bytes, changes) -> bytes:
    for kind, where, new in changes:
        at = int(where * len(content))
        rest = {
            "change": content[at + len(new) :],
            "cut": content[at + 50 * len(new) :],
            "insert": content[at:],
            "repeat": content[max(at - 30, 0) :],
        }[kind]
        content = content[:at] + (b"" if kind == "cut" else new) + rest
    return content


@functools.cache
def record_files() -> dict[str, bytes]:
    arrays = {
        "test_logits": np.arange(12, dtype=np.float16).reshape(4, 3),
        "test_labels": np.array([0, 2, 1, 0], np.int16),
        "train_brier": np.zeros((1, 5), np.float16),
    }
    with tempfile.TemporaryDirectory() as folder:
        rows = [{"epoch": 1, "loss": 0.5}, {"epoch": 3, "loss": 0.25}]
        shifts = [{"shift": "noise", "severity": 1, "ece": 0.5}]
        made = folders.save(RUN, "done", rows, arrays, {"seconds": 1.0}, Path(folder), shifts)
        return {file.name: file.read_bytes() for file in made.path.iterdir()}


@contextlib.contextmanager
def record():
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, RUN.name)
        path.mkdir()
        for name, content in record_files().items():
            (path / name).write_bytes(content)
        yield folders.load(RUN, Path(folder))


def used(found: Record):
    return found.history, found.arrays, found.shifted


def same(first, second) -> bool:
    return all(
        a.keys() == b.keys() and all(np.array_equal(a[k], b[k]) for k in a)
        for a, b in zip(first, second, strict=True)
    )


@quick
@given(st.sampled_from(("run.json", "history.csv", "arrays.npz", "shifted.csv.gz")), edits)
def test_altered_record_is_refused_or_says_the_same(file, changes):
    with record() as whole:
        before, info, path = used(whole), whole.info, whole.path / file
        path.write_bytes(edited(path.read_bytes(), changes))
        try:
            found = folders.load(RUN, whole.path.parent)
            assert found.info == info and same(used(found), before)
        except DamagedRecord as error:
            assert RUN.name in str(error)
            with contextlib.redirect_stdout(io.StringIO()):
                assert folders.verify(RUN, whole.path.parent) is None
            assert not whole.path.exists()


@quick
@given(st.sampled_from(("history.csv", "arrays.npz", "shifted.csv.gz")), edits)
def test_record_that_was_made_to_mislead_raises_named_errors(file, changes):
    """Sums and seal fit what was altered, as in a folder from somebody else."""
    with record() as whole:
        path = whole.path / file
        path.write_bytes(edited(path.read_bytes(), changes))
        whole.info["sha256"][file] = hashlib.sha256(path.read_bytes()).hexdigest()
        whole.info["seal"] = folders._seal(whole.info)
        (whole.path / "run.json").write_text(json.dumps(whole.info))
        try:
            used(folders.load(RUN, whole.path.parent))
        except (DamagedRecord, OSError, MemoryError):
            pass


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=6,
)


@quick
@given(st.sampled_from("version status run sha256 provenance seal".split()), values)
@example("sha256", None)
def test_any_value_in_run_json_is_a_record_or_a_named_error(key, value):
    with record() as whole:
        info = whole.info | {key: value}
        if key != "seal":
            info["seal"] = folders._seal(info)
        (whole.path / "run.json").write_text(json.dumps(info))
        with contextlib.redirect_stdout(io.StringIO()):
            try:
                found = folders.verify(RUN, whole.path.parent)
                assert found is None or found.info == info or "nan" in str(info).lower()
            except OSError:
                pass


# --- predictions for a report ---


def prediction_file(kind: str) -> bytes:
    rng = np.random.default_rng(0)
    probs, labels = rng.dirichlet(np.ones(3), 20), rng.integers(0, 3, 20)
    buffer = io.BytesIO()
    if kind == ".npz":
        np.savez_compressed(buffer, probs=probs, labels=labels)
    elif kind == ".npy":
        np.save(buffer, np.column_stack([probs, labels]))
    elif kind == ".json":
        buffer.write(json.dumps({"probs": probs.tolist(), "labels": labels.tolist()}).encode())
    elif kind == ".jsonl":  # of lm-evaluation-harness
        rows = [
            {"target": str(y), "filtered_resps": [[str(x), "False"] for x in np.log(p)]}
            for p, y in zip(probs, labels, strict=True)
        ]
        buffer.write("\n".join(map(json.dumps, rows)).encode())
    elif kind == ".tsv":  # confidences of answers
        lines = [f"{p.max():.3f}\t{p.argmax() == y}" for p, y in zip(probs, labels, strict=True)]
        buffer.write("\n".join(["confidence\tcorrect", *lines]).encode())
    else:
        lines = ["label,prob_a,prob_b,prob_c"]
        lines += [
            f"{'abc'[y]},{p[0]:.4f},{p[1]:.4f},{p[2]:.4f}"
            for p, y in zip(probs, labels, strict=True)
        ]
        buffer.write("\n".join(lines).encode())
    return buffer.getvalue()


FILES = {
    kind: prediction_file(kind) for kind in (".npz", ".npy", ".csv", ".tsv", ".json", ".jsonl")
}


@quick
@given(st.sampled_from([*sorted(FILES), ".parquet"]), edits | st.binary(max_size=60))
def test_altered_predictions_are_read_or_refused_in_one_line(kind, changes):
    content = changes if isinstance(changes, bytes) else edited(FILES.get(kind, b""), changes)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, f"preds{kind}")
        path.write_bytes(content)
        try:
            found = predictions.read(path)
            assert len(found.labels) and np.isfinite(found.logits).all()
        except ValueError as error:
            assert "\n" not in str(error) and str(path) in str(error)


# --- parameters and the command line ---

words = st.text(max_size=12) | st.sampled_from(
    ("focal(gamma=3)", "focal(gamma=nan)", "erm+sam+swa", "focal(gamma=)", "../../x", "a;b", "-1")
)


@quick
@given(st.text(alphabet="focalmixup(gm=1.,e-)+saw ", max_size=20) | words)
def test_any_method_is_a_run_with_a_safe_name_or_refused(text):
    try:
        run = plan.Run("gaussians", "mlp", parse(text), 0, Protocol(epochs=1))
    except ValueError as error:
        assert "\n" not in str(error).replace(repr(text)[1:-1], "")
        return
    assert repr(parse(run.method)) == repr(run.recipe)  # nan is not equal to itself
    assert set(run.name) <= set(map(chr, range(128))) and "/" not in run.name
    assert not set(run.name) & set(" ;&|$`'\"\\<>()*?\n")  # it goes into shell commands


@quick
@given(
    st.lists(
        st.tuples(
            st.sampled_from(
                ("--edition", "--paper", "--method", "--dataset", "--network", "--seeds")
                + ("--epochs", "--train-size", "--variant", "--set")
            ),
            words | st.sampled_from(("smoke", "erm", "batch_size=0", "milestones=(1,)", "loss=[")),
        ),
        max_size=4,
    )
)
def test_any_arguments_are_a_table_or_an_error_in_one_line(pairs):
    out, err = io.StringIO(), io.StringIO()
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        stack.enter_context(pytest.MonkeyPatch.context()).setenv("CALIBKIT_CACHE", folder)
        stack.enter_context(contextlib.redirect_stdout(out))
        stack.enter_context(contextlib.redirect_stderr(err))
        arguments = [f"{option}={value}" for option, value in pairs]
        try:
            code = cli.main(["runs", "--edition=smoke", *arguments])
        except SystemExit as refused:  # argparse
            code = refused.code
    assert code in (0, 2)
    assert "Traceback" not in err.getvalue() and (code == 0) == (not err.getvalue())
