"""HTTP to one server: bounded in size and time, no redirects, no proxies, and errors that name the address."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import httpx
from pydantic import BaseModel, ValidationError

from draftscope.base.errors import quoted
from draftscope.servers.adapter import ServerError

Answer = TypeVar("Answer", bound=BaseModel)

MIB = 1 << 20
DATA = b"data:"
END = b"[DONE]"
ASKS_FOR_A_KEY = (401, 403)
NOTHING_THERE = (404, 405, 500, 501)  # 501: llama.cpp's /metrics without --metrics; 503, while it loads, is an error


@dataclass(frozen=True)
class WireLimits:
    """Seconds and bytes after which a server is given up."""

    connect: float = 5.0
    silent: float = 120.0  # without a byte: a long prompt is read in this time
    total: float = 1800.0  # one stream
    answer: int = 16 * MIB
    stream: int = 256 * MIB
    event: int = MIB


class Wire:
    """Calls to one server. Safe to use from several threads."""

    def __init__(self, url: str, limits: WireLimits | None = None) -> None:
        self.url = url
        self.limits = limits or WireLimits()
        self._client = httpx.Client(
            timeout=httpx.Timeout(self.limits.silent, connect=self.limits.connect),
            # A connection for each call: llama.cpp closes one after a stream without saying so, and a request that is
            # sent at that moment is lost.
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=0),
            headers={"accept-encoding": "identity"},  # a compressed stream would be held back, and may be a bomb
            follow_redirects=False,
            trust_env=False,
        )

    def close(self) -> None:
        self._client.close()

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
        with self._failures(path), self._client.stream("POST", self.url + path, json=dict(body)) as response:
            self._refuse(path, response)
            for data, at in self._data(path, response):
                if data == END:
                    return
                yield self._shaped(path, data, shape), at

    def _data(self, path: str, response: httpx.Response) -> Iterator[tuple[bytes, float]]:
        began, size, rest = time.monotonic(), 0, b""
        for piece in response.iter_bytes():
            at = time.monotonic()
            size += len(piece)
            if size > self.limits.stream or len(rest) > self.limits.event:
                raise ServerError(f"{self.url}{path} sends more than an answer can be; is it the right server?")
            if at - began > self.limits.total:
                raise ServerError(f"{self.url}{path} was not done after {self.limits.total:g} s; ask for fewer tokens.")
            *lines, rest = (rest + piece).split(b"\n")
            for line in lines:
                if line.startswith((DATA, b"error:")):
                    yield line.partition(b":")[2].strip(), at

    def _body(self, method: str, path: str, body: Mapping[str, Any] | None, absent: bool = False) -> bytes | None:
        send = None if body is None else dict(body)
        with self._failures(path), self._client.stream(method, self.url + path, json=send) as response:
            if absent and response.status_code in NOTHING_THERE:
                return None
            self._refuse(path, response)
            return self._read(path, response)

    def _read(self, path: str, response: httpx.Response) -> bytes:
        began, pieces, size = time.monotonic(), [], 0
        for piece in response.iter_bytes():
            pieces.append(piece)
            size += len(piece)
            if size > self.limits.answer:
                raise ServerError(f"{self.url}{path} answers with more than {self.limits.answer >> 20} MiB.")
            if time.monotonic() - began > self.limits.silent:
                raise ServerError(f"{self.url}{path} took more than {self.limits.silent:g} s to answer.")
        return b"".join(pieces)

    def _refuse(self, path: str, response: httpx.Response) -> None:
        status = response.status_code
        if status < 300:
            return
        if status < 400:
            elsewhere = quoted(response.headers.get("location", "nowhere"))
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
    def _failures(self, path: str) -> Iterator[None]:
        """Failures of the connection as sentences."""
        try:
            yield
        except httpx.ConnectTimeout:
            raise ServerError(f"{self.url} took no call within {self.limits.connect:g} s; is it running?") from None
        except httpx.TimeoutException:
            raise ServerError(f"{self.url}{path} was silent for {self.limits.silent:g} s; is it overloaded?") from None
        except httpx.ConnectError:
            raise ServerError(f"{self.url} cannot be reached; start it ('draftscope servers' prints how).") from None
        except (httpx.RemoteProtocolError, httpx.ReadError, httpx.WriteError):
            raise ServerError(f"{self.url}{path} closed the connection before its answer was complete.") from None
        except httpx.HTTPError as error:
            raise ServerError(f"{self.url}{path} failed ({type(error).__name__}); is it a model server?") from None


def _reason(body: bytes) -> str:
    """The message in an error's JSON, or its first characters."""
    try:
        content = json.loads(body)
        content = content.get("error", content) if isinstance(content, dict) else content
        content = (content.get("message") or content.get("detail") or content) if isinstance(content, dict) else content
    except (ValueError, RecursionError):
        content = body.decode("utf-8", "replace")
    return quoted(" ".join((content if isinstance(content, str) else json.dumps(content)).split()), 300)
