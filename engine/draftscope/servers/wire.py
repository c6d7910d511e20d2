"""HTTP to one server: bounded in size and time, no redirects, no proxies, and errors that name the address.

Every request to a server is made here. Its time counts from its start, whatever the server sends meanwhile.
"""

from __future__ import annotations

import json
import ssl
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

import httpcore
from pydantic import BaseModel, ValidationError

from draftscope.base.errors import quoted, reason
from draftscope.servers.adapter import ServerError
from draftscope.servers.clock import Clock, TimedNetwork

Answer = TypeVar("Answer", bound=BaseModel)

MIB = 1 << 20
HEADERS: Mapping[bytes | str, bytes | str] = {
    "accept": "*/*",
    "accept-encoding": "identity",  # a compressed stream would be held back, and may be a bomb
    "content-type": "application/json",
    "user-agent": "draftscope",
}
DATA = b"data:"
END = b"[DONE]"
ASKS_FOR_A_KEY = (401, 403)
NOTHING_THERE = (404, 405, 500, 501)  # 501: llama.cpp's /metrics without --metrics; 503, while it loads, is an error


@dataclass(frozen=True)
class WireLimits:
    """Seconds and bytes after which a server is given up."""

    connect: float = 5.0
    silent: float = 120.0  # a whole answer; of a stream its head, and each line: a long prompt is read in this time
    total: float = 1800.0  # one request, from its start to its end
    answer: int = 16 * MIB
    stream: int = 256 * MIB
    event: int = MIB


class Wire:
    """Calls to one server. Safe to use from several threads: each has a connection of its own, because llama.cpp closes
    one after a stream without saying so, and a request that is sent at that moment is lost."""

    def __init__(self, url: str, limits: WireLimits | None = None) -> None:
        self.url = url
        self.limits = limits or WireLimits()

    @cached_property
    def _tls(self) -> ssl.SSLContext | None:
        return httpcore.default_ssl_context() if self.url.startswith("https:") else None

    def get(self, path: str, shape: type[Answer]) -> Answer:
        """What the server answers, checked. Raises `ServerError`."""
        return self._shaped(path, self._body("GET", path, None), shape)

    def post(self, path: str, body: Mapping[str, Any], shape: type[Answer]) -> Answer:
        return self._shaped(path, self._body("POST", path, body), shape)

    def try_get(self, path: str, shape: type[Answer]) -> Answer | None:
        """As `get`; None if the server lacks the path or answers it in another shape."""
        body = self.text(path)
        try:
            return None if body is None else shape.model_validate_json(body)
        except ValidationError:
            return None

    def text(self, path: str) -> bytes | None:
        """The body as it is; None if the server has nothing there."""
        return self._body("GET", path, None, absent=True)

    def events(self, path: str, body: Mapping[str, Any], shape: type[Answer]) -> Iterator[tuple[Answer, float]]:
        """Each server-sent event, checked, with `time.monotonic()` of the read that completed it.

        Events that arrive in one read have one time. Ends after `[DONE]` or when the server closes the stream in an
        orderly way; whether the answer was complete by then is for the dialect to say.
        """
        clock = Clock(self.limits.silent, self.limits.total)
        with self._called("POST", path, body, clock) as response:
            self._refuse(path, response)
            for data, at in self._data(path, response, clock):
                if data == END:
                    return
                yield self._shaped(path, data, shape), at

    def _data(self, path: str, response: httpcore.Response, clock: Clock) -> Iterator[tuple[bytes, float]]:
        size, rest = 0, bytearray()
        for piece in response.iter_stream():
            at = time.monotonic()
            size += len(piece)
            rest += piece
            if size > self.limits.stream or len(rest) > self.limits.event + len(piece):
                raise ServerError(f"{self.url}{path} sends more than an answer can be; is it the right server?")
            if b"\n" not in piece:
                continue
            clock.alive()
            *lines, last = bytes(rest).split(b"\n")
            rest = bytearray(last)
            for line in lines:
                if line.startswith((DATA, b"error:")):
                    yield line.partition(b":")[2].strip(), at

    def _body(self, method: str, path: str, body: Mapping[str, Any] | None, absent: bool = False) -> bytes | None:
        clock = Clock(self.limits.silent, min(self.limits.silent, self.limits.total))
        with self._called(method, path, body, clock) as response:
            if absent and response.status in NOTHING_THERE:
                return None
            self._refuse(path, response)
            return self._read(path, response)

    def _read(self, path: str, response: httpcore.Response) -> bytes:
        content = bytearray()
        for piece in response.iter_stream():
            content += piece
            if len(content) > self.limits.answer:
                raise ServerError(f"{self.url}{path} answers with more than {self.limits.answer >> 20} MiB.")
        return bytes(content)

    def _refuse(self, path: str, response: httpcore.Response) -> None:
        status = response.status
        if status < 300:
            return
        if status < 400:
            headers = {name.lower(): value for name, value in response.headers}
            elsewhere = quoted(headers.get(b"location", b"nowhere").decode("latin-1"))
            raise ServerError(
                f"{self.url}{path} redirects to {elsewhere}; redirects are not followed, give that address."
            )
        if status in ASKS_FOR_A_KEY:
            raise ServerError(f"{self.url}{path} asks for a key ({status}); start the server without one.")
        reason = _reason(self._read(path, response))
        raise ServerError(f"{self.url}{path} refused the request ({status}): {reason or 'it gives no reason'}")

    def _shaped(self, path: str, body: bytes | None, shape: type[Answer]) -> Answer:
        body = body or b""
        try:
            return shape.model_validate_json(body)
        except ValidationError as error:
            if b'"error"' in body:
                raise ServerError(f"{self.url}{path} reports an error: {_reason(body)}") from None
            where = ".".join(str(part) for part in error.errors()[0]["loc"])
            wrong = f"{where}: {error.errors()[0]['msg']}" if where else error.errors()[0]["msg"]
            start = quoted(body.decode("utf-8", "replace"))
            raise ServerError(f"{self.url}{path} answers what its kind of server does not ({wrong}): {start}") from None

    @contextmanager
    def _called(
        self, method: str, path: str, body: Mapping[str, Any] | None, clock: Clock
    ) -> Iterator[httpcore.Response]:
        """A request and the head of its answer."""
        content = None if body is None else json.dumps(dict(body)).encode()
        connecting = {"timeout": {"connect": self.limits.connect}}
        with (
            self._failures(path, clock),
            httpcore.ConnectionPool(ssl_context=self._tls, network_backend=TimedNetwork(clock)) as pool,
            pool.stream(method, self.url + path, headers=HEADERS, content=content, extensions=connecting) as response,
        ):
            clock.alive()
            yield response

    @contextmanager
    def _failures(self, path: str, clock: Clock) -> Iterator[None]:
        """Failures of the connection as sentences."""
        where = f"{self.url}{path}"
        try:
            yield
        except httpcore.ConnectTimeout:
            raise ServerError(f"{self.url} took no call within {self.limits.connect:g} s; is it running?") from None
        except httpcore.TimeoutException:
            if not clock.heard and (not clock.over or clock.total == clock.silent):
                why = f"was silent for {clock.silent:g} s; is it overloaded?"
            elif clock.over:
                why = f"was not done after {clock.total:g} s; ask for fewer tokens, or give it more time."
            else:
                why = f"sent parts of a line for {clock.silent:g} s and no whole one; is it a model server?"
            raise ServerError(f"{where} {why}") from None
        except httpcore.ConnectError:
            raise ServerError(f"{self.url} cannot be reached; start it ('draftscope servers' prints how).") from None
        except httpcore.RemoteProtocolError as error:
            why = "closed the connection before its answer was complete."
            if not any(word in str(error).lower() for word in ("closed", "disconnected")):
                why = f"does not speak HTTP ({reason(error)}); is it a model server?"
            raise ServerError(f"{where} {why}") from None
        except httpcore.NetworkError:
            raise ServerError(f"{where} closed the connection before its answer was complete.") from None
        except (httpcore.ProtocolError, httpcore.UnsupportedProtocol) as error:
            raise ServerError(f"{where} failed ({type(error).__name__}); is it a model server?") from None


def _reason(body: bytes) -> str:
    """The message in an error's JSON, or its first characters."""
    try:
        content = json.loads(body)
        content = content.get("error", content) if isinstance(content, dict) else content
        content = (content.get("message") or content.get("detail") or content) if isinstance(content, dict) else content
    except (ValueError, RecursionError):
        content = body.decode("utf-8", "replace")
    return quoted(" ".join((content if isinstance(content, str) else json.dumps(content)).split()), 300)
