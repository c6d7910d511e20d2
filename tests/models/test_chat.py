"""Chat templates are used by default, tokenised once, and recorded in the trace."""

from __future__ import annotations

import subprocess
import sys

import psutil
import pytest
import torch
import typer
from transformers import GenerationConfig
from typer.main import get_command

from draftscope import DraftscopeError
from draftscope.decode.engine import DecodingEngine
from draftscope.drafters.settings import Settings
from draftscope.models.files import bounded
from draftscope.models.loading.chat import Chat, in_template
from draftscope.trace.events import RunStart
from draftscope_app.cli import command_options
from draftscope_app.cli.fields import Given, takes
from tests.support import gguf_files
from tests.support.models import byte_tokenizer, letters

TEMPLATE = (
    "{{ bos_token }}{% for m in messages %}<{{ m.role }}>{{ m.content }}\n{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% if not enable_thinking %}<think></think>{% endif %}{% endif %}"
)
NO_SYSTEM = "{% if messages[0].role == 'system' %}{{ raise_exception('no system role') }}{% endif %}{{ bos_token }}"


def chatty(pair: DecodingEngine, template: str = TEMPLATE) -> DecodingEngine:
    """The byte pair with a chat template and a tokenizer that always prepends a BOS."""
    tokenizer = byte_tokenizer()
    tokenizer.chat_template = template
    from tokenizers.processors import TemplateProcessing

    tokenizer.backend_tokenizer.post_processor = TemplateProcessing(
        single="<|endoftext|> $A", special_tokens=[("<|endoftext|>", 0)]
    )
    engine = DecodingEngine(pair.target, pair.draft, tokenizer)
    engine.eos = frozenset()
    return engine


def read(engine: DecodingEngine, *chat: object) -> str:
    return str(engine.tokenizer.decode(engine.encode("hi", 1, Chat(*chat))))  # type: ignore[arg-type]


def test_a_template_is_the_default_and_adds_the_only_bos(pair: DecodingEngine) -> None:
    engine = chatty(pair)
    assert read(engine) == "<|endoftext|><user>hi\n<assistant><think></think>"
    assert read(engine, True) == "<|endoftext|>hi"
    assert read(engine, False, "be brief") == "<|endoftext|><system>be brief\n<user>hi\n<assistant><think></think>"
    assert read(engine, False, "", True) == "<|endoftext|><user>hi\n<assistant>"
    assert DecodingEngine.encode(pair, "hi") == pair.tokenizer("hi")["input_ids"]


@pytest.mark.parametrize("prompt", [" ", "\n\n", "\t"])
def test_a_raw_prompt_of_spaces_or_line_ends_is_a_text(pair: DecodingEngine, prompt: str) -> None:
    """They were called empty. In a chat template they say nothing, and are."""
    tokens = torch.tensor([byte_tokenizer()(prompt)["input_ids"]])
    assert tokens.shape[1] == len(prompt)
    config = GenerationConfig(max_new_tokens=8, do_sample=False, eos_token_id=None, pad_token_id=1)
    written = pair.target.network.generate(tokens, attention_mask=torch.ones_like(tokens), generation_config=config)
    for drafter in ("plain", "draft"):
        run = pair.decode(prompt, drafter, raw=True, max_new_tokens=8)
        assert run.token_ids == written[0, tokens.shape[1] :].tolist()
    with pytest.raises(DraftscopeError, match="The prompt is empty"):
        chatty(pair).decode(prompt)


def test_a_trace_contains_the_rendered_prompt(pair: DecodingEngine) -> None:
    engine = chatty(pair)
    start = engine.decode("hi", max_new_tokens=2, system="be brief").events[0]
    assert isinstance(start, RunStart)
    assert start.prompt == "hi"
    assert start.rendered == "<|endoftext|><system>be brief\n<user>hi\n<assistant><think></think>"
    assert start.prompt_tokens == len(engine.encode("hi", 1, Chat(system="be brief")))
    assert (start.settings["raw"], start.settings["system"]) == (False, "be brief")
    raw = engine.decode("hi", max_new_tokens=2, raw=True).events[0]
    assert isinstance(raw, RunStart) and raw.rendered == ""


def test_a_run_renders_its_template_once(pair: DecodingEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    engine, rendered = chatty(pair), []
    render = Chat.render
    monkeypatch.setattr(Chat, "render", lambda *given: rendered.append(given) or render(*given))
    engine.decode("hi", max_new_tokens=2)
    assert len(rendered) == 1


def test_drafters_write_plains_tokens_after_a_template(pair: DecodingEngine) -> None:
    engine = chatty(pair)
    expected = engine.decode("hi", "plain", max_new_tokens=12).token_ids
    assert expected != engine.decode("hi", "plain", max_new_tokens=12, raw=True).token_ids
    for drafter in ("draft", "topk-tree", "ngram"):
        assert engine.decode("hi", drafter, max_new_tokens=12).token_ids == expected


@pytest.mark.parametrize(
    ("template", "chat", "sentence"),
    [
        (TEMPLATE, Chat(raw=True, system="x"), "system = 'x' needs a chat template, but the prompt is read raw"),
        (None, Chat(system="x"), "but this model has no chat template; leave it out."),
        (None, Chat(thinking=True), "thinking = True needs a chat template"),
        (
            NO_SYSTEM,
            Chat(system="x"),
            r"of 'byte-target' fails on this prompt \(no system role\); leave the system message out",
        ),
        (NO_SYSTEM, Chat(thinking=True), "this model's chat template has no thinking mode; leave it out."),
    ],
)
def test_unsupported_options_of_a_template_are_refused_in_one_sentence(
    pair: DecodingEngine, template: str | None, chat: Chat, sentence: str
) -> None:
    engine = chatty(pair, template) if template else pair
    with pytest.raises(DraftscopeError, match=sentence):
        engine.encode("hi", 1, chat)


ENDLESS = "{% for a in range(99999) %}{% for b in range(99999) %}{% for c in range(99999) %}" + "{% endfor %}" * 3
HOSTILE = {
    "a long text": ("{{ 'a' * 200000 }}", r"it writes 200,000 characters, and 100,002 are read"),
    "a text beyond memory": ("{{ 'a'.center(10 ** 11) }}", "it takes more than 2 GiB of memory"),
    "a list beyond memory": ("{{ [0] * 10 ** 11 }}", "it takes more than 2 GiB of memory"),
    "a text that doubles": (
        "{% set n = namespace(t='ab') %}{% for i in range(60) %}{% set n.t = n.t ~ n.t %}{% endfor %}{{ n.t|length }}",
        "it takes (longer than|more than)",
    ),
    "loops": (ENDLESS, "it takes longer than 0.5 s"),
    "a power": ("{{ 10 ** (10 ** 9) }}", "it takes longer than 0.5 s"),
    "a large text": ("{{ 'a' * 300000000 }}", "it (takes|writes)"),
    "a range": ("{% for a in range(10 ** 9) %}{% endfor %}", "Range too big"),
    "recursion": ("{% macro f() %}{{ f() }}{{ f() }}{% endmacro %}{{ f() }}", "maximum recursion depth exceeded"),
    "syntax": ("{{", "unexpected 'end of template'"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_template_has_bounds(pair: DecodingEngine, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three nested loops held the engine process for hours; a text of 300 million characters took a gigabyte of it."""
    template, bound = HOSTILE[name]
    engine = chatty(pair)
    assert read(engine)  # the process that renders is ready
    monkeypatch.setattr("draftscope.models.loading.chat.SECONDS", 0.5)
    with pytest.raises(DraftscopeError, match=rf"The chat template of 'byte-target' fails on this prompt \({bound}"):
        chatty(pair, template).encode("hi", 1, Chat())
    monkeypatch.undo()
    assert read(engine) == "<|endoftext|><user>hi\n<assistant><think></think>"  # the next one is rendered as before


@pytest.mark.parametrize("template", [TEMPLATE, gguf_files.CHAT, "{{ messages | tojson }} {{ eos_token }}\n"])
def test_a_template_is_rendered_as_transformers_does(pair: DecodingEngine, template: str) -> None:
    tokenizer = chatty(pair, template).tokenizer
    turns = [{"role": "system", "content": "be \u00e9 <b>"}, {"role": "user", "content": "hi\n"}]
    wanted = tokenizer.apply_chat_template(turns, tokenize=False, add_generation_prompt=True, enable_thinking=True)
    assert in_template(tokenizer, turns, "m", enable_thinking=True) == wanted


def test_an_answer_that_was_not_waited_for_is_not_the_next_ones(
    pair: DecodingEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = chatty(pair)
    before = read(engine)

    def interrupted(process: subprocess.Popen[str], seconds: float, request: str = "") -> str:
        assert process.stdin is not None
        process.stdin.write(request)
        process.stdin.flush()
        raise KeyboardInterrupt

    monkeypatch.setattr(bounded, "_answer", interrupted)
    with pytest.raises(KeyboardInterrupt):
        read(chatty(pair, "something else"))
    monkeypatch.undo()
    assert read(engine) == before


def test_the_process_that_renders_ends_with_whoever_asked() -> None:
    """Also one that was killed, and one whose template never ends."""
    ask = f"""
import os, threading
from draftscope.models.files.bounded import BOUNDED
given = dict(messages=[], variables={{}}, most=9)
BOUNDED.ask("render", 5, template="", **given)
print(BOUNDED._process.pid, flush=True)
threading.Thread(target=BOUNDED.ask, args=("render", 0.5), kwargs=given | dict(template={ENDLESS!r})).start()
os.kill(os.getpid(), 9)
"""
    asked = subprocess.run([sys.executable, "-c", ask], capture_output=True, text=True)
    process = psutil.Process(int(asked.stdout)) if psutil.pid_exists(int(asked.stdout)) else None
    assert process is None or process.wait(timeout=30) is None


def test_the_command_line_has_the_switches() -> None:
    assert command_options.settings({}) == Settings()
    own = typer.Typer(add_completion=False)
    found: list[Chat] = []

    @own.command()
    @takes(chosen=command_options.settings_options())
    def decode(chosen: Given) -> int:
        found.append(Chat.of(command_options.settings(chosen)))
        return 0

    get_command(own).main(["--raw", "--thinking", "--system", "be brief"], standalone_mode=False)
    assert found == [Chat(raw=True, system="be brief", thinking=True)]


def test_a_template_that_leaves_nothing_to_read_is_refused(pair: DecodingEngine) -> None:
    with pytest.raises(DraftscopeError, match=r"turns this prompt into nothing; decode without it \(--raw\)"):
        chatty(pair, "{# nothing #}").decode("hi", max_new_tokens=2)


def test_a_tokenizer_larger_than_its_model_is_refused(tiny: DecodingEngine) -> None:
    """Its last token would be read beyond the end of the embedding."""
    engine = DecodingEngine(tiny.target, None, letters(7))
    assert engine.decode("abe", "plain", max_new_tokens=2).token_ids
    with pytest.raises(DraftscopeError, match="has token 6, but 'tiny-target' knows only 0 to 4"):
        engine.decode("abg", "plain", max_new_tokens=2)
