// The view of a file or directory, by its media type. Content is only ever text, an image or a player.

import { readText } from "./api.js";
import { csvTable } from "./csv.js";
import { button, element, icon, note } from "./dom.js";
import { folderView } from "./folder_view.js";
import { readableSize } from "./format.js";
import { reindent } from "./json_text.js";
import { jsonTree } from "./json_tree.js";
import { markdownView } from "./markdown.js";
import { iconOf } from "./thumbnails.js";
import { typeWords } from "./types.js";

const TEXT_SHOWN = 256 * 1024;
const JSON_SHOWN = 1024 * 1024;
const TEXTUAL = /^(text\/|inode\/symlink|application\/(javascript|x-sh|toml|yaml|xml|x-yaml|rtf|.*\+xml))/;

/** Return the elements that show an item. `item.show` replaces them by others later. */
export async function viewOf(item) {
  const type = item.type?.split(";")[0] ?? "";
  if (item.kind === "directory") {
    return folderView(item);
  }
  if (item.size === 0) {
    return [note("It is empty.")];
  }
  if (type.startsWith("image/")) {
    const image = element("img", { src: item.path, alt: item.title });
    image.onerror = () => image.replaceWith(note("The browser cannot show this image."));
    return [image];
  }
  if (type.startsWith("video/") || type.startsWith("audio/")) {
    const player = element(type.split("/")[0], { src: item.path, controls: true, preload: "metadata" });
    player.ariaLabel = item.title;
    player.onerror = () => player.replaceWith(note("The browser cannot play this file."));
    return [player];
  }
  if (type === "application/json" || type.endsWith("+json")) {
    return item.size > JSON_SHOWN ? text(item) : rendered(item, JSON_SHOWN, json);
  }
  if (type === "text/markdown") {
    return rendered(item, TEXT_SHOWN, (source) => markdownView(source, item.path));
  }
  if (type === "text/csv" || type === "text/tab-separated-values") {
    return rendered(item, TEXT_SHOWN, csvTable);
  }
  return TEXTUAL.test(type) ? text(item) : noPreview(item, type);
}

/** Return the text, rendered by `render`, with a button to show its source; the source if it cannot be rendered. */
async function rendered(item, limit, render) {
  const source = await readText(item.path, item, limit, item.signal);
  const view = render(source);
  if (!view) {
    return plain(item, source, limit);
  }
  const back = () => [toggle("Show rendered", () => item.show(() => shown))];
  const shown = [
    toggle("Show source", () => item.show(() => [...back(), ...plain(item, source, limit)])),
    ...view,
    ...cutNote(item, limit),
  ];
  return shown;
}

const toggle = (label, action) => button(label, action, { className: "toggle" });

async function text(item) {
  return plain(item, await readText(item.path, item, TEXT_SHOWN, item.signal), TEXT_SHOWN);
}

const plain = (item, source, limit) => [element("pre", { textContent: source }), ...cutNote(item, limit)];

const cutNote = ({ size }, limit) =>
  size > limit ? [note(`The first ${readableSize(limit)} of ${readableSize(size)}.`)] : [];

function json(source) {
  const indented = reindent(source);
  return indented === null ? null : [jsonTree(indented) ?? element("pre", { textContent: indented })];
}

/** Say what a file is that is not shown. Browsers show no PDF here: the node's content is in a sandbox. */
function noPreview(item, type) {
  const words = type === "application/pdf" ? "PDF files are not shown here. Download the file to read it" : "There is no preview for this type";
  return [
    element(
      "div",
      { className: "no-preview" },
      icon(iconOf(type)),
      element("p", { textContent: `${words}.` }),
      element("p", { className: "note", textContent: typeWords(type) }),
      type === "application/pdf"
        ? element("a", {
            className: "button main", href: `${item.path}?${new URLSearchParams({ download: "true", filename: item.title })}`,
            download: "", rel: "noreferrer", textContent: "Download the PDF",
          })
        : button("Show as text", () => item.show(() => text(item))),
    ),
  ];
}
