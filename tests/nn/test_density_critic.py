"""The default critic: normalised, causal in its channels, and the mixture as written."""

import math

import pytest
import torch

from treet.nn.density_critic import DOUBT, NETWORK, DensityCritic, _log_mixture, _with_doubt

SHAPES = {"target": (3, 2), "source": (4, 1), "condition": (2, 3)}
CHANNELS = 2


def noise(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def pasts(batch, shapes=SHAPES, seed=1):
    return {
        role: noise(batch, *shape, seed=seed + place) for place, (role, shape) in enumerate(shapes.items())
    }


def make(shapes=SHAPES, base=None, seed=0):
    """A critic in float64 with all weights drawn, linear experts and one split, so that nothing vanishes."""
    critic = DensityCritic(shapes, CHANNELS, heads=3, width=7, base=base).double()
    critic.reset(torch.Generator().manual_seed(seed))
    with torch.no_grad():
        for place, weights in enumerate(critic.parameters()):
            if weights.requires_grad:
                weights.add_(0.3 * noise(*weights.shape, seed=place))
        known = critic.anchor.coefficients.shape[1] - CHANNELS
        for part, place in ((critic.anchor.coefficients, 50), (critic.regimes.coefficients, 51)):
            part.copy_(0.2 * noise(*part.shape, seed=place))
            for channel in range(CHANNELS):
                part[channel, ..., known + channel :] = 0
        critic.regimes.variable[:, 0] = 2
        critic.regimes.shares[:, 0, 0] = 1.0
    return critic


def test_the_mixture_is_that_of_the_equation():
    outputs, residual = noise(5, 2, 9), noise(5, 2, seed=1)
    found = _log_mixture(residual, outputs, 3)
    logits, means, scales = outputs[..., :3], outputs[..., 3:6], outputs[..., 6:].exp()
    normals = torch.distributions.Normal(means, scales).log_prob(residual[..., None]).exp()
    torch.testing.assert_close(found, ((logits.softmax(-1) * normals).sum(-1)).log())


@pytest.mark.parametrize("with_base", [False, True])
@pytest.mark.parametrize("chosen", [NETWORK, 0])
def test_every_channel_is_normalised_for_every_context(with_base, chosen):
    base = make({"target": (3, 2)}, seed=3) if with_base else None
    critic = make(base=base)
    critic.chosen.fill_(chosen)
    grid = torch.linspace(-180, 180, 72_001, dtype=torch.float64)
    context, present = pasts(1), noise(1, CHANNELS, seed=9)
    for channel in range(CHANNELS):
        rows = present.expand(len(grid), -1).clone()
        rows[:, channel] = grid
        same = {role: past.expand(len(grid), -1, -1) for role, past in context.items()}
        with torch.no_grad():
            density = critic.log_density(same, rows)[:, channel].exp()
        assert torch.trapezoid(density, grid).item() == pytest.approx(1.0, abs=1e-6)


def test_a_channel_sees_the_channels_before_it_and_no_later_one():
    critic, context = make(), pasts(1)
    present = noise(1, CHANNELS, seed=9)
    found = torch.autograd.functional.jacobian(
        lambda values: critic.log_density(context, values, critic.predict(context, present))[0], present
    )[:, 0]
    assert found[0, 1] == 0
    assert found[1, 0] != 0
    changed = present.clone()
    changed[0, 1] += 1
    with torch.no_grad():
        assert critic.log_density(context, present)[0, 0] == critic.log_density(context, changed)[0, 0]


def test_every_value_inside_the_lags_can_matter_and_windows_do_not_mix():
    """Outside the lags there is nothing: a past holds the values at its lags alone (see test_series)."""
    critic, context, present = make(), pasts(2), noise(2, CHANNELS, seed=9)
    for role, past in context.items():
        found = torch.autograd.functional.jacobian(
            lambda values, role=role: critic({**context, role: values}, present), past
        )
        for row in range(2):
            assert (found[row, 1 - row] == 0).all()
            assert (found[row, row] != 0).all()


def test_the_experts_alone_are_the_regimes_and_the_base():
    base = make({"target": (3, 2)}, seed=3)
    critic, context, present = make(base=base), pasts(6), noise(6, CHANNELS, seed=9)
    assert critic.n_experts == 2
    predicted = critic.predict(context, present)
    critic.chosen.fill_(0)
    torch.testing.assert_close(critic.log_density(context, present), predicted[..., 3])
    critic.chosen.fill_(1)
    torch.testing.assert_close(critic.log_density(context, present), base.log_density(context, present))


def test_the_network_starts_near_the_experts():
    """A fresh network costs at most the share that the gates give it."""
    critic = DensityCritic(SHAPES, CHANNELS).double()
    critic.reset(torch.Generator().manual_seed(0))
    context, present = pasts(500), noise(500, CHANNELS, seed=9)
    with torch.no_grad():
        network = critic(context, present)
        critic.chosen.fill_(0)
        expert = critic(context, present)
    assert (expert - network).mean() < 0.2 * CHANNELS
    assert (network > expert + math.log(1 / (1 + math.exp(2))) * CHANNELS - 0.5).all()


def test_the_base_is_not_trained():
    base = make({"target": (3, 2)}, seed=3)
    critic = make(base=base)
    critic(pasts(4), noise(4, CHANNELS, seed=9)).sum().backward()
    assert all(weights.grad is None for weights in base.parameters())
    assert all(weights.grad is not None for name, weights in critic.named_parameters() if "base" not in name)


def test_a_known_prediction_changes_nothing():
    critic, context, present = make(), pasts(4), noise(4, CHANNELS, seed=9)
    known = critic.predict(context, present)
    torch.testing.assert_close(
        critic.log_density(context, present, known), critic.log_density(context, present)
    )


def test_attention_weights_are_those_of_the_streams():
    weights = make().attention(pasts(4))
    assert {role: tuple(found.shape) for role, found in weights.items()} == {
        "target": (4, 3, 3),
        "source": (4, 3, 4),
        "condition": (4, 2, 2),
    }
    for found in weights.values():
        torch.testing.assert_close(found.sum(-1), torch.ones(found.shape[:-1]).double())


def test_the_splitters_are_the_newest_values_of_every_series():
    critic = DensityCritic({"target": (300, 1), "source": (2, 1)}, 1)
    columns = critic.splitters().tolist()
    assert columns == [*range(301 - 64, 301), 301, 302]


@pytest.mark.parametrize("chosen", [NETWORK, 0])
def test_an_artefact_costs_no_more_than_the_logarithm_of_its_distance(chosen):
    critic = make()
    critic.chosen.fill_(chosen)
    present = torch.full((1, CHANNELS), 60.0, dtype=torch.float64)
    with torch.no_grad():
        found = critic.log_density(pasts(1), present)
    assert (found > math.log(DOUBT / 4) - 0.5 * 2**2 - math.log(30) - 1).all()


def test_doubt_costs_next_to_nothing_where_there_is_no_artefact():
    """The mean of log p - log((1 - d) p + d b) is at most -log(1 - d), whatever b."""
    grid = torch.linspace(-12, 12, 4001, dtype=torch.float64)
    log_p = -0.5 * grid.square() - 0.5 * math.log(2 * math.pi)
    loss = (log_p.exp() * (log_p - _with_doubt(log_p, grid))).sum() * (grid[1] - grid[0])
    assert 0 < loss.item() < DOUBT / 2
