"""Which past of which series the target may see."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from treet.checks import check_whole
from treet.errors import TreetError

DEFAULT_HISTORY = 5


def _range_in_words(first: int, count: int) -> str:
    last = first + count - 1
    return "without its past" if count == 0 else f"lag {first}" if count == 1 else f"lags {first}..{last}"


@dataclass(frozen=True)
class Lags:
    """The past that a present value of the target is compared with.

    With target ``y``, source ``x`` and condition ``z`` the transfer entropy is
    ``I(y_t ; x_{t-delay} .. x_{t-delay-source_history+1} | y_{t-1} .. y_{t-target_history}, z past)``.
    The condition is seen over the same delay as the source.

    >>> lags = Lags(target_history=2, source_history=3, delay=1)
    >>> list(lags.target_lags), list(lags.source_lags), lags.span
    ([1, 2], [1, 2, 3], 3)
    >>> print(Lags.from_memory(30))
    target lags 1..30, source lags 0..30
    """

    LEAST_TARGET_HISTORY: ClassVar[int] = 1
    LEAST_SOURCE_HISTORY: ClassVar[int] = 1

    target_history: int = DEFAULT_HISTORY
    source_history: int = DEFAULT_HISTORY
    delay: int = 1
    condition_history: int | None = None

    def __post_init__(self) -> None:
        set_ = object.__setattr__
        for name, least in (
            ("target_history", self.LEAST_TARGET_HISTORY),
            ("source_history", self.LEAST_SOURCE_HISTORY),
        ):
            set_(self, name, check_whole(name, getattr(self, name), least))
        set_(self, "delay", check_whole("delay", self.delay, 0))
        if self.condition_history is not None:
            set_(self, "condition_history", check_whole("condition_history", self.condition_history, 1))

    @classmethod
    def from_memory(cls, memory: int) -> Lags:
        """The paper's TE(l): l past values of the target, l past values of the source and its present one."""
        memory = check_whole("memory", memory, 1)
        return cls(target_history=memory, source_history=memory + 1, delay=0)

    @classmethod
    def resolve(
        cls,
        memory: int | None = None,
        target_history: int | None = None,
        source_history: int | None = None,
        delay: int | None = None,
        condition_history: int | None = None,
    ) -> Lags:
        """Lags from a user's settings: either ``memory`` alone or the histories and the delay."""
        if memory is None:
            return cls(
                DEFAULT_HISTORY if target_history is None else target_history,
                DEFAULT_HISTORY if source_history is None else source_history,
                1 if delay is None else delay,
                condition_history,
            )
        others = {"target_history": target_history, "source_history": source_history, "delay": delay}
        given = [name for name, value in others.items() if value is not None]
        if given:
            raise TreetError(
                f"memory={memory} already sets target_history, source_history and delay. "
                f"Got {', '.join(given)} as well: give either memory or these."
            )
        lags = cls.from_memory(memory)
        return cls(lags.target_history, lags.source_history, lags.delay, condition_history)

    @property
    def target_lags(self) -> range:
        return range(1, self.target_history + 1)

    @property
    def source_lags(self) -> range:
        return range(self.delay, self.delay + self.source_history)

    @property
    def condition_lags(self) -> range:
        return range(self.delay, self.delay + (self.condition_history or self.source_history))

    def of(self, role: str) -> range:
        """The lags of ``role``: "target", "source" or "condition"."""
        return {"target": self.target_lags, "source": self.source_lags, "condition": self.condition_lags}[
            role
        ]

    @property
    def span(self) -> int:
        """The largest lag of all: a window covers ``span + 1`` samples."""
        every = (self.target_lags, self.source_lags, self.condition_lags)
        return max(lags[-1] for lags in every if lags)

    @property
    def memory(self) -> int | None:
        """The paper's l where these lags are TE(l), else None."""
        same = self.delay == 0 and self.source_history == self.target_history + 1
        return self.target_history if same else None

    def __str__(self) -> str:
        words = [f"target {_range_in_words(1, self.target_history)}"]
        for role in ("source", "condition"):
            count = getattr(self, f"{role}_history")
            if count:
                words.append(f"{role} {_range_in_words(self.delay, count)}")
        return ", ".join(words)


@dataclass(frozen=True)
class PastlessLags(Lags):
    """Lags of a mutual information, which may leave out the past of the target.

    >>> print(PastlessLags(target_history=0, source_history=1, delay=0))
    target without its past, source lag 0
    """

    LEAST_TARGET_HISTORY: ClassVar[int] = 0


@dataclass(frozen=True)
class SourcelessLags(Lags):
    """Lags of a density given the target's own past, and perhaps a condition's: there is no source.

    >>> lags = SourcelessLags(target_history=3)
    >>> print(lags, lags.span)
    target lags 1..3 3
    """

    LEAST_SOURCE_HISTORY: ClassVar[int] = 0

    source_history: int = 0
