// Elements, words and notices. Text only ever becomes text: nothing here parses HTML.

export const byId = (id) => document.getElementById(id);

/** An element with properties and children, which are elements or text. */
export function element(tag, properties = {}, ...children) {
  const { dataset, ...plain } = properties;
  const made = Object.assign(document.createElement(tag), plain);
  Object.assign(made.dataset, dataset);
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
  return `${unit ? amount.toPrecision(amount < 1000 ? 3 : 4) : amount} ${units[unit]}`;
}

export const readableNumber = (number) => number.toLocaleString("en");

export function readableDate(text) {
  const date = new Date(text);
  return date.toLocaleString(undefined, { dateStyle: "medium", timeStyle: "short" });
}

/** Say something at the foot of the page, for as long as it takes to read it. */
export function notify(text, { failed = false } = {}) {
  const notice = element("p", { textContent: text, className: failed ? "failed" : "" });
  byId("notices").append(notice);
  setTimeout(() => notice.remove(), failed ? 8000 : 3000);
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

/** Every dialog closes by its buttons of that class, and by a click beside it. */
export function prepareDialogs() {
  for (const dialog of document.querySelectorAll("dialog")) {
    for (const close of dialog.querySelectorAll(".close")) {
      close.addEventListener("click", () => dialog.close());
    }
    let pressedBeside = false;
    dialog.addEventListener("mousedown", (event) => (pressedBeside = event.target === dialog));
    dialog.addEventListener("click", (event) => {
      // A selection that was begun inside and ends beside it is no click beside it.
      if (event.target === dialog && pressedBeside && isBeside(dialog, event)) {
        dialog.close();
      }
    });
  }
}

function isBeside(dialog, event) {
  const box = dialog.getBoundingClientRect();
  const inWidth = event.clientX >= box.left && event.clientX <= box.right;
  return !(inWidth && event.clientY >= box.top && event.clientY <= box.bottom);
}
