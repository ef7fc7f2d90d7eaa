"""Publish the tables of one setting in one step, and read tables of one release only.

A folder holds tables whose names contain the start of their checksum, such as
``results-3f9a1c02d4e5b6a7.parquet``, and ``manifest.json``, which lists the tables that count with
the SHA-256 of each. `publish` writes new tables beside the old tables and then replaces the
manifest, which is a single rename. Afterwards it deletes the old tables. A process that opened the
old tables before can still read them.

Version 0.1.0 wrote ``results.parquet`` and no manifest. Such tables are read without checks. Newer
tables say in their metadata that they have a manifest, so a lost manifest is noticed.
"""

import hashlib
import io
import json
import os
import re
import shutil
import weakref
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from calibkit import files
from calibkit.terms import extras

MANIFEST = "manifest.json"
KINDS = ("runs", "history", "shifted", "results", "epochs")
NOTE = b"calibkit"  # key in the metadata of a table; the value is made by `note`
_VERSION = 1  # version of the format of manifests
_NAMED = re.compile(rf"({'|'.join(KINDS)})-([0-9a-f]{{16}})\.parquet")


class DamagedTables(OSError):
    """Tables on disk are missing, or differ from those that were written."""


def note(kinds) -> dict[bytes, bytes]:
    """Make the metadata of a table: it belongs to a manifest with tables of these kinds."""
    return {NOTE: json.dumps({"manifest": MANIFEST, "tables": sorted(kinds)}).encode()}


class Opened:
    """The tables of a folder at one moment, even if other tables are published afterwards.

    Parameters
    ----------
    folder : the folder of the tables of a setting

    Raises
    ------
    DamagedTables
        The manifest is missing or altered, or a table that it lists is missing. Reading a table
        raises the error if the table differs from its checksum. The message names the file and says
        what mends it.
    """

    def __init__(self, folder: Path):
        self.folder = folder
        self.sums, self._files = _open(folder)
        weakref.finalize(self, _close, self._files)
        self._compared: set[str] = set()

    @property
    def sealed(self) -> bool:
        """Whether the tables have checksums; those of version 0.1.0 have none."""
        return bool(self.sums)

    def path(self, kind: str) -> Path:
        return self.folder / os.path.basename(self._files[kind].name)

    def content(self, kind: str) -> bytes:
        """Read the bytes of a table; the first time they are compared with the checksum."""
        with files.named(self.path(kind)):
            content = _whole(self._files[kind])
        if self.sealed and kind not in self._compared:
            if hashlib.sha256(content).hexdigest() != self.sums[kind]:
                raise _damaged(self.path(kind))
            self._compared.add(kind)
        return content

    def check(self) -> None:
        """Compare every table with its checksum; raise `DamagedTables` if one differs."""
        for kind in self.sums.keys() - self._compared:
            self.content(kind)

    def flush(self) -> None:
        """Flush every table to disk."""
        for path in (*map(self.path, self._files), self.folder):
            files.flush(path)

    def read(self, kind: str, columns: list[str] | None = None):
        """Read a table as an Arrow table; None if the folder has no table of this kind.

        `columns` names the columns to read; names that the table lacks are ignored.
        """
        with extras():
            import pyarrow as pa
            import pyarrow.parquet as parquet
        if kind not in self._files:
            return None
        content = pa.BufferReader(self.content(kind))
        try:
            with parquet.ParquetFile(content, page_checksum_verification=True) as file:
                if not self.sealed and NOTE in (file.schema_arrow.metadata or {}):
                    raise _lost(self.folder)
                has = file.schema_arrow.names
                kept = None if columns is None else [c for c in columns if c in has]
                return file.read(columns=kept)
        except DamagedTables:
            raise
        except (pa.ArrowException, OSError, ValueError) as error:
            words = str(error).partition("\n")[0]
            raise _damaged(self.path(kind), f"cannot be read ({words})") from None


def _close(opened: Mapping[str, BinaryIO]) -> None:
    for file in opened.values():
        file.close()


def _whole(file: BinaryIO) -> bytes:
    if not hasattr(os, "pread"):  # Windows
        file.seek(0)
        return file.read()
    parts = []  # by offset: forked processes share the position in the file
    while part := os.pread(file.fileno(), 1 << 30, sum(map(len, parts))):
        parts.append(part)
    return b"".join(parts)


def state(folder: str) -> tuple | None:
    """Return a value that changes whenever tables are published in a folder.

    Returns
    -------
    tuple or None
        None if the folder holds no tables.

    Raises
    ------
    DamagedTables
        The folder holds newer tables than those of version 0.1.0, but no manifest.
    """
    for name in (MANIFEST, "runs.parquet"):
        with suppress(FileNotFoundError, NotADirectoryError):
            stat = os.stat(os.path.join(folder, name))
            return name, stat.st_mtime_ns, stat.st_size, stat.st_ino
    with suppress(FileNotFoundError, NotADirectoryError):
        if any(name.startswith("runs-") and _NAMED.fullmatch(name) for name in os.listdir(folder)):
            if not files.exists(os.path.join(folder, MANIFEST)):  # it may just have been published
                raise _lost(Path(folder))
            return state(folder)
    return None


def file_of(folder: Path) -> Path:
    """Return the file of a folder that is replaced whenever tables are published in the folder."""
    return folder / (MANIFEST if files.exists(folder / MANIFEST) else "runs.parquet")


def _open(folder: Path) -> tuple[dict[str, str], dict[str, BinaryIO]]:
    """Open the tables of a folder.

    Returns the checksums by kind, which are empty without a manifest, and the open files by kind.
    """
    while True:
        sums = _manifest(folder)
        named = {kind: _name(kind, value) for kind, value in (sums or {}).items()}
        opened: dict[str, BinaryIO] = {}
        lacking = None
        for kind in KINDS if sums is None else named:
            path = folder / named.get(kind, f"{kind}.parquet")
            try:
                opened[kind] = open(path, "rb")  # noqa: SIM115 (open as long as its reader lives)
            except FileNotFoundError:
                lacking = path
        # Other tables were published just now and a listed table is gone: start again.
        if (lacking or sums is None) and _manifest(folder) != sums:
            _close(opened)
            continue
        if lacking and sums is not None:
            raise _damaged(lacking)
        return sums or {}, opened


def _manifest(folder: Path) -> dict[str, str] | None:
    """Read the checksums of the tables by kind; None without a manifest."""
    try:
        content = files.read(folder / MANIFEST)
    except FileNotFoundError:
        return None
    try:
        info = json.loads(content)
        sums = info["tables"]
        if info == json.loads(_text(sums)) and sums.keys() <= set(KINDS) and "runs" in sums:
            return sums
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        pass
    raise _lost(folder)


def _text(sums: Mapping[str, str]) -> bytes:
    """Write the manifest of some tables as JSON, with a checksum of the manifest itself."""
    info = {"version": _VERSION, "tables": dict(sorted(sums.items()))}
    seal = hashlib.sha256(json.dumps(info).encode()).hexdigest()
    return (json.dumps(info | {"seal": seal}, indent=1) + "\n").encode()


def _name(kind: str, sha256: str) -> str:
    return f"{kind}-{sha256[:16]}.parquet"


def _damaged(path: Path, how: str = "missing or altered") -> DamagedTables:
    way = (
        f"git checkout -- {path.parent} brings released tables back; or move that folder away, and"
    )
    return DamagedTables(f"{path}: {how}; {way} calibkit collect writes it from data_cache/runs")


def _lost(folder: Path) -> DamagedTables:
    return DamagedTables(f"{folder / MANIFEST}: missing or altered; calibkit collect mends it")


# --- publishing ---


@contextmanager
def drafted(draft: Path) -> Iterator[None]:
    """A context in which there is a new folder. At its end, what is left of it is removed."""
    shutil.rmtree(draft, ignore_errors=True)
    draft.mkdir(parents=True)
    try:
        yield
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def publish(folder: Path, tables: Mapping[str, bytes]) -> None:
    """Replace the tables of a folder in one step.

    If the process is killed, the folder has either the old tables or the new tables. It may hold
    further files that do not count, which `tidy` removes.

    Parameters
    ----------
    folder : the folder of the tables of a setting
    tables : contents of the Parquet files by kind

    Raises
    ------
    FileExistsError
        The folder holds other files and no tables.
    """
    sums = {kind: hashlib.sha256(content).hexdigest() for kind, content in tables.items()}
    if state(str(folder)) is None:  # no tables yet: rename a whole folder
        draft = folder.with_name(f".draft-{folder.name}-{os.getpid()}")
        with drafted(draft):
            _fill(draft, tables, sums)
            if files.names(folder):
                raise FileExistsError(f"{folder}: holds files and no tables; move it away")
            draft.replace(folder)
        files.flush(folder.parent)
        return
    _fill(folder, tables, sums)
    tidy(folder)


def _fill(folder: Path, tables: Mapping[str, bytes], sums: Mapping[str, str]) -> None:
    for kind, content in tables.items():
        path = folder / _name(kind, sums[kind])
        if not files.exists(path) or files.read(path) != content:  # an unchanged table stays
            files.publish({path: content})
    files.flush(folder)
    files.publish({folder / MANIFEST: _text(sums)})


def tidy(folder: Path) -> None:
    """Remove the files that do not count from a folder of tables, and replace a lost manifest.

    The manifest can be replaced if the folder has exactly one undamaged table of each kind that the
    metadata of the tables list. Otherwise the folder stays as it is.
    """
    try:
        if state(str(folder)) is None:
            return
        sums = _manifest(folder)
    except DamagedTables:
        if not (sums := _found(folder)):
            return
        files.publish({folder / MANIFEST: _text(sums)})
    counts = {_name(kind, value) for kind, value in (sums or {}).items()}
    with suppress(PermissionError):  # Windows cannot delete an open file; a later call does
        for path in _beside(folder, old=sums is not None):
            if path.name not in counts:
                path.unlink(missing_ok=True)


def _beside(folder: Path, old: bool) -> Iterator[Path]:
    """Yield tables with a checksum in their name, and drafts; with `old`, also old tables.

    Old tables are those of version 0.1.0.
    """
    for path in sorted(folder.iterdir()):
        of_before = old and path.name in {f"{kind}.parquet" for kind in KINDS}
        if of_before or _NAMED.fullmatch(path.name) or files.is_draft(path.name):
            yield path


def _found(folder: Path) -> dict[str, str]:
    """Compute the checksums of a folder's tables by kind; empty unless all are of one release."""
    import pyarrow.parquet as parquet

    sums: dict[str, str] = {}
    for path in folder.iterdir():
        if not (name := _NAMED.fullmatch(path.name)):
            continue
        content = files.read(path)
        value = hashlib.sha256(content).hexdigest()
        if name[1] in sums or not value.startswith(name[2]):
            return {}
        sums[name[1]] = value
        if name[1] == "runs":
            said = json.loads(parquet.read_schema(io.BytesIO(content)).metadata[NOTE])
    return sums if "runs" in sums and said["tables"] == sorted(sums) else {}
