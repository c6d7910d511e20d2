"""A server's answer as bursts of a trace, while it arrives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from draftscope.servers.adapter import Chunk
from draftscope.trace.events import Burst

UNKNOWN = -1  # a token whose id the server does not send

Raw = Callable[[int], str]  # a token's bytes as latin-1 text


@dataclass
class Bursts:
    """Chunks in, bursts out. `near`: seconds up to which a gap joins two chunks, negative for a burst each.

    `raw` is None without the server's tokenizer here: the text of a chunk then stands at its first token.
    """

    run: str
    lane: str
    near: float
    raw: Raw | None
    made: int = 0
    tokens: list[int] = field(default_factory=list)
    text: str = ""
    _last: float = 0.0  # seconds: arrival of the last token
    _begun: float = 0.0  # ms: end of the burst before
    _pending: list[tuple[Chunk, str]] = field(default_factory=list)  # with the text of chunks without tokens before it
    _carried: str = ""

    @property
    def clock(self) -> float:
        """Milliseconds: end of the last burst."""
        return self._begun

    def take(self, chunk: Chunk, at: float) -> list[Burst]:
        """The bursts that are complete now."""
        if not chunk.ids:
            self._carried += chunk.text
            return []
        ended = self.flush() if at - self._last > self.near else []
        self._pending.append((chunk, self._carried + chunk.text))
        self._carried, self._last = "", at
        return [*ended, *(self.flush() if self.near < 0 else [])]

    def flush(self) -> list[Burst]:
        """The burst that is being collected, if any."""
        if not self._pending:
            return []
        ids = [token for chunk, _ in self._pending for token in chunk.ids]
        pieces = [piece for chunk, text in self._pending for piece in self._pieces(chunk.ids, text)]
        text = "".join(text for _, text in self._pending)
        end = max(1e3 * self._last, self._begun)
        burst = Burst(
            run=self.run, lane=self.lane, round=self.made, start=self._begun, end=end, emitted=ids,
            emitted_raw=pieces, text_delta=text,
        )  # fmt: skip
        self._pending, self._begun, self.made = [], end, self.made + 1
        self.tokens += ids
        self.text += text
        return [burst]

    def end(self) -> list[Burst]:
        """What is left, text that came without a token too."""
        left = self.flush()
        if self._carried:
            self._pending = [(Chunk((UNKNOWN,), self._carried, self._last), self._carried)]
            self._carried = ""
            left += self.flush()
        return left

    def _pieces(self, ids: Sequence[int], text: str) -> list[str]:
        if self.raw is not None and UNKNOWN not in ids:
            return [self.raw(token) for token in ids]
        return [text.encode().decode("latin-1"), *[""] * (len(ids) - 1)]
