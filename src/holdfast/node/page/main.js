// The page: connects the list of pins, the uploads and the dialogs, and handles keys.

import * as adding from "./adding.js";
import { unpin } from "./api.js";
import { byId, isReady, notify, prepareDialogs } from "./dom.js";
import * as pins from "./pins.js";
import * as preview from "./preview.js";
import { focusAgain, focusRow } from "./rows.js";
import { start } from "./session.js";

const THEMES = ["system", "light", "dark"];

function applyTheme(theme) {
  document.documentElement.dataset.theme = theme;
  byId("theme").textContent = `Theme: ${theme}`;
}

function nextTheme() {
  const now = document.documentElement.dataset.theme;
  const next = THEMES[(THEMES.indexOf(now) + 1) % THEMES.length];
  localStorage.setItem("holdfast-theme", next);
  applyTheme(next);
}

let toUnpin;

function askToUnpin(pin) {
  toUnpin = pin;
  byId("confirm-name").textContent = pin.shown;
  byId("confirm-cid").textContent = pin.cid;
  byId("confirm-error").textContent = "";
  byId("confirm-yes").disabled = false;
  byId("confirm").showModal();
}

async function confirmUnpin(event) {
  event.preventDefault(); // keep the dialog open until the node has replied
  const pin = toUnpin;
  const isAsked = () => toUnpin === pin && byId("confirm").open; // the dialog may show another pin by then
  byId("confirm-yes").disabled = true;
  try {
    await unpin(pin.cid);
    if (isAsked()) {
      byId("confirm").close();
    }
    notify(`${pin.shown} is unpinned`);
    await pins.refresh();
  } catch (error) {
    if (isAsked()) {
      byId("confirm-error").textContent = error.message;
      byId("confirm-yes").disabled = false;
    } else {
      notify(`${pin.shown} is not unpinned: ${error.message}`, { failed: true });
    }
  }
}

async function findFirst() {
  await pins.search();
  focusRow(0);
}

const KEYS = {
  "/": () => byId("search").focus(),
  "?": () => byId("help").showModal(),
  r: () => pins.refresh(),
  u: () => byId("files").click(),
  j: () => adding.writeJson(),
  ArrowLeft: () => pins.turn(-1),
  ArrowRight: () => pins.turn(1),
};

function onKey(event) {
  const isTyping = event.target.closest?.("input, textarea, select");
  if (event.target === byId("search") && ["ArrowDown", "Enter"].includes(event.key)) {
    event.preventDefault();
    findFirst();
    return;
  }
  const isMeant = !isTyping && isReady() && !event.ctrlKey && !event.metaKey && !event.altKey;
  if (isMeant && !event.defaultPrevented && Object.hasOwn(KEYS, event.key)) {
    event.preventDefault();
    KEYS[event.key]();
  }
}

applyTheme(THEMES.find((theme) => theme === localStorage.getItem("holdfast-theme")) ?? "system");
prepareDialogs();
preview.prepare(focusAgain);
pins.prepare({ look: preview.look, unpin: askToUnpin });
adding.prepare(() => pins.refresh());
byId("theme").addEventListener("click", nextTheme);
byId("refresh").addEventListener("click", () => pins.refresh());
byId("help-button").addEventListener("click", () => byId("help").showModal());
byId("confirm").querySelector("form").addEventListener("submit", confirmUnpin);
byId("confirm").addEventListener("close", focusAgain);
addEventListener("keydown", onKey);
// Show what was pinned elsewhere when the user comes back to the page.
document.addEventListener("visibilitychange", () => {
  if (!document.hidden && !byId("workspace").hidden) {
    pins.refresh();
  }
});
start(pins.begin);
