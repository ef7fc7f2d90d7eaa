"""Train several runs side by side on one GPU.

A small network alone does not fill a large GPU. So several runs take turns in one thread, each on a
CUDA stream of its own; `turns` says why it is one thread. They share the data in the memory of the
GPU. Each has its own lock, checkpoint and record, as when it trains alone, and its record is the
same.

On a CPU runs train one after the other: a run uses one thread, and processes share the cores.
"""

import gc
import time
import traceback
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import torch
from filelock import Timeout

from calibkit_companion.experiments.run import Run
from calibkit_companion.records.record import Record
from calibkit_companion.training import loop, machine, turns

# Most runs side by side: a GPU takes work from eight streams at once
# (CUDA_DEVICE_MAX_CONNECTIONS, if it is not set).
MOST = 8
SHARE = 0.8  # of the free memory of the GPU that further runs may take


@dataclass(eq=False)
class _Seat:
    """A run in progress."""

    run: Run
    place: turns.Place
    turns: Generator
    ready: turns.Ready = turns.always


def train(
    runs: Iterable[Run],
    device: str = "",
    log: Callable = lambda line: None,
    mode: str = "",
    again: bool = False,
    root: Path | None = None,
    most: int = 0,
) -> Iterator[tuple[Run, Record | None]]:
    """Train runs, on a GPU several at once, and yield each with its record when it is finished.

    On a GPU the first run trains alone for one epoch, which shows how much memory a run takes. Then
    as many join it as fit into four fifths of the free memory, at most eight together. If memory
    runs out in spite of that, the log says so. The run that lacks it starts again from its
    checkpoint when another has finished, and from then on one run less is in progress.

    A run that fails does not stop the others. Its error is raised when they are finished; with one
    run at a time it is raised at once.

    Parameters
    ----------
    runs : the runs
    device : torch device; by default "cuda" if available, else "cpu"
    log : function that takes one line of text, which names its run
    mode, again, root : as in `loop.train`. With a mode of `torch.compile` one run trains at a time.
    most : most runs side by side; 0 is what the device allows

    Yields
    ------
    tuple of Run and Record
        None for the record if another process is training the run. Such a run comes last, and is
        then yielded with its record.
    """
    place, runs = machine.device(device), list(runs)
    limit = most or (MOST if place.type == "cuda" and not mode else 1)
    if limit > 1 and len(runs) > 1:
        return _Together(place, limit, log, again, root, measure=not most).train(runs)
    return _one_by_one(runs, device=device, log=log, mode=mode, again=again, root=root)


def _one_by_one(runs: list[Run], **how) -> Iterator[tuple[Run, Record | None]]:
    """Train runs one after the other; `how` are arguments of `loop.train`."""
    waiting, last = deque(runs), set()
    while waiting:
        run = waiting.popleft()
        try:
            record = loop.train(run, wait=run in last, **how)
        except Timeout:
            last.add(run)
            waiting.append(run)
            record = None
        yield run, record


class _Together:
    """Runs that take turns.

    Parameters
    ----------
    device : the torch device
    limit : most runs side by side
    log, again, root : as in `train`
    measure : whether the first run trains alone for an epoch, so that its memory is measured
    """

    def __init__(self, device, limit: int, log: Callable, again: bool, root, measure: bool):
        self.device, self.limit, self.log = device, limit, log
        self.again, self.root, self.measure = again, root, measure
        self.seats: list[_Seat] = []
        self.free: list[turns.Place] = []  # places of runs that are finished
        self.last: set[Run] = set()  # runs that another process is training
        self.failed: list[Exception] = []

    def train(self, runs: list[Run]) -> Iterator[tuple[Run, Record | None]]:
        """Train runs; see `train`."""
        self.waiting = deque(sorted(runs, key=self._alone))
        self.company = turns.Company(self.device, turns.THREADS)
        try:
            while self.waiting or self.seats:
                self._start()
                resumed = [seat for seat in self.seats if seat.ready()]
                for seat in resumed:
                    yield from self._resume(seat)
                if not resumed:
                    time.sleep(turns.PAUSE)
        finally:
            self.company.close()  # no thread writes any more when the locks are released
            for seat in self.seats:
                with seat.place.turn():
                    seat.turns.close()
        if self.failed:
            raise self.failed[0]

    def _start(self) -> None:
        """Start waiting runs until as many are in progress as may be."""
        if self.measure and self.company.epochs:
            self.limit, self.measure = min(self.limit, 1 + self._room()), False
        while self.waiting and len(self.seats) < (1 if self.measure else self.limit):
            # Each run that decodes images has as many processes as there are cores.
            together = [*(seat.run for seat in self.seats), self.waiting[0]]
            if self.seats and (self.company.streamed or any(map(self._alone, together))):
                return
            run = self.waiting.popleft()
            place = self.free.pop() if self.free else turns.Place(self.device)
            asked = self.root, self.log, "", self.again, run in self.last
            self.seats.append(_Seat(run, place, loop.in_turns(run, self.company, *asked)))
            self.company.count(len(self.seats))

    def _alone(self, run: Run) -> bool:
        """Whether a run must have no neighbours.

        A method or network of one's own may keep numbers in its file, where runs would mix them. A
        run that another process is training is waited for, and neighbours would wait, too.
        """
        return bool(run.own) or run in self.last

    def _room(self) -> int:
        """Return how many runs fit on the GPU beside the one that is there."""
        free, _ = torch.cuda.mem_get_info(self.device)
        return int(SHARE * free / max(1, torch.cuda.max_memory_reserved(self.device)))

    def _resume(self, seat: _Seat) -> Iterator[tuple[Run, Record | None]]:
        """Let a run take its turn; yield it if it is finished or must wait."""
        run, record, lacking = seat.run, None, False
        try:
            with seat.place.turn():
                seat.ready = next(seat.turns)
            return
        except StopIteration as end:
            record = end.value
        except Timeout:
            self.last.add(run)
            self.waiting.append(run)
        except Exception as error:
            lacking = len(self.seats) > 1 and machine.lacks_memory(error)
            if not lacking:
                self._fail(run, error)
        self.seats.remove(seat)
        self.free.append(seat.place)
        self.company.count(len(self.seats))
        if lacking:
            self.limit, self.measure = len(self.seats), False
            self.waiting.appendleft(run)
            many = f"{self.limit} run{'s' * (self.limit > 1)} at once"
            self.log(f"{run.name}: out of memory; from here on {many}")
        if record is None and self.device.type == "cuda":
            gc.collect()
            with suppress(RuntimeError):  # before PyTorch 2.12, after a recording that failed
                torch.cuda.empty_cache()
        if record is not None or run in self.last:
            yield run, record

    def _fail(self, run: Run, error: Exception) -> None:
        """Log an error, and keep it until the other runs are finished."""
        said = str(error).partition("\n")[0]
        self.log(f"{run.name}: {type(error).__name__}: {said}")
        traceback.clear_frames(error.__traceback__)  # they hold the memory of the run
        self.failed.append(error)
