// The colours and faces of assets/theme.json, as the variables that the style sheets use.

import { given } from "./given.js";

const variables = (colours) =>
  Object.entries(colours)
    .map(([name, value]) => `--${name}: ${value};`)
    .join(" ");

export function themeCss() {
  const { light, dark, sans, mono } = given.theme;
  return `:host { ${variables(light)} --sans: ${sans}; --mono: ${mono}; }\n:host([data-theme="dark"]) { ${variables(dark)} }`;
}
