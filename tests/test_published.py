"""Tables are published in one step, opened as one release, and read as they were written or not."""

import json
import os
import random
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from calibkit import cli
from calibkit_companion import results
from calibkit_companion.experiments import plan
from calibkit_companion.records import folders, manifest, release, tables
from calibkit_companion.records.manifest import DamagedTables
from calibkit_companion.records.record import DamagedRecord
from tests import records

COLLECT = ["collect", "--edition", "smoke"]


@pytest.fixture
def runs(tmp_path, monkeypatch):
    """Four runs of the smoke edition, in folders with replicates."""
    monkeypatch.setenv("CALIBKIT_CACHE", str(tmp_path))
    made = plan.Selection("smoke", seeds=2).runs(["erm", "focal"])
    for run in made:
        write(run)
    return made


def write(run, **how):
    how = {"n": 60, "k": 5} | how
    return folders.add_replicates(records.write(run, **how))


def home():
    return tables.released_root() / "shared"


def collect():
    assert cli.main(COLLECT) == 0


def looked_anew():
    tables.seen.clear()
    return tables.settings()


def numbers(runs):
    """Everything that tables say of runs."""
    looked_anew()
    found = {}
    for run in runs:
        info, its = tables.find(run.name)
        for kind in ("history", "shifted"):
            found |= {(run.name, kind, k): v for k, v in its.rows(kind, run.name).items()}
        for of in (its.ends, its.epochs):
            for key, row in of.of(run.name).items():
                found[run.name, *key] = of.value[row]
                if of.drawn[row]:
                    found[run.name, *key, "drawn"] = of.deviations(row)
        found[run.name] = json.dumps(info)
    return found


def same(ours, theirs):
    return ours.keys() == theirs.keys() and all(
        np.array_equal(ours[k], theirs[k], equal_nan=np.asarray(ours[k]).dtype.kind == "f")
        for k in ours
    )


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def as_before(folder):
    """Tables as version 0.1.0 wrote them: plain names, no manifest, no checksums, no note."""
    from pyarrow import parquet

    for path in folder.glob("*-*.parquet"):
        table = parquet.read_table(path).replace_schema_metadata(None)
        parquet.write_table(table, folder / f"{path.name.partition('-')[0]}.parquet")
        path.unlink()
    (folder / "manifest.json").unlink()


# --- publishing ---


def test_pandas_reads_the_tables_that_the_manifest_names(runs):
    import pandas as pd

    collect()
    said = json.loads((home() / "manifest.json").read_text())["tables"]
    assert {f"{k}-{v[:16]}.parquet" for k, v in said.items()} | {"manifest.json"} == {
        *contents(home())
    }
    frame = pd.read_parquet(next(home().glob("runs-*.parquet")))
    assert sorted(frame["run"]) == sorted(run.name for run in runs)


@pytest.mark.parametrize("first", [True, False])
def test_tables_of_a_setting_are_replaced_as_a_whole_or_not_at_all(runs, first, monkeypatch):
    if not first:
        release.write(home(), [folders.load(run) for run in runs[:2]])
    before = {} if first else contents(home())
    old = {} if first else numbers(runs[:2])

    def dies_at(step):
        left = [step]

        def counted(real):
            def call(*given, **named):
                left[0] -= 1
                if left[0] < 0:
                    raise KeyboardInterrupt
                return real(*given, **named)

            return call

        with monkeypatch.context() as patched:
            for name in ("replace", "fsync", "open"):
                patched.setattr(os, name, counted(getattr(os, name)))
            patched.setattr(Path, "unlink", lambda path, **how: None)  # as by a kill
            release.write(home(), [folders.load(run) for run in runs])

    for step in range(200):
        try:
            dies_at(step)
        except KeyboardInterrupt:
            looked_anew()
            if tables.find(runs[2].name) is None:  # not yet switched
                assert {run for run in runs if tables.find(run.name)} == (
                    {*runs[:2]} if old else set()
                )
                assert same(numbers(runs[:2]), old) if old else True
                with release.held():
                    assert contents(home()) == before if old else not any(home().parent.iterdir())
                continue
        break
    assert step > 10
    with release.held():
        assert same(numbers(runs), numbers(runs)) and len(contents(home())) == 4
        assert [path.name for path in home().parent.iterdir()] == ["shared"]


def test_a_run_that_moves_to_another_setting_is_in_some_tables_at_every_moment(runs, monkeypatch):
    collect()
    before = numbers(runs)
    for run in runs:
        shutil.rmtree(folders.runs_root() / run.name)
    homes = {run.name: "aside" if run.method == "erm" else "shared" for run in runs}
    monkeypatch.setattr("calibkit_companion.results.collection.home", lambda edition: homes)
    publish, seen = manifest.publish, []

    def watched(*given):
        publish(*given)
        seen.append(same(numbers(runs), before))

    monkeypatch.setattr(manifest, "publish", watched)
    collect()
    assert seen == [True] * 3 and same(numbers(runs), before)
    assert {k: len(its.infos) for k, its in tables.settings().items()} == {"aside": 2, "shared": 2}


# --- one release for a reader ---


def test_who_has_opened_a_release_reads_on_in_it(runs):
    release.write(home(), [folders.load(run) for run in runs[2:]])
    old, its = numbers(runs[2:]), tables.find(runs[2].name)[1]
    opened = tables.Tables(home())  # and has read nothing yet
    values = opened.ends.values(runs[2].name)  # `steps` come from the same release
    release.write(home(), [folders.load(run) for run in runs])  # other rows come before
    assert same(numbers(runs[2:]), old) and tables.find(runs[2].name)[1] is not its
    for key, row in opened.ends.of(runs[2].name).items():
        assert values[key] == old[runs[2].name, *key]
        if opened.ends.drawn[row]:
            assert np.array_equal(opened.ends.deviations(row), old[runs[2].name, *key, "drawn"])
    assert opened.rows("history", runs[2].name).keys() == its.rows("history", runs[2].name).keys()


@pytest.mark.parametrize("before", [False, True])
def test_who_opens_while_another_publishes_gets_the_new_release(runs, before, monkeypatch):
    release.write(home(), [folders.load(run) for run in runs[:2]])
    if before:
        as_before(home())
    real, calls = manifest._manifest, []

    def meanwhile(folder):
        said = real(folder)
        calls.append(said)
        if len(calls) == 1:
            monkeypatch.setattr(manifest, "_manifest", real)
            release.write(home(), [folders.load(run) for run in runs])
            monkeypatch.setattr(manifest, "_manifest", meanwhile)
        return said

    monkeypatch.setattr(manifest, "_manifest", meanwhile)
    assert set(tables.Tables(home()).infos) == {run.name for run in runs} and len(calls) > 1


def test_a_reader_of_one_release_sees_no_later_one_but_loses_nothing(runs):
    release.write(home(), [folders.load(run) for run in runs[:2]])
    shutil.rmtree(folders.runs_root() / runs[3].name)
    with tables.one_release():
        its = tables.find(runs[0].name)[1]
        write(runs[3])
        new = [folders.load(run) for run in runs]
        release.write(home(), new)
        tables._index.clear(), tables._index.update(dict.fromkeys(its.infos, its))
        tables.seen[:] = str(tables.released_root()), 0.0, {"shared": its}  # as another process
        assert tables.find(runs[3].name) is None  # nor as a folder was it there
        assert tables.find(runs[2].name)  # which was, and may be gone by now
        assert tables.find(runs[0].name)[1] is its and tables.settings() == {"shared": its}
    assert tables.find(runs[0].name)[1] is not its and tables.find(runs[3].name)


def test_a_record_whose_folder_went_since_is_read_from_the_tables_it_went_into(runs):
    held, want = folders.load(runs[0]), folders.load(runs[0])
    assert held.tables is None
    history, replicates = want.history, want.replicates
    collect()
    assert cli.main(["delete", runs[0].name, "--yes"]) == 0
    assert held.history.keys() == history.keys() and held.shifted == {}
    assert held.replicates.estimate("auroc") == replicates.estimate("auroc")
    held.check()
    assert np.array_equal(held.arrays["test_logits"], want.arrays["test_logits"])


# --- damage ---


def test_no_flipped_byte_of_tables_goes_unnoticed(runs):
    collect()
    before, rng = numbers(runs), random.Random(0)
    paths = sorted(home().iterdir())
    for _ in range(330):
        path = rng.choice(paths)
        good = path.read_bytes()
        place = rng.randrange(len(good))
        path.write_bytes(
            good[:place] + bytes([good[place] ^ rng.randrange(1, 256)]) + good[place + 1 :]
        )
        try:
            os.utime(path, (rng.random() * 1e9,) * 2)  # another state: it is opened anew
            tables._OPEN.clear()
            found = numbers(runs)
            assert path.name == "manifest.json" and same(found, before)  # a blank for another
        except DamagedTables as error:
            assert str(path) in str(error) and "\n" not in str(error) and "calibkit" in str(error)
        finally:
            path.write_bytes(good)
    tables._OPEN.clear()
    assert same(numbers(runs), before)


def test_pages_have_checksums_of_their_own(runs):
    from pyarrow import parquet

    collect()
    path = next(home().glob("results-*.parquet"))
    content = path.read_bytes()
    chunk = parquet.ParquetFile(path).metadata.row_group(0).column(0)
    place = chunk.dictionary_page_offset + chunk.total_compressed_size - 3
    path.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
    with pytest.raises(OSError, match="CRC checksum verification failed"):
        parquet.ParquetFile(path, page_checksum_verification=True).read()
    its = tables.Tables(home())
    its.opened._compared.add("results")  # as if nobody had compared the whole file
    with pytest.raises(DamagedTables, match=rf"{path}: cannot be read \(.*CRC"):
        _ = its.ends


@pytest.mark.parametrize("damage", ["lost", "altered", "unsealed"])
def test_a_lost_manifest_is_noticed_and_collect_mends_it(runs, damage, capsys):
    collect()
    before, good = numbers(runs), contents(home())
    path = home() / "manifest.json"
    if damage == "lost":
        path.unlink()
    else:
        info = json.loads(path.read_text())
        info["tables"].pop("history") if damage == "unsealed" else info.pop("seal")
        path.write_text(json.dumps(info))
    capsys.readouterr()
    assert cli.main(["results", "--edition", "smoke"]) == 1
    said = capsys.readouterr().err
    assert said == f"calibkit: {path}: missing or altered; calibkit collect mends it\n"
    collect()
    assert contents(home()) == good and same(numbers(runs), before)


def test_tables_that_no_manifest_fits_are_refused_and_left_alone(runs, capsys):
    collect()
    (home() / "manifest.json").unlink()
    next(home().glob("history-*")).unlink()
    left = contents(home())
    assert cli.main(COLLECT) == 1 and "manifest.json: missing" in capsys.readouterr().err
    assert contents(home()) == left
    for path in home().iterdir():  # under the names that version 0.1.0 used
        path.rename(home() / f"{path.name.partition('-')[0]}.parquet")
    with pytest.raises(DamagedTables, match=r"manifest.json: missing .* calibkit collect"):
        looked_anew()


def test_a_lost_table_is_named_with_what_brings_it_back(runs, capsys):
    collect()
    path = next(home().glob("results-*"))
    path.unlink()
    tables._OPEN.clear()
    assert cli.main(["results", "--edition", "smoke"]) == 1
    said = capsys.readouterr().err
    assert f"{path}: missing or altered; git checkout -- {home()}" in said and said.count("\n") == 1


def test_tables_of_version_0_1_0_are_read_with_a_note_and_upgraded(runs, capsys):
    collect()
    good, before = contents(home()), numbers(runs)
    for run in runs:
        shutil.rmtree(folders.runs_root() / run.name)
    as_before(home())
    assert same(numbers(runs), before)
    capsys.readouterr()
    assert cli.main(["results", "--edition", "smoke"]) == 0
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and "version 0.1.0" in said and "calibkit collect" in said
    collect()
    assert contents(home()) == good and same(numbers(runs), before)
    capsys.readouterr()
    assert cli.main(["results", "--edition", "smoke"]) == 0 and not capsys.readouterr().err


# --- delete ---


def predictions():
    return {path.parent.name for path in folders.runs_root().glob("*/arrays.npz")}


def tree():
    return {path: path.read_bytes() for path in folders.runs_root().rglob("*") if path.is_file()}


@pytest.mark.parametrize("damage", ["history", "results", "old history"])
def test_no_folder_is_deleted_that_its_tables_cannot_replace(runs, damage, capsys):
    from pyarrow import parquet

    collect()
    if damage == "old history":  # without a checksum, so every number is compared
        as_before(home())
        path = home() / "history.parquet"
        table = parquet.read_table(path)
        other = table["train_accuracy"].to_numpy() + 0.25
        place = table.schema.get_field_index("train_accuracy")
        parquet.write_table(table.set_column(place, "train_accuracy", [other]), path)
    else:
        path = next(home().glob(f"{damage}-*"))
        content = bytearray(path.read_bytes())
        content[len(content) // 2] ^= 4
        path.write_bytes(content)
    tables._OPEN.clear()
    before = tree()
    assert cli.main(["delete", *(run.name for run in runs), "--yes"]) in (1, 2)
    assert str(home()) in capsys.readouterr().err and tree() == before


def test_a_folder_with_another_record_than_the_tables_stays(runs, capsys):
    collect()
    write(runs[1], separation=2.0)
    before = tree()
    assert cli.main(["delete", *(run.name for run in runs), "--yes"]) == 2
    said = capsys.readouterr().err
    assert runs[1].name in said and "calibkit collect" in said and tree() == before
    collect()
    assert cli.main(["delete", *(run.name for run in runs), "--yes"]) == 0
    assert predictions() == {run.name for run in runs}


@pytest.mark.parametrize("released", [True, False])
def test_a_killed_delete_blocks_nobody_and_loses_nothing(runs, released, monkeypatch):
    if released:
        collect()
    kept = predictions() if released else set()
    call = ["delete", "--edition", "smoke", "--method", "focal", "--method", "erm", "--yes"]
    unlink, rmtree = folders.Path.unlink, shutil.rmtree
    for step in range(40):
        left = [step]

        def counted(*given, left=left, real=None, **named):
            left[0] -= 1
            if left[0] < 0:
                raise KeyboardInterrupt
            return real(*given, **named)

        with monkeypatch.context() as patched:
            patched.setattr(
                folders.Path, "unlink", lambda *a, f=counted, **b: f(*a, real=unlink, **b)
            )
            patched.setattr(shutil, "rmtree", lambda *a, f=counted, **b: f(*a, real=rmtree, **b))
            code = cli.main(call)
        assert kept <= predictions()
        assert cli.main(["results", "--edition", "smoke"]) == 0
        if code == 0:
            break
    assert step > 2 and cli.main(call) == 0
    assert {path.name for path in folders.runs_root().glob("*") if path.is_dir()} == kept
    assert not list(folders.runs_root().glob(".deleted-*"))
    if released:
        assert all(not folders.load(run).light for run in runs)


def test_delete_brings_back_what_a_killed_collect_of_version_0_1_0_left(runs):
    collect()
    as_before(home())
    home().rename(home().with_name(".replaced-shared-123"))
    shutil.copytree(home().with_name(".replaced-shared-123"), home().with_name(".draft-shared-123"))
    assert cli.main(["delete", *(run.name for run in runs), "--yes"]) == 0
    assert predictions() == {run.name for run in runs} and [
        p.name for p in home().parent.iterdir()
    ] == ["shared"]
    assert all(folders.load(run).tables for run in runs)


def test_predictions_that_no_record_and_no_table_knows_are_deleted_by_name_only(runs):
    for run in runs:
        (folders.runs_root() / run.name / "run.json").unlink()
    assert cli.main(["delete", "--edition", "smoke", "--method", "erm", "--yes"]) == 0
    assert len(predictions()) == 4
    assert cli.main(["delete", runs[0].name, "--yes"]) == 0 and len(predictions()) == 3


def test_deleting_again_what_is_released_is_no_error(runs, capsys):
    collect()
    for _ in range(2):
        assert cli.main(["delete", runs[0].name, "--yes"]) == 0
    assert "nothing to delete" in capsys.readouterr().out


def test_a_damaged_folder_of_a_released_run_leaves_its_predictions_where_they_are(runs):
    collect()
    (folders.runs_root() / runs[0].name / "history.csv").write_text("epoch\n")
    assert folders.verify(runs[0]) is None
    record = folders.verify(runs[0])
    assert record.tables and not record.light and len(record.arrays["test_logits"]) == 60
    aside = folders.runs_root() / f".damaged-{runs[0].name}"
    assert {"history.csv", "run.json"} <= {path.name for path in aside.iterdir()}


def test_no_advice_would_destroy_released_predictions(runs):
    collect()
    cli.main(["delete", *(run.name for run in runs), "--yes"])
    path = folders.load(runs[0]).predictions
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(DamagedRecord, match=f"git checkout -- {path} .* move it away") as error:
        _ = folders.load(runs[0]).arrays
    assert "delete" not in str(error.value)
    other = write(replace(runs[0], seed=7))
    (other.path / "history.csv").unlink()
    with pytest.raises(DamagedRecord, match=f"calibkit train {other.name} sets the folder aside"):
        _ = folders.opened(other.path).history


def test_results_knows_nothing_of_folders_that_another_process_deletes(runs):
    collect()
    here = results.Results(plan.Selection("smoke", seeds=2), train=False)
    held = here.records("erm")
    assert cli.main(["delete", "--edition", "smoke", "--method", "erm", "--yes"]) == 0
    again = results.Results(plan.Selection("smoke", seeds=2), train=False)
    ours, theirs = here.compare("focal")["focal"], again.compare("focal")["focal"]
    assert held[0].tables is None and again.records("erm")[0].tables
    assert ours.interval == theirs.interval
