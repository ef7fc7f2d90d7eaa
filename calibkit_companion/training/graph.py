"""Training steps on a GPU: record the kernels of a step once as a CUDA graph, then replay them.

A step is a few hundred small kernels. A large GPU runs them faster than Python can launch them. A
graph launches all of them at once: forward and backward passes, clipping, both passes of SAM and
the optimiser.

A graph reads and writes the memory addresses that it recorded. Therefore `Steps` copies every input
of a step to fixed addresses before the replay, and the learning rate is a tensor. Crops and flips
are made outside of the graph, for many batches at once.

A graph gives no error when a step depends on something else, such as a Python number that changes.
`Tape` takes the place of a graph on the CPU and raises an error in these cases.
"""

import gc
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from typing import Protocol

import numpy as np
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from calibkit_companion.training import machine
from calibkit_companion.training.objectives import Batch, Objective, tensor

# Steps before a recording: they create the momenta, and libraries choose their kernels.
WARM_UP = 3
PART = 2**24  # most input numbers that are augmented at a time (64 MiB in float32)


class Graph(Protocol):
    """The interface of a graph, which records a function once and then replays it."""

    def warm(self, function: Callable[[], object]) -> None:
        """Call a function before it is recorded.

        Parameters
        ----------
        function : takes no arguments and works on tensors at fixed addresses
        """

    def capture(self, function: Callable[[], object], inputs: Sequence[Tensor]) -> None:
        """Record a function without computing anything.

        Parameters
        ----------
        function : takes no arguments and works on tensors at fixed addresses
        inputs : the tensors whose values change from one replay to the next
        """

    def replay(self) -> None:
        """Compute what the recorded function computes."""

    def free(self) -> None:
        """Free what the graph holds; it cannot be replayed afterwards."""


class CudaGraph:
    """A `Graph` of CUDA kernels, which owns the memory that they use.

    The warm-up and the recording happen on the current CUDA stream, or on a new one if the current
    stream is the default stream, which CUDA does not record. PyTorch registers the CUDA generator
    of random numbers with its current state, which therefore advances as without a graph. The
    recorded function uses no other generator.
    """

    def __init__(self):
        usual = torch.cuda.current_stream()
        alone = usual == torch.cuda.default_stream()
        self.stream = torch.cuda.Stream() if alone else usual
        self.graph = torch.cuda.CUDAGraph()
        self.inputs: Sequence[Tensor] = ()

    def warm(self, function: Callable[[], object]) -> None:
        """Call a function on the stream of the graph.

        Parameters
        ----------
        function : takes no arguments and works on tensors at fixed addresses
        """
        usual = torch.cuda.current_stream()
        self.stream.wait_stream(usual)
        with torch.cuda.stream(self.stream):
            function()
        usual.wait_stream(self.stream)

    def capture(self, function: Callable[[], object], inputs: Sequence[Tensor]) -> None:
        """Record the kernels of a function without running them.

        Parameters
        ----------
        function : takes no arguments and works on tensors at fixed addresses
        inputs : the tensors whose values change; the graph keeps them, so that their memory stays

        Raises
        ------
        RuntimeError
            Something cannot be recorded, or memory is short.
        """
        usual, self.inputs = torch.cuda.current_stream(), inputs
        gc.collect()  # the graph of an earlier run must not be freed during the recording
        collects = gc.isenabled()
        gc.disable()
        try:
            # The recording covers this thread alone: threads that decode images allocate memory.
            with torch.cuda.graph(
                self.graph, stream=self.stream, capture_error_mode="thread_local"
            ):
                function()
        finally:
            torch.cuda.set_stream(usual)  # a recording that fails leaves its own stream current
            if collects:
                gc.enable()

    def replay(self) -> None:
        """Launch all kernels on the current stream."""
        self.graph.replay()

    def free(self) -> None:
        """Free the memory of the graph at once, and not when the garbage is collected.

        By then the stream may have another graph (`turns.Place`).
        """
        self.graph.reset()


class Uncaptured:
    """A `Graph` that records nothing: each replay calls the function."""

    function: Callable[[], object]
    inputs: Sequence[Tensor] = ()

    def warm(self, function: Callable[[], object]) -> None:
        """Call a function.

        Parameters
        ----------
        function : takes no arguments
        """
        function()

    def capture(self, function: Callable[[], object], inputs: Sequence[Tensor]) -> None:
        """Keep a function, which `replay` will call.

        Parameters
        ----------
        function : takes no arguments
        inputs : the tensors whose values change from one call to the next
        """
        self.function, self.inputs = function, inputs

    def replay(self) -> None:
        """Call the function."""
        self.function()

    def free(self) -> None:
        """Let go of the function."""
        self.function, self.inputs = lambda: None, ()


class NotRepeatable(RuntimeError):
    """A step does something that a CUDA graph cannot replay."""


class Tape(Uncaptured):
    """A `Graph` for tests on the CPU, which refuses a function that a CUDA graph cannot replay.

    Each replay calls the function. Every call must do the same operations, with the same Python
    numbers and with tensors of the same shapes. Tensors that existed before the call must lie at
    the same addresses. A call must not read a number from a tensor nor make a tensor from numbers,
    because then Python would wait for the GPU. After each call the inputs are overwritten with
    useless values, so that a step that reads old inputs gives wrong results.
    """

    def __init__(self):
        self.first: list[tuple] | None = None
        self.alive: list = []  # tensors of the first call: no later tensor may get their addresses

    def replay(self) -> None:
        """Call the function and compare its operations with those of the first call.

        Raises
        ------
        NotRepeatable
            The call does other operations than the first call, or it would wait for the GPU.
        """
        with _Operations() as seen:
            self.function()
        if self.first is None:
            self.first, self.alive = seen.done, seen.outside
        for before, now in zip(self.first, seen.done, strict=False):
            if before != now:
                raise NotRepeatable(f"a step did {_said(before)}, and a later one {_said(now)}")
        if len(self.first) != len(seen.done):
            counts = len(self.first), len(seen.done)
            raise NotRepeatable("a step did {} operations, and a later one {}".format(*counts))
        for each in self.inputs:
            each.fill_(torch.nan if each.is_floating_point() else torch.iinfo(each.dtype).min)


class _Operations(TorchDispatchMode):
    """A list of all operations: name, Python numbers, and the origin of each tensor."""

    def __init__(self):
        super().__init__()
        self.done: list[tuple] = []
        self.outside: list = []  # memory that existed before the call
        self.places: dict[int, tuple] = {}  # origin of each piece of memory, by address
        self.inside: list = []  # memory that the call allocated

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        given = tree_leaves((args, kwargs or {}))
        name = str(function)
        if name.startswith("profiler."):  # a label for profilers
            return function(*args, **(kwargs or {}))
        # Reading an integer is allowed: only the CPU reads labels, to check their range.
        if "_local_scalar_dense" in name and args[0].dtype not in (torch.int64, torch.int32):
            raise NotRepeatable("a step reads a number from a tensor")
        if "lift_fresh" in name:
            raise NotRepeatable("a step makes a tensor from numbers")
        self.done.append((name, *(self._described(each) for each in given)))
        outputs = function(*args, **(kwargs or {}))
        for each in tree_leaves(outputs):
            if isinstance(each, Tensor):
                self._place(each, "made", self.inside)
        return outputs

    def _place(self, value: Tensor, kind: str, kept: list) -> tuple:
        """Return the origin of a tensor's memory: its address, or its rank among new memory."""
        memory = value.untyped_storage()
        if memory._cdata not in self.places:
            self.places[memory._cdata] = kind, memory._cdata if kind == "outside" else len(kept)
            kept.append(memory)
        return self.places[memory._cdata]

    def _described(self, value: object) -> tuple | str:
        """Describe an argument by everything that must be equal in all calls."""
        if not isinstance(value, Tensor):
            return "" if isinstance(value, torch.Generator) else repr(value)
        place = self._place(value, "outside", self.outside)
        return place, tuple(value.shape), value.stride(), value.storage_offset(), value.dtype


def _said(operation: tuple) -> str:
    """Write an operation as text, for an error."""
    name, *given = operation
    return f"{name}({', '.join(map(str, given))})"


class Steps:
    """The training steps of a run: a graph replays them for all batches of full size.

    A smaller last batch is trained on without the graph.

    Parameters
    ----------
    training : the `loop.Training` whose network learns
    kind : function without arguments that makes a `Graph`
    """

    def __init__(self, training, kind: Callable[[], Graph]):
        self.training, self.kind = training, kind
        cuda = training.device.type == "cuda"
        # On a GPU fused optimisers read the learning rate as float32.
        exact = torch.float32 if cuda else torch.float64
        self.rate = torch.zeros((), dtype=exact, device=training.device)
        self.place = torch.cuda.device(training.device) if cuda else nullcontext()
        self.graph: Graph | None = None
        self.sharp, self.warmed, self.captured = False, 0, False
        self.inputs: list[Tensor] = []  # the tensors that the graph reads

    def learn(self, batches: Sequence[Tensor], rate: float, sharp: bool) -> Iterator[None]:
        """Train on batches, one after the other; yield after each step.

        The losses are added to `Training.total`.

        Parameters
        ----------
        batches : integer tensors (B,), positions in the training set; only the last may be smaller
        rate : learning rate
        sharp : whether the updates are sharpness-aware (SAM)
        """
        self.rate.fill_(rate)
        for group in self.training.optimizer.param_groups:
            group["lr"] = self.rate
        if self.graph is None or sharp != self.sharp:
            self.free()  # before the next graph is made
            with self.place:
                self.graph, self.sharp, self.warmed, self.captured = self.kind(), sharp, 0, False
        for inputs in self._fed(batches):
            with self.place:
                if len(inputs[1]) < self.training.protocol.batch_size:
                    self._step(inputs)
                else:
                    self._repeat(inputs)
            yield

    def free(self) -> None:
        """Free the memory of the graph."""
        if self.graph is not None:
            self.graph.free()
            self.graph = None

    def _step(self, inputs: Sequence[Tensor]) -> None:
        """Take one step without the graph."""
        score = self.training.draw.prepare(Batch(*inputs[:3]), *inputs[3:])
        self.training.total.add_(self.training.step(score, self.sharp))

    def _repeat(self, inputs: Sequence[Tensor]) -> None:
        """Take one step by the graph; the first steps warm the graph up."""
        if not self.inputs:
            self.inputs = [each.clone() for each in inputs]
        for fixed, each in zip(self.inputs, inputs, strict=True):
            fixed.copy_(each)
        if self.warmed < WARM_UP:
            self.graph.warm(lambda: self._step(self.inputs))
            self.warmed += 1
            return
        if not self.captured:
            self._capture()
        self.graph.replay()

    def _capture(self) -> None:
        """Record the step; if that fails, log the reason and train without a graph."""
        function, self.captured = lambda: self._step(self.inputs), True
        groups = [g for g in self.training.optimizer.param_groups if "capturable" in g]
        for group in groups:  # Adam needs it during the recording, and warns about it elsewhere
            group["capturable"] = True
        try:
            self.graph.capture(function, self.inputs)
        except RuntimeError as error:
            while error.__context__:  # ending a failed recording raises another error
                error = error.__context__
            if machine.lacks_memory(error) and self.training.company.runs > 1:
                raise error from None  # fewer runs at once leave room for the graph
            why = str(error).partition("\n")[0]
            self.training.log(f"{self.training.run.name}: trains without a CUDA graph ({why})")
            self.graph = Uncaptured()
            self.graph.capture(function, self.inputs)
        finally:
            for group in groups:
                group["capturable"] = False

    def _fed(self, batches: Sequence[Tensor]) -> Iterator[list[Tensor]]:
        """Yield inputs, labels, positions and random choices of each batch.

        The random choices of all batches are copied to the device together. The inputs are
        augmented for several batches at a time.
        """
        training, draw = self.training, self.training.draw
        chosen = [draw.choose(len(batch), training.rng) for batch in batches]
        decoded = training.training_batches(batches) if training.streamed else None
        numbers = len(batches[0]) * training.training_set.mean.numel()  # input numbers of a batch
        size = (
            1 if training.streamed else max(1, PART // numbers)
        )  # batches that are augmented together
        full = sum(len(batch) == len(batches[0]) for batch in batches)
        stretches = ((0, full), (full, len(batches)))
        columns = [list(zip(*chosen[slice(*stretch)], strict=True)) for stretch in stretches]
        # A copy to a GPU waits for the steps before it, so all copies come first.
        copied = [[tensor(np.stack(each)).to(training.device) for each in c] for c in columns]
        for stretch, of_stretch in zip(stretches, copied, strict=True):
            for start in range(*stretch, size):
                stop = min(start + size, stretch[1])
                index = torch.stack(list(batches[start:stop]))
                labels = training.labels[index]
                inputs = next(decoded)[None] if decoded else self._inputs(index)
                own = [each[start - stretch[0] : stop - stretch[0]] for each in of_stretch]
                if draw.partners:
                    own[-1] = self._inputs(draw.partners.located(labels, own[-1]))
                yield from (list(each) for each in zip(inputs, labels, index, *own, strict=True))

    def _inputs(self, index: Tensor) -> Tensor:
        """Return the augmented inputs (K, B, ...) at positions (K, B)."""
        return self.training.training_inputs(index.flatten()).unflatten(0, index.shape)


def steps(training, kind: Callable[[], Graph] | None = None) -> Steps | None:
    """Choose whether a run trains by a graph.

    Parameters
    ----------
    training : the `loop.Training` of the run
    kind : function without arguments that makes a `Graph`; by default `CudaGraph` on CUDA, and no
        graph on other devices

    Returns
    -------
    Steps or None
        None for a run that trains without a graph. On CUDA the log then says why.
    """
    kind = kind or (CudaGraph if training.device.type == "cuda" else None)
    if kind is None or training.mode == "reduce-overhead":  # torch.compile then makes CUDA graphs
        return None
    run, why = training.run, ""
    if run.own:
        why = "code of your own may decide in Python"
    elif not isinstance(training.draw, Objective):
        why = f"{run.recipe.objective} makes its random choices in Python at every step"
    if why:
        training.log(f"{run.name}: trains without a CUDA graph ({why})")
        return None
    return Steps(training, kind)
