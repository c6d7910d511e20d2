"""Answers in another order than their questions: the newest counts, or none overtakes another."""

from __future__ import annotations

from draftscope.base.assets import assets
from tests.support.node import evaluated

FILE = (assets() / "instrument" / "base" / "order.js").resolve().as_uri()
BEGIN = """
import { readFileSync } from "node:fs";
const { newestOf, oneByOne } = await import(JSON.parse(readFileSync(0, "utf8")).file);
const waiting = [];
const wait = () => new Promise((give, fail) => waiting.push({ give, fail }));
const told = (promise) => promise.then((value) => value ?? null, (error) => `failed: ${error}`);
const end = async (all) => process.stdout.write(JSON.stringify(await Promise.all(all)));
"""
NEWEST = """
const newest = newestOf();
const all = [newest(wait()), newest(wait()), newest(wait())].map(told);
waiting[2].give("new");
waiting[0].give("old");
waiting[1].fail("old");
await new Promise(setImmediate);
all.push(told(newest(Promise.reject("new"))));
await end(all);
"""
ORDER = """
const inOrder = oneByOne(), sent = [];
const ask = (name) => () => { sent.push(name); return wait(); };
const all = ["a", "b", "c"].map((name) => told(inOrder(ask(name))));
await null;
const before = [...sent];
waiting[0].fail("lost");
await all[0];
await new Promise(setImmediate);
const behind = [...sent];
waiting[1].give("B");
await all[1];
await new Promise(setImmediate);
waiting[2].give("C");
await end([before, behind, sent, ...all]);
"""


def test_the_newest_answer_counts_whichever_comes_last() -> None:
    """Its failure, too; of an older one neither."""
    assert evaluated(BEGIN + NEWEST, {"file": FILE}) == [None, None, "new", "failed: new"]


def test_one_question_waits_for_the_answer_of_another_whether_it_failed_or_not() -> None:
    told = evaluated(BEGIN + ORDER, {"file": FILE})
    assert told == [["a"], ["a", "b"], ["a", "b", "c"], "failed: lost", "B", "C"]
