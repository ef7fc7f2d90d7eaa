"""The tables of one setting, published in one step and opened as one.

A folder holds tables named by their content, such as ``results-3f9a1c02d4e5b6a7.parquet``, and
``manifest.json``, which names those that count and the SHA-256 of each. `publish` writes new tables
beside the old ones, then replaces the manifest: that one rename is the switch. Only then the tables
that it no longer names go. Who has opened them reads on.

Version 0.1.0 wrote ``results.parquet`` and no manifest. Such tables are read as they are. A table
of today says in its own metadata that it has a manifest, so a lost one is noticed.
"""

import hashlib
import io
import json
import os
import re
import shutil
import weakref
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from calibkit import files
from calibkit.terms import extras

MANIFEST = "manifest.json"
KINDS = ("runs", "history", "shifted", "results", "epochs")
NOTE = b"calibkit"  # in a table's metadata: which tables its manifest names
_VERSION = 1  # of the manifest
_NAMED = re.compile(rf"({'|'.join(KINDS)})-([0-9a-f]{{16}})\.parquet")


class DamagedTables(OSError):
    """Tables on disk that are not what was written."""


def note(kinds) -> dict[bytes, bytes]:
    """What a table says in its metadata: that it is one of `kinds`, which a manifest names."""
    return {NOTE: json.dumps({"manifest": MANIFEST, "tables": sorted(kinds)}).encode()}


class Opened:
    """The tables of a folder as they were when it was opened, whatever is published meanwhile.

    Raises
    ------
    DamagedTables
        The manifest is lost or altered, or names a table that is not there; when read, also that a
        table is not the one that was written. The line says which file, and what mends it.
    """

    def __init__(self, folder: Path):
        self.folder = folder
        self.sums, self._files = _open(folder)
        weakref.finalize(self, _close, self._files)
        self._compared: set[str] = set()

    @property
    def sealed(self) -> bool:
        """Whether there are checksums; version 0.1.0 wrote none."""
        return bool(self.sums)

    def path(self, kind: str) -> Path:
        return self.folder / os.path.basename(self._files[kind].name)

    def content(self, kind: str) -> bytes:
        """The bytes of a table, compared with the manifest when they are read first."""
        with files.named(self.path(kind)):
            content = _whole(self._files[kind])
        if self.sealed and kind not in self._compared:
            if hashlib.sha256(content).hexdigest() != self.sums[kind]:
                raise _damaged(self.path(kind))
            self._compared.add(kind)
        return content

    def check(self) -> None:
        """Compare every table with the manifest."""
        for kind in self.sums.keys() - self._compared:
            self.content(kind)

    def flush(self) -> None:
        """Return once every table is on the disk."""
        for path in (*map(self.path, self._files), self.folder):
            files.flush(path)

    def read(self, kind: str, columns: list[str] | None = None):
        """An Arrow table, or None if there is none of this kind; of `columns` those it has."""
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
    parts = []  # from the start, wherever a forked process has left the common position
    while part := os.pread(file.fileno(), 1 << 30, sum(map(len, parts))):
        parts.append(part)
    return b"".join(parts)


def state(folder: str) -> tuple | None:
    """What changes when tables are published in a folder; None if it holds none.

    Raises
    ------
    DamagedTables
        It holds tables of today, and no manifest.
    """
    for name in (MANIFEST, "runs.parquet"):
        with suppress(FileNotFoundError, NotADirectoryError):
            stat = os.stat(os.path.join(folder, name))
            return name, stat.st_mtime_ns, stat.st_size, stat.st_ino
    with suppress(FileNotFoundError, NotADirectoryError):
        if any(name.startswith("runs-") and _NAMED.fullmatch(name) for name in os.listdir(folder)):
            if not files.exists(os.path.join(folder, MANIFEST)):  # nor was it published just now
                raise _lost(Path(folder))
            return state(folder)
    return None


def file_of(folder: Path) -> Path:
    """The file that is replaced whenever tables are published there."""
    return folder / (MANIFEST if files.exists(folder / MANIFEST) else "runs.parquet")


def _open(folder: Path) -> tuple[dict[str, str], dict[str, BinaryIO]]:
    """SHA-256 and open file of each table, by kind; no sums where there is no manifest."""
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
        # Published meanwhile: some of what was named may be gone, so it starts again.
        if (lacking or sums is None) and _manifest(folder) != sums:
            _close(opened)
            continue
        if lacking and sums is not None:
            raise _damaged(lacking)
        return sums or {}, opened


def _manifest(folder: Path) -> dict[str, str] | None:
    """SHA-256 by kind; None without a manifest."""
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
    """The manifest of some tables, with a seal: a changed one is not taken for another."""
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


def publish(folder: Path, tables: Mapping[str, bytes]) -> None:
    """Put tables, by kind, in the place of those that a folder has, in one step.

    Killed at any moment, the folder has the old tables or the new ones, and perhaps more files that
    do not count, which `tidy` removes.
    """
    sums = {kind: hashlib.sha256(content).hexdigest() for kind, content in tables.items()}
    if state(str(folder)) is None:  # the first: the whole folder comes into place
        draft = folder.with_name(f".draft-{folder.name}-{os.getpid()}")
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir(parents=True)
        try:
            _fill(draft, tables, sums)
            if files.names(folder):
                raise FileExistsError(f"{folder}: holds files and no tables; move it away")
            draft.replace(folder)
        finally:
            shutil.rmtree(draft, ignore_errors=True)
        files.flush(folder.parent)
        return
    _fill(folder, tables, sums)
    tidy(folder)


def _fill(folder: Path, tables: Mapping[str, bytes], sums: Mapping[str, str]) -> None:
    for kind, content in tables.items():
        path = folder / _name(kind, sums[kind])
        if not files.exists(path) or files.read(path) != content:  # else it is the same as before
            files.publish({path: content})
    files.flush(folder)
    files.publish({folder / MANIFEST: _text(sums)})


def tidy(folder: Path) -> None:
    """Remove what does not count in a folder of tables; write its manifest anew if it is lost.

    A manifest can be written if there is one table of each kind that the tables name, each with the
    content that its name says; otherwise the folder stays as it is, and reading it is refused.
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
    with suppress(PermissionError):  # Windows keeps what someone has open; it goes another time
        for path in _beside(folder, old=sums is not None):
            if path.name not in counts:
                path.unlink(missing_ok=True)


def _beside(folder: Path, old: bool) -> Iterator[Path]:
    """Tables of today and drafts of files; with `old`, tables of version 0.1.0 as well."""
    for path in sorted(folder.iterdir()):
        of_before = old and path.name in {f"{kind}.parquet" for kind in KINDS}
        if of_before or _NAMED.fullmatch(path.name) or files.is_draft(path.name):
            yield path


def _found(folder: Path) -> dict[str, str]:
    """SHA-256 by kind of the tables of a folder, if they can only be of one release."""
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
