// Markdown as elements: the common part of it, without HTML, which is shown as text.

import { element, note } from "./dom.js";
import { inline } from "./markdown_inline.js";

const DEEPEST = 8; // lists and quotes in each other
const MOST_BLOCKS = 3000;
const LONGEST_LINE = 2000; // characters; a longer one is text, so that no line takes long

const FENCE = /^ {0,3}(`{3,}|~{3,})\s*([\w+-]*)/;
const HEADING = /^ {0,3}(#{1,6})\s(.*)$/;
const RULE = /^ {0,3}([-*_])(\s*\1){2,}\s*$/;
const QUOTE = /^ {0,3}> ?/;
const ITEM = /^( {0,3})([-*+]|\d{1,9}[.)])( {1,4}|\t|$)/;
const TABLE_LINE = /^\s*\|?\s*:?-+:?\s*(\|\s*:?-+:?\s*)*\|?\s*$/;

/** Return the elements of a Markdown text; links and images in it are relative to `path`. */
export function markdownView(source, path) {
  const state = { path, blocks: 0 };
  const article = element("article", { className: "markdown" }, ...blocks(source.split(/\r?\n/), 0, state));
  return state.blocks > MOST_BLOCKS ? [article, note("The rest is shown only in the source.")] : [article];
}

function blocks(lines, depth, state) {
  const made = [];
  let at = 0;
  while (at < lines.length && state.blocks <= MOST_BLOCKS) {
    if (!lines[at].trim()) {
      at += 1;
      continue;
    }
    state.blocks += 1;
    const isPlain = depth > DEEPEST || lines[at].length > LONGEST_LINE;
    const [, reader] = isPlain ? READERS.at(-1) : READERS.find(([fits]) => fits(lines, at));
    const [block, end] = reader(lines, at, depth, state);
    made.push(block);
    at = end;
  }
  return made;
}

const READERS = [
  [(lines, at) => FENCE.test(lines[at]), code],
  [(lines, at) => HEADING.test(lines[at]), heading],
  [(lines, at) => RULE.test(lines[at]), (_, at) => [element("hr"), at + 1]],
  [(lines, at) => QUOTE.test(lines[at]), quote],
  [(lines, at) => ITEM.test(lines[at]), list],
  [(lines, at) => lines[at].includes("|") && isShort(lines[at + 1]) && TABLE_LINE.test(lines[at + 1]), table],
  [() => true, paragraph],
];

const isShort = (line) => line !== undefined && line.length <= LONGEST_LINE;
const startsBlock = (line) => isShort(line) && [FENCE, HEADING, RULE, QUOTE, ITEM].some((pattern) => pattern.test(line));

/** Return the first index from `at` on whose line fits, or the number of lines. */
function indexFrom(lines, at, fits) {
  let found = at;
  while (found < lines.length && !fits(lines[found])) {
    found += 1;
  }
  return found;
}

function code(lines, at) {
  const [, fence] = FENCE.exec(lines[at]);
  const end = indexFrom(lines, at + 1, (line) => line.trim().startsWith(fence) && !/[^`~\s]/.test(line));
  const text = lines.slice(at + 1, end).join("\n");
  return [element("pre", {}, element("code", { textContent: text })), end + 1];
}

function heading(lines, at, _, state) {
  const [, marks, text] = HEADING.exec(lines[at]);
  // The dialog has a heading of the second level.
  const words = text.trim().replace(/ #+$/, "");
  return [element(`h${Math.min(6, marks.length + 2)}`, {}, ...inline(words, state.path)), at + 1];
}

function quote(lines, at, depth, state) {
  const end = indexFrom(lines, at, (line) => !QUOTE.test(line));
  const inner = lines.slice(at, end).map((line) => line.replace(QUOTE, ""));
  return [element("blockquote", {}, ...blocks(inner, depth + 1, state)), end];
}

function list(lines, at, depth, state) {
  const isOrdered = /\d/.test(ITEM.exec(lines[at])[2]);
  const made = element(isOrdered ? "ol" : "ul");
  let next = at;
  while (next < lines.length && state.blocks <= MOST_BLOCKS) {
    const mark = ITEM.exec(lines[next]);
    if (!mark || /\d/.test(mark[2]) !== isOrdered) {
      break;
    }
    state.blocks += 1;
    const width = mark[0].length;
    const isBelow = (line) => /^\s/.test(line) && line.search(/\S/) >= Math.min(width, 2 + mark[1].length);
    const end = endOfItem(lines, next + 1, isBelow);
    const dedented = (line) => line.slice(Math.min(width, Math.max(0, line.search(/\S/))));
    const inner = [lines[next].slice(width), ...lines.slice(next + 1, end).map(dedented)];
    made.append(element("li", {}, ...itemContent(blocks(inner, depth + 1, state))));
    next = end;
  }
  return [made, next];
}

/** Return where an item ends: at a line that is neither below it nor continues its text. */
function endOfItem(lines, from, isBelow) {
  let at = from;
  while (at < lines.length) {
    const isBlank = !lines[at].trim();
    const goesOn = () => lines[at - 1].trim() && !startsBlock(lines[at]);
    const continues = isBlank ? isBelow(lines[at + 1] ?? "") : isBelow(lines[at]) || goesOn();
    if (!continues) {
      break;
    }
    at += 1;
  }
  while (at < lines.length && !lines[at].trim() && ITEM.test(lines[at + 1] ?? "")) {
    at += 1;
  }
  return at;
}

/** Return the content of an item without the paragraph around its first text. */
function itemContent([first, ...rest]) {
  const texts = first?.tagName === "P" ? [...first.childNodes] : [first].filter(Boolean);
  return [...texts, ...rest];
}

function table(lines, at, _, state) {
  const end = indexFrom(lines, at + 2, (line) => !line.includes("|"));
  const cells = (line, tag, width) => {
    const texts = line.trim().replace(/^\||\|$/g, "").split(/(?<!\\)\|/).slice(0, width);
    return texts.map((text) => element(tag, {}, ...inline(text.trim().replaceAll("\\|", "|"), state.path)));
  };
  const head = cells(lines[at], "th", 60);
  const rows = lines.slice(at + 2, Math.min(end, at + MOST_BLOCKS)).map((line) => element("tr", {}, ...cells(line, "td", head.length)));
  state.blocks += rows.length;
  return [
    element("table", {}, element("thead", {}, element("tr", {}, ...head)), element("tbody", {}, ...rows)),
    end,
  ];
}

function paragraph(lines, at, _, state) {
  const end = indexFrom(lines, at + 1, (line) => !line.trim() || startsBlock(line));
  return [element("p", {}, ...inline(lines.slice(at, end).join("\n"), state.path)), end];
}
