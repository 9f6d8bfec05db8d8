// The list of pins: searched, sorted and cut into pages by the node, never held here as a whole.

import { listPins, linkTo, totals } from "./api.js";
import {
  button, byId, copy, element, notify, readableDate, readableNumber, readableSize,
} from "./dom.js";

const PAGE_SIZE = 50;
const FIRST_ORDER = { date_pinned: "DESC", name: "ASC", size: "DESC", mime_type: "ASC" };
const TYPING_PAUSE = 200; // milliseconds

const view = { search: "", sortBy: "date_pinned", sortOrder: "DESC", page: 0 };
let count = 0;
let asked = new AbortController();
let actions;

/** Wire the list up; `given` says what to do with a pin: look at it, unpin it. */
export function prepare(given) {
  actions = given;
  readAddress();
  let typing;
  byId("search").addEventListener("input", () => {
    clearTimeout(typing);
    typing = setTimeout(() => show({ search: byId("search").value.trim(), page: 0 }), TYPING_PAUSE);
  });
  byId("find").addEventListener("submit", (event) => event.preventDefault());
  byId("sort").addEventListener("change", () => {
    const [sortBy, sortOrder] = byId("sort").value.split(" ");
    show({ sortBy, sortOrder, page: 0 });
  });
  for (const head of document.querySelectorAll("th[data-sort]")) {
    head.querySelector("button").addEventListener("click", () => sortBy(head.dataset.sort));
  }
  byId("first").addEventListener("click", () => show({ page: 0 }));
  byId("previous").addEventListener("click", () => turn(-1));
  byId("next").addEventListener("click", () => turn(1));
  byId("last").addEventListener("click", () => show({ page: lastPage() }));
  byId("pins").tBodies[0].addEventListener("keydown", onRowKey);
}

/** Fetch what is to be seen, and show it; what was asked for before is of no use any more. */
export async function refresh() {
  asked.abort();
  asked = new AbortController();
  const { signal } = asked;
  byId("pins").ariaBusy = "true";
  try {
    const query = { ...view, limit: PAGE_SIZE, offset: view.page * PAGE_SIZE };
    const [found, total] = await Promise.all([listPins(query, signal), totals()]);
    if (signal.aborted) {
      return;
    }
    count = found.count;
    if (view.page > lastPage()) {
      await show({ page: lastPage() });
      return;
    }
    draw(found.rows, total);
  } catch (error) {
    if (error.name !== "AbortError") {
      notify(error.message, { failed: true });
    }
  } finally {
    if (!signal.aborted) {
      byId("pins").ariaBusy = "false";
    }
  }
}

const lastPage = () => Math.max(0, Math.ceil(count / PAGE_SIZE) - 1);

function show(changes) {
  Object.assign(view, changes);
  writeAddress();
  return refresh();
}

export function turn(by) {
  const page = view.page + by;
  if (page >= 0 && page <= lastPage()) {
    show({ page });
  }
}

function sortBy(column) {
  const turned = view.sortOrder === "ASC" ? "DESC" : "ASC";
  const sortOrder = view.sortBy === column ? turned : FIRST_ORDER[column];
  show({ sortBy: column, sortOrder, page: 0 });
}

// The view is in the address, so that a reload and a bookmark lead back to it.

function readAddress() {
  const query = new URLSearchParams(location.search);
  view.search = query.get("search") ?? "";
  if (query.get("sort") in FIRST_ORDER) {
    view.sortBy = query.get("sort");
    view.sortOrder = query.get("order") === "ASC" ? "ASC" : "DESC";
  }
  view.page = Math.max(0, (Number.parseInt(query.get("page"), 10) || 1) - 1);
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
  history.replaceState(null, "", query.size ? `?${query}` : location.pathname);
}

function draw(rows, total) {
  const things = total.pin_count === 1 ? "pin" : "pins";
  byId("totals").textContent =
    `${readableNumber(total.pin_count)} ${things}, ${readableSize(total.pin_size_total)}`;

  const focused = document.activeElement?.closest("#pins tbody tr")?.rowIndex;
  byId("pins").tBodies[0].replaceChildren(...rows.map(row));
  if (focused !== undefined) {
    focusRow(Math.min(focused, rows.length) - 1); // the head is row 0
  }

  const from = view.page * PAGE_SIZE;
  byId("where").textContent = rows.length
    ? `${readableNumber(from + 1)} to ${readableNumber(from + rows.length)} of ${readableNumber(count)}`
    : "";
  byId("empty").hidden = rows.length > 0;
  byId("empty").textContent = view.search
    ? `Nothing is called “${view.search}”, and no CID has it in it.`
    : "Nothing is pinned yet. Drop a file on this page, or paste JSON.";
  byId("pins").hidden = !rows.length;
  byId("paging").hidden = count <= PAGE_SIZE;
  byId("first").disabled = byId("previous").disabled = view.page === 0;
  byId("next").disabled = byId("last").disabled = view.page >= lastPage();
  byId("sort").value = `${view.sortBy} ${view.sortOrder}`;
  for (const head of document.querySelectorAll("th[data-sort]")) {
    const sorted = view.sortOrder === "ASC" ? "ascending" : "descending";
    head.ariaSort = head.dataset.sort === view.sortBy ? sorted : "none";
  }
}

function pinOf(listed) {
  const cid = listed.ipfs_pin_hash;
  const name = listed.metadata.name ?? "";
  return { cid, name, path: `/ipfs/${cid}`, size: listed.size, type: listed.mime_type.split(";")[0] };
}

function row(listed) {
  const pin = pinOf(listed);
  const files = readableNumber(listed.number_of_files);
  const kind = pin.type === "directory" ? `directory, files: ${files}` : pin.type;
  const name = button(pin.name || "(no name)", () => actions.look(pin), { className: "plain" });
  const made = element(
    "tr",
    {},
    element("td", { className: "name" }, name),
    element("td", { className: "cid", title: pin.cid, textContent: pin.cid }),
    element("td", { className: "size", title: `${pin.size} bytes`, textContent: readableSize(pin.size) }),
    element("td", { className: "type", title: kind, textContent: pin.type }),
    element("td", { className: "date", title: listed.date_pinned, textContent: readableDate(listed.date_pinned) }),
    element(
      "td",
      { className: "row-actions" },
      button("Copy CID", () => copyCid(pin)), " ",
      button("Copy link", () => copyLink(pin)), " ",
      button("Unpin", () => actions.unpin(pin)),
    ),
  );
  made.pin = pin;
  return made;
}

export const copyCid = (pin) => copy(pin.cid, "CID");
export const copyLink = (pin) => copy(linkTo(pin.path), "Link");

export function focusRow(index) {
  byId("pins").tBodies[0].rows[index]?.querySelector("button").focus();
}

function onRowKey(event) {
  const current = event.target.closest("tr");
  if (event.ctrlKey || event.metaKey || event.altKey) {
    return;
  }
  const keys = {
    ArrowDown: () => focusRow(current.sectionRowIndex + 1),
    ArrowUp: () => focusRow(Math.max(0, current.sectionRowIndex - 1)),
    Home: () => focusRow(0),
    End: () => focusRow(byId("pins").tBodies[0].rows.length - 1),
    c: () => copyCid(current.pin),
    l: () => copyLink(current.pin),
    Delete: () => actions.unpin(current.pin),
  };
  if (Object.hasOwn(keys, event.key)) {
    event.preventDefault();
    keys[event.key]();
  }
}
