"""Known pairs of targets and drafters: and what they need.

A draft model may have another tokenizer than its target: `draftscope.load` then drafts through text and says so.
Parameter counts of whole models are exact, counted from their configuration; those of heads follow from file sizes.
"""

from __future__ import annotations

from dataclasses import dataclass

DRAFT_MODEL, EAGLE, EAGLE_3, MEDUSA, BLOCK = "draft model", "EAGLE", "EAGLE-3", "Medusa", "DFlash"
THROUGH_TEXT = "through text"  # a draft model with another tokenizer than the target's

LLAMA_8B, LLAMA_70B = "meta-llama/Llama-3.1-8B-Instruct", "meta-llama/Llama-3.1-70B-Instruct"
LLAMA_3B, LLAMA_1B = "meta-llama/Llama-3.2-3B-Instruct", "meta-llama/Llama-3.2-1B-Instruct"
GATED = ("meta-llama/", "google/gemma-")  # a licence to accept on the hub first

PARAMETERS = {
    LLAMA_70B: 70_553_706_496,
    LLAMA_8B: 8_030_261_248,
    LLAMA_3B: 3_212_749_824,
    LLAMA_1B: 1_235_814_400,
    "Qwen/Qwen2.5-32B-Instruct": 32_763_876_352,
    "Qwen/Qwen2.5-14B-Instruct": 14_770_033_664,
    "Qwen/Qwen2.5-7B-Instruct": 7_615_616_512,
    "Qwen/Qwen2.5-1.5B-Instruct": 1_543_714_304,
    "Qwen/Qwen2.5-Coder-1.5B-Instruct": 1_543_714_304,
    "Qwen/Qwen2.5-Coder-0.5B-Instruct": 494_032_768,
    "Qwen/Qwen2.5-0.5B-Instruct": 494_032_768,
    "Qwen/Qwen3-32B": 32_762_123_264,
    "Qwen/Qwen3-14B": 14_768_307_200,
    "Qwen/Qwen3-8B": 8_190_735_360,
    "Qwen/Qwen3-4B": 4_022_468_096,
    "Qwen/Qwen3-1.7B": 1_720_574_976,
    "Qwen/Qwen3-0.6B": 596_049_920,
    "google/gemma-2-27b-it": 27_227_128_320,
    "google/gemma-2-9b-it": 9_241_705_984,
    "google/gemma-2-2b-it": 2_614_341_888,
    "google/gemma-3-1b-it": 999_885_952,
    "google/gemma-3-270m-it": 268_098_176,
    "HuggingFaceTB/SmolLM2-1.7B-Instruct": 1_711_376_384,
    "HuggingFaceTB/SmolLM2-360M-Instruct": 361_821_120,
    "HuggingFaceTB/SmolLM2-135M-Instruct": 134_515_008,
    "lmsys/vicuna-13b-v1.3": 13_015_864_320,
    "lmsys/vicuna-7b-v1.3": 6_738_415_616,
    "meta-llama/Meta-Llama-3-8B-Instruct": 8_030_261_248,
    "yuhuili/EAGLE-LLaMA3-Instruct-8B": 775_000_000,
    "yuhuili/EAGLE3-LLaMA3.1-Instruct-8B": 425_000_000,
    "yuhuili/EAGLE3-Vicuna1.3-13B": 640_000_000,
    "FasterDecoding/medusa-vicuna-7b-v1.3": 740_000_000,
    "z-lab/Qwen3-4B-DFlash-b16": 500_000_000,
    "z-lab/Qwen3-8B-DFlash-b16": 1_000_000_000,
}


@dataclass(frozen=True)
class Pair:
    """A target and a drafter: trained for it, of the same tokenizer, or of another one and drafting through text."""

    target: str
    drafter: str
    kind: str = DRAFT_MODEL
    note: str = ""

    @property
    def gb(self) -> float:
        """Size of both models' weights in bfloat16, in 10^9 bytes, without the cache."""
        return 2 * (PARAMETERS[self.target] + PARAMETERS[self.drafter]) / 1e9

    @property
    def gated(self) -> bool:
        """Whether a licence must first be accepted on the hub."""
        return any(name.startswith(GATED) for name in (self.target, self.drafter))


PAIRS = (
    Pair("HuggingFaceTB/SmolLM2-1.7B-Instruct", "HuggingFaceTB/SmolLM2-135M-Instruct"),
    Pair("HuggingFaceTB/SmolLM2-1.7B-Instruct", "HuggingFaceTB/SmolLM2-360M-Instruct"),
    Pair("Qwen/Qwen2.5-1.5B-Instruct", "Qwen/Qwen2.5-0.5B-Instruct"),
    Pair("Qwen/Qwen2.5-Coder-1.5B-Instruct", "Qwen/Qwen2.5-Coder-0.5B-Instruct"),
    Pair("Qwen/Qwen2.5-7B-Instruct", "Qwen/Qwen2.5-0.5B-Instruct", note="padded unequally"),
    Pair("Qwen/Qwen2.5-14B-Instruct", "Qwen/Qwen2.5-0.5B-Instruct", note="padded unequally"),
    Pair("Qwen/Qwen2.5-32B-Instruct", "Qwen/Qwen2.5-1.5B-Instruct", note="padded unequally"),
    Pair("Qwen/Qwen3-1.7B", "Qwen/Qwen3-0.6B"),
    Pair("Qwen/Qwen3-8B", "Qwen/Qwen3-0.6B"),
    Pair("Qwen/Qwen3-14B", "Qwen/Qwen3-0.6B"),
    Pair("Qwen/Qwen3-32B", "Qwen/Qwen3-1.7B"),
    Pair("Qwen/Qwen3-4B", "z-lab/Qwen3-4B-DFlash-b16", BLOCK, "brings its own code"),
    Pair("Qwen/Qwen3-8B", "z-lab/Qwen3-8B-DFlash-b16", BLOCK, "brings its own code"),
    Pair(LLAMA_3B, LLAMA_1B),
    Pair(LLAMA_8B, LLAMA_1B),
    Pair(LLAMA_70B, LLAMA_1B),
    Pair(LLAMA_70B, LLAMA_8B),
    Pair("meta-llama/Meta-Llama-3-8B-Instruct", "yuhuili/EAGLE-LLaMA3-Instruct-8B", EAGLE, "head is a pickle"),
    Pair(LLAMA_8B, "yuhuili/EAGLE3-LLaMA3.1-Instruct-8B", EAGLE_3, "head is a pickle"),
    Pair("google/gemma-2-9b-it", "google/gemma-2-2b-it"),
    Pair("google/gemma-2-27b-it", "google/gemma-2-2b-it"),
    Pair("google/gemma-3-1b-it", "google/gemma-3-270m-it"),
    Pair("google/gemma-2-9b-it", "Qwen/Qwen2.5-0.5B-Instruct", THROUGH_TEXT, "another tokenizer"),
    Pair(LLAMA_8B, "HuggingFaceTB/SmolLM2-135M-Instruct", THROUGH_TEXT, "another tokenizer"),
    Pair("lmsys/vicuna-13b-v1.3", "yuhuili/EAGLE3-Vicuna1.3-13B", EAGLE_3, "head is a pickle"),
    Pair("lmsys/vicuna-7b-v1.3", "FasterDecoding/medusa-vicuna-7b-v1.3", MEDUSA, "head is a pickle"),
)
