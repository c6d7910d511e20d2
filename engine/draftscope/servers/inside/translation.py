"""What a recorder inside a server saw of one request, as the rounds of a trace."""

from __future__ import annotations

import codecs
from collections.abc import Sequence

from draftscope.base.text import Cut
from draftscope.servers.adapter import ServerError
from draftscope.servers.bursts import Raw
from draftscope.servers.inside.recording import DraftedToken, RecordedRound
from draftscope.trace import events as trace
from draftscope.trace.events import Distributions
from draftscope.trace.validate import check_round


class Translation:
    """Rounds in, rounds of the trace out; `text`, `tokens` and `clock` are of the lane so far, and `made` the
    number of its rounds."""

    def __init__(self, run: str, lane: str, raw: Raw) -> None:
        self.run, self.lane, self.raw = run, lane, raw
        self.text, self.tokens, self.made = "", list[int](), 0
        self.clock = 0.0  # ms
        self.first: float | None = None  # ms of the lane's clock: the end of its first round; None: its step's time
        self._zero: float | None = None  # of the lane's clock, on the server's
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")

    def round(self, seen: RecordedRound, most: int | None = None, cut: Cut | None = None) -> trace.Round:
        """The next round. Of its tokens `most` are in the answer, which ends there because of `cut`.

        Raises `ServerError` where a trace cannot say it: p is not a number, or a result does not follow.
        """
        accepted = sum(bool(token.accepted) for token in seen.drafted)
        emitted = seen.written[:most]
        verified = [token for token in seen.drafted if token.accepted is not None]
        if self._zero is None:
            self._zero = seen.at - (seen.ms if self.first is None else self.first)
        start, end = self.clock, max(seen.at - self._zero, self.clock)
        step = min(seen.ms, end - start)
        try:
            event = trace.Round(
                run=self.run, lane=self.lane, round=self.made, start=start, end=end, width=1 + len(seen.drafted),
                drafted=len(seen.drafted), accepted=min(accepted, len(emitted)), depth=len(seen.drafted),
                nodes=[self._node(place, token) for place, token in enumerate(seen.drafted)],
                decisions=[self._decision(seen, place, token) for place, token in enumerate(verified)],
                last=self._last(seen, accepted), emitted=emitted, emitted_raw=[self.raw(token) for token in emitted],
                text_delta=self._read(emitted, cut), cut=cut,
                timings=trace.Timings(propose=[], verify=step, accept=0.0, commit=0.0, host=end - start - step),
                annotations=[trace.SharedStep(requests=seen.batch, q_unknown=_no_q(seen))],
            )  # fmt: skip
            check_round(event)
        except ValueError as error:
            raise ServerError(
                f"Round {self.made + 1} of the server cannot be drawn: {error}. 'draftscope audit URL --inside' "
                "tests every decision."
            ) from None
        self.clock, self.made = end, self.made + 1
        self.tokens += emitted
        self.text += event.text_delta
        return event

    def _read(self, emitted: Sequence[int], cut: Cut | None) -> str:
        shown = emitted[:-1] if cut == "eos" else emitted
        text = "".join(self._decoder.decode(self.raw(token).encode("latin-1")) for token in shown)
        return text + (self._decoder.decode(b"", final=True) if cut else "")

    def _node(self, place: int, token: DraftedToken) -> trace.Node:
        fates: dict[bool | None, trace.Fate] = {None: "unvisited", True: "accepted", False: "rejected"}
        return trace.Node(
            id=place, token=token.token, raw=self.raw(token.token), parent=place - 1, depth=place + 1, origin="server",
            fate=fates[token.accepted], p=_number(token.p), q=None if token.draft is None else token.q,
        )  # fmt: skip

    def _decision(self, seen: RecordedRound, place: int, token: DraftedToken) -> trace.Decision:
        passed, p, q = bool(token.accepted), _number(token.p), token.q
        distributions = self._distributions(seen, token)
        if seen.temperature == 0:
            drawn = token.token if passed else seen.next.token
            child = trace.Verified(node=place, p=p, q=None if token.draft is None else q, passed=passed)
            logits = sorted((logit for _, _, logit in token.target.top if logit is not None), reverse=True)
            return trace.Decision(
                slot=place - 1, rule="greedy", distributions=[distributions], children=[child], draw=drawn,
                gap=_gap(logits),
            )  # fmt: skip
        ratio = trace.ratio_threshold(p, q) if q else 0.0
        child = trace.Verified(node=place, p=p, q=q, threshold=ratio, uniform=token.u, passed=passed)
        return trace.Decision(slot=place - 1, rule="token", distributions=[distributions], children=[child])

    def _distributions(self, seen: RecordedRound, token: DraftedToken) -> Distributions:
        shown, greedy = token.shown, seen.temperature == 0
        with_q = token.draft is not None or not greedy
        order = sorted(range(len(shown.ids)), key=lambda i: -max(shown.p[i], shown.q[i]))
        return Distributions(
            ids=[shown.ids[i] for i in order], raw=[self.raw(shown.ids[i]) for i in order],
            p=[shown.p[i] for i in order], rest_p=shown.rest_p,
            q=[shown.q[i] for i in order] if with_q else None, rest_q=shown.rest_q if with_q else None,
            rest_min=shown.rest_min if with_q else None, rest_residual=shown.rest_residual if with_q else None,
            scale="before_argmax" if greedy else "probs",
        )  # fmt: skip

    def _last(self, seen: RecordedRound, accepted: int) -> trace.Last:
        """The target's own token. What a server draws it with is no single random number."""
        last, greedy = seen.next, seen.temperature == 0
        kept = {token: _number(p) / (last.sum or 1.0) for token, p in [*last.top, (last.token, last.mass)]}
        logits = (
            sorted((entry[2] for entry in last.target.top if entry[2] is not None), reverse=True) if last.target else []
        )
        shown = None if greedy and seen.kind == "correction" else Distributions(
            ids=list(kept), raw=[self.raw(token) for token in kept], p=list(kept.values()),
            rest_p=max(0.0, 1 - sum(kept.values())), scale="before_argmax" if greedy else "probs",
        )  # fmt: skip
        return trace.Last(
            kind=seen.kind, slot=accepted - 1, token=last.token, raw=self.raw(last.token), distributions=shown,
            gap=_gap(logits) if greedy else None,
        )  # fmt: skip


def _gap(logits: Sequence[float]) -> float | None:
    return logits[0] - logits[1] if len(logits) > 1 else None


def _number(value: float | None) -> float:
    if value is None:
        raise ValueError("p is not a number")
    return value


def _no_q(seen: RecordedRound) -> bool:
    return any(token.draft is None for token in seen.drafted)
