"""How fast plain decoding of other architectures is beside transformers' `generate`, on this processor, in bfloat16:
`python -m tests.programs.architecture_speeds --help`.

Each model is random, of 12 layers of width 512. Both decode the same prompt in turn, prefill included; `generate` has
the network as transformers loads it. A ratio is tokens/s divided by `generate`'s in the same repeat.
"""

from __future__ import annotations

import argparse
import logging
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import torch
from transformers import CONFIG_MAPPING, AutoModelForCausalLM, AutoTokenizer, GenerationConfig

from draftscope.base import markdown
from draftscope.base.assets import assets
from draftscope.decode.load import load

SIZE: dict[str, Any] = {
    "hidden_size": 512, "intermediate_size": 1536, "num_hidden_layers": 12, "num_attention_heads": 8,
    "num_key_value_heads": 4, "max_position_embeddings": 1024, "initializer_range": 0.1, "bos_token_id": 0,
    "eos_token_id": 0, "pad_token_id": 0,
}  # fmt: skip
KINDS: dict[str, dict[str, Any]] = {
    "llama": {},
    "qwen2": {},
    "qwen3": {"head_dim": 64},
    "gemma3_text": {"head_dim": 64, "sliding_window": 256, "query_pre_attn_scalar": 64},
    "mistral": {"head_dim": 64},
    "gpt_neox": {},
    "phi": {},
    "phi3": {},
}
PROMPT = "Once upon a time there was a little dog who liked to run in the park with his friends."
TOKENS, REPEATS = 48, 7


@dataclass(frozen=True)
class Measured:
    """Of one architecture: tokens/s of both (medians), the ratio by repeat, and equal tokens from the start."""

    kind: str
    forward: str
    plain: float
    generate: float
    ratios: tuple[float, ...]
    equal: int


def measured(kind: str, folder: Path, repeats: int) -> Measured:
    """Writes a random model to `folder`, loads it twice, and times both."""
    written(kind, folder)
    with load(str(folder)) as engine:
        network = AutoModelForCausalLM.from_pretrained(folder, dtype=engine.target.dtype).eval()
        prompt = torch.tensor([engine.encode(PROMPT)])
        config = GenerationConfig(max_new_tokens=TOKENS, do_sample=False, eos_token_id=-1, pad_token_id=0)

        def generate() -> list[int]:
            found = network.generate(prompt, attention_mask=torch.ones_like(prompt), generation_config=config)
            return list(found[0, prompt.shape[1] :].tolist())

        def plain() -> list[int]:
            return engine.decode(PROMPT, "plain", record=False, max_new_tokens=TOKENS, temperature=0.0).token_ids

        ways = {"plain": plain, "generate": generate}
        texts = {name: way() for name, way in ways.items()}  # warm-up
        speeds = [{name: len(texts[name]) / seconds(way) for name, way in ways.items()} for _ in range(repeats)]
        both = zip(texts["plain"], texts["generate"], strict=False)
        equal = next((at for at, (a, b) in enumerate(both) if a != b), min(map(len, texts.values())))
        ours, theirs = (median(each[name] for each in speeds) for name in ways)
        ratios = tuple(each["plain"] / each["generate"] for each in speeds)
        return Measured(kind, type(engine.target.run).__name__, ours, theirs, ratios, equal)


def written(kind: str, folder: Path) -> None:
    """A random network of the architecture, with the embedded models' tokenizer."""
    torch.manual_seed(0)
    tokenizer = AutoTokenizer.from_pretrained(assets() / "models" / "llama-draftscope-15m")
    config = CONFIG_MAPPING[kind](vocab_size=len(tokenizer), **(SIZE | KINDS[kind]))
    AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16).save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def seconds(way: Callable[[], object]) -> float:
    start = perf_counter()
    way()
    return perf_counter() - start


def table(found: Sequence[Measured]) -> str:
    head = ("architecture", "forward", "plain, tokens/s", "generate, tokens/s", "ratio [least, most]", "equal tokens")
    lines = [
        (
            each.kind, each.forward, f"{each.plain:.0f}", f"{each.generate:.0f}",
            f"{median(each.ratios):.2f} [{min(each.ratios):.2f}, {max(each.ratios):.2f}]", f"{each.equal} of {TOKENS}",
        )
        for each in found
    ]  # fmt: skip
    return markdown.table(head, lines)


def _report(given: argparse.Namespace) -> str:
    logging.getLogger("transformers").setLevel(logging.ERROR)
    found = []
    for kind in given.kinds:
        with tempfile.TemporaryDirectory() as folder:
            found.append(measured(kind, Path(folder), given.repeats))
    return f"{torch.get_num_threads()} threads, bfloat16\n\n{table(found)}"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.programs.architecture_speeds", description=__doc__)
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--repeats", type=int, default=REPEATS)
    print(_report(parser.parse_args()))


if __name__ == "__main__":
    main()
