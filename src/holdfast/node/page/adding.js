// Add pins: files and folders that are dropped, chosen or pasted, one upload at a time; and JSON.

import { pinFiles, pinJson } from "./api.js";
import { button, byId, element, isReady, notify, readableName, readableSize } from "./dom.js";

const queue = [];
let running = false;
let onPinned = () => {};

/** Add the event listeners; call `pinned` after each new pin. */
export function prepare(pinned) {
  onPinned = pinned;
  byId("choose-files").addEventListener("click", () => byId("files").click());
  byId("choose-folder").addEventListener("click", () => byId("folder").click());
  byId("write-json").addEventListener("click", () => writeJson());
  byId("files").addEventListener("change", () => addFiles(take(byId("files"))));
  byId("folder").addEventListener("change", () => addFolder(take(byId("folder"))));
  byId("json").querySelector("form").addEventListener("submit", submitJson);
  addEventListener("paste", onPaste);
  addEventListener("dragover", onDragOver);
  addEventListener("dragleave", (event) => event.relatedTarget || mark(false));
  addEventListener("drop", onDrop);
  addEventListener("beforeunload", (event) => running && event.preventDefault());
}

function take(input) {
  const files = [...input.files];
  input.value = ""; // so that the same file can be chosen again
  return files;
}

function addFiles(files) {
  for (const file of files) {
    enqueue([{ file, path: file.name || "client-file" }], file.name || "pasted file");
  }
}

function addFolder(files) {
  if (!files.length) {
    notify("This folder has no files.", { failed: true });
    return;
  }
  const parts = files.map((file) => ({ file, path: file.webkitRelativePath }));
  enqueue(parts, parts[0].path.split("/")[0]);
}

// Dropping

const hasFiles = (event) => event.dataTransfer?.types.includes("Files");
const mark = (over) => byId("add").classList.toggle("over", over);

function onDragOver(event) {
  if (hasFiles(event)) {
    event.preventDefault(); // otherwise the browser opens the file instead of the page
    event.dataTransfer.dropEffect = isReady() ? "copy" : "none";
    mark(isReady());
  }
}

async function onDrop(event) {
  if (!hasFiles(event)) {
    return;
  }
  event.preventDefault();
  mark(false);
  if (!isReady()) {
    return;
  }
  // Read the entries before the first await: the data of the event is gone afterwards.
  const dropped = [...event.dataTransfer.items].map((item) => [item.webkitGetAsEntry?.(), item.getAsFile()]);
  for (const [entry, file] of dropped) {
    if (entry?.isDirectory) {
      await addEntry(entry);
    } else if (file) {
      addFiles([file]);
    }
  }
}

async function addEntry(folder) {
  try {
    const files = [];
    await listFiles(folder, folder.name, files);
    if (files.length) {
      enqueue(files, folder.name);
    } else {
      notify(`${readableName(folder.name)} has no files.`, { failed: true });
    }
  } catch (error) {
    notify(`${readableName(folder.name)} cannot be read: ${error.message}`, { failed: true });
  }
}

async function listFiles(folder, path, files) {
  const reader = folder.createReader();
  for (;;) {
    const entries = await new Promise((resolve, reject) => reader.readEntries(resolve, reject));
    if (!entries.length) {
      return;
    }
    for (const entry of entries) {
      const below = `${path}/${entry.name}`;
      if (entry.isDirectory) {
        await listFiles(entry, below, files);
      } else {
        const file = await new Promise((resolve, reject) => entry.file(resolve, reject));
        files.push({ file, path: below });
      }
    }
  }
}

// Uploading

function enqueue(files, name) {
  const upload = {
    files,
    name,
    shown: readableName(name),
    size: files.reduce((sum, { file }) => sum + file.size, 0),
    stop: new AbortController(),
    bar: element("progress", { max: 1, value: 0, ariaLabel: `Upload of ${readableName(name)}` }),
    words: element("span", { className: "what" }),
    actions: element("span", { className: "actions" }),
  };
  upload.item = element("li", {}, upload.words, upload.actions, upload.bar);
  upload.words.textContent = `${upload.shown}: waiting`;
  upload.actions.append(button("Cancel", () => cancel(upload)));
  byId("uploads").append(upload.item);
  queue.push(upload);
  if (!running) {
    work();
  }
}

function cancel(upload) {
  upload.stop.abort();
  if (queue.includes(upload)) {
    queue.splice(queue.indexOf(upload), 1);
    upload.item.remove();
  }
}

async function work() {
  running = true;
  for (let upload = queue.shift(); upload; upload = queue.shift()) {
    await pin(upload);
  }
  running = false;
}

async function pin(upload) {
  const { files, name, shown, size, stop } = upload;
  upload.words.textContent = `${shown}: ${readableSize(size)}`;
  try {
    const onProgress = (done, total) => showProgress(upload, done, total);
    const reply = await pinFiles(files, name, { onProgress, signal: stop.signal });
    upload.item.remove();
    announce(shown, reply);
  } catch (error) {
    fail(upload, stop.signal.aborted ? "cancelled" : error.message);
  }
}

function showProgress({ shown, bar, words, actions }, done, total) {
  bar.value = total ? done / total : 1;
  if (done < total) {
    words.textContent = `${shown}: ${readableSize(done)} of ${readableSize(total)}`;
  } else {
    words.textContent = `${shown}: pinning`;
    actions.replaceChildren(); // it cannot be cancelled: the node has received all of it
  }
}

function fail({ files, name, shown, item, bar, words, actions }, why) {
  bar.remove();
  words.classList.add("failed");
  words.textContent = `${shown}: ${why}`;
  const again = () => {
    item.remove();
    enqueue(files, name);
  };
  actions.replaceChildren(button("Retry", again), button("Dismiss", () => item.remove()));
}

function announce(what, reply) {
  notify(reply.isDuplicate ? `${what} was already pinned, and keeps its first name` : `${what} is pinned`);
  onPinned();
}

// JSON: the text stays in the dialog until it is pinned, even if the dialog is closed.

export function writeJson(text = "") {
  if (text) {
    byId("json-text").value = text;
  }
  byId("json-error").textContent = "";
  byId("json").showModal();
  byId(text ? "json-name" : "json-text").focus();
}

async function submitJson(event) {
  event.preventDefault(); // keep the dialog open until the node has replied
  const text = byId("json-text").value;
  const name = byId("json-name").value.trim();
  const submit = byId("json").querySelector("[type=submit]");
  byId("json-error").textContent = notJson(text);
  if (byId("json-error").textContent) {
    return;
  }
  submit.disabled = true;
  try {
    const reply = await pinJson(text, name);
    if (byId("json-text").value === text) {
      byId("json-text").value = byId("json-name").value = "";
      byId("json").close();
    }
    announce(readableName(name, reply.IpfsHash), reply);
  } catch (error) {
    byId("json-error").textContent = error.message;
  } finally {
    submit.disabled = false;
  }
}

function notJson(text) {
  try {
    JSON.parse(text);
    return "";
  } catch (error) {
    return `This is not JSON: ${error.message}`;
  }
}

function onPaste(event) {
  const inField = event.target.closest?.("input, textarea");
  if (inField || !isReady()) {
    return;
  }
  const files = [...event.clipboardData.files];
  const text = event.clipboardData.getData("text/plain").trim();
  if (files.length) {
    event.preventDefault();
    addFiles(files);
  } else if (text) {
    event.preventDefault();
    writeJson(text);
  }
}
