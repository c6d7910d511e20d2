// A file that is dropped anywhere on the page, or was made in it, is opened as by Share, Load run.

/** Of the page around the instrument; a teacher's link hides it, and a file of its own has none. */
const loader = () =>
  document.documentElement.classList.contains("ds-teach") ? null : document.querySelector("#ds-share input[type=file]");

const brings = (event) => !event.defaultPrevented && event.dataTransfer?.types.includes("Files") && loader();

/** From now on; called once. */
export function openDropped() {
  document.addEventListener("dragover", (event) => brings(event) && event.preventDefault());
  document.addEventListener("drop", drop);
}

function drop(event) {
  if (!brings(event)) return;
  event.preventDefault();
  const [file] = event.dataTransfer.files;
  if (file) openFile(file);
}

/** Nothing happens where the page loads no runs. */
export function openFile(file) {
  const input = loader();
  if (!input) return;
  const one = new DataTransfer();
  one.items.add(file);
  input.files = one.files;
  input.dispatchEvent(new Event("change", { bubbles: true }));
}
