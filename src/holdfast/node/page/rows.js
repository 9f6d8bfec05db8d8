// The rows of the list, one for each pin, with buttons and keys. The focus stays on the pin when rows move.

import { linkTo } from "./api.js";
import { button, byId, copy, element, readableDate, readableName, readableNumber, readableSize } from "./dom.js";

const body = () => byId("pins").tBodies[0];
let actions;
let drawn = "[]";
let focused = null; // the last row with the focus: its CID, its index, and the index of its focused button

export function prepare(given) {
  actions = given;
  body().addEventListener("keydown", onKey);
  body().addEventListener("focusin", ({ target }) => {
    const row = target.closest("tr");
    focused = { cid: row.pin.cid, place: row.sectionRowIndex, button: buttonsOf(row).indexOf(target) };
  });
}

const buttonsOf = (row) => [...row.querySelectorAll("button")];

/** Show these pins. If they have not changed, keep the rows, with their selection and focus. */
export function draw(listed) {
  const now = JSON.stringify(listed);
  if (now !== drawn) {
    const hadFocus = body().contains(document.activeElement);
    drawn = now;
    body().replaceChildren(...listed.map(rowOf));
    if (hadFocus) {
      focusAgain();
    }
  }
}

export function focusRow(place) {
  body().rows[place]?.querySelector("button").focus();
}

/** Focus the pin that had the focus, or the pin at its place, or the search. */
export function focusAgain() {
  const rows = [...body().rows];
  const same = rows.find((row) => row.pin.cid === focused?.cid);
  const target = same ?? rows[Math.min(focused?.place ?? 0, rows.length - 1)];
  if (target) {
    buttonsOf(target)[same ? focused.button : 0].focus();
  } else {
    byId("search").focus();
  }
}

function pinOf(listed) {
  const cid = listed.ipfs_pin_hash;
  return {
    cid,
    name: listed.metadata.name ?? "",
    shown: readableName(listed.metadata.name ?? ""),
    path: `/ipfs/${cid}`,
    size: listed.size,
    type: listed.mime_type.split(";")[0],
    files: listed.number_of_files,
    date: listed.date_pinned,
  };
}

function rowOf(listed) {
  const pin = pinOf(listed);
  const kind = pin.type === "directory" ? `directory, files: ${readableNumber(pin.files)}` : pin.type;
  const cell = (className, textContent, title) => element("td", { className, textContent, title });
  const act = (label, action) => button(label, action, { ariaLabel: `${label}: ${pin.shown}` });
  const row = element(
    "tr",
    {},
    element("td", { className: "name" }, button(pin.shown, () => actions.look(pin), { className: "plain" })),
    cell("cid", pin.cid, pin.cid),
    cell("size", readableSize(pin.size), `${readableNumber(pin.size)} bytes`),
    cell("type", pin.type, kind),
    cell("date", readableDate(pin.date), pin.date),
    element(
      "td",
      { className: "row-actions" },
      act("Copy CID", () => copyCid(pin)),
      act("Copy link", () => copyLink(pin)),
      act("Unpin", () => actions.unpin(pin)),
    ),
  );
  row.pin = pin;
  return row;
}

const copyCid = (pin) => copy(pin.cid, "CID");
const copyLink = (pin) => copy(linkTo(pin.path), "Link");

function onKey(event) {
  const row = event.target.closest("tr");
  const keys = {
    ArrowDown: () => focusRow(row.sectionRowIndex + 1),
    ArrowUp: () => focusRow(Math.max(0, row.sectionRowIndex - 1)),
    Home: () => focusRow(0),
    End: () => focusRow(body().rows.length - 1),
    c: () => copyCid(row.pin),
    l: () => copyLink(row.pin),
    Delete: () => actions.unpin(row.pin),
  };
  const isPlain = !event.ctrlKey && !event.metaKey && !event.altKey;
  if (isPlain && Object.hasOwn(keys, event.key)) {
    event.preventDefault();
    keys[event.key]();
  }
}
