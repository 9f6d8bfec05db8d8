// Pin by CID: the node fetches the content in the background, and the page says how that ends.

import { cidIn, jobStatus, pinByCid } from "./api.js";
import { onSubmit } from "./dialogs.js";
import { byId } from "./dom.js";
import { readableName } from "./format.js";
import { notify } from "./notices.js";

const PAUSE = 700; // milliseconds between two looks at a job
const FAILED = {
  expired: "no gateway of the node has it. Start the node with --gateway to add one",
  over_max_size: "it is larger than the node allows",
};

/** Add the event listeners; call `pinned` after a new pin. */
export function prepare(pinned) {
  byId("pin-by-cid").addEventListener("click", ask);
  onSubmit(byId("by-cid"), async () => {
    const name = byId("wanted-name").value.trim();
    const job = await pinByCid(cidIn(byId("wanted-cid").value.trim()), name);
    byId("wanted-cid").value = byId("wanted-name").value = "";
    byId("by-cid").close();
    follow(job, readableName(name, job.ipfsHash), pinned);
  });
}

export function ask() {
  byId("by-cid-error").textContent = "";
  byId("by-cid").showModal();
  byId("wanted-cid").focus();
}

async function follow(job, shown, pinned) {
  try {
    for (let looks = 0; ; looks += 1) {
      await new Promise((resolve) => setTimeout(resolve, looks ? PAUSE : 100));
      const status = await jobStatus(job);
      if (!status) {
        notify(`${shown} is pinned`);
        pinned();
        return;
      }
      if (Object.hasOwn(FAILED, status)) {
        notify(`${shown} is not pinned: ${FAILED[status]}.`, { failed: true });
        return;
      }
      if (!looks) {
        notify(`The node looks for ${shown}`);
      }
    }
  } catch (error) {
    notify(`${shown}: ${error.message}`, { failed: true });
  }
}
