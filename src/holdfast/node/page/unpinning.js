// Unpin one pin or several, after a question.

import { unpin } from "./api.js";
import { byId } from "./dom.js";
import { counted, readableNumber } from "./format.js";
import { notify } from "./notices.js";
import * as selection from "./selection.js";

const AT_ONCE = 4;
const NAMED = 5; // names in the question about several pins

let asked = null; // the pins that the dialog asks about

/** Add the event listeners; call `unpinned` with pins that are gone, and `closed` when the dialog is closed. */
export function prepare(unpinned, closed) {
  byId("confirm").querySelector("form").addEventListener("submit", (event) => {
    event.preventDefault(); // keep the dialog open until the node has replied
    confirm(asked, unpinned);
  });
  byId("confirm").addEventListener("close", closed);
}

/** Ask whether to unpin these pins. */
export function ask(pins) {
  asked = pins;
  const isOne = pins.length === 1;
  const names = pins.slice(0, NAMED).map((pin) => pin.shown).join(", ");
  const more = pins.length - NAMED;
  byId("confirm-title").textContent = isOne ? "Unpin?" : `Unpin ${counted(pins.length, "pin")}?`;
  byId("confirm-name").textContent = more > 0 ? `${names} and ${readableNumber(more)} more` : names;
  byId("confirm-cid").textContent = isOne ? pins[0].cid : "";
  byId("confirm-error").textContent = "";
  byId("confirm-yes").disabled = false;
  byId("confirm").showModal();
}

async function confirm(pins, unpinned) {
  const isAsked = () => asked === pins && byId("confirm").open; // the dialog may ask about others by then
  byId("confirm-yes").disabled = true;
  const { gone, kept, error } = await unpinAll(pins);
  selection.drop(gone);
  if (gone.length) {
    const what = gone.length === 1 ? `${gone[0].shown} is` : `${counted(gone.length, "pin")} are`;
    notify(`${what} unpinned`);
  }
  if (!error) {
    if (isAsked()) {
      byId("confirm").close();
    }
  } else if (isAsked()) {
    byId("confirm-error").textContent =
      pins.length === 1 ? error.message : `${counted(kept.length, "pin")} not unpinned: ${error.message}`;
    asked = kept;
    byId("confirm-yes").disabled = false;
  } else {
    const what = kept.length === 1 ? `${kept[0].shown} is` : `${counted(kept.length, "pin")} are`;
    notify(`${what} still pinned: ${error.message}`, { failed: true });
  }
  if (gone.length) {
    await unpinned(gone);
  }
}

/** Unpin several at a time; return those that are gone, those that stayed, and an error of the latter. */
async function unpinAll(pins) {
  const waiting = [...pins];
  const [gone, kept] = [[], []];
  let error = null;
  const work = async () => {
    for (let pin = waiting.shift(); pin; pin = waiting.shift()) {
      try {
        await unpin(pin.cid);
        gone.push(pin);
      } catch (reason) {
        error = reason;
        kept.push(pin);
      }
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, work));
  return { gone, kept, error };
}
