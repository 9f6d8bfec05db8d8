// The token: from the address's fragment, which no request carries, then for this tab alone.

import { accepts, WRONG_TOKEN } from "./api.js";
import { byId, notify } from "./dom.js";
import { forgetToken, keepToken, onRefused, token } from "./token.js";

const SENDABLE = /^[\x21-\x7e]+$/; // what a header can hold
let begin = () => {};

/** Call `given` whenever there is a token: at once, or when the user gave one. */
export function start(given) {
  begin = given;
  byId("sign-in").addEventListener("submit", (event) => {
    event.preventDefault();
    tryToken(byId("token").value.trim(), ask);
  });
  byId("change-token").addEventListener("click", () => ask());
  onRefused(() => {
    forgetToken();
    ask(WRONG_TOKEN);
  });
  addEventListener("hashchange", fromAddress);
  fromAddress();
}

function fromAddress() {
  const given = new URLSearchParams(location.hash.slice(1)).get("token");
  if (location.hash) {
    // It shall stand in no bookmark, no screenshot and no link that is copied from the address bar.
    history.replaceState(null, "", location.pathname + location.search);
  }
  if (given) {
    tryToken(given, token() ? goOn : ask);
  } else if (token()) {
    enter();
  } else {
    ask();
  }
}

/** A link with a bad token does not end what works. */
function goOn(why) {
  enter();
  notify(why, { failed: true });
}

/** Go on with another token, if it is any good; else `otherwise` is told why not. */
async function tryToken(given, otherwise) {
  let why = "";
  try {
    if (!SENDABLE.test(given)) {
      why = "This is no token: it has characters that no token has. Was it cut short or changed?";
    } else if (!(await accepts(given))) {
      why = WRONG_TOKEN;
    }
  } catch (error) {
    why = error.message;
  }
  if (why) {
    otherwise(why);
  } else {
    keepToken(given);
    byId("token").value = "";
    enter();
  }
}

function enter() {
  byId("sign-in").hidden = true;
  byId("workspace").hidden = byId("change-token").hidden = false;
  begin();
}

/** Ask for a token; `why` says why. */
function ask(why = "") {
  for (const dialog of document.querySelectorAll("dialog[open]")) {
    dialog.close();
  }
  byId("workspace").hidden = byId("change-token").hidden = true;
  byId("sign-in").hidden = false;
  byId("sign-in-error").textContent = why;
  byId("totals").textContent = "";
  byId("token").focus();
}
