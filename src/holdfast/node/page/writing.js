// The dialog for JSON and text. What is written stays in it until it is pinned, even if the dialog is closed.

import { pinJson } from "./api.js";
import { onSubmit } from "./dialogs.js";
import { byId } from "./dom.js";
import { readableName } from "./format.js";
import { notify } from "./notices.js";
import { enqueue } from "./uploads.js";

const TEXT_NAME = "note.txt";

/** Add the event listeners; call `pinned` after a new pin. */
export function prepare(pinned) {
  byId("write-json").addEventListener("click", () => write());
  byId("json-as-text").addEventListener("click", pinText);
  byId("json-text").addEventListener("input", () => (byId("json-as-text").hidden = true));
  onSubmit(byId("json"), async () => {
    const [text, name] = [byId("json-text").value, byId("json-name").value.trim()];
    checkJson(text);
    const reply = await pinJson(text, name);
    if (byId("json-text").value === text) {
      empty();
    }
    const what = readableName(name, reply.IpfsHash);
    notify(reply.isDuplicate ? `${what} was already pinned and keeps its earlier name` : `${what} is pinned`);
    pinned();
  });
}

/** Open the dialog, with a text that was pasted. A text that is not JSON can be pinned as a file. */
export function write(text = "") {
  if (text) {
    byId("json-text").value = text;
  }
  byId("json-as-text").hidden = true;
  byId("json-error").textContent = "";
  byId("json").showModal();
  byId(text ? "json-name" : "json-text").focus();
  if (text) {
    try {
      checkJson(text);
    } catch (error) {
      byId("json-error").textContent = error.message;
    }
  }
}

function empty() {
  byId("json-text").value = byId("json-name").value = "";
  byId("json").close();
}

/** Throw an error if a text is not JSON, and offer to pin it as a file. */
function checkJson(text) {
  try {
    JSON.parse(text);
  } catch (error) {
    byId("json-as-text").hidden = false;
    throw new Error(`This is not JSON: ${error.message}`);
  }
}

function pinText() {
  const name = byId("json-name").value.trim() || TEXT_NAME;
  const file = new File([byId("json-text").value], name, { type: "text/plain" });
  empty();
  const path = name.split("/").at(-1) || TEXT_NAME; // a path with a slash would become a folder
  enqueue([{ file, path }], name);
}
