"""The page: controls on the left, the instrument on the right, and what happens between them and the engine process.

The instrument is one JavaScript element; Python only ever hands it deltas (feed.py). Nothing here decodes.
"""

from __future__ import annotations

import asyncio
import json
import os
import tempfile
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gradio as gr

from draftscope.base.assets import assets
from draftscope.base.errors import DraftscopeError
from draftscope.trace import files, html
from draftscope.trace.events import EVENT, AnyEvent
from draftscope_app.engine.admission import Admission
from draftscope_app.engine.messages import DrafterChoice, Engine, Job
from draftscope_app.engine.process import EngineProcess
from draftscope_app.engine.sessions import Visitors, new_run_id
from draftscope_app.page import bundle
from draftscope_app.page.controls import DRAFTERS_OWN, NAMES, READ_WITH, Controls, from_query, lanes
from draftscope_app.page.panel import first_choices, panel
from draftscope_app.page.plots.plots import pictures
from draftscope_app.page.runs import forks, lessons, own_models
from draftscope_app.page.runs import tasks as asks
from draftscope_app.page.runs.feed import note, recording, settled, stream, whole
from draftscope_app.page.runs.forks import Asked
from draftscope_app.serve import api

SOLO_REPEATS = 3
PRIVATE: dict[str, Any] = {"show_progress": "hidden", "api_visibility": "private"}
CHOOSING = ("drafter", "draft_length", "rule")  # which other settings are shown follows from these
HEARS = "Draftscope.receive(props.value); watch('value', () => Draftscope.receive(props.value));"
TITLE = '<div class="ds-title"><h1>Draftscope</h1><span class="ds-engine" role="status"></span></div>'


@dataclass(frozen=True)
class Widgets:
    """What listeners speak to."""

    controls: dict[str, gr.components.Component]  # by name, in the order of NAMES
    feed: gr.HTML  # runs
    says: gr.HTML  # everything else that is said to the page: two speakers on one component could drown each other
    drawer: gr.Accordion  # holds the plots
    plots: tuple[gr.Plot, gr.Plot, gr.Plot]
    asks: Asks
    models: own_models.Form | None


@dataclass(frozen=True)
class Asks:
    """What the instrument asks Python for: it fills `Draftscope.asking` and presses a button that nobody sees."""

    words: gr.Textbox
    fork: gr.Button
    compare: gr.Button
    check: gr.Button
    choose: gr.Button
    lesson: gr.Button
    attempt: gr.Button
    compared: gr.HTML  # each hears its own answers, so that none is drowned
    checked: gr.HTML
    taught: gr.HTML


def head() -> str:
    """The script that belongs into the document's head."""
    return f"<script>{bundle.script()}</script>"


def first_run() -> tuple[AnyEvent, ...]:
    """The shipped recorded run, if there is one that can be read."""
    path = assets() / "traces" / "first.jsonl.gz"
    try:
        return files.read(path).events if path.exists() else ()
    except DraftscopeError:
        return ()


def build(admission: Admission, drafter: str | None = None, lets_load: bool = False) -> gr.Blocks:
    """The whole page over one engine; `drafter` is chosen when it opens, `lets_load` offers to load other models."""
    visitors = Visitors()
    first = first_run()
    defaults = Controls(
        prompt=bundle.opening(),
        drafter=drafter or Controls.drafter,
        max_new_tokens=min(Controls.max_new_tokens, admission.limits.most_tokens),
    )
    demo = gr.Blocks(title="Draftscope", analytics_enabled=False, fill_width=True)
    with demo:
        top = _top()
        with gr.Row(elem_id="ds-body"):
            with gr.Column(elem_id="ds-controls", scale=0):
                controls, buttons = panel(defaults, admission.limits.most_tokens)
                models = own_models.form() if lets_load else None
            with gr.Column(elem_id="ds-main"):
                feed = _instrument(recording(first) if first else "")
                says = _ear()
                with gr.Accordion("After the run: gaps, acceptance, lengths", open=False, elem_id="ds-after") as drawer:
                    gaps = gr.Plot(show_label=False)
                    with gr.Row():
                        positions, lengths = gr.Plot(show_label=False), gr.Plot(show_label=False)
        widgets = Widgets(controls, feed, says, drawer, (gaps, positions, lengths), _asks(), models)
        _Listeners(admission, visitors, defaults, first, widgets).attach(demo, top, buttons)
        gr.api(api.endpoint(admission, visitors), api_name="decode", concurrency_limit=None)
    return demo


# What is on the page.


def _top() -> dict[str, Any]:
    with gr.Row(elem_id="ds-top"):
        gr.HTML(
            html_template=TITLE, apply_default_css=False, elem_id="ds-name", js_on_load=None,
        )  # fmt: skip
        link = gr.Button("Copy link", elem_id="ds-link")
        save = gr.Button("Save run", elem_id="ds-save")
        load = gr.UploadButton("Load run", elem_id="ds-load", type="filepath")
        theme = gr.Button("◐ Theme", elem_id="ds-theme")
        page = gr.Button("Save page", elem_id="ds-save-page", elem_classes=["ds-off"])  # Save run offers it
        download = gr.DownloadButton("download", elem_id="ds-download", elem_classes=["ds-off"])
    return {"link": link, "save": save, "page": page, "load": load, "theme": theme, "download": download}


def _asks() -> Asks:
    unseen = ["ds-off"]
    names = ("fork", "compare", "check", "choose", "lesson", "try")
    buttons = [gr.Button(elem_id=f"ds-{name}", elem_classes=unseen) for name in names]
    ears = [_ear() for _ in range(3)]
    return Asks(gr.Textbox(elem_classes=unseen), *buttons, *ears)


def _ear() -> gr.HTML:
    """Passes on to the instrument whatever it is given."""
    return gr.HTML(
        html_template="<i hidden></i>", apply_default_css=False, elem_classes=["ds-off"], js_on_load=HEARS
    )  # fmt: skip


def _instrument(value: str) -> gr.HTML:
    return gr.HTML(
        value=value, html_template="<draftscope-instrument></draftscope-instrument>", apply_default_css=False,
        elem_id="ds-instrument",
        js_on_load=f"{HEARS} Draftscope.again = () => trigger('submit');",
    )  # fmt: skip


# What happens.


class _Listeners:
    def __init__(
        self,
        admission: Admission,
        visitors: Visitors,
        defaults: Controls,
        first: tuple[AnyEvent, ...],
        widgets: Widgets,
    ) -> None:
        self.admission, self.engine, self.visitors = admission, admission.engine, visitors
        self.defaults, self.first, self.widgets = defaults, first, widgets

    def attach(self, demo: gr.Blocks, top: dict[str, Any], buttons: dict[str, Any]) -> None:
        controls, says = self.widgets.controls, self.widgets.says
        values, plots = list(controls.values()), list(self.widgets.plots)
        standing = [getattr(self.defaults, name) for name in NAMES]
        query = f"Draftscope.query({json.dumps(NAMES)}, values, {json.dumps(standing)})"
        self._attach_runs(buttons, query)
        self._attach_controls(buttons)
        self._attach_asks()
        self._attach_files(top)
        self._attach_models()
        space = json.dumps(os.environ.get("SPACE_ID", ""))
        top["link"].click(None, values, None, js=f"(...values) => Draftscope.copyLink({query}, {space}, values[0])")
        top["theme"].click(None, None, None, js="() => { Draftscope.flipTheme(); }")
        demo.load(self.arrive, None, [*values, says, *plots], queue=False, **PRIVATE)
        demo.load(
            self.watch_engine, None, [says, controls["drafter"]],
            concurrency_limit=None, concurrency_id="engine", **PRIVATE,
        )  # fmt: skip
        demo.unload(self.leave)

    def _attach_runs(self, buttons: dict[str, Any], query: str) -> None:
        """Run, Step and Stop, and the pictures that follow them."""
        says, plots, values = self.widgets.says, list(self.widgets.plots), list(self.widgets.controls.values())
        gr.on(
            [buttons["run"].click, buttons["step"].click],
            None,
            values,
            None,
            js=f"(...values) => Draftscope.remember({query})",
        )
        streams: dict[str, Any] = {
            "inputs": set(values), "outputs": self.widgets.feed, "trigger_mode": "multiple",
            "concurrency_limit": None,  # who may run is the admission's to say, in a sentence
            "preprocess": False,  # what is out of range gets the engine's sentence, not Gradio's
            **PRIVATE,
        }  # fmt: skip
        buttons["run"].click(self.run, **streams).then(self.after, None, [says, *plots], **PRIVATE)
        buttons["step"].click(self.step, **streams).then(self.after, None, [says, *plots], **PRIVATE)
        # pictures of another run must not stand beside this one; a refused run gets its old ones back in `after`
        buttons["run"].click(None, None, plots, js=f"() => {json.dumps([None] * len(plots))}")
        # an update that meets the drawer while it opens is lost, so an open drawer asks for itself
        self.widgets.drawer.expand(self.drawn, None, plots, queue=False, **PRIVATE)
        buttons["stop"].click(self.stop, None, None, queue=False, **PRIVATE)

    def _attach_controls(self, buttons: dict[str, Any]) -> None:
        """Prompts by kind, and which controls show: worked out in the page, where no answer overtakes another."""
        controls, own = self.widgets.controls, [self.widgets.controls[name] for name in DRAFTERS_OWN]
        for kind, button in buttons["kinds"].items():
            button.click(
                None, controls["prompt"], controls["prompt"], js=f"(p) => Draftscope.preset({json.dumps(kind)}, p)"
            )
        first = {name: getattr(self.defaults, name) for name in CHOOSING}
        rules = json.dumps({"names": DRAFTERS_OWN, "readWith": READ_WITH, "first": first})
        for name in CHOOSING:
            controls[name].change(  # type: ignore[attr-defined]
                None, controls[name], own, js=f"(value) => Draftscope.show({rules}, {{ {name}: value }})"
            )
        says = self.widgets.says
        says.change(None, says, own, js=f"(said) => Draftscope.told({rules}, said)")

    def _attach_asks(self) -> None:
        """What the instrument asks for by itself: forks, comparisons, checks, lessons, and the run once more."""
        controls, feed, hidden = self.widgets.controls, self.widgets.feed, self.widgets.asks
        values, after = list(controls.values()), [self.widgets.says, *self.widgets.plots]
        hidden.fork.click(
            self.fork, hidden.words, feed, js="() => Draftscope.asking", trigger_mode="multiple",
            concurrency_limit=None, **PRIVATE,
        ).then(self.after, None, after, **PRIVATE)  # fmt: skip
        hidden.compare.click(
            self.compare,
            inputs=set(values),
            outputs=hidden.compared,
            concurrency_limit=None,
            preprocess=False,
            **PRIVATE,
        )
        hidden.check.click(self.check, None, hidden.checked, concurrency_limit=None, **PRIVATE)
        hidden.choose.click(None, None, controls["drafter"], js="() => JSON.parse(Draftscope.asking)")
        hidden.lesson.click(
            lambda words: lessons.told(json.loads(words)), hidden.words, hidden.taught,
            js="() => Draftscope.asking", **PRIVATE,
        )  # fmt: skip
        hidden.attempt.click(
            None, values, values, js=f"(...values) => Draftscope.attempted({json.dumps(NAMES)}, values)"
        )
        feed.submit(self.again, None, feed, queue=False, **PRIVATE)

    def _attach_files(self, top: dict[str, Any]) -> None:
        """The shown run as a file or a page, and a file as the shown run."""
        says, hidden = self.widgets.says, self.widgets.asks
        shown = {"inputs": hidden.words, "js": "() => Draftscope.lessonShown()", **PRIVATE}
        top["save"].click(self.save, outputs=[top["download"], says], **shown).then(
            None, top["download"], None, js="(file) => { Draftscope.download(file); Draftscope.offerPage(file); }"
        )
        top["page"].click(self.save_page, outputs=[top["download"], says], **shown).then(
            None, top["download"], None, js="(file) => Draftscope.download(file)"
        )
        top["load"].upload(self.open, top["load"], [self.widgets.feed, *self.widgets.plots], **PRIVATE)

    def _attach_models(self) -> None:
        """Other models in place of those that are loaded, where the server lets a visitor ask for them."""
        form, drafter = self.widgets.models, self.widgets.controls["drafter"]
        if form is not None:
            form.load.click(
                self.load_models, [*form.fields, drafter], [self.widgets.says, drafter],
                concurrency_limit=None, preprocess=False, **PRIVATE,
            )  # fmt: skip

    # Runs.

    async def run(self, values: dict[Any, Any], request: gr.Request) -> AsyncIterator[str]:
        async for text in self._start(values, request, None):
            yield text

    async def step(self, values: dict[Any, Any], request: gr.Request) -> AsyncIterator[Any]:
        """One round more of the run in steps, or the first round of a new one."""
        active = self.visitors.of(request.session_hash).active
        if active is not None and active.job.steps is not None:
            active.step()
            yield gr.skip()
            return
        async for text in self._start(values, request, 1):
            yield text

    async def _start(self, values: dict[Any, Any], request: gr.Request, steps: int | None) -> AsyncIterator[str]:
        visitor = self.visitors.of(request.session_hash)
        try:
            job = self._job(self._controls(values), steps)
            handle = self.admission.admit(job, visitor.active)
        except DraftscopeError as error:
            yield note(str(error))
            return
        visitor.replace(handle)
        async for text in stream(self.engine, visitor, handle):
            yield text

    async def fork(self, asked: str, request: gr.Request) -> AsyncIterator[str]:
        """A lane of the shown live run is left at a token, as a new lane."""
        visitor = self.visitors.of(request.session_hash)
        try:
            if not visitor.run or visitor.active is not None:
                raise DraftscopeError("Only a live run that is over can be forked; press Run, and wait for its end.")
            job = forks.job(Asked.of(asked), self._events(request), new_run_id())
            handle = self.admission.admit(job)
        except DraftscopeError as error:
            yield note(str(error))
            return
        visitor.replace(handle)
        async for text in stream(self.engine, visitor, handle):
            yield text

    async def compare(self, values: dict[Any, Any], request: gr.Request) -> AsyncIterator[str]:
        """Every drafter on this prompt, with these settings."""

        def job() -> Job:
            drafters, most = self.engine.status.drafters, self.admission.limits.most_tokens
            return asks.comparison(self._controls(values), drafters, most)

        async for text in self._answered("compare", job, request):
            yield text

    async def check(self, request: gr.Request) -> AsyncIterator[str]:
        """The shown run's drafter, held against the target."""
        async for text in self._answered("check", lambda: asks.check(self._events(request)), request):
            yield text

    async def _answered(self, kind: str, job: Callable[[], Job], request: gr.Request) -> AsyncIterator[str]:
        visitor = self.visitors.of(request.session_hash)
        try:
            if visitor.active is not None:
                raise DraftscopeError("A run of yours is still going on; wait for its end, or press Stop.")
            handle = self.admission.admit(job())
        except DraftscopeError as error:
            yield note(str(error))
            return
        visitor.replace(handle)
        async for text in asks.answers(kind, self.engine, handle):
            yield text

    def _controls(self, values: dict[Any, Any]) -> Controls:
        return Controls(**{name: values[widget] for name, widget in self.widgets.controls.items()})

    def _job(self, controls: Controls, steps: int | None) -> Job:
        chosen = self._drafter(controls.drafter)
        pair = lanes(controls, chosen, self.admission.limits.most_tokens)
        solo = SOLO_REPEATS if steps is None and len(pair) > 1 else 0
        return Job(new_run_id(), controls.prompt or "", pair, steps, solo)

    def _drafter(self, name: str) -> DrafterChoice | None:
        return next((d for d in self.engine.status.drafters if d.name == name), None)

    def stop(self, request: gr.Request) -> None:
        active = self.visitors.of(request.session_hash).active
        if active is not None:
            active.stop()

    def leave(self, request: gr.Request) -> None:
        self.visitors.left(request.session_hash)

    # Around runs.

    def after(self, request: gr.Request) -> list[Any]:
        """The pictures of the run that is shown, and how much of it the page should have seen."""
        return [settled(self.visitors.of(request.session_hash)), *self.drawn(request)]

    def drawn(self, request: gr.Request) -> list[Any]:
        return list(pictures(self._events(request)))

    def again(self, request: gr.Request) -> Any:
        visitor = self.visitors.of(request.session_hash)
        return whole(visitor) if visitor.run else gr.skip()

    def _events(self, request: gr.Request) -> list[AnyEvent]:
        lines = self.visitors.of(request.session_hash).lines
        return [EVENT.validate_json(text) for text in lines] if lines else list(self.first)

    def save(self, lesson: str, request: gr.Request) -> tuple[Any, Any]:
        """The run that is shown, a lesson's or the visitor's own, as a file; or one sentence."""
        return self._saved("draftscope-run.jsonl.gz", files.write, lesson, request)

    def save_page(self, lesson: str, request: gr.Request) -> tuple[Any, Any]:
        """The run that is shown, as a page that plays by itself; or one sentence."""

        def write(path: Path, events: list[AnyEvent]) -> None:
            path.write_text(html.page(events), encoding="utf-8")

        return self._saved("draftscope-run.html", write, lesson, request)

    def _saved(
        self, name: str, write: Callable[[Path, list[AnyEvent]], None], lesson: str, request: gr.Request
    ) -> tuple[Any, Any]:
        path = Path(tempfile.mkdtemp(prefix="draftscope-")) / name
        try:
            events = list(lessons.events(lesson)) if lesson else self._events(request)
            if not events:
                return gr.skip(), note("There is no run to save yet; press Run first.")
            write(path, events)
        except DraftscopeError as error:
            return gr.skip(), note(str(error))
        return str(path), gr.skip()

    def open(self, path: str | None, request: gr.Request) -> list[Any]:
        """A saved run takes the place of what is shown; a file that is none leaves it."""
        nothing = [gr.skip()] * len(self.widgets.plots)
        if not path:
            return [gr.skip(), *nothing]
        try:
            read = files.read(path, self.admission.limits.most_upload_mb * 2**20)
        except DraftscopeError as error:
            return [note(str(error)), *nothing]
        events = [event for event in read.events if event.run == read.events[0].run]
        several = "" if len(events) == len(read.events) else "The file holds several runs; the first is shown."
        visitor = self.visitors.of(request.session_hash)
        visitor.replace(None)
        visitor.run = ""
        visitor.lines = [files.line(event) for event in events]
        return [recording(events, read.warning or several), *pictures(events)]

    def arrive(self, request: gr.Request) -> list[Any]:
        """The address's settings, and the pictures of the recorded run."""
        query = dict(request.query_params or {})
        controls, sentence = from_query(query, self.defaults)
        values = [getattr(controls, name) for name in NAMES] if set(query) & set(NAMES) else [gr.skip()] * len(NAMES)
        if "drafter" in query:  # which the list may not hold yet
            values[NAMES.index("drafter")] = self.offered(controls.drafter)
        text = json.dumps({"seq": new_run_id(), "arrived": True} | ({"note": sentence} if sentence else {}))
        return [*values, text, *pictures(self.first)]

    async def watch_engine(self, request: gr.Request) -> AsyncIterator[Any]:
        """Loading, told as it goes; then what can run here."""
        asked = from_query(dict(request.query_params or {}), self.defaults)[0]
        said = ""
        while (status := self.engine.status).phase == "loading":
            if status.sentence != said:
                said = status.sentence
                yield [engine_says(status), gr.skip()]
            await asyncio.sleep(0.1)
        yield [engine_says(status), self.offered(asked.drafter) if status.drafters else gr.skip()]

    async def load_models(self, target: str, draft: str, revision: str, drafter: str) -> AsyncIterator[Any]:
        """Other models, told as they load; where they cannot be, one sentence, and all is as it was."""
        engine = self.engine
        assert isinstance(engine, EngineProcess)  # another one is never offered this
        try:
            async for status in own_models.changes(engine, own_models.wanted(engine.load, target, draft, revision)):
                yield [engine_says(status), gr.skip()]
        except DraftscopeError as error:
            yield [note(str(error)), gr.skip()]
            return
        if status.refused:
            yield [note(f"{status.refused} The models that were here are still loaded."), gr.skip()]
        elif status.phase == "ready":
            self.visitors.models_changed()
            able = [d.name for d in status.drafters if d.available and d.name not in ("plain", "typed")]
            yield [note("The models are loaded; press Run."), self.offered(drafter if drafter in able else able[0])]

    def offered(self, drafter: str) -> Any:
        """The list of drafters, those that can run first, with `drafter` chosen where there is one of that name."""
        known = self.engine.status.drafters
        if not known:
            return gr.update(choices=first_choices(drafter), value=drafter)
        first = sorted(known, key=lambda d: not d.available)
        choices = [(d.title if d.available else f"{d.title} (not here: {d.why_not})", d.name) for d in first]
        return gr.update(
            choices=choices, value=drafter if drafter in {d.name for d in known} else self.defaults.drafter
        )


def engine_says(status: Engine) -> str:
    """The engine's state for the header, and what its drafters read; a failure to load is also the page's message."""
    more: dict[str, Any] = {"engine": status.sentence}
    if status.drafters:
        more["titles"] = {d.name: d.title for d in status.drafters}
        more["uses"] = {d.name: d.uses for d in status.drafters}
    if status.phase == "failed":
        more["note"] = status.sentence
    return json.dumps({"seq": new_run_id(), **more})
