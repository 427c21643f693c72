"""Densities of fitted estimators: those of the critics, each read where it did not train."""

import warnings
from itertools import pairwise

import numpy as np
import pytest
import torch
from scipy.integrate import quad

from treet.data import as_recording
from treet.density.conditional import ConditionalDensity
from treet.density.fitted import Averaged, Model, alone, of_estimator
from treet.density.univariate import Mixtures, OnGrid
from treet.errors import NotConvergedWarning, TreetError
from treet.estimators.neural import TREET
from treet.lags import Lags
from treet.nn.density_critic import BROAD, NETWORK, DensityCritic
from treet.nn.regimes import MOST_REGIMES
from treet.processes import Threshold
from treet.series import Scaler
from treet.windows import Windows

SMALL = {
    "default": {"memory": 1, "folds": 2, "batch_size": 64, "epochs": 20, "random_state": 0},
    "paper": {"preset": "paper", "memory": 1, "epochs": 4, "random_state": 0},
}
ROLES_Y, ROLES_XY = ("target", "condition"), ("target", "condition", "source")
CHANNELS = 2
TERMS = 3 + MOST_REGIMES + 2 * len(BROAD)


def coupled(n_samples=260, seed=0, shift=0.0, scale=1.0):
    """(time,) twice: source and target, the target in other units."""
    x, y = Threshold().sample(n_samples, seed).trials[0].T
    return x.copy(), shift + scale * y


def quiet_fit(source, target, preset="default", **changes):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotConvergedWarning)
        return TREET(**SMALL[preset] | changes).fit(source, target)


@pytest.fixture(scope="module")
def default():
    return quiet_fit(*coupled())


@pytest.fixture(scope="module")
def paper():
    return quiet_fit(*coupled(), preset="paper")


def drawn_critic(shapes, seed, base=None):
    """A critic with all weights drawn and one split, so that nothing vanishes."""
    critic = DensityCritic(shapes, CHANNELS, heads=2, width=5, base=base)
    generator = torch.Generator().manual_seed(seed)
    critic.reset(generator)
    with torch.no_grad():
        for weights in (weights for weights in critic.parameters() if weights.requires_grad):
            weights.add_(0.3 * torch.randn(weights.shape, generator=generator))
        known = critic.anchor.coefficients.shape[1] - CHANNELS
        for part in (critic.anchor.coefficients, critic.regimes.coefficients):
            part.copy_(0.3 * torch.randn(part.shape, generator=generator))
            for channel in range(CHANNELS):
                part[channel, ..., known + channel :] = 0
        critic.regimes.variable[:, 0] = 1
        critic.regimes.shares[:, 0, 0] = 0.6
        critic.regimes.shares[:, 0, 1] = 0.4
    return critic.requires_grad_(False)


def vector_windows(n_samples=60):
    noise = np.random.default_rng(0).normal(size=(n_samples, 3))
    target = as_recording(100.0 + 5.0 * noise[:, :CHANNELS], "target")
    return Windows.of(as_recording(noise[:, 2], "source"), target, None, Lags(3, 2))


SHAPES = {"target": (3, CHANNELS), "source": (2, 1)}


@pytest.mark.parametrize("chosen", [NETWORK, 0, 1])
@pytest.mark.parametrize("with_base", [False, True])
def test_the_mixture_of_a_critic_is_its_density(with_base, chosen):
    base = drawn_critic({"target": (3, CHANNELS)}, seed=1) if with_base else None
    critic = drawn_critic(SHAPES, seed=0, base=base).double()
    if chosen == 1 and not with_base:
        pytest.skip("there is no second expert")
    critic.chosen.fill_(chosen)
    generator = torch.Generator().manual_seed(2)
    draw = lambda *shape: torch.randn(shape, generator=generator, dtype=torch.float64)  # noqa: E731
    pasts, present = {role: draw(40, *shape) for role, shape in SHAPES.items()}, draw(40, CHANNELS)
    log_weights, means, stds = critic.mixture(pasts, present)
    assert means.shape == (40, CHANNELS, TERMS + TERMS * with_base)
    torch.testing.assert_close(log_weights.exp().sum(-1), torch.ones(40, CHANNELS).double())
    normals = torch.distributions.Normal(means, stds).log_prob(present[..., None])
    torch.testing.assert_close(torch.logsumexp(log_weights + normals, -1), critic.log_density(pasts, present))


def test_a_channels_terms_do_not_depend_on_later_channels():
    critic = drawn_critic(SHAPES, seed=0)
    pasts = {
        role: torch.randn(9, *shape, generator=torch.Generator().manual_seed(3))
        for role, shape in SHAPES.items()
    }
    present = torch.randn(9, CHANNELS, generator=torch.Generator().manual_seed(4))
    changed = present + torch.tensor([0.0, 1.0])
    for one, other in zip(critic.mixture(pasts, present), critic.mixture(pasts, changed), strict=True):
        torch.testing.assert_close(one, other)
    assert not torch.equal(
        critic.mixture(pasts, present)[1][:, 1], critic.mixture(pasts, present + 1)[1][:, 1]
    )


def models(windows, count):
    scalers = [Scaler.of(windows, windows.positions[start:]) for start in range(count)]
    critics = [drawn_critic(SHAPES, seed) for seed in range(count)]
    return critics, [
        Model.of(critic.mixture, windows, scaler, ROLES_XY)
        for critic, scaler in zip(critics, scalers, strict=True)
    ]


def critics_log_density(critic, model, positions, y):
    """In the units of the target: (positions,)."""
    present = torch.from_numpy(((y - model.mean) / model.std).astype(np.float32))
    pasts = model.series.pasts(torch.from_numpy(positions), ROLES_XY)
    return critic(pasts, present).numpy().astype(float) - np.log(model.std).sum()


def test_each_time_step_has_the_density_of_its_fold():
    windows = vector_windows()
    critics, made = models(windows, 2)
    slots = (np.arange(len(windows)) >= 20).astype(np.int64)[None]
    density = ConditionalDensity(Averaged(made, windows.positions, slots), windows)
    for fold, rows in ((0, slice(0, 20)), (1, slice(20, None))):
        positions = windows.positions[rows]
        expected = critics_log_density(critics[fold], made[fold], positions, density.observed[rows])
        np.testing.assert_allclose(density.logpdf()[rows], expected, rtol=1e-5, atol=1e-5)


def test_new_data_have_the_mean_of_the_densities_also_for_vectors():
    """The mean of products over the channels, not the product of the channels' means."""
    windows = vector_windows()
    critics, made = models(windows, 3)
    slots = np.broadcast_to(np.arange(3)[:, None], (3, len(windows)))
    density = ConditionalDensity(Averaged(made, windows.positions, slots), windows)
    every = [
        critics_log_density(critic, model, windows.positions, density.observed)
        for critic, model in zip(critics, made, strict=True)
    ]
    np.testing.assert_allclose(density.pdf(), np.exp(every).mean(axis=0), rtol=2e-5)


def test_a_vector_density_is_normalised():
    windows = vector_windows(12)
    _, made = models(windows, 2)
    slots = np.broadcast_to(np.arange(2)[:, None], (2, len(windows)))
    density = ConditionalDensity(Averaged(made, windows.positions, slots), windows)[:1]
    axis = np.linspace(-60, 60, 401)
    y = np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1).reshape(-1, 1, 2)
    drawn = density.sample(1000, random_state=0)
    centre = np.median(drawn, axis=0)[0]
    total = density.pdf(y + centre).sum() * (axis[1] - axis[0]) ** 2
    assert total == pytest.approx(1.0, abs=0.02)


@pytest.mark.parametrize("at", ["target", "joint"])
@pytest.mark.parametrize("fitted", ["default", "paper"])
def test_scalar_densities_are_normalised_in_the_targets_units(at, fitted, request):
    estimator = request.getfixturevalue(fitted)
    density = estimator.density(*coupled(), at=at)
    for step in (0, 100, 257):
        one = density[step : step + 1]
        low, high = (float(one.quantile(q)[0]) for q in (1e-9, 1 - 1e-9))
        edges = np.linspace(low, high, 65)
        total = sum(
            quad(lambda y, one=one: float(one.pdf(y)[0]), *pair, epsabs=1e-9)[0] for pair in pairwise(edges)
        )
        assert total == pytest.approx(1.0, abs=1e-6)


def test_held_out_densities_are_those_of_the_local_values(default):
    source, target = coupled()
    densities = {at: default.density(source, target, at=at) for at in ("target", "joint")}
    local = densities["joint"].on_time_axis(densities["joint"].logpdf() - densities["target"].logpdf())
    np.testing.assert_allclose(local[0], default.local_te_[0], atol=2e-5)


@pytest.mark.parametrize("at", ["target", "joint"])
def test_papers_densities_are_the_exponential_of_the_scores(paper, at):
    """But for a factor at each time step; the reference is uniform. Scored here one sequence at a time."""
    source, target = coupled()
    density, fold = paper.density(source, target, at=at), paper.folds_[1]
    assert isinstance(density.factors.density, OnGrid)
    y = density.factors.density.nodes[[10, 100, 200]]
    scaled = (np.stack([target, source], axis=1) - fold.scaler.mean) / fold.scaler.std
    tokens = (
        torch.from_numpy(scaled.astype(np.float32))[None, :, :1],
        torch.from_numpy(scaled.astype(np.float32))[None, :, 1:],
    )
    length, first = int(fold.pair.length), 1 + -(-len(density) // 2)
    drawn = torch.from_numpy(((y - fold.scaler.mean[0]) / fold.scaler.std[0]).astype(np.float32))
    for start in (first, first + length):
        past = [part[:, start - 1 : start + length] for part in tokens]
        critic = fold.pair.xy if at == "joint" else fold.pair.y
        with torch.no_grad():
            _, scores = critic(
                past[0], past[1] if at == "joint" else None, drawn.expand(1, length, 3)[..., None]
            )
        found = density[start - 1 : start - 1 + length].logpdf(y[:, None]).T
        np.testing.assert_allclose(np.diff(found), np.diff(scores[0].numpy()), atol=1e-4)


@pytest.mark.parametrize("fitted", ["default", "paper"])
def test_new_data_have_the_mean_of_the_folds(fitted, request):
    estimator = request.getfixturevalue(fitted)
    source, target = coupled(200, seed=5)
    whole = estimator.density(source, target)
    y = np.linspace(-2, 2, 5)[:, None]
    parts = []
    folds = estimator.folds_
    try:
        for fold in folds:
            estimator.folds_ = [fold]
            parts.append(estimator.density(source, target).pdf(y))
    finally:
        estimator.folds_ = folds
    np.testing.assert_allclose(whole.pdf(y), np.mean(parts, axis=0), rtol=1e-9, atol=1e-12)


def test_one_changed_value_makes_it_a_new_recording(default):
    source, target = coupled()
    assert len(default.density(source, target).factors.density.means) <= 11
    changed = target.copy()
    changed[50] += 1e-6
    held_out, new = default.density(source, target), default.density(source, changed)
    assert not np.allclose(held_out.logpdf()[150:], new.logpdf()[150:], atol=1e-6)


@pytest.mark.slow
def test_other_units_are_other_densities_of_the_same_thing(default):
    """Scaled by a power of two the training is the same to the last bit."""
    moved = quiet_fit(*coupled(scale=4.0))
    one, other = default.density(*coupled()), moved.density(*coupled(scale=4.0))
    np.testing.assert_allclose(other.logpdf(), one.logpdf() - np.log(4.0), atol=1e-4)
    np.testing.assert_allclose(other.mean(), 4 * one.mean(), atol=1e-4)
    np.testing.assert_allclose(other.quantile(0.9), 4 * one.quantile(0.9), atol=1e-3)


def test_a_saved_estimator_gives_the_same_densities(default, tmp_path):
    default.save(tmp_path / "fitted.safetensors")
    loaded = TREET.load(tmp_path / "fitted.safetensors")
    np.testing.assert_allclose(
        loaded.density(*coupled()).logpdf(), default.density(*coupled()).logpdf(), atol=1e-6
    )


def test_the_linear_predictor_is_one_gaussian(default, paper):
    for estimator in (default, paper):
        density = of_estimator(estimator, *coupled(), at="linear")
        assert isinstance(density.factors.density, Mixtures)
        assert len(density.factors.density.means) == 1
        # The target of this process is white: the best linear prediction is its mean.
        np.testing.assert_allclose(density.mean(), coupled()[1].mean(), atol=0.4)


def test_the_linear_predictor_of_both_pasts_sees_the_source(default, paper):
    density = of_estimator(default, *coupled(), at="linear joint")
    assert len(density.factors.density.means) == 1
    assert density.logpdf().mean() > of_estimator(default, *coupled(), at="linear").logpdf().mean()
    with pytest.raises(TreetError, match="'linear joint' needs critics that start from a linear predictor"):
        of_estimator(paper, *coupled(), at="linear joint")


def test_callers_data_stay_as_they_are(default):
    source, target = coupled()
    before = source.copy(), target.copy()
    default.density(source, target).logpdf()
    np.testing.assert_array_equal((source, target), before)


def test_what_is_not_accepted(default, paper):
    source, target = coupled()
    with pytest.raises(TreetError, match=r"not fitted\. Call fit first"):
        TREET().density(source, target)
    with pytest.raises(TreetError, match=r"at must be one of 'target', 'joint', .*\. Got 'source'"):
        default.density(source, target, at="source")
    with pytest.raises(TreetError, match=r"target must have 1 channels, as in the fit\. Got 2"):
        default.density(source, np.stack([target, source**2], axis=1))
    two = Threshold(copies=2).sample(300, 0)
    vector = quiet_fit(two.select(("x1", "x2")), two.select(("y1", "y2")), preset="paper", epochs=1)
    with pytest.raises(TreetError, match="need preset='default'"):
        vector.density(two.select(("x1", "x2")), two.select(("y1", "y2")))
    factors = Averaged(
        models(vector_windows(), 2)[1], vector_windows().positions, np.zeros((1, 57), np.int64)
    )
    assert alone(factors) is factors
