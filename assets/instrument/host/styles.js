// All style sheets, in the order in which they apply: each room's own, then what scenes change of them, then the cards' of tasks. And
// the colours and faces of assets/theme.json, as the variables that they use.

import { given } from "../base/given.js";
import { cardSheets } from "./cards.js";
import base from "../base/style.css" with { type: "css" };
import draw from "../draw/style.css" with { type: "css" };
import run from "../run/style.css" with { type: "css" };
import round from "../round/style.css" with { type: "css" };
import decision from "../decision/style.css" with { type: "css" };
import proof from "../proof/style.css" with { type: "css" };
import servers from "../servers/style.css" with { type: "css" };
import host from "./style.css" with { type: "css" };
import scenes from "./scenes.css" with { type: "css" };

export const sheets = () => [base, draw, run, round, decision, proof, servers, host, scenes, ...cardSheets()];

const variables = (colours) =>
  Object.entries(colours)
    .map(([name, value]) => `--${name}: ${value};`)
    .join(" ");

export function themeCss() {
  const { light, dark, sans, mono } = given.theme;
  return `:host { ${variables(light)} --sans: ${sans}; --mono: ${mono}; }\n:host([data-theme="dark"]) { ${variables(dark)} }`;
}
