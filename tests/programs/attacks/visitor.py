"""Visitors as the page's script plays them: a press of a button, an upload, and the event stream of their session."""

from __future__ import annotations

import json
import secrets
from collections.abc import AsyncIterator
from typing import Any

import httpx

from draftscope_app.engine.worker import IN_TURNS

RUN_S = 900.0  # more than any run here may take


def client(url: str) -> httpx.AsyncClient:
    """Any number of connections."""
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=None)
    return httpx.AsyncClient(base_url=url, timeout=RUN_S, limits=limits)


class Visitor:
    """One session. `config` is the page's; `settings` are those of Run."""

    def __init__(self, client: httpx.AsyncClient, config: dict[str, Any], **settings: Any) -> None:
        self.client, self.config, self.settings = client, config, settings
        self.session = secrets.token_hex(6)

    async def press_run(self) -> None:
        listener = self.listener("ds-run", "click")
        values = {c["id"]: c["props"].get("value") for c in self.config["components"]}
        names = {c["id"]: str(c["props"].get("elem_id") or "") for c in self.config["components"]}
        wished = {f"ds-{name.replace('_', '-')}": value for name, value in self.settings.items()}
        assert wished.keys() <= set(names.values()), wished
        await self.press(listener, [wished.get(names[n], values[n]) for n in listener["inputs"]])

    async def events(self) -> AsyncIterator[dict[str, Any]]:
        """Presses Run and passes on what is told, to the end. Raises `RuntimeError` for a sentence of the server."""
        await self.press_run()
        async for delta in self.deltas():
            if delta.get("note", IN_TURNS) != IN_TURNS and delta["note"]:
                raise RuntimeError(delta["note"])
            for event in delta.get("ev", []):
                yield event

    async def load_models(self, target: str) -> list[str]:
        """Loads other models; what the page is told, in order."""
        await self.press(self.listener("ds-load-models", "click"), [target, "", "", "draft"])
        return [str(delta["note"]) async for delta in self.deltas() if delta.get("note")]

    async def upload(self, name: str, content: bytes) -> str:
        """Loads a trace; the sentence about it."""
        answer = await self.client.post("/gradio_api/upload", files={"files": (name, content)})
        if answer.status_code != 200:
            return answer.text
        file = {"path": answer.json()[0], "orig_name": name, "meta": {"_type": "gradio.FileData"}}
        await self.press(self.listener("ds-load", "upload"), [file])
        return " ".join([str(delta.get("note", "")) async for delta in self.deltas()])

    def listener(self, element: str, event: str) -> dict[str, Any]:
        """The one behind an element's event that the server hears."""
        ids = [c["id"] for c in self.config["components"] if c["props"].get("elem_id") == element]
        found: dict[str, Any] = next(
            d
            for d in self.config["dependencies"]
            if d["backend_fn"] and [*ids, event] in [list(t) for t in d["targets"]]
        )
        return found

    async def press(self, listener: dict[str, Any], data: list[Any]) -> None:
        call = {"data": data, "fn_index": listener["id"], "session_hash": self.session}
        (await self.client.post("/gradio_api/queue/join", json=call)).raise_for_status()

    async def deltas(self) -> AsyncIterator[dict[str, Any]]:
        """The answers, each a JSON text, to the end."""
        query, begun = {"session_hash": self.session}, False
        async with self.client.stream("GET", "/gradio_api/queue/data", params=query) as stream:
            async for line in stream.aiter_lines():
                message = json.loads(line[5:]) if line.startswith("data:") else {}
                over = message.get("msg") == "process_completed"
                if over and not message.get("success", True):
                    raise RuntimeError(str(message.get("output")))
                begins = message.get("msg") == "process_generating"
                if begins or (over and not begun):  # the end of several repeats the last
                    begun = True
                    for text in map(_text, (message.get("output") or {}).get("data") or []):
                        if text:
                            yield json.loads(text)
                if over:
                    return


def _text(part: Any) -> str:
    """A delta: new, or as the difference against what was said before, of which it is another whole string."""
    if isinstance(part, list):
        part = next((change[2] for change in part if change[0] == "replace"), "")
    return part if isinstance(part, str) and part.startswith("{") else ""
