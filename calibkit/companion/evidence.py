"""The records of a setting, and their metrics by seed: what claims are judged by.

Runs of another protocol never count as evidence, and a number that no run at hand can have is
`Evidence.lacks`, with the reason.
"""

from dataclasses import replace
from math import ceil, inf

from calibkit import confidence, terms
from calibkit.companion import contrasts, plan
from calibkit.companion.contrasts import Difference, Model, Series, of_models, split
from calibkit.companion.statements import Subject
from calibkit.training import store

# What is made of networks trained by erm, as methods: recalibrated, or judged by another score.
RECALIBRATIONS = {"ts": "nll_scaled", "ts_ece": "scaled", "ts_test": "optimal"}
FEW_ERRORS = 0.01  # share of the training set: fewer do not teach what errors look like
# Updates of ConfidNet's head below which it is not judged: a choice. At 12,000 its AUROC was still
# seen to rise; the published 500 epochs are 20,000 for 5,000 samples.
HEAD_STEPS = 20_000
SCORES = {"trust_score": "test_trust_score", "confidnet": "test_confidnet"}


class Missing(Exception):
    """No record of some runs."""

    def __init__(self, runs: list[plan.Run]):
        self.runs = runs


class Evidence:
    """The records of a setting of an edition, and metrics of them by seed.

    Parameters
    ----------
    selection : a selection, or the name of an edition
    changes : fields of `plan.Selection` to change, such as ``dataset="digits"``
    """

    def __init__(self, selection: plan.Selection | str, **changes):
        self.selection = plan.Selection.of(selection, **changes)
        self.setting = plan.setting(self.selection.edition, self.selection.setting or "")
        self.dataset = self.selection.dataset or self.setting.dataset
        self.network = self.selection.network or self.setting.network
        self._models: dict[tuple, dict[int, Model]] = {}
        self._records: dict[tuple, dict[plan.Run, store.Record | None]] = {}

    def models(self, method: str, subject: Subject, metric: str) -> dict[int, Model]:
        """Networks by seed, with the recalibration or score that the method or metric names.

        Raises `Missing` if no run of the method left a record; a diverged one did.
        """
        _, after, validation = split(metric)
        after, score = after or RECALIBRATIONS.get(method, ""), SCORES.get(method, "")
        plain = "erm" if method in RECALIBRATIONS or score else method
        place = (plain, subject.dataset, subject.network, subject.size, bool(score))
        records = self._records_of(*place)
        if not any(records.values()):
            raise Missing(list(records))
        key = (*place, after, validation, score)
        if key not in self._models:
            self._models[key] = {
                run.seed: Model(record, after, validation, score)
                for run, record in records.items()
                if record and not record.diverged
            }
        return self._models[key]

    def forget(self) -> None:
        """Let go of every network's predictions, see `Model.forget`."""
        for models in self._models.values():
            for model in models.values():
                model.forget()

    def _records_of(
        self, method: str, dataset: str, network: str, size: int, scored: bool
    ) -> dict[plan.Run, store.Record | None]:
        """The runs of a method and what there is of them, looked for once."""
        key = (method, dataset, network, size, scored)
        if key not in self._records:
            edition = plan.EDITIONS[self.selection.edition]
            runs = plan.select(
                self.selection,
                [method],
                dataset or self.dataset,
                network or self.network,
                train_size=size or self.selection.train_size,
                settings=dict(self.selection.settings) | (edition.scored if scored else {}),
                # A claim about data of its own does not look for them in a setting of others.
                setting="shared" if dataset else self.setting.name,
            )
            self._records[key] = {run: store.load(run) for run in runs}
        return self._records[key]

    def missing(self, subject: Subject, metric: str) -> list[plan.Run]:
        """The runs without which `series` has nothing to say."""
        runs = []
        for method in subject.choices():
            try:
                self.models(method, subject, metric)
            except Missing as error:
                runs += error.runs
        return runs

    def lacks(self, subject: Subject, metric: str) -> str:
        """Why the runs at hand cannot have a metric, if so: what no further one would fill."""
        if self.missing(subject, metric):
            return self._never_shifted(subject) if metric.startswith("shifted:") else ""
        models = [
            m for method in subject.choices() for m in self.models(method, subject, metric).values()
        ]
        name, after, _ = split(metric)
        if metric.startswith("shifted:") and not all(m.record.shifted for m in models):
            return self._never_shifted(subject, unplanned=False)  # text and toy data have no shifts
        if metric.startswith("collected:") and not all(m.record.collected for m in models):
            return "records of this setting hold no newly collected test set"
        for key in {"passes", "sharpness"} & {name}:
            if any(m.record.info["provenance"].get(key) is None for m in models):
                return f"these records were made before {key} was recorded"
        if name == "sharpness" and any(_learned(m) for m in models):
            return (
                "not testable here: the network makes next to no errors on its training set, where "
                "the curvature of the loss vanishes with the loss, in a flat minimum or not"
            )
        if "confidnet" in subject.methods:
            if any(_learned(m) for m in models):
                return (
                    "not testable here: the network makes next to no errors on its training set, "
                    "which is where ConfidNet learns what an error looks like"
                )
            if steps := [n for n in map(_head_steps, models) if n < HEAD_STEPS]:
                return (
                    f"not testable here: ConfidNet's head was trained for {min(steps):,} updates, "
                    f"and is not judged with fewer than {HEAD_STEPS:,}"
                )
        for model in models:
            needs_arrays = contrasts.takes_arrays(name) or model.validation
            if model.record.light and (
                model.score or needs_arrays and not contrasts.has_derived(model)
            ):
                return (
                    f"a light record has no predictions; calibkit train --again {model.record.name}"
                )
        return ""

    def _never_shifted(self, subject: Subject, unplanned: bool = True) -> str:
        dataset = subject.dataset or self.dataset
        if unplanned and self.setting.protocol.shifted:
            return ""
        name = terms.DATASETS.get(dataset, dataset)
        return f"records of this setting hold no shifted test sets of {name}"

    def series(self, subject: Subject, metric: str) -> Series:
        """A metric by seed, with its deviations on resamples where records have them.

        ``lowest:ece`` of ``focal(gamma=1|3|5)`` is the coefficient with the lowest ECE.
        ``since_best:auroc:accuracy`` is the change of accuracy from the epoch of best AUROC to the
        end, see `since_best`.
        """
        if metric.startswith("lowest:"):
            return Series(self._lowest(subject, metric.partition(":")[2]))
        if metric.startswith("since_best:"):
            one = lambda method: Series(self._since_best(method, subject, metric))  # noqa: E731
        else:
            one = lambda method: of_models(self.models(method, subject, metric), metric)  # noqa: E731
        first, *second = map(one, subject.methods)
        if not second:
            return first
        return first - second[0] if subject.operator == "-" else first / second[0]

    def difference(
        self, first: Subject, second: Subject | float, metric: str, against: str = ""
    ) -> Difference:
        """One method (or a difference of two) minus another, or a number; see `difference`.

        `against` is the metric of the second, if it is another. With one seed only, the spread
        between seeds is that of the same difference at default coefficients.
        """

        def series(name: str, a: Subject = first, b: Subject | float = second) -> Series:
            other = b
            if isinstance(b, Subject):
                other = self.series(b, contrasts.like(name, against))
            return self.series(a, name) - other

        def defaults(name: str) -> Series:
            a = first.at_defaults()
            b = second.at_defaults() if isinstance(second, Subject) else second
            try:
                if a != b:
                    return series(name, a, b)
                # Two coefficients of one method: runs of their own, with no pairing to credit.
                alone = self.series(a, name)
                return replace(alone, values={s: 2**0.5 * v for s, v in alone.values.items()})
            except Missing:
                return Series({})

        return contrasts.difference(
            series, metric, None if metric.startswith("lowest:") else defaults
        )

    def _lowest(self, subject: Subject, metric: str) -> dict[int, float]:
        values = {
            c: of_models(self.models(method, subject, metric), metric).values
            for method, c in subject.choices().items()
        }
        seeds = set.intersection(*(set(v) for v in values.values()))
        return {seed: min(values, key=lambda c: values[c][seed]) for seed in sorted(seeds)}

    def _since_best(self, method: str, subject: Subject, metric: str) -> dict[int, float]:
        _, best, changed = metric.split(":")
        models = self.models(method, subject, metric)
        return contrasts.since_best({s: m.record.history for s, m in models.items()}, best, changed)


def _learned(model: Model) -> bool:
    """Whether next to no error is left on the training set."""
    return model.record.history["train_accuracy"][-1] > 1 - FEW_ERRORS


def _head_steps(model: Model) -> float:
    """Updates that ConfidNet's head was trained for."""
    epochs = model.record.info["run"]["protocol"].get("feature_scores", 0)
    samples = model.record.info["provenance"].get("training_samples", inf)
    return inf if samples == inf else epochs * ceil(samples / confidence.ConfidNet.batch_size)
