"""What is known of the built-in kinds, as data: discovery and OpenAPI v3 schemas without the prose, as the API server
publishes them, and how it holds them.

The files are made from a real API server and its sources by `make schemas`, so they are right for the version that the
first one names. Pure: reading package data is the only effect, and it happens once, when it is first needed.
"""

from __future__ import annotations

import gzip
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import resources
from typing import Any, Final

import orjson

from renderer.frozen import dataclass

KINDS_FILE: Final = "kinds.json.gz"
STRUCTURES_FILE: Final = "structures.json.gz"

Schema = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class BuiltinSchemas:
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
        definition_name = self.kinds.get(kind_key(group, version, kind))
        return self.definitions[definition_name] if definition_name else None


def kind_key(group: str, version: str, kind: str) -> str:
    return f"{group}/{version}/{kind}"


@cache
def load_builtin_schemas() -> BuiltinSchemas:
    """The built-in kinds. Takes some 15 ms the first time."""
    return BuiltinSchemas(**_read_json(KINDS_FILE))


Structures = Mapping[str, Sequence[Sequence[Any]]]
"""By definition, the fields of the structure of Go that holds it, in order: name, number in protobuf (0: it has none),
presence. A field whose name is empty is part of the structure in JSON and a message of its own in protobuf; in place of
its presence stands its definition.

Presence: `omitempty` is written unless it is empty, `pointer` if it was given, `always` even if it was not, and so is
`null`, as a null.
"""


@cache
def load_structures() -> Structures:
    """How the API server holds the built-in kinds. Takes some 3 ms the first time."""
    content: Structures = _read_json(STRUCTURES_FILE)
    return content


def _read_json(file: str) -> Any:
    return orjson.loads(gzip.decompress(resources.files(__name__).joinpath(file).read_bytes()))
