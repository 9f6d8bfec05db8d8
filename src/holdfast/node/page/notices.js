// Notices at the bottom of the page, and copying.

import { byId, element } from "./dom.js";

const NOTICES_SHOWN = 3;

/** Show a notice at the bottom of the page for some seconds. */
export function notify(text, { failed = false } = {}) {
  const notices = byId("notices");
  // With an open dialog, only its own content is visible and read aloud.
  (document.querySelector("dialog[open]") ?? document.body).append(notices);
  const kind = failed ? { className: "failed", role: "alert" } : {};
  const notice = element("p", { textContent: text, ...kind });
  notices.append(notice);
  while (notices.children.length > NOTICES_SHOWN) {
    notices.firstElementChild.remove();
  }
  setTimeout(() => notice.remove(), failed ? 12000 : 3000);
}

export async function copy(text, what) {
  try {
    await writeClipboard(text);
    notify(`${what} copied`);
  } catch {
    notify(`The browser does not allow this page to copy. Copy it yourself: ${text}`, { failed: true });
  }
}

async function writeClipboard(text) {
  if (navigator.clipboard) {
    return navigator.clipboard.writeText(text);
  }
  // Over plain HTTP from another machine there is no clipboard API; the older command works.
  const field = element("textarea", { value: text, className: "hidden" });
  const focused = document.activeElement;
  (focused?.closest("dialog") ?? document.body).append(field);
  field.select();
  const done = document.execCommand("copy");
  field.remove();
  focused?.focus();
  if (!done) {
    throw new Error("the browser did not copy");
  }
}
