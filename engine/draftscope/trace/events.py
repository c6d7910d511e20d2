"""The trace: what a decoding run did, as typed events.

Everything on a screen, in a metric or in an export is computed from these events alone. The module imports no torch, so
a trace can be read where no model can run.

A trace is a sequence of events, one JSON object a line. For each lane (one decoding run of one prompt):
`RunStart`, `Prefill`, `Round` ..., `RunEnd`; a race may add `SoloRuns` (whole runs), `VerifyCosts` and `Divergence`. A
lane that a server of another program wrote has `Burst` instead of `Round`, and may have `Served`, `TargetProbs` and
`DraftProbs`; where a recorder inside the server sent its rounds, it has these.

A *node* is a drafted token; its `fate` says whether it was accepted. A *slot* is a place that can have children: -1 is
the last committed token, any other slot is the node with that id. A *decision* verifies the children of one slot.
Times are milliseconds on the lane's own clock, which counts only that lane's device-synchronised work. Token bytes
(`raw`) are latin-1 text, one character per byte, since a token need not be valid UTF-8.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeVar

from pydantic import (
    AliasChoices,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    TypeAdapter,
    model_validator,
)
from pydantic_core import CoreSchema

SCHEMA_VERSION = 3

Fate = Literal["accepted", "rejected", "unvisited", "never_accepted"]
Rule = Literal["token", "block", "rrsw", "deterministic", "greedy", "typical", "lenient", "top-k"]
LastKind = Literal["correction", "bonus", "plain"]
EndReason = Literal["eos", "stop", "length", "cancelled", "error"]


MAX_PARTS = 4096  # nodes of a round, tokens of a distribution ...: 16 times what a drafter may draft
MAX_SETTINGS = 1024  # entries in a run's settings

Item = TypeVar("Item")


@dataclass(frozen=True)
class _List:
    """A list in a file that anybody can make: at most `most` items, and validation ends at the first wrong one, since
    a report of millions of errors fills the memory. (pydantic's own FailFast cannot be hashed, so not be part of a
    union.)"""

    most: int | None = None

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        schema = handler(source)
        assert schema["type"] == "list"
        return schema | {"fail_fast": True} | ({} if self.most is None else {"max_length": self.most})  # type: ignore


Listed = Annotated[list[Item], _List()]
Parts = Annotated[list[Item], _List(MAX_PARTS)]


def _few(settings: Any) -> Any:
    if isinstance(settings, dict) and len(settings) > MAX_SETTINGS:
        raise ValueError(f"{len(settings)} settings, where a run has at most {MAX_SETTINGS}")
    return settings


class Record(BaseModel):
    """Base of everything in a trace: immutable; unknown fields are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Distributions(Record):
    """One or two distributions over the shown tokens, with the exact masses of all others.

    Shown are the top 32 of p, the top 32 of q and the drafted tokens, by max(p, q), largest first. `q` is absent if
    there is no draft distribution (n-gram, typed, plain). `scale` is `probs` for the distribution used in
    verification, after temperature and truncation. At temperature 0, where that is a single token, it is
    `before_argmax`: the softmax of the logits.
    """

    ids: Parts[int]
    raw: Parts[str]
    p: Parts[float]
    q: Parts[float] | None = None
    rest_p: float
    rest_q: float | None = None
    rest_min: float | None = None  # sum of min(p, q) over the tokens not shown
    rest_residual: float | None = None  # sum of (p - q)+ over the tokens not shown
    scale: Literal["probs", "before_argmax"] = "probs"


def ratio_threshold(p: float, q: float) -> float:
    """min(1, p/q): what the random number of a token drawn from q is compared with (2211.17192). `q` is not 0."""
    return min(1.0, p / q)


class Verified(Record):
    """One child, in the order of verification. `uniform` was compared with `threshold`; both are absent if the rule
    uses no uniform. The lossy rules typical and top-k use none either, but compare `p` with `threshold`.
    """

    node: int
    p: float  # of the child's token, under the target distribution that verified it
    q: float | None = None  # and under the draft distribution
    threshold: float | None = None  # token: min(1, p/q); block: h_i; rrsw: the residual ratio; lenient: p/(l q)
    uniform: float | None = None
    weight: float | None = None  # block only: p_i, the joint ratio of the prefix
    passed: bool  # the result of this comparison; under `block` a later pass also accepts all earlier nodes


class Decision(Record):
    """The verified children of one slot. Under `rrsw`, `distributions[k]` verified `children[k]`, after the earlier
    rejections; other rules have one entry for all children.

    A `deterministic` or `greedy` decision has a `draw`: the target's own token at this slot, drawn with `uniform` or
    its argmax. The child with that token is accepted.
    """

    slot: int
    rule: Rule
    distributions: Parts[Distributions]
    children: Parts[Verified]
    draw: int | None = None
    uniform: float | None = None
    gap: float | None = None  # greedy only: top-1 minus top-2 logit; in 16-bit a small gap may be a tie


class Node(Record):
    """A drafted token. Parents come before children, siblings in draw order; parent -1 is the last committed token."""

    id: int
    token: int
    raw: str
    parent: int
    depth: int  # 1 for the children of the last committed token
    origin: str
    fate: Fate
    p: float  # under the target's distribution after its parent (greedy: softmax of the logits)
    q: float | None = None  # under the distribution it was drafted from


class Last(Record):
    """The target's own token of the round, after `slot`: drawn from `distributions.p` with `uniform`, or the argmax.

    A `correction` replaces rejected children, a `bonus` follows an accepted leaf, `plain` follows an empty tree.
    """

    kind: LastKind
    slot: int
    token: int
    raw: str
    uniform: float | None = None
    gap: float | None = None  # greedy only: top-1 minus top-2 logit at its slot
    distributions: Distributions | None = None  # what it was drawn from, unless a decision has it


class Timings(Record):
    """Milliseconds of one round. `propose` lists each draft forward, then the rest of that stage."""

    propose: Parts[float]
    verify: float  # the target's forward; with CUDA graphs also what follows it on the device
    accept: float  # comparing the drafted tokens with the target's distributions
    commit: float
    host: float
    graphs_recorded: int | None = None  # CUDA graphs recorded in this round, which takes longer for it


class Event(Record):
    """The fields of every event."""

    run: str
    lane: str
    sequence: int = 0


class ModelInfo(Record):
    """A model of the run. `hash` is the shortened SHA-256 of its weights; empty for a model made in memory."""

    role: Literal["target", "draft", "head"]
    name: str
    parameters: int
    layers: int
    hidden: int
    hash: str = ""
    weights: str = ""  # which weights, if the model has several kinds: original ones, or quantised ones widened
    # The real model whose memory traffic and arithmetic are added to this one's; older traces say "ballast".
    emulates: str = Field(default="", validation_alias=AliasChoices("emulates", "ballast"))
    graphs: str = ""  # `Graphs.state`: whether forwards are replayed from CUDA graphs; empty if not requested
    compiled: bool = False  # its forward is compiled for this CPU


class Fork(Record):
    """Where a lane left another one. It continues after `token_ids`, that lane's tokens, perhaps with another last one.

    These tokens are part of its prompt: it did not decode them, and they do not count as its tokens or rounds.
    """

    lane: str  # the lane that was left
    round: int  # of that lane
    token_ids: Listed[int]
    raw: Listed[str]
    forced: bool  # the last of them was chosen by the reader


class ServerInfo(Record):
    """The server of another program that wrote a lane, or this engine in a race of servers.

    Its address is not part of a trace. Empty: it does not say.
    """

    program: str  # vllm, sglang, llama.cpp, transformers, draftscope
    title: str = ""  # of the program, as it is written in a sentence
    version: str = ""
    model: str = ""
    bursts: Literal["chunks", "gaps"] = "chunks"  # what arrived in one piece, or tokens with almost no gap between
    jitter_ms: float = 0.0  # the loopback's own, 99th percentile: a shorter gap says nothing
    inside: bool = False  # a recorder inside it sent the rounds, with times on the server's own clock


class RunStart(Event):
    """Everything needed to know what ran and to run it again."""

    kind: Literal["run_start"] = "run_start"
    schema_version: int = SCHEMA_VERSION
    draftscope: str
    torch: str
    transformers: str
    device: str
    dtype: str
    threads: int
    revision: str = ""  # git revision of the code, where known
    models: Parts[ModelInfo]
    drafter: str
    title: str = ""  # what the drafter is called on screen
    exact: bool
    unchecked: bool | None = None  # `exact` is what another package says, and no check has confirmed it
    sized_by: str | None = None  # the option that says how large a draft is: gamma, shape or tree_nodes; perhaps none
    synthetic: bool = False  # the acceptance rate was set by hand (an oracle), so it says nothing about a drafter
    rule: str
    seed: int
    settings: Annotated[
        dict[str, int | float | str | bool | Listed[int] | Listed[float] | Listed[str] | None], BeforeValidator(_few)
    ]
    costs: str | None = None  # where the costs come from that the drafter chose by, if it chose by any
    not_applied: str | None = None  # settings of the target's generation_config that transformers' generate applies
    prompt: str
    rendered: str = ""  # the prompt in the model's chat template, if that was used
    prompt_tokens: int
    prompt_last_raw: str = ""  # the prompt's last token, the root of the first round
    fork: Fork | None = None  # its tokens are part of `prompt_tokens`
    server: ServerInfo | None = None  # times are then "seen from here", from when the request was sent
    created: str  # ISO 8601, UTC


class Prefill(Event):
    """How much of the prompt has been read; a later one replaces it. After the last one, the target and the drafter
    have read all of it except its last token."""

    kind: Literal["prefill"] = "prefill"
    tokens: int
    start: float
    end: float


class Arm(Record):
    """What a policy knew about one of its arms when it chose; absent if it had no data yet."""

    name: str
    pulls: int  # rounds in which it drafted
    tokens_per_round: float | None = None  # over all rounds that determine it: its own and those of larger arms
    ms_per_round: float | None = None  # over its own rounds
    tokens_per_s: float | None = None  # a ratio of sums


class PolicyNote(Record):
    """The arm that a policy chose for the round, and the data it chose by."""

    kind: Literal["policy"] = "policy"
    policy: Literal["ucb", "exp3", "thompson"]
    chosen: int  # index into `arms`
    probability: float | None = None  # of choosing that arm, for a randomised policy
    arms: Parts[Arm]


class DraftState(Record):
    """The draft model's memory of the text so far: a cache that grows with it, or a state of constant size."""

    kind: Literal["draft_state"] = "draft_state"
    bytes: int  # for this sequence
    tokens: int  # committed tokens that the draft has read
    constant: bool  # `bytes` does not depend on the length of the text


class Experts(Record):
    """The distinct experts that the target's forward used, layer by layer, for the whole batch."""

    kind: Literal["experts"] = "experts"
    touched: Parts[int]  # one for each layer with experts
    of: int  # experts in a layer, without shared ones
    active: int  # experts per token
    rows: int  # of the forward, for all sequences, including rows that a hybrid target reads again


class Prefetch(Record):
    """Drafting for possible outcomes of this round, while the target verified it."""

    kind: Literal["prefetch"] = "prefetch"
    outcomes: int  # pairs of (accepted tokens, next token) with a prepared draft
    hit: bool  # the actual outcome was one of them, so the next round need not draft
    overlap: Literal["thread", "stream"]  # where it ran
    busy_ms: float  # time it took in all
    waited_ms: float  # time the round waited for it after verification


class TierWork(Record):
    """One draft model of a cascade in one round."""

    model: str
    forwards: int


class Tiers(Record):
    """The draft models of a cascade, the target's own draft model first. The target itself ran one forward."""

    kind: Literal["tiers"] = "tiers"
    tiers: Parts[TierWork]


class Realignment(Record):
    """A chain that was drafted through text with another tokenizer: its distribution over these tokens is unknown."""

    kind: Literal["realignment"] = "realignment"
    drafted: int  # tokens of the draft's own tokenizer
    proposed: int  # tokens of the target with the same text
    read_again: int  # of the draft's tokens of the text so far, because they had changed


class SharedStep(Record):
    """A round that a recorder inside a server sent. Of its time only the server's step is known, which is in `verify`:
    `host` is all that passed since the step before, drafting included."""

    kind: Literal["shared_step"] = "shared_step"
    requests: int  # in the step, with this one
    q_unknown: bool  # drafts are the drafter's best tokens: its q is not sent, and the server counts it as 1


Annotation = Annotated[
    PolicyNote | DraftState | Experts | Prefetch | Tiers | Realignment | SharedStep, Field(discriminator="kind")
]


class Round(Event):
    """One round: propose, verify, accept, commit. `emitted` are the tokens added to the text: the accepted path, then
    `last`."""

    kind: Literal["round"] = "round"
    round: int
    start: float
    end: float
    width: int  # rows of the target's forward: 1 + nodes
    drafted: int  # nodes without never-accepted ones
    accepted: int  # accepted and emitted
    depth: int  # depth of the deepest node
    nodes: Parts[Node]
    decisions: Parts[Decision]
    last: Last
    emitted: Parts[int]
    emitted_raw: Parts[str]
    text_delta: str
    cut: Literal["eos", "stop", "length"] | None = None  # why the rest of the round was discarded
    timings: Timings
    annotations: Parts[Annotation] = Field(default_factory=list)  # of the drafter or the target

    @model_validator(mode="before")
    @classmethod
    def _without_notes(cls, read: Any) -> Any:
        """Some rounds were written with an empty 'notes'."""
        if isinstance(read, dict) and read.get("notes") == {}:
            return {name: value for name, value in read.items() if name != "notes"}
        return read


class RunEnd(Event):
    """The lane has ended. `text` and `token_ids` are everything it emitted."""

    kind: Literal["run_end"] = "run_end"
    reason: EndReason
    text: str
    token_ids: Listed[int]
    target_forwards: int  # rounds, without the prefill
    end: float
    message: str = ""  # for `error`: one sentence with the remedy
    other_cores: float | None = None  # processor cores that other processes kept busy meanwhile, where it is known


class SoloRuns(Event):
    """Unrecorded whole runs of this lane alone, in turn with the other lanes'."""

    kind: Literal["solo_runs"] = "solo_runs"
    tokens: int
    seconds: Parts[float]  # with prefill, in order; a lane's later event replaces its earlier ones
    other_cores: Parts[float] = Field(default_factory=list)  # that other processes kept busy during each of them


class VerifyCosts(Event):
    """What a target forward of several rows costs on this machine, divided by one of a single row.

    `v` is 1 for one row and never falls; `noise` is the standard error of each. Nothing is known beyond the last width.
    """

    kind: Literal["verify_costs"] = "verify_costs"
    context: int  # tokens before the rows
    widths: Parts[int]
    v: Parts[float]
    noise: Parts[float]


class Divergence(Event):
    """Where this greedy lane's text leaves plain decoding's, and whether the target's rounding explains it.

    By the fp32 logits of this lane's own text, as `draftscope check` decides it: a `tie` if no token from there on
    trails the target's best by more than `bound`, twice what rounding was measured to move on plain's text.
    """

    kind: Literal["parted"] = "parted"
    token: int  # the first that differs, counted from 0
    gap: float  # logits of the two tokens there, apart
    behind: float  # the most that a token from there on trails the target's best one
    bound: float
    tie: bool


class Burst(Event):
    """Tokens of a server that arrived together: what one of its rounds wrote, as far as that is seen from here.

    `start` is the arrival before, or 0, when the request was sent. Without token ids `emitted` holds -1 for each event.
    """

    kind: Literal["burst"] = "burst"
    round: int
    start: float
    end: float
    emitted: Parts[int]
    emitted_raw: Parts[str]  # where the server sends one text for all of them, it stands first and the rest is empty
    text_delta: str


class Served(Event):
    """A server's answers to one request, repeated in turn with the other lanes'; a later event replaces an earlier one.

    Times are seen from here, one entry for each answer. `rounds` to `by_position` are counted by the server.
    """

    kind: Literal["served"] = "served"
    failed: int = 0
    tokens: Parts[int]
    seconds: Parts[float]  # until the last token
    ttft_ms: Parts[float]
    tpot_ms: Parts[float]
    gap_p50_ms: float | None = None  # between bursts, of all answers
    gap_p99_ms: float | None = None
    per_burst: float | None = None  # tokens
    rounds: int | None = None
    drafted: int | None = None
    accepted: int | None = None
    by_position: Parts[int] = Field(default_factory=list)  # accepted tokens by position in the draft
    notes: Parts[str] = Field(default_factory=list)


class TargetProbs(Event):
    """The probability of each token that a server wrote, under the target that was loaded here: by teacher forcing."""

    kind: Literal["forced"] = "forced"
    target: str
    p: Listed[float]  # with the request's sampling; at temperature 0 of the softmax at 1
    best: Listed[bool]  # it is the target's most probable token
    log_p: float | None = None  # nats a token: the mean of log p minus its expectation; absent at temperature 0


class DraftProbs(Event):
    """Rounds reconstructed: the probability of each token that a server wrote under the drafter that is known here.

    In each burst all tokens but the last were drafted and accepted, with min(1, p/q). Which token was rejected, and the
    uniforms, are not known.
    """

    kind: Literal["drafted"] = "drafted"
    draft: str
    q: Listed[float]
    best: Listed[bool]  # it is the draft's most probable token


AnyEvent = Annotated[
    RunStart
    | Prefill
    | Round
    | RunEnd
    | SoloRuns
    | VerifyCosts
    | Divergence
    | Burst
    | Served
    | TargetProbs
    | DraftProbs,
    Field(discriminator="kind"),
]
EVENT: TypeAdapter[AnyEvent] = TypeAdapter(AnyEvent)
