"""The decoding loop: propose, verify, accept, commit. Plain decoding is this loop with an empty tree.

Each round has exactly one target forward, whose row 0 is the last committed token. Everything that a screen or a metric
needs is returned as a `Step`, so recording happens outside the measured time and cannot change a token.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from draftscope.base.errors import DraftscopeError
from draftscope.base.text import AddedText, Ending, Pieces, Transcript
from draftscope.decode.lane import Lane
from draftscope.decode.stopwatch import Stopwatch
from draftscope.decode.target_pass import TARGET_BROKEN, TargetPass
from draftscope.drafters.drafter import Drafter, Outcome, State
from draftscope.models.forward.experts import Watch
from draftscope.models.forward.graphs import Graphs
from draftscope.models.model import Model
from draftscope.trace.events import Annotation
from draftscope.verify.tree import DraftTree
from draftscope.verify.uniforms import DraftUniforms, Streams, Uniforms, no_uniforms
from draftscope.verify.verify import Verification

COMPACT_AT = 0.25  # finished sequences are removed once this share of the batch has ended


@dataclass(frozen=True)
class Step:
    """One round of B sequences. Times are milliseconds on the session's own clock."""

    index: int
    rows: list[int]  # the session's sequence in each row
    start: float
    end: float
    tree: DraftTree
    logits: Tensor  # [B, N + 1, V] the target's, before temperature and truncation
    p: Tensor | None  # [B, N + 1, V] the target's distribution; None at temperature 0
    uniforms: Uniforms
    verification: Verification
    paths: list[list[int]]  # accepted nodes
    last: list[int]  # the target's own token after each path
    live: list[bool]  # which sequences had not ended when the round began
    fed: list[AddedText | None]
    stages: dict[str, float]  # propose, verify, accept, commit, host
    graphs_recorded: int  # in this round, which takes longer for it


class Session:
    """B sequences of one lane, decoded with its drafter and the uniforms of `streams`."""

    def __init__(
        self,
        target: Model,
        lane: Lane,
        drafter: Drafter,
        prompts: Sequence[list[int]],
        capacity: int,
        pieces: Pieces,
        ending: Ending,
        streams: Streams,
    ) -> None:
        keys = len(streams.sequences)
        if len(prompts) != keys or any(not prompt for prompt in prompts):
            raise ValueError(
                f"{len(prompts)} prompts and {keys} sequence ids; give one id per prompt and no empty prompt"
            )
        self.target = target
        self.drafter = drafter
        self.transcripts = [Transcript(pieces, ending) for _ in prompts]
        self.watch = Stopwatch(target.device)
        self.prefill_ms = 0.0
        self.experts: Watch | None = None  # records which experts the verify forwards use
        self._sampling = lane.sampling
        self._limit = ending.limit
        self._nodes = lane.nodes
        self._rows = list(range(len(prompts)))  # the sequences still in the batch, as in all lists below
        self._texts = [list(prompt) for prompt in prompts]
        self._done = [False] * len(prompts)
        self._streams = streams
        self._pending = torch.tensor([text[-1:] for text in self._texts], device=target.device)  # [B, 1] row 0
        self._cache = target.cache(len(prompts), capacity)
        self._pass = TargetPass(target, self._cache, drafter, lane.sampling, lane.rule, self.watch)

    def prefill(self) -> None:
        """`reading` to its end."""
        for _ in self.reading():
            pass

    @torch.inference_mode()
    def reading(self) -> Iterator[int]:
        """Reads every prompt except its last token, which is row 0 of the first round.

        A target that reads a long prompt in several forwards yields how many tokens it has read after each but the
        last; `prefill_ms` is the time so far.
        """
        self.watch.resume()
        target = self.target.reading(self._cache, [text[:-1] for text in self._texts], self.drafter.layers)
        while True:
            try:
                read = next(target)
            except StopIteration as end:
                features = end.value
                break
            self.prefill_ms += self.watch.lap()
            yield read
            self.watch.resume()
        self.drafter.begin(self._texts, features)
        self.prefill_ms += self.watch.lap()

    def steps(self) -> Iterator[Step]:
        """Decodes until every sequence has ended. Closing the iterator stops after the current round."""
        if self.watch.now == 0.0:
            self.prefill()
        index = 0
        while not all(self._done):
            yield self._round(index)
            index += 1

    def stop(self, sequences: set[int]) -> None:
        """Ends these sequences after the round that is done; their texts stay as they are."""
        self._done = [done or row in sequences for done, row in zip(self._done, self._rows, strict=True)]

    def annotations(self, row: int) -> list[Annotation]:
        """What a trace says about the last round of sequence `row` besides the round itself. Not timed."""
        touched = self.experts.note() if self.experts is not None else None
        return [*self.drafter.annotations(row), *([touched] if touched is not None else [])]

    @torch.inference_mode()
    def _round(self, index: int) -> Step:
        watch, start, recorded = self.watch, self.watch.now, Graphs.recorded
        watch.begin()
        live = [not done for done in self._done]
        uniforms = self._uniforms(index)
        tree = self._propose(index, uniforms, start)
        watch.launched("propose")
        self.drafter.overlap_start(tree)
        judged = self._pass.judge(tree, uniforms, self._pending, live, self.experts)
        verification = judged.verification
        paths, last, tokens, best = _read(judged.result, verification.path.shape[1], tree.nodes)
        self._refuse_broken(last, live)
        paths = [path if alive else [] for path, alive in zip(paths, live, strict=True)]
        watch.arrived("accept")
        self._pass.keep(
            judged, tree, [len(text) + len(path) for text, path in zip(self._texts, paths, strict=True)], live
        )
        self.drafter.observe(Outcome(tree, paths, last, judged.features, best, verification, tokens, uniforms))
        watch.passed("commit")
        rows, fed = self._rows, self._write(tokens, paths, last, live)
        self._pending = judged.pending  # of texts that go on; the others' rows are dropped
        self._compact_batch()
        watch.end("host")
        return Step(
            index,
            rows,
            start,
            watch.now,
            tree,
            judged.logits,
            judged.p,
            uniforms.first(tree.nodes),
            verification,
            paths,
            last,
            live,
            fed,
            watch.stages,
            Graphs.recorded - recorded,
        )

    def _uniforms(self, index: int) -> Uniforms:
        if self._sampling.greedy:
            return no_uniforms(len(self._texts), self._nodes, self.target.device)
        return self._streams.uniforms(index, self._nodes, self.target.device)

    def _propose(self, index: int, uniforms: Uniforms, start: float) -> DraftTree:
        """The tree. Nodes too deep to be emitted become never-accepted nodes: the last token is the target's own."""
        left = [
            0 if done else self._limit - len(self.transcripts[row].tokens)
            for done, row in zip(self._done, self._rows, strict=True)
        ]
        state = State(self._texts, index, DraftUniforms(uniforms.draft), start)
        tree = self.drafter.propose(state, max(left) - 1)
        if self.target.device.type == "cuda":  # a drafter's clock only saw its forwards being launched
            tree = replace(tree, forward_ms=())
        if tree.nodes > self._nodes:
            raise ValueError(f"the drafter proposed {tree.nodes} nodes, more than the {self._nodes} it declared")
        if tree.topology.height < min(left):
            return tree
        depth = tree.topology.depth[:, 1:]
        beyond = depth > (torch.tensor(left, device=depth.device) - 1)[:, None]
        return replace(tree, never_accepted=tree.never_accepted | beyond)

    def _refuse_broken(self, last: list[int], live: list[bool]) -> None:
        """Raises DraftscopeError where a distribution is not finite, as the target marked it: nothing is emitted."""
        marks = [token for token, alive in zip(last, live, strict=True) if alive and token < 0]
        if not marks:
            return
        whose = "target" if TARGET_BROKEN in marks else "drafter"
        raise DraftscopeError(
            f"The {whose}'s distribution at temperature {self._sampling.temperature:g} contains NaN or infinity, so no "
            f"token can be drawn from it. Load the models with dtype 'float32' or check the {whose}'s weights."
        )

    def _write(
        self, tokens: list[list[int]], paths: list[list[int]], last: list[int], live: list[bool]
    ) -> list[AddedText | None]:
        """Emits the accepted tokens and the target's own, up to the end of the text."""
        fed: list[AddedText | None] = []
        for b, nodes in enumerate(tokens):
            if not live[b]:
                fed.append(None)
                continue
            emitted = [*(nodes[node] for node in paths[b]), last[b]]
            result = self.transcripts[self._rows[b]].add(emitted)
            self._texts[b] += emitted[: result.count]
            self._done[b] = result.cut is not None
            fed.append(result)
        return fed

    def _compact_batch(self) -> None:
        """Removes finished sequences from the batch, if the drafter supports that.

        CUDA graphs are recorded for one batch size, so with them the batch keeps its rows.
        """
        live = [place for place, done in enumerate(self._done) if not done]
        ended = len(self._done) - len(live)
        if not live or ended < max(1, COMPACT_AT * len(self._done)) or self.target.graphs is not None:
            return
        if not self.drafter.select_rows(live):
            return
        kept = torch.tensor(live, device=self.target.device)
        self._cache.select_rows(kept)
        self._pending = self._pending[kept]
        self._rows = [self._rows[place] for place in live]
        self._texts = [self._texts[place] for place in live]
        self._streams = self._streams.only(live)
        self._done = [False] * len(live)


def _read(
    result: Tensor, path: int, nodes: int
) -> tuple[list[list[int]], list[int], list[list[int]], list[list[int]] | None]:
    """Accepted nodes of paths of at most `path`, the target's tokens after them, the trees' tokens, and the target's
    most likely ones if they are there: one read of `result` [B, X] from the device."""
    rows: list[list[int]] = result.tolist()
    end = path + 1 + nodes
    paths = [[node for node in row[:path] if node >= 0] for row in rows]
    best = [row[end:] for row in rows] if result.shape[1] > end else None
    return paths, [row[path] for row in rows], [row[path + 1 : end] for row in rows], best
