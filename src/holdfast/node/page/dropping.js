// Files and folders that are dropped on the page, chosen or pasted.

import { isReady } from "./dialogs.js";
import { byId } from "./dom.js";
import { readableName } from "./format.js";
import { notify } from "./notices.js";
import { enqueue } from "./uploads.js";
import { write } from "./writing.js";

export function prepare() {
  byId("choose-files").addEventListener("click", () => byId("files").click());
  byId("choose-folder").addEventListener("click", () => byId("folder").click());
  byId("files").addEventListener("change", () => addFiles(take(byId("files"))));
  byId("folder").addEventListener("change", () => addFolder(take(byId("folder"))));
  addEventListener("paste", onPaste);
  addEventListener("dragover", onDragOver);
  addEventListener("dragleave", (event) => event.relatedTarget || mark(false));
  addEventListener("drop", onDrop);
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

const hasFiles = (event) => event.dataTransfer?.types.includes("Files");
const mark = (over) => (byId("drop").hidden = !over);

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

function onPaste(event) {
  const inField = event.target.closest?.("input, textarea");
  if (inField || !isReady()) {
    return;
  }
  const files = [...event.clipboardData.files];
  const text = event.clipboardData.getData("text/plain");
  if (files.length) {
    event.preventDefault();
    addFiles(files);
  } else if (text.trim()) {
    event.preventDefault();
    write(text);
  }
}
