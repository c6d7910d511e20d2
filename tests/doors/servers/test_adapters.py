"""Each dialect through a stub: identified, streamed, counted, and every named misbehaviour said in a sentence."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from typing import TypeAlias

import pytest

from draftscope.servers.adapter import Chunk, Counted, Message, Request, Server, ServerError
from draftscope.servers.addresses import from_environment, named, permitted
from draftscope.servers.programs.program_list import identify
from draftscope.servers.prometheus import spec_decode
from draftscope.servers.wire import WireLimits
from tests.doors.servers.stubs import Habits, Misbehaviour, ids_of, stub, text_of, written

Connect: TypeAlias = Callable[..., Server]


@pytest.fixture
def connect() -> Iterator[Connect]:
    """`identify`, with the connections closed at the end."""
    with ExitStack() as opened:
        yield lambda url, **options: opened.enter_context(identify(url, **options))


KINDS = ("vllm", "sglang", "llama.cpp", "transformers")
PROMPT = (1, 2, 3, 4)
SHORT = WireLimits(connect=2, silent=0.5, total=20, event=1 << 18)
PATIENT = replace(SHORT, silent=60, total=60)  # of those that say what is wrong, on however busy a machine


def request(**changes: object) -> Request:
    return Request(**({"ids": PROMPT, "max_tokens": 10, "text": text_of(list(PROMPT))} | changes))  # type: ignore[arg-type]


def answered(server: Server, asked: Request) -> tuple[list[Chunk], tuple[int, ...], str]:
    chunks = list(server.stream(asked))
    return chunks, tuple(i for chunk in chunks for i in chunk.ids), "".join(chunk.text for chunk in chunks)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("burst", [1, 4])
def test_a_server_is_told_by_its_answers_and_streams_what_it_wrote(connect: Connect, kind: str, burst: int) -> None:
    habits = Habits(kind=kind, burst=burst)
    with stub(habits) as url:
        server = connect(f"{url}/v1/")
        assert server.identity.kind == kind and server.identity.url == url
        chunks, ids, text = answered(server, request(temperature=0.7, seed=5))
    expected = written(habits, list(PROMPT), 10, 0.7, 5)
    assert text == text_of(expected)
    assert ids == (tuple(expected) if server.identity.offers.ids_out else ())
    assert chunks[-1].finish == "length" and chunks[-1].written == 10
    assert [chunk.at for chunk in chunks] == sorted(chunk.at for chunk in chunks)
    if server.identity.offers.bursts_are_chunks:
        assert [len(chunk.ids) for chunk in chunks] == ([1] * 10 if burst == 1 else [4, 4, 2])
    counted = chunks[-1].counted
    if burst == 1 or kind == "transformers":
        assert counted is None
    else:
        assert counted is not None and (counted.drafted, counted.accepted) == (9, 7)


def test_a_server_that_closes_its_connections_after_a_stream_can_be_asked_again_at_once(connect: Connect) -> None:
    with stub(Habits(kind="llama.cpp")) as url:
        server = connect(url)
        assert all(answered(server, request())[0][-1].finish for _ in range(10))


def test_sglang_with_incremental_output_gives_the_same_chunks(connect: Connect) -> None:
    with stub(Habits(kind="sglang", burst=4, incremental=True)) as url:
        chunks, _, text = answered(connect(url), request())
    assert [len(chunk.ids) for chunk in chunks] == [4, 4, 2]
    assert text == text_of(written(Habits(), list(PROMPT), 10, 0, 0))


def test_counters_are_read_before_and_after(connect: Connect) -> None:
    for kind in ("vllm", "llama.cpp"):
        with stub(Habits(kind=kind, burst=3)) as url:
            server = connect(url)
            before = server.counters()
            answered(server, request(max_tokens=9))
            after = server.counters()
        assert before is not None and after is not None
        assert after - before == Counted(rounds=3, drafted=6, accepted=6, by_position=(3, 3))
        with pytest.raises(ServerError, match="started anew"):
            _ = before - after


def test_a_server_without_speculation_or_metrics_has_no_counters(connect: Connect) -> None:
    for habits in (Habits(), Habits(burst=3, metrics=False), Habits("sglang", 3), Habits("transformers", 3)):
        with stub(habits) as url:
            assert connect(url).counters() is None


def test_counters_of_several_engines_are_added() -> None:
    lines = 'vllm:spec_decode_num_drafts_total{engine="0"} 2.0\nvllm:spec_decode_num_drafts_total{engine="1"} 3.0\n'
    assert spec_decode(lines, "vllm") == Counted(rounds=5)
    assert spec_decode(lines, "llamacpp") is None


@pytest.mark.parametrize("kind", ["vllm", "sglang", "llama.cpp"])
def test_tokenize_and_detokenize_are_the_servers_own(connect: Connect, kind: str) -> None:
    with stub(Habits(kind=kind)) as url:
        server = connect(url)
        assert server.tokenize(" w5 w6") == (5, 6)
        assert server.detokenize((5, 6)) == " w5 w6"
        messages = (Message("user", "w7"),)
        if server.identity.offers.chat:
            assert server.render(messages) == tuple(ids_of("<user> w7 <assistant>"))
        else:
            with pytest.raises(ServerError, match="Other models"):
                server.render(messages)


SENTENCES: dict[Misbehaviour, str] = {
    "closes": "closed the connection before its answer was complete",
    "ends early": "closed the stream before the answer was complete",
    "nonsense": "answers what its kind of server does not .*<html>",
    "other shape": "answers what its kind of server does not",
    "silent": r"was silent for 0\.5 s",
    "reports an error": "reports an error: out of memory",
    "aborts": "ended the answer with abort",
    "refuses": r"refused the request \(400\): min_p is not supported",
    "redirects": "redirects to http://example.com/v1/completions; redirects are not followed",
    "other tokenizer": "read 7 prompt tokens where 4 were sent",
    "endless line": "more than an answer can be",
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("wrong", SENTENCES)
def test_what_goes_wrong_is_named_and_what_came_is_kept(connect: Connect, kind: str, wrong: Misbehaviour) -> None:
    with stub(Habits(kind=kind, wrong=wrong)) as url:
        server = connect(url, limits=SHORT if wrong == "silent" else PATIENT)
        came: list[Chunk] = []
        with pytest.raises(ServerError, match=SENTENCES[wrong]) as raised:
            came.extend(server.stream(request()))  # keeps what came before the error
    assert url in str(raised.value)
    assert len(came) >= (0 if wrong in ("refuses", "redirects") else 2)


def test_a_server_that_is_not_there_and_one_of_another_kind_are_named(connect: Connect) -> None:
    with pytest.raises(ServerError, match="cannot be reached"):
        connect("http://127.0.0.1:9")
    with stub(Habits(kind="other")) as url, pytest.raises(ServerError, match="answers as none of vLLM, SGLang"):
        connect(url)
    with stub(Habits(loading=True)) as url, pytest.raises(ServerError, match="Loading model"):
        connect(url)
    with stub(Habits()) as url, pytest.raises(ServerError, match="does not serve llama; it serves stub"):
        connect(url, model="llama")


def test_a_server_that_does_not_list_its_models_is_asked_for_the_one_that_was_named(connect: Connect) -> None:
    with stub(Habits(kind="transformers", no_cards=True)) as url:
        with pytest.raises(ServerError, match="does not say which model it serves"):
            connect(url)
        assert answered(connect(url, model="stub"), request())[0][-1].finish == "length"


def test_closing_the_iterator_closes_the_connection(connect: Connect) -> None:
    with stub(Habits(pause=0.01)) as url:
        server = connect(url)
        stream = server.stream(request(max_tokens=1000))
        next(stream)
        stream.close()  # type: ignore[attr-defined]
        assert len(answered(server, request(max_tokens=3))[1]) == 3


def test_settings_that_are_off_are_sent_as_off_and_the_prefix_cache_is_passed_over(connect: Connect) -> None:
    sent = {}
    for kind in KINDS:
        habits = Habits(kind=kind)
        with stub(habits) as url:
            answered(connect(url), request())
        sent[kind] = habits.asked[-1][1]
    assert sent["vllm"] | {"cache_salt": ""} == sent["vllm"] | {
        "top_k": 0,
        "top_p": 1.0,
        "min_p": 0.0,
        "cache_salt": "",
    }
    assert sent["llama.cpp"]["samplers"] == ["temperature", "top_k", "top_p", "min_p"]
    assert (sent["llama.cpp"]["top_k"], sent["llama.cpp"]["cache_prompt"]) == (0, False)
    assert sent["sglang"]["sampling_params"]["top_k"] == -1 and sent["sglang"]["extra_key"]
    assert sent["vllm"]["cache_salt"]


def test_what_a_server_cannot_do_is_refused_before_it_is_sent(connect: Connect) -> None:
    with stub(Habits(kind="transformers")) as url:
        with pytest.raises(ServerError, match="does not take ignore_eos"):
            connect(url).stream(request(ignore_eos=True))
        with pytest.raises(ServerError, match="takes text, not token ids; load its model here"):
            connect(url).stream(request(text=""))
    with stub(Habits()) as url, pytest.raises(ServerError, match="room for 2048 tokens"):
        connect(url).stream(request(max_tokens=2045))


@pytest.mark.parametrize(
    ("url", "sentence"),
    [
        ("http://10.0.0.1:8000", "not on this computer and not listed"),
        ("http://example.com", "not on this computer and not listed"),
        ("http://127.0.0.1.example.com", "not on this computer and not listed"),
        ("file:///etc/passwd", "no http address"),
        ("127.0.0.1:8000", "no http address"),
        ("http://user:secret@127.0.0.1:8000", "no password"),
        ("http://127.0.0.1:8000/?a=b", "no password, query"),
        ("http://127.0.0.1:99999", "no address"),
    ],
)
def test_only_loopback_and_listed_addresses_are_called(url: str, sentence: str) -> None:
    with pytest.raises(ServerError, match=sentence) as raised:
        permitted(url)
    assert "secret" not in str(raised.value)


def test_listed_addresses_are_called_by_their_scheme_host_and_port(monkeypatch: pytest.MonkeyPatch) -> None:
    assert permitted("http://localhost:8000/v1/") == "http://localhost:8000"
    assert permitted("http://[::1]:8000") == "http://[::1]:8000"
    assert permitted("http://gpu:8000/v1", ["http://gpu:8000"]) == "http://gpu:8000"
    monkeypatch.setenv("DRAFTSCOPE_SERVERS", "plain=http://gpu:8000, http://gpu2:8001")
    assert from_environment() == (("plain", "http://gpu:8000"), ("gpu2:8001", "http://gpu2:8001"))
    assert permitted("http://gpu2:8001") == "http://gpu2:8001"
    for other in ("https://gpu:8000", "http://gpu:8001", "http://gpu3:8000"):
        with pytest.raises(ServerError, match="not listed"):
            permitted(other)
    assert named("a=http://h:1/x") == ("a", "http://h:1/x")
