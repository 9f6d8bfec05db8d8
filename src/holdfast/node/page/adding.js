// What comes in: files and folders, dropped, chosen or pasted, one upload after the other; and JSON.

import { pinFiles, pinJson } from "./api.js";
import { button, byId, copy, element, notify, readableSize } from "./dom.js";

const queue = [];
let running = false;
let onPinned = () => {};

/** Wire everything up; `pinned` is called whenever something was pinned. */
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
  input.value = ""; // the same file may be chosen again
  return files;
}

function addFiles(files) {
  for (const file of files) {
    enqueue([{ file, path: file.name || "client-file" }], file.name || "pasted file");
  }
}

function addFolder(files) {
  if (files.length) {
    const parts = files.map((file) => ({ file, path: file.webkitRelativePath }));
    enqueue(parts, parts[0].path.split("/")[0]);
  }
}

// Dropping

const isReady = () => !byId("workspace").hidden && !document.querySelector("dialog[open]");
const hasFiles = (event) => event.dataTransfer?.types.includes("Files");
const mark = (over) => byId("add").classList.toggle("over", over);

function onDragOver(event) {
  if (hasFiles(event)) {
    event.preventDefault(); // else the browser would leave the page to show the file
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
  // The entries must be asked for now: the event's data is gone after the first wait.
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
    await gather(folder, folder.name, files);
    if (files.length) {
      enqueue(files, folder.name);
    } else {
      notify(`There is no file in ${folder.name}.`, { failed: true });
    }
  } catch (error) {
    notify(`${folder.name} cannot be read: ${error.message}`, { failed: true });
  }
}

async function gather(folder, path, files) {
  const reader = folder.createReader();
  for (;;) {
    const entries = await new Promise((resolve, reject) => reader.readEntries(resolve, reject));
    if (!entries.length) {
      return;
    }
    for (const entry of entries) {
      const below = `${path}/${entry.name}`;
      if (entry.isDirectory) {
        await gather(entry, below, files);
      } else {
        const file = await new Promise((resolve, reject) => entry.file(resolve, reject));
        files.push({ file, path: below });
      }
    }
  }
}

// Uploading

function enqueue(files, name) {
  const size = files.reduce((sum, { file }) => sum + file.size, 0);
  const stop = new AbortController();
  const bar = element("progress", { max: 1, value: 0, ariaLabel: `Upload of ${name}` });
  const words = element("span", { className: "what", textContent: `${name}: waits` });
  const end = button("Cancel", () => stop.abort());
  const item = element("li", {}, words, end, bar);
  byId("uploads").append(item);
  queue.push({ files, name, size, stop, bar, words, end, item });
  if (!running) {
    work();
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
  const { name, size, bar, words, end, item, stop } = upload;
  const onProgress = (done, total) => {
    bar.value = total ? done / total : 1;
    words.textContent =
      done < total ? `${name}: ${readableSize(done)} of ${readableSize(total)}` : `${name}: is being pinned`;
  };
  try {
    stop.signal.throwIfAborted();
    words.textContent = `${name}: ${readableSize(size)}`;
    const reply = await pinFiles(upload.files, name, { onProgress, signal: stop.signal });
    item.remove();
    announce(name, reply);
  } catch (error) {
    bar.remove();
    words.classList.add("failed");
    words.textContent = `${name}: ${stop.signal.aborted ? "cancelled" : error.message}`;
    end.replaceWith(button("Dismiss", () => item.remove()));
  }
}

function announce(name, reply) {
  const what = name || reply.IpfsHash;
  notify(reply.isDuplicate ? `${what} was pinned already, under its first name` : `${what} is pinned`);
  onPinned(reply);
}

// JSON

export function writeJson(text = "") {
  byId("json-text").value = text;
  byId("json-name").value = "";
  byId("json-error").textContent = "";
  byId("json").showModal();
  byId(text ? "json-name" : "json-text").focus();
}

async function submitJson(event) {
  event.preventDefault(); // the dialog stays until the node has it
  const text = byId("json-text").value;
  const name = byId("json-name").value.trim();
  const error = byId("json-error");
  const submit = event.submitter ?? byId("json").querySelector("[type=submit]");
  error.textContent = "";
  submit.disabled = true;
  try {
    JSON.parse(text);
    const reply = await pinJson(text, name);
    byId("json").close();
    announce(name, reply);
  } catch (problem) {
    error.textContent =
      problem instanceof SyntaxError ? `This is not JSON: ${problem.message}` : problem.message;
  } finally {
    submit.disabled = false;
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
