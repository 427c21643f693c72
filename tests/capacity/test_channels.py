"""Every channel: its law against theory, its steps against whole sequences, capacities against the table."""

from __future__ import annotations

import inspect
import math
from itertools import product

import numpy as np
import pytest
import torch
from scipy.signal import lfilter
from scipy.stats import poisson

from treet.capacity.channels import Channel
from treet.capacity.discrete_channels import (
    BinaryErasure,
    BinarySymmetric,
    FiniteState,
    Ising,
    Optical,
    Trapdoor,
)
from treet.capacity.gaussian_channels import (
    ARMA,
    AWGN,
    AutoRegressive,
    ColouredNoise,
    DelayedTap,
    MovingAverage,
    Saturating,
)
from treet.capacity.mass_points import amplitude_capacity
from treet.capacity.own_channel import check_channel
from treet.capacity.registry import CHANNELS, make_channel
from treet.errors import TreetError

DOUBLE = torch.float64

COLOURED: list[ColouredNoise] = [
    MovingAverage((0.5,), variance=2.0),
    MovingAverage((0.4, -0.3, 0.8)),
    AutoRegressive((0.5,)),
    AutoRegressive((0.9, -0.8), variance=0.5),
    ARMA((0.5,), (0.6, 0.2)),
    DelayedTap(0.7, delay=5),
]
CONTINUOUS: list[Channel] = [AWGN(), AWGN(3, 2.0), AWGN(peak=2.0), *COLOURED, Saturating(0.8, 2.0, 0.3)]
DISCRETE: list[FiniteState] = [
    BinarySymmetric(0.2),
    BinaryErasure(0.3),
    BinarySymmetric(0.2, no_two_ones=True),
    BinaryErasure(0.3, no_two_ones=True),
    Trapdoor(),
    Ising(),
]
ALL: list[Channel] = [*CONTINUOUS, *DISCRETE, Optical()]

# dB: white, MA without and with feedback, AR without and with feedback; nats.
TABLE = {
    -20: (0.004975, 0.016153, 0.018909, 0.010405, 0.011045),
    -15: (0.015567, 0.042315, 0.054051, 0.030294, 0.033638),
    -10: (0.047655, 0.099640, 0.136724, 0.081892, 0.095925),
    -5: (0.137385, 0.210039, 0.294675, 0.197570, 0.239392),
    0: (0.346574, 0.405465, 0.546191, 0.413427, 0.496815),
    5: (0.713031, 0.742196, 0.895358, 0.751551, 0.864477),
    10: (1.198948, 1.210184, 1.329502, 1.213874, 1.314713),
    15: (1.742505, 1.746322, 1.824237, 1.747588, 1.818311),
}


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def random_inputs(channel: Channel, length: int, batch: int, seed: int = 1) -> torch.Tensor:
    """Inputs that every channel accepts: symbols with a zero between ones, or values in the range."""
    shape = (length, batch, channel.input_dim)
    if channel.input_symbols is not None:
        drawn = torch.randint(2, shape, generator=seeded(seed))
        drawn[1::2] = 0
        return drawn
    low, high = channel.input_range or (-2.0, 2.0)
    return low + (high - low) * torch.rand(shape, generator=seeded(seed), dtype=DOUBLE)


@pytest.mark.parametrize("decibel", TABLE)
def test_capacities_of_the_exact_table(decibel: int) -> None:
    power = 10 ** (decibel / 10)
    ma, ar = MovingAverage((0.5,)), AutoRegressive((0.5,))
    found = [AWGN().capacity(power)]
    found += [channel.capacity(power, feedback) for channel in (ma, ar) for feedback in (False, True)]
    np.testing.assert_allclose(found, TABLE[decibel], atol=6e-7)


def test_ceilings_of_the_long_delay() -> None:
    channel = DelayedTap()
    memories = (0, 60, 99, 100, 140, 199, 200, 299, 300, 399)
    expected = [0.293893] * 3 + [0.381070] * 3 + [0.399548] * 2 + [0.403997] * 2
    np.testing.assert_allclose([channel.ceiling(m, 1.0) for m in memories], expected, atol=1e-6)
    assert channel.capacity(1.0) == pytest.approx(math.log(1.5), abs=1e-9)
    assert channel.capacity(1.0, feedback=True) == pytest.approx(0.546191, abs=1e-6)
    whole = MovingAverage((0.0, 0.5)), DelayedTap(0.5, delay=2)
    for memory in range(5):
        assert whole[0].ceiling(memory, 0.3) == pytest.approx(whole[1].ceiling(memory, 0.3), abs=1e-8)
    assert whole[0].capacity(0.3) == pytest.approx(whole[1].capacity(0.3), abs=1e-9)


def test_ceilings_of_other_channels() -> None:
    assert AutoRegressive((0.5,)).ceiling(1, 10**-0.5) == pytest.approx(0.2272, abs=5e-5)
    for memory, feedback in product((0, 3), (False, True)):
        assert AWGN().ceiling(memory, 1.0, feedback) == AWGN().capacity(1.0)
        assert BinaryErasure(0.2).ceiling(memory, feedback=feedback) == pytest.approx(0.8 * math.log(2))
    assert MovingAverage().ceiling(3, 1.0, feedback=True) is None
    assert Trapdoor().ceiling(3, feedback=True) is None


def test_capacities_that_are_known_and_not() -> None:
    assert AWGN(10).capacity(1.0) == pytest.approx(10 * 0.346574, abs=1e-5)
    assert AWGN(2, variance=2.0, peak=1.0).capacity() == pytest.approx(2 * amplitude_capacity(1.0).value)
    assert AWGN(peak=2.0).capacity(1.0) == amplitude_capacity(2.0, power=1.0).value
    assert AWGN(2, peak=1.0).capacity(1.0) is None
    assert Saturating().capacity(1.0) is None
    assert MovingAverage((0.5, 0.2)).capacity(1.0, feedback=True) is None
    assert MovingAverage((0.5, 0.0)).capacity(1.0, feedback=True) == pytest.approx(0.546191, abs=1e-6)
    assert ARMA((0.5,), (-0.5,)).capacity(1.0) == pytest.approx(AWGN().capacity(1.0))
    assert Trapdoor().capacity() is None
    assert Trapdoor().capacity(feedback=True) == pytest.approx(0.694242 * math.log(2), abs=1e-6)
    assert Ising().capacity(feedback=True) == pytest.approx(0.5755 * math.log(2), abs=1e-4)
    assert BinarySymmetric(0.2, no_two_ones=True).capacity() is None
    assert BinaryErasure(0.0, no_two_ones=True).capacity(feedback=True) == pytest.approx(0.481212, abs=1e-6)


@pytest.mark.parametrize("channel", COLOURED, ids=str)
def test_the_noise_is_stationary_with_the_autocovariances_of_theory(channel: ColouredNoise) -> None:
    """Over the batch, at every time: the first step is as stationary as the last."""
    z = channel.transmit(torch.zeros(9, 40_000, 1, dtype=DOUBLE), seeded())[..., 0].numpy()
    expected = channel.noise.autocovariances(8)
    found = z @ z.T / z.shape[1]
    for i, j in product(range(9), repeat=2):
        assert abs(found[i, j] - expected[abs(i - j)]) < 6 * 1.5 * expected[0] / math.sqrt(z.shape[1])
    assert abs(z.mean()) < 6 * math.sqrt(expected.sum() * 2 / z.size)


@pytest.mark.parametrize("channel", COLOURED, ids=str)
def test_the_empirical_spectrum(channel: ColouredNoise) -> None:
    z = channel.transmit(torch.zeros(256, 2000, 1, dtype=DOUBLE), seeded())[..., 0].numpy()
    window = np.hanning(256)[:, None]
    periodogram = (np.abs(np.fft.rfft(window * z, axis=0)) ** 2).mean(axis=1) / (window**2).sum()
    expected = channel.noise.spectrum(2 * np.pi * np.arange(129) / 256)
    assert np.abs(np.log(periodogram[4:-4] / expected[4:-4])).max() < 0.2


@pytest.mark.parametrize("channel", COLOURED, ids=str)
def test_the_steps_are_a_filter_of_the_whole_sequence(channel: ColouredNoise) -> None:
    x = random_inputs(channel, 40, 3)
    noise = channel.sample_noise(40, 3, seeded(5), DOUBLE)
    state = tuple(torch.zeros(3, len(c), dtype=DOUBLE) for c in (channel.noise.ar, channel.noise.ma))
    outputs = []
    for x_t, noise_t in zip(x, noise, strict=True):
        y_t, state = channel.step(x_t, state, noise_t)
        outputs.append(y_t.numpy())
    innovations = math.sqrt(channel.noise.variance) * noise.numpy()
    z = lfilter([1, *channel.noise.ma], [1, *(-a for a in channel.noise.ar)], innovations, axis=0)
    np.testing.assert_allclose(np.array(outputs), x.numpy() + z, atol=1e-12)


def test_white_noise_shares_its_variance_over_the_components() -> None:
    z = (
        AWGN(4, variance=2.0)
        .transmit(torch.zeros(5, 20_000, 4, dtype=DOUBLE), seeded())
        .reshape(-1, 4)
        .numpy()
    )
    np.testing.assert_allclose(np.cov(z.T), 0.5 * np.eye(4), atol=0.01)


def test_the_saturating_channel_by_its_formula() -> None:
    channel = Saturating(echo=0.7, limit=1.5, variance=0.3)
    x = random_inputs(channel, 30, 4)
    noise = channel.sample_noise(30, 4, seeded(2), DOUBLE)
    y, state = [], channel.initial_state(4, seeded(), DOUBLE)
    for x_t, noise_t in zip(x, noise, strict=True):
        y_t, state = channel.step(x_t, state, noise_t)
        y.append(y_t)
    before = torch.cat([torch.zeros_like(x[:1]), x[:-1]])
    expected = 1.5 * torch.tanh((x + 0.7 * before) / 1.5) + math.sqrt(0.3) * noise
    torch.testing.assert_close(torch.stack(y), expected)


@pytest.mark.parametrize("channel", DISCRETE, ids=str)
def test_discrete_steps_follow_their_tables(channel: FiniteState) -> None:
    n, law = 60_000, channel.law
    for s, x in zip(*np.nonzero(law.allowed), strict=True):
        state, inputs = (torch.full((n,), s),), torch.full((n, 1), x)
        y, (following,) = channel.step(inputs, state, channel.sample_noise(1, n, seeded(int(2 * s + x)))[0])
        found = np.bincount(y[:, 0].numpy(), minlength=channel.output_symbols) / n
        np.testing.assert_allclose(found, law.probabilities[s, x], atol=0.011)
        np.testing.assert_array_equal(following.numpy(), law.next_state[s, x][y[:, 0].numpy()])


def test_discrete_channels_by_their_stories() -> None:
    """Sequences drawn step by step against the words that define the channels."""
    x = torch.randint(2, (500, 20, 1), generator=seeded(3))
    ising = Ising().transmit(x, seeded(4))
    before = torch.cat([torch.zeros_like(x[:1]), x[:-1]])
    assert bool(((ising == x) | (ising == before)).all())
    assert abs(float((ising == x)[x != before].float().mean()) - 0.5) < 0.03
    # The balls that went in and came out differ by the one that is inside.
    inside = (x - Trapdoor().transmit(x, seeded(4))).cumsum(dim=0)
    assert set(inside.unique().tolist()) == {0, 1}
    erased = BinaryErasure(0.3).transmit(x, seeded(4))
    assert bool((erased == x)[erased != 2].all())
    assert abs(float((erased == 2).float().mean()) - 0.3) < 0.03
    assert torch.equal(BinarySymmetric(1.0).transmit(x, seeded(4)), 1 - x)


def test_no_two_ones_is_enforced() -> None:
    channel = BinarySymmetric(0.1, no_two_ones=True)
    state = channel.initial_state(2, seeded())
    assert channel.allowed(state).tolist() == [[True, True]] * 2
    noise = channel.sample_noise(2, 2, seeded())
    _, state = channel.step(torch.tensor([[1], [0]]), state, noise[0])
    assert channel.allowed(state).tolist() == [[True, False], [True, True]]
    channel.step(torch.tensor([[0], [1]]), state, noise[1])
    with pytest.raises(TreetError, match="breaks its constraint"):
        channel.step(torch.tensor([[1], [0]]), state, noise[1])


def test_photons_are_poisson() -> None:
    channel = Optical(peak=6.0, dark=0.5)
    for intensity in (0.0, 2.0, 6.0):
        y = channel.transmit(torch.full((1, 100_000, 1), intensity), seeded())[0, :, 0].numpy()
        found = np.bincount(y.astype(int), minlength=40)[:40] / len(y)
        np.testing.assert_allclose(found, poisson.pmf(np.arange(40), intensity + 0.5), atol=0.007)
    dark = Optical(peak=6.0, dark=0.0)
    assert bool((dark.transmit(torch.zeros(3, 5, 1), seeded()) == 0).all())
    x = torch.tensor([[1.5]], dtype=DOUBLE, requires_grad=True)
    probabilities = channel.output_probabilities(x, ())
    assert float(probabilities.detach().sum()) == pytest.approx(1.0, abs=1e-9)
    (slope,) = torch.autograd.grad((probabilities * torch.arange(probabilities.shape[1])).sum(), x)
    assert float(slope) == pytest.approx(1.0, abs=1e-6)


@pytest.mark.parametrize("channel", ALL, ids=str)
def test_a_seed_gives_the_same_outputs_and_the_inputs_stay(channel: Channel) -> None:
    x = random_inputs(channel, 11, 7)
    kept = x.clone()
    y = channel.transmit(x, seeded(3))
    assert y.shape == (11, 7, channel.output_dim)
    assert torch.equal(x, kept)
    assert torch.equal(y, channel.transmit(x, seeded(3)))
    assert not torch.equal(y, channel.transmit(x, seeded(4)))
    if channel.output_symbols is not None:
        assert set(y.unique().tolist()) <= set(range(channel.output_symbols))


@pytest.mark.parametrize("channel", ALL, ids=str)
def test_an_output_depends_on_no_later_input(channel: Channel) -> None:
    x = random_inputs(channel, 12, 5)
    changed = x.clone()
    changed[6:] = random_inputs(channel, 12, 5, seed=9)[6:]
    torch.testing.assert_close(channel.transmit(x, seeded())[:6], channel.transmit(changed, seeded())[:6])


@pytest.mark.parametrize("channel", CONTINUOUS, ids=str)
def test_gradients_are_those_of_finite_differences(channel: Channel) -> None:
    x = (0.5 * random_inputs(channel, 4, 2)).requires_grad_()
    assert torch.autograd.gradcheck(lambda x: channel.transmit(x, seeded(1)), (x,))


@pytest.mark.parametrize("channel", ALL, ids=str)
def test_every_channel_passes_the_checks_of_a_users_channel(channel: Channel) -> None:
    check_channel(channel)


def test_every_channel_is_registered_once() -> None:
    assert list(CHANNELS) == [
        "awgn", "ma", "ar", "arma", "delayed-tap", "saturating", "optical", "bsc", "bec", "trapdoor", "ising",
    ]  # fmt: skip
    for name, kind in CHANNELS.items():
        channel = make_channel(name)
        assert type(channel) is kind and channel == kind() and hash(channel) == hash(kind())
        assert not inspect.isabstract(kind) and kind.summary
        assert channel.differentiable == (channel in (*CONTINUOUS, *map(make_channel, list(CHANNELS)[:6])))
    assert make_channel("ma", coefficients=[0.3]) == MovingAverage((0.3,))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: make_channel("gma"), "There is no channel 'gma'. Choose one of awgn, ma,"),
        (lambda: make_channel("bsc", p=0.1), "Channel 'bsc' has no parameter p. Known: flip, no_two_ones."),
        (lambda: make_channel("ising", p=0.1), "Channel 'ising' has no parameter p. Known: none."),
        (lambda: AWGN(0), "dimension must be a whole number of at least 1"),
        (lambda: AWGN(peak=-1.0), "peak must be"),
        (lambda: AutoRegressive((1.2,)), "ar must be stable"),
        (lambda: MovingAverage(0.5), "coefficients must be a sequence of finite numbers. Got 0.5"),
        (lambda: MovingAverage(variance=0.0), "variance must be"),
        (lambda: DelayedTap(delay=0), "delay must be"),
        (lambda: Saturating(limit=0.0), "limit must be"),
        (lambda: BinarySymmetric(2.0), "flip must be a probability"),
        (lambda: Optical(dark=-1.0), "dark must be"),
        (lambda: AWGN().capacity(), "The capacity of 'awgn' depends on the input power. Give power."),
        (lambda: MovingAverage().capacity(-1.0), "power must be a finite number above 0"),
        (lambda: MovingAverage().ceiling(-1, 1.0), "memory must be a whole number of at least 0"),
        (lambda: Trapdoor().capacity(1.0), "The input of 'trapdoor' is made of symbols and has no power."),
        (lambda: Trapdoor().ceiling(1, 1.0), "The input of 'trapdoor' is made of symbols and has no power."),
        (lambda: Optical().capacity(1.0), "The optical channel has no power."),
        (
            lambda: AWGN(peak=1.0).step(torch.tensor([[1.1]]), (), torch.zeros(1, 1)),
            "The input of 'awgn' must be from -1 to 1. Got values from 1.1 to 1.1",
        ),
        (
            lambda: Optical().transmit(torch.tensor([[[math.nan]]]), seeded()),
            "The input of 'optical' must be",
        ),
        (lambda: Ising().transmit(torch.tensor([[[2]]]), seeded()), "The input of 'ising' must be int64"),
        (lambda: Ising().transmit(torch.tensor([[[1.0]]]), seeded()), "The input of 'ising' must be int64"),
    ],
)
def test_bad_input(call: object, message: str) -> None:
    with pytest.raises(TreetError) as caught:
        call()  # type: ignore[operator]
    assert str(caught.value).startswith(message)
