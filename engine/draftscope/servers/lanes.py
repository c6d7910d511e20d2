"""From what the operator wrote to lanes that race: servers that answer, drafters here, and prompts as token ids."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence

from draftscope.base.admit import admit
from draftscope.base.errors import DraftscopeError, quoted
from draftscope.decode.engine import DecodingEngine
from draftscope.decode.prompt import read_prompt
from draftscope.models.loading.chat import Chat
from draftscope.servers.adapter import LOAD_IT_HERE, Message, Server, ServerError
from draftscope.servers.addresses import LISTED, from_environment, named
from draftscope.servers.programs.program_list import identify
from draftscope.servers.server_race import RaceLane, RacePrompt
from draftscope.servers.wire import WireLimits


def parse_servers(written: Sequence[str], other_lanes: Sequence[str] = ()) -> Mapping[str, str]:
    """Name -> URL of the servers that were written, or if none was, of those in the environment.

    Raises `DraftscopeError` for a name that occurs twice.
    """
    pairs = [named(text) for text in written] or list(from_environment())
    times = Counter([name for name, _ in pairs] + list(other_lanes))
    if twice := [name for name, number in times.items() if number > 1]:
        raise DraftscopeError(f"Two lanes are called '{twice[0]}'; write NAME=URL with different names.")
    if not pairs and not other_lanes:
        raise DraftscopeError(f"There is no server; give --server NAME=URL, or list them in {LISTED}.")
    return dict(pairs)


def parse_served_models(written: Sequence[str], lanes: Collection[str]) -> Mapping[str, str]:
    """Lane -> model of `LANE=MODEL`. Raises `DraftscopeError` for another form, or a lane that there is not."""
    models = {}
    for text in written:
        lane, _, model = text.partition("=")
        if lane not in lanes or not model:
            raise DraftscopeError(f"--served-model {quoted(text)}: write LANE=MODEL with one of {', '.join(lanes)}.")
        models[lane] = model
    return models


def connect(
    servers: Mapping[str, str], models: Mapping[str, str], limits: WireLimits, keep: Callable[[Server], Server]
) -> tuple[list[RaceLane], dict[str, str]]:
    """The lanes of servers that answer, each passed to `keep`, and why the others do not. `models`: lane -> its model.

    Raises `ServerError` if none does. All of `servers` count as listed by the operator.
    """
    lanes, missing = [], {}
    for name, url in servers.items():
        try:
            lanes.append(RaceLane(name, keep(identify(url, tuple(servers.values()), models.get(name), limits))))
        except ServerError as error:
            missing[name] = str(error)
    if missing and not lanes:
        raise ServerError(next(iter(missing.values())))
    return lanes, missing


def prompts(
    texts: Sequence[str], lanes: Sequence[RaceLane], engine: DecodingEngine | None, raw: bool, more: int
) -> list[RacePrompt]:
    """The tokens of each text: by the tokenizer here if there is one, else by the first server that offers its own.

    With a chat template, unless `raw`. Raises `DraftscopeError` if nobody can say them.
    """
    if engine is not None:
        return [_here(engine, text, raw, more) for text in texts]
    for text in texts:
        admit({"prompt": text})
    for lane in lanes:
        offers = lane.server.identity.offers
        if offers.tokenize and (raw or offers.chat):
            return [_there(lane.server, text, raw) for text in texts]
    if raw:
        raise DraftscopeError(f"No server here turns text into tokens; {LOAD_IT_HERE}, whose tokenizer is then used.")
    raise DraftscopeError(
        f"No server here puts a prompt into a chat template; {LOAD_IT_HERE}, or continue the bare text with --raw."
    )


def _here(engine: DecodingEngine, text: str, raw: bool, more: int) -> RacePrompt:
    rendered, ids = read_prompt(engine, text, more, Chat(raw=raw))
    return RacePrompt(text, tuple(ids), rendered or text)


def _there(server: Server, text: str, raw: bool) -> RacePrompt:
    ids = server.tokenize(text) if raw else server.render((Message("user", text),))
    if not ids:
        raise ServerError(f"{server.identity.url} makes no token of the prompt; give a longer one.")
    return RacePrompt(text, ids, text if raw else "")
