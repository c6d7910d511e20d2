// What the page hands over before the instrument starts: `theme` always, and on the dashboard `presets` (prompts by
// kind), `lessonNames` (recorded lessons) and `metrics` (what each metric means).

export const given = { presets: {}, lessonNames: [], metrics: {} };

export function give(values) {
  Object.assign(given, values);
}
