// What is in a directory: a grid of thumbnails and names.

import { button, element, note } from "./dom.js";
import { readableName, readableSize } from "./format.js";
import { thumbnail } from "./thumbnails.js";

const SHOWN = 500; // entries at a time

/** Return the entries of a directory as buttons; `item.enter` shows one. */
export function folderView(item) {
  if (!item.entries.length) {
    return [note("It is empty.")];
  }
  const list = element("ul", { className: "entries" });
  const more = button("Show more", () => addNext());
  const addNext = () => {
    const from = list.children.length;
    const next = item.entries.slice(from, from + SHOWN);
    list.append(...next.map((entry) => tile(item, entry)));
    more.hidden = list.children.length >= item.entries.length;
    if (from) {
      list.children[from].querySelector("button").focus();
    }
  };
  addNext();
  return [list, more, ...(item.more ? [note("Not all entries are shown.")] : [])];
}

function tile(item, entry) {
  const made = button("", () => item.enter(entry), { className: "entry", title: readableName(entry.name) });
  made.append(
    thumbnail({ type: entry.type ?? "", size: entry.size, path: `${item.path}/${entry.quoted}` }),
    element("span", { className: "entry-name", textContent: readableName(entry.name) }),
    element("span", { className: "entry-size", textContent: readableSize(entry.size) }),
  );
  return element("li", {}, made);
}
