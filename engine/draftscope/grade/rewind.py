"""Exercise 4: what is left in the cache, or of a recurrent state, after a round."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from draftscope.grade.exercise import Asked, Exercise, Verdict
from draftscope.grade.grid import FailedError, value

RULES: Mapping[str, Callable[[list[Any], int, int], Any]] = {  # of the cache
    "right": lambda cache, drafted, accepted: cache[: len(cache) - drafted + accepted],
    "not rewound": lambda cache, *_: cache,
    "a row too many": lambda cache, drafted, accepted: cache[: len(cache) - drafted + min(accepted + 1, drafted)],
    "a row too few": lambda cache, drafted, accepted: cache[: len(cache) - drafted + accepted - 1],
    "the whole draft dropped": lambda cache, drafted, _: cache[: len(cache) - drafted],
}
STATES: Mapping[str, Callable[[list[Any], int], Any]] = {  # of the states
    "right": lambda states, accepted: states[accepted],
    "not rewound": lambda states, _: states[-1],
    "a row too many": lambda states, accepted: states[min(accepted + 1, len(states) - 1)],
    "a row too few": lambda states, accepted: states[max(accepted - 1, 0)],
    "the whole draft dropped": lambda states, _: states[0],
}


class Rewind(Exercise):
    name, title = "rewind", "Rewind the cache and the state"
    functions = ("rewind", "rewind_state")
    task = (
        "The target has just read the last token of the text and `drafted` tokens after it; `cache` has a row for each "
        "token that was read. `accepted` of the drafted tokens were kept. `rewind` returns the rows that stay. "
        "`states[i]` is a recurrent state after i of the drafted tokens; `rewind_state` returns the one to go on from. "
        "(The target's own new token is in neither: the next round reads it.)"
    )
    starter = '''
def rewind(cache, drafted, accepted):
    """cache: a list of rows, the drafted tokens' last; returns those that stay."""
    raise NotImplementedError("write me")


def rewind_state(states, accepted):
    """states: after 0, 1, ... drafted tokens; returns the one to go on from."""
    raise NotImplementedError("write me")
'''
    mistakes: ClassVar[Mapping[str, str]] = {
        "not rewound": "rejected tokens stay in the cache, and the next round reads them",
        "a row too many": "off by one: the first rejected token stays",
        "a row too few": "off by one: the last token that was kept is lost",
        "the whole draft dropped": "kept tokens are lost as well",
    }

    def judge(self, ask: Asked, chance: random.Random) -> Verdict:
        rounds = [(text, gamma, kept) for text in (1, 4) for gamma in (1, 2, 4) for kept in range(gamma + 1)]
        caches = [
            ([f"row {chance.randrange(1000)}" for _ in range(text + gamma)], gamma, kept)
            for text, gamma, kept in rounds
        ]
        states = [([f"state {chance.randrange(1000)}" for _ in range(gamma + 1)], kept) for _, gamma, kept in rounds]
        verdict = _judged(self.name, ask, "rewind", caches, RULES)
        return verdict if not verdict.right else _judged(self.name, ask, "rewind_state", states, STATES)


def _judged(
    name: str, ask: Asked, function: str, calls: Sequence[tuple[Any, ...]], rules: Mapping[str, Callable[..., Any]]
) -> Verdict:
    answers = [value(result, 0) for result in ask(function, [(call, None) for call in calls])]
    if answers and answers[0] is None:
        raise FailedError(f"{function} returns nothing: return what stays")
    wanted = [_frozen(rules["right"](*call)) for call in calls]
    wrong = next((place for place, pair in enumerate(zip(answers, wanted, strict=True)) if pair[0] != pair[1]), None)
    if wrong is None:
        return Verdict(name, True, f"It leaves what belongs to the text in all {len(calls)} cases.")
    known = (rule for rule in rules if answers == [_frozen(rules[rule](*call)) for call in calls])
    *rest, kept = calls[wrong]
    drafted = rest[1] if len(rest) > 1 else len(rest[0]) - 1
    of = f"With {len(rest[0])} {'rows' if len(rest) > 1 else 'states'}, {drafted} drafted and {kept} kept"
    sentence = f"{of}, {function} returns {_short(answers[wrong])}, not {_short(wanted[wrong])}."
    return Verdict(name, False, sentence, next(known, ""))


def _frozen(returned: Any) -> Any:
    return tuple(returned) if isinstance(returned, list) else returned


def _short(answer: Any) -> str:
    return f"{len(answer)} rows" if isinstance(answer, tuple) else f"{answer!r:.60}"
