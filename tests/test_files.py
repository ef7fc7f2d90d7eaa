"""What is written takes the place of the old: whole, together, never through a link."""

import errno
import json
import os
import re
import stat
import subprocess
import sys
import threading

import numpy as np
import pytest

from calibkit import cli, files, posthoc, report
from calibkit.report import gate, predictions

pytestmark = [
    pytest.mark.usefixtures("few_resamples"),
    pytest.mark.skipif(os.name == "nt", reason="links, modes and locks of POSIX"),
]


def pair(folder):
    return {folder / "report.html": b"<p>new", folder / "report.json": b"{}"}


def saved(folder, n=300, k=3, seed=0, size=1.0):
    rng = np.random.default_rng(seed)
    logits = rng.normal(size=(n, k))
    labels = (logits + rng.gumbel(size=(n, k))).argmax(axis=1)
    np.savez(folder / "preds.npz", logits=size * logits, labels=labels)
    return folder / "preds.npz"


# --- files ----------------------------------------------------------------------------------------


def test_files_are_made_and_replaced_with_the_modes_of_the_user(tmp_path):
    old = os.umask(0o027)
    try:
        for _ in range(2):
            files.publish(pair(tmp_path))
    finally:
        os.umask(old)
    assert {p.name: p.read_bytes() for p in tmp_path.iterdir()} == {
        "report.html": b"<p>new",
        "report.json": b"{}",
    }
    assert {stat.S_IMODE(p.stat().st_mode) for p in tmp_path.iterdir()} == {0o640}


def test_no_link_is_followed_out_of_the_folder(tmp_path):
    """Neither one in the place of the file, nor one in the place of its draft."""
    (tmp_path / "out").mkdir()
    (tmp_path / "theirs").write_text("theirs")
    for name in ("report.html", "report.json", "report.html.part", ".report.html.part"):
        (tmp_path / "out" / name).symlink_to(tmp_path / "theirs")
    files.publish(pair(tmp_path / "out"))
    assert (tmp_path / "theirs").read_text() == "theirs"
    assert not (tmp_path / "out" / "report.html").is_symlink()
    assert (tmp_path / "out" / "report.json").read_bytes() == b"{}"


def test_a_draft_that_someone_has_put_there_is_not_opened(tmp_path, monkeypatch):
    monkeypatch.setattr(files.secrets, "token_hex", lambda n: "0" * 2 * n)
    monkeypatch.setattr(files, "_sweep", lambda *_: None)
    draft = tmp_path / ".report.html.0000000000000000.part"
    draft.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(FileExistsError, match="report.html"):
        files.publish(pair(tmp_path))
    assert not (tmp_path / "elsewhere").exists()


@pytest.mark.parametrize("what", ["write", "fsync", "replace", "unlink", "open"])
def test_a_failure_names_the_file_and_leaves_no_draft_and_no_mixture(what, tmp_path, monkeypatch):
    """Each call in turn fails, as it would on a full or broken disk."""
    for file in pair(tmp_path):
        file.write_bytes(b"old")
    real, calls = getattr(os, what, None), 0

    def failing(*args, **kwargs):
        nonlocal calls
        calls += 1
        if calls == nth:
            name = args[:1] if what == "open" else ()  # as the real one does
            raise OSError(errno.ENOSPC, "No space left on device", *map(str, name))
        return real(*args, **kwargs)

    if what == "write":
        real = files._write
    nth, failed = 1, 0
    while True:
        calls = 0
        with monkeypatch.context() as patch:
            if what == "write":
                patch.setattr(files, "_write", failing)
            elif what == "unlink":
                real = files.Path.unlink
                patch.setattr(files.Path, "unlink", failing)
            else:
                patch.setattr(os, what, failing)
            try:
                files.publish(pair(tmp_path))
            except OSError as error:
                assert str(error.filename).startswith(str(tmp_path)) and error.errno == 28
                failed += 1
            else:
                if calls < nth:
                    break
        left = {p.name: p.read_bytes() for p in tmp_path.iterdir()}
        parts = [name for name in left if name.endswith(".part")]
        assert what == "unlink" or not parts
        kinds = {content == b"old" for name, content in left.items() if name not in parts}
        assert len(kinds) == 1, (nth, left)
        for file in tmp_path.iterdir():
            file.unlink()
        for file in pair(tmp_path):
            file.write_bytes(b"old")
        nth += 1
    assert failed


def test_drafts_of_the_killed_go_and_other_files_stay(tmp_path):
    mine = tmp_path / ".report.html.0123456789abcdef.part"
    others = [tmp_path / ".map.json.0123456789abcdef.part", tmp_path / "report.html.part"]
    for file in (mine, *others):
        file.write_text("x")
    files.publish(pair(tmp_path))
    assert not mine.exists() and all(file.exists() for file in others)


def test_folders_and_devices_are_not_replaced(tmp_path):
    (tmp_path / "report.json").mkdir()
    with pytest.raises(IsADirectoryError, match="report.json"):
        files.publish(pair(tmp_path))
    os.mkfifo(tmp_path / "map.json")
    with pytest.raises(OSError, match="expected the name of a file"):
        posthoc.FixedTemperature(2.0).save(tmp_path / "map.json")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["map.json", "report.json"]


def test_readers_and_writers_at_once_see_pairs_that_belong_together(tmp_path):
    """Four processes write; whoever sees both files, twice alike, sees one pair."""
    code = (
        "import sys; from pathlib import Path; from calibkit import files\n"
        "for i in range(60):\n"
        "    mark = f'{sys.argv[2]}-{i}'.encode(); folder = Path(sys.argv[1])\n"
        "    files.publish({folder / 'report.html': mark, folder / 'report.json': mark})\n"
    )
    command = [sys.executable, "-c", code, str(tmp_path)]
    writers = [subprocess.Popen([*command, str(i)]) for i in range(4)]
    html, numbers, seen = tmp_path / "report.html", tmp_path / "report.json", 0
    while any(writer.poll() is None for writer in writers):
        try:
            first = html.read_bytes()
            text, again = numbers.read_bytes(), html.read_bytes()
        except FileNotFoundError:
            continue
        if first == again:
            assert text == first
            seen += 1
    assert seen and not any(writer.wait() for writer in writers)
    assert html.read_bytes() == numbers.read_bytes() and len([*tmp_path.iterdir()]) == 2


# --- the report -----------------------------------------------------------------------------------


def test_the_gate_judges_the_numbers_that_were_computed(tmp_path, monkeypatch, capsys):
    """Another process puts a better model's numbers there, right after ours were written."""
    bad, out = saved(tmp_path, size=6.0), tmp_path / "out"
    good = {"metrics": {"ece": 0.0}, "verdict": [], "notes": [], "cautions": []}
    real = files.publish

    def overtaken(contents):
        real(contents)
        (out / "report.json").write_text(json.dumps(good))

    monkeypatch.setattr(files, "publish", overtaken)
    command = ["report", str(bad), "--out", str(out), "--fail-if", "ece>0.1"]
    assert cli.main([*command, "--json"]) == gate.FAILED
    assert json.loads(capsys.readouterr().out)["metrics"]["ece"]["estimate"] > 0.1
    assert json.loads((out / "report.json").read_text()) == good


def test_what_is_told_is_what_is_written(tmp_path):
    told = []
    page = report.build(saved(tmp_path), tmp_path, told=told.append)
    assert told == [page.with_suffix(".json").read_text()]


def test_a_report_names_the_sums_of_its_inputs(tmp_path):
    import hashlib

    first = saved(tmp_path)
    other = tmp_path / "labels.npy"
    arrays = np.load(first)
    np.save(tmp_path / "scores.npy", arrays["logits"])
    np.save(other, arrays["labels"])
    page = report.build(tmp_path / "scores.npy", tmp_path, against=first)
    read = (tmp_path / "scores.npy", other, first)
    assert json.loads(page.with_suffix(".json").read_text())["inputs"] == [
        {"file": file.name, "sha256": hashlib.sha256(file.read_bytes()).hexdigest()}
        for file in read
    ]


def test_a_file_that_changes_while_it_is_read_is_refused(tmp_path, monkeypatch):
    file, real = saved(tmp_path), predictions.readers.arrays_of

    def meanwhile(path, asked):
        found = real(path, asked)
        with path.open("ab") as handle:
            handle.write(b"more")
        return found

    monkeypatch.setattr(predictions.readers, "arrays_of", meanwhile)
    with pytest.raises(ValueError, match="changed while it was read"):
        predictions.read(file)


@pytest.mark.parametrize("names", [["US$", "A$B$c"], ["$x_{", r"$\frac$"]])
def test_dollar_signs_in_names_stay(names, tmp_path):
    from calibkit.report import assessment, page

    rng = np.random.default_rng(0)
    p = rng.random(300)
    scores = {"probs": np.stack([1 - p, p], axis=1), "labels": (rng.random(300) < p).astype(int)}
    data = predictions.from_arrays(scores | {"class_names": names}).about(names[1])
    assert report.build(data, tmp_path).exists()
    figure = page.draw("probability", assessment.assess(data))
    (axis,) = figure.axes
    assert axis.get_xlabel() == f"Probability of “{names[1]}”"
    figure.canvas.draw()
    assert not axis.xaxis.label.get_parse_math()


def test_a_limit_that_is_no_number_is_refused():
    for limit in ("nan", "-nan", "NaN"):
        with pytest.raises(ValueError, match=f"fail-if: got 'ece>{limit}', expected a condition"):
            gate.parse(f"ece>{limit}")
    assert gate.parse("nll<inf").limit == float("inf")


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere such a name cannot be made")
def test_a_name_that_is_no_text_is_named_in_what_is_said(tmp_path, capsys):
    name = os.fsdecode(b"caf\xe9.npz")
    saved(tmp_path).rename(tmp_path / name)
    out = tmp_path / os.fsdecode(b"out\xff")
    assert cli.main(["report", str(tmp_path / name), "--out", str(out)]) == 0
    assert r"out\xff" in capsys.readouterr().out
    written = json.loads((out / "report.json").read_text(encoding="utf-8"))
    assert written["inputs"][0]["file"] == r"caf\xe9.npz"
    (tmp_path / name).write_text("no archive")
    assert cli.main(["report", str(tmp_path / name), "--out", str(out)]) == 2
    assert r"caf\xe9.npz: " in capsys.readouterr().err
    (tmp_path / name).unlink()
    assert cli.main(["report", str(tmp_path / name), "--out", str(out)]) == 1
    assert re.search(r"No such file.*caf\\udce9.npz", capsys.readouterr().err)


@pytest.mark.parametrize("kind", ["f4", "f8"])
@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_huge_logits_give_no_warnings(kind, tmp_path, capsys):
    """Those whose differences are no numbers are refused; the lowest number masks a class."""
    most = np.finfo(kind).max
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(300, 4))
    labels = (logits + rng.gumbel(size=(300, 4))).argmax(axis=1)
    np.save(tmp_path / "labels.npy", labels)
    huge = (logits / np.abs(logits).max()).astype(kind) * most
    np.save(tmp_path / "huge.npy", huge)
    command = ["report", str(tmp_path / "huge.npy"), "--out", str(tmp_path), "--quiet"]
    assert cli.main(command) == (0 if kind == "f4" else 2)
    said = capsys.readouterr().err
    assert ("expected scores of at most 1e+150" in said) == (kind == "f8")
    masked = np.append(logits.astype(kind), np.full((300, 1), -most, kind), axis=1)
    np.save(tmp_path / "huge.npy", masked)
    found = predictions.read(tmp_path / "huge.npy")
    np.testing.assert_array_equal(found.logits[:, :4], logits.astype(kind))
    assert cli.main(command) == 0


def test_threads_may_publish_in_one_folder(tmp_path):
    """The lock is on the folder, and each call opens it anew."""
    threads = [threading.Thread(target=files.publish, args=[pair(tmp_path)]) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["report.html", "report.json"]


@pytest.mark.parametrize("call", ["open", "close", "fsync"])
def test_an_error_while_a_folder_is_flushed_names_it(call, tmp_path, monkeypatch):
    real = os.close

    def failing(handle, *_):
        if call == "close":
            real(handle)
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, call, failing)
    with pytest.raises(OSError, match=re.escape(str(tmp_path))):
        files.flush(tmp_path)


def test_an_absent_folder_is_told_from_one_that_the_disk_does_not_show(tmp_path, monkeypatch):
    assert not files.exists(tmp_path / "a") and files.names(tmp_path / "a") == []

    def failing(path):
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "stat", failing)
    monkeypatch.setattr(os, "listdir", failing)
    with pytest.raises(OSError, match="Input/output error"):
        files.exists(tmp_path / "a")
    with pytest.raises(OSError, match=re.escape(f"'{tmp_path}'")):
        files.names(tmp_path)


def test_a_lock_that_cannot_be_had_is_named(tmp_path, monkeypatch):
    from calibkit_companion.data import cache

    def failing(*_):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(cache.FileLock, "_acquire", failing)
    with pytest.raises(OSError, match=re.escape(f"'{tmp_path / 'a.lock'}'")):
        with cache.locked(tmp_path / "a.lock"):
            pass


def test_times_that_cannot_be_set_name_the_record(tmp_path, monkeypatch):
    from calibkit_companion.experiments import plan
    from calibkit_companion.records import folders
    from tests import records

    monkeypatch.setenv("CALIBKIT_CACHE", str(tmp_path))
    record = records.write(plan.Selection("smoke", seeds=1).runs(["erm"])[0], n=60, k=5)

    def failing(*_, **__):
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "utime", failing)
    with pytest.raises(PermissionError, match=re.escape(record.name)):
        folders.add_replicates(record)
