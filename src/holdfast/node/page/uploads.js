// Uploads: several at a time, with the progress of all together. The others wait for their turn.

import { linkTo, pinFiles } from "./api.js";
import { byId } from "./dom.js";
import { counted, readableName, readableNumber } from "./format.js";
import { copy, notify } from "./notices.js";
import * as panel from "./upload_panel.js";

const AT_ONCE = 5; // a browser opens six connections to a server
const PAUSE = 1000; // milliseconds between two refreshes of the list

const batch = { uploads: new Set(), waiting: [], running: new Set(), done: 0, duplicates: 0, lastName: "", links: [] };
let onPinned = () => {};
let refreshing = null;

/** Add the event listeners; call `pinned` soon after a new pin. */
export function prepare(pinned) {
  onPinned = pinned;
  byId("cancel-all").addEventListener("click", cancelAll);
  byId("dismiss-uploaded").addEventListener("click", () => (byId("uploaded").hidden = true));
  byId("copy-uploaded").addEventListener("click", () => copy(byId("uploaded").dataset.links, linkWord()));
  byId("forget-token").addEventListener("click", cancelAll);
  byId("retry-failed").addEventListener("click", () => failedOnes().forEach(retry));
  byId("dismiss-failed").addEventListener("click", () => failedOnes().forEach(remove));
  addEventListener("beforeunload", (event) => isBusy() && event.preventDefault());
}

const ofState = (state) => [...batch.uploads].filter((upload) => upload.state === state);
const failedOnes = () => ofState("failed");
const linkWord = () => (byId("uploaded").dataset.links.includes("\n") ? "Links" : "Link");
const isBusy = () => batch.waiting.length + batch.running.size > 0;

/** Add an upload: one file, or the files of one folder. */
export function enqueue(files, name) {
  const upload = {
    files,
    name,
    shown: readableName(name),
    size: files.reduce((sum, { file }) => sum + file.size, 0),
    cancel: () => cancel(upload),
    retry: () => retry(upload),
    dismiss: () => remove(upload),
  };
  batch.uploads.add(upload);
  wait(upload);
}

function wait(upload) {
  Object.assign(upload, { state: "waiting", sent: 0, why: "", stop: new AbortController() });
  batch.waiting.push(upload);
  queueMicrotask(startNext); // all files of a drop are known before the first one starts
}

function startNext() {
  while (batch.waiting.length && batch.running.size < AT_ONCE) {
    run(batch.waiting.shift());
  }
  panel.show(batch);
}

async function run(upload) {
  upload.state = "running";
  batch.running.add(upload);
  const { files, name, size, stop } = upload;
  try {
    const onProgress = (share) => {
      upload.sent = share * size;
      panel.show(batch);
    };
    const reply = await pinFiles(files, name, { size, onProgress, signal: stop.signal });
    finish(upload, reply);
  } catch (error) {
    if (batch.uploads.has(upload)) {
      upload.state = "failed";
      upload.why = stop.signal.aborted ? "cancelled" : error.message;
    }
  } finally {
    batch.running.delete(upload);
    startNext();
    endBatch();
  }
}

function finish(upload, reply) {
  upload.state = "done";
  upload.sent = upload.size;
  upload.files = []; // a long batch holds no files that are done
  batch.done += 1;
  batch.duplicates += reply.isDuplicate ? 1 : 0;
  batch.lastName = upload.shown;
  batch.links.push(linkTo(`/ipfs/${reply.cid}`));
  refreshSoon();
}

function refreshSoon() {
  refreshing ??= setTimeout(() => {
    refreshing = null;
    onPinned();
  }, isBusy() ? PAUSE : 0);
}

/** When nothing is under way any more, say what was pinned, and begin to count again. */
function endBatch() {
  if (isBusy()) {
    return;
  }
  if (batch.done) {
    showUploaded();
    clearTimeout(refreshing);
    refreshing = null;
    onPinned();
  }
  for (const upload of ofState("done")) {
    batch.uploads.delete(upload);
  }
  Object.assign(batch, { done: 0, duplicates: 0, links: [] });
  panel.show(batch);
}

/** Say what was uploaded, with its links to copy, until the user dismisses it or the next batch is done. */
function showUploaded() {
  byId("uploaded").hidden = false;
  byId("uploaded").dataset.links = batch.links.join("\n");
  byId("uploaded-words").textContent = summary(batch);
  byId("copy-uploaded").querySelector("span").textContent = `Copy ${linkWord().toLowerCase()}`;
}

function summary({ done, duplicates, lastName }) {
  if (done === 1) {
    return duplicates ? `${lastName} was already pinned and keeps its earlier name` : `${lastName} is uploaded`;
  }
  const again = duplicates ? `; ${readableNumber(duplicates)} of them ${duplicates === 1 ? "was" : "were"} already pinned` : "";
  return `${counted(done, "item")} are uploaded${again}`;
}

function cancel(upload) {
  upload.stop.abort();
  if (upload.state === "waiting") {
    batch.waiting = batch.waiting.filter((each) => each !== upload);
    remove(upload);
  }
}

function cancelAll() {
  const cancelled = [...batch.waiting, ...batch.running];
  if (!cancelled.length) {
    return;
  }
  batch.waiting = [];
  for (const upload of cancelled) {
    batch.uploads.delete(upload);
    upload.stop.abort();
  }
  notify(`${counted(cancelled.length, "upload")} cancelled`);
  endBatch();
}

function retry(upload) {
  wait(upload);
}

function remove(upload) {
  batch.uploads.delete(upload);
  panel.show(batch);
}
