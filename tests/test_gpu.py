"""The neural estimators on a GPU, where there is one: the numbers are those of the CPU."""

import warnings

import numpy as np
import pytest
import torch

from treet.errors import NotConvergedWarning
from treet.estimators.neural import TREET
from treet.estimators.registry import make
from treet.processes import Threshold

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")

SETTINGS = {
    "default": ("treet", {"memory": 2, "epochs": 4}),
    "channels": ("treet", {"memory": 2, "epochs": 4}),
    "paper": ("treet", {"memory": 2, "preset": "paper", "epochs": 4}),
    "given past": (
        "treet",
        {"memory": 2, "preset": "paper", "epochs": 2, "reference": "gaussian given past"},
    ),
    "dine": ("dine", {"memory": 2, "epochs": 2}),
}


def fitted(name, device):
    values = Threshold().sample(2000, 0).trials[0]
    source, target = values[:, 0], values[:, 1]
    if name == "channels":
        source, target = np.random.default_rng(1).normal(size=2000), values
    estimator, parameters = SETTINGS[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotConvergedWarning)
        made = make(estimator, device=device, random_state=0, **parameters).fit(source, target)
    return made, source, target


@pytest.mark.parametrize("name", SETTINGS)
def test_the_value_is_that_of_the_cpu(name):
    one, other = (fitted(name, device)[0].result_ for device in ("cpu", "cuda"))
    assert other.te == pytest.approx(one.te, abs=0.1 * one.std_error + 1e-4)


@pytest.mark.parametrize("name", ["default", "paper"])
def test_densities_and_saved_estimators(name, tmp_path):
    estimator, source, target = fitted(name, "cuda")
    joint = estimator.density(source, target, at="joint")
    assert np.isfinite(joint.mean()).all()
    estimator.save(tmp_path / "saved.treet")
    assert TREET.load(tmp_path / "saved.treet").score(source, target) == pytest.approx(
        estimator.score(source, target), abs=1e-4
    )
