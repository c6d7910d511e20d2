// The files beside the page. A page from a disk may fetch none of them, but may run them as scripts: each calls
// `draftscopeFile(name, content)`.

import { say } from "../../../base/host.js";
import { unpacked } from "../../../base/unpack.js";

const entries = new Map(); // name -> {text: a promise, give: what the script calls}

window.draftscopeFile = (name, packed) => entry(name).give(unpacked(packed));

function entry(name) {
  if (!entries.has(name)) {
    let give;
    const text = new Promise((done) => (give = done));
    entries.set(name, { text, give });
  }
  return entries.get(name);
}

/** The content of a file; undefined, and a sentence on the page, where it is missing. Each is read once. */
export async function readFile(name) {
  const known = entries.has(name);
  const { text, give } = entry(name);
  if (!known) {
    const script = document.createElement("script");
    script.src = `${name}.js`;
    script.onerror = () => {
      say(`The file ${name}.js is missing beside this page; build the site again.`);
      give(undefined);
    };
    document.head.append(script);
  }
  return text;
}
