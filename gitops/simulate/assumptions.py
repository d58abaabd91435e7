"""What a simulation assumes of the world: how long workloads take to get ready, and which never do.

Invariant: what happens to an object follows from the seed and its name alone, so that the same seed gives the same timeline.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import field, replace
from datetime import timedelta
from fnmatch import fnmatchcase
from typing import Final

from applier.sandbox.controllers.workloads import Behaviour, Outcome
from applier.sandbox.storage.store import StoredKey
from gitops.durations import duration
from renderer.frozen import dataclass

_STEPS: Final = 1 << 32


@dataclass(frozen=True, slots=True)
class Assumptions:
    """Workloads get ready between `least` and `most` after each change, but for those that `rules` name (outcome and pattern, the first counts)."""

    least: timedelta = timedelta(minutes=1)
    most: timedelta = timedelta(minutes=1)
    rules: tuple[tuple[Outcome, str], ...] = ()
    seed: int = 0

    @classmethod
    def parse(cls, text: str, *, seed: int = 0) -> Assumptions:
        """`ready=2m,fail=web-7`, `ready=1m..5m,hang=prod/db-*`. Raises ValueError with what would be valid."""
        found = cls(seed=seed)
        for part in filter(None, (one.strip() for one in text.split(","))):
            word, separator, value = part.partition("=")
            match word:
                case "ready" if separator:
                    least, _, most = value.partition("..")
                    found = replace(found, least=duration(least), most=duration(most or least))
                case "fail" | "hang" | "flap" if value:
                    found = replace(found, rules=(*found.rules, (word, value)))
                case _:
                    raise ValueError(
                        f"{part!r} is no assumption; write ready=2m, ready=1m..5m, fail=NAME, hang=NAME or flap=NAME"
                    )
        if found.most < found.least:
            raise ValueError(f"ready={text!r}: the first time is the longer one")
        return found

    def __str__(self) -> str:
        ready = f"{_short(self.least)}" + (f"..{_short(self.most)}" if self.most > self.least else "")
        return ",".join((f"ready={ready}", *(f"{word}={pattern}" for word, pattern in self.rules)))

    def of(self, key: StoredKey) -> Behaviour:
        """How long this object takes."""
        digest = hashlib.blake2b(f"{self.seed}/{'/'.join(key)}".encode(), digest_size=4).digest()
        share = int.from_bytes(digest, "big") / _STEPS
        return Behaviour(seconds=round((self.least + share * (self.most - self.least)).total_seconds()))


def _short(length: timedelta) -> str:
    seconds = int(length.total_seconds())
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds and seconds % size == 0:
            return f"{seconds // size}{unit}"
    return f"{seconds}s"


@dataclass(slots=True)
class AssumedBehaviour:
    """The script of a simulated world. `owner` names the instance of an object, as `Kind/namespace/name`; `met` are the patterns that named
    something.
    """

    assumptions: Assumptions
    owner: Callable[[StoredKey], str]
    met: set[str] = field(default_factory=set)

    def behaviour(self, key: StoredKey) -> Behaviour:
        usual = self.assumptions.of(key)
        names = {name for one in (key.name, *self._instance(key)) for name in (one, f"{key.namespace}/{one}")}
        for outcome, pattern in self.assumptions.rules:
            if any(fnmatchcase(name, pattern) for name in names):
                self.met.add(pattern)
                return replace(usual, outcome=outcome)
        return usual

    def _instance(self, key: StoredKey) -> Iterator[str]:
        if owner := self.owner(key):
            yield owner.rpartition("/")[2]
