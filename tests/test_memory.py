"""What a file unpacks to is known before it is read, and measured by the limits that hold."""

import io
import subprocess
import sys
import textwrap
import zipfile

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import parquet

from calibkit import metrics
from calibkit.report import assessment, estimates, predictions
from calibkit.report.readers import content, memory
from calibkit.report.readers import parquet as reader

LOGITS = np.array([[2.0, 0.0], [0.0, 1.0]] * 50)
LABELS = np.array([0, 1] * 50)


def refused(path, message):
    with pytest.raises(ValueError) as caught:
        predictions.read(path)
    said = str(caught.value)
    assert message in said and said.startswith(f"{path}: ") and "\n" not in said


@pytest.fixture
def little(monkeypatch):
    monkeypatch.setattr(memory, "memory", lambda: 4_000_000)


# --- limits ---------------------------------------------------------------------------------------


def grouped(folder, monkeypatch, lines, limits):
    """Control groups as files: what /proc says, and the limits by folder."""
    for place, limit in limits.items():
        (folder / place).parent.mkdir(parents=True, exist_ok=True)
        (folder / place).write_text(limit)
    (folder / "proc").write_text(lines)
    real = memory.Path
    places = {"/proc/self/cgroup": folder / "proc"}
    monkeypatch.setattr(memory, "Path", lambda path: places.get(path, real(path)))
    monkeypatch.setattr(memory, "GROUPS", folder)


@pytest.mark.parametrize(
    ("lines", "limits", "expected"),
    [
        ("0::/a/b\n", {"a/b/memory.max": "max\n", "a/memory.max": "1000\n"}, [1000]),
        ("0::/a/b\n", {"a/b/memory.max": "500\n", "a/memory.max": "1000\n"}, [500, 1000]),
        ("0::/\n", {"memory.max": "700\n"}, [700]),  # a container sees its own group as the root
        ("0::/docker/x\n", {"memory.max": "700\n"}, [700]),
        ("4:memory:/j\n3:cpu:/j\n", {"memory/j/memory.limit_in_bytes": "600\n"}, [600]),
        ("2:cpu,memory:/\n", {"memory/memory.limit_in_bytes": "600\n"}, [600]),
        ("3:cpu:/\n0::/\n", {"cpu/memory.max": "1\n"}, []),
        ("0::/a\n", {"a/memory.max": "max\n"}, []),
    ],
)
def test_limits_of_control_groups(lines, limits, expected, tmp_path, monkeypatch):
    grouped(tmp_path, monkeypatch, lines, limits)
    assert memory._of_group() == expected


def test_the_least_of_all_limits_holds(tmp_path, monkeypatch):
    monkeypatch.setattr(memory, "_machine", lambda: 3000)
    monkeypatch.setattr(memory, "_of_process", lambda: [2000])
    for limit, least in (("max", 2000), ("1000", 1000), ("5000", 2000)):
        grouped(tmp_path, monkeypatch, "0::/\n", {"memory.max": limit})
        assert memory.memory() == least


@pytest.mark.skipif(sys.platform != "linux", reason="ulimit -v, and what is taken of it")
def test_a_small_table_is_read_under_a_limit_on_addresses(tmp_path):
    """In a process that may take 1 GB more than it has: no buffer of a share of the RAM."""
    table, big = tmp_path / "small.csv", tmp_path / "big.npz"
    pd.DataFrame({"label": LABELS, "prob_0": 0.4, "prob_1": 0.6}).to_csv(table, index=False)
    np.savez_compressed(big, logits=np.zeros((50_000_000, 2), np.int32), labels=LABELS)
    code = """
        import resource, sys
        from calibkit.report import predictions
        from calibkit.report.readers import memory
        import pandas
        pages = int(open("/proc/self/statm").read().split()[0])
        most = pages * resource.getpagesize() + 600_000_000
        resource.setrlimit(resource.RLIMIT_AS, (most, most))
        assert 500_000_000 < memory.memory() <= 600_000_000, memory.memory()
        print(len(predictions.read(sys.argv[1]).labels))
        try:
            predictions.read(sys.argv[2])
        except ValueError as error:
            print(error)
    """
    command = [sys.executable, "-c", textwrap.dedent(code), str(table), str(big)]
    found = subprocess.run(command, capture_output=True, text=True, check=True, timeout=100)
    first, second = found.stdout.splitlines()
    assert first == "100" and "'logits' takes 0.4 GB of memory" in second and not found.stderr


# --- sizes, before anything is unpacked -----------------------------------------------------------


def test_the_header_of_each_array_is_read_first(tmp_path, little, monkeypatch):
    """One array may fit and all of them not; an array that is not needed does not count."""
    file = tmp_path / "p.npz"
    fits = {"logits": LOGITS, "labels": LABELS, "other": np.zeros(10**6)}
    np.savez_compressed(file, **fits)
    assert len(predictions.read(file).labels) == 100
    half = np.zeros((50_000, 4))
    np.savez_compressed(file, logits=half, val_logits=half, labels=np.zeros(50_000, int),
                        val_labels=np.zeros(50_000, int))  # fmt: skip
    refused(file, "its arrays take")
    np.savez_compressed(file, logits=np.zeros((10**6, 2)), labels=np.zeros(10**6, int))
    assert file.stat().st_size < 50_000
    monkeypatch.setattr(np.lib.npyio.NpzFile, "__getitem__", lambda *_: pytest.fail("unpacked"))
    refused(file, "'logits' takes 16.0 MB of memory, and a file may take at most 2.0 MB")


@pytest.mark.parametrize("shape", [(10**12, 10), (101, 2)])
def test_a_header_that_promises_more_than_there_is(shape, tmp_path):
    header = io.BytesIO()
    about = {"descr": "<f8", "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(header, about)
    whole = header.getvalue() + LOGITS.tobytes()
    (tmp_path / "p.npy").write_bytes(whole)
    np.save(tmp_path / "labels.npy", LABELS)
    refused(tmp_path / "p.npy", "ends early, with 1,600 bytes of an array of")
    with zipfile.ZipFile(tmp_path / "p.npz", "w") as archive:
        archive.writestr("logits.npy", whole)
        archive.writestr("labels.npy", whole)
    refused(tmp_path / "p.npz", "ends early, with 1,600 bytes of an array of")


def test_a_single_array_larger_than_the_memory(tmp_path, little):
    np.save(tmp_path / "p.npy", np.zeros((10**6, 2)))
    np.save(tmp_path / "labels.npy", np.zeros(10**6, int))
    refused(tmp_path / "p.npy", "its array takes 16.0 MB of memory")


@pytest.mark.parametrize(
    "values", [np.zeros(10**6), np.repeat("yes", 10**6)], ids=["float", "text"]
)
def test_the_metadata_of_a_parquet_file_is_read_first(values, tmp_path, little, monkeypatch):
    file = tmp_path / "p.parquet"
    pd.DataFrame({"label": values}).to_parquet(file)
    assert file.stat().st_size < 20_000
    monkeypatch.setattr(pd, "read_parquet", lambda *_: pytest.fail("unpacked"))
    refused(file, "its columns take")


def test_long_equal_texts_in_a_parquet_file(tmp_path, little):
    """By the metadata there are few values; each is long, and the file has it once."""
    file = tmp_path / "p.parquet"
    pd.DataFrame({"label": ["x" * 20_000] * 1000, "n": 1}).to_parquet(file)
    assert file.stat().st_size < 20_000
    refused(file, "its columns take more than")


LONG = "x" * 20_000
FRONT = {"column_encoding": {"t": "DELTA_BYTE_ARRAY"}, "use_dictionary": False}


@pytest.mark.parametrize(
    ("values", "kind", "options"),
    [
        ([[LONG]] * 1000, None, {}),
        ([{"a": LONG}] * 1000, None, {}),
        ([LONG.encode()] * 1000, None, {}),
        ([LONG.encode()] * 1000, pa.binary(20_000), {}),
        ([LONG] * 1000, pa.large_string(), {}),
        ([LONG + str(i) for i in range(1000)], None, FRONT),
    ],
    ids=["list", "struct", "bytes", "fixed", "large", "front"],
)
def test_texts_of_any_kind_and_encoding_are_counted(values, kind, options, tmp_path, little):
    file = tmp_path / "p.parquet"
    parquet.write_table(
        pa.table({"t": pa.array(values, kind)}), file, compression="zstd", **options
    )
    assert file.stat().st_size < 20_000
    refused(file, "MB of memory, and a file may take at most 1.0 MB")


def test_texts_that_fit_are_no_reason_to_refuse(tmp_path, little):
    """One long text among many short ones, and columns of nothing."""
    columns = {"t": [LONG, None, *["x"] * 9998], "n": pa.nulls(10_000), "e": ["x"] * 10_000}
    parquet.write_table(pa.table(columns), tmp_path / "p.parquet")
    reader.check(tmp_path / "p.parquet")
    parquet.write_table(pa.table({"t": pa.array([], pa.string())}), tmp_path / "p.parquet")
    reader.check(tmp_path / "p.parquet")


@pytest.mark.parametrize("text", ["plain", "many", "none"])
def test_parquet_files_are_read_as_before(text, tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"label": LABELS, "prob_0": 0.25, "prob_1": 0.75, "n": 1.0})
    words = {"plain": "ab", "many": rng.integers(0, 9, 100).astype(str), "none": None}
    frame = frame.assign(group=words[text], day=pd.Timestamp("2026-01-01"), kind="a")
    frame["kind"] = frame["kind"].astype("category")
    frame.to_parquet(tmp_path / "p.parquet")
    data = predictions.read(tmp_path / "p.parquet")
    assert data.labels.tolist() == LABELS.tolist()


def test_a_view_of_few_numbers_in_a_file_of_torch(tmp_path, little):
    torch = pytest.importorskip("torch")
    tensors = {"logits": torch.zeros(1, 1).expand(10**6, 2), "labels": torch.zeros(2)}
    torch.save(tensors, tmp_path / "p.pt")
    assert (tmp_path / "p.pt").stat().st_size < 20_000
    refused(tmp_path / "p.pt", "its tensors take 8.0 MB of memory")


def test_text_is_read_in_chunks(tmp_path, monkeypatch):
    monkeypatch.setattr(content, "CHUNK", 7)
    table = tmp_path / "p.csv"
    pd.DataFrame({"label": LABELS, "prob_0": 0.4, "prob_1": 0.6}).to_csv(table, index=False)
    assert content.bytes_of(table) == table.read_bytes()
    assert len(predictions.read(table).labels) == 100


# --- many samples ---------------------------------------------------------------------------------


def test_peak_memory_of_report_and_compare_on_300_000_samples(tmp_path):
    """Above that of 2,000 samples; 80 MB and 195 MB when this was written."""
    code = """
        import resource, sys
        from pathlib import Path
        import numpy as np
        from calibkit import cli

        def peak():  # in MB, of this process so far
            status = Path("/proc/self/status")
            if status.exists():  # where getrusage counts the process that started this one, too
                return int(status.read_text().partition("VmHWM:")[2].split()[0]) / 1e3
            unit = 1e6 if sys.platform == "darwin" else 1e3
            return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit

        def measured(command, n):
            folder, labels = Path(sys.argv[1]), np.random.default_rng(9).integers(0, 10, n)
            for seed, file in enumerate(("a.npz", "b.npz")):
                logits = np.random.default_rng(seed).standard_normal((n, 10), np.float32)
                logits[np.arange(n), labels] += 2
                np.savez(folder / file, logits=logits, labels=labels)
            files = [str(folder / "a.npz"), str(folder / "b.npz")][: 1 + (command == "compare")]
            assert cli.main([command, *files, "--out", str(folder / "out"), "--quiet"]) == 0
            return peak()

        base = max(measured("compare", 2000), measured("report", 2000))
        for command in ("compare", "report"):  # the one that takes less first
            print(command, measured(command, 300_000) - base)
    """
    pytest.importorskip("resource")
    command = [sys.executable, "-c", textwrap.dedent(code), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    found = {name: float(mb) for name, mb in (line.split() for line in done.stdout.splitlines())}
    assert 0 < found["compare"] < 120, found
    assert 0 < found["report"] < 260, found


def test_maps_are_compared_on_as_many_samples_as_a_small_change_takes(monkeypatch):
    """A Brier score that changes by a thousandth of itself is told from one that does not."""
    assert [estimates.judged(k) for k in (2, 10, 100)] == [4_000_000, 200_000, 80_000]
    n = estimates.judged(10)
    labels = np.random.default_rng(1).integers(0, 10, n)
    logits = np.random.default_rng(0).standard_normal((n, 10), np.float32)
    logits[np.arange(n), labels] += 2
    before = metrics.per_sample(logits, labels)["brier"]
    change = metrics.per_sample(logits / 1.0025, labels)["brier"] - before
    assert abs(change.mean()) == pytest.approx(0.001 * before.mean(), rel=0.2)
    assert abs(change.mean()) > 2 * change.std() / np.sqrt(n)

    data = predictions.from_arrays({"logits": logits[:900], "labels": labels[:900]})
    monkeypatch.setattr(estimates, "JUDGED", 500)
    results, _ = assessment.recalibrated(data)
    assert results["temperature scaling"]["judged_on"] == 500
