// The place that the page shows: the list, or a pin or what is in it. The address alone names it: clicks change the
// address, and one function shows what it names.

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

/** Show a path, or the list if it is empty; with `replace`, Back does not return to the present place. */
export function go(path, { replace = false } = {}) {
  if (path !== place()) {
    const address = `${location.pathname}${location.search}${path && `#${path}`}`;
    history[replace ? "replaceState" : "pushState"](null, "", address);
  }
  show();
}
