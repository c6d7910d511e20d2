"""The target's output on answers, from the hidden states noted while it wrote them, or else from a forward.

Noted states save the target's forward in every pass over the data; only the output weights of the tokens that the
student knows are then applied to them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from inspect import signature
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.nn.utils.rnn import pad_sequence

from draftscope.models.heads import Head
from draftscope.models.heads.lessons import Distillation, TargetOutput
from draftscope.train.data.saved_answers import TargetAnswer
from draftscope.train.fit.numerics import mixed

TOGETHER = 8  # held-out answers in one forward


class Teacher:
    """Shows `lesson.student` answers, with the target's output on them. `layers` are the noted hidden states."""

    def __init__(self, lesson: Distillation, layers: tuple[int, ...]) -> None:
        self.lesson = lesson
        self._target = lesson.target
        self._layers = layers
        self._device = lesson.target.device
        self._last_is_enough = _only_projects(lesson.target)

    @torch.no_grad()
    def log_probabilities(self, answers: Sequence[TargetAnswer], drawn: Tensor | None) -> TargetOutput:
        """For training: distributions [B, T, D] are log-probabilities over the student's vocabulary."""
        student = self.lesson.student
        tokens = student.targets if isinstance(student, Head) and student.d2t is not None else None
        output = self._output(answers, tokens)
        log_p = F.log_softmax(output.distributions.float(), -1)
        return output._replace(distributions=log_p, drawn=None if drawn is None else drawn.to(self._device))

    @torch.no_grad()
    def probabilities(self, answers: Sequence[TargetAnswer]) -> Iterator[TargetOutput]:
        """For measuring: distributions [B, T, V] are probabilities over the target's vocabulary."""
        generator = torch.Generator().manual_seed(0)
        for start in range(0, len(answers), TOGETHER):
            output = self._output(answers[start : start + TOGETHER], None)
            drawn = self.lesson.draw(output.ids.cpu(), generator)
            p = output.distributions.float().softmax(-1)
            yield output._replace(distributions=p, drawn=None if drawn is None else drawn.to(self._device))

    def _output(self, answers: Sequence[TargetAnswer], tokens: Tensor | None) -> TargetOutput:
        """With logits of `tokens`, or of the whole vocabulary."""
        ids, counted = (part.to(self._device) for part in padded(answers))
        noted = self._noted(answers)
        with mixed(self._device):
            states, logits = self._computed(ids, tokens) if noted is None else self._projected(noted, tokens)
        return TargetOutput(ids, states, logits, None, counted)

    def _noted(self, answers: Sequence[TargetAnswer]) -> dict[int, Tensor] | None:
        """The noted hidden states [B, T, H] by layer; None if some were not noted or the student needs others."""
        wanted = self._student_layers
        if not self._last_is_enough or not {*wanted} <= {*self._layers}:
            return None
        rows = [answer.features() for answer in answers if answer.features is not None]
        if len(rows) < len(answers):
            return None
        kept = pad_sequence([F.pad(part, (0, 0, 0, 1)) for part in rows], batch_first=True)  # no state of the last one
        parts = kept.to(self._device).chunk(len(self._layers), -1)
        return {layer: part.float() for layer, part in zip(self._layers, parts, strict=True)}

    def _projected(self, noted: dict[int, Tensor], tokens: Tensor | None) -> tuple[Tensor, Tensor]:
        """The student's states and the logits of `tokens`, from hidden states of which the last is the final norm's."""
        final = noted[max(noted)]
        weight = self._target.get_output_embeddings().weight
        logits = F.linear(final, (weight if tokens is None else weight[tokens]).to(final.dtype))
        states = [noted[layer] for layer in self._student_layers] or [final[..., :0]]
        return torch.cat(states, -1), logits

    def _computed(self, ids: Tensor, tokens: Tensor | None) -> tuple[Tensor, Tensor]:
        if not self._last_is_enough:
            output = self.lesson.run_target(ids, None)
            return output.states, output.distributions if tokens is None else output.distributions[..., tokens]
        out = self._target(input_ids=ids, use_cache=False, output_hidden_states=True, logits_to_keep=1)
        layers = {*self._student_layers, len(out.hidden_states) - 1}
        return self._projected({layer: out.hidden_states[layer] for layer in layers}, tokens)

    @property
    def _student_layers(self) -> tuple[int, ...]:
        return self.lesson.student.layers if isinstance(self.lesson.student, Head) else ()


def padded(answers: Sequence[TargetAnswer]) -> tuple[Tensor, Tensor]:
    """The tokens [B, T], padded on the right, and which rows are about a token of an answer: row i is about i + 1."""
    ids = pad_sequence([answer.ids for answer in answers], batch_first=True)
    place = torch.arange(ids.shape[1])
    first = torch.tensor([answer.prompt - 1 for answer in answers])[:, None]
    last = torch.tensor([len(answer.ids) - 1 for answer in answers])[:, None]
    return ids, (first <= place) & (place < last)


@torch.no_grad()
def _only_projects(target: Any) -> bool:
    """Whether the target's logits are its output weights times its last hidden state, without scaling or capping."""
    ids = torch.arange(4, device=target.device)[None]
    out = target(input_ids=ids, use_cache=False, output_hidden_states=True)
    logits = F.linear(out.hidden_states[-1], target.get_output_embeddings().weight)
    if "logits_to_keep" not in signature(target.forward).parameters:
        return False
    return torch.allclose(logits.float(), out.logits.float(), rtol=1e-2, atol=1e-2)
