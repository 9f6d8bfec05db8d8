// The list of pins, one page at a time. The node searches, sorts and divides it into pages.

import { cidIn, listPins, totals } from "./api.js";
import { byId } from "./dom.js";
import { counted, readableName, readableNumber, readableSize } from "./format.js";
import * as rows from "./rows.js";

const PAGE_SIZE = 50;
const MOST_PAGES = 1e9; // the URL may have any number
const FIRST_ORDER = { date_pinned: "DESC", name: "ASC", size: "DESC", mime_type: "ASC" };
const TYPING_PAUSE = 150; // milliseconds

const view = { search: "", sortBy: "date_pinned", sortOrder: "DESC", page: 0 };
let count = 0;
let known = ""; // the state of the node's store that is shown
let asked = new AbortController();
let first = Promise.resolve(); // until the list is there
let typing;

/** Add the event listeners; `actions` are the functions that show, edit and unpin a pin. */
export function prepare(actions) {
  rows.prepare(actions);
  readAddress();
  addEventListener("popstate", follow);
  byId("search").addEventListener("input", () => {
    clearTimeout(typing);
    typing = setTimeout(search, TYPING_PAUSE);
  });
  byId("find").addEventListener("submit", (event) => event.preventDefault());
  byId("clear-search").addEventListener("click", () => {
    byId("search").value = "";
    byId("search").focus();
    search();
  });
  byId("sort").addEventListener("change", () => {
    const [sortBy, sortOrder] = byId("sort").value.split(" ");
    show({ sortBy, sortOrder, page: 0 });
  });
  for (const head of document.querySelectorAll("th[data-sort]")) {
    head.querySelector("button").addEventListener("click", () => sortBy(head.dataset.sort));
  }
  byId("first").addEventListener("click", () => leaf(0));
  byId("previous").addEventListener("click", () => leaf(view.page - 1));
  byId("next").addEventListener("click", () => leaf(view.page + 1));
  byId("last").addEventListener("click", () => leaf(lastPage()));
}

/**
 * Fetch and show the current page; cancel an earlier request. With `onlyChanges`, ask the node for what is not
 * shown yet. Return whether the node replied.
 */
export async function refresh({ onlyChanges = false } = {}) {
  asked.abort();
  asked = new AbortController();
  const { signal } = asked;
  byId("pins").ariaBusy = String(!onlyChanges);
  try {
    const query = { ...view, limit: PAGE_SIZE, offset: view.page * PAGE_SIZE };
    const [found, total] = await Promise.all([
      listPins(query, { signal, known: onlyChanges ? known : "" }),
      onlyChanges ? null : readTotals(),
    ]);
    if (signal.aborted) {
      return true;
    }
    showProblem("");
    if (found) {
      await showFound(found, total ?? (await readTotals()), signal);
    }
    return true;
  } catch (error) {
    if (error.name === "AbortError") {
      return true;
    }
    showProblem(error.message); // the old rows stay
    return false;
  } finally {
    if (!signal.aborted) {
      byId("pins").ariaBusy = "false";
    }
  }
}

async function showFound(found, total, signal) {
  if (signal.aborted) {
    return;
  }
  count = found.count;
  if (view.page > lastPage()) {
    await show({ page: lastPage() });
    return;
  }
  known = found.state;
  showTotals(total);
  draw(found.rows);
}

/** Show an error above the list, or none. */
function showProblem(words) {
  if (byId("list-error").textContent !== words) {
    byId("list-error").textContent = words; // once only: it is read aloud
  }
  byId("problem").hidden = !words;
}

/** Return the totals, or null if the token has no scope for them. */
async function readTotals() {
  try {
    return await totals();
  } catch {
    return null;
  }
}

function showTotals(total) {
  const words = total ? `${counted(total.pin_count, "pin")}, ${readableSize(total.pin_size_total)}` : "";
  byId("totals").textContent = words;
  byId("disk").hidden = !total?.disk_total;
  if (total?.disk_total) {
    const used = 1 - total.disk_free / total.disk_total;
    byId("disk-free").textContent = `${readableSize(total.disk_free)} free`;
    byId("disk").title = `${readableSize(total.disk_free)} of ${readableSize(total.disk_total)} free on the disk`;
    byId("disk-bar").ariaLabel = `The disk is ${Math.round(used * 100)} % full`;
    byId("disk-bar").firstElementChild.style.width = `${used * 100}%`;
    byId("disk").classList.toggle("short", used > 0.95);
  }
}

const lastPage = () => Math.max(0, Math.ceil(count / PAGE_SIZE) - 1);

function show(changes) {
  Object.assign(view, changes);
  known = ""; // what is known is about the view before
  writeAddress();
  return refresh();
}

/** Search for the typed text at once, unless it is shown already. For a link, search for its CID. */
export async function search() {
  clearTimeout(typing);
  const text = cidIn(byId("search").value.trim());
  if (text !== view.search) {
    await show({ search: text, page: 0 });
  }
}

/** Show the next page, or the one before; return whether it is shown. It may have become empty. */
export async function turn(by) {
  const page = view.page + by;
  return page >= 0 && page <= lastPage() && (await show({ page })) && view.page === page;
}

/** Return how many pins are on the pages before this one, and on all. */
export const counts = () => ({ before: view.page * PAGE_SIZE, all: count });

/** Show a page from its beginning: the buttons to turn pages are at the end of the list. */
async function leaf(page) {
  const list = byId("list");
  if ((await show({ page })) && list.getBoundingClientRect().top < 0) {
    list.scrollIntoView();
  }
}

function sortBy(column) {
  const turned = view.sortOrder === "ASC" ? "DESC" : "ASC";
  const sortOrder = view.sortBy === column ? turned : FIRST_ORDER[column];
  show({ sortBy: column, sortOrder, page: 0 });
}

// The view is in the URL, so that a reload and a bookmark show it again.

function readAddress() {
  const query = new URLSearchParams(location.search);
  Object.assign(view, { sortBy: "date_pinned", sortOrder: "DESC" });
  view.search = (query.get("search") ?? "").slice(0, byId("search").maxLength);
  if (Object.hasOwn(FIRST_ORDER, query.get("sort"))) {
    view.sortBy = query.get("sort");
    view.sortOrder = query.get("order") === "ASC" ? "ASC" : "DESC";
  }
  const page = Number.parseInt(query.get("page"), 10) || 1;
  view.page = Math.min(Math.max(1, page), MOST_PAGES) - 1;
  byId("search").value = view.search;
}

function writeAddress() {
  const query = new URLSearchParams();
  if (view.search) {
    query.set("search", view.search);
  }
  if (view.sortBy !== "date_pinned" || view.sortOrder !== "DESC") {
    query.set("sort", view.sortBy);
    query.set("order", view.sortOrder);
  }
  if (view.page) {
    query.set("page", view.page + 1);
  }
  history.replaceState(null, "", `${location.pathname}${query.size ? `?${query}` : ""}${location.hash}`);
}

/** Clear the list, then show the pins for the current token. */
export function begin() {
  count = 0;
  known = "";
  draw([]);
  byId("empty").hidden = true;
  first = refresh();
}

/** Wait until the pins for the current token were listed, or could not be. */
export const loaded = () => first;

/** Show what the address says, after Back or Forward. */
function follow() {
  const before = JSON.stringify(view);
  readAddress();
  if (JSON.stringify(view) !== before && !byId("workspace").hidden) {
    known = "";
    refresh();
  }
}

function draw(listed) {
  rows.draw(listed);
  const from = view.page * PAGE_SIZE;
  byId("where").textContent = listed.length
    ? `${readableNumber(from + 1)} to ${readableNumber(from + listed.length)} of ${readableNumber(count)}`
    : "";
  byId("empty").hidden = listed.length > 0;
  byId("empty-title").textContent = view.search
    ? `No name, CID or key-value contains “${readableName(view.search)}”.`
    : "Nothing is pinned yet.";
  byId("start").hidden = Boolean(view.search);
  byId("clear-search").hidden = !view.search;
  byId("pins").hidden = !listed.length;
  byId("paging").hidden = count <= PAGE_SIZE;
  byId("first").disabled = byId("previous").disabled = view.page === 0;
  byId("next").disabled = byId("last").disabled = view.page >= lastPage();
  byId("sort").value = `${view.sortBy} ${view.sortOrder}`;
  for (const head of document.querySelectorAll("th[data-sort]")) {
    const sorted = view.sortOrder === "ASC" ? "ascending" : "descending";
    head.ariaSort = head.dataset.sort === view.sortBy ? sorted : "none";
  }
}
