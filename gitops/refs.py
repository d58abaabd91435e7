"""References as people type them: `TYPE/NAME`, `TYPE NAME`; TYPE is a kind, plural or short name, with its group after a dot where needed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from applier.cluster import Discovery, Resource
from gitops.errors import GitopsError
from renderer.identity import ObjectKey
from renderer.render import source_parent

SOURCE = "source"


class RefError(GitopsError):
    """A reference that cannot be read, or names no kind or several; the text says what to write."""


@dataclass(frozen=True, slots=True)
class Ref:
    """What a person named: `webapp/shop`, `webapp.kro.run/shop`, `source/platform`."""

    type: str
    name: str

    @classmethod
    def parse(cls, words: Sequence[str]) -> Ref:
        """One word `TYPE/NAME` or two words. Raises RefError."""
        parts = words[0].split("/") if len(words) == 1 else list(words)
        if len(parts) != 2 or not all(parts) or any("/" in part for part in parts):
            raise RefError(
                f"{' '.join(words)!r} names nothing; write TYPE/NAME, such as webapp/shop or source/platform"
            )
        return cls(*parts)

    def key(self, discovery: Discovery, namespace: str) -> ObjectKey:
        """The object that is meant; `namespace` for kinds that have one. Raises RefError."""
        if self.type.lower() == SOURCE:
            return source_parent(self.name)
        found = [resource for resource in discovery.resources.values() if _is_called(resource, self.type.lower())]
        if not found:
            raise RefError(f"the cluster serves no kind {self.type!r}; `kubectl api-resources` lists what there is")
        if len(found) > 1:
            choices = ", ".join(sorted(f"{one.kind.lower()}.{one.group}" for one in found))
            raise RefError(f"{self.type!r} may be {choices}; write one of these")
        return ObjectKey(found[0].group, found[0].kind, namespace if found[0].namespaced else "", self.name)


def _is_called(resource: Resource, word: str) -> bool:
    names = {resource.kind.lower(), resource.plural, *resource.short_names}
    return word in names or word in {f"{name}.{resource.group}" for name in names}
