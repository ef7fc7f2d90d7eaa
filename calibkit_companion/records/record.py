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

from calibkit import files
from calibkit_companion.records import tables
from calibkit_companion.records.keys import Key, fit_name, replicate_name

SHIFTED = "shifted.csv.gz"


class DamagedRecord(OSError):
    """A record on disk differs from the record that was written."""


class LightRecord(Exception):
    """A record keeps no predictions, and a caller asked for them."""


@dataclass(frozen=True)
class Record:
    """The record of a run. Files are read on first use and compared with their checksums.

    Attributes
    ----------
    name : name of the run
    path : the folder of the record, or the folder of the tables that hold it
    info : content of ``run.json``: ``status`` ("done" or "diverged"), ``run`` (`Run.content`),
        ``sha256`` (checksums by file), ``provenance`` (machine, versions, seconds)
    tables : the tables that hold the record; None for a record in a folder
    """

    name: str
    path: Path
    info: dict
    tables: "tables.Tables | None" = None

    @property
    def diverged(self) -> bool:
        """Whether the training ended with a loss or logit that is infinite or NaN."""
        return self.info["status"] == "diverged"

    @property
    def light(self) -> bool:
        """Whether the record has no predictions: none were kept, or their file is missing."""
        kept = "arrays.npz" in self.info["sha256"]
        return not (kept and (not self.tables or files.exists(self.predictions)))

    @cached_property
    def history(self) -> dict[str, np.ndarray]:
        """Metrics by name, each an array (epochs,) with a value for each evaluated epoch."""
        return self._kept(
            lambda its: its.rows("history", self.name), lambda: self._table("history.csv")
        )

    @cached_property
    def shifted(self) -> dict[str, np.ndarray]:
        """Metrics by name, each an array (m,) with a value for each shifted test set.

        The columns "shift" and "severity" say which test set it is. Empty if none was measured.
        """
        return self._shifted(False)

    @cached_property
    def collected(self) -> dict[str, np.ndarray]:
        """Metrics as in `shifted`, for newly collected test sets such as CIFAR-10.1."""
        return self._shifted(True)

    @cached_property
    def all_shifted(self) -> dict[str, np.ndarray]:
        """The columns of `shifted` and `collected` together, in the order of the file."""
        return self._kept(
            lambda its: its.rows("shifted", self.name),
            lambda: self._table(SHIFTED) if SHIFTED in self.info["sha256"] else {},
        )

    def _shifted(self, collected: bool) -> dict[str, np.ndarray]:
        """Select the rows of newly collected test sets, or the rows of all others."""
        rows = (self.all_shifted.get("severity", np.empty(0)) == 0) == collected
        return {k: column[rows] for k, column in self.all_shifted.items()} if rows.any() else {}

    @cached_property
    def arrays(self) -> dict[str, np.ndarray]:
        """Every array by name; arrays stored in half precision become float32.

        Raises
        ------
        LightRecord
            The record keeps no predictions; the message has the command that trains the run again.
        """
        if self.light:
            raise LightRecord(
                f"{self.name} keeps no predictions; retrain it: calibkit train --again {self.name}"
            )
        content = self._content("arrays.npz")
        try:
            with np.load(content, allow_pickle=False) as stored:
                arrays = {k: stored[k] for k in stored.files}
        except MemoryError:  # is no sign of a damaged file
            raise
        except Exception as error:  # NumPy and zipfile raise many kinds of error
            raise DamagedRecord(f"{self.predictions}: cannot be read ({error})") from None
        return {k: a.astype(np.float32) if a.dtype == np.float16 else a for k, a in arrays.items()}

    @cached_property
    def replicates(self):
        """Metrics on resamples of the test set, as `deviations.Replicates`."""
        return self._kept(lambda its: its.ends.replicates(self.name), self._replicates)

    def _replicates(self):
        """Read the replicates of a record in a folder, or compute them from the predictions."""
        from calibkit_companion.records import deviations

        if "replicates.npz" in self.info["sha256"]:
            return deviations.Replicates.load(self._content("replicates.npz"))
        with suppress(FileNotFoundError):
            now = json.loads(files.read(self.path / "run.json"))
            if "replicates.npz" in now["sha256"]:  # another process has just added them
                return replace(self, info=now).replicates
        return self.resampled()

    def resampled(self):
        """Compute the replicates from the predictions, even if the record keeps replicates."""
        from calibkit_companion.records import deviations

        arrays = self.arrays
        both = []
        for split in ("test", "validation"):
            if len(logits := arrays[f"{split}_logits"]):
                both += [logits, arrays[f"{split}_labels"].astype(np.int64)]
        n = self.info["run"]["protocol"].get("replicates", 200)
        return deviations.replicates_of_run(*both, n=n)

    def measured(self, key: Key, epoch: int | None = None) -> float | None:
        """Return a number at the end of training, or at an epoch; None if it is not kept."""
        if self.tables:
            return self.tables.number(self.name, key, epoch)
        if epoch is not None or key.validation:
            return None
        if key.metric == "temperature":
            return self.replicates.temperatures.get(fit_name(key.recalibration))
        name = replicate_name(key)
        return self.replicates.estimate(name) if name in self.replicates else None

    def deviation(self, key: Key, epoch: int | None = None) -> np.ndarray | None:
        """Return the deviations (n,) of a number on resamples of the test set; None if not kept.

        The number is that at the end of training, or at an epoch.
        """
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
        """The file of the arrays."""
        return self.tables.predictions(self.name) if self.tables else self.path / "arrays.npz"

    @property
    def snapshots(self) -> dict[int, np.ndarray]:
        """Logits (s, k) of the first test samples: by epoch of a snapshot, the last included."""
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
        """Read a part of the record from the tables or from the folder that holds the record.

        If `calibkit delete` has just removed the folder, the part is read from the tables.

        Parameters
        ----------
        in_tables : function that reads the part from `Tables`
        in_folder : function without arguments that reads the part from the folder
        """
        if self.tables:
            return in_tables(self.tables)
        try:
            return in_folder()
        except DamagedRecord:
            found = tables.find(self.name)
            if files.exists(self.path / "run.json") or not found or found[0] != self.info:
                raise
            return in_tables(found[1])

    def _table(self, file: str) -> dict[str, np.ndarray]:
        """Read the columns of a CSV file of the folder, compressed by gzip or not."""
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
            raise DamagedRecord(
                f"{path}: cannot be read ({error}); calibkit train {self.name} trains it again"
            ) from None

    def _content(self, file: str) -> io.BytesIO:
        """Read a file; raise `DamagedRecord` if it differs from the checksum in ``run.json``."""
        path = self.predictions if file == "arrays.npz" else self.path / file
        with suppress(FileNotFoundError):
            content = files.read(path)
            if hashlib.sha256(content).hexdigest() == self.info["sha256"].get(file):
                return io.BytesIO(content)
        how = f"calibkit train {self.name} sets the folder aside and trains it again"
        if self.tables:  # git has the predictions that pages draw
            how = f"git checkout -- {path} brings it back; or move it away, and calibkit train"
            how += f" --again {self.name} makes it anew"
        raise DamagedRecord(f"{path}: missing or altered; {how}")
