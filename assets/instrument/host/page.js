// What the hosting page does around the instrument: hands over deltas, keeps the settings in the address, copies the
// link, switches the theme. None of it is needed where the element is hosted by something else.

(function (D) {
  "use strict";
  D.early = [];
  D.host = { events: [], trigger: () => {}, server: {} }; // nothing can be asked for until `D.connect`

  /** The host says how it is asked: `trigger(event, data)` for the `events` that it listens to, and `server`, functions that answer. */
  D.connect = function connect(host) {
    D.host = host;
  };

  /** Called by the host for every delta; deltas that come before the element is ready are kept. */
  D.receive = function receive(text) {
    const instrument = document.querySelector("draftscope-instrument");
    if (instrument && instrument.shadowRoot) instrument.feed(text);
    else if (text) D.early.push(text);
  };

  // A press of Run or Step waits until the address's settings stand in the controls: it would send others.
  let arrived = false;
  let pressed = null;
  const runs = "#ds-run, #ds-step";
  document.addEventListener("click", (event) => {
    const button = event.target instanceof Element && event.target.closest(runs);
    if (arrived || !button) return;
    event.stopImmediatePropagation();
    event.preventDefault();
    pressed = button;
    button.setAttribute("aria-busy", "true");
  }, true);

  /** The host has set the controls; the page lays them out before the waiting press goes on. */
  D.settingsArrived = function settingsArrived() {
    D.showTaught();
    setTimeout(() => {
      arrived = true;
      if (!pressed) return;
      pressed.removeAttribute("aria-busy");
      pressed.click();
      pressed = null;
    }, 50);
  };

  /** The instrument asks the host for something whose answer comes as deltas: a fork, a comparison, a check, other settings. */
  D.ask = function ask(kind, asked) {
    D.wanted = asked;
    D.host.trigger(kind, { asked });
  };

  D.canAsk = (kind) => D.host.events.includes(kind);

  /** The answer of one of the server's functions; undefined, and a sentence on the page, where none came. */
  async function call(name, question) {
    const answer = await D.host.server[name]?.(question);
    if (answer === undefined) D.say("The server did not answer; reload the page to start afresh.");
    return answer;
  }

  /** Asks for the whole run that is shown. */
  D.again = async () => D.receive(await call("again", null));

  /** Asks for a lesson's recorded run. */
  D.lesson = async (name) => D.receive(await call("lesson", name));

  D.press = (button) => document.querySelector(`#ds-${button}`).click();

  /** The name of the lesson whose run is shown, or nothing: what is saved is what is shown. */
  D.lessonShown = () => document.querySelector("draftscope-instrument").lessons.trace || "";

  /** The host's controls, with what a lesson asks to try. */
  D.attempted = (names, values) => values.map((value, i) => (names[i] in D.wanted ? D.wanted[names[i]] : value));

  D.say = function say(text, link, offer) {
    const instrument = document.querySelector("draftscope-instrument");
    if (instrument && instrument.say) instrument.say(text, link, offer);
  };

  /** What the engine process says of itself, in the page's header. */
  D.showEngine = function showEngine(sentence) {
    const place = document.querySelector(".ds-engine");
    if (place) D.setText(place, sentence);
  };

  let uses = {}; // drafter -> the settings it reads, once the engine has told
  let chosen = {}; // of the settings that decide which others are shown, those that were changed

  /** Which settings are shown, as updates for the host: those that the chosen drafter reads, `readWith` another's value. */
  function shown({ names, readWith, first }) {
    const now = { ...first, ...chosen };
    const own = uses[now.drafter] || ["gamma", "draft_length", "rule"];
    const isRead = (name) => {
      const [other, values] = readWith[name] || [];
      return other ? own.includes(other) && values.includes(now[other]) : own.includes(name);
    };
    return names.map((name) => ({ __type__: "update", visible: isRead(name) }));
  }

  /** One of the deciding settings has another value. Each tells of itself: the host's events may come in any order. */
  D.show = function show(rules, change) {
    chosen = { ...chosen, ...change };
    return shown(rules);
  };

  /** The host has said something: perhaps what its drafters read. */
  D.told = function told(rules, said) {
    uses = (said && JSON.parse(said).uses) || uses;
    return shown(rules);
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
    names.forEach((name, i) => {
      const value = values[i];
      if (value === null || value === undefined || String(value) === String(defaults[i])) return;
      parameters.set(name, String(value));
    });
    for (const name of D.KEPT) if (D.asked(name)) parameters.set(name, D.asked(name));
    if (parameters.toString().length > LONGEST) parameters.delete("prompt");
    const text = parameters.toString();
    return text ? `?${text}` : "";
  };

  /** The address follows the settings. */
  D.remember = (query) => D.tell(query);

  D.copyLink = async function copyLink(query, space, prompt) {
    const left = prompt && prompt.length > LONGEST / 3 && !query.includes("prompt=") ? " The prompt is too long for a link and is left out." : "";
    const base = space ? `https://huggingface.co/spaces/${space}` : location.origin + location.pathname;
    const link = base + query;
    const taught = D.teacherQuery(query);
    const offer = query === taught ? null : { text: "As a teacher's link: settings fixed, controls hidden", act: () => D.copyLink(taught, space, prompt) };
    try {
      await navigator.clipboard.writeText(link);
      D.say("The link is copied; it opens this page with these settings." + left, link, offer);
    } catch {
      D.say("The clipboard is closed to this page; here is the link to copy." + left, link, offer);
    }
  };

  /** What is shown is saved, as a trace ("trace") or as a page that plays by itself ("page"). */
  D.save = async function save(kind) {
    const file = await call("save", { kind, lesson: D.lessonShown() });
    if (!file) return;
    if (file.note) return D.say(file.note);
    D.hand(new Blob([Uint8Array.from(atob(file.data), (c) => c.charCodeAt(0))]), file.name);
    if (kind === "trace") D.say("The run is saved as a trace, which Load run opens again.", "", { text: "Save as a page that plays offline", act: () => D.save("page") });
  };

  /** Narrow pages fold the settings away, so that the run comes first. */
  D.unfoldSettings = function unfoldSettings() {
    const open = document.querySelector("#ds-controls").classList.toggle("ds-open");
    document.querySelector("#ds-settings").setAttribute("aria-expanded", String(open));
  };

  D.flipTheme = () => document.body.classList.toggle("dark");
})(window.Draftscope);
