"""Post-hoc calibration: maps that are fitted to held-out logits and do not change the network.

Every method is a `Recalibration`: call ``fit(logits, labels)``, then ``predict_proba(logits)``. Fit
it to data that you use neither to train the network nor to measure the result; `check_overlap`
finds samples that are in both. Logits may be NumPy arrays or torch tensors; probabilities have the
same type.

`Recalibration.save` writes a fitted method to a small JSON file, and `load` reads it.
`calibkit.estimators.CalibratedModel` recalibrates a scikit-learn classifier.

The papers: Guo et al., ICML 2017 (temperature, vector and matrix scaling); Kull et al., AISTATS
2017; Zadrozny and Elkan, ICML 2001 and KDD 2002; Singh et al. 2021 ("On the Dark Side of
Calibration"); Wang et al., NeurIPS 2021 ("Do Not Be Afraid of Overconfidence"); Wang et al., CVPR
2023 ("On the Pitfall of Mixup"); Lin et al., CVPR 2025 ("Uncertainty Weighted Gradients"); Berta et
al., AISTATS 2026 ("Structured Matrix Scaling"); Le Coz et al., NeurIPS 2024 ("Confidence
Calibration of Classifiers with Many Classes").
"""

from calibkit.arrays import softmax as softmax  # as pages of the book call it
from calibkit.posthoc.affine import MatrixScaling, StructuredScaling, VectorScaling
from calibkit.posthoc.beta import BetaCalibration, TopVersusAll
from calibkit.posthoc.histogram import HistogramBinning
from calibkit.posthoc.isotonic import IsotonicCalibration
from calibkit.posthoc.recalibration import (
    EndOfRangeWarning,
    PosthocWarning,
    RaisedErrorWarning,
    Recalibration,
)
from calibkit.posthoc.saved import MAPS, load
from calibkit.posthoc.search import GRID, RANGE, Objective
from calibkit.posthoc.temperature import (
    FixedTemperature,
    TemperatureScaling,
    calibratability,
    check_overlap,
    optimal_temperature,
)

__all__ = [
    "GRID",
    "RANGE",
    "Objective",
    "PosthocWarning",
    "RaisedErrorWarning",
    "EndOfRangeWarning",
    "Recalibration",
    "optimal_temperature",
    "TemperatureScaling",
    "FixedTemperature",
    "calibratability",
    "check_overlap",
    "HistogramBinning",
    "IsotonicCalibration",
    "BetaCalibration",
    "TopVersusAll",
    "VectorScaling",
    "MatrixScaling",
    "StructuredScaling",
    "MAPS",
    "load",
]
