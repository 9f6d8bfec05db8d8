// The viewer: shows a pin, or what is inside of it, with its details and the way to its neighbours.

import { describe, linkTo } from "./api.js";
import { button, byId, element, icon } from "./dom.js";
import { sorted } from "./folder_view.js";
import { readableDate, readableName, readableNumber, readableSize } from "./format.js";
import { copy } from "./notices.js";
import { copiesOf } from "./rows.js";
import { typeWords } from "./types.js";
import { viewOf } from "./views.js";

let shown = new AbortController();
let neighbours = []; // functions that show the items beside this one, in order
let place = 0;
let root = null; // the pin that is shown as a whole
let actions;

/** Add the event listeners; `given` has the functions to edit and unpin a pin. Call `closed` at the end. */
export function prepare(given, closed) {
  actions = given;
  const dialog = byId("preview");
  dialog.addEventListener("close", () => {
    shown.abort();
    byId("content").replaceChildren(); // stops a video
    closed();
  });
  dialog.addEventListener("keydown", onKey);
  byId("before").addEventListener("click", () => step(-1));
  byId("after").addEventListener("click", () => step(1));
}

/** Show a pin; `pins` are the pins of the list. */
export function look(pin, pins) {
  if (!byId("preview").open) {
    byId("preview").showModal();
  }
  open(pin, [], pins.map((each) => () => look(each, pins)), pins.indexOf(pin));
}

/** Show the pin as it is in the list by now, if the viewer shows one. */
export function lookAgain(pins) {
  const pin = pins.find((each) => each.cid === root?.cid);
  if (byId("preview").open && pin) {
    look(pin, pins);
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

const step = (by) => neighbours[place + by]?.();

/** Show what is at a path below a pin. Each name has its quoted form too, because it need not be UTF-8. */
async function open(pin, names, beside, at) {
  shown.abort();
  shown = new AbortController();
  const { signal } = shown;
  [neighbours, place, root] = [beside, at, names.length ? null : pin];
  const path = [pin.path, ...names.map((each) => each.quoted)].join("/");
  const title = names.length ? readableName(names.at(-1).name) : pin.shown;
  byId("preview-title").textContent = title;
  byId("preview-title").focus(); // the focused element may be removed
  byId("crumbs").replaceChildren(...crumbs(pin, names));
  byId("position").textContent = beside.length > 1 ? `${readableNumber(at + 1)} of ${readableNumber(beside.length)}` : "";
  byId("before").disabled = at <= 0;
  byId("after").disabled = at >= beside.length - 1;
  byId("facts").replaceChildren();
  byId("content").replaceChildren("…");
  byId("content").className = "";
  byId("preview-actions").replaceChildren();
  const show = (read) => fill(read, signal);
  await show(async () => {
    const item = await describe(path, signal);
    item.entries &&= sorted(item.entries);
    byId("facts").replaceChildren(...facts(item, names.length ? null : pin));
    byId("preview-actions").replaceChildren(...links(item, path, pin, names));
    const enter = (entry) => openEntry(pin, names, item.entries, entry);
    return viewOf({ ...item, path, title, signal, show, enter });
  });
}

function openEntry(pin, names, entries, entry) {
  const beside = entries.map((each) => () => openEntry(pin, names, entries, each));
  open(pin, [...names, entry], beside, entries.indexOf(entry));
}

/** Show the result of `read` or its error, unless something else is shown by then. */
async function fill(read, signal) {
  let content;
  try {
    content = await read();
  } catch (error) {
    content = [element("p", { role: "alert", textContent: error.message })];
  }
  if (!signal.aborted) {
    byId("content").replaceChildren(...content);
    byId("content").scrollTop = 0;
  }
}

/** Return the path to what is shown; each step but the last is a button. */
function crumbs(pin, names) {
  if (!names.length) {
    return [];
  }
  const steps = [pin.shown, ...names.map((each) => readableName(each.name))];
  return steps.flatMap((text, depth) => {
    const link = button(text, () => open(pin, names.slice(0, depth), [], 0), { className: "plain" });
    return depth === names.length ? [element("span", { textContent: text })] : [link, " / "];
  });
}

function facts(item, pin) {
  const isDirectory = item.kind === "directory";
  const size = pin?.size ?? item.size; // of a pin, that of the list
  const rows = [
    ["CID", element("code", { textContent: item.cid })],
    ["Type", element("span", { title: item.type ?? "", textContent: isDirectory ? "Folder" : typeWords(item.type) })],
    ["Entries", isDirectory && `${readableNumber(item.entries.length)}${item.more ? " and more" : ""}`],
    ["Size", size !== undefined && element("span", { title: `${readableNumber(size)} bytes`, textContent: readableSize(size) })],
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
  const name = names.at(-1)?.name ?? pin.name;
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
    ...(names.length
      ? []
      : [act("edit", "Edit", () => actions.edit(pin)), act("unpin", "Unpin", () => actions.unpin(pin))]),
  ];
}
