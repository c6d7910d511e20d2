"""The trace: what a decoding run really did, as typed events.

Everything on a screen, in a metric or in an export is folded from these events and from nothing else. The module
imports no torch, so a trace can be read where no model could run.

A trace is a sequence of events, one JSON object a line. For each lane (one decoding run of one prompt):
`RunStart`, `Prefill`, `Round` ..., `RunEnd`; a race may add `SoloRuns`, the whole solo runs behind the headline.

Words: *node* = a drafted token; its `fate` says what became of it. A *slot* is a place below which children hang:
-1 is the last committed token, any other slot is the node of that id. A *decision* verifies the children of one slot.
All times are milliseconds on the lane's own clock, which counts only that lane's own device-synchronised work.
Token bytes (`raw`) are text in which every character is one byte (latin-1): a token need not be valid UTF-8.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, model_validator

SCHEMA_VERSION = 2

Fate = Literal["accepted", "rejected", "unvisited", "never_accepted"]
Rule = Literal["token", "block", "rrsw", "deterministic", "greedy", "typical", "lenient", "top-k"]
LastKind = Literal["correction", "bonus", "plain"]
EndReason = Literal["eos", "stop", "length", "cancelled", "error"]


class Record(BaseModel):
    """Base of everything in a trace: immutable, and strict about names it does not know."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Distributions(Record):
    """One or two distributions over the tokens worth showing, with the exact masses of everything left out.

    Shown are the top 32 of p and of q and the drafted tokens, sorted by max(p, q), largest first. `q` is absent where
    no draft distribution exists (n-gram, typed, plain). `scale` is `distribution` for the distribution that was
    verified, after temperature and truncation; under greedy decoding, where the distribution is a single token, it is
    `before_argmax`: softmax of the logits.
    """

    ids: list[int]
    raw: list[str]
    p: list[float]
    q: list[float] | None = None
    rest_p: float
    rest_q: float | None = None
    rest_min: float | None = None  # sum of min(p, q) over the tokens left out
    rest_residual: float | None = None  # sum of (p - q)+ over the tokens left out
    scale: Literal["probs", "before_argmax"] = "probs"


class Verified(Record):
    """One child in verified order. `threshold` is what `uniform` was compared with; both absent where no uniform was
    tossed.

    Of the lossy rules, typical acceptance and top-k toss no uniform: there `threshold` is what `p` was compared with.
    """

    node: int
    p: float  # probability of the child's token under the target distribution it faced
    q: float | None = None  # and under the draft distribution it faced
    threshold: float | None = None  # token: min(1, p/q); block: h_i; rrsw: the residual ratio; lenient: p/(l q)
    uniform: float | None = None
    weight: float | None = None  # block only: p_i, the running joint ratio
    passed: bool  # the uniform's own result; under `block` a later pass also accepts what stands before it


class Decision(Record):
    """The children of one slot, verified. `distributions[k]` is what `children[k]` faced, earlier rejections taken into
    account.

    A `deterministic` or `greedy` decision has a single entry in `distributions` and a `draw`: the target's own token
    there (drawn with `uniform`, or its argmax), which accepts the child that carries it.
    """

    slot: int
    rule: Rule
    distributions: list[Distributions]
    children: list[Verified]
    draw: int | None = None
    uniform: float | None = None
    gap: float | None = None  # greedy only: top-1 minus top-2 logit; ties in 16-bit hide in small gaps


class Node(Record):
    """A drafted token. Parents stand before children, siblings in draw order; -1 is the last committed token."""

    id: int
    token: int
    raw: str
    parent: int
    depth: int  # 1 for the children of the last committed token
    origin: str
    fate: Fate
    p: float  # under the target's distribution at its parent (greedy: softmax of the logits)
    q: float | None = None  # under the distribution it was drafted from


class Last(Record):
    """The round's own token of the target: below `slot`, drawn from `distributions.p` with `uniform` (absent: argmax).

    `correction` replaces a rejection, `bonus` stands below an accepted leaf, `plain` below an empty tree.
    """

    kind: LastKind
    slot: int
    token: int
    raw: str
    uniform: float | None = None
    gap: float | None = None  # greedy only: top-1 minus top-2 logit at its slot
    distributions: Distributions | None = (
        None  # the residual it was drawn from, where that is not already in a decision
    )


class Timings(Record):
    """Milliseconds of one round. `propose` holds each draft forward, then the rest of the proposing."""

    propose: list[float]
    verify: float  # the target's forward
    accept: float  # deciding which drafted tokens to accept
    commit: float
    host: float


class Event(Record):
    """What every event carries."""

    run: str
    lane: str
    sequence: int = 0


class ModelInfo(Record):
    """A model that took part: `hash` is the SHA-256 of its weights, shortened, or empty where it was made in memory."""

    role: Literal["target", "draft", "head"]
    name: str
    parameters: int
    layers: int
    hidden: int
    hash: str = ""
    ballast: str = ""  # a real model's shape whose traffic and arithmetic this one carries beside its own
    graphs: str = ""  # were its forwards replayed from CUDA graphs? as `Graphs.state`; empty if not asked for
    compiled: bool = False  # its forward was compiled for this CPU


class Fork(Record):
    """Where a lane left another one: `token_ids` of that text (and one of the reader's choice) stand before its own.

    They were given to it, not decoded: they belong to its prompt, and count as no token and no round of its own.
    """

    lane: str  # the lane that was left
    round: int  # of that lane, in which it was left
    token_ids: list[int]
    raw: list[str]
    forced: bool  # the last of them was chosen by the reader


class RunStart(Event):
    """Everything needed to know what ran, and to run it again."""

    kind: Literal["run_start"] = "run_start"
    schema_version: int = SCHEMA_VERSION
    draftscope: str
    torch: str
    transformers: str
    device: str
    dtype: str
    threads: int
    revision: str = ""  # git revision of the code, where known
    models: list[ModelInfo]
    drafter: str
    exact: bool
    synthetic: bool = False  # the acceptance was chosen (an oracle), so tokens a round say nothing about a drafter
    rule: str
    seed: int
    settings: dict[str, int | float | str | bool | list[int] | list[str] | None]
    prompt: str
    rendered: str = ""  # what the model read, where its chat template made that from the prompt
    prompt_tokens: int
    prompt_last_raw: str = ""  # the prompt's last token: the root of the first round
    fork: Fork | None = None  # its tokens are part of `prompt_tokens`
    created: str  # ISO 8601, UTC


class Prefill(Event):
    """The prompt, but for its last token, has been read by the target (and by the drafter)."""

    kind: Literal["prefill"] = "prefill"
    tokens: int
    start: float
    end: float


class Arm(Record):
    """What a policy knew of one of its arms when it chose; absent where it had not been seen yet."""

    name: str
    pulls: int  # rounds that it drafted
    tokens_per_round: float | None = None  # over all rounds whose result told it, its own and larger arms'
    ms_per_round: float | None = None  # over its own rounds
    tokens_per_s: float | None = None  # the former over the latter: a ratio of sums


class PolicyNote(Record):
    """Which arm a policy chose for the round, and what it went by."""

    kind: Literal["policy"] = "policy"
    policy: Literal["ucb", "exp3", "thompson"]
    chosen: int  # index into `arms`
    probability: float | None = None  # with which it was chosen, where that was drawn by lot
    arms: list[Arm]


class DraftState(Record):
    """What the draft model keeps of the text so far: a cache that grows with it, or a state that does not."""

    kind: Literal["draft_state"] = "draft_state"
    bytes: int  # of this sequence, the tokens counted in `tokens`
    tokens: int  # committed tokens that the draft has read
    constant: bool  # whether `bytes` is the same for a text of any length


class Experts(Record):
    """The distinct experts that the target's one forward touched, layer by layer; of the whole batch."""

    kind: Literal["experts"] = "experts"
    touched: list[int]  # one for each layer with experts
    of: int  # experts in a layer, those that all tokens share left out
    active: int  # that a single token is routed to
    rows: int  # in the forward: the round's, of all sequences, and those that a hybrid target reads again


class Prefetch(Record):
    """Drafting ahead, while the target verified this round, for outcomes that may come of it."""

    kind: Literal["prefetch"] = "prefetch"
    outcomes: int  # (accepted tokens, next token) that a draft was prepared for
    hit: bool  # whether what came is one of them: then the next round drafts nothing
    overlap: Literal["thread", "stream"]  # where it ran; what overlapped is what was not waited for
    busy_ms: float  # that it took in all
    waited_ms: float  # that the round had to wait for it, when the result was in


class TierWork(Record):
    """What one draft model of a cascade did for a round."""

    model: str
    forwards: int


class Tiers(Record):
    """The draft models of a cascade, the one that drafts for the target first; the target's own forward is one."""

    kind: Literal["tiers"] = "tiers"
    tiers: list[TierWork]


class Realignment(Record):
    """How a chain came from a draft with another tokenizer, by way of text: its distribution over these tokens is not
    known."""

    kind: Literal["realignment"] = "realignment"
    drafted: int  # tokens of its own
    proposed: int  # tokens of the target that their text became
    read_again: int  # tokens of its own that the text so far no longer is


Annotation = Annotated[PolicyNote | DraftState | Experts | Prefetch | Tiers | Realignment, Field(discriminator="kind")]


class Round(Event):
    """One propose, verify, verify, commit. `emitted` tokens reached the text: accepted path first, then `last`."""

    kind: Literal["round"] = "round"
    round: int
    start: float
    end: float
    width: int  # rows in the target's one forward: 1 + nodes
    drafted: int  # nodes that could have been accepted (never-accepted nodes left out)
    accepted: int  # accepted and emitted
    depth: int  # depth of the deepest node
    nodes: list[Node]
    decisions: list[Decision]
    last: Last
    emitted: list[int]
    emitted_raw: list[str]
    text_delta: str
    cut: Literal["eos", "stop", "length"] | None = None  # why the rest of the round was discarded
    timings: Timings
    annotations: list[Annotation] = Field(default_factory=list)  # of the drafter or the target

    @model_validator(mode="before")
    @classmethod
    def _without_notes(cls, read: Any) -> Any:
        """Rounds of this schema version were written with 'notes' that nothing ever filled."""
        if isinstance(read, dict) and read.get("notes") == {}:
            return {name: value for name, value in read.items() if name != "notes"}
        return read


class RunEnd(Event):
    """The lane is done: `text` and `token_ids` are everything it emitted."""

    kind: Literal["run_end"] = "run_end"
    reason: EndReason
    text: str
    token_ids: list[int]
    target_forwards: int  # rounds; the prefill forward is counted apart
    end: float
    message: str = ""  # for `error`: one sentence with the remedy


class SoloRuns(Event):
    """Whole runs of this lane alone, interleaved with those of the other lanes, recording off: the headline's basis."""

    kind: Literal["solo_runs"] = "solo_runs"
    tokens: int
    seconds: list[float]  # each with its prefill, in the order run; a later event of a lane replaces an earlier one


AnyEvent = Annotated[RunStart | Prefill | Round | RunEnd | SoloRuns, Field(discriminator="kind")]
EVENT: TypeAdapter[AnyEvent] = TypeAdapter(AnyEvent)
