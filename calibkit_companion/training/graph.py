"""The steps of an epoch on a GPU: kernels recorded once as a CUDA graph and launched together.

A step is a few hundred small kernels, and Python launches them more slowly than a large GPU runs
them. A graph launches all of them at once: forward and backward passes, clipping, both passes of
SAM and the optimiser. It repeats what it recorded, at the same addresses. So every input of a step
is copied to a fixed place before (`Steps`), crops and flips are made for many batches at once, and
the learning rate is a tensor.

What a graph repeats wrongly, it repeats silently. `Tape` therefore stands in for a graph on the
CPU: it refuses whatever a graph would not repeat.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from typing import Protocol

import numpy as np
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from calibkit_companion.experiments import plugins
from calibkit_companion.training.objectives import Batch, Objective, tensor

WARM_UP = 3  # steps before a capture: they make momenta, and let libraries choose their kernels
PART = 2**24  # the most numbers of the inputs that are augmented at a time (64 MiB in float32)


class Graph(Protocol):
    """A function that is recorded once and then repeated without Python."""

    def warm(self, function: Callable[[], object]) -> None:
        """Call a function as it will be recorded.

        Parameters
        ----------
        function : works on tensors at fixed addresses
        """

    def capture(self, function: Callable[[], object], inputs: Sequence[Tensor]) -> None:
        """Record a function; nothing is computed.

        Parameters
        ----------
        function : as for `warm`
        inputs : the tensors that change between repetitions
        """

    def replay(self) -> None:
        """Repeat what was recorded."""


class CudaGraph:
    """A `Graph` of CUDA kernels, with memory of its own.

    Recorded and warmed up on a stream of its own, as CUDA demands. Generators of random numbers go
    on as they would without a graph: CUDA's own is registered by PyTorch, and others are not used.
    """

    def __init__(self):
        self.stream, self.graph = torch.cuda.Stream(), torch.cuda.CUDAGraph()
        self.inputs: Sequence[Tensor] = ()

    def warm(self, function: Callable[[], object]) -> None:
        """Call a function on the stream of the graph.

        Parameters
        ----------
        function : works on tensors at fixed addresses
        """
        usual = torch.cuda.current_stream()
        self.stream.wait_stream(usual)
        with torch.cuda.stream(self.stream):
            function()
        usual.wait_stream(self.stream)

    def capture(self, function: Callable[[], object], inputs: Sequence[Tensor]) -> None:
        """Record the kernels of a function; none is run.

        Parameters
        ----------
        function : as for `warm`
        inputs : kept, so that they stay at their addresses

        Raises
        ------
        RuntimeError
            Something cannot be recorded, or memory is short.
        """
        usual, self.inputs = torch.cuda.current_stream(), inputs
        try:
            # Other threads may go on: those that decode images allocate memory meanwhile.
            with torch.cuda.graph(
                self.graph, stream=self.stream, capture_error_mode="thread_local"
            ):
                function()
        finally:
            torch.cuda.set_stream(usual)  # which a capture that fails leaves as it was

    def replay(self) -> None:
        """Launch all kernels on the current stream."""
        self.graph.replay()


class Uncaptured:
    """A `Graph` that calls its function each time: the same steps without a graph."""

    function: Callable[[], object]
    inputs: Sequence[Tensor] = ()

    def warm(self, function: Callable[[], object]) -> None:
        """Call a function.

        Parameters
        ----------
        function : any
        """
        function()

    def capture(self, function: Callable[[], object], inputs: Sequence[Tensor]) -> None:
        """Keep a function, to be called by `replay`.

        Parameters
        ----------
        function : any
        inputs : the tensors that change between calls
        """
        self.function, self.inputs = function, inputs

    def replay(self) -> None:
        """Call the function."""
        self.function()


class NotRepeatable(RuntimeError):
    """A step does what a graph would not repeat."""


class Tape(Uncaptured):
    """A `Graph` for the CPU that calls its function and refuses what a graph would not repeat.

    All calls must do the same operations, on the same numbers of Python and on tensors of the same
    shapes; tensors from before the call must lie at the same addresses. A call must not read a
    number from a tensor nor make a tensor from numbers, for which a GPU would be waited for.
    After each call the inputs are spoilt, so that nothing is taken over from the step before.
    """

    def __init__(self):
        self.first: list[tuple] | None = None
        self.alive: list = []  # memory of the first call, so that no other gets its address

    def replay(self) -> None:
        """Call the function and compare what it does with its first call.

        Raises
        ------
        NotRepeatable
            The call is not the same, or waits for the device.
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
    """Write down every operation: its name, its numbers, and where its tensors come from."""

    def __init__(self):
        super().__init__()
        self.done: list[tuple] = []
        self.outside: list = []  # memory from before
        self.places: dict[int, tuple] = {}  # of memory, by its address
        self.inside: list = []  # memory made meanwhile

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        given = tree_leaves((args, kwargs or {}))
        name = str(function)
        if name.startswith("profiler."):  # a label for profilers
            return function(*args, **(kwargs or {}))
        # Integers are labels, whose range is checked on the CPU alone.
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
        """Where a tensor's memory comes from: an address, or the order in which it was made."""
        memory = value.untyped_storage()
        if memory._cdata not in self.places:
            self.places[memory._cdata] = kind, memory._cdata if kind == "outside" else len(kept)
            kept.append(memory)
        return self.places[memory._cdata]

    def _described(self, value: object) -> tuple | str:
        """What must not change between calls."""
        if not isinstance(value, Tensor):
            return "" if isinstance(value, torch.Generator) else repr(value)
        place = self._place(value, "outside", self.outside)
        return place, tuple(value.shape), value.stride(), value.storage_offset(), value.dtype


def _said(operation: tuple) -> str:
    """An operation in words."""
    name, *given = operation
    return f"{name}({', '.join(map(str, given))})"


class Steps:
    """The steps of a run's epochs: those of full batches by a graph, a last smaller one by itself.

    Parameters
    ----------
    training : a `loop.Training`
    kind : makes a `Graph`
    """

    def __init__(self, training, kind: Callable[[], Graph]):
        self.training, self.kind = training, kind
        cuda = training.device.type == "cuda"
        # Fused optimisers read float32 on a GPU, and any number on the CPU.
        exact = torch.float32 if cuda else torch.float64
        self.rate = torch.zeros((), dtype=exact, device=training.device)
        self.loss = torch.zeros((), device=training.device)
        self.place = torch.cuda.device(training.device) if cuda else nullcontext()
        self.graph: Graph | None = None
        self.sharp, self.warmed, self.captured = False, 0, False
        self.inputs: list[Tensor] = []  # at fixed addresses

    def learn(self, batches: Sequence[Tensor], rate: float, sharp: bool) -> Tensor:
        """Train on batches, one after the other.

        Parameters
        ----------
        batches : positions in the training set, (B,) each; only the last may be smaller
        rate : learning rate
        sharp : whether an update is sharpness-aware

        Returns
        -------
        Tensor
            The sum of the mean losses of the batches, ().
        """
        self.rate.fill_(rate)
        for group in self.training.optimizer.param_groups:
            group["lr"] = self.rate
        self.loss.zero_()
        with self.place:
            if self.graph is None or sharp != self.sharp:
                self.graph = None  # its memory is free before the next is made
                self.graph, self.sharp, self.warmed, self.captured = self.kind(), sharp, 0, False
            for inputs in self._fed(batches):
                if len(inputs[1]) < self.training.protocol.batch_size:
                    self._step(inputs)
                else:
                    self._repeat(inputs)
        return self.loss

    def _step(self, inputs: Sequence[Tensor]) -> None:
        """One step, kernel by kernel."""
        score = self.training.draw.prepare(Batch(*inputs[:3]), *inputs[3:])
        self.loss.add_(self.training.step(score, self.sharp))

    def _repeat(self, inputs: Sequence[Tensor]) -> None:
        """One step by the graph, which the first steps warm up."""
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
        """Record the step, or say once why it goes on kernel by kernel."""
        function, self.captured = lambda: self._step(self.inputs), True
        groups = [g for g in self.training.optimizer.param_groups if "capturable" in g]
        for group in groups:  # Adam asks for it while a graph is recorded, and warns otherwise
            group["capturable"] = True
        try:
            self.graph.capture(function, self.inputs)
        except RuntimeError as error:
            while error.__context__:  # the end of a failed capture fails as well
                error = error.__context__
            why = str(error).partition("\n")[0]
            self.training.log(f"{self.training.run.name}: trains without a CUDA graph ({why})")
            self.graph = Uncaptured()
            self.graph.capture(function, self.inputs)
        finally:
            for group in groups:
                group["capturable"] = False

    def _fed(self, batches: Sequence[Tensor]) -> Iterator[list[Tensor]]:
        """Inputs, labels, positions and random choices of each batch.

        All random choices of the epoch reach the device together; the inputs are augmented some
        batches at a time.
        """
        training, draw = self.training, self.training.draw
        chosen = [draw.choose(len(batch), training.rng) for batch in batches]
        streamed = not isinstance(training.splits["train"].inputs, Tensor)
        decoded = training.training_batches(batches) if streamed else None
        numbers = len(batches[0]) * training.training_set.mean.numel()  # of a batch
        size = 1 if streamed else max(1, PART // numbers)  # batches in a part
        full = sum(len(batch) == len(batches[0]) for batch in batches)
        for stretch in ((0, full), (full, len(batches))):
            of_stretch = [
                tensor(np.stack(column)).to(training.device)
                for column in zip(*chosen[slice(*stretch)], strict=True)
            ]
            for start in range(*stretch, size):
                stop = min(start + size, stretch[1])
                index = torch.stack(list(batches[start:stop]))
                labels = training.labels[index]
                inputs = next(decoded)[None] if streamed else self._inputs(index)
                own = [each[start - stretch[0] : stop - stretch[0]] for each in of_stretch]
                if draw.partners:
                    own[-1] = self._inputs(draw.partners.located(labels, own[-1]))
                yield from (list(each) for each in zip(inputs, labels, index, *own, strict=True))

    def _inputs(self, index: Tensor) -> Tensor:
        """Augmented inputs of positions (K, B): (K, B, ...)."""
        return self.training.training_inputs(index.flatten()).unflatten(0, index.shape)


def steps(training, kind: Callable[[], Graph] | None = None) -> Steps | None:
    """How a run takes its steps: by a graph on CUDA, else kernel by kernel.

    Parameters
    ----------
    training : a `loop.Training`
    kind : makes a `Graph`; default `CudaGraph` on CUDA and none on other devices

    Returns
    -------
    Steps or None
        None where each step launches its own kernels; if that is so on CUDA, the log says why.
    """
    kind = kind or (CudaGraph if training.device.type == "cuda" else None)
    if kind is None or training.mode == "reduce-overhead":  # which makes graphs of its own
        return None
    run, why = training.run, ""
    if plugins.own(run.recipe.objective) or plugins.own(run.network):
        why = "code of your own may decide in Python"
    elif not isinstance(training.draw, Objective):
        why = f"{run.recipe.objective} makes its random choices in Python at every step"
    if why:
        training.log(f"{run.name}: trains without a CUDA graph ({why})")
        return None
    return Steps(training, kind)
