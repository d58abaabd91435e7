"""Histories of repositories with instances that read other objects by `externalRef`."""

from __future__ import annotations

from hypothesis import strategies as st

from tests.support.properties.checked_platform import Files
from tests.support.properties.repositories import config_map, definition, instance, plain

READERS = ("r0", "r1", "r2")
FOUND = {
    "id": "found",
    "externalRef": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "${schema.spec.text}"}},
}
DEFINITIONS = {
    "base.json": definition("Base", [config_map("a"), config_map("b", "a")]),
    "reader.json": definition("Reader", [FOUND, config_map("c", "found"), config_map("d")]),
}


@st.composite
def reading_histories(draw: st.DrawFn) -> list[Files]:
    """Return commits with different objects, of which each reader reads the same in all commits.

    A reader reads an object of an instance, a plain object, or an object of another reader. No reads form a cycle.
    """
    reads: dict[str, str] = {}
    for index, name in enumerate(READERS):
        reads[name] = draw(st.sampled_from(["z0-a", "z1-b", "p", *(f"{other}-c" for other in READERS[:index])]))
    everything = {name: instance("Base", name) for name in ("z0", "z1")} | {"p": plain("p")}
    everything |= {name: instance("Reader", name, text=read) for name, read in reads.items()}
    chosen = [
        sorted(everything),
        *draw(st.lists(st.lists(st.sampled_from(sorted(everything)), unique=True), max_size=3)),
    ]
    return [
        {**DEFINITIONS, "stays.json": plain("stays"), **{f"{name}.json": everything[name] for name in names}}
        for names in chosen
    ]
