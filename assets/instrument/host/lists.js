// The host's lists of choices open at any key, and stay open over the page when Tab leads out of them.

// What Gradio calls the input of a list: another role in another version.
const CHOOSES = "input:is([role=combobox], [role=listbox])";

/** From now on Tab closes the list that it leaves; called once. */
export function closeLeftLists() {
  document.addEventListener("keydown", leave, true);
}

function leave(event) {
  if (event.key !== "Tab" || !event.isTrusted || !event.target.matches?.(CHOOSES)) return;
  event.stopPropagation();
  event.target.dispatchEvent(new KeyboardEvent("keydown", { key: "Escape", bubbles: true }));
}
