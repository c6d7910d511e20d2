// A run that is a file of its own: unpacks the events that lie in the page and hands them to the instrument.

(function (D) {
  "use strict";

  /** base64 of gzipped text -> the text. */
  D.unpacked = async function unpacked(packed) {
    const bytes = Uint8Array.from(atob(packed), (c) => c.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    return new Response(stream).text();
  };

  /** Called once by the file itself. The theme is the reader's own until its button is pressed. */
  D.playAlone = async function playAlone() {
    if (window.matchMedia("(prefers-color-scheme: dark)").matches) document.body.classList.add("dark");
    document.getElementById("theme").addEventListener("click", D.flipTheme);
    const packed = document.getElementById("run").textContent;
    try {
      D.receive(await D.unpacked(packed));
    } catch (error) {
      console.error(error);
      D.say("This browser cannot unpack the run; a browser of 2023 or later can.");
    }
  };
})(window.Draftscope);
