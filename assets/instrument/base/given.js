// What the page hands over before the instrument starts: `theme` always, and on the dashboard `presets` (prompts by
// kind, for `chat` and for `text`), `chat` (whether the target answers in a chat), `doors` (door -> its sentence), `cards` (of tasks), `metrics` (what each metric means), `labels` (names of settings and values) and
// `network` (the page's address for other machines).

export const given = { presets: {}, chat: false, doors: {}, cards: [], metrics: {}, labels: {}, network: "" };

export function give(values) {
  Object.assign(given, values);
}
