"""A transformers model as this engine uses it: rows of a draft tree in, logits out, keys and values in a `SlotCache`.

Only this module deals with transformers' models. Target and draft use the same code, so neither the baseline nor a
drafter has a faster path than the other.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import AbstractContextManager, nullcontext
from copy import copy
from enum import Enum
from typing import Any

import torch
from torch import Tensor

from draftscope.base.errors import DraftscopeError
from draftscope.base.steps import last
from draftscope.models.cache.layers import Shape, shapes
from draftscope.models.cache.masks import Reach, attention_mask, common_of, reaches, with_common
from draftscope.models.cache.slots import VECTOR, WIDE, SlotCache, SlotTable
from draftscope.models.counter import Capabilities, ForwardCounter, Pulse
from draftscope.models.files import memory_needed
from draftscope.models.files.gguf_file import was_widened
from draftscope.models.forward import attention
from draftscope.models.forward.decoder import covers as is_decoder
from draftscope.models.forward.decoder import described
from draftscope.models.forward.emulated_size import EmulatedShape, EmulatedSize
from draftscope.models.forward.experts import layers as expert_layers
from draftscope.models.forward.graphs import Call, GraphMode, Graphs, OnCuda, Outputs, Recorder
from draftscope.models.forward.layers_with_state import Hybrid, HybridCache
from draftscope.models.forward.layers_with_state import covers as is_hybrid
from draftscope.models.forward.lean import LeanLlama
from draftscope.models.forward.lean import covers as is_lean
from draftscope.models.forward.mamba import READ, Mamba2
from draftscope.models.forward.mamba import covers as is_mamba2
from draftscope.models.forward.native import NativeDecoder
from draftscope.models.forward.stored import number_of_weights, stored_of
from draftscope.models.forward.truncated import final_residual, truncated
from draftscope.models.native.available import stored_kinds, why_not, why_not_stored
from draftscope.models.native.linear import accelerate

CHUNK = 256  # rows of a prompt that a compiled forward reads at once


class ForwardMode(Enum):
    """How a forward runs; the values are stored in calibrations."""

    EAGER = ""
    NATIVE = "native"
    PACKED = "packed"  # native, with weights as they lie in a quantised file
    GRAPHS = "graphs"


class Model:
    """A decoder-only language model in evaluation mode. `name` is displayed; `digest` identifies its weights.

    `weights` says in words which weights they are, if a model has several kinds, such as quantised ones; else empty.
    `probe.probed` creates one with the capabilities that the network was found to have. If `recurrent`, its cache is a
    state of constant size, which can drop open rows but no committed ones.
    """

    def __init__(
        self,
        network: Any,
        name: str,
        digest: str = "",
        weights: str = "",
        *,
        capabilities: Capabilities,
    ) -> None:
        self.network = network.eval()
        self.recurrent = is_mamba2(network)
        self.run = _runner(network)  # the network itself or an equivalent forward
        self.name = name
        self.digest = digest
        self.weights = weights
        self.left_out: list[str] = []  # sentences: what of its files was not loaded
        self.counter = ForwardCounter()
        self.pulse = Pulse()
        config = network.config.get_text_config()
        self.layers: int = config.num_hidden_layers
        self.hidden: int = config.hidden_size
        self.context: int = getattr(config, "max_position_embeddings", None) or 1 << 30
        self.rope_switch_length = _rope_switch_length(config)
        self.vocabulary: int = config.vocab_size
        self.device = _input_device(network)
        if self.device.type in attention.DEVICES:
            attention.use(network)
        self.dtype: torch.dtype = network.dtype
        self.parameters = number_of_weights(network)
        self._slot_bytes = memory_needed.slot_bytes(config, self.dtype)
        self._shapes: list[Shape | None] = shapes(config)
        self._reach = Reach() if self.recurrent else reaches(config, name)
        # Eager attention adds its mask, so a boolean one would be silently wrong.
        self.additive = self.dtype if config._attn_implementation == "eager" else None
        self.emulated: EmulatedSize | None = None
        self.graphs: Graphs | None = None
        self._graphs_of_first: dict[int, Graphs] = {}  # those of the models of its first layers, by their number
        self._set(capabilities)

    def _set(self, capabilities: Capabilities) -> None:
        self.capabilities = capabilities
        if isinstance(self.run, Hybrid):
            self.run.row_by_row = capabilities.row_by_row

    def with_capabilities(self, capabilities: Capabilities) -> Model:
        """This model with other capabilities; shares its weights and counts its own forwards."""
        other = copy(self)
        other.counter = ForwardCounter()
        other._set(capabilities)
        return other

    @property
    def trees(self) -> bool:
        """Whether it supports draft trees, and batches of sequences with different lengths."""
        return self.capabilities.trees

    @property
    def limits(self) -> str:
        """What this model does not support, as a sentence; empty if it supports everything."""
        if self.trees:
            return ""
        why = "keeps a state in some layers" if isinstance(self.run, Hybrid) else "makes its own attention masks"
        return f"'{self.name}' {why}, so it supports only chains: no tree drafters and no batches of unequal texts."

    @property
    def stateful(self) -> bool:
        """Whether some of its layers keep a state, which cannot be truncated to an earlier token."""
        return isinstance(self.run, Mamba2 | Hybrid)

    def first_layers(self, count: int) -> Model:
        """The model of the first `count` layers, the norm and the head; shares the weights, counts its own forwards.

        Raises DraftscopeError if there are not that many layers, or if they cannot be run on their own.
        """
        if not 1 <= count < self.layers:
            raise DraftscopeError(
                f"exit_layer = {count}: '{self.name}' has {self.layers} layers; choose 1 to {self.layers - 1}."
            )
        if self.emulated is not None:
            raise DraftscopeError(
                f"'{self.name}' emulates a size, so its first layers cannot run alone; load it without --emulate."
            )
        shallow = copy(self)
        shallow.network = truncated(self.network, count)
        shallow.run = self.run.first(count) if isinstance(self.run, LeanLlama | NativeDecoder) else shallow.network
        shallow.name = f"{self.name}, {count} of {self.layers} layers"
        shallow.layers = count
        shallow.parameters = number_of_weights(shallow.network)
        shallow.counter = ForwardCounter()
        shallow.graphs = None
        if self.graphs is not None:
            graphs = Graphs(self.graphs.record, self.graphs.off)
            shallow.graphs = self._graphs_of_first.setdefault(count, graphs)  # so the next session finds them warm
        shallow._shapes = self._shapes[:count]
        shallow._slot_bytes = memory_needed.bytes_of(shallow._shapes, self.dtype)
        return shallow

    def cache(self, batch: int, capacity: int) -> SlotCache:
        """An empty cache of `capacity` slots for each of `batch` sequences. DraftscopeError if it does not fit."""
        if isinstance(self.run, Mamba2):
            return self.run.cache(batch, self.device)
        if self.graphs is None or self.graphs.smallest_free(batch, capacity) is None:
            self._make_room(batch, capacity)
        if isinstance(self.run, Hybrid):
            return self.run.cache(batch, capacity, self.device)
        side = self.emulated.shape.layers if self.emulated else 0
        if self.graphs is not None:
            return self.graphs.cache(self._shapes, batch, capacity, self.device, side)
        vector = WIDE if self.device.type == "cuda" else VECTOR  # the same sums with graphs and without
        return SlotCache(self._shapes, batch, capacity, self.device, side, vector)

    def _make_room(self, batch: int, capacity: int) -> None:
        """Gives up memory that is kept for later sessions if a cache needs it. DraftscopeError if it does not fit."""
        if self.graphs is not None and not memory_needed.fits(batch * capacity * self._slot_bytes, self.device):
            self.graphs.give_back()
        memory_needed.refuse_cache(self.name, batch, capacity, self._slot_bytes, self.device)

    def kept_bytes(self, tokens: int) -> int:
        """Bytes that a text of `tokens` tokens takes up in this model's cache; constant for a recurrent model."""
        return tokens * self._slot_bytes + self.capabilities.state_bytes

    def emulate(self, shape: EmulatedShape) -> None:
        """Adds the costs of a model of that shape; the tokens stay the same. DraftscopeError if it does not fit."""
        if self.stateful:
            raise DraftscopeError(f"'{self.name}' keeps a state, so it can emulate no size; load it without --emulate.")
        size = self.dtype.itemsize
        what = f"the emulated size {shape.name}, {shape.values:,} values"
        memory_needed.refuse_weights(
            self.name, shape.values * size, memory_needed.CONTEXT * shape.slot_values * size, [self.device], what
        )
        emulated = self.emulated = EmulatedSize(shape, self.hidden, self.dtype, self.device)
        if self.graphs is not None:
            self.record_graphs(self.graphs.record)  # existing graphs are of the forward without it
        self._slot_bytes += shape.slot_values * size
        self.network.get_input_embeddings().register_forward_hook(lambda *call: call[2] + emulated(call[2]))

    def record_graphs(self, record: Recorder | None = None) -> None:
        """From now on, forwards of few rows are replayed from graphs; `graph_state` tells if and why they are not.

        `record` is for tests; None records on the model's CUDA device.
        """
        off = ""
        if self.stateful:
            off = "the model keeps a state"
        elif len(set(getattr(self.network, "hf_device_map", {}).values())) > 1:
            off = "the model is on several devices"
        elif expert_layers(self.network):
            off = "the model's experts are chosen in each forward"
        elif self.emulated is not None and self.emulated.shape.experts:
            off = "the emulated experts are chosen in each forward"
        self.graphs = Graphs(record or OnCuda(self.device), off)
        self._graphs_of_first = {}

    @property
    def graph_mode(self) -> GraphMode:
        """What is replayed from graphs."""
        return GraphMode.OFF if self.graphs is None else self.graphs.mode

    @property
    def graph_state(self) -> str:
        """`Graphs.state`, for display; empty if graphs were not requested."""
        return "" if self.graphs is None else self.graphs.state

    @property
    def not_native(self) -> str:
        """Why its forward is not the compiled one for this processor, as a sentence; empty if it is or cannot be."""
        native = isinstance(self.run, NativeDecoder) or not is_decoder(self.network)
        return "" if native else why_not()

    @property
    def not_stored(self) -> str:
        """Why the weights of its quantised file are widened, as a sentence; empty if they are not, or need not be."""
        if not was_widened(self.weights) or self.device.type != "cpu" or why_not():
            return ""
        why = why_not_stored()
        if not why and not isinstance(self.run, NativeDecoder):
            why = f"The forward of its architecture ({self.network.config.model_type}) is not compiled."
        return f"The weights of '{self.name}' are widened to bfloat16. {why}" if why else ""

    @property
    def widened(self) -> bool:
        """Whether it has weights in bfloat16 that this machine could read as they are stored, in fewer bits."""
        return isinstance(self.run, NativeDecoder) and was_widened(self.weights) and bool(stored_kinds())

    def use_torch_products(self) -> None:
        """Computes with torch's products from now on: of hundreds of rows they are faster than the compiled forward, on
        processors that multiply bfloat16."""
        if isinstance(self.run, NativeDecoder) and not self.run.packed and is_lean(self.network):
            self.run = LeanLlama(self.network)

    @property
    def forward_mode(self) -> ForwardMode:
        """How its forward runs."""
        if isinstance(self.run, NativeDecoder):
            return ForwardMode.PACKED if self.run.packed else ForwardMode.NATIVE
        return ForwardMode.EAGER if self.graph_mode is GraphMode.OFF else ForwardMode.GRAPHS

    @torch.inference_mode()
    def forward(
        self, cache: SlotCache, tokens: Tensor, offsets: Tensor, sees: Tensor | None = None, last_only: bool = False
    ) -> Tensor:
        """Logits [B, T, V] of `tokens` [B, T], which are written to the cache as open rows.

        offsets [B, T]: the position of each row, relative to the sequence's permanent length. sees [B, T, O + T] bool:
        the rows that each row attends to among the O earlier open rows and these rows, including itself; None for a
        chain. `last_only` computes only the logits of the last row, [B, 1, V]. Raises DraftscopeError for a tree if the
        model supports only chains.
        """
        return self.forward_with_features(cache, tokens, offsets, sees, (), last_only)[0]

    @torch.inference_mode()
    def forward_with_features(
        self,
        cache: SlotCache,
        tokens: Tensor,
        offsets: Tensor,
        sees: Tensor | None,
        layers: tuple[int, ...],
        last_only: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """`forward`, with the hidden states [B, T, len(layers) x hidden] of the same forward that a drafter reads.

        Layer i is the input of decoder layer i; the number of layers is the output of the final norm, and one more its
        input. None if `layers` is empty.
        """
        self.counter.add([tokens.shape[1]])
        self.pulse.add(tokens.numel())
        rows, more = tokens.shape[1], {}
        if isinstance(cache, HybridCache):
            tokens, offsets = cache.begin_write(tokens, offsets)
            more = {"again": tokens.shape[1] - rows}
        cache.table.begin_write(offsets)
        mask = self._mask(cache.table, sees)
        # A tree at the end of a text may exceed the context: its nodes there are never accepted, so any valid position
        # will do.
        positions = (cache.table.length[:, None] + offsets).clamp_(max=self.context - 1)

        known = common_of(mask)

        def call(tokens: Tensor, positions: Tensor, mask: Any) -> tuple[Tensor, ...]:
            if known is not None:  # a graph's input is another tensor than the mask
                mask = with_common(mask, known.columns)
            if self.emulated is not None:
                self.emulated.begin_write(cache, mask)
            with self._noting_residual(layers) as residual:
                out = self.run(
                    input_ids=tokens,
                    position_ids=positions,
                    attention_mask=mask,
                    past_key_values=cache,
                    use_cache=True,
                    logits_to_keep=1 if last_only else 0,
                    output_hidden_states=bool(layers),
                    **more,
                )
            logits = (out.logits[:, -rows:] if more else out.logits).to(self.device)
            if not layers:
                return (logits,)
            states = [*out.hidden_states, *residual]
            return logits, torch.cat([states[i][:, -rows:].to(self.device) for i in layers], -1)

        if self.graphs is not None and isinstance(mask, Tensor):
            key = layers, last_only, known and known.columns
            outputs = self.graphs.forward(cache, call, key, (tokens, positions, mask))
        else:
            outputs = call(tokens, positions, mask)
        return outputs[0], outputs[1] if layers else None

    def _noting_residual(self, layers: tuple[int, ...]) -> AbstractContextManager[list[Tensor]]:
        """What a forward inside adds to its hidden states: the input of the final norm, where transformers' network
        runs and a drafter reads it."""
        notes_it = isinstance(self.run, LeanLlama | NativeDecoder | Mamba2)
        return nullcontext([]) if notes_it or self.layers + 1 not in layers else final_residual(self.network)

    @torch.inference_mode()
    def loop(self, cache: SlotCache, call: Call, key: object, inputs: tuple[Tensor, ...], widths: list[int]) -> Outputs:
        """`call(*inputs)`, in which this model runs forwards of `widths` rows; replayed as one graph if possible.

        See `Graphs.loop` for what `call` may depend on and who commits the cache.
        """
        self.pulse.add(sum(widths))
        with self.counter.counted_as(widths):  # counted once, although recording runs them several times
            return call(*inputs) if self.graphs is None else self.graphs.loop(cache, call, key, inputs, widths)

    def read(self, cache: SlotCache, prompts: list[list[int]], layers: tuple[int, ...] = ()) -> Tensor | None:
        """`reading` to its end: the prompts' features [B, T, F], or None if `layers` is empty."""
        return last(self.reading(cache, prompts, layers))

    def reading(
        self, cache: SlotCache, prompts: list[list[int]], layers: tuple[int, ...] = ()
    ) -> Generator[int, None, Tensor | None]:
        """Prefill: writes the prompts to the cache and makes them permanent; returns their features [B, T, F].

        A long prompt is read in several forwards; after each but the last, yields how many tokens have been read.
        Shorter prompts are padded on the right; the padding is written after their length, where the next rows
        overwrite it.
        """
        lengths = torch.tensor([len(prompt) for prompt in prompts], device=self.device)
        longest = max(map(len, prompts))
        if longest == 0:
            width = len(layers) * self.hidden
            return torch.zeros((len(prompts), 0, width), dtype=self.dtype, device=self.device) if layers else None
        padded = torch.tensor([prompt + [0] * (longest - len(prompt)) for prompt in prompts], device=self.device)
        keeps_state = self.recurrent or isinstance(cache, HybridCache)
        size, features = self._read_at_once(longest), []
        for start in range(0, longest, size):
            tokens = padded[:, start : start + size]
            offsets = torch.arange(tokens.shape[1], device=self.device) + (0 if keeps_state else start)
            rows = offsets.expand(len(tokens), -1)
            features.append(self.forward_with_features(cache, tokens, rows, None, layers, last_only=True)[1])
            if keeps_state:
                cache.keep_first((lengths - start).clamp(0, tokens.shape[1]), start + tokens.shape[1])
            if start + size < longest:
                yield start + size
        if not keeps_state:
            least = min(map(len, prompts))
            cache.table.commit(lengths, longest, even=least == longest, least=least)
        return torch.cat([part for part in features if part is not None], 1) if layers else None

    def _read_at_once(self, longest: int) -> int:
        """Rows of a prompt in one forward: all of them where a mask after a cached text is slow or impossible."""
        if self.recurrent:
            return READ
        return CHUNK if self._masks_chains else longest

    @property
    def _masks_chains(self) -> bool:
        """Whether rows after a cached text need no mask if they are a chain."""
        return isinstance(self.run, NativeDecoder) and self.emulated is None

    def _mask(self, table: SlotTable, sees: Tensor | None) -> Any:
        """Our mask, or None if the model's own causal mask is equivalent; for a recurrent model only the ancestry."""
        if self.recurrent:
            chain = torch.ones((table.open, table.open), dtype=torch.bool, device=self.device).tril()
            rows = chain[-table.slots.shape[1] :] if sees is None else sees
            return rows.expand(len(table.length), -1, -1)
        if sees is None and table.before == 0:
            return None  # a prompt: nothing before it, and padding only after it
        if sees is None and self._masks_chains:
            return None
        if self.trees:
            table.widen()
            return attention_mask(table, self._reach, sees, self.additive)
        if sees is None and table.even:
            return None
        raise DraftscopeError(f"{self.limits} Choose a drafter of chains, and decode one text at a time.")


def _runner(network: Any) -> Any:
    if is_decoder(network) and not why_not():
        return NativeDecoder(described(network))
    if is_lean(network):
        return LeanLlama(network)
    accelerate(network)
    if is_mamba2(network):
        return Mamba2(network)
    return Hybrid(network) if is_hybrid(network) else network


def _input_device(network: Any) -> torch.device:
    """The device of the inputs: the embedding's, or the first computing one if a device map offloads the embedding."""
    embedding = network.get_input_embeddings()
    if stored_of(embedding) is not None:
        return torch.device("cpu")
    device: torch.device = embedding.weight.device
    if device.type != "meta":
        return device
    devices = (torch.device(place) for place in network.hf_device_map.values() if place != "cpu")
    return next(devices, torch.device("cpu"))


def _rope_switch_length(config: Any) -> int | None:
    """The length at which longrope switches all its rotary factors; None for other models.

    Keys written before the switch do not match queries after it; transformers' `generate` reads everything again.
    """
    rope = getattr(config, "rope_parameters", None) or {}
    return rope.get("original_max_position_embeddings") if rope.get("rope_type") == "longrope" else None
