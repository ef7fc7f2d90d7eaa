"""The record of a run, read from its folder or from the released tables."""

import csv
import gzip
import hashlib
import io
import json
import zlib
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np

from calibkit_companion.data import durable
from calibkit_companion.records import tables
from calibkit_companion.records.keys import Key, fit_name, replicate_name

SHIFTED = "shifted.csv.gz"


class DamagedRecord(OSError):
    """A record on disk that is not what was written."""


class LightRecord(Exception):
    """Predictions were requested from a record that keeps none."""


@dataclass(frozen=True)
class Record:
    """The record of a run. Its files are read on first use and checked against their checksums.

    Attributes
    ----------
    name : of the run
    path : its folder, or the folder of the tables that hold it
    info : ``run.json``: ``status`` ("done" or "diverged"), ``run``, ``sha256``, ``provenance``
    tables : the tables of its setting that hold it; None for a record in a folder
    """

    name: str
    path: Path
    info: dict
    tables: "tables.Tables | None" = None

    @property
    def diverged(self) -> bool:
        """Whether its training ended with a loss that is not finite."""
        return self.info["status"] == "diverged"

    @property
    def light(self) -> bool:
        """Whether it has no predictions: none were kept, or their file is not there."""
        kept = "arrays.npz" in self.info["sha256"]
        return not (kept and (not self.tables or durable.exists(self.predictions)))

    @cached_property
    def history(self) -> dict[str, np.ndarray]:
        """Columns over evaluated epochs; ``pandas.DataFrame(record.history)`` makes a table."""
        return self._kept(
            lambda its: its.rows("history", self.name), lambda: self._table("history.csv")
        )

    @cached_property
    def shifted(self) -> dict[str, np.ndarray]:
        """Columns over shifts of the test set, "shift" and "severity" first; empty if not taken."""
        return self._shifted(False)

    @cached_property
    def collected(self) -> dict[str, np.ndarray]:
        """As `shifted`, for test sets that were collected a second time (severity 0)."""
        return self._shifted(True)

    @cached_property
    def all_shifted(self) -> dict[str, np.ndarray]:
        """The rows of `shifted` and of `collected`, as the file has them."""
        return self._kept(
            lambda its: its.rows("shifted", self.name),
            lambda: self._table(SHIFTED) if SHIFTED in self.info["sha256"] else {},
        )

    def _shifted(self, collected: bool) -> dict[str, np.ndarray]:
        """The rows of test sets that were collected again, or of the others; empty if none."""
        rows = (self.all_shifted.get("severity", np.empty(0)) == 0) == collected
        return {k: column[rows] for k, column in self.all_shifted.items()} if rows.any() else {}

    @cached_property
    def arrays(self) -> dict[str, np.ndarray]:
        """Every array by name; arrays stored in half precision are returned as float32.

        Raises
        ------
        LightRecord
            If the record keeps none; the message has the command that trains the run again.
        """
        if self.light:
            raise LightRecord(
                f"{self.name} keeps no predictions; retrain it: calibkit train --again {self.name}"
            )
        content = self._content("arrays.npz")
        try:
            with np.load(content, allow_pickle=False) as stored:
                arrays = {k: stored[k] for k in stored.files}
        except MemoryError:  # says nothing about the file
            raise
        except Exception as error:  # NumPy and zipfile have many ways to reject a file
            raise DamagedRecord(f"{self.predictions}: cannot be read ({error})") from None
        return {k: a.astype(np.float32) if a.dtype == np.float16 else a for k, a in arrays.items()}

    @cached_property
    def replicates(self):
        """Its metrics on resamples of the test set, as `deviations.Replicates`."""
        return self._kept(lambda its: its.ends.replicates(self.name), self._replicates)

    def _replicates(self):
        """The replicates of a folder: from its file, or made from its predictions."""
        from calibkit_companion.records import deviations

        if "replicates.npz" in self.info["sha256"]:
            return deviations.Replicates.load(self._content("replicates.npz"))
        with suppress(FileNotFoundError):
            now = json.loads(durable.read(self.path / "run.json"))
            if "replicates.npz" in now["sha256"]:  # another process made them meanwhile
                return replace(self, info=now).replicates
        return self.resampled()

    def resampled(self):
        """The replicates, made anew from its predictions."""
        from calibkit_companion.records import deviations

        arrays = self.arrays
        both = []
        for split in ("test", "validation"):
            if len(logits := arrays[f"{split}_logits"]):
                both += [logits, arrays[f"{split}_labels"].astype(np.int64)]
        n = self.info["run"]["protocol"].get("replicates", 200)
        return deviations.replicates_of_run(*both, n=n)

    def measured(self, key: Key, epoch: int | None = None) -> float | None:
        """A number at the end of training or at an epoch; None if it is not kept."""
        if self.tables:
            return self.tables.number(self.name, key, epoch)
        if epoch is not None or key.validation:
            return None
        if key.metric == "temperature":
            return self.replicates.temperatures.get(fit_name(key.recalibration))
        name = replicate_name(key)
        return self.replicates.estimate(name) if name in self.replicates else None

    def deviation(self, key: Key, epoch: int | None = None) -> np.ndarray | None:
        """How far a number lies from its value on resamples of the test set; None if not kept."""
        if self.tables:
            return self.tables.deviation(self.name, key, epoch)
        name = replicate_name(key)
        drawn = epoch is None and not key.validation and name in self.replicates
        return self.replicates.deviation(name) if drawn else None

    @property
    def steps(self) -> tuple[np.ndarray, np.ndarray]:
        """The deviations of `replicates` as whole steps (names, n) and their size (names, 1)."""
        if "replicates.npz" not in self.info["sha256"]:
            return self.replicates.quantised()
        with np.load(self._content("replicates.npz"), allow_pickle=False) as file:
            return file["steps"], file["step"]

    @property
    def predictions(self) -> Path:
        """The file of its arrays."""
        return self.tables.predictions(self.name) if self.tables else self.path / "arrays.npz"

    @property
    def snapshots(self) -> dict[int, np.ndarray]:
        """Logits of the first test samples by epoch, the last epoch included."""
        early = zip(self.arrays["snapshot_epochs"], self.arrays["snapshot_logits"], strict=False)
        final = self.arrays["test_logits"][: self.arrays["snapshot_logits"].shape[1]]
        last = int(self.info["run"]["protocol"]["epochs"])
        return {int(epoch): logits for epoch, logits in early} | {last: final}

    def check(self) -> None:
        """Compare every file with its checksum; raise `DamagedRecord` if one differs."""
        self._kept(
            lambda its: its.opened.check(), lambda: [*map(self._content, self.info["sha256"])]
        )

    def _kept(self, in_tables: Callable, in_folder: Callable):
        """A part of the record: from its tables, or from its folder.

        Tables have it, too, where `calibkit delete` has removed a folder that was collected.

        Parameters
        ----------
        in_tables : reads the part from tables
        in_folder : reads the part from the folder
        """
        if self.tables:
            return in_tables(self.tables)
        try:
            return in_folder()
        except DamagedRecord:
            found = tables.find(self.name)
            if durable.exists(self.path / "run.json") or not found or found[0] != self.info:
                raise
            return in_tables(found[1])

    def _table(self, file: str) -> dict[str, np.ndarray]:
        """The columns of a CSV file of the folder, gzipped or not."""
        path, stored = self.path / file, self._content(file).getvalue()
        text = {"shift"}  # the other columns are numbers
        try:
            plain = gzip.decompress(stored) if path.suffix == ".gz" else stored
            rows = list(csv.DictReader(plain.decode().splitlines()))
            return {
                k: np.array([r[k] if k in text else float(r[k]) for r in rows])
                for k in (rows[0] if rows else ())
            }
        except (ValueError, TypeError, csv.Error, EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise DamagedRecord(f"{path}: cannot be read ({error})") from None

    def _content(self, file: str) -> io.BytesIO:
        """The content of a file, if its checksum is that of ``run.json``."""
        path = self.predictions if file == "arrays.npz" else self.path / file
        with suppress(FileNotFoundError):
            content = durable.read(path)
            if hashlib.sha256(content).hexdigest() == self.info["sha256"].get(file):
                return io.BytesIO(content)
        how = f"calibkit train {self.name} sets the folder aside and trains it again"
        if self.tables:  # whose predictions lie beside them, and are in git where pages draw them
            how = f"git checkout -- {path} brings it back; or move it away, and calibkit train"
            how += f" --again {self.name} makes it anew"
        raise DamagedRecord(f"{path}: missing or altered; {how}")
