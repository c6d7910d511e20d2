"""Requests that no page sends, for every route of a built application: bodies, queries, headers and parts of paths."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

DIGITS = "7" * 5_000  # more than Python turns into a number
MIB = 2**20

VALUES = (  # JSON, each in the place of each field that a route reads
    *("null", "true", "-1", "0", "7e18", "1" + 400 * "0", DIGITS, "1e999", "NaN", "-Infinity", "0.5", '""', '"x"'),
    *('"\\ud800"', '"\\u0000"', '"../../etc/passwd"', "[]", "{}", '[["\\udfff"]]', '{"\\ud800": 1}', '{"a": [NaN]}'),
    *('[{"path": "/etc/passwd", "meta": {"_type": "gradio.FileData"}}]', '{"path": "\\u0000"}', "[1, 2, 3]"),
)
FIELDS = (  # what any route reads
    *("data", "fn_index", "session_hash", "event_id", "event_data", "trigger_id", "component_id", "fn_name", "batched"),
    *("link", "phone", "text", "question", "option", "action", "hide", "title", "kind", "prompt", "rounds", "answer"),
)
CALL = {"data": ["x"], "fn_index": 1, "session_hash": "a", "component_id": 1, "fn_name": "lesson"}
TYPES = (
    *("application/json", "", "text/plain", "multipart/x", "multipart/form-data", "multipart/form-data; boundary=b"),
    *("application/x-www-form-urlencoded", "application/json; charset=utf-16", "multipart/form-data; boundary=\xe9"),
)
QUERIES = (
    *(f"number={DIGITS}", "number=%C2%B2", "number=-1", "number=NaN", "phone=%ED%A0%80", "phone=%00", "%FF=%FF"),
    *("session_hash=%00", "upload_id=%FF", "session_hash=a", "deep_link=../..", "__theme=%00", "a" * 9_000, "&&=&;"),
)
HEADERS = (
    *({"cookie": "\x7f=\xff; access-token=\xe9"}, {"x-class-key": "\xe9"}, {"range": f"bytes={DIGITS}-"}),
    *({"range": "bytes=-1,0-0,x"}, {"if-modified-since": DIGITS}, {"accept-encoding": "\xff"}, {"authorization": "x"}),
    *({"x-forwarded-for": "\xe9, 999.1.1.1"}, {"x-forwarded-host": "[half"}, {"x-forwarded-proto": "\xe9"}),
    *({"x-forwarded-host": "a,b\xe9"}, {"content-encoding": "gzip"}, {"user-agent": "\xff" * 4_000}),
    *({"referer": "http://[half"}, {"accept-language": DIGITS}, {"x-gradio-user": "api", "x-ip-token": "\xe9"}),
)
PARTS = ("decode", "predict", "lesson", "%00", "..%2f..%2fetc%2fpasswd", "%FF", "%ED%A0%80", "7" * 4_500, "-1", "http:")


@dataclass(frozen=True)
class Hostile:
    """One request. `body` is absent for one without."""

    method: str
    path: str
    body: bytes | None = None
    headers: dict[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        body = "" if self.body is None else f" {self.body[:80]!r} ({len(self.body)} bytes)"
        return f"{self.method} {self.path[:120]} { {n: v[:60] for n, v in self.headers.items()} }{body}"


def routes(app: Any, prefix: str = "") -> Iterator[tuple[str, str]]:
    """Method and path of every route, Gradio's too."""
    for route in getattr(app, "routes", ()):
        inner = getattr(route, "original_router", None) or getattr(route, "app", None)
        if getattr(route, "methods", None):
            yield from ((method, prefix + route.path) for method in sorted(route.methods))
        elif inner is not None:
            yield from routes(inner, prefix + getattr(route, "path", ""))


def bodies(calls: bool) -> list[bytes]:
    """Of a few bytes to 1 MiB: no JSON, other JSON than a route reads, and JSON in other clothes. `calls`: for a route
    of Gradio's, whose calls have several fields."""
    call = json.dumps(CALL).encode()
    head, tail = call.removesuffix(b"}") + b', "event_data": ', b"}"
    large = [b"[]," * (MIB // 3 - 200) + b"[]", b"[" * 400_000 + b"]" * 400_000, b"[" * 900 + b"]" * 900]
    part = b"--b\r\nContent-Disposition: form-data; name=%s; filename=%s\r\n\r\n%s\r\n--b--\r\n"
    fields = FIELDS[:9] if calls else ()
    return [
        *(b"", b"{", b"null", b"[]", b'"x"', b"\xff\xfe{}", b"\x00", b"a=1&b=%FF", DIGITS.encode(), b"[" * 5_000),
        *(head + b"[" + many + b"]" + tail for many in large),
        *(call.decode().encode(coding) for coding in ("utf-16", "utf-16-le", "utf-32", "utf-8-sig")),
        *(part % each for each in ((b"files", b"\x00", b"x"), (b'"', b"", b""), (b"video", b"a.mp4", b"x"))),
        *(f'{{"{name}": {value}}}'.encode() for name, value in zip(FIELDS, itertools.cycle(VALUES), strict=False)),
        *(f"{json.dumps(CALL)[:-1]}, {json.dumps(name)}: {value}}}".encode() for name in fields for value in VALUES),
    ]


def requests(method: str, path: str, known: dict[str, str]) -> list[Hostile]:
    """For one route. `known` are parts of its path that lead somewhere."""
    names = re.findall(r"{(\w+)[^}]*}", path)
    usual = {name: known.get(name, PARTS[0]) for name in names}
    whole, empty = _filled(path, usual), None if method in ("GET", "HEAD") else b"{}"
    wanted = [Hostile(method, _filled(path, usual | {name: part}), empty) for name in names for part in PARTS]
    wanted += [Hostile(method, f"{whole}?{query}", empty) for query in QUERIES]
    wanted += [Hostile(method, whole, empty, header) for header in HEADERS]
    if empty is not None:
        sent = zip(bodies("gradio_api" in path), itertools.cycle(TYPES), strict=False)
        wanted += [Hostile(method, whole, body, {"content-type": kind}) for body, kind in sent]
    return wanted


def _filled(path: str, parts: dict[str, str]) -> str:
    return re.sub(r"{(\w+)[^}]*}", lambda match: parts[match[1]], path)
