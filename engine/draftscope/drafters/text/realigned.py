"""A draft model with another tokenizer than the target, which reads the target's output as text.

Its cache holds its own tokens. When the text grows, its last tokens may change, so each round it reads again from the
first token that differs.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from draftscope.base.errors import DraftscopeError
from draftscope.base.text import same_start
from draftscope.drafters.drafter import Parts
from draftscope.drafters.options import GammaOptions
from draftscope.drafters.text.retokenize import DraftText, Realigner

SPARE = 2  # a full cache is replaced by one of this many times the needed size


class RealignedDraft:
    """The draft model of B sequences, with a `Realigner`. `read` begins a draft, `feed` continues it.

    `read_again[b]` is the number of tokens that the last `read` had to read a second time.
    """

    def __init__(self, parts: Parts[GammaOptions]) -> None:
        if parts.text_draft is None:
            raise DraftscopeError("No draft model is loaded; name one with --draft, or choose the drafter 'ngram'.")
        self._model = parts.text_draft.model
        if self._model.stateful:
            raise DraftscopeError(
                f"'{self._model.name}' would have to discard tokens where the text is tokenized differently, and its "
                "state does not allow that; choose another draft model, or the drafter 'ngram'."
            )
        self.device, self.vocabulary = self._model.device, self._model.vocabulary
        self.realigner = Realigner(parts.tokenizer, parts.text_draft.tokenizer)
        self.read_again = [0] * parts.batch
        self._gamma = parts.options.gamma
        self._cache = self._model.cache(parts.batch, parts.capacity)
        self._read: list[list[int]] = [[] for _ in range(parts.batch)]  # tokens in the cache, drafted ones included
        self._fed: list[Tensor] = []  # [B, 1] each: those of them that the host has not read from the device

    def retokenized(self, texts: Sequence[Sequence[int]]) -> list[DraftText]:
        """The target's texts as the draft reads them."""
        return [self.realigner.read(text) for text in texts]

    def fits(self, text: DraftText) -> bool:
        """Whether the text is not empty, and the draft's context has room for a draft after it."""
        return 0 < len(text.ids) <= self._model.context - self._gamma

    def read(self, texts: Sequence[DraftText]) -> Tensor:
        """Logits [B, 1, V] after every text, V the draft's vocabulary. A text that does not fit is read as token 0."""
        last = self.vocabulary - 1  # an added token may have no row in the embedding
        ids = [[min(token, last) for token in text.ids] if self.fits(text) else [0] for text in texts]
        held = zip(self._read, torch.cat(self._fed, 1).tolist(), strict=True) if self._fed else ()
        self._read, self._fed = [[*earlier, *fed] for earlier, fed in held] or self._read, []
        common = [min(same_start(new, held), len(new) - 1) for new, held in zip(ids, self._read, strict=True)]
        self.read_again = [max(0, len(held) - same) for held, same in zip(self._read, common, strict=True)]
        needed = max(map(len, ids)) + max(len(new) - same for new, same in zip(ids, common, strict=True)) + self._gamma
        if needed > self._cache.table.capacity:
            self._cache = self._model.cache(len(ids), SPARE * needed)
            common = [0] * len(ids)
        rows = [new[same:] for new, same in zip(ids, common, strict=True)]
        most = max(map(len, rows))
        tokens = torch.tensor([row + [0] * (most - len(row)) for row in rows], device=self.device)
        count = torch.tensor([len(row) for row in rows], device=self.device)
        self._cache.truncate(torch.tensor(common, device=self.device), max(common))
        logits = self._model.forward(self._cache, tokens, torch.arange(most, device=self.device).expand(len(ids), -1))
        self._cache.keep_first(count, max(map(len, ids)))
        self._read = [list(new) for new in ids]
        return logits.gather(1, (count - 1)[:, None, None].expand(-1, 1, logits.shape[2]))

    def feed(self, tokens: Tensor) -> Tensor:
        """Reads one more token of every draft, [B, 1]; returns the logits [B, 1, V] after it."""
        logits = self._model.forward(self._cache, tokens, torch.zeros_like(tokens))
        self._fed.append(tokens)
        self._cache.keep_first(torch.ones_like(tokens[:, 0]), max(map(len, self._read)) + len(self._fed))
        return logits
