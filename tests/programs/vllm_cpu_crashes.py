"""Two requests that end the engine of vLLM 0.32.0 for CPUs without Triton.

- `top-k`: a top-k without a top-p, in a step in which nobody drafted.
- `seed`: a seed, and a prompt that is read in parts.

Without an argument: the functions alone, no model, seconds. With MODEL and one of the two: a server that drafts
n-grams, and eight requests at once, of which every third has a top-k, or a seed.
"""

import json
import subprocess
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

PORT, REQUESTS, STARTS_S = 8219, 8, 300
NGRAMS = {"method": "ngram", "num_speculative_tokens": 4, "prompt_lookup_min": 2, "prompt_lookup_max": 4}
SETTINGS: dict[str, dict[str, object]] = {"top-k": {"top_k": 20}, "seed": {"seed": 1}}
TEXT = "The old man walked down to the sea. "


def functions_alone() -> None:
    import torch
    from vllm.v1.sample.ops.topk_topp_sampler import apply_top_k_top_p

    no_rows, no_k = torch.empty(0, 4096), torch.empty(0, dtype=torch.int32)  # of no drafted token
    for name, call in (
        ("top-k", lambda: apply_top_k_top_p(no_rows, no_k, None)),
        ("seed", lambda: torch.Generator().get_offset()),
    ):
        try:
            print(f"{name}:", call())
        except Exception as error:
            print(f"{name}:", type(error).__name__, str(error).splitlines()[0])


def answered(number: int, setting: str) -> str:
    body = {"prompt": TEXT * (1 if number % 2 else 12), "max_tokens": 64, "temperature": 1.0, "ignore_eos": True}
    body |= SETTINGS[setting] if number % 3 == 0 else {}
    try:
        return f"HTTP {urlopen(posted(body), timeout=STARTS_S).status}"
    except HTTPError as error:
        return f"HTTP {error.code}"
    except (URLError, ConnectionError) as error:
        return str(error)


def posted(body: dict[str, object]) -> Request:
    head = {"Content-Type": "application/json"}
    return Request(f"http://127.0.0.1:{PORT}/v1/completions", json.dumps(body).encode(), head)


def server(model: str, setting: str) -> None:
    command = [
        str(Path(sys.executable).with_name("vllm")), "serve", model, "--dtype", "bfloat16", "--enforce-eager",
        "--max-model-len", "512", "--max-num-seqs", str(REQUESTS), "--max-num-batched-tokens", "64",
        "--speculative-config", json.dumps(NGRAMS), "--port", str(PORT), "--host", "127.0.0.1",
    ]  # fmt: skip
    with tempfile.TemporaryFile() as log, subprocess.Popen(command, stdout=log, stderr=log) as process:
        try:
            wait(process)
            with ThreadPoolExecutor(REQUESTS) as pool:
                counts = Counter(pool.map(lambda number: answered(number, setting), range(REQUESTS)))
            print(", ".join(f"{count} of {REQUESTS}: {said}" for said, count in counts.items()))
            log.seek(0)
            said = log.read().decode(errors="replace").splitlines()
            print("the worker's log:", next((line for line in said if "] RuntimeError: " in line), "no error"))
        finally:
            process.terminate()


def wait(process: "subprocess.Popen[bytes]") -> None:
    end = time.monotonic() + STARTS_S
    while process.poll() is None and time.monotonic() < end:
        try:
            urlopen(f"http://127.0.0.1:{PORT}/health", timeout=5)
            return
        except (URLError, ConnectionError):
            time.sleep(1)
    raise SystemExit("the server did not start")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        server(sys.argv[1], sys.argv[2])
    else:
        functions_alone()
