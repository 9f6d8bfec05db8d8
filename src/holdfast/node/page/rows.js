// The rows of the list, one for each pin, with buttons and keys. The focus stays on the pin when rows move.

import { linkTo } from "./api.js";
import { button, byId, element, iconButton } from "./dom.js";
import { counted, readableDate, readableName, relativeTime, sizeShown } from "./format.js";
import { readTexts, shownName } from "./made_up_names.js";
import { copy } from "./notices.js";
import { typeWords } from "./types.js";
import * as selection from "./selection.js";
import { thumbnail } from "./thumbnails.js";

const CID_END = 6; // characters at the end of a CID that are always shown
const MINUTE = 60000;

const body = () => byId("pins").tBodies[0];
let actions;
let drawn = "[]";
let focused = null; // the last row with the focus: its CID, its index, and the index of its focused control

/** Add the event listeners; `actions` are the functions that show, edit and unpin a pin. */
export function prepare(given) {
  actions = given;
  body().addEventListener("keydown", onKey);
  body().addEventListener("click", onClick);
  body().addEventListener("focusin", ({ target }) => {
    const row = target.closest("tr");
    focused = { cid: row.pin.cid, place: row.sectionRowIndex, control: controlsOf(row).indexOf(target) };
  });
  setInterval(showTimes, MINUTE);
}

const controlsOf = (row) => [...row.querySelectorAll("button, input")];

/** Show these pins. If they have not changed, keep the rows, with their selected text and focus. */
export function draw(listed) {
  const now = JSON.stringify(listed);
  if (now !== drawn) {
    const hadFocus = body().contains(document.activeElement);
    drawn = now;
    body().replaceChildren(...listed.map((each) => rowOf(pinOf(each))));
    selection.show();
    if (hadFocus) {
      focusAgain();
    }
    drawAgain(now, listed);
  }
}

/** Draw the rows again once the texts of pins without a name are there, unless others are shown by then. */
async function drawAgain(now, listed) {
  if ((await readTexts(listed)) && drawn === now) {
    drawn = "";
    draw(listed);
  }
}

/** Return the pins that are shown. */
export const shownPins = () => [...body().rows].map((row) => row.pin);

export function focusRow(place) {
  body().rows[place]?.querySelector("td.name button").focus();
}

/** Focus the pin that had the focus, or the pin at its place, or the search. */
export function focusAgain() {
  const rows = [...body().rows];
  const same = rows.find((row) => row.pin.cid === focused?.cid);
  const target = same ?? rows[Math.min(focused?.place ?? 0, rows.length - 1)];
  if (!target) {
    byId("search").focus();
  } else if (same) {
    controlsOf(same)[focused.control].focus();
  } else {
    focusRow(target.sectionRowIndex);
  }
}

/** Return a pin of the node's list as the page uses it. */
export function pinOf(listed) {
  const cid = listed.ipfs_pin_hash;
  return {
    cid,
    name: listed.metadata.name ?? "",
    shown: shownName(listed),
    keyvalues: listed.metadata.keyvalues ?? {},
    path: `/ipfs/${cid}`,
    size: listed.size,
    type: listed.mime_type.split(";")[0],
    files: listed.number_of_files,
    date: listed.date_pinned,
    copies: listed.copies ?? {},
  };
}

/** Return key-values as texts, such as "kind: test". */
export const pairsOf = (keyvalues) =>
  Object.entries(keyvalues).map(([key, value]) => `${readableName(key)}: ${readableName(String(value), "")}`);

const STATES = ["proven", "claimed", "missing", "unknown"];

/** Return where the copies of a pin are, as pairs such as ["proven", "disk, pinata"]. */
export const copiesOf = ({ copies }) =>
  STATES.map((state) => [state, Object.keys(copies).filter((place) => copies[place] === state)])
    .filter(([, places]) => places.length)
    .map(([state, places]) => [state, places.map((place) => readableName(place)).join(", ")]);

const tag = (text, kind = "") => element("span", { className: `tag ${kind}`, title: text, textContent: text });

function rowOf(pin) {
  const kind = pin.type === "directory" ? `folder with ${counted(pin.files, "file")}` : pin.type;
  const tags = [
    ...copiesOf(pin).toReversed().map(([state, places]) => tag(`${state}: ${places}`, state)), // what is missing first
    ...pairsOf(pin.keyvalues).map((text) => tag(text)),
  ];
  const act = (name, label, action) => iconButton(name, `${label}: ${pin.shown}`, () => action(pin));
  const time = element("time", { dateTime: pin.date, textContent: relativeTime(pin.date) });
  const row = element(
    "tr",
    {},
    element("td", { className: "check" }, selection.checkboxOf(pin)),
    element(
      "td",
      { className: "name" },
      element(
        "div",
        {},
        thumbnail(pin),
        button(pin.shown, () => actions.look(pin), { className: "plain", title: pin.shown }),
        element("span", { className: "tags", title: tags.map((each) => each.textContent).join(", ") }, ...tags),
      ),
    ),
    element(
      "td",
      { className: "cid", title: pin.cid },
      element("span", { textContent: pin.cid.slice(0, -CID_END) }),
      element("span", { textContent: pin.cid.slice(-CID_END) }),
    ),
    element("td", { className: "type", title: kind, textContent: typeWords(pin.type) }),
    element("td", { className: "size", ...sizeShown(pin.size) }),
    element("td", { className: "date", title: readableDate(pin.date) }, time),
    element(
      "td",
      { className: "row-actions" },
      element(
        "div",
        {},
        act("copy", "Copy CID", copyCid),
        act("link", "Copy link", copyLink),
        act("edit", "Edit", actions.edit),
        act("unpin", "Unpin", actions.unpin),
      ),
    ),
  );
  row.pin = pin;
  return row;
}

function showTimes() {
  for (const time of body().querySelectorAll("time")) {
    time.textContent = relativeTime(time.dateTime);
  }
}

const copyCid = (pin) => copy(pin.cid, "CID");
const copyLink = (pin) => copy(linkTo(pin.path), "Link");

/** Show the pin of a row that is clicked on, unless a control or a selection of text was meant. */
function onClick({ target }) {
  const { pin } = target.closest("tr");
  if (target.closest("button, input") || !getSelection().isCollapsed) {
    return;
  }
  if (target.closest(".check")) {
    selection.toggle(pin); // beside the checkbox, by a hand that was not exact
  } else {
    actions.look(pin);
  }
}

function onKey(event) {
  const row = event.target.closest("tr");
  const keys = {
    ArrowDown: () => focusRow(row.sectionRowIndex + 1),
    ArrowUp: () => focusRow(Math.max(0, row.sectionRowIndex - 1)),
    Home: () => focusRow(0),
    End: () => focusRow(body().rows.length - 1),
    x: () => selection.toggle(row.pin),
    X: () => selection.toggle(row.pin, { range: true }),
    c: () => copyCid(row.pin),
    l: () => copyLink(row.pin),
    e: () => actions.edit(row.pin),
    Delete: () => (selection.count() ? actions.unpinSelected() : actions.unpin(row.pin)),
  };
  const isPlain = !event.ctrlKey && !event.metaKey && !event.altKey;
  if (isPlain && Object.hasOwn(keys, event.key)) {
    event.preventDefault();
    keys[event.key]();
  }
}
