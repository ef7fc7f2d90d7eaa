"""The training loop, which takes a run, trains its network and writes its record.

The whole data set lies in the memory of the device, which also crops and flips whole batches.
Worker processes decode data sets that do not fit in memory, batch by batch. All numbers of a record
are measured in evaluation mode on inputs without augmentation.
"""

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext, suppress
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel, update_bn

from calibkit_companion import data
from calibkit_companion.data import readers, shifts
from calibkit_companion.experiments import plugins
from calibkit_companion.experiments.method import PASSES
from calibkit_companion.experiments.run import Run
from calibkit_companion.records import folders
from calibkit_companion.records.record import Record
from calibkit_companion.training import checkpoints, evaluation, graph, machine, networks, trials
from calibkit_companion.training.objectives import (
    Batch,
    Score,
    TrainingSet,
    base_loss,
    objective,
    sharpness_aware,
)

EVALUATION_BATCH = 1000
EVALUATION_PIXELS = EVALUATION_BATCH * 3 * 64**2  # most pixel values of such a batch
CHECKPOINT_SECONDS = 60.0  # least time between two checkpoints of a run
# Runs on these data take hours. The logits of every evaluated epoch are kept, so that a metric
# that is added later needs no new training.
KEPT_WHOLE = {"cifar10", "cifar100", "tiny_imagenet"}


class Diverged(Exception):
    """The loss or a logit is infinite or NaN."""


def train(
    run: Run,
    root: Path | None = None,
    device: str = "",
    log: Callable = lambda line: None,
    mode: str = "",
    again: bool = False,
    wait: bool = True,
):
    """Return the record of a run; train the run first if it has no record.

    Parameters
    ----------
    run : the run
    root : folder of the records; by default `folders.runs_root()`
    device : torch device; by default "cuda" if available, else "cpu"
    log : function that takes one line of text; called after each evaluated epoch
    mode : mode of `torch.compile`: "default", or "reduce-overhead" for CUDA graphs; empty to
        compile nothing
    again : train a run again if its record keeps no predictions
    wait : if another process trains this run, wait for its record; False raises
        ``filelock.Timeout`` instead

    Returns
    -------
    Record
        If the loss became infinite or NaN, its ``diverged`` is True and it has no arrays.

    Notes
    -----
    On a CPU a run uses one thread. The same machine then writes the same bytes every time, and
    several runs at once use the cores better than one run with several threads.

    A run writes a checkpoint after an epoch, at most once a minute. A run that was killed continues
    from its checkpoint. On a CPU its record is the same as that of an uninterrupted run.
    """
    checkpoint = (root or folders.runs_root()) / f".checkpoint-{run.name}.pt"

    def enough(record: Record | None) -> bool:
        return record is not None and not (again and record.light)

    record = folders.verify(run, root)  # reading a record needs no lock and no writable cache
    if enough(record):
        with suppress(OSError):
            checkpoint.unlink()  # a process wrote the record and was killed before it removed this
        return record
    with folders.locked(run, root, wait):
        record = folders.verify(run, root)  # another process may just have trained the run
        if not enough(record):
            trials.try_once(run, lambda: Training(run, device), log)
            began, start = datetime.now(UTC), time.perf_counter()
            training = Training(run, device, log, mode)
            training.checkpoint = checkpoint
            checkpoints.resume(training)
            status, arrays, shifted, sharpness = "done", {}, [], None
            try:
                with training.products:
                    arrays = training.fit()
                shifted, sharpness = training.shifted(), training.sharpness()
            except Diverged as error:
                status = "diverged"
                log(f"{run.name}: {error}")
            training.steps = None  # frees the memory of the CUDA graph
            seconds = time.perf_counter() - start + training.spent
            provenance = {
                "started": began.isoformat(timespec="seconds"),
                "seconds": round(seconds, 2),
                "seconds_in_epochs": round(training.seconds, 2),
                "samples_per_second": round(training.samples / max(training.seconds, 1e-9), 1),
                "training_samples": len(training.labels),
                **machine.describe(training.device),
                "precision": run.protocol.precision,
                "sharpness": sharpness,
                "passes": dict(zip(("forward", "backward"), training.passes, strict=True)),
                **({"compiled": mode} if mode else {}),
                "data": training.data.note,
                **({"sources": plugins.copies(run.own)} if run.own else {}),
            }
            if training.kept:
                folders.save_epochs(run, training.kept, root)
            record = folders.save(run, status, training.history, arrays, provenance, root, shifted)
            checkpoint.unlink(missing_ok=True)
        return record


class Training:
    """A run in progress: the network, the data on the device, and the numbers recorded so far.

    Parameters
    ----------
    run : the run
    device : torch device; by default "cuda" if available, else "cpu"
    log : function that takes one line of text; called after each evaluated epoch
    mode : mode of `torch.compile`; empty to compile nothing
    kind : function without arguments that makes the `graph.Graph` of a training step; by default a
        CUDA graph on CUDA, and no graph on other devices
    """

    def __init__(
        self,
        run: Run,
        device: str = "",
        log: Callable = lambda line: None,
        mode: str = "",
        kind: Callable[[], graph.Graph] | None = None,
    ):
        protocol = run.protocol
        self.run, self.protocol, self.log, self.mode = run, protocol, log, mode
        self.device = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
        if self.device.type == "cpu":
            torch.set_num_threads(1)
            machine.keep_memory()
        self.bfloat16 = protocol.precision == "bfloat16"
        rounded = self.bfloat16 and not machine.computes_bfloat16(self.device)
        self.products = machine.RoundedProducts() if rounded else nullcontext()

        self.data = data.load(
            run.dataset,
            validation=protocol.validation,
            train_size=protocol.train_size,
            split_seed=run.seed if protocol.split_seed == "run" else protocol.split_seed,
        )
        parts = {part: getattr(self.data, part) for part in ("train", "validation", "test")}
        self.splits = {part: self._here(split) for part, split in parts.items()}
        self.labels = self.splits["train"].labels
        self.scale = [torch.tensor(x, device=self.device) for x in (self.data.mean, self.data.std)]
        self.tracked = torch.arange(min(protocol.tracked, len(self.labels)), device=self.device)

        torch.manual_seed(run.seed)
        self.rng = np.random.default_rng(run.seed)  # order of samples, mixing ratios, partners
        self.crops = torch.Generator(self.device).manual_seed(run.seed)
        shape = tuple(self.data.train.inputs.shape[1:])
        tokens = self.data.train.inputs.dtype == torch.int64
        options = {"vocabulary": readers.VOCABULARY} if tokens else {}
        network = networks.build(run.network, shape, len(self.data.classes), **options)
        self.network = network.to(self.device, memory_format=torch.channels_last)
        self.average = AveragedModel(self.network) if run.recipe.averaging == "swa" else None
        if mode:  # compiles the training steps alone; evaluations are few
            self.network.compile(mode=mode, dynamic=False)
        # Fewer large images fit in memory.
        self.evaluation_batch = max(1, min(EVALUATION_BATCH, EVALUATION_PIXELS // math.prod(shape)))
        known = {"lr": protocol.learning_rate, "weight_decay": protocol.weight_decay, "fused": True}
        weights = self.network.parameters()
        if protocol.optimizer == "adam":
            self.optimizer = torch.optim.Adam(weights, **known)
        else:
            self.optimizer = torch.optim.SGD(weights, momentum=protocol.momentum, **known)
        self.rate = protocol.learning_rate
        self.loss = base_loss(run.recipe)
        self.training_set = TrainingSet(
            self.labels,
            len(self.data.classes),
            self._mean_input(),
            self.training_inputs,
            parts=len(getattr(network, "stages", ())) + 1,
        )
        self.draw = objective(run.recipe, self.training_set)
        self.steps = graph.steps(self, kind)
        self.epoch = 0  # finished epochs
        self.history: list[dict] = []
        self.wrong_until = torch.zeros(len(self.tracked), dtype=torch.int16, device=self.device)
        self.early: dict[int, Tensor] = {}  # test logits by epoch of a snapshot
        self.followed: dict[int, tuple[Tensor, ...]] = {}  # results of `evaluation.follow`
        self.kept: dict[int, tuple[Tensor, Tensor]] = {}  # test and validation logits by epoch
        self.seconds, self.samples, self.passes = 0.0, 0, [0, 0]
        self.checkpoint: Path | None = None
        self.spent = 0.0  # seconds of training before the last interruption

    # --- data ---

    def _here(self, split: data.Split) -> data.Split:
        """Copy a split to the device of the run."""
        return data.Split(split.inputs.to(self.device), split.labels.to(self.device))

    def _normalised(self, batch: Tensor) -> Tensor:
        """Normalise inputs (B, ...) and put images in the memory format of convolutions."""
        batch = data.normalise(batch, *self.scale)
        return batch.contiguous(memory_format=torch.channels_last) if batch.ndim == 4 else batch

    def batches(self, split: data.Split, parts: Sequence[Tensor]) -> Iterator[Tensor]:
        """Yield the inputs of a split without augmentation, batch by batch.

        Parameters
        ----------
        split : inputs and labels
        parts : integer tensors (B,), the positions of each batch in the split

        Yields
        ------
        Tensor
            float32 (B, ...), normalised; token ids as they are.
        """
        return map(self._normalised, _decoded(split, parts))

    def training_inputs(self, index: Tensor) -> Tensor:
        """Return the inputs of some training samples.

        Parameters
        ----------
        index : integer tensor (B,), positions in the training set

        Returns
        -------
        Tensor
            float32 (B, ...), normalised, and cropped and flipped if the protocol says so.
        """
        split, seed = self.splits["train"], self._crop_seed()
        return self._augmented(split.inputs.read(index, seed) if seed else split.inputs[index])

    def training_batches(
        self, parts: Sequence[Tensor], crops: torch.Generator | None = None
    ) -> Iterator[Tensor]:
        """Yield the inputs of training samples, batch by batch.

        Parameters
        ----------
        parts : integer tensors (B,), the positions of each batch in the training set
        crops : generator that draws the crops and flips; by default `self.crops`

        Yields
        ------
        Tensor
            float32 (B, ...), normalised, and cropped and flipped if the protocol says so.
        """
        decoded = _decoded(self.splits["train"], parts, self._crop_seed())
        return (self._augmented(batch, crops) for batch in decoded)

    def _augmented(self, batch: Tensor, crops: torch.Generator | None = None) -> Tensor:
        """Normalise inputs (B, ...), and crop and flip them if the protocol says so."""
        batch = self._normalised(batch)
        if self.protocol.augment and self.data.augment == "crop_flip":
            batch = data.augment_crop_flip(batch, crops or self.crops)
        return batch

    def _crop_seed(self) -> tuple[int, ...]:
        """Return the seed of this epoch's random resized crops; empty for another augmentation.

        The worker processes that decode the images draw these crops.
        """
        resized = self.protocol.augment and self.data.augment == "resized_crop"
        return (self.run.seed, self.epoch + 1) if resized else ()

    def _mean_input(self) -> Tensor:
        """Return the mean training input; only 2,000 images count if they are decoded on demand."""
        if self.data.train.inputs.dtype == torch.int64:
            return torch.zeros((), dtype=torch.int64)  # token ids have no mean
        split = self.splits["train"]
        n = len(self.labels) if isinstance(split.inputs, Tensor) else min(2000, len(self.labels))
        parts = torch.arange(n, device=self.device).split(self.evaluation_batch)
        return sum(batch.sum(0) for batch in self.batches(split, parts)) / n

    # --- learning ---

    def fit(self) -> dict[str, np.ndarray]:
        """Train to the end and return the arrays of the record.

        A protocol of zero epochs evaluates a network with pretrained weights as it is.

        Returns
        -------
        dict of numpy.ndarray
            Arrays of a `records.record.Record` by name.

        Raises
        ------
        Diverged
            The loss or a logit is not finite.
        """
        protocol = self.protocol
        began = saved = time.perf_counter()
        for epoch in range(self.epoch + 1, protocol.epochs + 1) if protocol.epochs else (0,):
            start = time.perf_counter()
            loss = self.learn(epoch) if epoch else np.nan
            if self.device.type == "cuda":
                torch.cuda.synchronize()
            self.seconds += time.perf_counter() - start
            if epoch and not np.isfinite(loss):
                raise Diverged(f"loss is {loss} in epoch {epoch}")

            last = epoch == protocol.epochs
            snapshot = last or epoch in protocol.snapshots
            evaluated = snapshot or epoch % protocol.evaluate_every == 0
            # Averaged weights need new batch norm statistics, which cost a pass over all the data.
            # Between evaluations the unaveraged network therefore predicts the tracked samples.
            network = self.predictor(epoch) if evaluated else self.network.eval()
            logits, features = self.evaluate(network, "train", self.tracked)
            labels = self.labels[self.tracked]
            right = logits.argmax(1) == labels
            self.wrong_until[~right] = epoch
            if snapshot:
                self.followed[epoch] = evaluation.follow(
                    self.loss, self.network, logits, features, labels
                )
            if evaluated:
                test, test_features = self.evaluate(network, "test")
                held_out, held_out_features = self.evaluate(network, "validation")
                self.note(epoch, loss, float(right.float().mean()), test, held_out)
                if self.run.dataset in KEPT_WHOLE:
                    self.kept[epoch] = test.half().cpu(), held_out.half().cpu()
                if snapshot and not last:
                    self.early[epoch] = test[: evaluation.SNAPSHOT_SAMPLES].cpu()
            self.epoch = epoch
            now = time.perf_counter()
            if self.checkpoint and not last and now - saved >= CHECKPOINT_SECONDS:
                checkpoints.save(self, self.spent + now - began)
                saved = now
        self.final = network
        # Epoch from which a sample is predicted correctly until the end; 0: wrong at the end.
        learned = torch.where(self.wrong_until < protocol.epochs, self.wrong_until + 1, 0)
        scores = {}
        if protocol.feature_scores:
            validation = held_out_features, held_out, self.splits["validation"].labels
            scores = self._feature_scores(network, validation, (test_features, test))
        arrays = evaluation.record_arrays(
            (test, self.splits["test"].labels),
            (held_out, self.splits["validation"].labels),
            (logits, labels, learned),
            self.early,
            self.followed,
        )
        return arrays | scores

    def _feature_scores(self, network: nn.Module, validation: tuple, test: tuple) -> dict:
        """Compute `evaluation.feature_scores`, fitted on augmented training inputs."""
        parts = torch.arange(len(self.labels), device=self.device).split(self.evaluation_batch)
        with torch.no_grad():
            hidden = torch.cat([network.features(b) for b in self.training_batches(parts)])
            train = hidden, network.head(hidden), self.labels
        return evaluation.feature_scores(train, validation, test, self.protocol.feature_scores)

    def sharpness(self) -> float:
        """Measure `evaluation.sharpness` on the tracked samples, with the ρ of the protocol.

        Returns
        -------
        float
            The rise of the mean cross-entropy, in nats.
        """
        # Gradients need the activations in memory: a quarter of an evaluation batch at a time.
        parts = self.tracked.split(max(1, self.evaluation_batch // 4))

        def batches() -> Iterator[tuple[Tensor, Tensor]]:
            inputs = self.batches(self.splits["train"], parts)
            return zip(inputs, (self.labels[part] for part in parts), strict=True)

        return evaluation.sharpness(self.final, batches, len(self.tracked), self.protocol.rho)

    def shifted(self) -> list[dict]:
        """Measure the network on every shift of the test set.

        Returns
        -------
        list of dict
            Metrics by name, for each kind and severity of shift. Temperature scaling is fitted on
            the unshifted validation data.
        """
        n = self.protocol.shifted
        if not n:
            return []
        rows, temperature = [], self.history[-1]["temperature"]
        for (kind, severity), split in shifts.shifted_sets(self.run.dataset, n):
            self.splits["shifted"] = self._here(split)
            logits = self.evaluate(self.final, "shifted")[0].cpu().numpy()
            row = evaluation.shifted_row(logits, split.labels.numpy(), temperature)
            rows.append({"shift": kind, "severity": severity} | row)
        return rows

    def learn(self, epoch: int) -> float:
        """Train for one epoch.

        Parameters
        ----------
        epoch : number of the epoch, from 1

        Returns
        -------
        float
            Mean loss over the batches.
        """
        protocol, network = self.protocol, self.network
        swa = self.average is not None
        self.rate = protocol.rate(epoch, self.run.recipe.averaging, self.run.variant)
        # The text of fmfp searches for flat minima only after some epochs of plain training.
        plain = self.run.variant == "paper" and swa and epoch <= protocol.swa_start
        sharp = self.run.recipe.update == "sam" and not plain
        network.train()
        order = torch.from_numpy(self.rng.permutation(len(self.labels))).to(self.device)
        batches = [b for b in order.split(protocol.batch_size) if len(b) > 1]  # batch norm needs 2
        forward, backward_passes = PASSES.get(self.run.recipe.objective, (1, 1))
        self.passes[0] += forward * (1 + sharp) * len(order)
        self.passes[1] += backward_passes * (1 + sharp) * len(order)
        if self.steps:
            total = self.steps.learn(batches, self.rate, sharp)
        else:
            total = torch.zeros((), device=self.device)
            for group in self.optimizer.param_groups:
                group["lr"] = self.rate
            for index, inputs in zip(batches, self.training_batches(batches), strict=True):
                batch = Batch(inputs, self.labels[index], index)
                total += self.step(self.draw(batch, self.rng), sharp)
        if swa and epoch > protocol.swa_start:
            self.average.update_parameters(network)
        self.samples += len(order)
        return float(total) / len(batches)

    def step(self, score: Score, sharp: bool) -> Tensor:
        """Update the weights once.

        Parameters
        ----------
        score : function of a network that returns the loss (B,) of each sample of the batch
        sharp : whether the update is sharpness-aware (SAM)

        Returns
        -------
        Tensor
            Mean loss of the batch before the update, a scalar.
        """
        protocol, network = self.protocol, self.network

        def backward() -> Tensor:
            kept = self.steps is None  # a graph must cast the weights itself
            with torch.autocast(
                self.device.type, torch.bfloat16, enabled=self.bfloat16, cache_enabled=kept
            ):
                each = score(network)
            (each.sum() if protocol.reduction == "sum" else each.mean()).backward()
            return each.detach().mean()

        self.optimizer.zero_grad(set_to_none=True)
        if sharp:
            loss = sharpness_aware(network, backward, protocol.rho, protocol.sam_statistics)
        else:
            loss = backward()
        if protocol.clip_norm is not None:
            nn.utils.clip_grad_norm_(network.parameters(), protocol.clip_norm)
        self.optimizer.step()
        return loss

    def predictor(self, epoch: int) -> nn.Module:
        """Return the network whose predictions count, in evaluation mode.

        This is the network with averaged weights as soon as averaging has started.

        Parameters
        ----------
        epoch : number of finished epochs
        """
        if self.average is None or epoch <= self.protocol.swa_start:
            return self.network.eval()
        everything = torch.arange(len(self.labels), device=self.device)
        parts = everything.split(self.evaluation_batch)
        batches = self.batches(self.splits["train"], parts)
        if self.protocol.bn_statistics == "augmented":
            # A separate generator draws these crops, so that they do not change the training.
            (seed,) = np.random.SeedSequence([self.run.seed, epoch]).generate_state(1)
            crops = torch.Generator(self.device).manual_seed(int(seed))
            batches = self.training_batches(parts, crops)
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.bfloat16):
            update_bn(batches, self.average)
        return self.average.module.eval()

    # --- measuring ---

    @torch.no_grad()
    def evaluate(self, network: nn.Module, name: str, index: Tensor | None = None):
        """Compute the logits of a split, and the features that the last layer sees.

        Logits of every split but "train" are rounded to half precision, because records keep them
        so.

        Parameters
        ----------
        network : a network in evaluation mode
        name : "train", "validation", "test" or "shifted"
        index : integer tensor (m,), positions in the split; by default all samples

        Returns
        -------
        tuple of Tensor
            Logits (m, k) and features (m, d), float32.

        Raises
        ------
        Diverged
            A logit is not finite.
        """
        split = self.splits[name]
        if index is None:
            index = torch.arange(len(split.labels), device=self.device)
        logits, features = [], []
        for batch in self.batches(split, index.split(self.evaluation_batch)):
            hidden = network.features(batch)
            features.append(hidden)
            logits.append(network.head(hidden))
        outputs = torch.cat(logits)
        if name != "train":
            # Records keep logits in half precision, and metrics must be those of the kept logits.
            outputs = outputs.half().float()
        if not outputs.isfinite().all():  # the last update may have diverged
            raise Diverged(f"logits of the {name} set are not finite")
        return outputs, torch.cat(features)

    def note(self, epoch: int, loss: float, train_accuracy: float, test: Tensor, held_out: Tensor):
        """Add every metric of the test set to the history, also after temperature scaling.

        Parameters
        ----------
        epoch : number of finished epochs
        loss : mean training loss of the last epoch
        train_accuracy : share of tracked training samples predicted correctly, from 0 to 1
        test : float tensor (n, k), test logits
        held_out : float tensor (v, k), validation logits
        """
        row = evaluation.scalars(
            {
                "epoch": epoch,
                "learning_rate": self.rate,
                "loss": loss,
                "train_accuracy": train_accuracy,
            }
        ) | evaluation.history_row(
            test.cpu().numpy(),
            self.data.test.labels.numpy(),
            held_out.cpu().numpy(),
            self.data.validation.labels.numpy(),
            self.protocol.temperature,
        )
        self.history.append(row)
        self.log(
            f"{self.run.name}  epoch {epoch}/{self.protocol.epochs}  loss {loss:.3f}  "
            f"accuracy {row['accuracy']:.3f}  ece {row['ece']:.3f}  auroc {row['auroc']:.3f}"
        )


def _decoded(split: data.Split, parts: Sequence[Tensor], seed: tuple = ()) -> Iterator[Tensor]:
    """Yield the inputs of a split as they are stored, batch by batch."""
    if isinstance(split.inputs, Tensor):
        return (split.inputs[part] for part in parts)
    return split.inputs.batches(parts, seed)
