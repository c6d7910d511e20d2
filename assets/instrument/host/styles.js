// All style sheets, in the order in which they apply: each room's own, then what scenes and lessons change of them.

import base from "../base/style.css" with { type: "css" };
import draw from "../draw/style.css" with { type: "css" };
import run from "../run/style.css" with { type: "css" };
import round from "../round/style.css" with { type: "css" };
import decision from "../decision/style.css" with { type: "css" };
import proof from "../proof/style.css" with { type: "css" };
import servers from "../servers/style.css" with { type: "css" };
import host from "./style.css" with { type: "css" };
import scenes from "./scenes.css" with { type: "css" };
import lessons from "../lessons/lessons.css" with { type: "css" };

export const sheets = [base, draw, run, round, decision, proof, servers, host, scenes, lessons];
