"""What the API server publishes about its built-in kinds, as data: discovery, and OpenAPI v3 schemas without the prose.

The file is made from a real API server by `make schemas`, so it is right for the version that it names. Pure: reading
package data is the only effect, and it happens once, when it is first needed.
"""

from __future__ import annotations

import gzip
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any, Final

import orjson

FILE: Final = "kinds.json.gz"

Schema = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Bundle:
    """The built-in kinds of one version of Kubernetes."""

    version: str
    """As the server says it: `v1.36.4`."""
    discovery: Sequence[Mapping[str, Any]]
    """The items of an APIGroupDiscoveryList (apidiscovery.k8s.io/v2), the core group first, its name empty."""
    definitions: Mapping[str, Schema]
    """By the last part of the `$ref`s that name them."""
    kinds: Mapping[str, str]
    """The definition of each kind, by `key`."""

    def schema(self, group: str, version: str, kind: str) -> Schema | None:
        """A kind's schema, its references unresolved; None if it is not built in."""
        name = self.kinds.get(key(group, version, kind))
        return self.definitions[name] if name else None


def key(group: str, version: str, kind: str) -> str:
    return f"{group}/{version}/{kind}"


@cache
def bundle() -> Bundle:
    """The built-in kinds. Takes some 15 ms the first time."""
    content = orjson.loads(gzip.decompress(resources.files(__name__).joinpath(FILE).read_bytes()))
    return Bundle(**content)
