// The viewer: shows the pin that the address names, or what is inside of it, with its details and its neighbours.

import { describe, findPin, linkTo } from "./api.js";
import { button, byId, element, icon } from "./dom.js";
import { sorted } from "./folder_view.js";
import { readableDate, readableName, readableNumber, sizeShown } from "./format.js";
import { copy } from "./notices.js";
import { go, onPlace, place } from "./place.js";
import { counts, loaded, turn } from "./pins.js";
import { copiesOf, pinOf, shownPins } from "./rows.js";
import { typeWords } from "./types.js";
import { viewOf } from "./views.js";

let shown = { path: "", stop: new AbortController() };
let beside = []; // the paths of the items beside this one, in order
let position = 0;
let isTurning = false; // to another page of the list
let folder = { path: "", item: null }; // the last one, whose entries are the neighbours of each other
let actions;
let whenClosed;

/** Add the event listeners; `given` has the functions to edit and unpin a pin. Call `closed` at the end. */
export function prepare(given, closed) {
  [actions, whenClosed] = [given, closed];
  const dialog = byId("preview");
  dialog.addEventListener("cancel", (event) => {
    event.preventDefault();
    leave();
  });
  dialog.addEventListener("close", () => {
    if (shown.path && !dialog.open) {
      leave(); // a browser closes a dialog without asking when Escape is pressed twice
    }
  });
  dialog.addEventListener("keydown", onKey);
  byId("before").addEventListener("click", () => step(-1));
  byId("after").addEventListener("click", () => step(1));
  onPlace(show);
}

export const leave = () => go("", { replace: true });

/** Show what the address names, and nothing of what it named before; with `again`, even if it is the same. */
export function show({ again = false } = {}) {
  const path = byId("workspace").hidden ? "" : place();
  if (path === shown.path && !(again && path)) {
    return;
  }
  shown.stop.abort();
  shown = { path, stop: new AbortController() };
  const dialog = byId("preview");
  if (path) {
    dialog.open || dialog.showModal();
    open(path, shown.stop.signal);
  } else {
    dialog.close();
    document.title = "Holdfast";
    byId("content").replaceChildren(); // stops a video
    whenClosed();
  }
}

function onKey(event) {
  const steps = { ArrowLeft: -1, ArrowRight: 1 };
  const isWithKey = event.ctrlKey || event.metaKey || event.altKey;
  const scrolls = event.target === byId("content") && event.target.scrollWidth > event.target.clientWidth;
  const isMeant = !isWithKey && !scrolls && !event.target.closest("audio, video");
  if (isMeant && Object.hasOwn(steps, event.key)) {
    event.preventDefault();
    step(steps[event.key]);
  }
}

/** Show the item before or after; of pins, also the one on the page of the list before or after. */
async function step(by) {
  const { path } = shown;
  const isPin = path.split("/").length === 3;
  if (!beside[position + by] && position >= 0 && isPin && !isTurning) {
    isTurning = true;
    const { all } = counts();
    const isTurned = await turn(by);
    isTurning = false;
    const next = isTurned && shownPins().at(by > 0 ? 0 : -1); // none if all were unpinned in between
    if (next && shown.path === path) {
      go(next.path, { replace: true });
    } else if (counts().all !== all && shown.path === path) {
      show({ again: true }); // it has other neighbours, or none
    }
  } else if (beside[position + by]) {
    go(beside[position + by], { replace: true });
  }
}

/** Fill the dialog with what is at a path. Once `signal` is aborted, change nothing: another place is shown. */
async function open(path, signal) {
  const [cid, ...names] = path.split("/").slice(2);
  showTitle(pinHere(cid) ?? unpinned(cid), names);
  showNeighbours([], -1);
  byId("preview-title").focus(); // the focused element may be removed
  byId("facts").replaceChildren();
  byId("preview-actions").replaceChildren();
  byId("content").replaceChildren("…");
  const fillWith = (read) => fill(read, signal);
  await fillWith(async () => {
    const pin = await pinOfCid(cid, signal);
    signal.throwIfAborted();
    const title = showTitle(pin, names);
    const item = await itemAt(path, signal);
    const parent = names.length ? await itemAt(path.slice(0, path.lastIndexOf("/")), signal) : null;
    signal.throwIfAborted();
    const paths = parent ? parent.entries.map((entry) => entryPath(path, entry)) : shownPins().map((each) => each.path);
    showNeighbours(paths, paths.indexOf(path), parent ? undefined : counts());
    byId("facts").replaceChildren(...facts(item, names.length ? null : pin));
    byId("preview-actions").replaceChildren(...links(item, path, pin, names));
    const enter = (entry) => go(`${path}/${entry.quoted}`);
    return viewOf({ ...item, path, title, signal, show: fillWith, enter });
  });
}

const entryPath = (path, entry) => `${path.slice(0, path.lastIndexOf("/"))}/${entry.quoted}`;
const pinHere = (cid) => shownPins().find((pin) => pin.cid === cid);
const unpinned = (cid) => ({ cid, name: "", shown: cid, path: `/ipfs/${cid}`, isUnpinned: true });

/** Return the pin of a CID: of the list, or of another page of it, or one that only has its CID. */
async function pinOfCid(cid, signal) {
  await loaded();
  const row = pinHere(cid) ? null : await findPin(cid, signal).catch(() => null);
  return pinHere(cid) ?? (row ? pinOf(row) : unpinned(cid));
}

async function itemAt(path, signal) {
  if (folder.path === path) {
    return folder.item;
  }
  const item = await describe(path, signal);
  if (item.entries) {
    item.entries = sorted(item.entries);
    folder = { path, item };
  }
  return item;
}

/** Show the name of what is at a path, with the way to it; return the name. */
function showTitle(pin, names) {
  const steps = [pin.shown, ...names.map(nameOf)];
  byId("preview-title").textContent = byId("preview-title").title = steps.at(-1);
  document.title = `${steps.at(-1)} - Holdfast`;
  byId("crumbs").replaceChildren(...(names.length ? crumbs(pin, names, steps) : []));
  return steps.at(-1);
}

/** Return the name that a part of a path quotes. It need not be UTF-8. */
function nameOf(quoted) {
  const bytes = quoted.replaceAll(/%([0-9a-f]{2})|[^%]/gi, (text, code) => (code ? String.fromCharCode(parseInt(code, 16)) : text));
  return readableName(new TextDecoder().decode(Uint8Array.from(bytes, (each) => each.charCodeAt(0))));
}

/** Return the path to what is shown; each step but the last is a button. */
function crumbs(pin, names, steps) {
  return steps.flatMap((text, depth) => {
    const path = [pin.path, ...names.slice(0, depth)].join("/");
    return depth === names.length
      ? [element("span", { textContent: text })]
      : [button(text, () => go(path), { className: "plain" }), " / "];
  });
}

function showNeighbours(paths, at, { before, all } = { before: 0, all: paths.length }) {
  [beside, position] = [paths, at];
  const isOne = at >= 0 && all > 1;
  byId("position").textContent = isOne ? `${readableNumber(before + at + 1)} of ${readableNumber(all)}` : "";
  byId("before").disabled = at < 0 || before + at === 0;
  byId("after").disabled = at < 0 || before + at >= all - 1;
}

/** Show the result of `read` or its error, unless something else is shown by then. */
async function fill(read, signal) {
  let content;
  try {
    content = await read();
  } catch (error) {
    const again = error.status === 0 ? [button("Try again", () => show({ again: true }))] : []; // no reply
    content = [element("p", { role: "alert", textContent: error.message }), ...again];
  }
  if (!signal.aborted) {
    byId("content").replaceChildren(...content);
    byId("content").scrollTop = 0;
  }
}

function facts(item, given) {
  const pin = given?.isUnpinned ? null : given;
  const isDirectory = item.kind === "directory";
  const size = pin?.size ?? item.size; // of a pin, that of the list
  const rows = [
    ["CID", element("code", { textContent: item.cid })],
    ["Type", element("span", { title: item.type ?? "", textContent: isDirectory ? "Folder" : typeWords(item.type) })],
    ["Entries", isDirectory && `${readableNumber(item.entries.length)}${item.more ? " and more" : ""}`],
    ["Size", size !== undefined && element("span", sizeShown(size))],
    ["Pinned", pin && readableDate(pin.date)],
    ...(pin ? copiesOf(pin).map(([state, places]) => [`Copies ${state}`, places]) : []),
    ...Object.entries(pin?.keyvalues ?? {}).map(([key, value]) => [readableName(key), readableName(String(value), "")]),
  ];
  return rows
    .filter(([, value]) => value)
    .flatMap(([term, value]) => [element("dt", { textContent: term }), element("dd", {}, value)]);
}

function links(item, path, pin, names) {
  const isDirectory = item.kind === "directory";
  const name = names.length ? nameOf(names.at(-1)) : pin.name;
  const asFile = { download: "true", ...(name && { filename: name }) };
  const asArchive = (format) => ({ format, download: "true", filename: `${name || item.cid}.${format}` });
  const act = (picture, label, action, properties) => {
    const made = button(label, action, properties);
    made.prepend(icon(picture));
    return made;
  };
  const link = (picture, textContent, properties) => {
    const made = element("a", { className: "button", textContent, ...properties });
    made.prepend(icon(picture));
    return made;
  };
  const download = (label, query) =>
    link("download", label, { href: `${path}?${new URLSearchParams(query)}`, download: "", rel: "noreferrer" });
  return [
    act("copy", "Copy CID", () => copy(item.cid, "CID")),
    act("link", "Copy link", () => copy(linkTo(path), "Link")),
    ...(isDirectory ? [download("Download tar", asArchive("tar")), download("Download CAR", asArchive("car"))] : [download("Download", asFile)]),
    link("open", "Open in a tab", { href: path, target: "_blank", rel: "noopener noreferrer" }),
    ...(names.length || pin.isUnpinned
      ? []
      : [act("edit", "Edit", () => actions.edit(pin)), act("unpin", "Unpin", () => actions.unpin(pin))]),
  ];
}
