"""Readers of single fields of the configuration: durations, URLs, files, and the listen address."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Final, TypeVar

from applier.loopback import is_loopback
from gitops.durations import format_duration, parse_duration
from gitops.errors import RefusedUrl
from gitops.source.target import split_url
from gitops.windows.problem_collector import FieldProblems
from renderer.frozen import dataclass

T = TypeVar("T")

_MIN_INTERVAL: Final = timedelta(seconds=1)
_MIN_AGE: Final = timedelta(seconds=3)


@dataclass
class FieldReader:
    """Reader of single values, which collects mistakes in `problems`."""

    problems: FieldProblems
    directory: Path
    """Directory of the configuration file, in which relative paths begin."""

    def resolve_files(self, path: str, value: Mapping[str, str]) -> dict[str, Path]:
        """Return the files that the fields name, by field. Ignore the field `username`, which names no file."""
        return {name: self.resolve_file(f"{path}.{name}", text) for name, text in value.items() if name != "username"}

    def resolve_file(self, path: str, text: str) -> Path:
        """Return the path that `text` names. If the file cannot be read, add a problem."""
        file = self.directory / text
        if not file.is_file():
            self.problems.add_problem(path, f"file {file} does not exist; relative paths begin at {self.directory}")
        elif not os.access(file, os.R_OK):
            self.problems.add_problem(path, f"{file} cannot be read; check its permissions")
        return file

    def parse_field(self, path: str, parse: Callable[[str], T], text: str | None) -> T | None:
        """Return the parsed value, or None if `text` is missing or invalid. If `text` is invalid, add a problem."""
        try:
            return None if text is None else parse(text)
        except (ValueError, RefusedUrl) as error:
            self.problems.add_problem(path, str(error))
            return None


def parse_web_url(text: str) -> str:
    """Return `text` if it is the URL of a web server.

    Raises: ValueError if `text` is anything else. The message leaves out the URL, because a URL may contain a secret.
    """
    error = ValueError("is not the URL of a web server; write https://HOST/PATH")
    try:
        parts = split_url(text)
    except ValueError:
        raise error from None
    if parts.scheme not in {"http", "https"} or not parts.hostname or not text.isprintable() or " " in text:
        raise error
    if parts.username is not None or parts.password is not None:
        raise ValueError("holds a credential; remove it")
    return text


def parse_age(text: str) -> timedelta:
    """Return the maximum age of an external fact. Raises: ValueError if `text` is invalid, or the age is below 3 s."""
    return _parse_at_least(text, _MIN_AGE)


def parse_interval(text: str) -> timedelta:
    """Return the time between two repetitions. Raises: ValueError if `text` is invalid, or the time is below 1 s."""
    return _parse_at_least(text, _MIN_INTERVAL)


def _parse_at_least(text: str, minimum: timedelta) -> timedelta:
    parsed = parse_duration(text)
    if parsed < minimum:
        raise ValueError(f"{text!r} is shorter than {format_duration(minimum)}; write a longer time")
    return parsed


_ADDRESS_PATTERN: Final = re.compile(r"(?:\[(?P<v6>[0-9A-Fa-f:.%]+)\]|(?P<host>[A-Za-z0-9.-]*)):(?P<port>[0-9]{1,5})")
OFF: Final = "off"


@dataclass(frozen=True, slots=True)
class ListenAddress:
    """Address of a listening socket."""

    host: str
    """Host name or IP address. An empty string stands for all addresses of the machine."""
    port: int
    """Port number. Port 0 stands for any free port."""

    @property
    def is_loopback(self) -> bool:
        """Return whether only this machine, or this pod, can reach the address."""
        return is_loopback(self.host)

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


DEFAULT_ADDRESS: Final = ListenAddress("127.0.0.1", 8480)


def parse_address(text: str) -> ListenAddress | None:
    """Return the address in text such as `127.0.0.1:8480`, `[::1]:8480` or `:8480` (all addresses), or None for `off`.

    Raises: ValueError if `text` has another form. The message gives the valid forms.
    """
    if text == OFF:
        return None
    match = _ADDRESS_PATTERN.fullmatch(text)
    if match is None or int(match["port"]) > 65535:
        raise ValueError(
            f"{text!r} is not an address; write ADDR:PORT such as {DEFAULT_ADDRESS}, :8480 for all addresses, or off"
        )
    return ListenAddress(match["v6"] or match["host"], int(match["port"]))
