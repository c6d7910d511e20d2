// The four doors: addresses of one page. What is behind the others is neither shown nor painted. And the menus of the
// header, which stands on all of them.

import { fromAddress, queryWith, setInAddress } from "../base/address.js";
import { given } from "../base/given.js";

/** What stands on the core's own door. */
const WATCH =
  "A large model writes one token (about a word) a pass. A small one guesses the next few; one pass checks them all.";

/** The sentence of a door. */
export const aimOf = (name) => (name === "watch" ? WATCH : given.doors[name]);

let door = "watch";
let entered = () => {};

export const doorNow = () => door;

/** An address names its door, or a place behind one; a door that is a file of its own says so. */
function named() {
  if (given.files) return document.documentElement.dataset.door;
  const name = fromAddress("door");
  if (name === "watch" || Object.hasOwn(given.doors, name)) return name;
  return given.cards.find(({ place }) => place && fromAddress(place))?.door || "watch";
}

/** From now on; called once. */
export function openDoors() {
  enter(named());
  addEventListener("popstate", () => enter(named()));
  document.addEventListener("click", pressed);
  document.addEventListener("keydown", (event) => event.key === "Escape" && closeMenus(true));
}

/** `act()` is called at every door that is entered. */
export function onDoor(act) {
  entered = act;
}

/** `words` of the address lead to a place behind the door. */
export function openDoor(name, words) {
  if (name === door && !words) return;
  const places = given.cards.filter(({ place }) => place).map(({ place }) => [place, null]);
  const query = { door: name === "watch" || given.files ? null : name, ...Object.fromEntries(places), ...words };
  if (given.files && name !== door) {
    location.assign(given.files[name] + queryWith(query));
    return;
  }
  setInAddress(query, true);
  enter(name);
  window.scrollTo(0, 0);
}

function enter(name) {
  door = name;
  document.documentElement.dataset.door = name;
  showDoor();
  entered();
}

/** The header follows; once more when the host has built it. */
export function showDoor() {
  const links = document.querySelectorAll("nav a[data-door]");
  for (const link of links) {
    if (link.dataset.door === door) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  if (!links.length) return; // a file of its own has its own title
  layOut();
  document.title = door === "watch" ? "Draftscope" : `${door[0].toUpperCase()}${door.slice(1)} · Draftscope`;
}

/** Shows what the host has behind this door, an accordion, and opens it once: Gradio builds what is in it only then. */
function layOut() {
  for (const box of document.querySelectorAll(".ds-door"))
    box.classList.toggle("ds-here", box.id === `ds-door-${door}`);
  const button = document.querySelector(".ds-door.ds-here > button:not([data-pressed])");
  if (!button) return;
  button.dataset.pressed = "";
  button.click();
}

function pressed(event) {
  const at = event.target instanceof Element ? event.target : null;
  const link = at?.closest("a[data-door]");
  if (link && !event.ctrlKey && !event.metaKey && !event.shiftKey) {
    event.preventDefault();
    openDoor(link.dataset.door);
  }
  const opener = at?.closest("[data-opens]");
  const open = opener && opener.getAttribute("aria-expanded") !== "true";
  if (!at?.closest(".ds-menu") || at.closest("#ds-share button, #ds-drafters button")) closeMenus();
  if (open) setMenu(opener, true);
}

function setMenu(opener, open) {
  opener.setAttribute("aria-expanded", String(open));
  document.getElementById(opener.dataset.opens)?.classList.toggle("ds-open", open);
}

function closeMenus(focus = false) {
  for (const opener of document.querySelectorAll("[data-opens][aria-expanded=true]")) {
    setMenu(opener, false);
    if (focus) opener.focus();
  }
}
