"""Asking a forge by HTTP: pages, answers that have not changed, limits, and refusals in words.

The token is read from its file for each request, is sent to the one server that is configured, and stands in no message. Redirects are not followed.
What is answered is read by a function that the caller gives; whatever that cannot read is a ForgeError.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Callable, Mapping
from dataclasses import field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar
from urllib.parse import urlencode, urlsplit

from applier.proxy import proxy_of
from gitops.clock import Clock
from gitops.forge.port import CommentTooLong, ForgeError, ForgeNotFound, ForgeRefused, RateLimited, TooManyItems
from gitops.forge.rate_limits import RateLimits
from gitops.secret_file import secret_in
from renderer.frozen import dataclass

if TYPE_CHECKING:
    import aiohttp

_LARGEST: Final = 32 << 20
_MOST_PAGES: Final = 50
_SECONDS: Final = 30.0
_REMEMBERED: Final = 64 << 20
"""Bytes of answers that are kept for when they have not changed; anybody may write comments of any number and length."""

_Read = TypeVar("_Read")


@dataclass(frozen=True, slots=True)
class _Answer:
    """`found` is what was read from `size` bytes."""

    status: int
    headers: Mapping[str, str]
    found: Any
    size: int
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
    _limits: RateLimits = field(default_factory=RateLimits)
    _session: aiohttp.ClientSession | None = None

    async def close(self) -> None:
        if self._session:
            await self._session.close()
            self._session = None

    async def get(self, path: str, read: Callable[[Any], _Read], **query: str | int) -> _Read:
        """What is at this path. Raises ForgeError."""
        found: _Read = (await self._get(self._url(path, query), read)).found
        return found

    async def pages(self, path: str, read: Callable[[Any], _Read], **query: str | int) -> list[_Read]:
        """The items of a list, of all its pages. Raises ForgeError, TooMany after the last page that is read."""
        url, found = self._url(path, query), list[_Read]()
        full = next((int(query[name]) for name in ("per_page", "limit") if name in query), 0)
        for _ in range(_MOST_PAGES):
            answer = await self._get(url, lambda document: _items(document, read))
            found += answer.found
            if not answer.following and len(answer.found) >= full:
                self._unchanged.pop(url, None)  # it may get a page after it, and be itself unchanged
            if not answer.following:
                return found
            url = self._here(answer.following, path)
        raise TooManyItems(f"{self.api}{path}: more than {_MOST_PAGES} pages; read are the first {len(found)}", found)

    async def send(self, method: str, path: str, body: Mapping[str, Any] | None, read: Callable[[Any], _Read]) -> _Read:
        """Write, and give what is answered. Raises ForgeError."""
        found: _Read = (await self._ask(method, self._url(path, {}), body, read)).found
        return found

    def seal(self, text: str) -> str:
        """What only those can tell of a text who have the token. Raises ForgeError."""
        return hmac.new(self._token().encode(), text.encode(), hashlib.sha256).hexdigest()[:32]

    def _url(self, path: str, query: Mapping[str, str | int]) -> str:
        return f"{self.api}{path}" + (f"?{urlencode(query)}" if query else "")

    def _here(self, url: str, path: str) -> str:
        """A page at the server that is configured: behind a proxy a forge links to the name that the world knows it by."""
        if urlsplit(url)[:2] == urlsplit(self.api)[:2]:
            return url
        return f"{self.api}{path}?{urlsplit(url).query}"

    async def _get(self, url: str, read: Callable[[Any], Any]) -> _Answer:
        tag, known = self._unchanged.get(url, ("", None))
        answer = await self._ask("GET", url, None, read, {"If-None-Match": tag} if tag else {})
        if answer.status == 304 and known:
            return replace(known, following=answer.following or known.following)
        self._unchanged.pop(url, None)
        if fresh := answer.headers.get("ETag"):
            if sum(one.size for _, one in self._unchanged.values()) + answer.size > _REMEMBERED:
                self._unchanged.clear()
            self._unchanged[url] = fresh, answer
        return answer

    async def _ask(
        self,
        method: str,
        url: str,
        body: Mapping[str, Any] | None,
        read: Callable[[Any], Any],
        more: Mapping[str, str] | None = None,
    ) -> _Answer:
        import aiohttp

        if self._limits.bars(self.clock.now()):
            raise self._limited()
        if self._session is None:
            timeout = aiohttp.ClientTimeout(total=_SECONDS)
            self._session = aiohttp.ClientSession(timeout=timeout, cookie_jar=aiohttp.DummyCookieJar())
        headers = {"Accept": self.accept, "User-Agent": "levelgate", self.header: f"{self.scheme}{self._token()}"}
        where = f"{self.api}: {method} {urlsplit(url).path}"
        try:
            async with self._session.request(
                method, url, json=body, headers={**headers, **(more or {})}, allow_redirects=False, proxy=proxy_of(url)
            ) as response:
                data = await _body(response)
                answer = _Answer(
                    response.status,
                    response.headers,
                    _understood(data, read, where) if response.status < 300 else None,
                    len(data),
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
            token = secret_in(self.token_file)
        except OSError as error:
            raise ForgeRefused(f"{self.token_file}: the token cannot be read: {error.strerror}") from None
        except UnicodeDecodeError:
            raise ForgeRefused(f"{self.token_file}: is no text, so no token is in it") from None
        if not (token.isascii() and token.isprintable() and token):
            raise ForgeRefused(f"{self.token_file}: its first line is no token: write the token there and nothing else")
        return token

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
                return ForgeNotFound(f"{told}; check the repository and what the token may see")
            case 400 | 413 | 422:
                return CommentTooLong(told)
            case _ if status < 400:
                return ForgeRefused(f"{told}; it has moved: name the new place")
        return ForgeError(told) if status >= 500 else ForgeRefused(told)


def unread(_: Any) -> None:
    """For answers that tell nothing new."""


async def _body(response: aiohttp.ClientResponse) -> bytes:
    data = bytearray()
    async for chunk in response.content.iter_any():
        data += chunk
        if len(data) > _LARGEST:
            raise ForgeRefused(f"the answer of {response.url.host} is larger than {_LARGEST >> 20} MiB")
    return bytes(data)


def _following(response: aiohttp.ClientResponse) -> str:
    """The URL of the next page (RFC 8288; GitLab's X-Next-Page), empty after the last."""
    if link := response.links.get("next"):
        return str(link["url"])
    number = response.headers.get("X-Next-Page", "")
    return str(response.url.update_query(page=number)) if number.isdecimal() else ""


def _items(document: Any, read: Callable[[Any], _Read]) -> list[_Read]:
    if not isinstance(document, list):
        raise TypeError("no list")
    return [read(one) for one in document]


def _understood(data: bytes, read: Callable[[Any], _Read], where: str) -> _Read:
    try:
        return read(json.loads(data) if data else None)
    except RecursionError:
        raise ForgeError(f"{where}: the answer is nested too deep") from None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        why = "is no JSON" if isinstance(error, json.JSONDecodeError) else "is not what such a forge answers"
        raise ForgeError(f"{where}: the answer {why}; check what kind of forge it is, and the URL of its API") from None


def _message(data: bytes) -> str:
    """What the forge says of a refusal: on one line, short."""
    try:
        found = json.loads(data)
        text = str(found.get("message") or found.get("error") or "")
    except (ValueError, AttributeError, RecursionError):
        return ""
    return "".join(letter if letter.isprintable() else " " for letter in text)[:200]
