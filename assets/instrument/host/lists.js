// The host's lists of choices open at any key, and stay open over the page when Tab leads out of them.

/** From now on Tab closes the list that it leaves; called once. */
export function closeLeftLists() {
  document.addEventListener("keydown", leave, true);
}

function leave(event) {
  if (event.key !== "Tab" || !event.isTrusted || !event.target.matches?.("input[role=listbox]")) return;
  event.stopPropagation();
  event.target.dispatchEvent(new KeyboardEvent("keydown", { key: "Escape", bubbles: true }));
}
