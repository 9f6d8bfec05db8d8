// What is in a directory: a list, or a grid of thumbnails and names.

import { button, element, icon, note } from "./dom.js";
import { readableName, sizeShown } from "./format.js";
import { thumbnail } from "./thumbnails.js";
import { typeWords } from "./types.js";

const SHOWN = 500; // entries at a time
const KEY = "holdfast-folders";
const LAYOUTS = ["Grid", "List"];
const COLLATOR = new Intl.Collator(undefined, { numeric: true, sensitivity: "base" });

/** Return the entries of a directory in natural order: "2.txt" before "10.txt". */
export const sorted = (entries) => entries.toSorted((one, other) => COLLATOR.compare(one.name, other.name));

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
  return [layoutButtons(list), list, more, ...(item.more ? [note("Not all entries are shown.")] : [])];
}

/** Return the buttons that switch between list and grid; the choice is kept for all folders. */
function layoutButtons(list) {
  const group = element("div", { className: "layouts", role: "group", ariaLabel: "Layout" });
  const choose = (layout) => {
    localStorage.setItem(KEY, layout);
    list.classList.toggle("as-list", layout === "List");
    for (const each of group.children) {
      each.ariaPressed = String(each.textContent === layout);
    }
  };
  for (const layout of LAYOUTS) {
    const made = button(layout, () => choose(layout));
    made.prepend(icon(layout.toLowerCase()));
    group.append(made);
  }
  choose(LAYOUTS.find((each) => each === localStorage.getItem(KEY)) ?? "Grid");
  return group;
}

function tile(item, entry) {
  const made = button("", () => item.enter(entry), { className: "entry", title: readableName(entry.name) });
  made.append(
    thumbnail({ type: entry.type ?? "", size: entry.size, path: `${item.path}/${entry.quoted}` }),
    element("span", { className: "entry-name", textContent: readableName(entry.name) }),
    element("span", { className: "entry-type", textContent: typeWords(entry.type ?? "") }),
    element("span", { className: "entry-size", ...(entry.type === "directory" ? {} : sizeShown(entry.size)) }),
  );
  return element("li", {}, made);
}
