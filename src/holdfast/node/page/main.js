// The page: one list of pins, ways to add to it, and dialogs over it.

import * as adding from "./adding.js";
import { unpin } from "./api.js";
import { byId, notify, prepareDialogs } from "./dom.js";
import * as pins from "./pins.js";
import * as preview from "./preview.js";
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
  byId("confirm-name").textContent = pin.name || "(no name)";
  byId("confirm-cid").textContent = pin.cid;
  byId("confirm-error").textContent = "";
  byId("confirm").showModal();
}

async function confirmUnpin(event) {
  event.preventDefault(); // the dialog stays until the node has done it
  byId("confirm-yes").disabled = true;
  try {
    await unpin(toUnpin.cid);
    byId("confirm").close();
    notify(`${toUnpin.name || toUnpin.cid} is unpinned`);
    await pins.refresh();
  } catch (error) {
    byId("confirm-error").textContent = error.message;
  } finally {
    byId("confirm-yes").disabled = false;
  }
}

const KEYS = {
  "/": () => byId("search").focus(),
  "?": () => byId("help").showModal(),
  r: () => pins.refresh(),
  u: () => byId("files").click(),
  j: () => adding.writeJson(),
  ArrowLeft: () => pins.turn(-1),
  ArrowRight: () => pins.turn(1),
  ArrowDown: () => pins.focusRow(0),
};

function onKey(event) {
  const isTyping = event.target.closest?.("input, textarea, select");
  const isBusy = byId("workspace").hidden || document.querySelector("dialog[open]");
  if (event.target === byId("search") && ["ArrowDown", "Enter"].includes(event.key)) {
    event.preventDefault();
    pins.focusRow(0);
    return;
  }
  const isMeant = !isTyping && !isBusy && !event.ctrlKey && !event.metaKey && !event.altKey;
  if (isMeant && !event.defaultPrevented && Object.hasOwn(KEYS, event.key)) {
    event.preventDefault();
    KEYS[event.key]();
  }
}

applyTheme(THEMES.find((theme) => theme === localStorage.getItem("holdfast-theme")) ?? "system");
prepareDialogs();
preview.prepare();
pins.prepare({ look: preview.look, unpin: askToUnpin });
adding.prepare(() => pins.refresh());
byId("theme").addEventListener("click", nextTheme);
byId("refresh").addEventListener("click", () => pins.refresh());
byId("help-button").addEventListener("click", () => byId("help").showModal());
byId("confirm").querySelector("form").addEventListener("submit", confirmUnpin);
addEventListener("keydown", onKey);
// What others pinned in the meantime is seen when one comes back to the page.
document.addEventListener("visibilitychange", () => {
  if (!document.hidden && !byId("workspace").hidden) {
    pins.refresh();
  }
});
start(() => pins.refresh());
