"""What is measured of a run in progress.

All numbers of a record are measured in evaluation mode on inputs without augmentation. The device
of the run computes logits. Metrics are computed from them by a job of `turns.Company.worker`, which
on a GPU is a thread that works while the GPU trains.
"""

from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future

import torch
from torch import Tensor, nn

from calibkit_companion.data import shifts
from calibkit_companion.experiments.run import Run
from calibkit_companion.training import evaluation, samples, turns
from calibkit_companion.training.turns import Ready


class Diverged(Exception):
    """The loss or a logit is infinite or NaN."""


class Measured(samples.Samples):
    """The data of a run, and the numbers recorded so far.

    Parameters
    ----------
    run : the run
    company : what the runs of this process share
    log : function that takes one line of text; called after each evaluated epoch
    """

    final: nn.Module  # the network that predicts after the last epoch

    def __init__(self, run: Run, company: turns.Company, log: Callable):
        super().__init__(run, company.device, company.loaded)
        self.company, self.log = company, log
        self.tracked = torch.arange(
            min(self.protocol.tracked, len(self.labels)), device=self.device
        )
        self.history: list[dict] = []
        self.noted: list[tuple[dict, Future]] = []  # rows of the history that are being computed
        self.wrong_until = torch.zeros(len(self.tracked), dtype=torch.int16, device=self.device)
        self.early: dict[int, Tensor] = {}  # test logits by epoch of a snapshot
        self.followed: dict[int, tuple[Tensor, ...]] = {}  # results of `evaluation.follow`
        self.kept: dict[int, tuple[Tensor, Tensor]] = {}  # test and validation logits by epoch

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
        return turns.drive(self.evaluating(network, name, index))

    def evaluating(
        self, network: nn.Module, name: str, index: Tensor | None = None
    ) -> Generator[Ready, None, tuple[Tensor, Tensor]]:
        """Do what `evaluate` does, in turns; the parameters are the same."""
        outputs, features = self._outputs(network, name, index)
        finite = outputs.isfinite().all()  # the last update may have diverged
        yield turns.reached(self.device)
        if not finite:
            raise Diverged(f"logits of the {name} set are not finite")
        return outputs, features

    @torch.no_grad()
    def _outputs(self, network: nn.Module, name: str, index: Tensor | None):
        """Compute logits and features as `evaluate` returns them, without waiting for the GPU."""
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
        return outputs, torch.cat(features)

    def note(self, known: dict, test: Tensor, held_out: Tensor) -> None:
        """Add every metric of the test set to the history, also after temperature scaling.

        Parameters
        ----------
        known : epoch, learning rate, loss of the last epoch, and training accuracy
        test : float tensor (n, k), test logits
        held_out : float tensor (v, k), validation logits
        """
        job = self.company.worker.submit(
            evaluation.history_row,
            test.cpu().numpy(),
            self.data.test.labels.numpy(),
            held_out.cpu().numpy(),
            self.data.validation.labels.numpy(),
            self.protocol.temperature,
        )
        self.noted.append((evaluation.scalars(known), job))
        while self.noted and self.noted[0][1].done():
            self._write_row()

    def noting(self) -> Generator[Ready, None, None]:
        """Wait in turns until the history has all rows that were noted."""
        while self.noted:
            yield self.noted[0][1].done
            self._write_row()

    def _write_row(self) -> None:
        """Move the first of the noted rows into the history, and log it."""
        known, job = self.noted.pop(0)
        row = known | job.result()
        self.history.append(row)
        self.log(
            f"{self.run.name}  epoch {row['epoch']:.0f}/{self.protocol.epochs}  "
            f"loss {row['loss']:.3f}  accuracy {row['accuracy']:.3f}  ece {row['ece']:.3f}  "
            f"auroc {row['auroc']:.3f}"
        )

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

    def _begin_shifts(self) -> Future | None:
        """Let a worker thread make the shifted test sets during the training, if there is one."""
        asked = self.run.dataset, self.protocol.shifted
        return self.company.ahead(asked, next, shifts.shifted_sets(*asked), None)

    def shifting(self) -> Generator[Ready, None, list[dict]]:
        """Measure the network on every shift of the test set, in turns.

        Returns
        -------
        list of dict
            Metrics by name, for each kind and severity of shift. Temperature scaling is fitted on
            the unshifted validation data.
        """
        n = self.protocol.shifted
        if not n:
            return []
        temperature, submit = self.history[-1]["temperature"], self.company.worker.submit
        if begun := self._begin_shifts():
            yield begun.done
        rows, sets = [], shifts.shifted_sets(self.run.dataset, n)
        while found := (yield from turns.result(submit(next, sets, None))):
            (kind, severity), split = found
            self.splits["shifted"] = samples.moved(split, self.device)
            logits, _ = yield from self.evaluating(self.final, "shifted")
            given = logits.cpu().numpy(), split.labels.numpy(), temperature
            row = {"shift": kind, "severity": severity}
            rows.append((row, submit(evaluation.shifted_row, *given)))
        finished = []
        for row, job in rows:
            finished.append(row | (yield from turns.result(job)))
        return finished
