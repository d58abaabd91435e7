"""Asking a forge by HTTP: pages, answers that have not changed, limits, and refusals in words.

The token is read from its file for each request, is sent to the one server that is configured, and stands in no message. Redirects are not followed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlencode, urlsplit

from gitops.clock import Clock
from gitops.forge.limits import Limits
from gitops.forge.port import ForgeError, ForgeRefused, NotThere, RateLimited, TooLong
from gitops.secret_file import secret_in

if TYPE_CHECKING:
    import aiohttp

_LARGEST: Final = 32 << 20
_MOST_PAGES: Final = 50
_SECONDS: Final = 30.0
_REMEMBERED: Final = 1000


@dataclass(frozen=True, slots=True)
class _Answer:
    status: int
    headers: Mapping[str, str]
    document: Any
    following: str


@dataclass
class Rest:
    """`header` and `scheme` are how the token is sent. A context: connections live inside it."""

    api: str
    token_file: Path
    clock: Clock
    header: str = "Authorization"
    scheme: str = "Bearer "
    accept: str = "application/json"
    _unchanged: dict[str, tuple[str, _Answer]] = field(default_factory=dict)
    _limits: Limits = field(default_factory=Limits)
    _session: aiohttp.ClientSession | None = None

    async def close(self) -> None:
        if self._session:
            await self._session.close()
            self._session = None

    async def get(self, path: str, **query: str | int) -> Any:
        """The document at this path. Raises ForgeError."""
        return (await self._get(self._url(path, query))).document

    async def pages(self, path: str, **query: str | int) -> list[Any]:
        """The items of a list, of all its pages. Raises ForgeError."""
        url, found = self._url(path, query), list[Any]()
        full = next((int(query[name]) for name in ("per_page", "limit") if name in query), 0)
        for _ in range(_MOST_PAGES):
            answer = await self._get(url)
            found += answer.document
            if not answer.following and len(answer.document) >= full:
                self._unchanged.pop(url, None)  # it may get a page after it, and be itself unchanged
            if not answer.following:
                return found
            url = self._here(answer.following, path)
        raise ForgeRefused(f"{self.api}{path}: more than {_MOST_PAGES} pages")

    async def send(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """Write, and give the answer. Raises ForgeError."""
        return (await self._ask(method, self._url(path, {}), body)).document

    def _url(self, path: str, query: Mapping[str, str | int]) -> str:
        return f"{self.api}{path}" + (f"?{urlencode(query)}" if query else "")

    def _here(self, url: str, path: str) -> str:
        """A page at the server that is configured: behind a proxy a forge links to the name that the world knows it by."""
        if urlsplit(url)[:2] == urlsplit(self.api)[:2]:
            return url
        return f"{self.api}{path}?{urlsplit(url).query}"

    async def _get(self, url: str) -> _Answer:
        tag, known = self._unchanged.get(url, ("", None))
        answer = await self._ask("GET", url, None, {"If-None-Match": tag} if tag else {})
        if answer.status == 304 and known:
            return replace(known, following=answer.following or known.following)
        if fresh := answer.headers.get("ETag"):
            if len(self._unchanged) >= _REMEMBERED:
                self._unchanged.clear()
            self._unchanged[url] = fresh, answer
        return answer

    async def _ask(
        self, method: str, url: str, body: Mapping[str, Any] | None, more: Mapping[str, str] | None = None
    ) -> _Answer:
        import aiohttp

        if self._limits.resumes and self.clock.now() < self._limits.resumes:
            raise self._limited()
        if self._session is None:
            timeout = aiohttp.ClientTimeout(total=_SECONDS)
            self._session = aiohttp.ClientSession(timeout=timeout, cookie_jar=aiohttp.DummyCookieJar())
        headers = {"Accept": self.accept, "User-Agent": "levelgate", self.header: f"{self.scheme}{self._token()}"}
        where = f"{self.api}: {method} {urlsplit(url).path}"
        try:
            async with self._session.request(
                method, url, json=body, headers={**headers, **(more or {})}, allow_redirects=False
            ) as response:
                data = await _body(response)
                answer = _Answer(
                    response.status,
                    response.headers,
                    _document(data, where) if response.status < 300 and data else None,
                    _following(response),
                )
        except TimeoutError:
            raise ForgeError(f"{where}: no answer within {_SECONDS:g}s") from None
        except (aiohttp.ClientError, OSError) as error:
            raise ForgeError(f"{where}: the connection failed ({type(error).__name__})") from None
        told = _message(data) if response.status >= 300 else ""
        if self._limits.note(response.status, response.headers, told, self.clock.now()):
            raise self._limited()
        if response.status >= 300 and response.status != 304:
            raise self._refusal(response.status, where, told)
        return answer

    def _token(self) -> str:
        try:
            return secret_in(self.token_file)
        except OSError as error:
            raise ForgeRefused(f"{self.token_file}: the token cannot be read: {error.strerror}") from None
        except UnicodeDecodeError:
            raise ForgeRefused(f"{self.token_file}: is no text, so no token is in it") from None

    def _limited(self) -> RateLimited:
        until = self._limits.resumes or self.clock.now()
        return RateLimited(f"{self.api}: takes no more requests now; going on at {until:%Y-%m-%dT%H:%M:%SZ}", until)

    def _refusal(self, status: int, where: str, message: str) -> ForgeError:
        told = f"{where}: {status}{f' ({message})' if message else ''}"
        match status:
            case 401:
                return ForgeRefused(f"{told}; the token in {self.token_file} is not accepted: renew it")
            case 403:
                return ForgeRefused(
                    f"{told}; the token may not do this: give it the right to comment and to set states"
                )
            case 404 | 410:
                return NotThere(f"{told}; check the repository and what the token may see")
            case 400 | 413 | 422:
                return TooLong(told)
            case _ if status < 400:
                return ForgeRefused(f"{told}; it has moved: name the new place")
        return ForgeError(told) if status >= 500 else ForgeRefused(told)


async def _body(response: aiohttp.ClientResponse) -> bytes:
    data = b""
    async for chunk in response.content.iter_any():
        data += chunk
        if len(data) > _LARGEST:
            raise ForgeRefused(f"the answer of {response.url.host} is larger than {_LARGEST >> 20} MiB")
    return data


def _following(response: aiohttp.ClientResponse) -> str:
    """The URL of the next page (RFC 8288; GitLab's X-Next-Page), empty after the last."""
    if link := response.links.get("next"):
        return str(link["url"])
    number = response.headers.get("X-Next-Page", "")
    return str(response.url.update_query(page=number)) if number.isdecimal() else ""


def _document(data: bytes, where: str) -> Any:
    try:
        return json.loads(data)
    except ValueError:
        raise ForgeError(f"{where}: the answer is no JSON") from None


def _message(data: bytes) -> str:
    """What the forge says of a refusal: on one line, short."""
    try:
        found = json.loads(data)
        text = str(found.get("message") or found.get("error") or "")
    except (ValueError, AttributeError):
        return ""
    return "".join(letter if letter.isprintable() else " " for letter in text)[:200]
