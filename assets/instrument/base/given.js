// What the page hands over before the instrument starts: `theme` always, and on the dashboard `presets` (prompts by
// kind), `lessonNames` (recorded lessons), `metrics` (what each metric means), `labels` (names of settings and values) and
// `network` (the page's address for other machines).

export const given = { presets: {}, lessonNames: [], metrics: {}, labels: {}, network: "" };

export function give(values) {
  Object.assign(given, values);
}
