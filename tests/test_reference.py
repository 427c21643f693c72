"""Reference densities: normalised, sampled from themselves, reproducible, and positive for any data."""

import doctest
import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import kstest, multivariate_normal, norm, uniform

import treet.reference
from treet.errors import TreetError
from treet.reference import Gaussian, GaussianGivenPast, UniformBox


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def noise(*shape, seed=0, dtype=torch.float64):
    return torch.randn(shape, generator=seeded(seed), dtype=dtype)


def tensor(*values):
    return torch.tensor(values, dtype=torch.float64)


def correlated(n=4000):
    """Two channels with correlation and a shift."""
    mixing = tensor([1.5, 0.0], [0.8, 0.4])
    return noise(n, 2) @ mixing.T + tensor(3.0, -1.0)


def given_past():
    return GaussianGivenPast(
        mean=tensor([0.5, -1.0], [2.0, 0.0], [0.0, 7.0]), std=tensor([1.0, 0.3]).expand(3, 2)
    )


BOX, GAUSSIAN = UniformBox(tensor(-1.0, 2.0), tensor(0.5, 6.0)), Gaussian.of(correlated())


def plane(low, high, steps=601):
    """A grid of midpoints over a rectangle (steps^2, 2) and the area of its cells."""
    axes = [torch.linspace(a, b, steps + 1, dtype=torch.float64) for a, b in zip(low, high, strict=True)]
    middles = [(axis[1:] + axis[:-1]) / 2 for axis in axes]
    area = math.prod((b - a) / steps for a, b in zip(low, high, strict=True))
    return torch.cartesian_prod(*middles), area


@pytest.mark.parametrize(("density", "low", "high"), [(BOX, (-2, 1), (1, 7)), (GAUSSIAN, (-10, -9), (16, 7))])
def test_densities_integrate_to_one(density, low, high):
    points, area = plane(low, high, 600)
    assert density.log_density(points).exp().sum().item() * area == pytest.approx(1.0, abs=1e-6)


def test_the_conditional_density_integrates_to_one_in_every_context():
    points, area = plane((-7, -4), (9, 10), 700)
    found = given_past().log_density(points.expand(3, -1, -1))
    assert found.shape == (3, 700 * 700)
    torch.testing.assert_close(found.exp().sum(-1) * area, torch.ones(3).double(), rtol=0, atol=1e-6)


def test_densities_equal_those_of_scipy():
    points = noise(5, 4, 2, seed=3)
    expected = multivariate_normal.logpdf(
        points.numpy(), GAUSSIAN.mean.numpy(), (GAUSSIAN.factor @ GAUSSIAN.factor.T).numpy()
    )
    np.testing.assert_allclose(GAUSSIAN.log_density(points), expected, rtol=1e-10)
    box = uniform.logpdf(points.numpy(), [-1.0, 2.0], [1.5, 4.0]).sum(-1)
    np.testing.assert_allclose(BOX.log_density(points), box)
    density, points = given_past(), noise(3, 9, 2, seed=4)
    expected = norm.logpdf(points.numpy(), density.mean[:, None].numpy(), density.std[:, None].numpy())
    np.testing.assert_allclose(density.log_density(points), expected.sum(-1), rtol=1e-10)


def test_box_samples_are_uniform_in_each_channel_and_independent():
    draws = BOX.sample((40, 500), seeded(1)).reshape(-1, 2)
    for channel, (low, width) in enumerate([(-1.0, 1.5), (2.0, 4.0)]):
        assert kstest(draws[:, channel].numpy(), "uniform", (low, width)).pvalue > 1e-3
    assert abs(np.corrcoef(draws.T.numpy())[0, 1]) < 0.03
    assert bool(torch.isfinite(BOX.log_density(draws)).all())


def test_gaussian_samples_match_the_density():
    draws = GAUSSIAN.sample((40, 500), seeded(1)).reshape(-1, 2).numpy()
    covariance = (GAUSSIAN.factor @ GAUSSIAN.factor.T).numpy()
    for direction in ([1.0, 0.0], [0.0, 1.0], [1.0, -2.0]):
        mean, std = GAUSSIAN.mean.numpy() @ direction, math.sqrt(direction @ covariance @ direction)
        assert kstest(draws @ direction, "norm", (mean, std)).pvalue > 1e-3


def test_conditional_samples_match_the_density_of_their_own_context():
    density = given_past()
    draws = density.sample((3, 5000), seeded(1))
    assert draws.shape == (3, 5000, 2)
    for context in range(3):
        for channel in range(2):
            parameters = density.mean[context, channel].item(), density.std[context, channel].item()
            assert kstest(draws[context, :, channel].numpy(), "norm", parameters).pvalue > 1e-3
    flat = draws[..., 0] - density.mean[:, None, 0]
    assert np.abs(np.corrcoef(flat.numpy()) - np.eye(3)).max() < 0.06


def test_importance_weights_between_references_average_to_one():
    """The mean of p / q over draws from q: both densities are on the same scale."""
    wide = Gaussian(tensor(3.0, -1.0), 2.5 * torch.eye(2).double())
    draws = wide.sample((100_000,), seeded(2))
    ratio = GAUSSIAN.log_density(draws) - wide.log_density(draws)
    assert ratio.exp().mean().item() == pytest.approx(1.0, abs=0.03)


@pytest.mark.parametrize("density", [BOX, GAUSSIAN, given_past()])
def test_seeds_reproduce_and_the_global_generator_is_left_alone(density):
    shape = (3, 6)
    before = torch.random.get_rng_state()
    first = density.sample(shape, seeded(5))
    assert torch.equal(torch.random.get_rng_state(), before)
    torch.rand(3)
    assert torch.equal(density.sample(shape, seeded(5)), first)
    assert not torch.equal(density.sample(shape, seeded(6)), first)
    generator = seeded(5)
    assert torch.equal(density.sample(shape, generator), first)
    assert not torch.equal(density.sample(shape, generator), first)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_type_of_the_data_is_kept(dtype):
    data = noise(50, 2, dtype=dtype)
    for density in (UniformBox.around(data), Gaussian.of(data), GaussianGivenPast(data, data.abs() + 1)):
        draws = density.sample((50, 4), seeded())
        assert draws.dtype == density.log_density(draws).dtype == dtype
        assert draws.shape == (50, 4, 2)
        assert density.log_density(draws).shape == (50, 4)


@given(st.integers(1, 30), st.integers(1, 3), st.integers(0, 99))
def test_the_box_is_the_bounding_box(n, channels, seed):
    data = noise(2, n, channels, seed=seed)
    box = UniformBox.around(data)
    assert torch.equal(box.low, data.amin((0, 1)))
    assert torch.equal(box.high, data.amax((0, 1)))
    volume = (box.high - box.low).prod().item()
    torch.testing.assert_close(box.log_density(data).exp(), torch.full((2, n), 1 / volume).double())


def test_outside_the_box_the_density_is_zero():
    points = tensor([0.0, 3.0], [0.6, 3.0], [0.0, 1.9], [-9.0, 9.0])
    assert BOX.log_density(points).tolist() == [-math.log(6.0), -math.inf, -math.inf, -math.inf]


def test_the_gaussian_has_the_moments_of_the_data():
    data = correlated()
    assert GAUSSIAN.mean.tolist() == pytest.approx(data.mean(0).tolist())
    covariance = np.cov(data.T.numpy(), bias=True)
    np.testing.assert_allclose(GAUSSIAN.factor @ GAUSSIAN.factor.T, covariance, rtol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("value", [0.0, 0.1, -1e-3, 7.3, 1e8, -1e8])
def test_a_channel_without_spread_gets_one(value, dtype):
    data = noise(1000, 2, dtype=dtype)
    data[:, 1] = value
    size = max(1.0, abs(value))
    box, gaussian = UniformBox.around(data), Gaussian.of(data)
    assert (box.high - box.low)[1].item() == pytest.approx(size, rel=1e-5)
    assert gaussian.factor[1, 1].item() == pytest.approx(size, rel=1e-5)
    assert gaussian.factor[0, 0].item() == pytest.approx(1.0, abs=0.1)
    for density in (box, gaussian):
        assert bool(torch.isfinite(density.log_density(data)).all())
        draws = density.sample((50,), seeded())
        assert bool(torch.isfinite(density.log_density(draws)).all())
        assert len(draws[:, 1].unique()) > 30


def test_a_small_spread_is_not_taken_for_none():
    data = 1e-6 * noise(1000, 1) + 5.0
    assert Gaussian.of(data).factor.item() == pytest.approx(1e-6, rel=0.1)
    box = UniformBox.around(data)
    assert (box.high - box.low).item() < 1e-5


def test_a_single_point_is_enough():
    for density in (UniformBox.around(tensor([2.0, 0.0])), Gaussian.of(tensor([2.0, 0.0]))):
        assert math.isfinite(density.log_density(tensor(2.0, 0.0)).item())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("scale", [1.0, -1e6, 1e-6])
def test_channels_may_copy_each_other(scale, dtype):
    column = noise(500, 1, dtype=dtype)
    data = torch.cat([column, scale * column, column], 1)
    gaussian = Gaussian.of(data)
    assert bool(torch.isfinite(gaussian.factor).all())
    draws = gaussian.sample((200,), seeded())
    assert bool(torch.isfinite(gaussian.log_density(draws)).all())
    # for any standard normal e: log q(mean + factor e) = -|e|^2 / 2 - log det(factor) - 3/2 log(2 pi)
    mean_square = -2 * (gaussian.log_density(draws) - gaussian.log_density(gaussian.mean)).double()
    assert mean_square.mean().item() == pytest.approx(3.0, abs=0.6)
    assert np.corrcoef(draws.double().T.numpy())[0, 1] * np.sign(scale) > 0.999


def test_gradients_reach_the_conditional_density_and_no_fitted_one():
    data = noise(4, 2).requires_grad_()
    assert not UniformBox.around(data).low.requires_grad
    assert not Gaussian.of(data).mean.requires_grad
    mean, std = data, (data.detach().abs() + 0.5).requires_grad_()
    GaussianGivenPast(mean, std).log_density(noise(4, 3, 2, seed=1)).sum().backward()
    assert bool((mean.grad != 0).all())
    assert bool((std.grad != 0).all())


def test_a_density_without_contexts():
    density = GaussianGivenPast(tensor(1.0, 2.0), tensor(1.0, 1.0))
    draws = density.sample((7,), seeded())
    assert density.log_density(draws).shape == (7,)


@pytest.mark.parametrize("fit", [UniformBox.around, Gaussian.of])
def test_data_that_cannot_be_fitted_are_refused(fit):
    with pytest.raises(TreetError, match=r"Got shape \(2, 1\) with 1 values that are not finite"):
        fit(tensor([1.0], [math.nan]))
    with pytest.raises(TreetError, match=r"Got shape \(1, 2\) with 2 values that are not finite"):
        fit(tensor([math.inf, -math.inf]))
    for shape in [(0, 2), (3,), (3, 0)]:
        with pytest.raises(TreetError, match="at least one point") as error:
            fit(torch.zeros(shape))
        assert f"Got shape {shape}" in str(error.value)


def test_impossible_densities_are_refused():
    for low, high in [([0.0, 1.0], [1.0, 1.0]), ([0.0], [1.0, 2.0]), ([math.nan], [1.0])]:
        with pytest.raises(TreetError, match="each low below its high"):
            UniformBox(tensor(*low), tensor(*high))
    for factor in ([[0.0]], [[-1.0]], [[math.nan]], [[1.0, 0.0], [0.0, 1.0]]):
        with pytest.raises(TreetError, match="positive diagonal"):
            Gaussian(tensor(0.0), tensor(*factor))
    with pytest.raises(TreetError, match="lower triangular factor"):
        Gaussian(tensor(0.0, 0.0), tensor([1.0, 0.5], [0.0, 1.0]))
    with pytest.raises(TreetError, match="with 2 values of std that are not positive"):
        GaussianGivenPast(torch.zeros(3), tensor(1.0, 0.0, math.nan))
    with pytest.raises(TreetError, match=r"Got shapes \(3,\) and \(2,\)"):
        GaussianGivenPast(torch.zeros(3), torch.ones(2))


def test_points_that_do_not_fit_are_refused():
    for density in (BOX, GAUSSIAN, given_past()):
        with pytest.raises(
            TreetError, match=r"y must have 2 channels on its last axis. Got shape \(3, 4, 1\)"
        ):
            density.log_density(torch.zeros(3, 4, 1))
    for call in (lambda d: d.log_density(torch.zeros(4, 3, 2)), lambda d: d.sample((4, 3), seeded())):
        with pytest.raises(TreetError, match=r"contexts of shape \(3,\), .* Got \(4,\) instead"):
            call(given_past())


def test_the_examples_in_the_docstrings_hold():
    assert doctest.testmod(treet.reference).failed == 0
