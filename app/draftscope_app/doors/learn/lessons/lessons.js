// The lessons, in their order. A lesson is {title, about, trace, steps(store), last, question(store), answer(store),
// attempt}; a step is {show: pictures, act(host), say, figure(store)}. `say` is a string or a list of strings and
// elements, in which [[term]] and [[term|as shown]] are explained.
//
// Pure except `act`, which moves the page's own cursor. No text contains a number or token of its own: all come from
// the lesson's recording (tests/programs/record_lessons.py). A step whose event did not happen is left out.

import { lesson as acceptance } from "./texts/acceptance.js";
import { lesson as ahead } from "./texts/ahead.js";
import { lesson as bonus } from "./texts/bonus.js";
import { lesson as heads } from "./texts/heads.js";
import { lesson as jitter } from "./texts/jitter.js";
import { lesson as poor } from "./texts/poor.js";
import { lesson as round } from "./texts/one-round.js";
import { lesson as rows } from "./texts/rows.js";
import { lesson as servers } from "./texts/servers.js";
import { lesson as trees } from "./texts/trees.js";
import { lesson as when } from "./texts/when.js";

export const LESSONS = [rows, round, acceptance, bonus, poor, trees, heads, ahead, jitter, when, servers];
