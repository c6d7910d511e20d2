"""Mamba-2 (2405.21060) over draft trees: all rows of a tree in one forward, without changing the committed state.

Written as attention (section 6 of the paper), the output of a row is a sum over itself and earlier rows, each weighted
by the decays in between, plus the committed state, weighted by all decays since. In a tree the earlier rows are the
ancestors, and the decays are summed along a path. Siblings thus branch off the same state, and a whole tree is verified
at once (STree, 2505.14969). The convolution also reads a row's ancestors. The weights are the transformers model's;
tests hold the logits of every path equal to the model's own.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from draftscope.models.cache.state import LayerState, Rows, StateCache
from draftscope.models.forward.lean import Output

READ = 128  # rows of a prompt that are read at once; the memory of their weights grows with the square


def covers(network: Any) -> bool:
    return type(network).__name__ == "Mamba2ForCausalLM"


class Mamba2:
    """Called by `Model.forward` like a transformers model; reads and writes a `StateCache`."""

    def __init__(self, network: Any) -> None:
        body = network.backbone
        self._embed, self._norm, self._head = body.embeddings, body.norm_f, network.lm_head
        self._blocks = list(body.layers)
        self._dtype: torch.dtype = network.dtype
        self.kernel: int = network.config.conv_kernel

    def cache(self, batch: int, device: torch.device) -> StateCache:
        """An empty state for each of `batch` sequences."""
        like = torch.empty(0, dtype=self._dtype, device=device)
        layers = [
            LayerState(
                batch,
                (block.mixer.num_heads, block.mixer.head_dim, block.mixer.ssm_state_size),
                (self.kernel - 1, block.mixer.conv_dim),
                like,
            )
            for block in self._blocks
        ]
        return StateCache(layers, batch, device)

    @torch.inference_mode()
    def __call__(
        self,
        input_ids: Tensor,
        attention_mask: Tensor,
        past_key_values: StateCache,
        position_ids: Tensor | None = None,  # noqa: ARG002 - as transformers' models are called
        use_cache: bool = True,  # noqa: ARG002
        logits_to_keep: int = 0,
        output_hidden_states: bool = False,
    ) -> Output:
        """Logits [B, T, V] (or of the last `logits_to_keep` rows) of `input_ids` [B, T].

        attention_mask [B, T, O + T] bool: the ancestors of each row among the O earlier open rows and these rows,
        including itself.
        """
        above = ancestors(attention_mask, self.kernel)
        earlier = past_key_values.table.open > input_ids.shape[1]
        x, inputs = self._embed(input_ids), []
        for block, layer in zip(self._blocks, past_key_values.states, strict=True):
            inputs.append(x)
            residual = x.float() if block.residual_in_fp32 else x
            normed = block.norm(x.to(block.norm.weight.dtype))
            x = residual + _mixed(block.mixer, normed, layer, attention_mask, above, earlier)
        out = self._norm(x[:, -logits_to_keep:] if not output_hidden_states else x)
        logits = self._head(out[:, -logits_to_keep:].to(self._head.weight.dtype)).float()
        return Output(logits, (*inputs, out, x) if output_hidden_states else ())


def ancestors(sees: Tensor, kernel: int) -> Tensor:
    """[K, B, T]: the m-th ancestor of each row, m = 0 being the row itself, as an index into window and open rows.

    sees [B, T, J] bool, with ancestors before their descendants. The window holds the last K - 1 committed rows, which
    are the ancestors of a path's first row.
    """
    rank = sees.cumsum(-1)
    indices = []
    for m in range(kernel):
        place = rank[..., -1:] - m  # 1 is the first open row of the path, 0 the newest committed row
        column = (sees & (rank == place)).int().argmax(-1)
        indices.append(torch.where(place[..., 0] >= 1, kernel - 1 + column, kernel - 2 + place[..., 0]))
    return torch.stack(indices)


def _mixed(mixer: Any, x: Tensor, layer: LayerState, sees: Tensor, above: Tensor, earlier: bool) -> Tensor:
    """One mixer: x [B, T, hidden] -> the same shape. Stores its rows in `layer` as open rows."""
    (batch, count, _), heads, groups = x.shape, mixer.num_heads, mixer.n_groups
    gate, conv, dt = mixer.in_proj(x).split([mixer.intermediate_size, mixer.conv_dim, heads], -1)
    before = layer.rows if earlier else None
    inner = _convolved(mixer, conv if before is None else torch.cat([before.conv, conv], 1), layer.window, above)
    state = groups * mixer.ssm_state_size
    value, key, query = torch.split(inner.float(), [mixer.intermediate_size, state, state], -1)
    value = value.view(batch, count, heads, -1)
    key, query = (tensor.view(batch, count, groups, -1) for tensor in (key, query))
    dt = F.softplus(dt.float() + mixer.dt_bias.float()).clamp(*mixer.time_step_limit)
    step = -mixer.A_log.float().exp() * dt
    steps = step if before is None else torch.cat([before.step, step], 1)
    decay = sees.float() @ steps  # [B, T, H]
    new = Rows(conv, value * dt[..., None], key, step, decay)
    rows = layer.rows = new if before is None else before.followed_by(new)
    out = _attended(query, decay, rows, layer.state, sees) + mixer.D.float()[:, None] * value
    return mixer.out_proj(mixer.norm(out.flatten(2), gate).to(x.dtype))  # type: ignore[no-any-return]


def _convolved(mixer: Any, open_inputs: Tensor, window: Tensor, above: Tensor) -> Tensor:
    """The causal convolution along each row's path, with its activation: [B, T, C]."""
    inputs = torch.cat([window, open_inputs], 1)
    batch = torch.arange(len(inputs), device=inputs.device)[:, None]
    kernel = mixer.conv1d.weight[:, 0].float()  # [C, K]; the last entry is for the row itself
    out = sum(inputs[batch, index].float() * kernel[:, -1 - m] for m, index in enumerate(above))
    if mixer.conv1d.bias is not None:
        out = out + mixer.conv1d.bias.float()
    return mixer.act(out.to(open_inputs.dtype))  # type: ignore[no-any-return]


def _attended(query: Tensor, decay: Tensor, rows: Rows, state: Tensor, sees: Tensor) -> Tensor:
    """[B, T, H, P]: the output of each row from its ancestors among the open rows and from the committed state."""
    share = state.shape[1] // query.shape[2]  # heads per group
    gap = (decay[:, :, None] - rows.decay[:, None]).masked_fill(~sees[..., None], -torch.inf)  # [B, T, J, H]
    agree = torch.einsum("btgs,bjgs->btjg", query, rows.key).repeat_interleave(share, -1)
    near = torch.einsum("btjh,bjhp->bthp", agree * gap.exp(), rows.drive)
    far = torch.einsum("bths,bhps->bthp", query.repeat_interleave(share, 2), state)
    return near + decay.exp()[..., None] * far
