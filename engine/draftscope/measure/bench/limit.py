"""The limit that memory sets to plain decoding on a CPU: every token reads all weights and the whole cache once."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain

import torch

from draftscope.base.steps import last
from draftscope.decode.calibration import forward_of, interleaved
from draftscope.models.forward.stored import stored_of, stored_weights
from draftscope.models.model import Model

ROWS = (1, 2, 3, 4, 5, 6, 8, 12, 16)
REPEATS = 11
SMALLEST_COPY = 1 << 28  # bytes, more than any CPU caches


@dataclass(frozen=True)
class MemoryLimit:
    """Bytes that one token reads behind `context` tokens, the bytes a second that a plain copy reads and writes, and
    v(n): a forward of n rows divided by one of a single row, timed in turn. All are medians."""

    context: int
    weight_bytes: int
    cache_bytes: int
    copied_per_s: float
    verify: dict[int, float]

    @property
    def tokens_per_s(self) -> float:
        """Plain decoding's, if reading were all that it does and took no longer than copying."""
        return self.copied_per_s / (self.weight_bytes + self.cache_bytes)


def memory_limit(model: Model, context: int) -> MemoryLimit | None:
    """Measures it; None on other devices than a CPU, and where `context` does not fit the model."""
    if model.device.type != "cpu" or not model.trees or context + ROWS[-1] > model.context:
        return None
    weights = read_a_token(model)
    source = torch.ones(max(weights, SMALLEST_COPY), dtype=torch.uint8)
    into = torch.empty_like(source)
    cache = model.cache(1, context + ROWS[-1])
    works = [forward_of(model, cache, rows, context) for rows in ROWS]
    forwards = last(interleaved(works, model.device, REPEATS))
    copies = interleaved([lambda: into.copy_(source)], model.device, REPEATS)  # apart: it empties the caches
    ((copy, _),) = last(copies)
    return MemoryLimit(
        context=context,
        weight_bytes=weights,
        cache_bytes=model.kept_bytes(context),
        copied_per_s=2e3 * source.nbytes / copy,
        verify={rows: ms / forwards[0][0] for rows, (ms, _) in zip(ROWS, forwards, strict=True)},
    )


def read_a_token(model: Model) -> int:
    """Bytes of all weights as they are read, without an embedding that is not the output matrix too: a token reads one
    row of it."""
    network = model.network
    embedding, head = network.get_input_embeddings(), network.get_output_embeddings()
    floats = sum(tensor.nbytes for tensor in chain(network.parameters(), network.buffers()))
    read = floats + sum(weight.nbytes for weight in stored_weights(network))
    first = stored_of(embedding) or embedding.weight
    separate = head is not None and first.data_ptr() != (stored_of(head) or head.weight).data_ptr()
    return int(read - first.nbytes) if separate else read
