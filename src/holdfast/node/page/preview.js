// The preview of a pin: images, audio, video, text, JSON and directories; a link for other types.

import { describe, linkTo, readText } from "./api.js";
import { button, byId, copy, element, readableName, readableNumber, readableSize } from "./dom.js";
import { reindent } from "./json.js";

const TEXT_SHOWN = 256 * 1024;
const JSON_SHOWN = 1024 * 1024;
const TEXTUAL = /^(text\/|inode\/symlink|application\/(javascript|x-sh|toml|yaml|xml|x-yaml|rtf|.*\+xml))/;

let shown = new AbortController();

/** Show a pin. */
export function look(pin) {
  byId("preview").showModal();
  open(pin, []);
}

/** Add the event listeners; call `closed` when the preview is closed. */
export function prepare(closed) {
  byId("preview").addEventListener("close", () => {
    shown.abort();
    byId("content").replaceChildren(); // stops a video
    closed();
  });
}

/** Show what is at a path below a pin. Each name has its quoted form too, because it need not be UTF-8. */
async function open(pin, names) {
  shown.abort();
  shown = new AbortController();
  const { signal } = shown;
  const path = [pin.path, ...names.map((each) => each.quoted)].join("/");
  const title = names.length ? readableName(names.at(-1).name) : pin.shown;
  byId("preview-title").textContent = title;
  byId("preview-title").focus(); // the focused element may be removed
  byId("crumbs").replaceChildren(...crumbs(pin, names));
  byId("facts").replaceChildren();
  byId("content").replaceChildren("…");
  byId("preview-actions").replaceChildren();
  await fill(async () => {
    const item = await describe(path, signal);
    byId("facts").replaceChildren(...facts(item));
    byId("preview-actions").replaceChildren(...links(item, path, names.at(-1)?.name ?? pin.name));
    return contentOf(item, path, title, signal, (entry) => open(pin, [...names, entry]));
  }, signal);
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

function crumbs(pin, names) {
  if (!names.length) {
    return [];
  }
  const steps = [pin.shown, ...names.map((each) => readableName(each.name))];
  return steps.flatMap((step, depth) => {
    const link = button(step, () => open(pin, names.slice(0, depth)), { className: "plain" });
    return depth === names.length ? [step] : [link, " / "];
  });
}

function facts(item) {
  const rows = [["CID", element("code", { textContent: item.cid })]];
  if (item.kind === "directory") {
    rows.push(["Type", "directory"]);
    rows.push(["Entries", `${readableNumber(item.entries.length)}${item.more ? " and more" : ""}`]);
  } else {
    rows.push(["Type", item.type]);
    rows.push(["Size", `${readableSize(item.size)} (${readableNumber(item.size)} bytes)`]);
  }
  return rows.flatMap(([term, value]) => [element("dt", { textContent: term }), element("dd", {}, value)]);
}

function links(item, path, name) {
  const asFile = new URLSearchParams({ download: "true", ...(name && { filename: name }) });
  const query = item.kind === "directory" ? "format=car" : asFile;
  return [
    button("Copy CID", () => copy(item.cid, "CID")),
    button("Copy link", () => copy(linkTo(path), "Link")),
    element("a", { href: path, target: "_blank", rel: "noopener noreferrer", textContent: "Open in a tab" }),
    element("a", {
      href: `${path}?${query}`, download: "", rel: "noreferrer",
      textContent: item.kind === "directory" ? "Download as CAR" : "Download",
    }),
  ];
}

async function contentOf(item, path, name, signal, enter) {
  const type = item.type?.split(";")[0] ?? "";
  if (item.kind === "directory") {
    return directory(item, enter);
  }
  if (item.size === 0) {
    return [note("It is empty.")];
  }
  if (type.startsWith("image/")) {
    const image = element("img", { src: path, alt: name });
    image.onerror = () => image.replaceWith(note("The browser cannot show this image."));
    return [image];
  }
  if (type.startsWith("video/") || type.startsWith("audio/")) {
    const player = element(type.split("/")[0], { src: path, controls: true, preload: "metadata" });
    player.onerror = () => player.replaceWith(note("The browser cannot play this file."));
    return [player];
  }
  if (type === "application/json" || type.endsWith("+json")) {
    return json(path, item, signal);
  }
  if (TEXTUAL.test(type)) {
    return text(path, item, signal);
  }
  const showText = () => fill(() => text(path, item, signal), signal);
  return [note("There is no preview of this type."), button("Show as text", showText)];
}

const note = (words) => element("p", { className: "note", textContent: words });

async function text(path, item, signal) {
  const read = element("pre", { textContent: await readText(path, item, TEXT_SHOWN, signal) });
  const isCut = item.size > TEXT_SHOWN;
  return isCut ? [read, note(`The first ${readableSize(TEXT_SHOWN)} of ${readableSize(item.size)}.`)] : [read];
}

async function json(path, item, signal) {
  if (item.size > JSON_SHOWN) {
    return text(path, item, signal);
  }
  return [element("pre", { textContent: reindent(await readText(path, item, JSON_SHOWN, signal)) })];
}

function directory(item, enter) {
  if (!item.entries.length) {
    return [note("It is empty.")];
  }
  const rows = item.entries.map((entry) =>
    element(
      "tr",
      {},
      element("td", {}, button(readableName(entry.name), () => enter(entry), { className: "plain" })),
      element("td", { textContent: readableSize(entry.size) }),
    ),
  );
  const table = element("table", {}, element("tbody", {}, ...rows));
  return item.more ? [table, note("Not all entries are shown.")] : [table];
}
