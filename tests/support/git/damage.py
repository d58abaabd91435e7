"""Damage to the local copy of a repository, as crashes and disks cause it."""

from __future__ import annotations

import os
from pathlib import Path


def flip_a_byte(cache: Path) -> None:
    """Flip single bytes in every pack."""
    for pack in packs(cache):
        data = bytearray(pack.read_bytes())
        for at in range(60, len(data) - 20, 40):
            data[at] ^= 0x55
        pack.write_bytes(data)


def cut_packs(cache: Path) -> None:
    """Cut every pack in half."""
    for pack in packs(cache):
        os.truncate(pack, pack.stat().st_size // 2)


def delete_packs(cache: Path) -> None:
    """Delete every pack and its index."""
    for pack in packs(cache) + packs(cache, "idx"):
        pack.unlink()


def empty_index(cache: Path) -> None:
    """Empty the index of every pack."""
    for index in packs(cache, "idx"):
        os.truncate(index, 0)


def empty_head(cache: Path) -> None:
    """Empty HEAD."""
    os.truncate(repository(cache) / "HEAD", 0)


def broken_config(cache: Path) -> None:
    """Break the configuration."""
    (repository(cache) / "config").write_text("[core\n")


def empty_refs(cache: Path) -> None:
    """Empty every ref."""
    for ref in (repository(cache) / "refs/levelgate").rglob("*"):
        if ref.is_file():
            os.truncate(ref, 0)


def refs_to_nothing(cache: Path) -> None:
    """Point every ref to a commit that does not exist."""
    for ref in (repository(cache) / "refs/levelgate").rglob("*"):
        if ref.is_file():
            ref.write_text("1" * 40 + "\n")


def stale_locks(cache: Path) -> None:
    """Leave the lock files of a killed process."""
    directory = repository(cache)
    for name in (
        "HEAD.lock",
        "packed-refs.lock",
        "config.lock",
        "shallow.lock",
        "index.lock",
        "refs/levelgate/incoming.lock",
    ):
        (directory / name).touch()


def half_replaced(cache: Path) -> None:
    """Leave the copy under the name that it has while it is replaced."""
    repository(cache).rename(repository(cache).with_name("damaged.git"))


def repository(cache: Path) -> Path:
    """Return the copy in a cache."""
    return next(cache.glob("*/repository.git"))


def packs(cache: Path, kind: str = "pack") -> list[Path]:
    """Return its packs, writable."""
    found = list(repository(cache).glob(f"objects/pack/*.{kind}"))
    assert found
    for pack in found:
        pack.chmod(0o600)
    return found


DAMAGES = [
    flip_a_byte,
    cut_packs,
    delete_packs,
    empty_index,
    empty_head,
    broken_config,
    empty_refs,
    refs_to_nothing,
    stale_locks,
    half_replaced,
]
