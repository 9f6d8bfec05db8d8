// Elements, formatted values, notices and dialogs. Nothing here parses HTML.

export const byId = (id) => document.getElementById(id);

/** Return an element with properties and children, which are elements or text. */
export function element(tag, properties = {}, ...children) {
  const made = Object.assign(document.createElement(tag), properties);
  made.append(...children);
  return made;
}

export function button(label, action, properties = {}) {
  return element("button", { type: "button", textContent: label, onclick: action, ...properties });
}

/** Return a size for people, with three digits. */
export function readableSize(bytes) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let amount = bytes;
  let unit = 0;
  while (amount >= 1024 && unit < units.length - 1) {
    amount /= 1024;
    unit += 1;
  }
  const digits = unit === 0 || amount >= 100 ? 0 : amount >= 10 ? 1 : 2;
  return `${amount.toFixed(digits)} ${units[unit]}`;
}

export const readableNumber = (number) => number.toLocaleString();

export function readableDate(text) {
  const date = new Date(text);
  return date.toLocaleString(undefined, { dateStyle: "medium", timeStyle: "short" });
}

/** Return a name to show: characters that reorder or hide text are replaced, and a blank name by `otherwise`. */
export function readableName(name, otherwise = "(no name)") {
  const isBlank = !/[^\s\p{C}]/u.test(name);
  return isBlank ? otherwise : name.replaceAll(/[\p{Cc}\u200e\u200f\u202a-\u202e\u2066-\u2069]/gu, "\ufffd");
}

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

/** Return whether the list can be used: the user is signed in, and no dialog is open. */
export const isReady = () => !byId("workspace").hidden && !document.querySelector("dialog[open]");

/** Let dialogs close by their close buttons; those without a text field, by a click outside too. */
export function prepareDialogs() {
  for (const dialog of document.querySelectorAll("dialog")) {
    for (const close of dialog.querySelectorAll(".close")) {
      close.addEventListener("click", () => dialog.close());
    }
    dialog.addEventListener("close", () => document.body.append(byId("notices")));
    if (!dialog.querySelector("textarea")) {
      closeOnOutsideClick(dialog);
    }
  }
}

function closeOnOutsideClick(dialog) {
  let pressedOutside = false; // a text selection that ends outside must not close the dialog
  dialog.addEventListener("mousedown", (event) => (pressedOutside = isOutside(dialog, event)));
  dialog.addEventListener("click", (event) => {
    if (pressedOutside && isOutside(dialog, event)) {
      dialog.close();
    }
  });
}

function isOutside(dialog, event) {
  const box = dialog.getBoundingClientRect();
  const inWidth = event.clientX >= box.left && event.clientX <= box.right;
  const inHeight = event.clientY >= box.top && event.clientY <= box.bottom;
  return event.target === dialog && !(inWidth && inHeight);
}
