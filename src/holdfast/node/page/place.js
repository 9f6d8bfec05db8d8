// The place that the page shows: the list, or a pin or what is in it. The address alone names it: clicks change the
// address, and one function shows what it names.

const UNKNOWN = 2; // more than one: Back may lead to another place than the list
let show = () => {};

/** Call `listener` whenever the address changes: by `go`, by Back and Forward, or by hand. */
export function onPlace(listener) {
  show = listener;
  addEventListener("popstate", () => show());
  addEventListener("hashchange", () => show());
}

/** Return the path that the address names, such as "/ipfs/CID/name", or "" for the list. */
export function place() {
  const path = location.hash.slice(1).replace(/\/+$/, "");
  return path.startsWith("/ipfs/") ? path : "";
}

/**
 * Show a path, or the list if it is empty; with `replace`, Back does not return to the present place.
 *
 * `depth` counts the places that were opened from the list. When the only one is closed, the history has the list
 * twice, and Back would show no change. The second is marked as a spare: the next place that is opened replaces it.
 */
export function go(path, { replace = false } = {}) {
  const { depth = place() ? UNKNOWN : 0, isSpare = false } = history.state ?? {};
  if (path !== place()) {
    const address = `${location.pathname}${location.search}${path && `#${path}`}`;
    const isReplaced = replace || isSpare;
    const state = path ? { depth: replace ? depth : depth + 1 } : { isSpare: depth === 1 };
    history[isReplaced ? "replaceState" : "pushState"](state, "", address);
  }
  show();
}
