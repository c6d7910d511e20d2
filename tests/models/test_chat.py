"""Chat templates are used by default, tokenised once, and recorded in the trace."""

from __future__ import annotations

import pytest
import typer
from typer.main import get_command

from draftscope import DraftscopeError
from draftscope.decode.lab import Lab
from draftscope.drafters.settings import Settings
from draftscope.models.loading.chat import Chat
from draftscope.trace.events import RunStart
from draftscope_app.cli import options
from draftscope_app.cli.fields import Given, takes
from tests.conftest import byte_tokenizer, letters

TEMPLATE = (
    "{{ bos_token }}{% for m in messages %}<{{ m.role }}>{{ m.content }}\n{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% if not enable_thinking %}<think></think>{% endif %}{% endif %}"
)
NO_SYSTEM = "{% if messages[0].role == 'system' %}{{ raise_exception('no system role') }}{% endif %}{{ bos_token }}"


def chatty(pair: Lab, template: str = TEMPLATE) -> Lab:
    """The byte pair with a chat template and a tokenizer that always prepends a BOS."""
    tokenizer = byte_tokenizer()
    tokenizer.chat_template = template
    from tokenizers.processors import TemplateProcessing

    tokenizer.backend_tokenizer.post_processor = TemplateProcessing(
        single="<|endoftext|> $A", special_tokens=[("<|endoftext|>", 0)]
    )
    lab = Lab(pair.target, pair.draft, tokenizer)
    lab.eos = frozenset()
    return lab


def read(lab: Lab, *chat: object) -> str:
    return str(lab.tokenizer.decode(lab.encode("hi", 1, Chat(*chat))))  # type: ignore[arg-type]


def test_a_template_is_the_default_and_adds_the_only_bos(pair: Lab) -> None:
    lab = chatty(pair)
    assert read(lab) == "<|endoftext|><user>hi\n<assistant><think></think>"
    assert read(lab, True) == "<|endoftext|>hi"
    assert read(lab, False, "be brief") == "<|endoftext|><system>be brief\n<user>hi\n<assistant><think></think>"
    assert read(lab, False, "", True) == "<|endoftext|><user>hi\n<assistant>"
    assert Lab.encode(pair, "hi") == pair.tokenizer("hi")["input_ids"]


def test_a_trace_contains_the_rendered_prompt(pair: Lab) -> None:
    lab = chatty(pair)
    start = lab.decode("hi", max_new_tokens=2, system="be brief").events[0]
    assert isinstance(start, RunStart)
    assert start.prompt == "hi"
    assert start.rendered == "<|endoftext|><system>be brief\n<user>hi\n<assistant><think></think>"
    assert start.prompt_tokens == len(lab.encode("hi", 1, Chat(system="be brief")))
    assert (start.settings["raw"], start.settings["system"]) == (False, "be brief")
    raw = lab.decode("hi", max_new_tokens=2, raw=True).events[0]
    assert isinstance(raw, RunStart) and raw.rendered == ""


def test_a_run_renders_its_template_once(pair: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    lab, rendered = chatty(pair), []
    render = Chat.render
    monkeypatch.setattr(Chat, "render", lambda *given: rendered.append(given) or render(*given))
    lab.decode("hi", max_new_tokens=2)
    assert len(rendered) == 1


def test_drafters_write_plains_tokens_after_a_template(pair: Lab) -> None:
    lab = chatty(pair)
    expected = lab.decode("hi", "plain", max_new_tokens=12).token_ids
    assert expected != lab.decode("hi", "plain", max_new_tokens=12, raw=True).token_ids
    for drafter in ("draft", "topk-tree", "ngram"):
        assert lab.decode("hi", drafter, max_new_tokens=12).token_ids == expected


@pytest.mark.parametrize(
    ("template", "chat", "sentence"),
    [
        (TEMPLATE, Chat(raw=True, system="x"), "system = 'x' needs a chat template, but the prompt is read raw"),
        (None, Chat(system="x"), "but this model has no chat template; leave it out."),
        (None, Chat(thinking=True), "thinking = True needs a chat template"),
        (NO_SYSTEM, Chat(system="x"), r"refuses this prompt \(no system role\); leave the system message out"),
        (NO_SYSTEM, Chat(thinking=True), "this model's chat template has no thinking mode; leave it out."),
    ],
)
def test_unsupported_options_of_a_template_are_refused_in_one_sentence(
    pair: Lab, template: str | None, chat: Chat, sentence: str
) -> None:
    lab = chatty(pair, template) if template else pair
    with pytest.raises(DraftscopeError, match=sentence):
        lab.encode("hi", 1, chat)


def test_the_command_line_has_the_switches() -> None:
    assert options.settings({}) == Settings()
    own = typer.Typer(add_completion=False)
    found: list[Chat] = []

    @own.command()
    @takes(chosen=options.settings_options())
    def decode(chosen: Given) -> int:
        found.append(Chat.of(options.settings(chosen)))
        return 0

    get_command(own).main(["--raw", "--thinking", "--system", "be brief"], standalone_mode=False)
    assert found == [Chat(raw=True, system="be brief", thinking=True)]


def test_a_template_that_leaves_nothing_to_read_is_refused(pair: Lab) -> None:
    with pytest.raises(DraftscopeError, match=r"turns this prompt into nothing; decode without it \(--raw\)"):
        chatty(pair, "{# nothing #}").decode("hi", max_new_tokens=2)


def test_a_tokenizer_larger_than_its_model_is_refused(tiny: Lab) -> None:
    """Its last token would be read beyond the end of the embedding."""
    lab = Lab(tiny.target, None, letters(7))
    assert lab.decode("abe", "plain", max_new_tokens=2).token_ids
    with pytest.raises(DraftscopeError, match="writes token 6, but 'tiny-target' knows only 5 tokens"):
        lab.decode("abg", "plain", max_new_tokens=2)
