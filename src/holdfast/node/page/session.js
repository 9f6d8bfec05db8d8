// Sign in: with the token in the fragment of the URL, which browsers do not send, or by the form.

import { accepts } from "./api.js";
import { byId } from "./dom.js";
import { notify } from "./notices.js";
import { WRONG_TOKEN } from "./requests.js";
import { forgetToken, keepToken, onRefused, token } from "./token.js";

const SENDABLE = /^[\x21-\x7e]+$/; // the characters that a header can have
let begin = () => {};
let changed = () => {};

/**
 * Call `entered` whenever there is an accepted token: at once, or after the user has signed in. Call `shown` when the
 * list or the form to sign in is shown.
 */
export function start(entered, shown) {
  [begin, changed] = [entered, shown];
  byId("sign-in").addEventListener("submit", (event) => {
    event.preventDefault();
    tryToken(byId("token").value.trim(), ask);
  });
  byId("change-token").addEventListener("click", () => ask());
  byId("keep-token").addEventListener("click", () => showSession(true));
  byId("sign-in").addEventListener("keydown", (event) => {
    if (event.key === "Escape" && token()) {
      event.preventDefault();
      showSession(true);
    }
  });
  byId("forget-token").addEventListener("click", () => {
    forgetToken();
    ask();
  });
  onRefused(() => {
    forgetToken();
    ask(WRONG_TOKEN);
  });
  addEventListener("hashchange", () => tokenFromAddress());
  if (!tokenFromAddress()) {
    token() ? enter() : ask();
  }
}

/** Sign in with the token in the address, if it has one; return whether it has. */
function tokenFromAddress() {
  const given = location.hash.startsWith("#/") ? null : new URLSearchParams(location.hash.slice(1)).get("token");
  if (given) {
    // Remove the token, so that bookmarks, screenshots and copied links do not have it.
    history.replaceState(null, "", location.pathname + location.search);
    tryToken(given, token() ? keepSession : ask);
  }
  return Boolean(given);
}

/** Keep the current token after a link with a token that is not accepted. */
function keepSession(why) {
  enter();
  notify(why, { failed: true });
}

/** Sign in with the token `given`; if it is not accepted, call `otherwise` with the reason. */
async function tryToken(given, otherwise) {
  let why = "";
  try {
    if (!SENDABLE.test(given)) {
      why = "This is not a token: it has characters that tokens cannot have. Copy it again.";
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
  begin();
  showSession(true);
}

function showSession(isSignedIn) {
  byId("sign-in").hidden = isSignedIn;
  for (const id of ["workspace", "refresh", "change-token", "forget-token"]) {
    byId(id).hidden = !isSignedIn;
  }
  changed();
}

/** Show the sign-in form, with the error `why`. While there is a token, the user can go back to the list as it was. */
function ask(why = "") {
  for (const dialog of document.querySelectorAll("dialog[open]:not(#preview)")) {
    dialog.close();
  }
  byId("menu").hidePopover();
  showSession(false);
  byId("keep-token").hidden = !token();
  byId("sign-in-title").textContent = token() ? "Change the token" : "Enter a token";
  byId("sign-in-error").textContent = why;
  if (!token()) {
    byId("totals").textContent = "";
    byId("disk").hidden = true;
  }
  byId("token").focus();
}
