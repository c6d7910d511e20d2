// The clipboard.

/** Whether the text is on the clipboard now; a page without a secure address may not use it. */
export async function copied(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return false;
  }
}
