// The prompt's box: it has room for its lines, up to six. While it is written in it grows over what is below it (page.css),
// and nothing moves; it is given that room once the reader has turned to something else.

const LINES = { fewest: 2, most: 6 };
const LINE = 20; // pixels, as page.css has it
const AROUND = 24; // label and edges

/** From now on; called once. */
export function fitComposer() {
  for (const kind of ["click", "keyup"]) document.addEventListener(kind, () => fitPrompt());
}

/** Its text has changed, or the focus has left it. */
export function fitPrompt() {
  const controls = document.querySelector("#ds-controls");
  const text = controls?.querySelector("#ds-prompt textarea");
  if (!text || text === document.activeElement) return;
  text.dir = "auto";
  const lines = Math.round(text.scrollHeight / LINE);
  const room = LINE * Math.min(LINES.most, Math.max(LINES.fewest, lines)) + AROUND;
  controls.style.setProperty("--ds-prompt-room", `${room}px`);
}
