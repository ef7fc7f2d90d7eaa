"""The one training loop: it takes a run and makes a record.

The data set lives on the device, and crops and flips are made there for a whole batch. Images that
do not fit are decoded by workers, batch by batch. All numbers of a record are measured in
evaluation mode on inputs without augmentation.
"""

import hashlib
import io
import json
import math
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext, suppress
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel, update_bn

import calibkit
from calibkit import confidence, losses, metrics, posthoc
from calibkit_companion import data
from calibkit_companion.data import readers, shifts
from calibkit_companion.experiments import plugins
from calibkit_companion.experiments.method import PASSES
from calibkit_companion.experiments.run import Run
from calibkit_companion.records import folders, ranking
from calibkit_companion.records.keys import BY_LOG_ODDS
from calibkit_companion.records.record import Record
from calibkit_companion.training import graph, machine, networks, trials
from calibkit_companion.training.objectives import (
    Batch,
    Score,
    TrainingSet,
    base_loss,
    objective,
    sharpness_aware,
)

EVALUATION_BATCH = 1000
EVALUATION_PIXELS = EVALUATION_BATCH * 3 * 64**2  # the most pixels of such a batch
CHECKPOINT_SECONDS = 60.0  # between two checkpoints of a run that takes longer
# Attributes of `Training` that a checkpoint keeps besides weights and random states.
CONTINUED = "epoch history wrong_until early followed kept seconds samples passes".split()
SNAPSHOT_SAMPLES = 1000  # of the test set, at epochs before the last; figures need no more
# Data on which a run takes hours. The logits of every evaluated epoch are kept, so that a later
# metric needs no new training.
KEPT_WHOLE = {"cifar10", "cifar100", "tiny_imagenet"}


class Diverged(Exception):
    """The loss is no longer a number."""


def train(
    run: Run,
    root: Path | None = None,
    device: str = "",
    log: Callable = lambda line: None,
    mode: str = "",
    again: bool = False,
    wait: bool = True,
):
    """The record of a run, trained now if it is missing.

    Parameters
    ----------
    run : what to train
    root : folder of the records; default `folders.runs_root()`
    device : torch device; default "cuda" if available, else "cpu"
    log : called with one line of text per evaluated epoch
    mode : as in `torch.compile`: "default", or "reduce-overhead" to capture CUDA graphs; empty to
        compile nothing
    again : retrain a run whose record keeps no predictions
    wait : for another process that trains this run; if not, ``filelock.Timeout`` is raised

    Returns
    -------
    Record
        With ``diverged`` true, and no arrays, when the loss stopped being a number.

    Notes
    -----
    On a CPU a run uses one thread: the same machine then writes the same bytes every time, and
    several runs fill the cores better than several threads do.

    A long run leaves a checkpoint each minute, after an epoch. If killed, it resumes from there
    and, on a CPU, ends with the record it would have left uninterrupted.
    """
    checkpoint = (root or folders.runs_root()) / f".checkpoint-{run.name}.pt"

    def enough(record: Record | None) -> bool:
        return record is not None and not (again and record.light)

    record = folders.verify(run, root)  # reading it needs no lock and no writable cache
    if enough(record):
        with suppress(OSError):
            checkpoint.unlink()  # left by a process killed just after writing the record
        return record
    with folders.locked(run, root, wait):
        record = folders.verify(run, root)  # another process may have trained it meanwhile
        if not enough(record):
            trials.try_once(run, lambda: Training(run, device), log)
            began, start = datetime.now(UTC), time.perf_counter()
            training = Training(run, device, log, mode)
            training.checkpoint = checkpoint
            training.resume()
            status, arrays, shifted, sharpness = "done", {}, [], None
            try:
                with training.products:
                    arrays = training.fit()
                shifted, sharpness = training.shifted(), training.sharpness()
            except Diverged as error:
                status = "diverged"
                log(f"{run.name}: {error}")
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
                **plugins.copies(run.recipe.objective, run.network),
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
    run : what to train
    device : torch device; default "cuda" if available, else "cpu"
    log : called with one line of text per evaluated epoch
    mode : as in `torch.compile`; empty to compile nothing
    kind : makes the `graph.Graph` that repeats the steps; default a CUDA graph on CUDA, and none on
        other devices
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
        self.rng = np.random.default_rng(run.seed)  # order, mixing ratios, partners
        self.crops = torch.Generator(self.device).manual_seed(run.seed)
        shape = tuple(self.data.train.inputs.shape[1:])
        tokens = self.data.train.inputs.dtype == torch.int64
        options = {"vocabulary": readers.VOCABULARY} if tokens else {}
        network = networks.build(run.network, shape, len(self.data.classes), **options)
        self.network = network.to(self.device, memory_format=torch.channels_last)
        self.average = AveragedModel(self.network) if run.recipe.averaging == "swa" else None
        if mode:  # only of the training steps, which are many and short
            self.network.compile(mode=mode, dynamic=False)
        # Large images take the memory of many small ones.
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
        self.epoch = 0  # epochs done
        self.history: list[dict] = []
        self.wrong_until = torch.zeros(len(self.tracked), dtype=torch.int16, device=self.device)
        self.early: dict[int, Tensor] = {}  # test logits at snapshots
        self.followed: dict[int, tuple[Tensor, ...]] = {}  # of tracked samples: see `follow`
        self.kept: dict[int, tuple[Tensor, Tensor]] = {}  # test and validation logits by epoch
        self.seconds, self.samples, self.passes = 0.0, 0, [0, 0]
        self.checkpoint: Path | None = None
        self.spent = 0.0  # seconds before an interruption

    # --- data ---

    def _here(self, split: data.Split) -> data.Split:
        """The same split on the device of the run."""
        return data.Split(split.inputs.to(self.device), split.labels.to(self.device))

    def _normalised(self, batch: Tensor) -> Tensor:
        """Normalised inputs, images in the memory format that suits convolutions."""
        batch = data.normalise(batch, *self.scale)
        return batch.contiguous(memory_format=torch.channels_last) if batch.ndim == 4 else batch

    def batches(self, split: data.Split, parts: Sequence[Tensor]) -> Iterator[Tensor]:
        """Normalised inputs of some parts of a split, one part after the other.

        Parameters
        ----------
        split : inputs and labels
        parts : positions in the split, (B,) each
        """
        return map(self._normalised, _decoded(split, parts))

    def training_inputs(self, index: Tensor) -> Tensor:
        """Normalised and augmented inputs of some training samples.

        Parameters
        ----------
        index : positions in the training set, (B,)
        """
        split, seed = self.splits["train"], self._crop_seed()
        return self._augmented(split.inputs.read(index, seed) if seed else split.inputs[index])

    def training_batches(
        self, parts: Sequence[Tensor], crops: torch.Generator | None = None
    ) -> Iterator[Tensor]:
        """Normalised and augmented inputs of parts of the training set, one part after the other.

        Parameters
        ----------
        parts : positions in the training set, (B,) each
        crops : draws the crops and flips; default `self.crops`
        """
        decoded = _decoded(self.splits["train"], parts, self._crop_seed())
        return (self._augmented(batch, crops) for batch in decoded)

    def _augmented(self, batch: Tensor, crops: torch.Generator | None = None) -> Tensor:
        """Normalised inputs, cropped and flipped if the protocol says so."""
        batch = self._normalised(batch)
        if self.protocol.augment and self.data.augment == "crop_flip":
            batch = data.augment_crop_flip(batch, crops or self.crops)
        return batch

    def _crop_seed(self) -> tuple[int, ...]:
        """Seed of the random resized crops of this epoch; empty without them.

        The crops are drawn where images are decoded.
        """
        resized = self.protocol.augment and self.data.augment == "resized_crop"
        return (self.run.seed, self.epoch + 1) if resized else ()

    def _mean_input(self) -> Tensor:
        """The mean training input; of 2,000 images if they are decoded on demand."""
        if self.data.train.inputs.dtype == torch.int64:
            return torch.zeros((), dtype=torch.int64)  # token ids have no mean
        split = self.splits["train"]
        n = len(self.labels) if isinstance(split.inputs, Tensor) else min(2000, len(self.labels))
        parts = torch.arange(n, device=self.device).split(self.evaluation_batch)
        return sum(batch.sum(0) for batch in self.batches(split, parts)) / n

    # --- learning ---

    def fit(self) -> dict[str, np.ndarray]:
        """Train to the end and return the arrays of the record.

        With zero epochs, a network that starts from weights is evaluated as it is.

        Returns
        -------
        dict of numpy.ndarray
            The arrays of a `records.record.Record`, by name.

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
            # Averaged weights need new batch norm statistics, which takes a pass over all the data.
            # Between evaluations the network in training judges the tracked samples.
            network = self.predictor(epoch) if evaluated else self.network.eval()
            logits, features = self.evaluate(network, "train", self.tracked)
            labels = self.labels[self.tracked]
            right = logits.argmax(1) == labels
            self.wrong_until[~right] = epoch
            if snapshot:
                self.followed[epoch] = self.follow(logits, features, labels)
            if evaluated:
                test, test_features = self.evaluate(network, "test")
                held_out, held_out_features = self.evaluate(network, "validation")
                self.note(epoch, loss, float(right.float().mean()), test, held_out)
                if self.run.dataset in KEPT_WHOLE:
                    self.kept[epoch] = test.half().cpu(), held_out.half().cpu()
                if snapshot and not last:
                    self.early[epoch] = test[:SNAPSHOT_SAMPLES].cpu()
            self.epoch = epoch
            now = time.perf_counter()
            if self.checkpoint and not last and now - saved >= CHECKPOINT_SECONDS:
                self.save(self.spent + now - began)
                saved = now
        self.final = network
        self.steps = None  # frees the memory of its graph
        # First epoch from which a sample stays right; 0 if it is wrong at the end.
        learned = torch.where(self.wrong_until < protocol.epochs, self.wrong_until + 1, 0)
        scores = {}
        if protocol.feature_scores:
            validation = held_out_features, held_out, self.splits["validation"].labels
            scores = self.feature_scores(network, validation, (test_features, test))
        half, small = np.float16, np.int16
        brier, gradient, tracked_logits, norms = (
            np.stack([x.numpy() for x in column])
            for column in zip(*self.followed.values(), strict=True)
        )
        return {
            "test_logits": test.cpu().numpy().astype(half),  # already rounded to half
            "test_labels": self.splits["test"].labels.cpu().numpy().astype(small),
            "validation_logits": held_out.cpu().numpy().astype(half),
            "validation_labels": self.splits["validation"].labels.cpu().numpy().astype(small),
            "snapshot_epochs": np.array(list(self.early), small),
            "snapshot_logits": np.array([x.numpy() for x in self.early.values()], half).reshape(
                -1, min(SNAPSHOT_SAMPLES, len(test)), test.shape[1]
            ),
            "train_epochs": np.array(list(self.followed), small),
            "train_brier": brier,
            "train_gradient_norm": gradient,
            "train_logits": tracked_logits.astype(half),
            "train_feature_norm": norms.astype(half),
            "train_learned_epoch": learned.cpu().numpy(),
            "train_max_logit": logits.amax(1).cpu().numpy().astype(half),
            "train_labels": labels.cpu().numpy().astype(small),
            **scores,
        }

    def follow(self, logits: Tensor, features: Tensor, labels: Tensor) -> tuple[Tensor, ...]:
        """Brier score, gradient norm of the last layer, logits and feature norm of some samples.

        Parameters
        ----------
        logits : (B, k)
        features : inputs of the last layer, (B, d)
        labels : (B,)

        Returns
        -------
        tuple of Tensor
            (B,), (B,), (B, k) and (B,) on the CPU; gradient norms are NaN without a last linear
            layer.
        """
        gradient = losses.last_layer_gradient_norm(self.loss, logits, labels, features)
        if not getattr(self.network, "has_features", True):  # a user's network
            gradient = torch.full_like(gradient, torch.nan)
        brier = losses.brier(logits, labels)
        return brier.cpu(), gradient.cpu(), logits.cpu(), features.norm(dim=1).cpu()

    def feature_scores(self, network: nn.Module, held_out: tuple, test: tuple):
        """Trust Score and ConfidNet of the test samples, fitted on the whole training set.

        Parameters
        ----------
        network : the trained network
        held_out : features (v, d), logits (v, k) and labels (v,) of the validation samples
        test : features (n, d) and logits (n, k) of the test samples

        Returns
        -------
        dict of numpy.ndarray
            ``test_trust_score`` and ``test_confidnet``, (n,) each.
        """
        parts = torch.arange(len(self.labels), device=self.device).split(self.evaluation_batch)
        with torch.no_grad():
            hidden = torch.cat([network.features(b) for b in self.training_batches(parts)])
            train = hidden, network.head(hidden), self.labels
        train, held_out, (features, logits) = (
            [x.cpu().numpy() for x in part] for part in (train, held_out, test)
        )
        trust = confidence.TrustScore().fit(train[0], train[2])
        net = confidence.ConfidNet(self.protocol.feature_scores).fit(*train, validation=held_out)
        return {
            "test_trust_score": trust.score(features, logits.argmax(1)).astype(np.float32),
            "test_confidnet": net.score(features).astype(np.float32),
        }

    def sharpness(self) -> float:
        """Rise of the cross-entropy of the tracked samples when the weights take one step uphill.

        The value is L(θ + ρ ∇L/‖∇L‖) - L(θ) with the protocol's ρ, in nats and in evaluation mode
        (SAM; fmfp, eq. 9 and algorithm 1). The weights are restored.
        """
        network, rho = self.final, self.protocol.rho
        weights = list(network.parameters())
        # A quarter at a time, as activations stay in memory.
        parts = self.tracked.split(max(1, self.evaluation_batch // 4))

        def each_loss() -> Iterator[Tensor]:
            for part, inputs in zip(parts, self.batches(self.splits["train"], parts), strict=True):
                of_each = losses.cross_entropy(network(inputs), self.labels[part])
                yield of_each.sum() / len(self.tracked)

        here, gradients = 0.0, [torch.zeros_like(w) for w in weights]
        for value in each_loss():
            here += float(value.detach())
            torch._foreach_add_(gradients, torch.autograd.grad(value, weights))
        with torch.no_grad():
            norm = torch.linalg.vector_norm(torch.stack(torch._foreach_norm(gradients)))
            before = [w.clone() for w in weights]
            torch._foreach_add_(weights, torch._foreach_mul(gradients, rho / (norm + 1e-12)))
            there = sum(map(float, each_loss()))
            torch._foreach_copy_(weights, before)
        return there - here

    def shifted(self) -> list[dict]:
        """Measure the network on every shift of the test set.

        Returns
        -------
        list of dict
            A row of metrics for each kind and severity of shift; the temperature is that of the
            unshifted validation data.
        """
        n = self.protocol.shifted
        if not n:
            return []
        rows, temperature = [], self.history[-1]["temperature"]
        for (kind, severity), split in shifts.shifted_sets(self.run.dataset, n):
            self.splits["shifted"] = self._here(split)
            logits = self.evaluate(self.final, "shifted")[0].cpu().numpy()
            labels = split.labels.numpy()
            row = _scalars(ranking.summary(logits, labels))
            scaled = ranking.summary(logits / temperature, labels)
            row |= {f"{k}_scaled": scaled[k] for k in ("ece", "brier", "nll", "auroc")}
            row[f"auroc_scaled{BY_LOG_ODDS}"] = scaled[f"auroc{BY_LOG_ODDS}"]
            rows.append({"shift": kind, "severity": severity} | row)
        return rows

    def learn(self, epoch: int) -> float:
        """Train one epoch.

        Parameters
        ----------
        epoch : its number, from 1

        Returns
        -------
        float
            The mean loss of the batches.
        """
        protocol, network = self.protocol, self.network
        swa = self.average is not None
        self.rate = protocol.rate(epoch, self.run.recipe.averaging, self.run.variant)
        # In fmfp's text, flat minima start from a checkpoint of plain training.
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
        score : gives the loss of each sample of the batch, (B,), for a network
        sharp : whether the update is sharpness-aware

        Returns
        -------
        Tensor
            The mean loss of the batch before the update, ().
        """
        protocol, network = self.protocol, self.network

        def backward() -> Tensor:
            kept = self.steps is None  # a graph must not find weights that were cast outside of it
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
        """The network whose predictions count: the averaged one once averaging has started.

        Parameters
        ----------
        epoch : number of epochs that are done
        """
        if self.average is None or epoch <= self.protocol.swa_start:
            return self.network.eval()
        everything = torch.arange(len(self.labels), device=self.device)
        parts = everything.split(self.evaluation_batch)
        batches = self.batches(self.splits["train"], parts)
        if self.protocol.bn_statistics == "augmented":
            # Crops of their own: the training goes on as it does without them.
            (seed,) = np.random.SeedSequence([self.run.seed, epoch]).generate_state(1)
            crops = torch.Generator(self.device).manual_seed(int(seed))
            batches = self.training_batches(parts, crops)
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.bfloat16):
            update_bn(batches, self.average)
        return self.average.module.eval()

    # --- checkpoints ---

    def save(self, spent: float) -> None:
        """Write a checkpoint: everything that decides how the run continues.

        Parameters
        ----------
        spent : seconds of training so far
        """
        state = {name: getattr(self, name) for name in CONTINUED} | {
            "made_by": self._maker(),
            "spent": spent,
            "network": self.network.state_dict(),
            "average": self.average.state_dict() if self.average else None,
            "optimizer": self.optimizer.state_dict(),
            "memory": self.training_set.memory,
            "random": (torch.get_rng_state(), self.crops.get_state()),
            "rng": json.dumps(self.rng.bit_generator.state),
        }
        buffer = io.BytesIO()
        torch.save(state, buffer)
        content = buffer.getvalue()
        draft = self.checkpoint.with_suffix(f".{os.getpid()}")
        try:  # the checksum goes first: torch does not check those in its format
            draft.write_bytes(hashlib.sha256(content).digest() + content)
            draft.replace(self.checkpoint)
        except OSError as error:  # a disk that is full now may have room at the end
            draft.unlink(missing_ok=True)
            self.log(f"{self.run.name}: checkpoint not written ({error})")

    def resume(self) -> None:
        """Continue from the checkpoint, if it is whole and from this code and device."""
        if not self.checkpoint.exists():
            return
        try:
            stored = self.checkpoint.read_bytes()
            if hashlib.sha256(stored[32:]).digest() != stored[:32]:
                raise ValueError("it is damaged")
            state = torch.load(io.BytesIO(stored[32:]), "cpu", weights_only=True)
            if state["made_by"] != self._maker():
                raise ValueError("it is of another version or device")
        except Exception as error:  # torch has many ways to say that a file is damaged
            self.log(f"{self.run.name}: checkpoint not used ({error})")
            return
        self.network.load_state_dict(state["network"])
        if self.average:
            self.average.load_state_dict(state["average"])
        self.optimizer.load_state_dict(state["optimizer"])
        for name, values in self.training_set.memory.items():
            values.copy_(state["memory"][name])
        for name in (*CONTINUED, "spent"):
            setattr(self, name, state[name])
        self.wrong_until = self.wrong_until.to(self.device)
        torch.set_rng_state(state["random"][0])
        self.crops.set_state(state["random"][1])
        self.rng.bit_generator.state = json.loads(state["rng"])
        self.log(f"{self.run.name}: goes on after epoch {self.epoch}")

    def _maker(self) -> list[str]:
        """Versions and device that a checkpoint belongs to."""
        versions = [calibkit.__version__, folders.VERSION, str(torch.__version__)]
        return [*versions, self.device.type, *CONTINUED]

    # --- measuring ---

    @torch.no_grad()
    def evaluate(self, network: nn.Module, name: str, index: Tensor | None = None):
        """Logits and last-layer features of a split, in float32.

        Predictions are kept at half precision, so logits of all splits but "train" are rounded to
        half.

        Parameters
        ----------
        network : a network in evaluation mode
        name : "train", "validation", "test" or "shifted"
        index : positions in the split, (m,); default all of them

        Returns
        -------
        tuple of Tensor
            Logits (m, k) and features (m, d).

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
            # Records keep half precision, so metrics are computed from half precision, too.
            outputs = outputs.half().float()
        if not outputs.isfinite().all():  # the last step may have diverged
            raise Diverged(f"logits of the {name} set are not finite")
        return outputs, torch.cat(features)

    def note(self, epoch: int, loss: float, train_accuracy: float, test: Tensor, held_out: Tensor):
        """Add a row to the history: every metric on the test set, also after temperature scaling.

        Parameters
        ----------
        epoch : number of epochs that are done
        loss : mean training loss of the epoch
        train_accuracy : share of tracked training samples that are right, from 0 to 1
        test : test logits, (n, k)
        held_out : validation logits, (v, k)
        """
        logits, labels = test.cpu().numpy(), self.data.test.labels.numpy()
        row = {
            "epoch": epoch,
            "learning_rate": self.rate,
            "loss": loss,
            "train_accuracy": train_accuracy,
            **ranking.summary(logits, labels),
        }
        best, value = posthoc.optimal_temperature(logits, labels, "ece")
        held_out, held_out_labels = held_out.cpu().numpy(), self.data.validation.labels.numpy()
        chosen = self.protocol.temperature  # where the paper fixes one
        if chosen is None:
            chosen, _ = posthoc.optimal_temperature(held_out, held_out_labels, "ece")
        scaled = posthoc.FixedTemperature(chosen)
        held_out_probs = torch.from_numpy(held_out).softmax(1).numpy()
        row |= {
            "ece_optimal": value,
            "temperature_optimal": best,
            "ece_scaled": metrics.ece(scaled.predict_proba(logits), labels),
            "temperature": chosen,
            "validation_ece": metrics.ece(held_out_probs, held_out_labels),
            "validation_accuracy": float(np.mean(held_out.argmax(1) == held_out_labels)),
        }
        self.history.append(_scalars(row))
        self.log(
            f"{self.run.name}  epoch {epoch}/{self.protocol.epochs}  loss {loss:.3f}  "
            f"accuracy {row['accuracy']:.3f}  ece {row['ece']:.3f}  auroc {row['auroc']:.3f}"
        )


def _decoded(split: data.Split, parts: Sequence[Tensor], seed: tuple = ()) -> Iterator[Tensor]:
    """Inputs of some parts of a split, one part after the other, as they are stored."""
    if isinstance(split.inputs, Tensor):
        return (split.inputs[part] for part in parts)
    return split.inputs.batches(parts, seed)


def _scalars(values: dict) -> dict[str, float]:
    """The scalars of a dict as floats; arrays are left out."""
    return {k: float(v) for k, v in values.items() if np.isscalar(v)}
