// The selected pins. They stay selected on other pages of the list, until they are unpinned or cleared.

import { byId, element } from "./dom.js";
import { counted } from "./format.js";
import { copy } from "./notices.js";

const selected = new Map(); // CID -> pin
let last = null; // the CID that was selected or cleared last, from which a range begins

/** Add the event listeners; `unpin` unpins the selected pins. */
export function prepare(unpin) {
  byId("select-all").addEventListener("change", ({ target }) => choose(rowPins(), target.checked));
  byId("unpin-selected").addEventListener("click", unpin);
  byId("copy-selected").addEventListener("click", () => copy([...selected.keys()].join("\n"), "CIDs"));
  byId("clear-selection").addEventListener("click", clear);
}

export const count = () => selected.size;
export const selectedPins = () => [...selected.values()];

export function clear() {
  selected.clear();
  last = null;
  show();
}

/** Take pins out of the selection, because they are gone. */
export function drop(pins) {
  choose(pins, false);
}

/** Return the checkbox for the row of a pin. */
export function checkboxOf(pin) {
  const box = element("input", { type: "checkbox", ariaLabel: `Select: ${pin.shown}` });
  box.onclick = (event) => {
    toggle(pin, { range: event.shiftKey });
  };
  return box;
}

/** Select a pin, or clear it if it is selected; with `range`, do the same to all pins from the last one on. */
export function toggle(pin, { range = false } = {}) {
  const pins = rowPins();
  const places = [last, pin.cid].map((cid) => pins.findIndex((each) => each.cid === cid));
  const isRange = range && places[0] >= 0 && places[1] >= 0;
  const chosen = isRange ? pins.slice(Math.min(...places), Math.max(...places) + 1) : [pin];
  last = pin.cid;
  choose(chosen, !selected.has(pin.cid));
}

function choose(pins, isWanted) {
  for (const pin of pins) {
    if (isWanted) {
      selected.set(pin.cid, pin);
    } else {
      selected.delete(pin.cid);
    }
  }
  show();
}

const rows = () => [...byId("pins").tBodies[0].rows];
const rowPins = () => rows().map((row) => row.pin);

/** Show which rows are selected, and the bar with what can be done with them. */
export function show() {
  let here = 0;
  for (const row of rows()) {
    const isSelected = selected.has(row.pin.cid);
    row.classList.toggle("selected", isSelected);
    row.querySelector("input").checked = isSelected;
    here += isSelected;
  }
  const all = byId("select-all");
  all.checked = here > 0 && here === rows().length;
  all.indeterminate = here > 0 && !all.checked;
  byId("selection").hidden = !selected.size;
  byId("selected").textContent = selected.size ? `${counted(selected.size, "pin")} selected` : "";
}
