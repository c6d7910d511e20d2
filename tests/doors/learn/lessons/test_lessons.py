"""The lessons: recorded runs, the player that drives the page from them, and texts folded from any recording."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

import pytest
import typer

from draftscope.base.assets import assets
from draftscope.base.errors import DraftscopeError
from draftscope.base.load_settings import LoadSettings
from draftscope.decode.engine import DecodingEngine
from draftscope.decode.race import race
from draftscope.drafters.settings import Settings
from draftscope.measure.bench.bench_plan import BenchPlan
from draftscope.models.heads import save_head
from draftscope.models.probe import probed
from draftscope.servers.audit.audit_events import AuditProgress
from draftscope.servers.audit.plan import Plan
from draftscope.servers.lanes import connect
from draftscope.servers.wire import WireLimits
from draftscope.trace import files
from draftscope.trace.events import AnyEvent, DraftProbs, Prefetch, Round, RunEnd, Served, TargetProbs
from draftscope.trace.glossary import GLOSSARY
from draftscope_app.doors.door import task
from draftscope_app.doors.learn.classroom.shown_lessons import recorded as recorded_steps
from draftscope_app.doors.learn.lessons import page as lessons
from draftscope_app.engine.site import Site
from draftscope_app.page import page as page_of
from draftscope_app.page.controls import LANE, names
from draftscope_app.serve.doors import page_doors
from tests.doors.servers.audit.test_audit_command import writer
from tests.doors.servers.stubs import Habits, stub
from tests.programs import record_lessons, record_servers, record_steps, record_sweep
from tests.support.alone import Alone
from tests.support.browsers import NARROW, violations
from tests.support.models import random_heads, random_llama
from tests.support.node import call
from tests.support.raced import EVIL, hostile
from tests.support.school import lessons_page

FOLDER = task("lessons").path
LISTED = (FOLDER / "lessons.js").read_text(encoding="utf-8")
ORDER = re.search(r"LESSONS = \[(.*?)\]", LISTED)
assert ORDER is not None
NAMED = dict(re.findall(r"lesson as (\w+) } from \"./(texts/[\w-]+\.js)\"", LISTED))
TEXTS = "".join((FOLDER / NAMED[name]).read_text(encoding="utf-8") for name in ORDER[1].split(", "))
MAX_BYTES = 1_500_000
SHORT = {"max_new_tokens": 40}


@pytest.fixture(scope="module")
def written(pair_folders: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the command writes about the tiny random pair and its heads, with shorter texts and smaller sweeps."""
    folder = tmp_path_factory.mktemp("lessons")
    out, heads = folder / "out", random_heads(probed(random_llama(3, 258), "target"), tuple(range(0, 258, 2)))
    kinds = ("medusa", "eagle3", "block")
    for kind in kinds:
        save_head(heads[kind].network, folder / kind, "target")
    tiny = LoadSettings(*pair_folders, heads=[f"{kind}:{folder / kind}" for kind in kinds])
    small = {name: replace(p, batches=(1, 2, 4), tokens=4, repeats=2) for name, p in record_lessons.SWEPT.items()}
    short = {name: replace(run, common={**run.common, **SHORT}) for name, run in record_lessons.RECORDED.items()}
    command = typer.Typer(add_completion=False)
    command.command()(record_lessons.main)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(record_lessons, "SWEPT", small)
        patch.setattr(record_lessons, "RECORDED", short)
        patch.setattr(record_lessons, "PAIRS", dict.fromkeys(record_lessons.PAIRS, tiny))
        command(["--out", str(out)], standalone_mode=False)
    return out


@pytest.fixture(scope="module")
def of_servers(
    pair: DecodingEngine, tmp_path_factory: pytest.TempPathFactory
) -> tuple[list[AnyEvent], list[AuditProgress]]:
    """The race and the audits of two stub servers, one of them hotter than it is asked to be."""

    def encode(text: str) -> list[int]:
        return list(pair.tokenizer.encode(text, add_special_tokens=False))

    habits = Habits(write=writer(pair), encode=encode), Habits(burst=3, write=writer(pair, 4.0), encode=encode)
    with ExitStack() as opened:
        urls = [opened.enter_context(stub(each)) for each in habits]
        lanes, _ = connect(dict(zip(("plain", "drafts"), urls, strict=True)), {}, WireLimits(), opened.enter_context)
        return record_servers.record(pair, lanes, Plan(samples=60, tokens=4))


@pytest.fixture(scope="module")
def recorded() -> dict[str, list[AnyEvent]]:
    """Every lesson's run, as it is shipped."""
    return {name: list(lessons.events(name)) for name in lessons.names()}


@pytest.fixture(scope="module")
def swept() -> dict[str, list[record_sweep.Swept]]:
    return {name: [record_sweep.Swept(**run) for run in lessons.swept(name)] for name in record_lessons.SWEPT}


@pytest.fixture(scope="module")
def audited() -> dict[str, list[AuditProgress]]:
    return {record_servers.NAME: [AuditProgress(**audit) for audit in lessons.audited(record_servers.NAME)]}


def sweeps_of(path: Path) -> list[record_sweep.Swept]:
    return [record_sweep.Swept.model_validate_json(line) for line in path.read_text().splitlines()]


def taught(
    path: Path,
    own: list[AnyEvent],
    runs: dict[str, list[AnyEvent]],
    sweeps: Mapping[str, list[record_sweep.Swept]],
    audits: Mapping[str, list[AuditProgress]],
) -> Path:
    """A page over `own` whose lessons come from `runs`: the player as the real page hosts it, without a server."""

    def told(name: str, events: list[AnyEvent]) -> str:
        beside = ([each.model_dump() for each in found.get(name, [])] for found in (sweeps, audits))
        return lessons.as_delta(name, events, *beside)

    return lessons_page(path, own, {name: told(name, events) for name, events in runs.items()})


@pytest.fixture(scope="module")
def own_run(pair: DecodingEngine) -> list[AnyEvent]:
    settings = Settings.of(drafter="draft", gamma=2, max_new_tokens=12)
    return list(race([pair.start("own", settings, run="own", lane="alone")]))


@pytest.fixture(scope="module")
def school(
    own_run: list[AnyEvent],
    recorded: dict[str, list[AnyEvent]],
    swept: dict[str, list[record_sweep.Swept]],
    audited: dict[str, list[AuditProgress]],
    tmp_path_factory: pytest.TempPathFactory,
) -> Path:
    return taught(tmp_path_factory.mktemp("school") / "run.html", own_run, recorded, swept, audited)


@pytest.fixture(scope="module")
def random_school(
    own_run: list[AnyEvent],
    written: Path,
    of_servers: tuple[list[AnyEvent], list[AuditProgress]],
    tmp_path_factory: pytest.TempPathFactory,
) -> Path:
    """The lessons over what the command writes about the tiny random pair, with smaller sweeps."""
    runs = {name: list(files.read(written / f"{name}.jsonl.gz").events) for name in record_lessons.RECORDED}
    runs[record_servers.NAME] = of_servers[0]
    sweeps = {name: sweeps_of(written / f"{name}.sweep.jsonl") for name in record_lessons.SWEPT}
    path = tmp_path_factory.mktemp("random-school") / "run.html"
    return taught(path, own_run, runs, sweeps, {record_servers.NAME: of_servers[1]})


# What is shipped.


def test_the_shipped_recordings_are_those_of_the_command_and_small() -> None:
    assert lessons.names() == sorted([*record_lessons.RECORDED, record_servers.NAME])
    assert sum(path.stat().st_size for path in (assets() / "lessons").iterdir()) < MAX_BYTES
    for name, recorded in record_lessons.RECORDED.items():
        events = lessons.events(name)
        assert list(dict.fromkeys(event.lane for event in events)) == recorded.names
        own = [event for event in events if isinstance(event, Round) and event.lane == recorded.last]
        assert recorded.tells(own)


def test_the_shipped_sweeps_are_those_of_the_command() -> None:
    for name, plan in record_lessons.SWEPT.items():
        runs = [record_sweep.Swept(**run) for run in lessons.swept(name)]
        for batch in plan.batches:
            own = [(run.drafter, run.gamma) for run in runs if run.batch == batch]
            assert own == [("plain", None), *((plan.drafters[0], gamma) for gamma in plan.gammas)] * plan.repeats
    assert lessons.swept("round") == []


def test_the_shipped_race_of_servers_has_what_its_lesson_tells() -> None:
    """A plain server and one that drafts, of one program; p and q of every token; the second one's audit is red."""
    events = lessons.events(record_servers.NAME)
    lanes = list(dict.fromkeys(event.lane for event in events))
    assert len(lanes) == 2
    for lane in lanes:
        (end,) = (event for event in events if isinstance(event, RunEnd) and event.lane == lane)
        (forced,) = (event for event in events if isinstance(event, TargetProbs) and event.lane == lane)
        assert end.reason == "length" and len(forced.p) == len(end.token_ids) and forced.log_p is not None
    assert {event.lane for event in events if isinstance(event, DraftProbs)} == {lanes[1]}
    told = [AuditProgress.model_validate(each) for each in lessons.audited(record_servers.NAME)]
    assert [(each.server, each.different) for each in told] == [(lanes[0], False), (lanes[1], True)]
    assert lessons.audited("round") == []


def test_a_sweep_that_is_not_whole_is_refused(pair: DecodingEngine) -> None:
    plan = BenchPlan(
        drafters=("draft",), gammas=(2,), temperatures=(1.0,), batches=(1,), tokens=10_000, repeats=1, peers=False
    )
    with pytest.raises(DraftscopeError):
        record_sweep.measure(pair, plan, ["abc"])


def test_every_lesson_has_a_recording_and_every_recording_a_lesson() -> None:
    assert set(re.findall(r'trace: "(\w+)"', TEXTS)) == {*record_lessons.RECORDED, record_servers.NAME}
    assert ORDER is not None and sorted(ORDER[1].split(", ")) == sorted(NAMED)
    assert sorted(NAMED.values()) == sorted(f"texts/{path.name}" for path in FOLDER.glob("texts/*.js"))


def test_what_is_tried_are_controls_that_exist() -> None:
    for controls in re.findall(r"controls: \{ ([^}]*) \}", TEXTS):
        assert set(re.findall(r"(\w+):", controls)) <= set(names())


def test_the_glossary_has_each_word_once_in_the_order_of_a_dictionary() -> None:
    (names,) = call(["doors/learn/lessons/terms.js"], [("glossaryNames", [])])
    assert len(names) == len(set(names)) and {"correction", "residual", "target"} <= set(names)
    words = names[names.index("RRSw") + 1 :]
    assert words == sorted(words, key=str.lower)


def test_metrics_among_the_terms_are_the_glossarys() -> None:
    named = re.search(r"const METRICS = \{(.*?)\}", (FOLDER / "terms.js").read_text(encoding="utf-8"))
    assert named is not None
    assert set(re.findall(r': "(\w+)"', named[1])) <= {entry.name for entry in GLOSSARY}


def test_a_recording_that_is_not_there_is_one_sentence() -> None:
    with pytest.raises(DraftscopeError, match="no run recorded as"):
        lessons.events("../first")
    assert "no run recorded" in json.loads(lessons.delta_of("x"))["note"]


def test_the_page_is_told_which_lessons_there_are() -> None:
    script = page_of.script(Site(), page_doors())
    assert f"lessonNames: {json.dumps(lessons.names())}" in script
    assert "itl_ms" in script


def test_a_seed_is_sought_until_the_lesson_can_be_told(pair: DecodingEngine) -> None:
    raced = record_lessons.Raced(record_lessons.PLAIN)
    never = record_lessons.Recorded((raced,), {"max_new_tokens": 1}, lambda _: False)
    with pytest.raises(DraftscopeError, match="lesson 'x': none of 40 seeds"):
        record_lessons.record(pair, "x", never, raced)


def gain(name: str, drafter: str, plain: str) -> float:
    """Tokens per millisecond of a shipped lane over those of its plain lane, without reading the prompt."""
    rounds = [event for event in lessons.events(name) if isinstance(event, Round)]
    own = [[r for r in rounds if r.lane == lane] for lane in (drafter, plain)]
    speeds = [sum(len(r.emitted) for r in lane) / (lane[-1].end - lane[0].start) for lane in own]
    return speeds[0] / speeds[1]


def test_what_the_lessons_measured_is_what_the_page_opens_with() -> None:
    """The head gains wherever a lesson shows it on SmolLM2, as on the page; half of the model never does."""
    for name, lane, plain in (
        ("round", LANE, "plain"),
        ("heads", "eagle3", "plain"),
        ("heads", "eagle3, dialogue", "plain, dialogue"),
        ("when", LANE, "plain"),
        ("when", f"{LANE}, Q&A", "plain, Q&A"),
    ):
        assert gain(name, lane, plain) > 1.1
    assert gain("when", "costly", "plain") < 0.9 and gain("wrong", LANE, "plain") < 0.9


@pytest.mark.slow
def test_the_command_writes_every_recording(written: Path) -> None:
    runs = [written / f"{name}.jsonl.gz" for name in record_lessons.RECORDED]
    sweeps = [written / f"{name}.sweep.jsonl" for name in record_lessons.SWEPT]
    assert set(written.iterdir()) == {*runs, *sweeps}
    assert all(files.read(path).events for path in runs)
    wanted = {(batch, 4, repeat) for batch in (1, 2, 4) for repeat in (0, 1)}
    for path in sweeps:
        assert {(line.batch, line.tokens, line.repeat) for line in sweeps_of(path)} == wanted


# The player.

LESSONS = "e => e.cards.view('lessons').all.map((lesson) => lesson.trace)"
NEXT = """(e, on) => new Promise((done) => {
    const [words, next] = ["words", "leading"].map((part) => e.shadowRoot.querySelector(`.lesson [class*=${part}]`));
    if (on) next.click();
    requestAnimationFrame(() => requestAnimationFrame(() => done([words.innerText, next.disabled])));
})"""


def walk(page: Alone, number: int) -> Iterator[str]:
    """Begins a lesson and goes to its end, yielding what each step says."""
    page.ask(f"e => e.cards.view('lessons').start({number})")
    page.until(f"e => e.cards.view('lessons').lesson === e.cards.view('lessons').all[{number - 1}]")
    words, last = page.ask(NEXT, False)
    while not last:
        yield words
        words, last = page.ask(NEXT, True)
    yield words


PARTS = {"lanes": ".lanes", "strip": ".strip", "tree": ".pair > .tree", "decision": ".decision", "scale": ".scale",
         "measured": ".measured", "reconstructed": ".reconstructed"}  # fmt: skip
SHOWN = """(e, parts) => Object.keys(parts).filter((name) => {
    const part = e.shadowRoot.querySelector(parts[name]);
    return part && part.checkVisibility({ visibilityProperty: true }) && part.getBoundingClientRect().height > 0;
})"""
DEFINED = """e => {
    for (const details of e.shadowRoot.querySelectorAll(".lesson details")) details.open = true;
    return [...e.shadowRoot.querySelectorAll(".lesson .term")].map((term) => {
        term.focus();
        return e.shadowRoot.querySelector('.definition').textContent;
    });
}"""


@pytest.mark.slow
@pytest.mark.browser
def test_every_step_of_every_lesson_is_told_shows_what_it_speaks_of_and_defines_its_terms(
    browser: Any, random_school: Path
) -> None:
    """Of runs that nobody chose, where there is least room. The other width and theme have a test of their own."""
    width, theme = NARROW
    page = Alone(browser, random_school, viewport={"width": width, "height": 900}, color_scheme=theme, bypass_csp=True)
    page.page.evaluate("(metrics) => Inside.give({ metrics })", {entry.name: entry.meaning for entry in GLOSSARY})
    assert page.page.evaluate("Inside.LESSON_TERMS.filter((term) => !Inside.defineTerm(term))") == []
    assert page.ask(LESSONS) == re.findall(r'trace: "(\w+)"', TEXTS)
    for number in range(1, len(page.ask(LESSONS)) + 1):
        said = []
        for words in walk(page, number):
            said.append(words)
            assert set(page.ask(SHOWN, PARTS)) == set(page.ask("e => e.main.dataset.show.split(' ')")) & set(PARTS)
            assert page.page.evaluate("document.documentElement.scrollWidth") <= width
            assert all(re.fullmatch(r"[^:]+: .+", definition) for definition in page.ask(DEFINED))
        assert len(said) >= 3
        assert not [text for text in said if re.search(r"NaN|undefined|Infinity|null|–|\[\[", text)], said
        assert said[-1].startswith("Question. ")
        page.ask("e => { for (const d of e.shadowRoot.querySelectorAll('.lesson details')) d.open = false; }")
        page.element.get_by_text("Answer", exact=True).click()
        page.painted()
        assert not re.search(r"NaN|undefined|Infinity|null", page.text(".lesson-words"))
        assert page.text(".lesson h3").startswith(f"Lesson {number} of ")
        assert f"lesson={number}" in page.page.url
        assert page.text(".badge") == "recorded"
        assert violations(page.page) == []
    assert_the_list_is_accessible(page)
    page.close()


def assert_the_list_is_accessible(page: Alone) -> None:
    page.ask("e => { e.cards.view('lessons').leave(); }")
    page.painted()
    assert violations(page.page) == []


@pytest.mark.browser
def test_a_prediction_comes_before_its_uniform(browser: Any, school: Path) -> None:
    page = Alone(browser, school)
    told = walk(page, 1 + page.ask(LESSONS).index("coin"))
    assert "Decide before you continue" in next(told)
    assert "u not drawn yet" in page.text(".decision .uniform-row")
    uniform = page.ask(
        "e => Inside.formatProb(e.cursor.round.decisions.flatMap((c) => c.children)"
        ".find((c) => c.node === e.cursor.at.key).uniform)"
    )
    assert f"u = {uniform}" in next(told)
    assert "u not drawn yet" not in page.text(".decision .uniform-row")
    page.close()


@pytest.mark.browser
def test_rows_light_one_by_one_up_to_the_bonus(browser: Any, school: Path) -> None:
    page = Alone(browser, school)
    number = page.page.evaluate("Inside.LESSONS.findIndex((lesson) => lesson.title === 'The bonus token')") + 1
    told = walk(page, number)
    rows = []
    for text in told:
        if not text.startswith("Row "):
            break
        rows.append(int(text.split()[1]))
        assert page.ask("e => e.round.mask.at + 1") == rows[-1]
    assert rows == list(range(1, page.ask("e => e.cursor.round.width") + 1))
    page.close()


@pytest.mark.browser
def test_pointing_at_a_row_of_the_mask_lights_its_ancestors(browser: Any, school: Path) -> None:
    page = Alone(browser, school)
    told = walk(page, 1 + page.ask(LESSONS).index("trees"))
    assert any("Point at a row" in text for text in told)
    chosen = page.text(".mask .note")
    row = page.ask("e => e.round.mask.sees.findIndex((seen) => seen.length === 3)")
    above = page.ask(f"e => e.round.mask.items[e.round.mask.sees[{row}][1]].label")
    box = page.element.locator(".mask canvas").bounding_box()
    page.page.mouse.move(box["x"] + 60, box["y"] + 18 + (row + 0.5) * page.ask("e => e.round.mask.cell"))
    assert page.text(".mask .note").startswith(f"Token {row + 1} of ")
    assert above in page.text(".mask .note")
    page.page.mouse.move(0, 0)
    assert page.text(".mask .note") == chosen
    page.close()


@pytest.mark.browser
def test_shipped_lessons_open_on_what_one_can_see(browser: Any, school: Path) -> None:
    """Lesson 3 on a word, lesson 6 on a tree; and a text of 28 pixels on a projector."""
    page = Alone(browser, school, viewport={"width": 1920, "height": 1080})
    next(walk(page, 3))
    assert re.search(r"[A-Za-z]{2,}", page.text(".lesson-words code"))
    assert page.ask("e => getComputedStyle(e.shadowRoot.querySelector('.lesson-words')).fontSize") == "28px"
    assert "hatched areas are equal" in list(walk(page, 3))[-2]
    assert page.element.locator(".decision .over-p").count() > 1
    assert page.element.locator(".decision .beyond").count() == 0  # areas that are compared have one scale
    next(walk(page, 6))
    assert page.element.locator(".tree-svg .node.rejected").count() >= 1
    assert page.element.locator(".tree-svg .node.accepted").count() >= 1
    page.shot("lesson-6")
    said = other_models(page)
    assert "A faster baseline leaves less to gain" in said[0] and "Would a larger target gain more?" in said[1]
    for number in (7, 10):  # of two texts, drafting pays at least once and does not at least once
        told = list(walk(page, number))
        measured = [float(x) for text in told for x in re.findall(r"([\d.]+)(?:×| times as fast)", text)]
        assert max(measured) > 1.1
        if number == 7:
            assert page.element.locator(".worth thead th").nth(1).inner_text() == "× plain"
            cut = "(tables) => tables.map((table) => table.scrollWidth - table.clientWidth)"
            assert page.element.locator(".worth .table").evaluate_all(cut) == [0, 0]
        page.shot(f"lesson-{number}")
    assert min(measured) < 1
    (batches,) = [text for text in told if text.startswith("A batch may be full")]
    assert "sampled at T 1" in batches and "race on the first text was at T 0" in batches
    page.close()


def other_models(page: Alone) -> list[str]:
    """Lesson 10's steps with other models, each checked: its table and its sentence have the speeds of its lanes, and
    which of them gains more is said as it was measured."""
    told = list(walk(page, 10))
    found = []
    pairs = {
        "A faster baseline": (("head, stored", "plain, stored"), (LANE, "plain")),
        "Would a larger": (("draft, code", "plain, code"), ("draft, large", "plain, large")),
    }
    for begins, lanes in pairs.items():
        at = next(i for i, text in enumerate(told) if text.startswith(begins))
        page.ask(f"e => e.cards.view('lessons').go({at})")
        page.painted()
        gains = [gain("when", *pair) for pair in lanes]
        shown = page.element.locator(".lesson .worth tbody tr b").all_inner_texts()
        assert [float(each.rstrip("×")) for each in shown] == pytest.approx(
            sorted(gains, key=gains.index), rel=0.1
        ) or ([float(each.rstrip("×")) for each in reversed(shown)] == pytest.approx(gains, rel=0.1))
        said = re.findall(r"(?:ran|reached) ([\d.]+) times", told[at])
        assert [float(each) for each in said] == pytest.approx(gains, rel=0.1)
        if "The larger target gains more" in told[at]:
            assert gains[1] > gains[0]
        if "The larger target gains less" in told[at]:
            assert gains[1] < gains[0]
        found.append(told[at])
    return found


@pytest.mark.browser
def test_the_lesson_about_servers_says_what_was_recorded(browser: Any, own_run: list[AnyEvent], tmp_path: Path) -> None:
    """With the shipped recording: counters, p of the strangest token, and the cards of both audits."""
    events = list(lessons.events("servers"))
    audits = [AuditProgress(**each) for each in lessons.audited("servers")]
    page = Alone(browser, taught(tmp_path / "run.html", own_run, {"servers": events}, {}, {"servers": audits}))
    told = list(walk(page, 1))
    wrong = audits[1].server
    served = [event for event in events if isinstance(event, Served) and event.lane == wrong][-1]
    assert f"{served.accepted} of {served.drafted} drafted tokens were accepted" in told[1]
    (forced,) = (event for event in events if isinstance(event, TargetProbs) and event.lane == wrong)
    rarely = re.search(r"the target samples it there once in ([\d,]+) times", told[2])
    assert rarely is not None and float(rarely[1].replace(",", "")) == pytest.approx(1 / min(forced.p), rel=0.06)
    assert forced.log_p is not None
    nats = page.page.evaluate("(x) => Inside.formatFigure(x)", abs(forced.log_p))
    assert f"on average log p is {nats} nats {'below' if forced.log_p < 0 else 'above'} that" in told[3]
    assert f"it took {audits[1].texts} texts: it differs from its target" in told[4]
    cards = page.element.locator(".lesson .audit")
    assert [card.get_attribute("data-result") for card in cards.all()] == ["same", "differs"]
    assert page.element.locator(".lesson .audit button:visible").count() == 0
    page.ask("e => { e.shadowRoot.querySelector('.lesson-words details').open = true; }")
    assert audits[1].verdict in page.text(".lesson-words")
    page.ask("e => e.cards.view('lessons').go(2)")
    page.painted()
    assert page.page.evaluate("(p) => Inside.formatProb(p)", min(forced.p)) in page.text(".reconstructed table")
    page.close()


@pytest.mark.browser
def test_a_proposal_is_drawn_to_scale_and_opens_its_round(browser: Any, school: Path) -> None:
    """Widths are the recorded milliseconds of one round of each lane, on one ruler with a plain forward."""
    page = Alone(browser, school)
    next(walk(page, 1 + page.ask(LESSONS).index("heads")))
    bars = page.ask(
        "e => [...e.shadowRoot.querySelectorAll('.lesson .scale-bar')]"
        ".map((bar) => bar.getBoundingClientRect().width / bar.parentElement.getBoundingClientRect().width)"
    )
    rounds = page.ask(
        "e => Inside.proposalsOf(Inside.textsOf(e.store)[0]).map(({ lane, round }) =>"
        " ({ drafter: lane.start.drafter, index: round.index, ms: round.timings.propose.reduce((a, b) => a + b) }))"
    )
    assert [own["drafter"] for own in rounds] == ["draft", "eagle3"]
    plain = page.ask("e => Inside.median(e.store.lanes[0].rounds.map((r) => r.timings.verify))")
    ruler = max(plain, *(own["ms"] for own in rounds))
    wanted = [max(ms / ruler, 0.0) for ms in (plain, *(own["ms"] for own in rounds))]
    assert bars == pytest.approx(wanted, abs=0.01)
    for row, own in zip(page.element.locator(".lesson .scale-row").all()[1:], rounds, strict=True):
        row.locator("button").first.click()
        page.painted()
        shown = page.ask("e => [e.cursor.at.lane.start.drafter, e.cursor.at.round]")
        assert shown == [own["drafter"], own["index"]]
    page.close()


@pytest.mark.browser
def test_places_are_counted_as_the_engine_counts_them(
    browser: Any, school: Path, recorded: dict[str, list[AnyEvent]]
) -> None:
    page = Alone(browser, school)
    next(walk(page, 1 + page.ask(LESSONS).index("heads")))
    found = page.ask("e => e.store.lanes.slice(1).map((lane) => [lane.name, Inside.byPlace(lane)])")
    for lane, places in found:
        whole = [r for r in recorded["heads"] if isinstance(r, Round) and r.lane == lane and not r.cut]
        for k, place in enumerate(places):
            assert place["accepted"] == sum(r.accepted > k for r in whole)
            assert place["reached"] == sum(r.accepted >= k and r.drafted > k for r in whole)
    page.close()


@pytest.mark.browser
def test_a_column_stands_for_every_round_that_prepared_drafts(
    browser: Any, school: Path, recorded: dict[str, list[AnyEvent]]
) -> None:
    page = Alone(browser, school)
    told = walk(page, 1 + page.ask(LESSONS).index("ahead"))
    said = next(text for text in told if "draft ahead" in text)
    rounds = [r for r in recorded["ahead"] if isinstance(r, Round) and r.lane == "prepared"]
    notes = [note for r in rounds[:-1] for note in r.annotations if isinstance(note, Prefetch)]
    hits = sum(note.hit for note in notes)
    assert f"In {hits} of {len(notes)} rounds the actual outcome was among them" in said
    assert page.element.locator(".prefetch rect.hit").count() == hits
    assert page.element.locator(".prefetch rect.miss").count() == len(notes) - hits
    page.close()


@pytest.mark.browser
def test_speeds_by_length_and_by_batch_are_those_of_the_records(
    browser: Any, school: Path, recorded: dict[str, list[AnyEvent]], swept: dict[str, list[record_sweep.Swept]]
) -> None:
    page = Alone(browser, school)
    next(walk(page, 1 + page.ask(LESSONS).index("when")))
    ends = {lane: [r.end for r in recorded["when"] if isinstance(r, Round) and r.lane == lane for _ in r.emitted]
            for lane in ("plain", LANE)}  # fmt: skip
    assert page.element.locator(".lesson .worth tbody tr").count() == 4  # two drafts on two texts, side by side
    assert len(set(page.element.locator(".lesson .worth tbody th").all_inner_texts())) == 2
    found = page.ask("e => Inside.byLength(e.store)")
    assert [at["y"] for at in found] == pytest.approx([a / b for a, b in zip(ends["plain"], ends[LANE], strict=False)])
    plain = {(run.batch, run.repeat): run.seconds for run in swept["when"] if run.drafter == "plain"}
    for series in page.ask("e => Inside.byBatch(e.store.sweep)"):
        for at in series["points"]:
            own = [run for run in swept["when"] if (f"γ {run.gamma}", run.batch) == (series["name"], at["x"])]
            ratios = [plain[run.batch, run.repeat] / run.seconds for run in own]
            assert len(ratios) == record_lessons.SWEPT["when"].repeats
            assert at["all"] == pytest.approx(ratios)
            assert at["y"] == pytest.approx(median(ratios))
    for _ in range(4):
        page.element.get_by_role("button", name="Next", exact=True).click()
        page.painted()
    drawn = page.element.locator(".sweep circle").evaluate_all(
        "(all) => all.map((c) => [c.cx, c.cy].map((v) => v.baseVal.value))"
    )
    plan = record_lessons.SWEPT["when"]
    assert len(drawn) == len(plan.gammas) * len(plan.batches)
    below = page.ask("e => Number(e.shadowRoot.querySelector('.sweep line.one').getAttribute('y1'))")
    speeds = [at["y"] for series in page.ask("e => Inside.byBatch(e.store.sweep)") for at in series["points"]]
    assert [y < below for _, y in drawn] == [speed > 1 for speed in speeds]
    page.close()


BELOW = {
    (1.5, 1.2, 1.0): "never slower than plain decoding, from batch 1 to 4",
    (0.9, 0.5, 0.99): "slower than plain decoding at every batch from 1 to 4",
    (1.5, 0.9, 0.8): "slower than plain decoding from batch 2 to the last, 4",
    (0.5, 0.9, 1.1): "slower than plain decoding up to batch 2, and not slower from 4 to 4",
    (1.5, 0.9, 1.8): "slower than plain decoding at 1 of the 3 measured values of batch",
}


@pytest.mark.browser
def test_what_crosses_is_said_as_it_was_measured(browser: Any, school: Path) -> None:
    page = Alone(browser, school)
    for speeds, words in BELOW.items():
        points = [{"x": x, "y": y} for x, y in zip((1, 2, 4), speeds, strict=True)]
        assert page.page.evaluate("(points) => Inside.belowWords(points, 'batch')", points) == words
    page.close()


@pytest.mark.slow
@pytest.mark.browser
def test_the_run_that_was_shown_comes_back(browser: Any, school: Path) -> None:
    page = Alone(browser, school)
    before = page.text("h2:visible"), page.ask("e => e.store.run")
    page.ask("""e => {
        const player = e.cards.view('lessons');
        player.start(player.all.findIndex((lesson) => lesson.title === 'Trees') + 1);
    }""")
    page.until("e => e.store.run === 'trees'")
    page.painted()
    page.element.get_by_role("button", name="All lessons").click()
    page.painted()
    assert (page.text("h2:visible"), page.ask("e => e.store.run")) == before
    assert "lesson" not in page.page.url
    assert page.element.locator(".lane").count() == 1
    page.close()


@pytest.mark.slow
@pytest.mark.browser
def test_a_run_goes_on_behind_a_lesson_and_a_new_one_ends_it(browser: Any, school: Path, own_run: Any) -> None:
    page = Alone(browser, school)
    lines = [json.loads(files.line(event)) for event in own_run]
    half = len(lines) // 2
    feed = "(e, d) => e.feed(JSON.stringify(d))"
    delta: dict[str, Any] = {"seq": 0, "run": "r2", "ev": lines[:half], "source": "live", "state": "running"}
    page.element.evaluate(feed, delta)
    page.ask("e => e.cards.view('lessons').start(1)")
    page.until("e => e.store.run === 'rows'")
    page.element.evaluate(feed, {"seq": half, "run": "r2", "ev": lines[half:], "state": "done"})
    page.painted()
    assert page.ask("e => e.store.run") == "rows"
    page.ask("e => e.cards.view('lessons').leave()")
    page.painted()
    assert page.ask("e => [e.store.run, e.store.lanes[0].tokens.length]") == ["own", 12]
    page.ask("e => e.cards.view('lessons').start(1)")
    page.until("e => e.store.run === 'rows'")
    page.element.evaluate(feed, delta | {"run": "r3", "ev": lines})
    page.painted()
    assert page.ask("e => e.store.run") == "own"
    assert page.element.locator(".lesson").is_hidden()
    assert page.ask("e => e.main.dataset.show") is None
    page.close()


@pytest.mark.slow
@pytest.mark.browser
def test_lessons_in_the_other_width_and_theme(browser: Any, school: Path) -> None:
    page = Alone(browser, school, viewport={"width": 1440, "height": 900}, color_scheme="light", bypass_csp=True)
    for number in range(1, len(page.ask(LESSONS)) + 1):
        for _ in walk(page, number):
            assert page.page.evaluate("document.documentElement.scrollWidth") <= 1440
        page.shot(f"lesson-{number}")
        assert violations(page.page) == []
    assert_the_list_is_accessible(page)
    page.close()


@pytest.mark.slow
@pytest.mark.browser
def test_phones_have_every_step_of_every_lesson(browser: Any, tmp_path: Path) -> None:
    assert record_steps.steps_of(browser, record_steps.shipped(tmp_path / "run.html")) == recorded_steps()


@pytest.mark.slow
@pytest.mark.browser
def test_a_hostile_recording_stays_text(
    browser: Any,
    own_run: list[AnyEvent],
    recorded: dict[str, list[AnyEvent]],
    swept: dict[str, list[record_sweep.Swept]],
    audited: dict[str, list[AuditProgress]],
    tmp_path: Path,
) -> None:
    runs = {name: hostile(events, emulates=False) for name, events in recorded.items()}
    evil = {"verdict": EVIL, "program": EVIL, "different": True, "example": {"prompt": EVIL, "text": EVIL}}
    told = {name: [each.model_copy(update=evil) for each in audits] for name, audits in audited.items()}
    page = Alone(browser, taught(tmp_path / "run.html", own_run, runs, swept, told))
    for number in range(1, len(page.ask(LESSONS)) + 1):
        list(walk(page, number))
    assert page.page.evaluate("window.pwned") is None
    assert page.ask("e => e.shadowRoot.querySelectorAll('img, script, iframe').length") == 0
    page.close()
