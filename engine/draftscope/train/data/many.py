"""Thousands of answers at once, for a GPU, where a step of one takes almost as long as a step of all.

Every row of a batch writes one answer; where it has ended, the next prompt begins in its place. Each row attends to its
own columns only, however long the others are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.nn.utils.rnn import pad_sequence

from draftscope.models.forward.attention import has_flash
from draftscope.models.forward.lean import Layer, LeanLlama

STEPS = 16  # between two looks at which rows have ended
READ = 1 << 15  # tokens of prompts that are read together, padding included
SHARE = 0.5  # of the free memory, for keys and values
CPU_BYTES = 1 << 30  # for them without a GPU
MAX_ROWS = 2048
TILE = 64  # columns
HASHED = (1, 1_000_003, 998_244_353, 2_147_483_647)  # factors of a 4-gram's tokens


@dataclass(frozen=True)
class RowPrompt:
    """A prompt as tokens. `batch` and `place` say which one it is."""

    batch: int
    place: int
    prompt: list[int]
    temperature: float


class AnswerRows(LeanLlama):
    """A target that writes one answer in each of `count` rows, of at most `longest` tokens after a prompt of at most
    `widest`."""

    def __init__(self, network: Any, count: int, widest: int, longest: int) -> None:
        super().__init__(network)
        device, columns = network.device, -(-(widest + longest) // TILE) * TILE
        shape = (2, len(self._layers), count * columns, self._kv_heads, self._width)
        self._cache = [list(part) for part in torch.zeros(shape, dtype=network.dtype, device=device)]
        self._columns, self._longest = columns, longest
        self._has_flash = device.type == "cuda" and has_flash(device, network.dtype)
        self._numbers = torch.arange(count + 1, device=device, dtype=torch.int32)
        self._starts = self._numbers * columns  # each row's first column among those of all
        self._lengths = torch.zeros(count, dtype=torch.long, device=device)  # columns that are filled
        self._seen = self._numbers[:-1]  # columns that a row attends to
        self._last = torch.zeros(count, dtype=torch.long, device=device)
        self._temperatures = torch.zeros(count, device=device)
        self._written = torch.zeros(count, dtype=torch.long, device=device)
        self._tokens = torch.zeros((count, longest + 1), dtype=torch.long, device=device)
        self._ended = torch.ones(count, dtype=torch.bool, device=device)

    @property
    def count(self) -> int:
        return len(self._ended)

    @property
    def device(self) -> torch.device:
        return self._ended.device

    @torch.inference_mode()
    def begin(self, rows: Sequence[int], row_prompts: Sequence[RowPrompt]) -> None:
        """Reads the prompts into these rows."""
        widest = max(len(row_prompt.prompt) for row_prompt in row_prompts)
        size = max(1, READ // widest)
        for start in range(0, len(rows), size):
            self._read(rows[start : start + size], row_prompts[start : start + size])

    def _read(self, rows: Sequence[int], row_prompts: Sequence[RowPrompt]) -> None:
        device = self.device
        place = torch.tensor(rows, device=device)
        prompts = [torch.tensor(row_prompt.prompt) for row_prompt in row_prompts]
        ids = pad_sequence([prompt[:-1] for prompt in prompts], batch_first=True).to(device)
        columns = place[:, None] * self._columns + torch.arange(ids.shape[1], device=device)
        self._run(ids, torch.arange(ids.shape[1], device=device).expand_as(ids), columns, self._attend_prompt)
        self._lengths[place] = torch.tensor([len(prompt) - 1 for prompt in prompts], device=device)
        self._last[place] = torch.stack([prompt[-1] for prompt in prompts]).to(device)
        self._temperatures[place] = torch.tensor([row_prompt.temperature for row_prompt in row_prompts], device=device)
        self._written[place] = 0
        self._ended[place] = False

    @torch.inference_mode()
    def step(self, ends: Tensor) -> None:
        """One more token in every row that has not ended; a row ends with one of `ends` or where it is full.

        The token with the largest logit + T x Gumbel noise is a draw at temperature T.
        """
        columns, self._seen = self._starts[:-1] + self._lengths, (self._lengths + 1).int()
        logits = self._run(self._last[:, None], self._lengths[:, None], columns[:, None], self._attend_row)[:, 0]
        noise = torch.empty(logits.shape, device=logits.device).exponential_().log_()
        token = torch.sub(logits, noise * self._temperatures[:, None]).argmax(-1)
        live = ~self._ended
        self._tokens.scatter_(1, self._written[:, None], torch.where(live, token, self._last)[:, None])
        self._written += live
        self._lengths += live
        self._last = torch.where(live, token, self._last)
        self._ended |= torch.isin(token, ends) | (self._written >= self._longest)

    @torch.inference_mode()
    def stop_loops(self, recent: int) -> None:
        """Ends the rows in whose last `recent` tokens more than half of the 4-grams are repeats."""
        last = (self._written[:, None] - recent + torch.arange(recent, device=self.device)).clamp(min=0)
        grams = self._tokens.gather(1, last).unfold(1, 4, 1)  # [B, recent - 3, 4]
        digests = (grams * torch.tensor(HASHED, device=grams.device)).sum(-1)
        fresh = 1 + (digests.sort(1).values.diff(dim=1) != 0).sum(1)
        self._ended |= (self._written >= recent) & (fresh < 0.5 * digests.shape[1])

    def ended(self) -> list[int]:
        """The rows that have ended, or have not begun. Waits for the device."""
        return self._ended.nonzero().flatten().tolist()

    def answers(self, rows: Sequence[int]) -> list[list[int]]:
        """The tokens that are written in these rows."""
        place = torch.tensor(rows, device=self.device, dtype=torch.long)
        tokens, written = self._tokens[place].cpu(), self._written[place].tolist()
        return [row[:count].tolist() for row, count in zip(tokens, written, strict=True)]

    def _run(self, ids: Tensor, positions: Tensor, columns: Tensor, attend: Callable[..., Tensor]) -> Tensor:
        """Logits of each row's last token. Keys and values of `ids` [B, T] go to `columns` [B, T] of all rows."""
        layers = [
            SimpleNamespace(keys=keys, values=values, columns=columns.flatten(), attend=attend)
            for keys, values in zip(*self._cache, strict=True)
        ]
        cache: Any = SimpleNamespace(layers=layers, table=SimpleNamespace(view=self._columns))
        return self(ids, positions, None, cache, logits_to_keep=1).logits

    def _attention(self, layer: Layer, x: Tensor, cos: Tensor, sin: Tensor, mask: Tensor | None, cache: Any) -> Tensor:  # noqa: ARG002
        query, key, value = self._projected(layer, x, cos, sin)
        cache.keys.index_copy_(0, cache.columns, key.flatten(0, 1))
        cache.values.index_copy_(0, cache.columns, value.flatten(0, 1))
        return F.linear(cache.attend(cache, query, key, value).flatten(2), layer.out)

    def _attend_prompt(self, cache: Any, query: Tensor, key: Tensor, value: Tensor) -> Tensor:  # noqa: ARG002
        query, key, value = (part.transpose(1, 2) for part in (query, key, value))
        return F.scaled_dot_product_attention(query, key, value, is_causal=True, enable_gqa=True).transpose(1, 2)

    def _attend_row(self, cache: Any, query: Tensor, key: Tensor, value: Tensor) -> Tensor:  # noqa: ARG002
        return self._by_flash(cache, query) if self._has_flash else self._by_mask(cache, query)

    def _by_flash(self, cache: Any, query: Tensor) -> Tensor:
        """[B, 1, H, D]: the kernel is told where each row's columns begin and how many it attends to."""
        mixed = torch.ops.aten._flash_attention_forward(
            query[:, 0], cache.keys, cache.values, self._numbers, self._starts, 1, self._columns, 0.0, False, False,
            seqused_k=self._seen,
        )[0]  # fmt: skip
        return mixed[:, None]  # type: ignore[no-any-return]

    def _by_mask(self, cache: Any, query: Tensor) -> Tensor:
        """The same where there is no such kernel: the columns of all rows are read, up to the longest."""
        shape = (self.count, self._columns, self._kv_heads, self._width)
        keys, values = (part.view(shape).transpose(1, 2) for part in (cache.keys, cache.values))
        mask = torch.arange(self._columns, device=query.device) < self._seen[:, None, None, None]
        view = min(self._columns, -(-int(self._seen.max()) // TILE) * TILE)
        together = query.view(self.count, self._kv_heads, -1, self._width)  # heads that share keys are rows
        mixed = F.scaled_dot_product_attention(
            together, keys[:, :, :view], values[:, :, :view], mask[..., :view].expand(-1, -1, together.shape[2], -1)
        )
        return mixed.reshape(self.count, 1, self._heads, self._width)


def rows_that_fit(network: Any, columns: int) -> int:
    """How many rows of so many columns the free memory of the network's device takes."""
    config, on_gpu = network.config, network.device.type == "cuda"
    width: int = network.model.layers[0].self_attn.head_dim
    column: int = 2 * config.num_hidden_layers * config.num_key_value_heads * width * network.dtype.itemsize  # bytes
    size: float = SHARE * torch.cuda.mem_get_info(network.device)[0] if on_gpu else CPU_BYTES
    return max(1, min(MAX_ROWS, int(size) // (columns * column)))


def write(
    rows: AnswerRows, row_prompts: Iterable[RowPrompt], ends: Iterable[int], recent: int, stopped: Callable[[], bool]
) -> Iterator[tuple[RowPrompt, list[int]]]:
    """Every prompt with its answer, in the order in which they end; `stopped` ends it before that. An answer ends
    with one of `ends`, or when its last `recent` tokens loop."""
    waiting, busy, free = iter(row_prompts), dict[int, RowPrompt](), rows.ended()
    stop = torch.tensor(sorted(ends), device=rows.device)
    done: list[tuple[RowPrompt, list[int]]] = []
    while not stopped():
        begun = dict(zip(free, waiting, strict=False))
        if begun:
            rows.begin(list(begun), list(begun.values()))
            busy |= begun
        if not busy:
            break
        for _ in range(STEPS):
            rows.step(stop)
        yield from done  # while the device computes
        rows.stop_loops(recent)
        free = [row for row in rows.ended() if row in busy]
        done = [(busy.pop(row), tokens) for row, tokens in zip(free, rows.answers(free), strict=True)]
    yield from done
