"""The parsed status page, and a platform that it shows waiting."""

from __future__ import annotations

from datetime import timedelta
from html.parser import HTMLParser

from tests.support.monitoring.scene import FREEZE, HOURS, Scene

HOSTILE = "<img src=x onerror=alert(1)>\"'&{{7*7}}javascript:alert(1)"


class Tags(HTMLParser):
    """The elements of a page with their attributes, and its text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self.text += " " if tag == "br" else ""

    def handle_data(self, data: str) -> None:
        self.text += data


async def held(seen: Scene) -> None:
    """Settle all instances, then hold a change behind a window."""
    await seen.started()
    seen.fleet.push("two", prod=HOURS, freeze=FREEZE)
    await seen.step(timedelta(hours=6))
