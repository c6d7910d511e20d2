"""Do other engines accept what Draftscope accepts? `make interop`, or `python -m tests.programs.interop --help`.

The same drafter on the same weights, at temperature 0, for the same prompts as token ids: accepted tokens by position,
as each engine counts them, and whether the texts are equal. vLLM runs EAGLE-3 heads and draft models, transformers and
llama.cpp draft models. llama.cpp's converter refuses the heads: it has no place for the norms before `fc` (`fc_norm`).
"""

from __future__ import annotations

import argparse
import datetime
import os
import subprocess
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib.metadata import version
from itertools import zip_longest
from pathlib import Path

import torch
from transformers import GenerationConfig
from transformers.utils import logging

import draftscope
from draftscope.base import markdown
from draftscope.base.assets import assets
from draftscope.base.steps import last
from draftscope.decode.engine import DecodingEngine
from draftscope.drafters.settings import Settings
from draftscope.measure.bench.peers import gguf as peer
from draftscope.servers.adapter import Counted, Request, Server, ServerError
from draftscope.servers.engine_lane import EngineLane
from draftscope.servers.programs.program import Command, ServedPair
from draftscope.servers.programs.program_list import find_start, identify
from draftscope.servers.server_race import Answer, Race, RaceLane, RacePrompt, RaceResult, race
from draftscope.train.data import prompt_mix

GAMMA, TOKENS, PROMPTS, PORT = 4, 64, 20, 8140
STARTS_S = 280.0


@dataclass(frozen=True)
class Shared:
    """A target and a drafter that several engines can load: folders, or None for the target as the user has it."""

    title: str
    target: str
    drafter: str
    method: str
    chat: bool


@dataclass(frozen=True)
class Rounds:
    """Rounds that had a draft, and the tokens accepted at each position of it, the first one first."""

    count: int
    accepted: tuple[int, ...]

    def __str__(self) -> str:
        return f"{self.count}: {' '.join(map(str, self.accepted)) or 'not counted'}"


@dataclass(frozen=True)
class Told:
    """What one engine counted over all prompts, and for each of them where it does."""

    engine: str
    whole: Rounds
    texts: tuple[tuple[int, ...], ...]
    each: tuple[Rounds, ...] = ()
    unseen: int = 0  # ids below this may be missing from its texts


def pairs(smollm2: Path | None) -> list[Shared]:
    """The embedded pair; with a folder of SmolLM2-135M-Instruct also what was trained for that."""
    home = assets() / "models"
    target = str(home / "llama-draftscope-15m")
    found = [
        Shared("embedded, EAGLE-3", target, str(home / "llama-draftscope-eagle3"), "eagle3", False),
        Shared("embedded, draft model", target, str(home / "llama-draftscope-draft-1m"), "draft", False),
    ]
    for folder, method in (("llama-smollm2-135m-eagle3", "eagle3"), ("llama-smollm2-135m-draft", "draft")):
        if smollm2 is not None and (home / folder).is_dir():
            name = "EAGLE-3" if method == "eagle3" else "draft model"
            found.append(Shared(f"SmolLM2-135M, {name}", str(smollm2), str(home / folder), method, True))
    return found


def texts(engine: DecodingEngine, chat: bool) -> list[RacePrompt]:
    """The same prompts for every engine: instructions in the chat template, or their plain text to continue."""
    chosen = prompt_mix.mix(prompt_mix.training_prompts(1, 2500), 1)[:PROMPTS]
    ids = [engine.encode(each.text, TOKENS) if chat else engine.tokenizer.encode(each.text) for each in chosen]
    return [RacePrompt(each.text, tuple(tokens)) for each, tokens in zip(chosen, ids, strict=True)]


def by_draftscope(engine: DecodingEngine, shared: Shared, asked: Sequence[RacePrompt]) -> Told:
    return raced("Draftscope " + version("draftscope"), EngineLane(engine, Settings.of(drafter=shared.method)), asked)


def by_vllm(program: Path, shared: Shared, asked: Sequence[RacePrompt]) -> Told:
    """vLLM's speculative server, started for this and ended after it."""
    pair = ServedPair(shared.target, shared.method, shared.drafter, GAMMA, context=512, requests=1)
    command = find_start("vllm-cpu").commands(pair, PORT)[1]
    with started(program, command, ("--enforce-eager",)) as server:
        return raced(f"vLLM {server.identity.version}", server, asked)


def by_llama_cpp(program: Path, engine: DecodingEngine, asked: Sequence[RacePrompt]) -> Told:
    """llama.cpp's server with a draft model, on files of the same weights; made-up words, as only ids are read."""
    assert engine.draft is not None
    with tempfile.TemporaryDirectory() as folder:
        target, draft = Path(folder) / "target.gguf", Path(folder) / "draft.gguf"
        for model, path in ((engine.target, target), (engine.draft, draft)):
            peer.write(model.network, path, peer.byte_words)
        pair = ServedPair(str(target), "draft", str(draft), GAMMA, context=512, requests=1)
        command = find_start("llama.cpp").commands(pair, PORT)[1]
        with started(program, command, ("-ctk", "bf16", "-ctv", "bf16", "--no-webui")) as server:
            told = raced(f"llama.cpp {server.identity.version}", server, asked)
    return replace(told, unseen=peer.BYTES)  # its stream leaves out bytes that are no character


def raced(engine: str, server: Server, asked: Sequence[RacePrompt]) -> Told:
    """Raises `ServerError` for an answer that failed or was not counted."""
    standing = RaceResult()
    plan = Race(asked, Request((0,), TOKENS, temperature=0.0, ignore_eos=True), repeats=1)
    last(race([RaceLane(engine, server)], plan, standing))
    answers = standing.answers
    if failed := next((each.failure for each in answers if each.failure), None):
        raise ServerError(failed)
    each = [found for answer in answers if (found := counts(answer)) is not None]
    if len(each) == len(answers):
        return Told(engine, added(each), _ids(answers), each=tuple(each))
    whole = standing.counted.get(engine, Counted())
    if whole.rounds is None:
        raise ServerError("the server does not count what it accepts.")
    return Told(engine, Rounds(whole.rounds, whole.by_position), _ids(answers))


def counts(answer: Answer) -> Rounds | None:
    """Of one answer; None where the server counts no rounds."""
    own = answer.counted or Counted()
    if own.drafted_per_round:
        most = max(own.accepted_per_round, default=0)
        accepted = tuple(sum(each > i for each in own.accepted_per_round) for i in range(most))
        return Rounds(sum(drafted > 0 for drafted in own.drafted_per_round), accepted)
    return None if own.rounds is None else Rounds(own.rounds, own.by_position)


def added(each: Iterable[Rounds]) -> Rounds:
    """Of several answers together."""
    every = list(each)
    columns = zip_longest(*(own.accepted for own in every), fillvalue=0)
    return Rounds(sum(own.count for own in every), tuple(sum(column) for column in columns))


def _ids(answers: Sequence[Answer]) -> tuple[tuple[int, ...], ...]:
    return tuple(each.ids for each in answers)


@torch.inference_mode()
def by_transformers(engine: DecodingEngine, asked: Sequence[RacePrompt]) -> Told:
    """transformers' assisted generation with a draft of constant length; rounds are the target's forwards."""
    assert engine.draft is not None
    network, assistant = engine.target.network, engine.draft.network
    assistant.generation_config = GenerationConfig(
        num_assistant_tokens=GAMMA, num_assistant_tokens_schedule="constant", assistant_confidence_threshold=0.0
    )
    widths: list[int] = []
    hook = network.register_forward_pre_hook(
        lambda _, given, named: widths.append((named.get("input_ids") if not given else given[0]).shape[1]),
        with_kwargs=True,
    )
    config = GenerationConfig(max_new_tokens=TOKENS, do_sample=False, eos_token_id=-1, pad_token_id=0)
    found, rounds = [], 0
    try:
        for prompt in asked:
            ids = torch.tensor([prompt.ids])
            widths.clear()
            out = network.generate(
                ids, attention_mask=torch.ones_like(ids), generation_config=config, assistant_model=assistant
            )
            found.append(tuple(out[0, len(prompt.ids) :].tolist()))
            rounds += len(widths)
    finally:
        hook.remove()
    return Told("transformers " + version("transformers"), Rounds(rounds, ()), tuple(found))


@contextmanager
def started(program: Path, command: Command, more: tuple[str, ...]) -> Iterator[Server]:
    """The server of a command, on this machine's loopback, until the end. Raises `ServerError` if it does not start."""
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "OMP_NUM_THREADS")}
    environment |= dict(command.environment) | {"HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1"}
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log"
        with log.open("wb") as said:
            process = subprocess.Popen(
                [str(program), *command.arguments[1:], *more],
                stdout=said, stderr=said, env=environment, cwd=folder, start_new_session=True,
            )  # fmt: skip
        try:
            with _up(f"http://127.0.0.1:{command.port}", process, log) as server:
                yield server
        finally:
            process.terminate()
            process.wait(60)


def _up(url: str, process: subprocess.Popen[bytes], log: Path) -> Server:
    end = time.monotonic() + STARTS_S
    while True:
        try:
            return identify(url, (url,))
        except ServerError as error:
            if process.poll() is not None or time.monotonic() > end:
                last = " ".join(log.read_text(errors="replace").split())[-300:]
                raise ServerError(f"the server did not start ({error}); it said: {last}") from None
            time.sleep(1)


def table(ours: Told, theirs: Sequence[Told]) -> str:
    """Ours first; texts are compared with ours, and the rounds of those that are equal, where both are counted."""
    lines = []
    for told in (ours, *theirs):
        both = zip(ours.texts, told.texts, strict=True)
        equal = [i for i, (a, b) in enumerate(both) if _from(a, told.unseen) == _from(b, told.unseen)]
        same = [
            str(added(side.each[i] for i in equal)) if told.each and told is not ours else "-" for side in (ours, told)
        ]
        lines.append((told.engine, str(told.whole), f"{len(equal)} of {len(ours.texts)}", *same))
    head = ("engine", "rounds: accepted", "texts equal to ours", "of these, ours", "of these, this engine's")
    return markdown.table(head, lines)


def _from(text: Sequence[int], least: int) -> list[int]:
    return [token for token in text if token >= least]


def compared(shared: Shared, vllm: Path | None, llama: Path | None) -> str:
    """One pair in every engine that can run it."""
    heads = [f"eagle3:{shared.drafter}"] if shared.method == "eagle3" else []
    draft = shared.drafter if shared.method == "draft" else None
    with draftscope.load(shared.target, draft, heads=heads, dtype="bfloat16") as engine:
        asked = texts(engine, shared.chat)
        ours = by_draftscope(engine, shared, asked)
        theirs, notes = [], []
        if draft is not None:
            theirs.append(by_transformers(engine, asked))
        if draft is not None and llama is not None:
            try:
                theirs.append(by_llama_cpp(llama, engine, asked))
            except ServerError as error:
                notes.append(f"llama.cpp: {error}")
    if vllm is not None:
        try:
            theirs.append(by_vllm(vllm, shared, asked))
        except ServerError as error:
            notes.append(f"vLLM: {error}")
    return "\n\n".join([f"## {shared.title}", table(ours, theirs), *notes])


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.programs.interop", description=__doc__)
    parser.add_argument("--vllm", type=Path, help="the program 'vllm' of an environment with vLLM")
    parser.add_argument("--llama-server", type=Path, help="llama.cpp's server, for draft models")
    parser.add_argument(
        "--smollm2", type=Path, help="a folder of SmolLM2-135M-Instruct; default: the embedded pair only"
    )
    parser.add_argument("--save", type=Path, help="a Markdown file to write the tables to")
    given = parser.parse_args()
    logging.set_verbosity_error()  # it warns of each text that no token may end
    about = (
        f"{datetime.date.today()}: {PROMPTS} prompts of those written for training, {TOKENS} tokens each, T = 0, "
        f"gamma {GAMMA}, bfloat16 on a CPU. Rounds that had a draft, and the tokens accepted at each position, "
        "the first one first."
    )
    parts = ["# Other engines with the same drafters", about]
    for each in pairs(given.smollm2):
        parts.append(compared(each, given.vllm, given.llama_server))
        print(parts[-1], flush=True)
    if given.save is not None:
        given.save.write_text("\n\n".join(parts) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
