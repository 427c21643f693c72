"""The default pair: a hard target must not make a source out of nothing."""

import warnings

import numpy as np
import pytest

from treet.errors import NotConvergedWarning
from treet.estimators import density_pair, saving
from treet.estimators.neural import TREET


def stages(critic):
    return 1 if critic.base is None else 1 + stages(critic.base)


def fit(source, target, **settings):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotConvergedWarning)
        return TREET(1, folds=2, random_state=0, **settings).fit(source, target)


def hard_target(n=3000, seed=0):
    """Its spread and its level follow from its past in ways that one small network takes long to learn."""
    rng = np.random.default_rng(seed)
    y = np.zeros(n)
    for t in range(1, n):
        y[t] = np.sin(4 * y[t - 1]) + 0.02 * (1 + 10 * (np.cos(9 * y[t - 1]) > 0)) * rng.normal()
    return y


def test_a_target_that_needs_no_network_has_one_stage():
    rng = np.random.default_rng(0)
    fitted = fit(rng.normal(size=2000), rng.normal(size=2000))
    assert [stages(fold.pair.y) for fold in fitted.folds_] == [1, 1]
    assert len(fitted.history_) == 4


def test_a_further_network_is_kept_only_while_it_helps():
    fitted = fit(np.random.default_rng(1).normal(size=3000), hard_target(), epochs=20)
    networks = sum(stages(fold.pair.y) for fold in fitted.folds_)
    assert len(fitted.history_) == networks + 2
    assert abs(fitted.te_) < 0.03


@pytest.mark.parametrize("wanted", [2, 3])
def test_stages_are_saved_and_loaded(wanted, tmp_path, monkeypatch):
    monkeypatch.setattr(density_pair._Training, "choose", lambda self: None)
    monkeypatch.setattr(density_pair, "MOST_STAGES", wanted)
    source, target = np.random.default_rng(1).normal(size=400), hard_target(400)
    fitted = fit(source, target, epochs=1)
    assert [stages(fold.pair.y) for fold in fitted.folds_] == [wanted, wanted]
    saving.save(fitted, tmp_path / "saved.treet")
    loaded = saving.load(TREET, tmp_path / "saved.treet")
    assert [stages(fold.pair.y) for fold in loaded.folds_] == [wanted, wanted]
    np.testing.assert_array_equal(loaded.local_te(source, target)[0], fitted.local_te(source, target)[0])
