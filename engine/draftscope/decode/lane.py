"""What the settings of a run mean for these models, resolved once: who drafts, with which options, by which rule."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from draftscope import drafters
from draftscope.base.common_settings import LOSSY
from draftscope.decode.pair import THROUGH_TEXT, LoadedPair
from draftscope.drafters import DrafterInfo
from draftscope.drafters.options import DrafterOptions, RuleOptions
from draftscope.drafters.settings import Settings
from draftscope.verify.sampling import Sampling
from draftscope.verify.verify import Rule


@dataclass(frozen=True)
class Lane:
    """A drafter with its settings. `settings` name the one that really drafts: a draft model with another tokenizer
    drafts through text. What follows from the options is worked out when it is first read, and raises `DraftscopeError`
    where a drafter from elsewhere cannot say it."""

    settings: Settings
    info: DrafterInfo

    @classmethod
    def of(cls, pair: LoadedPair, settings: Settings) -> Lane:
        """The lane of these settings. Raises `DraftscopeError` for a drafter that does not exist."""
        if settings.drafter == "draft" and pair.foreign is not None:
            settings = settings.model_copy(update={"drafter": THROUGH_TEXT})
        return cls(settings, drafters.find(settings.drafter))

    @cached_property
    def options(self) -> DrafterOptions:
        """The options that its drafter reads."""
        options: DrafterOptions = self.settings.options(self.info.options)
        return options

    @cached_property
    def sampling(self) -> Sampling:
        """How distributions are made of logits, the target's and the draft's."""
        return Sampling.of(self.settings)

    @cached_property
    def rule(self) -> Rule:
        """How its chains are verified; the options of a rule count only for a drafter that reads them."""
        if "rule" not in self.info.uses:
            return Rule()
        chosen = self.settings.options(RuleOptions)
        return Rule(chosen.rule, chosen.lenience, chosen.agreement)

    @property
    def exact(self) -> bool:
        """Does the output have the target's distribution? At temperature 0 every rule is exact: each one follows a
        child only where it is the target's most likely token."""
        lossy = self.rule.name in LOSSY and self.settings.temperature > 0
        return self.info.exact and not lossy

    @cached_property
    def nodes(self) -> int:
        """The most nodes that a round may have."""
        return self.info.max_nodes(self.settings)

    def capacity(self, prompts: Sequence[Sequence[int]]) -> int:
        """The slots that a cache needs to decode these tokenised prompts to their ends."""
        return max(len(prompt) for prompt in prompts) + self.settings.max_new_tokens + self.nodes + 1
