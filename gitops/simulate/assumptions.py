"""Assumptions of a simulation: the time until a workload is ready, and the workloads that never become ready.

Invariant: the behaviour of an object depends only on the assumptions, the seed, and the object's identity and
instance. So equal assumptions and seeds cause equal timelines.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import field, replace
from datetime import timedelta
from fnmatch import fnmatchcase
from typing import Final

from applier.sandbox.controllers.workloads import Behaviour, Outcome
from applier.sandbox.storage.store import StoredKey
from gitops.durations import format_duration, parse_duration
from renderer.frozen import dataclass

_HASH_RANGE: Final = 1 << 32


@dataclass(frozen=True, slots=True)
class Assumptions:
    """Assumed behaviour of workloads, such as the time from a change until a workload is ready."""

    min_ready_time: timedelta = timedelta(minutes=1)
    """Shortest time from a change until a workload is ready."""
    max_ready_time: timedelta = timedelta(minutes=1)
    """Longest time from a change until a workload is ready."""
    rules: tuple[tuple[Outcome, str], ...] = ()
    """Outcomes other than becoming ready, each with a name pattern. The first matching pattern decides."""

    seed: int = 0

    @classmethod
    def parse(cls, text: str, *, seed: int = 0) -> Assumptions:
        """Parse text such as `ready=1m..5m,hang=prod/db-*`.

        Raises: ValueError, whose text gives the valid forms.
        """
        assumptions = cls(seed=seed)
        for part in filter(None, (item.strip() for item in text.split(","))):
            word, separator, value = part.partition("=")
            match word:
                case "ready" if separator:
                    shortest, _, longest = value.partition("..")
                    assumptions = replace(
                        assumptions,
                        min_ready_time=parse_duration(shortest),
                        max_ready_time=parse_duration(longest or shortest),
                    )
                case "fail" | "hang" | "flap" if value:
                    assumptions = replace(assumptions, rules=(*assumptions.rules, (word, value)))
                case _:
                    raise ValueError(
                        f"{part!r} is not an assumption; "
                        "write ready=2m, ready=1m..5m, fail=NAME, hang=NAME or flap=NAME"
                    )
        if assumptions.max_ready_time < assumptions.min_ready_time:
            raise ValueError(f"ready={text!r}: the first time is longer than the second; write the shorter time first")
        return assumptions

    def __str__(self) -> str:
        times = dict.fromkeys((self.min_ready_time, self.max_ready_time))
        ready = "..".join(map(format_duration, times))
        return ",".join((f"ready={ready}", *(f"{word}={pattern}" for word, pattern in self.rules)))

    def usual_behaviour(self, key: StoredKey) -> Behaviour:
        """Return the behaviour of an object that no rule matches."""
        digest = hashlib.blake2b(f"{self.seed}/{'/'.join(key)}".encode(), digest_size=4).digest()
        fraction = int.from_bytes(digest, "big") / _HASH_RANGE
        return Behaviour(
            seconds=round(
                (self.min_ready_time + fraction * (self.max_ready_time - self.min_ready_time)).total_seconds()
            )
        )


@dataclass(slots=True)
class AssumedBehaviour:
    """Script of the workloads in a simulated cluster: the behaviour of each object, from the assumptions."""

    assumptions: Assumptions
    owner: Callable[[StoredKey], str]
    """Function that returns the instance of an object as `Kind/namespace/name`."""
    matched_patterns: set[str] = field(default_factory=set)
    """Patterns of rules that have matched an object so far."""

    def behaviour(self, key: StoredKey) -> Behaviour:
        """Return the behaviour of an object. A pattern matches the name of the object or of its instance."""
        usual = self.assumptions.usual_behaviour(key)
        names = {
            name
            for base_name in filter(None, (key.name, self.owner(key).rpartition("/")[2]))
            for name in (base_name, f"{key.namespace}/{base_name}")
        }
        for outcome, pattern in self.assumptions.rules:
            if any(fnmatchcase(name, pattern) for name in names):
                self.matched_patterns.add(pattern)
                return replace(usual, outcome=outcome)
        return usual
