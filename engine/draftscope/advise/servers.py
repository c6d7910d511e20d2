"""The advice as settings of other engines. Each says with what it was compared; none was started with these values.

A schedule by batch size is written where the engine has one. Trees are turned into the best chain of the same kind of
draft, and drafters that an engine does not have are left out.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from draftscope.advise.candidates import Candidate
from draftscope.advise.limits import Stretch
from draftscope.drafters.options import without_tree

MODEL = "DRAFTER"  # stands for the drafter's folder or id where it is not known


@dataclass(frozen=True)
class Ready:
    """Settings of one engine; empty where it has nothing of the kind."""

    engine: str
    settings: str
    checked: str  # with which version's source or documentation, or that it was not
    note: str = ""


@dataclass(frozen=True)
class Wanted:
    """What to write: a chain of `gamma` tokens by a `kind` of draft, and its schedule by concurrency, perhaps empty."""

    kind: str  # draft, ngram, suffix, eagle, eagle3, mtp, medusa, block or another drafter's name
    gamma: int
    schedule: Sequence[Stretch]
    model: str = MODEL


VLLM = {
    "draft": "draft_model", "ngram": "ngram", "suffix": "suffix", "eagle": "eagle", "eagle3": "eagle3", "mtp": "mtp",
    "medusa": "medusa", "dspark": "dspark",
}  # fmt: skip
SGLANG = {"draft": "STANDALONE", "eagle": "EAGLE", "eagle3": "EAGLE3", "mtp": "NEXTN", "ngram": "NGRAM"}
LLAMA = {"draft": "draft-simple", "eagle3": "draft-eagle3", "mtp": "draft-mtp", "ngram": "ngram-simple"}
TENSORRT = {"draft": "DraftTarget", "eagle3": "Eagle3", "mtp": "MTP", "ngram": "NGram"}
WITHOUT_MODEL = ("ngram", "suffix")


def ready(chosen: Candidate, schedule: Sequence[Stretch], model: str = MODEL) -> list[Ready]:
    """Settings for every engine; for a tree, of the chain with as many levels."""
    kind = without_tree(chosen.drafter)
    kind = "draft" if chosen.drafter in ("sampled-tree", "topk-tree", "sequoia") else kind
    form = chosen.form
    wanted = Wanted(kind, len(form) if form else 4, schedule, model)
    note = "" if chosen.gamma is not None else f"'{chosen.name}' is a tree; this is a chain, which was not measured."
    writers: Sequence[Callable[[Wanted], tuple[str, str, str]]] = (_vllm, _sglang, _llama, _tensorrt, _transformers)
    found = []
    for write in writers:
        engine, settings, checked = write(wanted)
        found.append(Ready(engine, settings, checked, note if settings else f"has no drafter like '{chosen.drafter}'"))
    return found


def _vllm(wanted: Wanted) -> tuple[str, str, str]:
    """Its schedule is of inclusive ranges of batch sizes; 0 tokens are off."""
    checked = "compared with the source of vLLM 0.33.0, not run"
    if wanted.kind not in VLLM:
        return "vLLM", "", checked
    config: dict[str, object] = {"method": VLLM[wanted.kind], "num_speculative_tokens": wanted.gamma}
    if wanted.kind not in (*WITHOUT_MODEL, "mtp"):
        config["model"] = wanted.model
    if wanted.kind == "ngram":
        config |= {"prompt_lookup_min": 1, "prompt_lookup_max": 3}
    if len(wanted.schedule) > 1:
        config["num_speculative_tokens"] = max(each.gamma for each in wanted.schedule) or wanted.gamma
        stretches = [[each.first, each.last, each.gamma] for each in wanted.schedule]
        config["num_speculative_tokens_per_batch_size"] = stretches
    return "vLLM", f"--speculative-config '{json.dumps(config)}'", checked


def _sglang(wanted: Wanted) -> tuple[str, str, str]:
    """The adaptive file exists for EAGLE and EAGLE-3 with a top-k of 1; its keys are the least batch sizes."""
    checked = "compared with the source of SGLang 0.5.23, not run"
    if wanted.kind not in SGLANG:
        return "SGLang", "", checked
    parts = [f"--speculative-algorithm {SGLANG[wanted.kind]}"]
    if wanted.kind not in (*WITHOUT_MODEL, "mtp"):
        parts.append(f"--speculative-draft-model-path {wanted.model}")
    if wanted.kind == "ngram":
        parts.append(f"--speculative-num-draft-tokens {wanted.gamma}")
    else:
        steps = f"--speculative-num-steps {wanted.gamma} --speculative-eagle-topk 1"
        parts.append(f"{steps} --speculative-num-draft-tokens {wanted.gamma + 1}")
    if wanted.kind in ("eagle", "eagle3") and len(wanted.schedule) > 1:
        file = {str(each.first): {"candidate_steps": [each.gamma]} for each in wanted.schedule}
        parts.append(f"--speculative-adaptive --speculative-adaptive-config FILE  # FILE holds {json.dumps(file)}")
    return "SGLang", " ".join(parts), checked


def _llama(wanted: Wanted) -> tuple[str, str, str]:
    checked = "compared with the source of llama.cpp of 2026-10-01, not run; no schedule by batch size"
    if wanted.kind not in LLAMA:
        return "llama.cpp", "", checked
    model = "" if wanted.kind in (*WITHOUT_MODEL, "mtp") else f" --spec-draft-model {wanted.model}.gguf"
    return "llama.cpp", f"--spec-type {LLAMA[wanted.kind]}{model} --spec-draft-n-max {wanted.gamma}", checked


def _tensorrt(wanted: Wanted) -> tuple[str, str, str]:
    """Its schedule maps the largest batch of each draft length to that length; beyond the last one it is off."""
    checked = "compared with the documentation of TensorRT-LLM 1.4.0rc1, not run"
    if wanted.kind not in TENSORRT:
        return "TensorRT-LLM", "", checked
    lines = ["speculative_config:", f"  decoding_type: {TENSORRT[wanted.kind]}", f"  max_draft_len: {wanted.gamma}"]
    if wanted.kind not in (*WITHOUT_MODEL, "mtp"):
        lines.append(f"  speculative_model: {wanted.model}")
    if len(wanted.schedule) > 1:
        inner = ", ".join(f"{each.last}: {each.gamma}" for each in wanted.schedule if each.gamma)
        lines[2] = f"  max_draft_len: {max(each.gamma for each in wanted.schedule) or wanted.gamma}"
        lines.append(f"  draft_len_schedule: {{{inner}}}")
    return "TensorRT-LLM", "\n".join(lines), checked


def _transformers(wanted: Wanted) -> tuple[str, str, str]:
    """`generate` decodes one sequence when it speculates."""
    checked = "compared with transformers 5.23.0, not run; one sequence at a time"
    if wanted.kind == "ngram":
        return "transformers", f"model.generate(..., prompt_lookup_num_tokens={wanted.gamma})", checked
    if wanted.kind != "draft":
        return "transformers", "", checked
    fixed = 'num_assistant_tokens_schedule="constant", assistant_confidence_threshold=0.0'
    model = f'AutoModelForCausalLM.from_pretrained("{wanted.model}")'
    return (
        "transformers",
        f"model.generate(..., assistant_model={model}, num_assistant_tokens={wanted.gamma}, {fixed})",
        checked,
    )
