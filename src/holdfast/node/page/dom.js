// Elements, words and notices. Text only ever becomes text: nothing here parses HTML.

export const byId = (id) => document.getElementById(id);

/** An element with properties and children, which are elements or text. */
export function element(tag, properties = {}, ...children) {
  const made = Object.assign(document.createElement(tag), properties);
  made.append(...children);
  return made;
}

export function button(label, action, properties = {}) {
  return element("button", { type: "button", textContent: label, onclick: action, ...properties });
}

/** A size for people: three digits are enough for them. */
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

/** A name as it may be shown: what would reorder or hide text stands as a mark, and there is something to click on. */
export function readableName(name, otherwise = "(no name)") {
  const isBlank = !/[^\s\p{C}]/u.test(name);
  return isBlank ? otherwise : name.replaceAll(/[\p{Cc}\u200e\u200f\u202a-\u202e\u2066-\u2069]/gu, "\ufffd");
}

const NOTICES_SHOWN = 3;

/** Say something at the foot of the page, for as long as it takes to read it. */
export function notify(text, { failed = false } = {}) {
  const notices = byId("notices");
  // A dialog hides and silences all that is outside of it.
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
    notify(`The browser does not let this page copy; here it is: ${text}`, { failed: true });
  }
}

async function writeClipboard(text) {
  if (navigator.clipboard) {
    return navigator.clipboard.writeText(text);
  }
  // Over plain HTTP from another machine there is no clipboard API, but still the old way.
  const field = element("textarea", { value: text, className: "hidden" });
  const focused = document.activeElement;
  (focused?.closest("dialog") ?? document.body).append(field);
  field.select();
  const done = document.execCommand("copy");
  field.remove();
  focused?.focus();
  if (!done) {
    throw new Error("copying was refused");
  }
}

/** Whether the list is there to be acted on: somebody is signed in, and no dialog is in front of it. */
export const isReady = () => !byId("workspace").hidden && !document.querySelector("dialog[open]");

/** Every dialog closes by its buttons of that class; one in which nothing is written, by a click beside it too. */
export function prepareDialogs() {
  for (const dialog of document.querySelectorAll("dialog")) {
    for (const close of dialog.querySelectorAll(".close")) {
      close.addEventListener("click", () => dialog.close());
    }
    dialog.addEventListener("close", () => document.body.append(byId("notices")));
    if (!dialog.querySelector("textarea")) {
      closeBeside(dialog);
    }
  }
}

function closeBeside(dialog) {
  let pressedBeside = false; // a selection that was begun inside and ends beside it is no click
  dialog.addEventListener("mousedown", (event) => (pressedBeside = isBeside(dialog, event)));
  dialog.addEventListener("click", (event) => {
    if (pressedBeside && isBeside(dialog, event)) {
      dialog.close();
    }
  });
}

function isBeside(dialog, event) {
  const box = dialog.getBoundingClientRect();
  const inWidth = event.clientX >= box.left && event.clientX <= box.right;
  const inHeight = event.clientY >= box.top && event.clientY <= box.bottom;
  return event.target === dialog && !(inWidth && inHeight);
}
