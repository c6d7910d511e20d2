// What the page hands over before the instrument starts: `theme` always, and on the dashboard `presets` (prompts by
// kind, for `chat` and for `text`), `chat` (whether the target answers in a chat), `doors` (door -> its sentence), `cards` (of tasks), `metrics` (what each metric means), `labels` (names of settings and values) and
// `network` (the page's address for other machines). Where no server is behind the page: `files` (door -> its own file)
// and `served` (a sentence: how it is started with one).

export const given = {
  presets: {},
  chat: false,
  doors: {},
  cards: [],
  metrics: {},
  labels: {},
  network: "",
  files: null,
  served: "",
};

export function give(values) {
  Object.assign(given, values);
}
