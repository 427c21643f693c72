"""The one training loop, on a least squares problem whose solution is known."""

import math
from dataclasses import replace

import pytest
import torch
from torch import nn

from treet.errors import TreetError
from treet.training import Schedule, train

N_ITEMS = 256
NOISE = 0.1
CYCLES = Schedule(epochs=100, batch_size=32, learning_rate=0.05, first_epochs=4)
CONSTANT = Schedule(
    epochs=80, batch_size=32, learning_rate=0.02, stop="no change", validations=80, patience=5
)
SCHEDULES = pytest.mark.parametrize("schedule", [CYCLES, CONSTANT], ids=["no improvement", "no change"])


class LeastSquares:
    """A linear model, its data, and the loss of a batch and of the held-out half."""

    def __init__(self, noise=NOISE, seed=0):
        generator = torch.Generator().manual_seed(seed)
        self.inputs = torch.randn(2 * N_ITEMS, 3, generator=generator)
        added = noise * torch.randn(2 * N_ITEMS, 1, generator=generator)
        self.outputs = self.inputs @ torch.tensor([[1.0], [-2.0], [0.5]]) + 0.3 + added
        self.model = nn.Linear(3, 1)
        nn.init.zeros_(self.model.weight)
        nn.init.zeros_(self.model.bias)
        self.validation_steps = 0

    def loss(self, items):
        return (self.model(self.inputs[items]) - self.outputs[items]).square().mean()

    def validate(self):
        self.validation_steps += 1
        with torch.no_grad():
            return self.loss(torch.arange(N_ITEMS, 2 * N_ITEMS)).item()

    def train(self, schedule, seed=0, **options):
        generator = torch.Generator().manual_seed(seed)
        return train(
            self.model,
            lambda items: (self.loss(items),),
            self.validate,
            torch.arange(N_ITEMS),
            schedule,
            generator,
            **options,
        )

    def weights(self):
        return torch.cat([self.model.weight[0], self.model.bias]).detach()

    def solution(self):
        """The least squares solution on the training items."""
        design = torch.cat([self.inputs, torch.ones(2 * N_ITEMS, 1)], 1)[:N_ITEMS].double()
        return torch.linalg.lstsq(design, self.outputs[:N_ITEMS].double()).solution[:, 0].float()


@SCHEDULES
def test_it_finds_the_least_squares_solution_and_says_that_it_converged(schedule):
    problem = LeastSquares()
    history = problem.train(schedule)
    torch.testing.assert_close(problem.weights(), problem.solution(), rtol=0, atol=0.03)
    assert history.converged
    assert history.validation[-1] < 1.5 * NOISE**2
    assert history.train[-1] < 1.5 * NOISE**2
    assert history.train[0] > 10 * history.train[-1]


@SCHEDULES
def test_it_stops_when_settled_well_before_its_limit(schedule):
    history = LeastSquares().train(schedule)
    assert history.step[-1] < 0.75 * schedule.most_steps(N_ITEMS)


@SCHEDULES
def test_the_generator_decides_everything(schedule):
    first, again, other = LeastSquares(), LeastSquares(), LeastSquares()
    torch.manual_seed(1)
    history = first.train(schedule, seed=5)
    torch.manual_seed(2)
    assert again.train(schedule, seed=5) == history
    assert torch.equal(again.weights(), first.weights())
    assert other.train(schedule, seed=6) != history


@SCHEDULES
def test_the_global_generator_is_left_alone(schedule):
    problem = LeastSquares()
    before = torch.get_rng_state()
    problem.train(schedule)
    assert torch.equal(torch.get_rng_state(), before)


@SCHEDULES
@pytest.mark.parametrize("epochs", [1, 3, 7, 100])
def test_what_advance_is_told_adds_up_to_one(schedule, epochs):
    shares = []
    LeastSquares().train(replace(schedule, epochs=epochs), advance=shares.append)
    assert min(shares) >= 0
    assert sum(shares) == pytest.approx(1.0, abs=1e-9)


@SCHEDULES
def test_what_advance_raises_ends_the_training(schedule):
    steps = []

    def interrupt(share):
        steps.append(share)
        if len(steps) == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        LeastSquares().train(schedule, advance=interrupt)
    assert len(steps) == 3


@SCHEDULES
def test_at_its_step_limit_it_says_that_it_has_not_converged(schedule):
    problem = LeastSquares()
    history = problem.train(replace(schedule, epochs=2, learning_rate=1e-3))
    assert not history.converged
    assert history.step[-1] == 2 * N_ITEMS // 32 == schedule.batch(N_ITEMS) // 2


@SCHEDULES
@pytest.mark.parametrize("epochs", [1, 5, 11])
def test_it_never_trains_for_more_than_its_epochs(schedule, epochs):
    history = LeastSquares().train(replace(schedule, epochs=epochs, tolerance=-math.inf))
    assert history.step[-1] == epochs * N_ITEMS // 32
    assert not history.converged


@SCHEDULES
def test_the_history_speaks_of_the_validations(schedule):
    problem = LeastSquares()
    history = problem.train(schedule, label="critic of Y")
    assert history.label == "critic of Y"
    assert len(history.step) == len(history.train) == len(history.validation) == problem.validation_steps
    assert list(history.step) == sorted(set(history.step))
    assert history.best_step in history.step


def test_cycles_keep_the_weights_that_validated_best():
    problem = LeastSquares()
    history = problem.train(CYCLES)
    best = min(history.validation)
    assert problem.validate() == best
    assert history.best_step == history.step[history.validation.index(best)]


def test_cycles_keep_the_best_weights_even_when_training_makes_them_worse():
    """The training loss leads away from what the validation likes, at all times."""
    problem = LeastSquares()
    problem.validate = lambda: problem.model.weight.square().sum().item()
    history = problem.train(CYCLES)
    assert history.best_step == history.step[0]
    assert problem.validate() == history.validation[0] < max(history.validation)


def test_each_cycle_is_twice_as_long_as_the_one_before_and_starts_from_the_best_weights():
    problem, losses = LeastSquares(), []
    plain = problem.loss

    def loss(items):
        losses.append(problem.weights())
        return plain(items)

    problem.loss = loss
    problem.validate = lambda: -float(len(losses)) if len(losses) < 30 else 0.0
    history = problem.train(replace(CYCLES, first_epochs=1, validations=1, tolerance=-math.inf, epochs=7))
    # 256 items in batches of 32: cycles of 8, 16 and 32 steps, the best weights being those after step 24
    assert history.step == (8, 24, 56)
    assert history.best_step == 24
    assert torch.equal(problem.weights(), losses[24])


def test_the_last_cycle_is_cut_where_the_epochs_end():
    history = LeastSquares().train(replace(CYCLES, first_epochs=1, epochs=5, tolerance=-math.inf))
    assert history.step[-1] == 5 * N_ITEMS // 32


def test_without_change_the_last_weights_are_kept():
    problem = LeastSquares()
    history = problem.train(replace(CONSTANT, learning_rate=0.1))
    assert problem.validate() == history.validation[-1]
    assert history.best_step == history.step[-1]


def test_without_change_it_stops_after_as_many_like_values_as_its_patience():
    problem = LeastSquares()
    values = iter([9.0, 5.0, 3.0, 2.0, 2.05, 1.95, 2.0, 2.0, 2.0, 2.0, 2.0])
    problem.validate = lambda: next(values)
    history = problem.train(replace(CONSTANT, patience=4, tolerance=0.2))
    assert history.validation == (9.0, 5.0, 3.0, 2.0, 2.05, 1.95, 2.0)
    assert history.converged


def test_a_cycle_that_improves_less_than_the_tolerance_is_the_last():
    problem = LeastSquares()
    values = iter([4.0, 3.0, 2.5, 2.45, 1.0])
    problem.validate = lambda: next(values)
    history = problem.train(replace(CYCLES, first_epochs=1, validations=1, tolerance=0.1))
    assert history.validation == (4.0, 3.0, 2.5, 2.45)
    assert history.converged


@SCHEDULES
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_validation_that_is_not_finite_is_an_error(schedule, value):
    problem = LeastSquares()
    problem.validate = lambda: value
    with pytest.raises(
        TreetError, match=r"diverged at step \d+: the loss is not finite. Lower learning_rate"
    ):
        problem.train(schedule)


@SCHEDULES
def test_a_training_loss_that_is_not_finite_is_an_error(schedule):
    problem = LeastSquares()
    problem.outputs[:N_ITEMS] = math.nan
    with pytest.raises(TreetError, match="diverged at step"):
        problem.train(schedule)


def test_frozen_weights_are_not_trained():
    problem = LeastSquares()
    problem.model.bias.requires_grad_(False)
    problem.train(CYCLES)
    assert problem.model.bias.item() == 0.0
    assert problem.model.weight.abs().min() > 0.1


@pytest.mark.parametrize(("clip", "expected"), [(1.0, 1.0), (None, 1e6)])
def test_gradients_are_clipped_where_the_schedule_says_so(clip, expected):
    problem = LeastSquares()
    problem.outputs *= 1e6
    problem.train(replace(CYCLES, clip=clip, epochs=1))
    last = torch.cat([weight.grad.flatten() for weight in problem.model.parameters()]).norm().item()
    assert last == pytest.approx(expected, rel=1e-3) if clip else last > expected


def test_batches_grow_with_the_items_unless_their_size_is_given():
    free, fixed = Schedule(1, None, 0.1), Schedule(1, 100, 0.1)
    assert [free.batch(n) for n in (10, 300, 50_000, 10**7)] == [10, 256, 781, 1024]
    assert [fixed.batch(n) for n in (10, 300, 10**7)] == [10, 100, 100]


def test_items_are_what_the_loss_is_given():
    problem, seen = LeastSquares(), set()
    plain = problem.loss

    def loss(items):
        seen.update(items.tolist())
        return (plain(items),)

    items = torch.tensor([3, 14, 15, 92, 65])
    schedule = Schedule(epochs=20, batch_size=4, learning_rate=0.01)
    train(problem.model, loss, problem.validate, items, schedule, torch.Generator().manual_seed(0))
    assert seen == set(items.tolist())
