"""`CalibratedModel` keeps scikit-learn's contract, and no trained network is trained again."""

import os
import subprocess
import sys
import threading
import warnings

import numpy as np
import pandas as pd
import pytest
import torch
from joblib import parallel_config
from scipy.sparse import csr_array
from sklearn import config_context
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import make_classification
from sklearn.ensemble import BaggingClassifier
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import make_scorer
from sklearn.model_selection import (
    FixedThresholdClassifier,
    GridSearchCV,
    GroupKFold,
    KFold,
    LeaveOneOut,
    ShuffleSplit,
    StratifiedKFold,
    TimeSeriesSplit,
    cross_val_score,
    cross_validate,
)
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.estimator_checks import check_estimator

from calibkit import metrics, posthoc
from calibkit.estimators import CalibratedModel, _of_pairs
from calibkit.posthoc import PosthocWarning


def blobs(n=600, k=3, seed=0):
    return make_classification(
        n, 6, n_informative=5, n_redundant=0, n_classes=k, class_sep=0.8, random_state=seed
    )


X, Y = blobs()
NAMES = np.array(["ant", "cat", "dog"])[Y]
TRAIN, REST = slice(0, 300), slice(300, 600)


class Counted(LogisticRegression):
    """Counts the calls of `fit` over all objects; set `fits` to 0 first."""

    fits = 0

    def fit(self, X, y, sample_weight=None):
        Counted.fits += 1
        return super().fit(X, y, sample_weight)


@pytest.fixture(autouse=True)
def no_fits():
    Counted.fits = Network.fits = 0


def layer():
    """A layer of torch, trained: its weights are those of a logistic regression."""
    known = LogisticRegression().fit(X[TRAIN], Y[TRAIN])
    linear = torch.nn.Linear(6, 3).double()
    with torch.no_grad():
        linear.weight.copy_(torch.tensor(known.coef_))
        linear.bias.copy_(torch.tensor(known.intercept_))
    return linear


class Network(ClassifierMixin, BaseEstimator):
    """A trained network in scikit-learn's clothes, without an attribute that `fit` has set."""

    fits = 0

    def __init__(self, network=None, rate=0.1):
        self.network = network
        self.rate = rate

    def fit(self, X, y):
        Network.fits += 1
        self.network = torch.nn.Linear(X.shape[1], len(np.unique(y))).double()
        return self

    def decision_function(self, X):
        with torch.no_grad():
            return self.network(torch.tensor(np.asarray(X))).numpy()

    def predict(self, X):
        return self.decision_function(X).argmax(axis=1)


class Hidden(Network):
    """Its network is no parameter, so `clone` alone would lose it."""

    def __init__(self, rate=0.1):
        self.rate = rate
        self._network = layer()

    @property
    def network(self):
        return self._network

    @network.setter
    def network(self, value):
        self._network = value


class Session(Hidden):
    """Holds what cannot be copied, as a session of a runtime."""

    def __init__(self):
        super().__init__()
        self.lock = threading.Lock()


class Plain:
    """Knows nothing of scikit-learn."""

    def __init__(self):
        self.inner = Network(layer())

    def fit(self, X, y):
        self.inner.fit(X, y)

    def decision_function(self, X):
        return self.inner.decision_function(X)


def trained():
    return [
        Network(layer()),
        Hidden(),
        Session(),
        Plain(),
        FrozenEstimator(Network(layer())),
        Counted().fit(X[TRAIN], Y[TRAIN]),
        FrozenEstimator(Counted().fit(X[TRAIN], Y[TRAIN])),
        make_pipeline(StandardScaler(), Counted()).fit(X[TRAIN], Y[TRAIN]),
    ]


def ids(x):
    return type(x).__name__


# --- the contract ---------------------------------------------------------------------------------

SKIPPED = {"check_array_api_input"}  # needs SCIPY_ARRAY_API, which has a test of its own


@pytest.mark.parametrize(
    "model",
    [
        CalibratedModel(LogisticRegression()),
        CalibratedModel(SVC()),
        CalibratedModel(DecisionTreeClassifier(random_state=0)),
        CalibratedModel(LogisticRegression(), posthoc.HistogramBinning(), cv=3),
        CalibratedModel(LogisticRegression(), posthoc.IsotonicCalibration()),
    ],
    ids=repr,
)
@pytest.mark.filterwarnings("ignore")
def test_all_checks_of_scikit_learn_pass(model):
    found = check_estimator(model, on_skip=None)
    assert len(found) > 55
    assert {x["check_name"] for x in found if x["status"] != "passed"} <= SKIPPED
    assert "failed" not in {x["status"] for x in found}


def test_the_check_that_needs_a_setting_passes_too():
    code = (
        "from sklearn.linear_model import LogisticRegression\n"
        "from sklearn.utils.estimator_checks import check_estimator\n"
        "from calibkit.estimators import CalibratedModel\n"
        "found = check_estimator(CalibratedModel(LogisticRegression()), on_skip=None)\n"
        "assert {x['status'] for x in found} == {'passed'}\n"
    )
    environment = os.environ | {"SCIPY_ARRAY_API": "1"}
    subprocess.run([sys.executable, "-Wignore", "-c", code], check=True, env=environment)


# --- what is fitted is never fitted again ---------------------------------------------------------


@pytest.mark.parametrize("index", range(8), ids=[ids(x) for x in trained()])
def test_a_trained_estimator_is_never_trained_again(index):
    estimator = trained()[index]
    Counted.fits = Network.fits = 0
    scores = estimator.decision_function(X[REST])
    model = CalibratedModel(estimator).fit(X[REST], Y[REST])
    assert model.estimator_ is estimator
    expected = posthoc.TemperatureScaling().fit(scores, Y[REST])
    assert model.map_.temperature_ == expected.temperature_

    by_hand = []
    for fit, test in StratifiedKFold(3).split(X[REST], Y[REST]):
        probs = posthoc.TemperatureScaling().fit(scores[fit], Y[REST][fit])
        by_hand.append(-metrics.nll(probs.predict_proba(scores[test]), Y[REST][test]))
    found = cross_val_score(
        CalibratedModel(estimator), X[REST], Y[REST], cv=3, scoring="neg_log_loss"
    )
    np.testing.assert_allclose(found, by_hand, atol=1e-12)

    search = GridSearchCV(
        CalibratedModel(estimator, posthoc.MatrixScaling()),
        {"map__l2": [0.01, 1.0], "cv": [2, 3]},
        scoring="neg_log_loss",
        cv=3,
    ).fit(X[REST], Y[REST])
    best = search.best_estimator_
    np.testing.assert_array_equal(best.estimator_.decision_function(X[REST]), scores)

    copied = clone(clone(model)).fit(X[REST], Y[REST])
    assert copied.map_.temperature_ == expected.temperature_
    bagged = BaggingClassifier(CalibratedModel(estimator), n_estimators=2, random_state=0)
    bagged.fit(X[REST], Y[REST])
    assert (Counted.fits, Network.fits) == (0, 0)


def test_a_pipeline_with_routing_does_not_train_a_trained_network():
    """Nor do cross-validation and a search around that pipeline, though the scaler is fitted."""
    known = LogisticRegression().fit(StandardScaler().fit_transform(X[TRAIN]), Y[TRAIN])
    network = Network(layer())
    with torch.no_grad():
        network.network.weight.copy_(torch.tensor(known.coef_))
        network.network.bias.copy_(torch.tensor(known.intercept_))
    groups, weights = np.arange(300) // 10, np.ones(300)
    with config_context(enable_metadata_routing=True):
        model = CalibratedModel(network, cv=GroupKFold(3)).set_fit_request(sample_weight=True)
        model.set_score_request(sample_weight=True)
        scaler = StandardScaler().set_fit_request(sample_weight=False)
        pipeline = Pipeline([("scale", scaler), ("model", model)])
        pipeline.fit(X[REST], Y[REST], sample_weight=weights, groups=groups)
        found = cross_validate(
            pipeline,
            X[REST],
            Y[REST],
            cv=GroupKFold(3),
            params={"sample_weight": weights, "groups": groups},
            error_score="raise",
        )
        search = GridSearchCV(pipeline, {"model__map": [posthoc.BetaCalibration(), None]}, cv=3)
        search.fit(X[REST], Y[REST], sample_weight=weights, groups=groups)
    assert Network.fits == 0
    assert min(*found["test_score"], search.best_score_) > 0.5


def test_a_copy_is_independent_of_what_it_is_a_copy_of():
    unfitted, trained = CalibratedModel(LogisticRegression()), CalibratedModel(Hidden())
    for model, option in ((unfitted, "estimator__C"), (trained, "estimator__rate")):
        before = model.get_params()[option]
        copied = clone(model).set_params(**{option: 7.0})
        assert copied.estimator is not model.estimator
        assert copied.get_params()[option] == 7.0 and model.get_params()[option] == before
    shared = clone(CalibratedModel(Counted().fit(X, Y)))
    with pytest.raises(ValueError, match="cannot set parameters of the inner estimator"):
        shared.set_params(estimator__C=7.0)


def test_refit_trains_what_is_fitted_on_each_fold_and_on_everything():
    fitted = Counted().fit(X[TRAIN], Y[TRAIN])
    Counted.fits = 0
    model = CalibratedModel(fitted, cv=4, refit=True).fit(X[REST], Y[REST])
    assert Counted.fits == 5 and model.estimator_ is not fitted
    fresh = CalibratedModel(LogisticRegression(), cv=4).fit(X[REST], Y[REST])
    np.testing.assert_array_equal(model.predict_proba(X), fresh.predict_proba(X))
    Counted.fits = 0
    cross_val_score(model, X[REST], Y[REST], cv=2)
    assert Counted.fits == 10


def test_what_is_not_fitted_is_trained_on_each_fold_and_on_everything():
    for cv, folds in ((3, 3), (None, 5), (KFold(4), 4), (StratifiedKFold(2), 2)):
        Counted.fits = 0
        model = CalibratedModel(Counted(), cv=cv).fit(X, Y)
        assert Counted.fits == folds + 1
        assert model.n_features_in_ == 6 and not hasattr(model.estimator, "coef_")
    frame = pd.DataFrame(X, columns=list("abcdef"))
    assert CalibratedModel(Counted()).fit(frame, Y).feature_names_in_.tolist() == list("abcdef")


class Moody(Network):
    """Raises what it is told to until it is trained."""

    def __init__(self, error=None):
        self.error = error

    def decision_function(self, X):
        if not hasattr(self, "network") and self.error is not None:
            raise self.error
        return super().decision_function(X)


@pytest.mark.parametrize("error", [None, NotFittedError("first call fit"), "none"])
def test_an_estimator_without_what_fit_sets_is_not_fitted(error):
    estimator = Network() if error == "none" else Moody(error)  # the network is None, or missing
    CalibratedModel(estimator, cv=3).fit(X, Y)
    assert Network.fits == 4


def test_an_error_that_says_something_else_does_not_train():
    for estimator in (Moody(RuntimeError("no device")), Network(layer())):
        with pytest.raises(ValueError, match="answers with RuntimeError.* pass refit=True"):
            CalibratedModel(estimator).fit(X[:, :5], Y)
    with pytest.raises(ValueError, match="X has 5 features, but Counted is expecting 6"):
        CalibratedModel(Counted().fit(X, Y)).fit(X[:, :5], Y)
    assert Network.fits == 0 and Counted.fits == 1
    CalibratedModel(Moody(RuntimeError("no model yet")), cv=2, refit=True).fit(X, Y)
    assert Network.fits == 3


def test_catboosts_way_to_say_that_it_is_not_fitted():
    class Boosted(Moody):
        def is_fitted(self):
            return hasattr(self, "network")

    CalibratedModel(Boosted(RuntimeError("There is no trained model")), cv=2).fit(X, Y)
    assert Network.fits == 3


def test_not_fitted_is_said_before_anything_else():
    model = CalibratedModel(Counted().fit(X, Y))
    for call in (model.predict, model.predict_proba):
        with pytest.raises(NotFittedError):
            call(X)


# --- folds ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "cv",
    [4, None, KFold(5), StratifiedKFold(3, shuffle=True, random_state=0), "iterable", "boolean"],
    ids=str,
)
def test_folds_are_those_of_scikit_learn(cv):
    if cv in ("iterable", "boolean"):
        pairs = list(KFold(3).split(X))
        if cv == "boolean":
            pairs = [(train, np.isin(np.arange(len(X)), test)) for train, test in pairs]
        cv = pairs
    ours = CalibratedModel(LogisticRegression(), cv=cv).fit(X, NAMES)
    if cv and not isinstance(cv, int) and isinstance(cv, list) and cv[0][1].dtype == bool:
        cv = KFold(3)  # which takes indices only
    theirs = CalibratedClassifierCV(
        LogisticRegression(), method="temperature", cv=cv, ensemble=False
    ).fit(X, NAMES)
    # Their search stops at a relative 1e-4 of the temperature.
    np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), atol=2e-4)


@pytest.mark.parametrize(
    "cv",
    [TimeSeriesSplit(4), ShuffleSplit(6, test_size=0.4, random_state=0), LeaveOneOut()],
    ids=ids,
)
def test_folds_that_are_no_partition(cv):
    """The map is fitted to all held-out predictions together."""
    inputs, labels = X[:150], Y[:150]
    scores, rows = [], []
    for train, test in cv.split(inputs):
        fold = LogisticRegression().fit(inputs[train], labels[train])
        scores.append(fold.decision_function(inputs[test]))
        rows.append(test)
    expected = posthoc.TemperatureScaling().fit(
        np.concatenate(scores), labels[np.concatenate(rows)]
    )
    model = CalibratedModel(LogisticRegression(), cv=cv).fit(inputs, labels)
    assert model.map_.temperature_ == pytest.approx(expected.temperature_, rel=1e-9)
    again = LogisticRegression().fit(inputs, labels).decision_function(inputs)
    np.testing.assert_allclose(model.predict_proba(inputs), expected.predict_proba(again))


def test_folds_may_be_fitted_at_the_same_time():
    with parallel_config(backend="threading"):
        one, two = (
            CalibratedModel(LogisticRegression(), n_jobs=jobs).fit(X, Y) for jobs in (None, 2)
        )
    np.testing.assert_array_equal(one.predict_proba(X), two.predict_proba(X))


def test_sparse_frames_and_tensors_are_passed_on():
    expected = CalibratedModel(LogisticRegression()).fit(X, Y).predict_proba(X)
    for inputs in (csr_array(X), pd.DataFrame(X), X.tolist()):
        model = CalibratedModel(LogisticRegression()).fit(inputs, Y)
        np.testing.assert_allclose(model.predict_proba(inputs), expected, atol=1e-6)
    many = torch.tensor(np.tile(X, (4, 1)))  # more rows than columns are checked on
    model = CalibratedModel(Network(layer())).fit(many, np.tile(Y, 4))
    assert model.predict_proba(many).shape == (2400, 3)


@pytest.mark.parametrize("routing", [False, True])
def test_groups_reach_the_splitter(routing):
    groups = np.random.default_rng(0).integers(12, size=len(X))
    expected = CalibratedModel(LogisticRegression(), cv=list(GroupKFold(4).split(X, Y, groups)))
    expected.fit(X, Y)
    with config_context(enable_metadata_routing=routing):
        model = CalibratedModel(LogisticRegression(), cv=GroupKFold(4)).fit(X, Y, groups=groups)
    assert model.map_.temperature_ == expected.map_.temperature_
    plain = CalibratedModel(LogisticRegression(), cv=4).fit(X, Y)
    assert model.map_.temperature_ != plain.map_.temperature_
    with pytest.raises(ValueError, match="'groups' parameter should not be None"):
        CalibratedModel(LogisticRegression(), cv=GroupKFold(4)).fit(X, Y)


def test_routing_wants_requests():
    with config_context(enable_metadata_routing=True):
        model = CalibratedModel(LogisticRegression(), cv=3)
        with pytest.raises(TypeError, match=r"unexpected argument\(s\) {'groups'}"):
            model.fit(X, Y, groups=np.arange(len(X)) // 10)


# --- weights --------------------------------------------------------------------------------------

WEIGHTS = np.random.default_rng(0).gamma(0.7, size=len(X))


@pytest.mark.parametrize("frozen", [False, True])
def test_weights_count_as_in_scikit_learn(frozen):
    estimator = LogisticRegression()
    estimator = FrozenEstimator(estimator.fit(X[TRAIN], NAMES[TRAIN])) if frozen else estimator
    ours = CalibratedModel(estimator, cv=3).fit(X, NAMES, sample_weight=WEIGHTS)
    theirs = CalibratedClassifierCV(estimator, method="temperature", cv=3, ensemble=False)
    theirs.fit(X, NAMES, sample_weight=WEIGHTS)
    np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), atol=2e-4)
    plain = CalibratedModel(estimator, cv=3).fit(X, NAMES)
    assert np.abs(plain.predict_proba(X) - ours.predict_proba(X)).max() > 0.001


def test_weights_of_folds_go_with_their_rows():
    """Also where rows are held out several times, and in another order."""
    cv = ShuffleSplit(4, random_state=0)
    scores, rows = [], []
    for train, test in cv.split(X):
        fold = LogisticRegression().fit(X[train], Y[train], WEIGHTS[train])
        scores.append(fold.decision_function(X[test]))
        rows.append(test)
    rows = np.concatenate(rows)
    expected = posthoc.TemperatureScaling()
    expected.fit(np.concatenate(scores), Y[rows], sample_weight=WEIGHTS[rows])
    model = CalibratedModel(LogisticRegression(), cv=cv).fit(X, Y, sample_weight=WEIGHTS)
    assert model.map_.temperature_ == pytest.approx(expected.temperature_, rel=1e-9)


def test_an_estimator_that_takes_no_weights_is_named():
    with pytest.warns(PosthocWarning, match="KNeighborsClassifier.fit takes no sample_weight"):
        model = CalibratedModel(KNeighborsClassifier(30), cv=3).fit(X, Y, WEIGHTS)
    plain = CalibratedModel(KNeighborsClassifier(30), cv=3).fit(X, Y)
    assert model.map_.temperature_ != plain.map_.temperature_
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        CalibratedModel(Network(layer())).fit(X, Y, WEIGHTS)  # it is not fitted, so nothing to say


@pytest.mark.parametrize("requested", [True, False])
def test_requests_decide_where_weights_go(requested):
    with config_context(enable_metadata_routing=True):
        estimator = LogisticRegression().set_fit_request(sample_weight=requested)
        model = CalibratedModel(estimator, cv=3).fit(X, Y, sample_weight=WEIGHTS)
        with pytest.raises(ValueError, match="not explicitly set as requested"):
            CalibratedModel(LogisticRegression(), cv=3).fit(X, Y, sample_weight=WEIGHTS)
    expected = LogisticRegression().fit(X, Y, WEIGHTS if requested else None)
    np.testing.assert_array_equal(model.estimator_.coef_, expected.coef_)
    plain = CalibratedModel(LogisticRegression(), cv=3).fit(X, Y)
    assert model.map_.temperature_ != plain.map_.temperature_  # the map's, in any case


def test_weights_that_are_refused():
    for estimator in (LogisticRegression(), LogisticRegression().fit(X, Y)):
        for weights, message in (
            (np.ones(599), "got 599 values, expected 600"),
            (-np.ones(600), "got -1, expected weights of at least 0"),
            (np.zeros(600), "got weights that are all zero"),
            (np.ma.array(np.ones(600), mask=Y == 1), "got masked values"),
        ):
            with pytest.raises(ValueError, match=f"^sample_weight: {message}"):
                CalibratedModel(estimator).fit(X, Y, sample_weight=weights)


# --- rare classes ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "map", [posthoc.TemperatureScaling(), posthoc.VectorScaling(), posthoc.StructuredScaling()]
)
@pytest.mark.parametrize("alone", [3, 4])
def test_a_class_with_one_member_does_not_spoil_the_map(map, alone):
    """`alone` is the class of one row, after the others or between them."""
    labels = Y.copy()
    if alone == 3:
        labels[5] = 3
    else:
        labels = 2 * labels
        labels[5] = 3
    place = int(np.flatnonzero(np.unique(labels) == 3)[0])
    without = CalibratedModel(LogisticRegression(), clone(map)).fit(
        np.delete(X, 5, axis=0), np.delete(labels, 5)
    )
    message = "left out 1 of 600 held-out rows"
    with pytest.warns(PosthocWarning, match=message), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The least populated class")
        model = CalibratedModel(LogisticRegression(), clone(map)).fit(X, labels)
    assert model.classes_.tolist() == np.unique(labels).tolist()
    probs = model.predict_proba(X)
    assert probs[:, place].mean() < 0.02
    change = np.abs(np.delete(probs, place, axis=1) - without.predict_proba(X))
    assert change.mean() < 0.02 and change.max() < 0.15
    assert model.score(X, labels) > 0.6


def test_classes_that_come_late_are_learnt_late():
    """The first training parts of a `TimeSeriesSplit` know two classes of three."""
    order = np.argsort(Y == 2, kind="stable")
    order = np.r_[order[:250], np.random.default_rng(0).permutation(order[250:])]
    inputs, labels = X[order], Y[order]
    first = [(train, test) for train, test in TimeSeriesSplit(5).split(inputs)]
    assert (labels[first[0][0]] < 2).all() and (labels[first[1][1]] == 2).any()
    with pytest.warns(PosthocWarning, match="left out .* has none of their class"):
        model = CalibratedModel(LogisticRegression(), cv=TimeSeriesSplit(5)).fit(inputs, labels)
    assert 0.3 < model.map_.temperature_ < 3
    probs = model.predict_proba(inputs)
    assert metrics.ece(probs, labels) < 0.1 and model.score(inputs, labels) > 0.65


def test_one_class_is_no_class():
    with pytest.raises(ValueError, match="^y: got 1 class, 'a', expected at least two$"):
        CalibratedModel(DecisionTreeClassifier()).fit(X, ["a"] * len(X))


# --- columns --------------------------------------------------------------------------------------


@pytest.mark.parametrize("k", [2, 3, 4, 5])
@pytest.mark.parametrize("fitted", [False, True])
@pytest.mark.parametrize("piped", [False, True])
def test_scores_of_pairs_become_those_of_classes(k, fitted, piped):
    inputs, labels = blobs(700, k)
    found = {}
    for shape in ("ovo", "ovr"):
        estimator = SVC(decision_function_shape=shape)
        estimator = make_pipeline(StandardScaler(), estimator) if piped else estimator
        if fitted:
            estimator.fit(inputs[:300], labels[:300])
        found[shape] = CalibratedModel(estimator, cv=3).fit(inputs[300:], labels[300:])
    ovo, ovr = (model.predict_proba(inputs) for model in found.values())
    np.testing.assert_allclose(ovo, ovr, atol=1e-12)
    own = found["ovo"].estimator_.score(inputs, labels)
    assert found["ovo"].score(inputs, labels) == pytest.approx(own, abs=0.02)


def test_votes_of_pairs_by_hand():
    pairs = [[1.0, -1.0, -2.0], [0.0, 0.0, 0.0]]  # 2 wins; a tie is for the first
    found = _of_pairs(np.array(pairs), 3)
    np.testing.assert_allclose(found, [[1, -3 / 12, 2 + 3 / 12], [2, 1, 0]])


class Wrong(ClassifierMixin, BaseEstimator):
    """A trained classifier whose columns are in some order, and whose answers are right."""

    def __init__(self, inner, order=None, answers=None, classes=True):
        self.inner, self.order, self.answers, self.classes = inner, order, answers, classes

    def __getattr__(self, name):
        if name == "classes_" and self.classes:
            return self.inner.classes_
        raise AttributeError(name)

    def fit(self, X, y):
        raise AssertionError("trained again")

    def predict_proba(self, X):
        return self.inner.predict_proba(X)[:, self.order]

    def predict(self, X):
        found = self.inner.predict(X)
        return found if self.answers is None else self.answers(found)


@pytest.mark.parametrize("k", [2, 3, 5])
def test_columns_in_another_order_are_refused(k):
    inputs, labels = blobs(500, k)
    names = np.array([f"class {i}" for i in range(k)])[labels]
    inner = LogisticRegression().fit(inputs, names)
    orders = [np.arange(k)[::-1], np.roll(np.arange(k), 1), np.r_[1, 0, np.arange(2, k)]]
    for order in orders:
        with pytest.raises(
            ValueError, match="^estimator: predict answers 'class .* the order of c"
        ):
            CalibratedModel(Wrong(inner, order)).fit(inputs, names)
    model = CalibratedModel(Wrong(inner, np.arange(k))).fit(inputs, names)
    assert model.score(inputs, names) == inner.score(inputs, names)


def test_answers_by_a_threshold_are_no_other_order():
    inputs, labels = blobs(500, 2)
    inner = LogisticRegression().fit(inputs, labels)
    for threshold in (0.02, 0.1, 0.9, 0.98):
        moved = FixedThresholdClassifier(
            FrozenEstimator(inner), threshold=threshold, response_method="predict_proba"
        ).fit(inputs, labels)
        with pytest.warns(PosthocWarning, match="largest column in .* of the rows only"):
            CalibratedModel(moved).fit(inputs, labels)


def test_answers_that_are_no_classes_and_columns_that_are_too_many():
    inner = LogisticRegression().fit(X, NAMES)
    every = np.arange(3)
    with pytest.raises(ValueError, match="^estimator: predict answers 'a .*', expected one of cl"):
        answers = np.vectorize(lambda name: f"a {name}")
        CalibratedModel(Wrong(inner, every, answers)).fit(X, np.where(NAMES == "ant", "cat", NAMES))
    with pytest.raises(
        ValueError, match=r"^predict_proba: got shape \(600, 2\), expected \(n, 3\)"
    ):
        CalibratedModel(Wrong(inner, [0, 1])).fit(X, NAMES)
    with pytest.raises(ValueError, match="y: got 'cow', expected classes the estimator knows"):
        CalibratedModel(inner).fit(X, np.where(NAMES == "cat", "cow", NAMES))
    with pytest.raises(ValueError, match="got Ridge, expected decision_function or predict_proba"):
        CalibratedModel(Ridge().fit(X, Y)).fit(X, Y)


def test_columns_without_classes():
    """0 to k - 1 where the labels are some of these, or else the labels, sorted."""
    inner, every = LogisticRegression().fit(X, Y), np.arange(3)
    some = Y < 2
    model = CalibratedModel(Wrong(inner, every, classes=False)).fit(X[some], Y[some])
    assert model.classes_.tolist() == [0, 1, 2]
    named = LogisticRegression().fit(X, NAMES)
    model = CalibratedModel(Wrong(named, every, classes=False)).fit(X, NAMES)
    assert model.classes_.tolist() == ["ant", "cat", "dog"]
    assert model.score(X, NAMES) == named.score(X, NAMES)
    with pytest.raises(ValueError, match="got 3 columns without classes_, for 2 labels in y"):
        CalibratedModel(Wrong(named, every, classes=False)).fit(X[some], NAMES[some])


# --- labels ---------------------------------------------------------------------------------------


def test_labels_of_many_kinds():
    expected = CalibratedModel(LogisticRegression()).fit(X, Y).predict_proba(X)
    kinds = [
        NAMES,
        NAMES.astype(object),
        pd.Series(NAMES),
        pd.Series(Y).astype("Int64"),
        pd.Categorical(NAMES),
        Y - 1.0,
        torch.tensor(Y),
        Y.tolist(),
    ]
    for labels in kinds:
        model = CalibratedModel(LogisticRegression()).fit(X, labels)
        np.testing.assert_allclose(model.predict_proba(X), expected, atol=1e-6)
        assert (model.predict(X) == np.asarray(model.classes_)[expected.argmax(axis=1)]).all()


def test_labels_that_are_refused():
    for labels, message in (
        (None, "requires y to be passed"),
        (np.ma.array(Y, mask=Y == 1), "^y: got masked values"),
        (pd.Series(Y).astype("Int64").mask(Y == 1), "^y: got missing values"),
        (np.linspace(0, 1, 600), "Unknown label type"),
        (np.eye(3)[Y], "should be a 1d array"),
    ):
        for estimator in (LogisticRegression(), LogisticRegression().fit(X, Y)):
            with pytest.raises(ValueError, match=message):
                CalibratedModel(estimator).fit(X, labels)


def test_scorers_of_scikit_learn_see_a_classifier():
    model = CalibratedModel(KNeighborsClassifier(), posthoc.BetaCalibration()).fit(X, Y)
    scorer = make_scorer(
        lambda y, p: metrics.brier(p, y), response_method="predict_proba", greater_is_better=False
    )
    assert scorer(model, X, Y) == -metrics.brier(model.predict_proba(X), Y)
