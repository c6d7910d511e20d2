// What the hosting page does around the instrument: hands over deltas, keeps the settings in the address, copies the
// link, switches the theme. None of it is needed where the element is hosted by something else.

(function (D) {
  "use strict";
  D.early = [];
  D.again = () => {}; // asks the host for the whole run; the host sets it

  /** Called by the host for every delta; deltas that come before the element is ready are kept. */
  D.receive = function receive(text) {
    const instrument = document.querySelector("draftscope-instrument");
    if (instrument && instrument.shadowRoot) instrument.feed(text);
    else if (text) D.early.push(text);
  };

  D.say = function say(text, link) {
    const instrument = document.querySelector("draftscope-instrument");
    if (instrument && instrument.say) instrument.say(text, link);
  };

  /** What the engine process says of itself, in the page's header. */
  D.showEngine = function showEngine(sentence) {
    const place = document.querySelector(".ds-engine");
    if (place) D.setText(place, sentence);
  };

  /** The next prompt of a kind: pressing a kind again goes on to its next one. */
  D.preset = function preset(kind, current) {
    const prompts = D.presets[kind];
    return prompts[(prompts.indexOf(current) + 1) % prompts.length];
  };

  const LONGEST = 6000; // of a query; servers refuse much longer ones

  /** Settings -> query string; defaults are left out, so that links stay short, and so is a prompt too long for one. */
  D.query = function query(names, values, defaults) {
    const parameters = new URLSearchParams();
    const theme = new URLSearchParams(location.search).get("__theme");
    names.forEach((name, i) => {
      const value = values[i];
      if (value === null || value === undefined || String(value) === String(defaults[i])) return;
      parameters.set(name, String(value));
    });
    if (theme) parameters.set("__theme", theme);
    if (parameters.toString().length > LONGEST) parameters.delete("prompt");
    const text = parameters.toString();
    return text ? `?${text}` : "";
  };

  /** The address follows the settings; a Space's outer page is told, because it does not see its frame's address. */
  D.remember = function remember(query) {
    history.replaceState(null, "", location.pathname + query);
    if (window.parent !== window) window.parent.postMessage({ queryString: query.slice(1) }, "*");
  };

  D.copyLink = async function copyLink(query, space, prompt) {
    const left = prompt && prompt.length > LONGEST / 3 && !query.includes("prompt=") ? " The prompt is too long for a link and is left out." : "";
    const base = space ? `https://huggingface.co/spaces/${space}` : location.origin + location.pathname;
    const link = base + query;
    try {
      await navigator.clipboard.writeText(link);
      D.say("The link is copied; it opens this page with these settings." + left, link);
    } catch {
      D.say("The clipboard is closed to this page; here is the link to copy." + left, link);
    }
  };

  /** A file that Python has made ready is handed to the reader. */
  D.download = function download(file) {
    if (!file || !file.url) return;
    const anchor = D.h("a", { href: file.url, download: file.orig_name || "draftscope-run.jsonl.gz" });
    document.body.append(anchor);
    anchor.click();
    anchor.remove();
  };

  /** Narrow pages fold the settings away, so that the run comes first. */
  D.unfoldSettings = function unfoldSettings() {
    const open = document.querySelector("#ds-controls").classList.toggle("ds-open");
    document.querySelector("#ds-settings").setAttribute("aria-expanded", String(open));
  };

  D.flipTheme = () => document.body.classList.toggle("dark");
})(window.Draftscope);
