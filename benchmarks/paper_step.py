"""A training step of ``preset="paper"`` against the same step with the published form of the attention.

    python benchmarks/paper_step.py [--only SUBSTRING] [--again] [--quick] [--results DIR]

Both are the same network with the same weights, loss and optimiser; they take turns in one run.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable, Sequence
from typing import cast

import torch
from torch import Tensor, nn

from formatting import Section, count, fixed, table
from harness import Benchmark, Case, Row
from treet.estimators.drawn_pair import reset
from treet.estimators.paper_pair import PaperPair
from treet.estimators.presets import resolve
from treet.lags import Lags
from treet.nn.attention import FixedPastBlock
from treet.nn.paper_critic import PaperCritic, sinusoids
from treet.parallel import run_together
from treet.processes import Threshold
from treet.series import Scaler, Series
from treet.windows import Windows

SAMPLES = 100_000
ROUNDS = range(3)
FOLDS = "treet, two folds at a time"
"""As in an estimate: two trainings side by side, one thread each. A step takes half of the time of one."""
STEPS = {"published form": 3, "treet": 20, FOLDS: 20}
"""How many steps are timed, after one to warm up."""

FASTER = 20
SMALLER = 4
"""What is to be reached: so many times faster, and so many times less memory."""

PUBLISHED = {(30, 1024): {"published_seconds": 3.4, "published_mb": 4100.0}}
"""By memory and batch: the published implementation itself, measured before on two cores."""


class PublishedForm(nn.Module):
    """The layers of ``critic`` in the form of the published code: full products, and copies of the values.

    A sequence of ``L = memory + length`` tokens goes through all layers twice, once with the real present
    values and once with reference draws in their place. Real pass: all ``L x L`` products of queries and
    keys, softmax over the band that the mask leaves, times the values. Reference pass: the drawn tokens'
    queries on the real keys, with the diagonal replaced by the drawn tokens' own products; the values are
    copied ``L`` times, once for every query, so that the drawn token's own value can stand on the diagonal.
    The last ``length`` outputs are scored. Arguments are those of ``PaperCritic``, with one draw.
    """

    def __init__(self, critic: PaperCritic) -> None:
        super().__init__()
        self.critic = critic

    def forward(
        self, tokens_y: Tensor, tokens_other: Tensor | None, reference: Tensor
    ) -> tuple[Tensor, Tensor]:
        memory = self.critic.memory
        # Nothing is drawn in place of the first tokens: their outputs are cut off.
        drawn_y = torch.cat([tokens_y[:, :memory], reference[:, :, 0]], 1)
        real, drawn = self._embedded(tokens_y, tokens_other), self._embedded(drawn_y, tokens_other)
        real_seen, drawn_seen = self._attention(real, drawn)
        real_score, drawn_score = self._scores(real, real_seen), self._scores(drawn, drawn_seen)
        return real_score[:, memory:, 0], drawn_score[:, memory:]

    def _embedded(self, tokens_y: Tensor, tokens_other: Tensor | None) -> Tensor:
        """(batch, L, width)."""
        tokens = tokens_y if tokens_other is None else torch.cat([tokens_y, tokens_other], -1)
        embedded = cast("Tensor", self.critic.embedding(tokens))
        return embedded + sinusoids(*embedded.shape[1:]).to(embedded)

    def _attention(self, real: Tensor, drawn: Tensor) -> tuple[Tensor, Tensor]:
        """(batch, L, width) twice: fixed past causal attention and its modified form."""
        project = self._block.attention.query_key_value
        query, key, value = project(real).chunk(3, -1)
        drawn_query, drawn_key, drawn_value = project(drawn).chunk(3, -1)
        scale, outside = query.shape[-1] ** -0.5, self._outside(real.shape[1])
        scores = (scale * query @ key.mT).masked_fill(outside, -torch.inf)
        own = scale * (drawn_query * drawn_key).sum(-1)
        drawn_scores = torch.diagonal_scatter(scale * drawn_query @ key.mT, own, dim1=1, dim2=2)
        drawn_weights = drawn_scores.masked_fill(outside, -torch.inf).softmax(-1)
        copies = value[:, None].repeat(1, value.shape[1], 1, 1)
        copies = torch.diagonal_scatter(copies, drawn_value.mT, dim1=1, dim2=2)
        return scores.softmax(-1) @ value, torch.einsum("bls,blsd->bld", drawn_weights, copies)

    def _outside(self, length: int) -> Tensor:
        """(L, L): true where the query of a row must not see the key of a column."""
        step = torch.arange(length)
        back = step[:, None] - step
        return (back < 0) | (back > self.critic.memory)

    def _scores(self, tokens: Tensor, seen: Tensor) -> Tensor:
        """(batch, L, 1): Add & Norm, feed-forward, Add & Norm, one score a token."""
        block = self._block
        state = block.attention_norm(tokens + block.attention.output(seen))
        state = block.feedforward_norm(state + block.feedforward(state))
        return cast("Tensor", self.critic.score(state))

    @property
    def _block(self) -> FixedPastBlock:
        return cast("FixedPastBlock", self.critic.transformer.blocks[0])


def make_step(case: Case) -> Callable[[], float]:
    """One training step of both critics, with a batch of its own; it returns the loss."""
    generator = torch.Generator().manual_seed(case["seed"])
    series, starts = _series(case)
    settings = resolve("paper")
    pair = PaperPair(series, settings)
    reset(pair, generator)
    if case["implementation"] == "published form":
        for name in ("y", "xy"):
            setattr(pair, name, PublishedForm(getattr(pair, name)))
    optimiser = torch.optim.Adam(pair.parameters(), settings.schedule.learning_rate)

    def step() -> float:
        drawn = torch.randint(len(starts), (case["batch"],), generator=generator)
        optimiser.zero_grad(set_to_none=True)
        terms = pair._loss(series, starts[drawn], generator)
        if case["implementation"] == "published form":
            terms = iter([torch.stack(list(terms)).sum()])  # both critics at once
        loss = 0.0
        for term in terms:
            term.backward()  # type: ignore[no-untyped-call]
            loss += term.item()
        optimiser.step()
        return loss

    return step


def _series(case: Case) -> tuple[Series, Tensor]:
    """The threshold process as the critics read it, and the windows from which a sequence can start."""
    process = Threshold()
    recording = process.sample(SAMPLES, case["seed"])
    source, target = recording.select(process.source_names), recording.select(process.target_names)
    windows = Windows.of(source, target, None, Lags.from_memory(case["memory"]))
    series = Series(windows, Scaler.of(windows, windows.positions))
    return series, torch.from_numpy(windows.positions[: -PaperPair.sequence + 1])


def measure(case: Case) -> Row:
    published = PUBLISHED.get((case["memory"], case["batch"]), {})
    threads = torch.get_num_threads()
    if case["implementation"] != FOLDS:
        return {"seconds_a_step": timed(make_step(case), case["steps"]), "threads": threads, **published}
    steps = [make_step({**case, "seed": case["seed"] + fold}) for fold in range(2)]
    tasks = [lambda _, step=step: timed(step, case["steps"]) for step in steps]
    found = run_together(tasks, lambda share: None)
    return {"seconds_a_step": statistics.mean(found) / 2, "threads": threads, **published}


def timed(step: Callable[[], float], count: int) -> float:
    """The median seconds of ``count`` steps, after one to warm up."""
    step()
    seconds = []
    for _ in range(count):
        started = time.perf_counter()
        step()
        seconds.append(time.perf_counter() - started)
    return statistics.median(seconds)


def cases(memory: int, batch: int, rounds: Sequence[int], steps: dict[str, int]) -> list[Case]:
    return [
        {
            "implementation": implementation,
            "memory": memory,
            "sequence": memory + PaperPair.sequence,
            "batch": batch,
            "steps": count_,
            "seed": seed,
        }
        for seed in rounds
        for implementation, count_ in steps.items()
    ]


def section(rows: Sequence[Row]) -> Section:
    groups = {name: [row for row in rows if row["implementation"] == name] for name in STEPS}
    if not all(groups.values()):
        return Section("", ("Only one of the two forms is measured.",))
    first, ours = rows[0], _medians(groups["treet"])
    faster, smaller, added = (
        _medians(groups["published form"])[field] / ours[field] for field in COLUMNS.values()
    )
    text = (
        f"Memory {first['memory']}, batch {count(first['batch'])}, sequences of {first['sequence']} tokens, "
        f"{first['threads']} threads; medians of the rounds.\n\n"
        f"{_table(groups)}\n\n"
        f"In this run a step of treet is {faster:.1f} times faster than the published form of the attention, "
        f"with {smaller:.1f} times less memory at the peak of the whole process, and {added:.1f} times less "
        f"without what Python and PyTorch take before any work.{_against_published(first, ours)} As it "
        f"trains, two folds at a time:{_against_published(first, _medians(groups[FOLDS]))}"
    )
    return Section(text, tuple(_missed(first, ours)))


COLUMNS = {"seconds a step": "seconds_a_step", "peak (MB)": "peak_mb", "added to imports (MB)": "added_mb"}


def _medians(group: Sequence[Row]) -> dict[str, float]:
    return {field: statistics.median(row[field] for row in group) for field in COLUMNS.values()}


def _table(groups: dict[str, list[Row]]) -> str:
    lines = [[name, *_cells(_medians(group))] for name, group in groups.items()]
    first = groups[FOLDS][0]
    if "published_seconds" in first:
        known = {"seconds_a_step": first["published_seconds"], "peak_mb": first["published_mb"]}
        lines.append(["published code, measured before", *_cells(known)])
    return table(["implementation", *COLUMNS], lines)


def _cells(values: dict[str, float]) -> list[str]:
    digits = {"seconds_a_step": 3, "peak_mb": 0, "added_mb": 0}
    return [fixed(values.get(field), digits[field]) for field in COLUMNS.values()]


def _against_published(row: Row, ours: dict[str, float]) -> str:
    if "published_seconds" not in row:
        return ""
    faster = row["published_seconds"] / ours["seconds_a_step"]
    smaller = row["published_mb"] / ours["peak_mb"]
    return f" Against the figures of the published code it is {faster:.1f} and {smaller:.1f} times."


def _missed(row: Row, ours: dict[str, float]) -> list[str]:
    if "published_seconds" not in row:
        return []
    found = []
    faster = row["published_seconds"] / ours["seconds_a_step"]
    smaller = row["published_mb"] / ours["peak_mb"]
    if faster < FASTER:
        found.append(f"A step is {faster:.1f} times faster than the published code, {FASTER} were asked for.")
    if smaller < SMALLER:
        found.append(f"A step takes {smaller:.1f} times less memory, {SMALLER} were asked for.")
    return found


BENCHMARK = Benchmark(
    script=__file__,
    what="Seconds and memory of a training step of the paper's preset, beside the published form.",
    cases=cases(30, 1024, ROUNDS, STEPS),
    quick=cases(5, 64, ROUNDS[:1], dict.fromkeys(STEPS, 2)),
    measure=measure,
)

if __name__ == "__main__":
    sys.exit(BENCHMARK.main())
