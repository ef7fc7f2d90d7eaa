"""The level of each look, against published tables and another way to compute it."""

import numpy as np
import pytest
from scipy import stats

from calibkit_companion.claims.sequential import each_look


@pytest.mark.parametrize(  # Pocock (1977), two-sided; Jennison and Turnbull (2000), table 2.1
    ("alpha", "looks", "published"),
    [
        (0.05, 1, 0.05), (0.05, 2, 0.0294), (0.05, 3, 0.0221), (0.05, 4, 0.0182), (0.05, 5, 0.0158),
        (0.01, 2, 2 * stats.norm.sf(2.772)), (0.01, 5, 2 * stats.norm.sf(2.986)),
        (0.1, 3, 2 * stats.norm.sf(1.992)),
    ],
)  # fmt: skip
def test_levels_are_those_of_published_tables(alpha, looks, published):
    assert each_look(alpha, looks) == pytest.approx(published, abs=5e-5 if alpha > 0.01 else 1e-5)


@pytest.mark.parametrize(("alpha", "looks"), [(0.05, 4), (0.003, 3)])
def test_levels_by_the_multivariate_normal(alpha, looks):
    k = np.arange(1, looks + 1)
    covariance = np.sqrt(np.minimum.outer(k, k) / np.maximum.outer(k, k))
    bound = np.full(looks, stats.norm.isf(each_look(alpha, looks) / 2))
    inside = stats.multivariate_normal(cov=covariance, abseps=1e-7).cdf(bound, lower_limit=-bound)
    assert 1 - inside == pytest.approx(alpha, rel=2e-3)


def test_more_looks_are_stricter_and_never_more_than_a_share_each():
    for alpha in (0.05, 0.05 / 24):
        levels = [each_look(alpha, looks) for looks in (1, 2, 3, 4, 6)]
        assert levels == sorted(levels, reverse=True)
        assert all(alpha / n < x for n, x in zip((2, 3, 4, 6), levels[1:], strict=True))
