// The page: connects the list of pins, the uploads, the viewer and the dialogs, and handles keys.

import * as byCid from "./by_cid.js";
import { isReady, prepareDialogs } from "./dialogs.js";
import { byId } from "./dom.js";
import * as dropping from "./dropping.js";
import * as editing from "./editing.js";
import * as live from "./live.js";
import * as menu from "./menu.js";
import * as pins from "./pins.js";
import { go, place } from "./place.js";
import { focusAgain, focusRow } from "./rows.js";
import * as selection from "./selection.js";
import { start } from "./session.js";
import * as snippets from "./start.js";
import * as unpinning from "./unpinning.js";
import * as uploads from "./uploads.js";
import * as viewer from "./viewer.js";
import * as writing from "./writing.js";

const unpin = (pin) => unpinning.ask([pin]);
const unpinSelected = () => unpinning.ask(selection.selectedPins());
const refresh = () => pins.refresh();

/** Show the list as it is by now, and focus the pin that had the focus. */
function backToList() {
  if (isReady()) {
    focusAgain();
    pins.refresh({ onlyChanges: true });
  }
}

async function findFirst() {
  await pins.search();
  focusRow(0);
}

const KEYS = {
  "/": () => byId("search").focus(),
  "?": menu.showKeys,
  r: refresh,
  u: () => byId("files").click(),
  j: () => writing.write(),
  p: byCid.ask,
  ArrowLeft: () => pins.turn(-1),
  ArrowRight: () => pins.turn(1),
  ArrowDown: () => focusRow(0),
  Escape: () => selection.clear(),
};

function onKey(event) {
  const isTyping = event.target.closest?.("input:not([type=checkbox]), textarea, select, [popover]");
  if (event.target === byId("search") && ["ArrowDown", "Enter"].includes(event.key)) {
    event.preventDefault();
    findFirst();
    return;
  }
  const isLeft = event.key === "Escape" && !selection.count(); // to the browser, which closes the menu by it
  const isMeant = !isTyping && !isLeft && isReady() && !event.ctrlKey && !event.metaKey && !event.altKey;
  if (isMeant && !event.defaultPrevented && Object.hasOwn(KEYS, event.key)) {
    event.preventDefault();
    KEYS[event.key]();
  }
}

/** Leave the viewer when the pin that it shows is gone. */
function afterUnpin(gone) {
  if (gone.some((pin) => place().startsWith(pin.path))) {
    viewer.leave();
  }
  return refresh();
}

/** Show the pin as it is by now, in the viewer too. */
async function afterEdit() {
  await refresh();
  viewer.show({ again: true });
}

menu.prepare();
snippets.prepare();
prepareDialogs();
pins.prepare({ look: (pin) => go(pin.path), edit: editing.edit, unpin, unpinSelected });
selection.prepare(unpinSelected);
viewer.prepare({ edit: editing.edit, unpin }, backToList);
unpinning.prepare(afterUnpin, backToList);
editing.prepare(afterEdit, backToList);
uploads.prepare(refresh);
dropping.prepare();
writing.prepare(refresh);
byCid.prepare(refresh);
byId("refresh").addEventListener("click", refresh);
byId("try-again").addEventListener("click", refresh);
addEventListener("keydown", onKey);
live.start();
start(() => {
  selection.clear();
  pins.begin();
}, viewer.show);
