// A class's room as its pages reach it: posts, its stream, and what a reload of this tab must find again.

const SILENT_MS = 40000; // after which a stream, which says something every 15 s, has broken without a word
const ROOM = "draftscope-class";

/** A post of JSON; the answer, or an error whose message is the server's sentence and whose status is in `status`. */
export async function post(path, body, headers = {}) {
  const response = await fetch(path, {
    method: "POST",
    headers: { "content-type": "application/json", ...headers },
    body: JSON.stringify(body),
  });
  const answer = response.status === 204 ? {} : await response.json().catch(() => ({}));
  if (!response.ok)
    throw Object.assign(new Error(answer.error || "The server did not answer."), { status: response.status });
  return answer;
}

/** A post that only the presenter may make: turn, show, take, qr, proposals. */
export const postAs = (room, what, body) => post(`class/${room.code}/${what}`, body, { "x-class-key": room.key });

/** Keeps what a reload must find again; a browser that keeps nothing does without. */
const keptIn = (storage) => ({
  read(name) {
    try {
      return JSON.parse(storage().getItem(name));
    } catch {
      return null;
    }
  },
  write(name, value) {
    try {
      storage().setItem(name, JSON.stringify(value));
    } catch {
      // private windows of some browsers keep nothing
    }
  },
});

/** What all tabs of a device share: whoever opens the room in a second one is still one phone. */
export const device = keptIn(() => localStorage);
const tab = keptIn(() => sessionStorage);

/** The room that this tab has opened: {code, key, ticket}; null without one. */
export const presentedRoom = () => tab.read(ROOM);
export const presentRoom = (room) => tab.write(ROOM, room);

/** Where the presenter's pages listen. The ticket shows that they are of the class, as that in the QR code does. */
export const streamOf = ({ code, ticket }) => `class/${code}/events?ticket=${ticket}`;

/** `heard(state)` for each state of a room, until it ends; `lost()` once where the stream breaks or falls silent. */
export function listen(path, heard, lost) {
  const source = new EventSource(path);
  let timer = 0;
  const close = () => {
    source.close();
    clearTimeout(timer);
  };
  const broken = () => {
    close();
    lost();
  };
  const alive = () => {
    clearTimeout(timer);
    timer = setTimeout(broken, SILENT_MS);
  };
  source.onopen = alive;
  source.addEventListener("here", alive);
  source.onmessage = ({ data }) => {
    alive();
    const state = JSON.parse(data);
    if (state.phase === "end") close();
    heard(state);
  };
  source.onerror = broken;
  alive();
}
