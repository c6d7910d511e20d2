// What the instrument's modules are held to, beside their format (prettier).

import { readdirSync } from "node:fs";

import js from "@eslint/js";
import globals from "globals";

const ROOMS = ["base", "draw", "run", "round", "decision", "proof", "servers", "host"]; // each imports from those before it
const ROOT = "assets/instrument";
const VENDOR = "vendor"; // as others wrote it, imported by all

for (const { name } of readdirSync(ROOT, { withFileTypes: true }).filter((entry) => entry.isDirectory()))
  if (![...ROOMS, VENDOR].includes(name))
    throw new Error(`${ROOT}/${name} is in no room; name it in ROOMS, in its place.`);

const downward = ROOMS.map((room, i) => ({
  files: [`${ROOT}/${room}/**/*.js`],
  rules: {
    "no-restricted-imports": [
      "error",
      {
        patterns: ROOMS.slice(i + 1).map((above) => ({
          regex: `/${above}/`,
          message: `${above}/ stands above ${room}/, and imports go down only.`,
        })),
      },
    ],
  },
}));

const DOORS = "app/draftscope_app/doors"; // cards of tasks import from all rooms, and from their own door

const doors = readdirSync(DOORS, { withFileTypes: true })
  .filter((entry) => entry.isDirectory() && entry.name !== "__pycache__")
  .map(({ name }) => name);
const apart = doors.map((door) => ({
  files: [`${DOORS}/${door}/*/*.js`],
  rules: {
    "no-restricted-imports": [
      "error",
      { patterns: doors.filter((other) => other !== door).map((other) => ({ regex: `^\\.\\./\\.\\./${other}/` })) },
    ],
  },
}));

export default [
  { ignores: [`**/${VENDOR}/**`] },
  js.configs.recommended,
  {
    languageOptions: { globals: globals.browser },
    linterOptions: { reportUnusedDisableDirectives: "error" },
    rules: {
      eqeqeq: "error",
      "max-lines-per-function": ["error", { max: 60, skipComments: true }],
      "no-duplicate-imports": "error",
      "no-shadow": "error",
      "no-var": "error",
      "prefer-const": "error",
    },
  },
  ...downward,
  ...apart,
];
