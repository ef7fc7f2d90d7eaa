"""What lets several runs take turns in one thread.

A run in progress is a generator, its **turns**. It yields where another run may go on. What it
yields is a function that says whether the run can be resumed: whether the GPU, or a worker thread,
has done what was asked of it. `drive` takes one run to its end; `side_by_side` lets several runs
take turns.

Why the runs have one thread together, and not one each:

- PyTorch draws initial weights and dropout from one generator per device for the whole process. In
  threads, the numbers of a run would depend on its neighbours. `Place` exchanges the states of
  these generators, so that a run draws beside others what it draws alone.
- Graphs that were recorded with one state of the generator share its seed and offset in the memory
  of the GPU. Two that run at once would overwrite them.
- Only one thread at a time runs Python. It launches graphs fast enough for all runs, because a
  launch does not wait for the GPU.

Metrics and files need neither a GPU nor PyTorch's random numbers. Worker threads compute and write
them while the GPU trains.
"""

import os
import time
from collections.abc import Callable, Generator, MutableMapping
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from weakref import WeakValueDictionary

import torch

Ready = Callable[[], bool]
TURN = 8  # training steps of a turn: some milliseconds of a GPU
PAUSE = 1e-4  # seconds between two questions whether a run can be resumed
THREADS = min(4, os.cpu_count() or 1)  # worker threads beside a GPU


def always() -> bool:
    """Say that a run can be resumed at once."""
    return True


def reached(device: torch.device) -> Ready:
    """Return a function that says whether a device has done what was asked of it until now.

    Parameters
    ----------
    device : a torch device; a CPU has always done it
    """
    if device.type != "cuda":
        return always
    event = torch.cuda.Event()
    event.record(torch.cuda.current_stream(device))
    return event.query


def drive(turns: Generator[Ready, None, object]) -> object:
    """Take a run to its end and return its result.

    Parameters
    ----------
    turns : the run
    """
    try:
        while True:
            ready = next(turns)
            while not ready():
                time.sleep(PAUSE)
    except StopIteration as end:
        return end.value


def within(context: AbstractContextManager, turns: Generator) -> Generator[Ready, None, object]:
    """Take turns inside a context, which is left whenever other runs go on.

    Parameters
    ----------
    context : can be entered more than once
    turns : the run, or a part of it
    """
    while True:
        with context:
            try:
                ready = next(turns)
            except StopIteration as end:
                return end.value
        yield ready


def result(job: Future) -> Generator[Ready, None, object]:
    """Let other runs go on until a job is done, and return its result.

    Parameters
    ----------
    job : from the `Company.worker` of a run
    """
    yield job.done
    return job.result()


class Inline(Executor):
    """An executor that does at once what is submitted; errors are raised at once, too."""

    def submit(self, function: Callable, /, *args, **kwargs) -> Future:
        """Call a function.

        Parameters
        ----------
        function : the function
        args, kwargs : its arguments
        """
        job: Future = Future()
        job.set_result(function(*args, **kwargs))
        return job


class Company:
    """What the runs of a process share: data sets, worker threads, and the time.

    Parameters
    ----------
    device : the torch device of the runs
    threads : number of worker threads; 0 computes in the thread of the runs
    """

    def __init__(self, device: torch.device, threads: int = 0):
        self.device = device
        self.worker: Executor = ThreadPoolExecutor(threads) if threads else Inline()
        self.loaded: MutableMapping[tuple, object] = WeakValueDictionary()  # data sets by content
        self.begun: dict[tuple, Future] = {}  # jobs that are done once for all runs
        self.runs = self.most = 1  # number of runs side by side: now, and at most until now
        self.epochs = 0  # finished epochs of all runs
        self.streamed = 0  # runs whose images worker processes decode
        self._elapsed, self._since = 0.0, time.perf_counter()

    def clock(self) -> float:
        """Return the seconds since the start, where n runs side by side count a second as 1/n.

        So the seconds of all runs add up to those of the machine.
        """
        now = time.perf_counter()
        self._elapsed += (now - self._since) / max(1, self.runs)
        self._since = now
        return self._elapsed

    def count(self, runs: int) -> None:
        """Say how many runs are in progress from now on.

        Parameters
        ----------
        runs : their number
        """
        self.clock()
        self.runs, self.most = runs, max(self.most, runs)

    def ahead(self, key: tuple, function: Callable, *args) -> Future | None:
        """Let a worker thread begin early with something that all runs need, once for all of them.

        Parameters
        ----------
        key : names what is done
        function, args : the function and its arguments

        Returns
        -------
        Future or None
            None without worker threads, where nothing is done early.
        """
        if isinstance(self.worker, Inline):
            return None
        if key not in self.begun:
            self.begun[key] = self.worker.submit(function, *args)
        return self.begun[key]

    def close(self) -> None:
        """End the worker threads; what they have not begun is not done."""
        self.worker.shutdown(cancel_futures=True)


class Place:
    """Where a run takes its turns: a CUDA stream and random states that no other run has.

    The run trains, is recorded and is replayed on this one stream. Graphs of one stream share the
    workspace of cuBLAS, and a graph that is freed takes it away from the others
    (https://github.com/pytorch/pytorch/issues/193402). So a stream has one graph at a time, and
    `loop.in_turns` frees it with its run.

    Parameters
    ----------
    device : the torch device of the run
    """

    def __init__(self, device: torch.device):
        self.device, self.random = device, torch.get_rng_state()
        if device.type == "cuda":
            torch.cuda.init()  # makes the default generators
            self.stream, self.generator = torch.cuda.Stream(device), torch.Generator(device)

    @contextmanager
    def turn(self):
        """A context in which only this run computes."""
        usual = torch.get_rng_state()
        torch.set_rng_state(self.random)
        try:
            with self._on_gpu() if self.device.type == "cuda" else nullcontext():
                yield
        finally:
            self.random = torch.get_rng_state()
            torch.set_rng_state(usual)

    @contextmanager
    def _on_gpu(self):
        """A context with the stream of this run and its state of the generator of the GPU."""
        with torch.cuda.device(self.device), torch.cuda.stream(self.stream):
            shared = torch.cuda.default_generators[torch.cuda.current_device()]
            usual = shared.graphsafe_get_state()
            shared.graphsafe_set_state(self.generator)  # exchanges references, copies nothing
            try:
                yield
            finally:
                shared.graphsafe_set_state(usual)
