"""A hub on loopback with the files of one model, as huggingface.co answers about them."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

REPO, COMMIT, PIECE = "owner/small", "c" * 40, 1 << 18


@contextmanager
def local_hub(folder: Path, cache: Path) -> Iterator[None]:
    """The hub that the client asks in this block: it has the files of `folder` as `REPO`, and keeps them in `cache`."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            path = self.path.partition("?")[0]
            files = sorted(folder.iterdir())
            if "/tree/" in path:
                rows = [{"type": "file", "path": f.name, "size": f.stat().st_size, "oid": "0" * 40} for f in files]
                self._answer(json.dumps(rows).encode())
            elif path.startswith(f"/api/models/{REPO}"):
                siblings = [{"rfilename": f.name, "size": f.stat().st_size} for f in files]
                self._answer(json.dumps({"id": REPO, "sha": COMMIT, "siblings": siblings}).encode())
            elif (file := folder / path.rpartition("/")[2]).is_file() and path.startswith(f"/{REPO}/resolve/"):
                self._answer(file.read_bytes())
            else:
                self._answer(b"", 404)

        do_HEAD = do_GET  # noqa: N815

        def _answer(self, body: bytes, status: int = 200) -> None:
            self.send_response(status)
            headers = {"ETag": f'"{sha256(body).hexdigest()}"', "X-Repo-Commit": COMMIT, "Content-Length": len(body)}
            for name, value in (headers | ({"X-Error-Code": "EntryNotFound"} if status == 404 else {})).items():
                self.send_header(name, str(value))
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(body)

        def log_message(self, *_: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    url = f"http://127.0.0.1:{server.server_port}"
    with pytest.MonkeyPatch.context() as patch:
        constants = "huggingface_hub.constants"
        patch.setattr(f"{constants}.ENDPOINT", url)
        patch.setattr(f"{constants}.HUGGINGFACE_CO_URL_TEMPLATE", url + "/{repo_id}/resolve/{revision}/{filename}")
        patch.setattr(f"{constants}.HF_HUB_CACHE", str(cache))
        patch.setattr(f"{constants}.DOWNLOAD_CHUNK_SIZE", PIECE)
        try:
            yield
        finally:
            server.shutdown()
            server.server_close()
            thread.join()
