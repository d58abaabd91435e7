"""HTTP client for the API of a forge: pages, conditional requests, rate limits, and errors for people.

The client reads the token from its file for each request, and sends the token only to the configured server. No message
contains the token. The client does not follow redirects. The caller passes a function that parses the JSON of a
response. If that function fails, the client raises ForgeError.
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
from gitops.secret_file import read_secret
from gitops.timestamps import timestamp
from renderer.frozen import dataclass

if TYPE_CHECKING:
    import aiohttp

_MAX_RESPONSE_BYTES: Final = 32 << 20
_MAX_PAGES: Final = 50
_TIMEOUT_SECONDS: Final = 30.0
_MAX_CACHE_BYTES: Final = 64 << 20
"""Maximum total size in bytes of the cached responses for conditional requests. Comments may be many and long."""

_Read = TypeVar("_Read")


@dataclass(frozen=True, slots=True)
class _Answer:
    """Response of the forge."""

    status: int
    headers: Mapping[str, str]
    result: Any
    """Parsed body."""
    size: int
    """Length of the body in bytes."""
    next_url: str
    """URL of the next page, or an empty string after the last page."""


@dataclass
class Rest:
    """HTTP client of one forge. The owner calls `close`."""

    api: str
    token_file: Path
    clock: Clock
    header: str = "Authorization"
    """HTTP header field that contains the token."""
    scheme: str = "Bearer "
    """Text before the token in the header field."""
    accept: str = "application/json"
    _etag_cache: dict[str, tuple[str, _Answer]] = field(default_factory=dict)
    _limits: RateLimits = field(default_factory=RateLimits)
    _session: aiohttp.ClientSession | None = None

    async def close(self) -> None:
        if self._session:
            await self._session.close()
            self._session = None

    async def get(self, path: str, read: Callable[[Any], _Read], **query: str | int) -> _Read:
        """Return the parsed resource at `path`. If it is unchanged, return the cached value. Raises: ForgeError."""
        result: _Read = (await self._get_cached(self._url(path, query), read)).result
        return result

    async def get_pages(self, path: str, read: Callable[[Any], _Read], **query: str | int) -> list[_Read]:
        """Return the parsed items of all pages of a list. Raises: ForgeError, or TooManyItems after 50 pages."""
        url, items = self._url(path, query), list[_Read]()
        page_size = next((int(query[name]) for name in ("per_page", "limit") if name in query), 0)
        for _ in range(_MAX_PAGES):
            answer = await self._get_cached(url, lambda document: _parse_items(document, read))
            items += answer.result
            if not answer.next_url and len(answer.result) >= page_size:
                # If a page is added after a full last page, the full page stays unchanged. Its cached response would
                # lack the link to the added page.
                self._etag_cache.pop(url, None)
            if not answer.next_url:
                return items
            url = self._rebase_url(answer.next_url, path)
        raise TooManyItems(
            f"{self.api}{path}: more than {_MAX_PAGES} pages; Levelgate read the first {len(items)} items", items
        )

    async def send(self, method: str, path: str, body: Mapping[str, Any] | None, read: Callable[[Any], _Read]) -> _Read:
        """Send a writing request, and return the parsed response. Raises: ForgeError."""
        result: _Read = (await self._request(method, self._url(path, {}), body, read)).result
        return result

    def seal(self, text: str) -> str:
        """Return a seal of `text` that only a holder of the token can compute. Raises: ForgeError."""
        return hmac.new(self._read_token().encode(), text.encode(), hashlib.sha256).hexdigest()[:32]

    def _url(self, path: str, query: Mapping[str, str | int]) -> str:
        return f"{self.api}{path}" + (f"?{urlencode(query)}" if query else "")

    def _rebase_url(self, url: str, path: str) -> str:
        """Return the URL of a page at the configured server.

        If a forge is behind a proxy, its links name the public server of the forge instead of the configured server.
        """
        if urlsplit(url)[:2] == urlsplit(self.api)[:2]:
            return url
        return f"{self.api}{path}?{urlsplit(url).query}"

    async def _get_cached(self, url: str, read: Callable[[Any], Any]) -> _Answer:
        tag, cached = self._etag_cache.get(url, ("", None))
        answer = await self._request("GET", url, None, read, {"If-None-Match": tag} if tag else {})
        if answer.status == 304 and cached:
            return replace(cached, next_url=answer.next_url or cached.next_url)
        self._etag_cache.pop(url, None)
        if new_tag := answer.headers.get("ETag"):
            if (
                sum(cached_answer.size for _, cached_answer in self._etag_cache.values()) + answer.size
                > _MAX_CACHE_BYTES
            ):
                self._etag_cache.clear()
            self._etag_cache[url] = new_tag, answer
        return answer

    async def _request(
        self,
        method: str,
        url: str,
        body: Mapping[str, Any] | None,
        read: Callable[[Any], Any],
        extra_headers: Mapping[str, str] | None = None,
    ) -> _Answer:
        import aiohttp

        if self._limits.is_limited(self.clock.now()):
            raise self._rate_limited_error()
        if self._session is None:
            self._session = aiohttp.ClientSession(
                timeout=aiohttp.ClientTimeout(total=_TIMEOUT_SECONDS), cookie_jar=aiohttp.DummyCookieJar()
            )
        headers = {"Accept": self.accept, "User-Agent": "levelgate", self.header: f"{self.scheme}{self._read_token()}"}
        where = f"{self.api}: {method} {urlsplit(url).path}"
        try:
            async with self._session.request(
                method,
                url,
                json=body,
                headers={**headers, **(extra_headers or {})},
                allow_redirects=False,
                proxy=proxy_of(url),
            ) as response:
                data = await _read_body(response)
                answer = _Answer(
                    response.status,
                    response.headers,
                    _parse_response(data, read, where) if response.status < 300 else None,
                    len(data),
                    _next_page_url(response),
                )
        except TimeoutError:
            raise ForgeError(f"{where}: no answer within {_TIMEOUT_SECONDS:g}s; check the URL of the API") from None
        except (aiohttp.ClientError, OSError) as error:
            raise ForgeError(
                f"{where}: the connection failed ({type(error).__name__}); check the URL of the API"
            ) from None
        message = _refusal_message(data) if response.status >= 300 else ""
        if self._limits.note(response.status, response.headers, message, self.clock.now()):
            raise self._rate_limited_error()
        if response.status >= 300 and response.status != 304:
            raise self._refusal_error(response.status, where, message)
        return answer

    def _read_token(self) -> str:
        try:
            token = read_secret(self.token_file)
        except OSError as error:
            raise ForgeRefused(f"{self.token_file}: the token cannot be read: {error.strerror}") from None
        except UnicodeDecodeError:
            raise ForgeRefused(f"{self.token_file}: is not text; write only the token into the file") from None
        if not (token.isascii() and token.isprintable()):
            raise ForgeRefused(f"{self.token_file}: its first line is not a token; write only the token into the file")
        return token

    def _rate_limited_error(self) -> RateLimited:
        until = self._limits.resumes_at or self.clock.now()
        return RateLimited(
            f"{self.api}: the forge limits the rate of requests; Levelgate continues at {timestamp(until)}", until
        )

    def _refusal_error(self, status: int, where: str, message: str) -> ForgeError:
        text = f"{where}: {status}{f' ({message})' if message else ''}"
        match status:
            case 401:
                return ForgeRefused(f"{text}; the token in {self.token_file} is invalid: renew it")
            case 403:
                return ForgeRefused(f"{text}; the token lacks a right: allow it to comment and to set statuses")
            case 404 | 410:
                return ForgeNotFound(f"{text}; check the name of the repository and the permissions of the token")
            case 400 | 413 | 422:
                return CommentTooLong(text)
            case _ if status < 400:
                return ForgeRefused(f"{text}; the API has moved: set its new URL")
        if status >= 500:
            return ForgeError(f"{text}; check the state of the forge")
        return ForgeRefused(f"{text}; check the kind of forge and the URL of its API")


def ignore_response(_: Any) -> None:
    """Ignore the JSON of a response whose content the caller does not need."""


async def _read_body(response: aiohttp.ClientResponse) -> bytes:
    data = bytearray()
    async for chunk in response.content.iter_any():
        data += chunk
        if len(data) > _MAX_RESPONSE_BYTES:
            raise ForgeRefused(
                f"the answer of {response.url.host} is larger than {_MAX_RESPONSE_BYTES >> 20} MiB; "
                "check the URL of the API"
            )
    return bytes(data)


def _next_page_url(response: aiohttp.ClientResponse) -> str:
    """Return the URL of the next page, or an empty string after the last page.

    Sources: RFC 8288; header X-Next-Page of GitLab.
    """
    if link := response.links.get("next"):
        return str(link["url"])
    number = response.headers.get("X-Next-Page", "")
    return str(response.url.update_query(page=number)) if number.isdecimal() else ""


def _parse_items(document: Any, read: Callable[[Any], _Read]) -> list[_Read]:
    if not isinstance(document, list):
        raise TypeError("no list")
    return [read(item) for item in document]


def _parse_response(data: bytes, read: Callable[[Any], _Read], where: str) -> _Read:
    try:
        return read(json.loads(data) if data else None)
    except RecursionError:
        raise ForgeError(f"{where}: the answer is nested too deeply; check the URL of the API") from None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        problem = "is not JSON" if isinstance(error, json.JSONDecodeError) else "does not have the expected fields"
        raise ForgeError(f"{where}: the answer {problem}; check the kind of forge and the URL of its API") from None


def _refusal_message(data: bytes) -> str:
    """Return the message in a refusal of the forge, as one line of at most 200 characters."""
    try:
        document = json.loads(data)
        text = str(document.get("message") or document.get("error") or "")
    except (ValueError, AttributeError, RecursionError):
        return ""
    return "".join(letter if letter.isprintable() else " " for letter in text)[:200]
