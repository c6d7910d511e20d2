"""The program of `bounded.py`: answers requests, a line of JSON each, until its input ends.

Started by its path, so that nothing of this project is imported. It renders chat templates as transformers does, and
tries tokenizers on a text of many scripts. What either does beyond the bounds ends this process, and no other.
"""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Callable
from typing import Any

from tokenizers import Tokenizer
from transformers.utils.chat_template_utils import render_jinja_template

SCRIPTS = ((0x20, 0x3400), (0x4E00, 0x5000), (0xAC00, 0xAD00), (0xF900, 0x10000), (0x1F300, 0x1F700))
COMPOSED = "e\u0301 n\u0303 \u304b\u3099 \U0001f468\u200d\U0001f469\u200d\U0001f467 \u1100\u1161\u11a8 "


def render(template: str, messages: list[dict[str, str]], variables: dict[str, Any], most: int) -> str:
    """The text, or ValueError if it has more than `most` characters."""
    texts, _ = render_jinja_template(
        conversations=[messages], chat_template=template, add_generation_prompt=True, **variables
    )
    if len(texts[0]) > most:
        raise ValueError(f"it writes {len(texts[0]):,} characters, and {most:,} are read")
    return str(texts[0])


def try_tokenizer(path: str) -> int:
    """The number of tokens of a text of many scripts."""
    tokenizer = Tokenizer.from_file(path)
    text = COMPOSED + " ".join("".join(map(chr, range(*script))) for script in SCRIPTS)
    ids = tokenizer.encode(text, add_special_tokens=False).ids
    tokenizer.decode(ids)
    return len(ids)


ACTS: dict[str, Callable[..., Any]] = {"render": render, "try_tokenizer": try_tokenizer}


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """{'result': ...}, or {'error': the reason, 'kind': the exception's name}."""
    try:
        return {"result": ACTS[request["act"]](**request["given"])}
    except BaseException as error:  # a panic of Rust is no Exception
        return {"error": str(error), "kind": type(error).__name__}


def bound_memory(more: int) -> None:
    """At most `more` bytes beside what is mapped now, where the system can tell."""
    try:
        import resource

        with open("/proc/self/statm", encoding="ascii") as file:
            most = int(file.read().split()[0]) * resource.getpagesize() + more
        resource.setrlimit(resource.RLIMIT_AS, (most, most))
    except (ImportError, OSError):  # elsewhere only the time is bounded
        return


def main() -> None:
    bound_memory(int(sys.argv[1]))
    print("ready", flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        if hasattr(signal, "alarm"):  # should whoever asked be gone
            signal.alarm(int(request["seconds"]) + 1)
        reply = json.dumps(answer(request))
        if hasattr(signal, "alarm"):
            signal.alarm(0)
        print(reply, flush=True)


if __name__ == "__main__":
    main()
