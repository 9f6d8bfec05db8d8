// Shows what others pin and unpin: asks the node every two seconds whether its store has changed.

import { isReady } from "./dialogs.js";
import { byId } from "./dom.js";
import * as pins from "./pins.js";

const PAUSE = 2000; // milliseconds
const LONGEST_PAUSE = 30000; // while the node does not reply

export function start() {
  let pause = PAUSE;
  const look = async () => {
    // Behind a dialog nobody sees the list; it is brought up to date when the dialog closes.
    if (!document.hidden && isReady() && byId("pins").ariaBusy !== "true") {
      pause = (await pins.refresh({ onlyChanges: true })) ? PAUSE : Math.min(2 * pause, LONGEST_PAUSE);
    }
    setTimeout(look, pause);
  };
  setTimeout(look, pause);
  document.addEventListener("visibilitychange", () => {
    if (!document.hidden && !byId("workspace").hidden) {
      pins.refresh();
    }
  });
}
