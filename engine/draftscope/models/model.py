"""A transformers model as this engine uses it: rows of a draft tree in, logits out, keys and values in a `SlotCache`.

The only module that knows transformers' models. Target and draft go through the same code, so neither baseline nor
drafter has a faster path than the other.
"""

from __future__ import annotations

from copy import copy
from enum import Enum
from typing import Any

import torch
from torch import Tensor

from draftscope.base.errors import DraftscopeError
from draftscope.models.cache.masks import Reach, attention_mask, reaches
from draftscope.models.cache.slots import VECTOR, WIDE, SlotCache, SlotTable
from draftscope.models.capabilities import Capabilities
from draftscope.models.counter import ForwardCounter
from draftscope.models.files import memory
from draftscope.models.forward.ballast import Ballast, Shape
from draftscope.models.forward.compiled import CompiledLlama
from draftscope.models.forward.experts import layers as expert_layers
from draftscope.models.forward.graphs import Call, GraphMode, Graphs, Outputs, Recorder, on_cuda
from draftscope.models.forward.hybrid import Hybrid, HybridCache
from draftscope.models.forward.hybrid import covers as is_hybrid
from draftscope.models.forward.lean import LeanLlama, lean_forward
from draftscope.models.forward.mamba import READ, Mamba2
from draftscope.models.forward.mamba import covers as is_mamba2
from draftscope.models.forward.truncated import truncated


class ForwardMode(Enum):
    """How a forward runs, by the name that calibrations are kept under."""

    EAGER = ""
    COMPILED = "compiled"
    GRAPHS = "graphs"


class Model:
    """A decoder-only language model in evaluation mode. `name` is what screens show; `digest` names its weights.

    `probe.probed` makes one with the capabilities that the network itself was found to have. `recurrent`: its cache is
    a state of one size, which forgets open rows and never a committed one.
    """

    def __init__(self, network: Any, name: str, digest: str = "", *, capabilities: Capabilities) -> None:
        self.network = network.eval()
        self.recurrent = is_mamba2(network)
        self.run = _runner(network)  # the network itself, or its leaner equal
        self.name = name
        self.digest = digest
        self.counter = ForwardCounter()
        config = network.config.get_text_config()
        self.layers: int = config.num_hidden_layers
        self.hidden: int = config.hidden_size
        self.context: int = getattr(config, "max_position_embeddings", None) or 1 << 30
        self.seam = _seam(config)
        self.vocabulary: int = config.vocab_size
        self.device = _input_device(network)
        self.dtype: torch.dtype = network.dtype
        self.parameters: int = network.num_parameters()
        self._slot_bytes = memory.slot_bytes(config, self.dtype)
        self._reach = Reach() if self.recurrent else reaches(config, name)
        # Eager attention adds its mask: a bool one is silently wrong there.
        self._additive = self.dtype if config._attn_implementation == "eager" else None
        self.ballast: Ballast | None = None
        self.graphs: Graphs | None = None
        self._set(capabilities)

    def _set(self, capabilities: Capabilities) -> None:
        self.capabilities = capabilities
        if isinstance(self.run, Hybrid):
            self.run.row_by_row = capabilities.row_by_row

    def with_capabilities(self, capabilities: Capabilities) -> Model:
        """This model, its weights shared, but used according to `capabilities`. It counts its own forwards."""
        other = copy(self)
        other.counter = ForwardCounter()
        other._set(capabilities)
        return other

    @property
    def trees(self) -> bool:
        """Does it take draft trees, and batches whose sequences grow unequally?"""
        return self.capabilities.trees

    @property
    def limits(self) -> str:
        """What this model cannot do here, in a sentence; empty where there is nothing to say."""
        if self.trees:
            return ""
        why = "keeps a state in some layers" if isinstance(self.run, Hybrid) else "makes its own attention masks"
        return (
            f"'{self.name}' {why}, so it verifies chains only: tree drafters and batches of unequal texts are left out."
        )

    @property
    def stateful(self) -> bool:
        """Whether some of what it keeps cannot be cut back to an earlier token."""
        return isinstance(self.run, Mamba2 | Hybrid)

    def first_layers(self, count: int) -> Model:
        """The model made of the first `count` layers, the norm and the head: the same weights, nothing copied.

        It counts its own forwards. DraftscopeError where there are not so many layers, or they cannot be taken apart.
        """
        if not 1 <= count < self.layers:
            raise DraftscopeError(
                f"exit_layer = {count}: '{self.name}' has {self.layers} layers; choose 1 to {self.layers - 1}."
            )
        if self.ballast is not None:
            raise DraftscopeError(f"'{self.name}' carries ballast, whose layers cannot be parted; load it without.")
        shallow = copy(self)
        shallow.network = truncated(self.network, count)
        shallow.run = self.run.first(count) if isinstance(self.run, LeanLlama) else shallow.network
        shallow.name = f"{self.name}, {count} of {self.layers} layers"
        shallow.layers = count
        shallow.parameters = shallow.network.num_parameters()
        shallow.counter = ForwardCounter()
        shallow.graphs = None
        if self.graphs is not None:
            shallow.record_graphs(self.graphs.record)
        shallow._slot_bytes = memory.slot_bytes(shallow.network.config.get_text_config(), self.dtype)
        return shallow

    def cache(self, batch: int, capacity: int) -> SlotCache:
        """An empty cache of `capacity` slots for each of `batch` sequences; DraftscopeError where it does not fit."""
        if isinstance(self.run, Mamba2):
            return self.run.cache(batch, self.device)
        memory.refuse_cache(self.name, batch, capacity, self._slot_bytes, self.device)
        if isinstance(self.run, Hybrid):
            return self.run.cache(batch, capacity, self.device)
        side = self.ballast.shape.layers if self.ballast else 0
        if self.graphs is not None:
            return self.graphs.cache(self.layers, batch, capacity, self.device, side)
        vector = WIDE if self.device.type == "cuda" else VECTOR  # with graphs or without: the same sums
        spare = VECTOR if isinstance(self.run, CompiledLlama) else 0
        return SlotCache(self.layers, batch, capacity + spare, self.device, side, vector)

    def kept_bytes(self, tokens: int) -> int:
        """Memory that a text of so many tokens takes in this model's cache; the same for any, where it is recurrent."""
        return tokens * self._slot_bytes + self.capabilities.state_bytes

    def weigh_down(self, shape: Shape) -> None:
        """Adds ballast of that shape: same tokens, other costs. DraftscopeError where it does not fit in memory."""
        if self.stateful:
            raise DraftscopeError(f"'{self.name}' keeps a state, beside which ballast has no cache; load it without.")
        size = self.dtype.itemsize
        what = f"ballast of the shape {shape.name}, {shape.values:,} values"
        memory.refuse_weights(
            self.name, shape.values * size, memory.CONTEXT * shape.slot_values * size, [self.device], what
        )
        ballast = self.ballast = Ballast(shape, self.hidden, self.dtype, self.device)
        if self.graphs is not None:
            self.record_graphs(self.graphs.record)  # what was recorded so far is the forward without it
        self._slot_bytes += shape.slot_values * size
        self.network.get_input_embeddings().register_forward_hook(lambda *call: call[2] + ballast(call[2]))

    def record_graphs(self, record: Recorder = on_cuda) -> None:
        """From now on forwards of few rows are replayed from graphs, unless `graph_state` says why not."""
        why = ""
        if self.stateful:
            why = "the model keeps a state"
        elif len(set(getattr(self.network, "hf_device_map", {}).values())) > 1:
            why = "the model lies on several devices"
        elif expert_layers(self.network):
            why = "the model's experts are chosen from forward to forward"
        self.graphs = Graphs(record, why)

    @property
    def graph_mode(self) -> GraphMode:
        """What is replayed from graphs."""
        return GraphMode.OFF if self.graphs is None else self.graphs.mode

    @property
    def graph_state(self) -> str:
        """`Graphs.state`, for display; empty if no graphs were asked for."""
        return "" if self.graphs is None else self.graphs.state

    @property
    def forward_mode(self) -> ForwardMode:
        """How its forward runs."""
        if isinstance(self.run, CompiledLlama):
            return ForwardMode.COMPILED
        return ForwardMode.EAGER if self.graph_mode is GraphMode.OFF else ForwardMode.GRAPHS

    @torch.inference_mode()
    def forward(
        self, cache: SlotCache, tokens: Tensor, offsets: Tensor, sees: Tensor | None = None, last_only: bool = False
    ) -> Tensor:
        """Logits [B, T, V] of `tokens` [B, T], written to the cache as open rows.

        offsets [B, T]: position of each row behind the sequence's permanent length. sees [B, T, O + T] bool: which of
        the O earlier open rows and of these rows each row attends to, itself included; None is a chain. `last_only`
        computes the logits of the last row alone, [B, 1, V]. DraftscopeError for a tree that the model cannot take.
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
        """`forward`, and of the same forward the hidden states [B, T, len(layers) x hidden] that a drafter reads.

        Layer i is what goes into decoder layer i; the number of layers names what comes out of the final norm. None
        where no layer is asked for.
        """
        self.counter.add([tokens.shape[1]])
        rows, more = tokens.shape[1], {}
        if isinstance(cache, HybridCache):
            tokens, offsets = cache.begin_write(tokens, offsets)
            more = {"again": tokens.shape[1] - rows}
        cache.table.begin_write(offsets)
        mask = self._mask(cache.table, sees)
        # a tree may reach beyond the context where its text ends: never-accepted nodes, whose positions only have to
        # exist
        positions = (cache.table.length[:, None] + offsets).clamp_(max=self.context - 1)

        def call(tokens: Tensor, positions: Tensor, mask: Any) -> tuple[Tensor, ...]:
            if self.ballast is not None:
                self.ballast.begin_write(cache, mask)
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
            logits = out.logits[:, -rows:].to(self.device)
            if not layers:
                return (logits,)
            return logits, torch.cat([out.hidden_states[i][:, -rows:].to(self.device) for i in layers], -1)

        if self.graphs is not None and isinstance(mask, Tensor):
            found = self.graphs.forward(cache, call, (layers, last_only), (tokens, positions, mask))
        else:
            found = call(tokens, positions, mask)
        return found[0], found[1] if layers else None

    @torch.inference_mode()
    def loop(self, cache: SlotCache, call: Call, form: object, given: tuple[Tensor, ...], widths: list[int]) -> Outputs:
        """What `call(*given)` returns, in which this model runs forwards of `widths` rows; one graph where it can be.

        `Graphs.loop` says what `call` may depend on, and who settles the cache.
        """
        with self.counter.counted_as(widths):  # once, however often they ran to be recorded
            return call(*given) if self.graphs is None else self.graphs.loop(cache, call, form, given, sum(widths))

    def read(self, cache: SlotCache, prompts: list[list[int]], layers: tuple[int, ...] = ()) -> Tensor | None:
        """Prefill: writes every prompt to the cache and makes it permanent; its features [B, T, F] if asked for.

        Shorter prompts are padded to the right; what the padding writes lies behind their length, where the next rows
        overwrite it.
        """
        lengths = [len(prompt) for prompt in prompts]
        longest = max(lengths)
        if longest == 0:
            width = len(layers) * self.hidden
            return torch.zeros((len(prompts), 0, width), dtype=self.dtype, device=self.device) if layers else None
        padded = torch.tensor([prompt + [0] * (longest - len(prompt)) for prompt in prompts], device=self.device)
        if self.recurrent:
            return self._read_into_state(cache, padded, torch.tensor(lengths, device=self.device), layers)
        offsets = torch.arange(longest, device=self.device).expand(len(prompts), -1)
        _, features = self.forward_with_features(cache, padded, offsets, None, layers, last_only=True)
        if isinstance(cache, HybridCache):
            cache.keep_first(torch.tensor(lengths, device=self.device), longest)
            return features
        cache.table.commit(torch.tensor(lengths, device=self.device), longest, even=min(lengths) == longest)
        return features

    def _read_into_state(
        self, cache: SlotCache, padded: Tensor, lengths: Tensor, layers: tuple[int, ...]
    ) -> Tensor | None:
        """`read` for a recurrent model: `READ` rows at a time, of which each sequence's own join its state."""
        features = []
        for start in range(0, padded.shape[1], READ):
            tokens = padded[:, start : start + READ]
            offsets = torch.arange(tokens.shape[1], device=self.device).expand(len(tokens), -1)
            features.append(self.forward_with_features(cache, tokens, offsets, None, layers, last_only=True)[1])
            cache.keep_first((lengths - start).clamp(0, tokens.shape[1]), start + tokens.shape[1])
        return torch.cat([each for each in features if each is not None], 1) if layers else None

    def _mask(self, table: SlotTable, sees: Tensor | None) -> Any:
        """Our own mask, or None where the model's own causal mask says the same; ancestry alone for a state."""
        if self.recurrent:
            chain = torch.ones((table.open, table.open), dtype=torch.bool, device=self.device).tril()
            rows = chain[-table.slots.shape[1] :] if sees is None else sees
            return rows.expand(len(table.length), -1, -1)
        if sees is None and table.before == 0:
            return None  # a prompt: nothing in front of it, and padding only behind it
        if self.trees:
            table.widen()
            return attention_mask(table, self._reach, sees, self._additive)
        if sees is None and table.even:
            return None
        raise DraftscopeError(f"{self.limits} Choose a drafter that drafts chains, and one text at a time.")


def _runner(network: Any) -> Any:
    if is_mamba2(network):
        return Mamba2(network)
    return Hybrid(network) if is_hybrid(network) else lean_forward(network)


def _input_device(network: Any) -> torch.device:
    """Where inputs go: to the embedding. Where a device map keeps that on the CPU and computes elsewhere, there."""
    device: torch.device = network.get_input_embeddings().weight.device
    if device.type != "meta":
        return device
    places = (torch.device(place) for place in network.hf_device_map.values() if place != "cpu")
    return next(places, torch.device("cpu"))


def _seam(config: Any) -> int | None:
    """The position from which a forward computes all its rotary factors anew (longrope), None where there is none.

    Keys written before it do not fit queries behind it: transformers' own `generate` reads everything again there.
    """
    rope = getattr(config, "rope_parameters", None) or {}
    return rope.get("original_max_position_embeddings") if rope.get("rope_type") == "longrope" else None
