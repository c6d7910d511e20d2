"""vLLM 0.32.0 for CPUs without Triton: above temperature 0, speculation divides logits by uninitialised memory.

Without an argument: the function alone, as it is and mended, no model, seconds. With MODEL plain: the mean log p of
sampled tokens by position, under MODEL itself. With MODEL speculative: the same, where MODEL drafts four tokens for
itself; it should be as plain's.
"""

import sys
from typing import Any

PROMPT = "The old man walked down to the sea. The old man"
TEXTS, TOKENS = 100, 8


def function_alone() -> None:
    import torch
    from vllm.platforms import current_platform

    current_platform.import_kernels()
    current_platform.register_triton_kernel_overrides()  # what a worker does
    from vllm.triton_utils.dispatcher import register_kernels
    from vllm.v1.sample.rejection_sampler import expand_batch_to_tokens

    temperature = torch.tensor([0.7, 1.0])  # of two requests
    ends = torch.tensor([3, 5], dtype=torch.int32)  # which have 3 and 2 drafted tokens
    torch.full((5,), 123.0)  # memory that is free again
    print("expected:", [0.7, 0.7, 0.7, 1.0, 1.0])
    print("observed:", expand_batch_to_tokens(temperature, ends, 5, replace_from=0, replace_to=1).tolist())
    register_kernels({"vllm.v1.sample.rejection_sampler.expand_kernel": mended})
    print("mended:  ", expand_batch_to_tokens(temperature, ends, 5, replace_from=0, replace_to=1).tolist())


def mended(output: Any, values: Any, ends: Any, replace_from: int, replace_to: int, *_: Any) -> None:
    """In place of `_expand_kernel_impl` of vllm/utils/cpu_triton_utils.py."""
    counts = ends.diff(prepend=ends.new_zeros(1))
    values = values.masked_fill(values == replace_from, replace_to)
    output.copy_(values.repeat_interleave(counts, output_size=len(output)))


def text(model: str, method: str) -> None:
    from vllm import LLM, SamplingParams

    itself = {"method": "draft_model", "model": model, "num_speculative_tokens": 4}
    speculation = itself if method == "speculative" else None
    llm = LLM(model, dtype="bfloat16", max_model_len=256, enforce_eager=True, speculative_config=speculation)
    sampled = llm.generate([PROMPT] * TEXTS, SamplingParams(temperature=1.0, max_tokens=TOKENS, ignore_eos=True))
    whole = [{"prompt_token_ids": [*each.prompt_token_ids, *each.outputs[0].token_ids]} for each in sampled]
    read = llm.generate(whole, SamplingParams(temperature=0.0, max_tokens=1, prompt_logprobs=0))
    first = len(sampled[0].prompt_token_ids)
    for place in range(first, first + TOKENS):
        of = [each.prompt_logprobs[place][each.prompt_token_ids[place]].logprob for each in read]
        print(f"token {place - first + 1}: mean log p {sum(of) / len(of):7.2f}")
    print("a text:", repr(sampled[0].outputs[0].text))


if __name__ == "__main__":
    if len(sys.argv) > 1:
        text(sys.argv[1], sys.argv[2])
    else:
        function_alone()
