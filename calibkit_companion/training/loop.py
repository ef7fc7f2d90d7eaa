"""The training loop, which takes a run, trains its network and writes its record.

A run is written as turns (`turns`), so that several runs can train side by side.
"""

import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, nullcontext, suppress
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel, update_bn

from calibkit_companion.data import readers
from calibkit_companion.experiments import plugins
from calibkit_companion.experiments.method import PASSES
from calibkit_companion.experiments.run import Run
from calibkit_companion.records import folders
from calibkit_companion.records.record import Record
from calibkit_companion.training import (
    checkpoints,
    evaluation,
    graph,
    machine,
    networks,
    trials,
    turns,
)
from calibkit_companion.training.measuring import Diverged, Measured
from calibkit_companion.training.objectives import (
    Batch,
    Score,
    TrainingSet,
    base_loss,
    objective,
    sharpness_aware,
)
from calibkit_companion.training.turns import Ready

CHECKPOINT_SECONDS = 60.0  # least time between two checkpoints of a run
# Runs on these data take hours. The logits of every evaluated epoch are kept, so that a metric
# that is added later needs no new training.
KEPT_WHOLE = {"cifar10", "cifar100", "tiny_imagenet"}


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
    place = machine.device(device)
    threads = turns.THREADS if place.type == "cuda" else 0
    with closing(turns.Company(place, threads)) as company:
        return turns.drive(in_turns(run, company, root, log, mode, again, wait))


def in_turns(
    run: Run,
    company: turns.Company,
    root: Path | None = None,
    log: Callable = lambda line: None,
    mode: str = "",
    again: bool = False,
    wait: bool = True,
) -> Generator[Ready, None, Record]:
    """Do what `train` does, in turns with other runs.

    Parameters
    ----------
    run : the run
    company : what the runs of this process share, and their device
    root, log, mode, again, wait : as in `train`
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
            trials.try_once(run, lambda: Training(run, str(company.device)), log)
            began, start = datetime.now(UTC), company.clock()
            training = Training(run, str(company.device), log, mode, company=company)
            training.checkpoint = checkpoint
            checkpoints.resume(training)
            status, arrays, shifted, sharpness = "done", {}, [], None
            try:
                arrays = yield from turns.within(training.products, training.fitting())
                shifted = yield from training.shifting()
                sharpness = training.sharpness()
            except Diverged as error:
                yield from training.noting()
                status = "diverged"
                log(f"{run.name}: {error}")
            finally:
                training.free()
            seconds = company.clock() - start + training.spent
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
                **({"side_by_side": company.most} if company.most > 1 else {}),
                **({"compiled": mode} if mode else {}),
                "data": training.data.note,
                **({"sources": plugins.copies(run.own)} if run.own else {}),
            }

            def save() -> Record:
                if training.kept:
                    folders.save_epochs(run, training.kept, root)
                return folders.save(
                    run, status, training.history, arrays, provenance, root, shifted
                )

            record = yield from turns.result(company.worker.submit(save))
            checkpoint.unlink(missing_ok=True)
        return record


class Training(Measured):
    """A run in progress: data, network, optimiser, and the numbers recorded so far.

    Parameters
    ----------
    run : the run
    device : torch device; by default "cuda" if available, else "cpu"
    log : function that takes one line of text; called after each evaluated epoch
    mode : mode of `torch.compile`; empty to compile nothing
    kind : function without arguments that makes the `graph.Graph` of a training step; by default a
        CUDA graph on CUDA, and no graph on other devices
    company : what the runs of this process share; by default the run is alone
    """

    def __init__(
        self,
        run: Run,
        device: str = "",
        log: Callable = lambda line: None,
        mode: str = "",
        kind: Callable[[], graph.Graph] | None = None,
        company: turns.Company | None = None,
    ):
        place = machine.device(device)
        if place.type == "cpu":
            torch.set_num_threads(1)
            machine.keep_memory()
        super().__init__(run, company or turns.Company(place), log)
        self.company.streamed += self.streamed
        protocol, self.mode = run.protocol, mode
        self.bfloat16 = protocol.precision == "bfloat16"
        rounded = self.bfloat16 and not machine.computes_bfloat16(place)
        self.products = machine.RoundedProducts() if rounded else nullcontext()

        torch.manual_seed(run.seed)
        self.rng = np.random.default_rng(run.seed)  # order of samples, mixing ratios, partners
        tokens = self.data.train.inputs.dtype == torch.int64
        options = {"vocabulary": readers.VOCABULARY} if tokens else {}
        network = networks.build(run.network, self.shape, len(self.data.classes), **options)
        self.network = network.to(place, memory_format=torch.channels_last)
        self.average = AveragedModel(self.network) if run.recipe.averaging == "swa" else None
        if mode:  # compiles the training steps alone; evaluations are few
            self.network.compile(mode=mode, dynamic=False)
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
        self.total = torch.zeros((), device=place)  # sum of the batches' losses in this epoch
        self.draw = objective(run.recipe, self.training_set)
        self.steps = graph.steps(self, kind)
        self.seconds, self.samples, self.passes = 0.0, 0, [0, 0]
        self.checkpoint: Path | None = None
        self.spent = 0.0  # seconds of training before the last interruption

    # --- learning ---

    def fit(self) -> dict[str, np.ndarray]:
        """Train to the end and return the arrays of the record.

        Returns
        -------
        dict of numpy.ndarray
            Arrays of a `records.record.Record` by name.

        Raises
        ------
        Diverged
            The loss or a logit is not finite.
        """
        return turns.drive(self.fitting())

    def fitting(self) -> Generator[Ready, None, dict[str, np.ndarray]]:
        """Do what `fit` does, in turns.

        A protocol of zero epochs evaluates a network with pretrained weights as it is.
        """
        protocol, clock = self.protocol, self.company.clock
        began, saved = clock(), time.perf_counter()
        if protocol.shifted:
            self._begin_shifts()
        for epoch in range(self.epoch + 1, protocol.epochs + 1) if protocol.epochs else (0,):
            start = clock()
            loss = (yield from self.learning(epoch)) if epoch else np.nan
            self.seconds += clock() - start
            if epoch and not np.isfinite(loss):
                raise Diverged(f"loss is {loss} in epoch {epoch}")

            last = epoch == protocol.epochs
            snapshot = last or epoch in protocol.snapshots
            evaluated = snapshot or epoch % protocol.evaluate_every == 0
            # Averaged weights need new batch norm statistics, which cost a pass over all the data.
            # Between evaluations the unaveraged network therefore predicts the tracked samples.
            network = self.predictor(epoch) if evaluated else self.network.eval()
            logits, features = yield from self.evaluating(network, "train", self.tracked)
            labels = self.labels[self.tracked]
            right = logits.argmax(1) == labels
            self.wrong_until[~right] = epoch
            if snapshot:
                self.followed[epoch] = evaluation.follow(
                    self.loss, self.network, logits, features, labels
                )
            if evaluated:
                test, test_features = yield from self.evaluating(network, "test")
                held_out, held_out_features = yield from self.evaluating(network, "validation")
                known = {"epoch": epoch, "learning_rate": self.rate, "loss": loss}
                known["train_accuracy"] = float(right.float().mean())
                self.note(known, test, held_out)
                if self.run.dataset in KEPT_WHOLE:
                    self.kept[epoch] = test.half().cpu(), held_out.half().cpu()
                if snapshot and not last:
                    self.early[epoch] = test[: evaluation.SNAPSHOT_SAMPLES].cpu()
            self.epoch = epoch
            self.company.epochs += 1
            now = time.perf_counter()
            if self.checkpoint and not last and now - saved >= CHECKPOINT_SECONDS:
                yield from self.noting()
                yield from checkpoints.saving(self, self.spent + clock() - began)
                saved = now
        yield from self.noting()
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
        return turns.drive(self.learning(epoch))

    def learning(self, epoch: int) -> Generator[Ready, None, float]:
        """Do what `learn` does, in turns.

        Parameters
        ----------
        epoch : number of the epoch, from 1
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
        learned = self.steps.learn if self.steps else self._learned
        self.total.zero_()
        before = turns.always
        for number, _ in enumerate(learned(batches, self.rate, sharp), 1):
            if number % turns.TURN == 0:
                # The GPU has the steps of this turn to do while the next ones are asked for.
                now = turns.reached(self.device)
                yield before
                before = now
        yield turns.reached(self.device)
        if swa and epoch > protocol.swa_start:
            self.average.update_parameters(network)  # waits for the GPU
        self.samples += len(order)
        return float(self.total) / len(batches)

    def _learned(self, batches: Sequence[Tensor], rate: float, sharp: bool) -> Iterator[None]:
        """Train on batches without a graph, as `graph.Steps.learn` does with one."""
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        for index, inputs in zip(batches, self.training_batches(batches), strict=True):
            batch = Batch(inputs, self.labels[index], index)
            self.total.add_(self.step(self.draw(batch, self.rng), sharp))
            yield

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

    def free(self) -> None:
        """Free the memory of the CUDA graph; afterwards the run takes no more steps."""
        self.company.streamed -= self.streamed
        if self.steps:
            self.steps.free()
            self.steps = None
