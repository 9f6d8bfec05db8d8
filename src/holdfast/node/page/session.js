// The token: from the address's fragment, which no request carries, then for this tab alone.

import { byId } from "./dom.js";

const KEY = "holdfast-token";
let onToken = () => {};

export const token = () => sessionStorage.getItem(KEY) ?? "";

/** Take the token from the address, and out of it: it shall be in no bookmark and no screenshot. */
function takeFromAddress() {
  const given = new URLSearchParams(location.hash.slice(1)).get("token");
  if (given) {
    sessionStorage.setItem(KEY, given);
  }
  if (location.hash) {
    history.replaceState(null, "", location.pathname + location.search);
  }
  return Boolean(given);
}

/** Call `begin` when there is a token, at once or when the user gave one. */
export function start(begin) {
  onToken = begin;
  takeFromAddress();
  byId("sign-in").addEventListener("submit", (event) => {
    event.preventDefault();
    sessionStorage.setItem(KEY, byId("token").value.trim());
    byId("token").value = "";
    enter();
  });
  addEventListener("hashchange", () => takeFromAddress() && enter());
  if (token()) {
    enter();
  } else {
    ask();
  }
}

function enter() {
  byId("sign-in").hidden = true;
  byId("workspace").hidden = false;
  onToken();
}

/** Forget the token, and ask for another; `reason` says why. */
export function ask(reason = "") {
  sessionStorage.removeItem(KEY);
  for (const dialog of document.querySelectorAll("dialog[open]")) {
    dialog.close();
  }
  byId("workspace").hidden = true;
  byId("sign-in").hidden = false;
  if (reason) {
    byId("sign-in-reason").textContent = reason;
  }
  byId("totals").textContent = "";
  byId("token").focus();
}
