// Comma-separated values as a table. RFC 4180, and the separators that spreadsheets use.

import { element, note } from "./dom.js";
import { readableNumber } from "./format.js";

const ROWS = 1000;
const COLUMNS = 60;
const CELL = 300; // characters

/** Return a table of the first rows; null if the text has no columns. */
export function csvTable(text) {
  const rows = parse(text, separatorOf(text));
  const width = Math.min(COLUMNS, Math.max(...rows.map((row) => row.length)));
  if (width < 2) {
    return null;
  }
  const cells = (row, tag, properties = {}) =>
    Array.from({ length: width }, (_, at) => {
      const value = row[at] ?? "";
      return element(tag, { ...properties, textContent: value.slice(0, CELL) });
    });
  const [head, ...body] = rows.slice(0, ROWS + 1);
  const table = element(
    "table",
    { className: "csv" },
    element("thead", {}, element("tr", {}, ...cells(head, "th", { scope: "col" }))),
    element("tbody", {}, ...body.map((row) => element("tr", {}, ...cells(row, "td")))),
  );
  return rows.length > ROWS ? [table, note(`Only the first ${readableNumber(ROWS)} rows are shown.`)] : [table];
}

function separatorOf(text) {
  const line = text.slice(0, 2000).split("\n", 1)[0];
  return ["\t", ";", ","].find((each) => line.includes(each)) ?? ",";
}

/** Return the rows of a text, one more than is shown. A cell in quotes may hold separators and line breaks. */
function parse(text, separator) {
  const special = new RegExp(`[${separator}\\n"]`, "g");
  const rows = [[]];
  let at = text.startsWith("\ufeff") ? 1 : 0;
  while (at <= text.length && rows.length <= ROWS + 1) {
    const [value, end] = text[at] === '"' ? quoted(text, at) : [null, at];
    special.lastIndex = end;
    let stop = special.exec(text);
    while (stop?.[0] === '"') {
      stop = special.exec(text); // a quote in the middle of a cell is itself
    }
    const next = stop?.index ?? text.length;
    rows.at(-1).push(value ?? text.slice(at, next).replace(/\r$/, ""));
    if (stop?.[0] === "\n") {
      rows.push([]);
    }
    at = next + 1;
  }
  const isBlank = (row) => row.length <= 1 && !row[0];
  return rows.filter((row, place) => !isBlank(row) || place === 0);
}

/** Return the value of the cell in quotes that begins at `at`, and where it ends. */
function quoted(text, at) {
  const parts = /"((?:[^"]|"")*)("|$)/y;
  parts.lastIndex = at;
  const [whole, value] = parts.exec(text);
  return [value.replaceAll('""', '"'), at + whole.length];
}
