"""Experiments on Gaussians: known posteriors, fixed points with a closed form, a best exponent."""

import numpy as np
import pytest

from calibkit import losses
from calibkit_companion.training import toys


@pytest.mark.parametrize("gamma", [1.0, 4.0])
def test_bsce_gra_of_two_classes_rests_at_a_built_in_temperature(gamma):
    eta = np.array([0.5, 0.7, 0.9])
    found = toys.fixed_point(losses.bsce_gra(gamma=gamma), eta, 2)
    odds = (eta / (1 - eta)) ** (1 / (gamma + 1))
    np.testing.assert_allclose(found, odds / (1 + odds), atol=1e-9)
    np.testing.assert_allclose(toys.fixed_point(losses.cross_entropy, eta, 2), eta, atol=1e-9)


def test_the_best_exponent_is_the_one_of_highest_mean_correlation():
    trained = [toys.train(run, epochs=1, per_class=200) for run in range(2)]
    best = toys.best_correlations(trained)
    assert set(best) == set(toys.true_errors(*trained[0]))
    name, r = best["‖η − p‖²"]["focal"]
    members = toys.families()["focal"]
    for other, weight in members.items():
        its = [
            np.corrcoef(weight(z, y).numpy(), toys.true_errors(z, y, eta)["‖η − p‖²"])[0, 1]
            for z, y, eta in trained
        ]
        assert np.mean(its) <= r.mean() + 1e-4
        if other == name:
            np.testing.assert_allclose(its, r, atol=1e-4)
