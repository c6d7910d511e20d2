"""The advice: from what a visitor has set to a job that answers it; its progress, verdict, map and file to save."""

from __future__ import annotations

import json
import math
import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import gradio as gr

from draftscope.advise.question import Asked, Objective, Question
from draftscope.base.errors import DraftscopeError, quoted
from draftscope.drafters.settings import Settings
from draftscope_app.doors.decide.advise import advice_html
from draftscope_app.doors.decide.advise.form import ALL_KINDS, MAX_S, MIN_S, UNDECIDED, details, form
from draftscope_app.doors.decide.advise.job import AdviseJob
from draftscope_app.doors.decide.advise.map import drawn, what_if
from draftscope_app.doors.decide.advise.report import page
from draftscope_app.doors.decide.page import FOUND, MEASURE
from draftscope_app.engine.admission import Given, text_of
from draftscope_app.engine.answers import Answer, Part
from draftscope_app.engine.jobs import DrafterChoice, new_id
from draftscope_app.page import bundle, notes
from draftscope_app.page.shared import PRIVATE
from draftscope_app.page.task import Core, TaskListeners, TaskPage, stands

FILE = "draftscope-advice.html"
MAX_PROMPTS = 50


class Page(TaskPage):
    """The task, and what is drawn of its answer."""

    kind = "advise"

    def lay_out(self, area: str) -> None:
        if area == MEASURE:
            self.form = form()
        if area == FOUND:
            self.card = details()

    def attach(self, core: Core) -> None:
        form, card = self.form, self.card
        outputs = [
            form.progress, form.measure, form.stop, form.costs, form.answer, card.group, card.details, card.save,
            card.report, card.map.group,
        ]  # fmt: skip
        drawn_to = [card.map.plot, card.map.note, card.map.group]
        drafters = form.fields["drafters"]
        assert isinstance(drafters, gr.Dropdown)
        drafters.focus(self.drafters, None, drafters, queue=False, **PRIVATE)
        measured = TaskListeners(self.shared, self, form.fields).attach(form.measure.click, outputs, core.resumed)
        limits: dict[str, Any] = {"concurrency_limit": None, "preprocess": False, **PRIVATE}
        begin = TaskListeners(self.shared, WithCosts(self), form.fields).begin
        with_costs = form.costs.click(begin, set(form.fields.values()), outputs, **limits)
        for begun in (*measured, with_costs):
            begun.then(self.draw, [card.report, *card.map.inputs], drawn_to, **PRIVATE)
        for control in card.map.inputs:
            changed = control.release if isinstance(control, gr.Slider) else control.change
            changed(
                self.draw, [card.report, *card.map.inputs], drawn_to, preprocess=False, trigger_mode="always_last",
                **PRIVATE,
            )  # fmt: skip
        form.stop.click(self.shared.stop, None, None, queue=False, **PRIVATE)

    def drafters(self) -> Any:
        """Those that are loaded now."""
        return gr.update(choices=offered(self.shared.admission.engine.status.drafters))

    def draw(
        self, report: advice_html.Report | None, which: Any, alpha: Any, draft_cost: Any, machine: Any
    ) -> list[Any]:
        """The map as the sliders say; it is shown once what rounds cost is known."""
        if not report or report["costs_s"]:
            return [gr.skip(), gr.skip(), gr.skip()]
        changes = what_if(alpha_override(alpha), draft_cost_factor(draft_cost), str(machine))
        figure, note = drawn(report, str(which), changes)
        shown = gr.update(value=figure, visible=figure is not None)
        return [shown, notes.muted(note), gr.update(visible=True)]

    def job(self, given: Given, _: Any, __: str | None) -> AdviseJob:
        status = self.shared.admission.engine.status
        return job(given, status.drafters, status.chat)

    def show(self, answer: Answer, part: Part) -> list[Any]:
        """Progress, and at the end the answer, or why there is none."""
        events = [json.loads(line) for line in answer.lines]
        if not answer.over:
            note = notes.muted(answer.note) if answer.note else ""
            return self._shown(stands(part) + note, advice_html.partial(events), running=True)
        if report := events[-1].get("report") if events else None:
            return self._shown(
                advice_html.measured(report), advice_html.verdict(report), answer=(report, _saved(report))
            )
        return self._shown(notes.refused(str(answer.note)) if answer.refused else advice_html.stopped(), UNDECIDED)

    def refuse(self, sentence: str) -> list[Any]:
        """The last verdict stays."""
        return [notes.refused(sentence), *[gr.skip()] * 9]

    def _shown(
        self, progress: str, verdict: str, running: bool = False, answer: tuple[advice_html.Report, str] | None = None
    ) -> list[Any]:
        """Both cards. What else the last answer found goes until there is another one."""
        report, file = answer or (None, None)
        buttons = [gr.update(interactive=not running), gr.update(interactive=running)]
        save = gr.update(value=file, visible=file is not None)
        rest = [gr.update(visible=report is not None), advice_html.details(report) if report else "", save, report]
        words = advice_html.costs_button(report) if report else ""
        costs = gr.update(visible=bool(words), value=words)
        return [progress, *buttons, costs, verdict, *rest, gr.update(visible=False)]


@dataclass(frozen=True)
class WithCosts:
    """The same question, with the costs of this machine measured first, once."""

    page: Page
    kind: ClassVar[str] = Page.kind

    def job(self, given: Given, sent: Any, session: str | None) -> AdviseJob:
        usual = self.page.job(given, sent, session)
        return usual.model_copy(update={"wish": replace(usual.wish, waits=True)})

    def show(self, answer: Answer, part: Part) -> list[Any]:
        return self.page.show(answer, part)

    def refuse(self, sentence: str) -> list[Any]:
        return self.page.refuse(sentence)


def _saved(report: advice_html.Report) -> str:
    """The report's page as a file, which the server deletes after a while."""
    path = Path(tempfile.mkdtemp(dir=os.environ.get("GRADIO_TEMP_DIR"))) / FILE
    path.write_text(page(report), encoding="utf-8")
    return str(path)


def job(values: Given, known: Sequence[DrafterChoice], chat: bool = False) -> AdviseJob:
    """The question as a job; `chat`: the target answers in a chat.

    Raises `DraftscopeError` for a value that no question may have.
    """
    question = Question(
        objective=_objective(values["objective"]),
        temperature=_number("temperature", values["temperature"]),
        length=_whole("tokens of an answer", values["length"]),
        concurrency=_whole("concurrent requests", values["concurrency"]),
        price_per_hour=_price(values),
        seconds=_number("seconds", values["seconds"]),
    )
    if not MIN_S <= question.seconds <= MAX_S:
        raise DraftscopeError(f"seconds = {question.seconds:g}: choose {MIN_S} to {MAX_S}.")
    prompts = visitor_prompts(values["own"]) or shipped(values["kind"], chat)
    wish = Asked(question, prompts, _drafters(values["drafters"], known))
    lane = Settings.of(drafter="plain", max_new_tokens=question.length)
    prompt = "\n".join(text for texts in prompts.values() for text in texts)
    return AdviseJob(id=new_id(), prompt=prompt, lanes={"advise": lane}, wish=wish)


def visitor_prompts(text: Any) -> dict[str, list[str]]:
    """The visitor's prompts, one per line; empty where there is none."""
    lines = [line.strip() for line in text_of(text or "").splitlines() if line.strip()]
    if len(lines) > MAX_PROMPTS:
        raise DraftscopeError(f"{len(lines)} prompts are more than can be measured here; give at most {MAX_PROMPTS}.")
    return {"your prompts": list(dict.fromkeys(lines))} if lines else {}


def shipped(kind: Any, chat: bool = False) -> dict[str, list[str]]:
    """The shipped prompts of one kind, or of all: questions for a `chat` model, else texts to continue."""
    every = bundle.presets(chat)
    if kind == ALL_KINDS:
        return every
    if kind not in every:
        raise DraftscopeError(f"There is no kind of text {quoted(str(kind))}; choose {', '.join(every)}.")
    return {kind: every[kind]}


def offered(known: Sequence[DrafterChoice]) -> list[tuple[str, str]]:
    """Title and name of the drafters that can be compared: they run here, and need neither a person nor arms."""
    return [
        (d.title, d.name) for d in known if d.available and d.name != "plain" and not {"typed", "arms"} & set(d.uses)
    ]


def alpha_override(value: Any) -> float | None:
    """The slider of the acceptance: 0 is the measured one. Anything else that a page may send is taken as that."""
    known = isinstance(value, int | float) and 0 < value < 1
    return float(value) if known else None


def draft_cost_factor(value: Any) -> float:
    """The slider of the draft's cost, within its ends; 1 for anything that is no number."""
    known = isinstance(value, int | float) and math.isfinite(value)
    return min(max(float(value), 0.1), 3.0) if known else 1.0


def _drafters(chosen: Any, known: Sequence[DrafterChoice]) -> tuple[str, ...]:
    names = [name for _, name in offered(known)]
    for name in chosen or ():
        if name not in names:
            raise DraftscopeError(f"The drafter {quoted(str(name))} cannot be compared here; choose from the list.")
    return tuple(chosen or ())


def _objective(value: Any) -> Objective:
    try:
        return Objective(value)
    except ValueError:
        raise DraftscopeError(f"objective = {quoted(str(value))}: choose {', '.join(Objective)}.") from None


def _price(values: Mapping[str, Any]) -> float | None:
    """Only asked for if money counts."""
    if values["objective"] != Objective.COST:
        return None
    return _number("price of an hour", values["price_per_hour"])


def _number(name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise DraftscopeError(f"{name}: {quoted(str(value))} is not a number.")
    return float(value)


def _whole(name: str, value: Any) -> int:
    number = _number(name, value)
    if number != int(number):
        raise DraftscopeError(f"{name} = {number:g}: a whole number is needed.")
    return int(number)
