"""Numbers at each evaluated epoch, for runs that kept their predictions through training."""

import io
from dataclasses import replace

import numpy as np

from calibkit import arrays, files, metrics, stats
from calibkit_companion.records import folders
from calibkit_companion.records.deviations import Replicates
from calibkit_companion.records.keys import Key, Recalibration, fit_name, replicate_name
from calibkit_companion.records.record import Record
from calibkit_companion.records.replicates import rows_of
from calibkit_companion.results.predictions import Predictions, temperature

METRICS = ("accuracy", "auroc", "aurc", "ece", "nll")
RANKING = ("auroc", "aurc")  # metrics that are also ranked by the log-odds


def rows(record: Record) -> list[dict]:
    """Make a row of the table ``epochs`` for each number at each evaluated epoch.

    The numbers are the metrics in `METRICS`, those in `RANKING` also ranked by the log-odds, and
    the NLL after temperature scaling, which is fitted at each epoch. A run that kept no predictions
    through training has no rows.
    """
    file = folders.epochs_file(record, record.path.parent)
    if record.light or not file.exists():
        return []
    end, numbers = Predictions.of(record), []
    with np.load(io.BytesIO(files.read(file)), allow_pickle=False) as kept:
        each = zip(*(kept[name] for name in ("epochs", "test", "validation")), strict=True)
        for epoch, *both in each:
            logits, held_out = (part.astype(np.float32) for part in both)
            at_epoch = replace(end, logits=logits, validation_logits=held_out)
            numbers += [row | {"epoch": int(epoch)} for row in _at_epoch(at_epoch)]
    return numbers


def _at_epoch(of: Predictions) -> list[dict]:
    """Make the rows of one epoch from the predictions at that epoch; the caller adds the epoch."""
    best = temperature(of.validation_logits, of.validation_labels, "nll")
    warm, summary = of.rescaled(best), of.summary()
    as_seen = *METRICS, *(replicate_name(Key(metric, score="log_odds")) for metric in RANKING)
    names = (*as_seen, replicate_name(Key("nll", Recalibration.TS_NLL)))
    values = np.array([*(summary[m] for m in as_seen), metrics.nll(warm.probs, of.labels)])
    known, scaled = (metrics.per_sample(its.logits, of.labels) for its in (of, warm))
    odds = stats.Ranked(known["confidence"], known["correct"], arrays.log_odds(of.logits))
    parts = [(stats.Samples(**known), METRICS), (odds, RANKING), (stats.Samples(**scaled), ["nll"])]
    drawn = [stats.replicates([its], None, asked)[0] for its, asked in parts]
    deviations = (np.concatenate(drawn, axis=1) - values).T.astype(np.float32)
    kept = Replicates(names, values, deviations, {fit_name(Recalibration.TS_NLL): best})
    return rows_of(kept, *kept.quantised())
