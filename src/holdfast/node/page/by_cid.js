// Pin by CID: the node fetches the content in the background. What was typed stays until it is pinned.

import { cidIn, jobStatus, pinByCid } from "./api.js";
import { onSubmit } from "./dialogs.js";
import { byId } from "./dom.js";
import { readableName } from "./format.js";
import { notify } from "./notices.js";

const PAUSE = 700; // milliseconds between two looks at a job
const FAILED = {
  expired: "none of the node's gateways has it. Start the node with --gateway to add one",
  over_max_size: "it is larger than the node allows",
};

/** Add the event listeners; call `pinned` after a new pin. */
export function prepare(pinned) {
  byId("pin-by-cid").addEventListener("click", ask);
  onSubmit(byId("by-cid"), async () => {
    const typed = written();
    const name = byId("wanted-name").value.trim();
    const job = await pinByCid(cidIn(byId("wanted-cid").value.trim()), name);
    const shown = readableName(name, job.ipfsHash);
    byId("by-cid-state").textContent = `The node is looking for ${shown}. You can close this dialog.`;
    const following = follow(job, shown, typed, pinned);
    // After the dialog is closed, another CID can be pinned.
    await Promise.race([following, new Promise((closed) => byId("by-cid").addEventListener("close", closed, { once: true }))]);
  });
}

const written = () => `${byId("wanted-cid").value}\n${byId("wanted-name").value}`;

export function ask() {
  byId("by-cid-state").textContent = byId("by-cid-error").textContent = "";
  byId("by-cid").showModal();
  byId("wanted-cid").focus();
}

/** Wait for the end of a job. Say how it ended: in the dialog if that still shows it, else in a notice. */
async function follow(job, shown, typed, pinned) {
  const isShown = () => byId("by-cid").open && written() === typed;
  try {
    await finished(job);
  } catch (error) {
    const words = `${shown} is not pinned: ${error.message}.`;
    if (isShown()) {
      byId("by-cid-state").textContent = "";
      byId("by-cid-error").textContent = words;
    } else {
      notify(words, { failed: true });
    }
    return;
  }
  if (written() === typed) {
    byId("wanted-cid").value = byId("wanted-name").value = "";
    byId("by-cid").close();
  }
  notify(`${shown} is pinned`);
  pinned();
}

async function finished(job) {
  for (let looks = 0; ; looks += 1) {
    await new Promise((resolve) => setTimeout(resolve, looks ? PAUSE : 100));
    const status = await jobStatus(job);
    if (!status) {
      return;
    }
    if (Object.hasOwn(FAILED, status)) {
      throw new Error(FAILED[status]);
    }
  }
}
