"""Exercise 5: the tokens of a round join the text, which may end in the middle of them."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from draftscope.grade.exercise import Asked, Exercise, Verdict
from draftscope.grade.grid import FailedError, value

Text = list[int]
Joined = tuple[Text, bool]


def joined(text: Text, tokens: Text, eos: Text, limit: int) -> Joined:
    written = list(text)
    for token in tokens:
        written.append(token)
        if token in eos or len(written) == limit:
            return written, True
    return written, False


def only_the_last(text: Text, tokens: Text, eos: Text, limit: int) -> Joined:
    written = (text + tokens)[:limit]
    return written, len(written) == limit or written[-1] in eos


def dropped(text: Text, tokens: Text, eos: Text, limit: int) -> Joined:
    written, ended = joined(text, tokens, eos, limit)
    return (written[:-1] if written[-1] in eos else written), ended


RULES: Mapping[str, Callable[[Text, Text, Text, int], Joined]] = {
    "right": joined,
    "end of text ignored in the middle of a round": only_the_last,
    "written on after the end of text": lambda text, tokens, eos, limit: (
        (text + tokens)[:limit], joined(text, tokens, eos, limit)[1],
    ),
    "end of text dropped": dropped,
    "limit passed in the middle of a round": lambda text, tokens, eos, limit: (
        joined(text, tokens, eos, 10**6)[0], joined(text, tokens, eos, limit)[1],
    ),
    "only one of several ends of text": lambda text, tokens, eos, limit: joined(text, tokens, eos[:1], limit),
}  # fmt: skip


class Commit(Exercise):
    name, title, functions = "commit", "End of text in the middle of a round", ("commit",)
    task = (
        "A round wrote `tokens`. Add them to `text`, but nothing after the first token that is in `eos`, which itself "
        "is added, and no more than `limit` tokens in all. Return `(text, ended)`: ended says whether the text is over."
    )
    starter = '''
def commit(text, tokens, eos, limit):
    """text, tokens: lists of tokens; eos: the tokens that end a text; limit: tokens that the text may have in all."""
    raise NotImplementedError("write me")
'''
    mistakes: ClassVar[Mapping[str, str]] = {
        "end of text ignored in the middle of a round": "only the last token of a round is looked at",
        "written on after the end of text": "the text ends, and has tokens behind its end",
        "end of text dropped": "the token that ends the text is not added",
        "limit passed in the middle of a round": "a round may write more tokens than the limit leaves",
        "only one of several ends of text": "models have several tokens that end a text",
    }

    def judge(self, ask: Asked, chance: random.Random) -> Verdict:
        calls = _calls(chance)
        answers = [value(result, 0) for result in ask("commit", [(call, None) for call in calls])]
        for answer in answers:
            if not isinstance(answer, tuple) or len(answer) != 2 or answer[1] not in ("true", "false"):
                raise FailedError(f"it returns {answer!r:.60}, not (text, ended)")
        wanted = _by("right", calls)
        for call, answer, right in zip(calls, answers, wanted, strict=True):
            if answer != right:
                known = (rule for rule in self.mistakes if answers == _by(rule, calls))
                text, tokens, eos, limit = call
                given = f"With text {text}, tokens {tokens}, eos {eos} and limit {limit}"
                sentence = f"{given} your function returns {_said(answer)}, not {_said(right)}."
                return Verdict(self.name, False, sentence, next(known, ""))
        return Verdict(self.name, True, f"The text ends where it must in all {len(calls)} cases.")


def _calls(chance: random.Random) -> Sequence[tuple[Text, Text, Text, int]]:
    """Every place of the end in a round, two tokens that end a text, and limits within and behind the round."""
    one, other, *rest = chance.sample(range(10, 100), 9)
    plain = rest[:4]
    calls = [(rest[4:6], plain, [one, other], 50)]
    for place in range(4):
        for end in (one, other):
            tokens = [*plain[:place], end, *plain[place + 1 :]]
            calls += [(rest[4:6], tokens, [one, other], limit) for limit in (50, 3, 6)]
    return calls + [(rest[4:6], plain, [one, other], limit) for limit in (3, 5, 6, 7)]


def _by(rule: str, calls: Sequence[tuple[Text, Text, Text, int]]) -> list[Any]:
    return [(tuple(text), str(ended).lower()) for text, ended in (RULES[rule](*call) for call in calls)]


def _said(answer: Any) -> str:
    text, ended = answer
    return f"({list(text) if isinstance(text, tuple) else text!r:.60}, {'True' if ended == 'true' else 'False'})"
