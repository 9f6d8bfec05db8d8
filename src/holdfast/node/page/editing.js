// The dialog to change the name and the key-values of a pin.

import { updatePin } from "./api.js";
import { onSubmit } from "./dialogs.js";
import { button, byId, element } from "./dom.js";
import { notify } from "./notices.js";

const MOST = 10; // key-values of a pin, the service's limit
const LONGEST = 1000; // characters of a key or value

let pin;

/** Add the event listeners; call `changed` after a change, and `closed` when the dialog is closed. */
export function prepare(changed, closed) {
  byId("add-pair").addEventListener("click", () => addPair("", "").querySelector("input").focus());
  byId("edit").addEventListener("close", closed);
  onSubmit(byId("edit"), async () => {
    const edited = pin;
    await updatePin(edited.cid, byId("edit-name").value.trim(), changes(edited.keyvalues, written()));
    if (pin === edited) {
      byId("edit").close();
    }
    notify("Saved");
    changed();
  });
}

/** Open the dialog for a pin. */
export function edit(given) {
  pin = given;
  byId("edit-name").value = pin.name;
  byId("edit-error").textContent = "";
  byId("pairs").replaceChildren();
  for (const [key, value] of Object.entries(pin.keyvalues)) {
    addPair(key, String(value));
  }
  showRoom();
  byId("edit").showModal();
  byId("edit-name").focus();
}

function addPair(key, value) {
  const field = (ariaLabel, text) =>
    element("input", { ariaLabel, value: text, maxLength: LONGEST, autocomplete: "off", spellcheck: false });
  const remove = button("Remove", () => {
    pair.remove();
    showRoom();
    byId("add-pair").focus();
  });
  const pair = element("li", {}, field("Key", key), field("Value", value), remove);
  byId("pairs").append(pair);
  showRoom();
  return pair;
}

function showRoom() {
  byId("add-pair").disabled = byId("pairs").children.length >= MOST;
}

function written() {
  const pairs = [...byId("pairs").children].map((pair) => [...pair.querySelectorAll("input")].map((each) => each.value));
  const keys = pairs.map(([key]) => key.trim());
  if (keys.includes("")) {
    throw new Error("Each key-value needs a key.");
  }
  if (new Set(keys).size < keys.length) {
    throw new Error("Each key can be used only once.");
  }
  return new Map(pairs.map(([key, value]) => [key.trim(), value]));
}

/** Return what to send: new and changed values, and null for keys that are gone. Others keep their type. */
function changes(before, now) {
  const gone = Object.keys(before).filter((key) => !now.has(key)).map((key) => [key, null]);
  const changed = [...now].filter(([key, value]) => !Object.hasOwn(before, key) || String(before[key]) !== value);
  return Object.fromEntries([...gone, ...changed]);
}
