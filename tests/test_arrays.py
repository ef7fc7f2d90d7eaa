"""Inputs become checked NumPy arrays; results go back as the kind that came."""

import inspect
import typing
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy.special import softmax as scipy_softmax

from calibkit import arrays, confidence, metrics, posthoc, stats
from calibkit.report.predictions import from_arrays, read


@pytest.mark.parametrize(
    "given_type, kept",
    [
        (np.float16, np.float32),
        (np.float32, np.float32),
        (np.float64, np.float64),
        (np.int64, np.float64),
        (torch.float16, np.float32),
        (torch.bfloat16, np.float32),
        (torch.float32, np.float32),
        (torch.float64, np.float64),
    ],
)
def test_logits_keep_their_precision_and_halves_become_float32(given_type, kept):
    values = [[1.0, 2.0], [3.0, -4.0]]
    if isinstance(given_type, torch.dtype):
        x = torch.tensor(values, dtype=given_type, requires_grad=True)
    else:
        x = np.array(values, dtype=given_type)
    out = arrays.as_logits(x)
    assert out.dtype == kept
    assert out.tolist() == values


def test_types_name_arrays_and_tensors_without_torch():
    """What a type checker reads, evaluated with torch at hand; at run time only the words."""
    names = vars(arrays) | {"torch": torch}
    taken = typing.get_type_hints(arrays.to_numpy, names)["x"]
    assert torch.Tensor in typing.get_args(taken) and Any not in typing.get_args(taken)
    returned = typing.get_type_hints(arrays.like, names)["return"]
    assert set(typing.get_args(returned)) == {np.ndarray, torch.Tensor}
    assert "torch.Tensor" in str(inspect.signature(metrics.ece))  # as `help` shows it


def test_float32_and_float64_are_not_copied():
    for dtype in (np.float32, np.float64):
        x = np.zeros((2, 3), dtype)
        assert arrays.as_logits(x) is x
    t = torch.zeros(2, 3)
    assert np.shares_memory(arrays.as_logits(t), t.numpy())


def test_like_gives_back_the_kind_that_came():
    array = np.arange(3.0)[::-1]
    assert arrays.like(array, np.zeros(1, np.float32)) is array
    tensor = arrays.like(array, torch.zeros(1, dtype=torch.float16))
    assert isinstance(tensor, torch.Tensor) and tensor.tolist() == [2, 1, 0]


@given(
    hnp.arrays(
        np.float64,
        hnp.array_shapes(min_dims=2, max_dims=2, min_side=2, max_side=6),
        elements=st.floats(-1e4, 1e4),
    )
)
@settings(max_examples=50, deadline=None)
def test_softmax_is_that_of_scipy(logits):
    np.testing.assert_allclose(arrays.softmax(logits), scipy_softmax(logits, axis=1), atol=1e-15)


def test_softmax_over_several_blocks_and_without_touching_its_input():
    logits = np.random.default_rng(0).normal(0, 30, (700, 500)).astype(np.float32)
    before = logits.copy()
    assert logits.size > 2 * arrays.BLOCK
    probs = arrays.softmax(logits)
    assert probs.dtype == np.float32
    np.testing.assert_allclose(probs, scipy_softmax(logits.astype(float), axis=1), atol=2e-7)
    np.testing.assert_array_equal(logits, before)


@pytest.mark.parametrize("n, k", [(1, 2), (7, 3), (100, 5000), (3, 10**6)])
def test_blocks_cover_every_row_once(n, k):
    rows = [i for block in arrays.blocks(n, k) for i in range(block.start, block.stop)]
    assert rows == list(range(n))


@pytest.mark.parametrize(
    "bad, message",
    [
        ([[1.0, np.nan]], "logits: got NaN, expected finite numbers"),
        ([[1.0, -np.inf]], 'logits: got infinity, expected finite numbers: -inf is .*kind="probs'),
        ([[np.inf, np.nan]], "logits: got NaN, expected finite numbers"),
        ([1.0, 2.0], r"logits: got shape \(2,\), expected \(n, k\) with k >= 2 classes"),
        ([[1.0], [2.0]], r"logits: got shape \(2, 1\), expected"),
        (np.zeros((0, 3)), r"logits: got an empty array of shape \(0, 3\), expected numbers"),
        ([["a", "b"]], "logits: got type <U1, expected real numbers"),
        ([[1j, 2.0]], "logits: got type complex128, expected real numbers"),
        ([[1.0, 2.0], [3.0]], "logits: got a ragged sequence, expected an array"),
    ],
)
def test_bad_logits_are_named(bad, message):
    with pytest.raises(ValueError, match=f"^{message}"):
        arrays.as_logits(bad)


@pytest.mark.parametrize(
    "bad, message",
    [
        ([[0.5, 0.5], [0.6, 0.5]], "probs: got row 1 that sums to 1.1, expected rows"),
        ([[1.5, -0.5]], r"probs: got values from -0.5 to 1.5, expected \[0, 1\]"),
        ([[np.nan, 1.0]], "probs: got NaN, expected finite numbers"),
        ([[2.0, -3.0]], r"probs: got values from -3 to 2, expected \[0, 1\]"),  # logits by mistake
    ],
)
def test_rows_that_are_no_distribution_are_named(bad, message):
    with pytest.raises(ValueError, match=f"^{message}"):
        arrays.as_probs(bad)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("k", [2, 10, 1000])
def test_a_softmax_rounded_to_any_precision_is_accepted_as_it_is(dtype, k):
    torch.manual_seed(0)
    probs = torch.softmax(torch.randn(200, k, dtype=torch.float64) * 2, 1).to(dtype)
    np.testing.assert_array_equal(arrays.as_probs(probs), probs.double().numpy())


@pytest.mark.parametrize(
    "bad, message",
    [
        ([0, 3], "labels: got values from 0 to 3, expected classes 0 to 2"),
        ([-1, 0], "labels: got values from -1 to 0, expected classes 0 to 2"),
        ([0.0, 1.0], "labels: got type float64, expected integers 0 to 2"),
        ([True, False], "labels: got type bool, expected integers 0 to 2"),
        ([[0, 1]], r"labels: got shape \(1, 2\), expected \(n,\)"),
        ([], r"labels: got shape \(0,\), expected \(n,\) with n >= 1"),
        ([0, 1, 2], "labels: got 3 values, expected 2, one for each sample"),
    ],
)
def test_bad_labels_are_named(bad, message):
    with pytest.raises(ValueError, match=f"^{message}"):
        arrays.as_labels(bad, k=3, n=2)


@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.int32, np.int64])
def test_labels_of_any_integer_type_index(dtype):
    labels = arrays.as_labels(np.array([0, 2], dtype), k=3)
    assert labels.dtype == np.intp and labels.tolist() == [0, 2]


@pytest.mark.parametrize(
    "correct", [[True, False], [1, 0], [1.0, 0.0], torch.tensor([True, False])]
)
def test_correct_may_be_booleans_or_zeros_and_ones(correct):
    confidence, correct = arrays.as_confidence_correct(torch.tensor([0.5, 2.0]), correct)
    assert confidence.dtype == np.float32
    assert correct.dtype == bool and correct.tolist() == [True, False]


@pytest.mark.parametrize(
    "confidence, correct, message",
    [
        ([0.5, np.nan], [1, 0], "confidence: got NaN, expected finite numbers"),
        ([0.5, np.inf], [1, 0], "confidence: got infinity, expected finite numbers: pass prob"),
        ([0.5, 1.5], [1, 0], r"confidence: got values from 0.5 to 1.5, expected \[0, 1\]"),
        ([[0.5, 0.6]], [1, 0], r"confidence: got shape \(1, 2\), expected \(n,\)"),
        ([], [], r"confidence: got an empty array of shape \(0,\), expected numbers"),
        ([0.5, 0.6], [1], "correct: got 1 values, expected 2, one for each sample"),
        ([0.5, 0.6], [1, 2], "correct: got values of type int64 other than 0 and 1"),
        ([0.5, 0.6], ["a", "b"], "correct: got values of type <U1 other than 0 and 1"),
        ([0.5, 0.6], [[1, 0]], r"correct: got shape \(1, 2\), expected \(n,\)"),
    ],
)
def test_bad_confidence_and_correct_are_named(confidence, correct, message):
    with pytest.raises(ValueError, match=f"^{message}"):
        arrays.as_confidence_correct(confidence, correct, unit=True)


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ([1.0, -0.5], "got -0.5, expected weights of at least 0"),
        ([0, 0], "got weights that are all zero"),
        ([1.0, np.nan], "got NaN"),
        ([1.0, np.inf], "got infinity, expected finite numbers$"),
        ([1.0], "got 1 values, expected 2"),
        ([[1.0], [2.0]], r"got shape \(2, 1\)"),
        (["a", "b"], "got type <U1"),
    ],
)
def test_bad_weights_are_named(bad, message):
    with pytest.raises(ValueError, match=f"^sample_weight: {message}"):
        arrays.as_weights(bad, n=2)


def test_weights_may_be_booleans_integers_or_a_series():
    for weights in ([True, False], [1, 0], torch.tensor([1.0, 0.0]), pd.Series([1, 0])):
        found = arrays.as_weights(weights, n=2)
        assert found.dtype == np.float64 and found.tolist() == [1.0, 0.0]


# --- what is missing: masks, and pandas' <NA> ---

TABLE = np.array([[0.7, 0.2, 0.1], [0.1, 0.6, 0.3], [0.2, 0.3, 0.5], [0.5, 0.1, 0.4]])
TRUE = np.array([0, 1, 0, 2])
MASK = np.array([False, False, True, True])


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda m: metrics.ece(m(TABLE), TRUE), "probs"),
        (lambda m: metrics.ece(TABLE, m(TRUE)), "labels"),
        (lambda m: metrics.ece(list(m(TABLE)), TRUE), "probs"),
        (lambda m: metrics.brier(m(TABLE), TRUE), "probs"),
        (lambda m: metrics.summary(m(np.log(TABLE)), TRUE), "logits"),
        (lambda m: metrics.auroc(m(TABLE[:, 0]), TRUE == 0), "confidence"),
        (lambda m: metrics.auroc(TABLE[:, 0], m(TRUE == 0)), "correct"),
        (lambda m: confidence.TrustScore().fit(m(TABLE), TRUE), "features"),
        (lambda m: posthoc.TemperatureScaling().fit(m(np.log(TABLE)), TRUE), "logits"),
        (lambda m: posthoc.TemperatureScaling().fit(np.log(TABLE), m(TRUE)), "labels"),
        (lambda m: stats.bootstrap(m(np.log(TABLE)), TRUE, ["nll"], n=5), "logits"),
        (lambda m: stats.seed_interval(m(TABLE[:, 0])), "values"),
        (lambda m: arrays.as_weights(m(TRUE), n=4), "sample_weight"),
        (lambda m: from_arrays({"logits": m(np.log(TABLE)), "labels": TRUE}), "logits"),
        (lambda m: from_arrays({"probs": TABLE, "labels": m(TRUE)}), "labels"),
        (lambda m: from_arrays({"probs": TABLE, "labels": TRUE, "weights": m(TRUE)}), "weights"),
    ],
)
def test_no_mask_is_lost(call, name):
    def masked(array):
        return np.ma.array(
            array, mask=np.broadcast_to(MASK.reshape(-1, *[1] * (array.ndim - 1)), array.shape)
        )

    with pytest.raises(ValueError, match=rf"^{name}: got masked values \([26] of them\), expected"):
        call(masked)


def test_a_mask_that_hides_nothing_is_no_mask():
    assert metrics.ece(np.ma.array(TABLE), np.ma.array(TRUE)) == metrics.ece(TABLE, TRUE)
    kept = np.ma.array(TABLE, mask=np.zeros_like(TABLE, bool))[~MASK]
    assert metrics.ece(kept, TRUE[~MASK]) == metrics.ece(TABLE[~MASK], TRUE[~MASK])


@pytest.mark.parametrize("types", ["numpy_nullable", "pyarrow"])
def test_nullable_frames_are_read_where_no_value_is_missing(types):
    frame = pd.DataFrame(TABLE).convert_dtypes(dtype_backend=types)
    labels = pd.Series(TRUE).convert_dtypes(dtype_backend=types)
    right = pd.Series(TRUE == 0).convert_dtypes(dtype_backend=types)
    assert np.asarray(frame).dtype == object
    assert metrics.ece(frame, labels) == metrics.ece(TABLE, TRUE)
    assert metrics.ece(frame, pd.Index(labels)) == metrics.ece(frame, labels.array)
    assert metrics.auroc(frame[0], right) == metrics.auroc(TABLE[:, 0], TRUE == 0)
    data = from_arrays({"probs": frame, "labels": labels})
    np.testing.assert_allclose(np.exp(data.logits), TABLE, atol=1e-12)

    frame.iloc[2, 1] = pd.NA
    with pytest.raises(
        ValueError,
        match=r"^probs: got missing values \(pandas' <NA>; 1 of .* row 2, column 1\), exp",
    ):
        metrics.ece(frame, labels)
    labels[3] = pd.NA
    with pytest.raises(ValueError, match=r"^labels: got missing values .* first in row 3\)"):
        metrics.ece(TABLE, labels)
    right[:] = pd.NA
    with pytest.raises(ValueError, match=r"^correct: got missing values .*; 4 of them"):
        metrics.auroc(TABLE[:, 0], right)


def test_mixed_nullable_columns_and_columns_that_are_no_numbers():
    frame = pd.DataFrame({"a": [1, 2], "b": [0.5, -1.0]}).convert_dtypes()
    assert arrays.as_logits(frame).tolist() == [[1.0, 0.5], [2.0, -1.0]]
    with pytest.raises(ValueError, match="^logits: got type object, expected real numbers"):
        arrays.as_logits(frame.assign(b=["x", "y"]))


def test_bfloat16_that_numpy_reads_as_bytes_is_named(tmp_path):
    bits = np.array([[0x3F80, 0x4000], [0x4040, 0xC080]], np.uint16)  # 1, 2, 3 and -4
    np.savez(tmp_path / "p.npz", logits=bits.view("V2"), labels=[0, 1])
    with np.load(tmp_path / "p.npz") as file:
        assert file["logits"].dtype == "V2"
        with pytest.raises(ValueError, match=r"^logits: got type \|V2.* bfloat16 .*np.float32"):
            arrays.as_logits(file["logits"])
    with pytest.raises(ValueError, match=r"p.npz: logits: got type \|V2.* bfloat16 .*np.float32"):
        read(tmp_path / "p.npz")


# --- probabilities in place of logits ---


@given(st.integers(0, 10_000), st.integers(2, 30), st.integers(4, 200), st.floats(0.01, 30.0))
def test_logits_are_never_taken_for_probabilities(seed, k, n, scale):
    """Not even those that are all positive, as after a ReLU, or that all have the same sum."""
    rng = np.random.default_rng(seed)
    logits = scale * rng.normal(size=(n, k))
    for some in (logits, np.abs(logits), logits - logits.mean(axis=1, keepdims=True)):
        np.testing.assert_array_equal(arrays.as_logits(some), some)


@given(st.integers(0, 10_000), st.integers(2, 30), st.integers(2, 200), st.floats(0.0, 30.0))
def test_probabilities_are_always_recognised(seed, k, n, scale):
    rng = np.random.default_rng(seed)
    logits = scale * rng.normal(size=(n, k))
    probs = arrays.softmax(logits)
    for some in (probs, probs.astype(np.float32), torch.tensor(probs).bfloat16(), np.eye(k)):
        with pytest.raises(ValueError, match="^scores: got probabilities .* np.log"):
            arrays.as_logits(some, "scores")
        assert (arrays.as_logits(some, kind=None) == arrays.to_numpy(some)).all()
    again = arrays.softmax(arrays.as_logits(probs, kind="probs"))
    np.testing.assert_allclose(again, probs, atol=1e-12)


def test_probabilities_are_recognised_where_a_row_is_not_or_decimals_are_lost():
    probs = arrays.softmax(np.random.default_rng(0).normal(0, 3, (1000, 3)))
    spoilt, rounded = probs.copy(), probs.round(2)
    spoilt[[0, 999]] = 0.0, 0.5, 1.0
    for some in (spoilt, rounded):
        with pytest.raises(ValueError, match="^logits: got probabilities"):
            arrays.as_logits(some)
        with pytest.raises(ValueError, match="^probs: got row"):
            arrays.as_logits(some, "probs", kind="probs")


@pytest.mark.parametrize("n", [40, 64, 128, 1000, 12_800])
def test_half_probabilities_and_half_logits_are_refused(n):
    probs = arrays.softmax(np.random.default_rng(0).normal(0, 3, (n, 3)))
    one_after_another = np.where(np.arange(n)[:, None] < n // 2, probs, np.log(probs))
    in_turns = np.where(np.arange(n)[:, None] % 2, probs, np.log(probs))
    for mixed in (one_after_another, in_turns):
        with pytest.raises(ValueError, match="^logits: got probabilities .about [345].% of the"):
            arrays.as_logits(mixed)


def test_logits_that_look_like_probabilities_have_a_way():
    logits = np.array([[0.0, 1.0]])  # even a single row, as in a service that answers one by one
    with pytest.raises(ValueError, match="^logits: got probabilities .* if they are logits, add 1"):
        metrics.summary(logits, [1])
    found = posthoc.FixedTemperature(1.0).predict_proba(logits + 1)
    np.testing.assert_allclose(found, [[0.2689, 0.7311]], atol=1e-4)
    with pytest.raises(ValueError, match="^kind: got 'x', expected 'logits' or 'probs'"):
        arrays.as_logits([[0.0, 2.0]], kind="x")


@pytest.mark.filterwarnings("ignore::calibkit.posthoc.PosthocWarning")
@pytest.mark.parametrize(
    "call",
    [
        lambda x, y: posthoc.TemperatureScaling().fit(x, y),
        lambda x, y: posthoc.VectorScaling().fit(x, y),
        lambda x, y: posthoc.optimal_temperature(x, y, "ece"),
        lambda x, y: posthoc.FixedTemperature(2.0).predict_proba(x),
        lambda x, y: confidence.maximum_probability(x),
        lambda x, y: posthoc.FixedTemperature(2.0).predict_proba(x[:1]),
        lambda x, y: posthoc.FixedTemperature(2.0).score(x, y),
        lambda x, y: posthoc.check_overlap(x, x),
        lambda x, y: posthoc.calibratability(x, y, x, y),
        lambda x, y: confidence.p_norm(x),
        lambda x, y: confidence.choose_p(x, y),
        lambda x, y: metrics.per_sample(x, y),
        lambda x, y: stats.compare(x, x, y, ["auroc"], n=5),
    ],
)
def test_every_door_for_logits_refuses_probabilities(call):
    rng = np.random.default_rng(0)
    labels = np.arange(60) % 3
    logits = rng.normal(size=(60, 3)) + np.eye(3)[labels]
    with pytest.raises(ValueError, match="logits.*: got probabilities .* np.log"):
        call(arrays.softmax(logits), labels)
    call(np.log(arrays.softmax(logits)), labels)
