// Emphasis, code, links and images in a line of Markdown.

import { element } from "./dom.js";

const LONGEST = 10000; // characters; a longer paragraph is plain text, so that no text takes long
const SPAN = 500; // characters of what is marked
const DEEPEST = 5;

const marked = (mark) => `${mark}(?=\\S)([^]{1,${SPAN}}?)(?<=\\S)${mark}`;
const PATTERN = [
  String.raw`\\([!-/:-@[-\`{-~])`, // an escaped character
  `\`\`([^]{1,${SPAN}}?)\`\`|\`([^\`]{1,${SPAN}})\``, // code
  `(!?)\\[([^\\]]{0,${SPAN}})\\]\\(<?([^)\\s>]{1,${SPAN}})>?(?:\\s[^)]{0,${SPAN}})?\\)`, // an image or a link
  `<(https?:[^\\s>]{1,${SPAN}})>`,
  marked("\\*\\*"),
  marked("__"),
  marked("\\*"),
  `(?<![\\w])${marked("_")}(?![\\w])`,
  marked("~~"),
].join("|");

/** Return the elements of one paragraph; links and images in it are relative to `path`. */
export function inline(text, path, depth = 0) {
  if (depth > DEEPEST || text.length > LONGEST) {
    return [text];
  }
  const made = [];
  let from = 0;
  for (const match of text.matchAll(new RegExp(PATTERN, "g"))) {
    made.push(text.slice(from, match.index), elementOf(match, path, depth));
    from = match.index + match[0].length;
  }
  return [...made, text.slice(from)].filter((each) => each !== "");
}

function elementOf(match, path, depth) {
  const [, escaped, code2, code1, bang, label, target, address, strong, strong2, em, em2, gone] = match;
  const inner = (words) => inline(words, path, depth + 1);
  if (escaped) {
    return escaped;
  }
  if (code2 ?? code1) {
    return element("code", { textContent: (code2 ?? code1).trim() || (code2 ?? code1) });
  }
  if (target) {
    return bang ? image(label, target, path) : link(target, inner(label), path);
  }
  if (address) {
    return link(address, [address], path);
  }
  if (strong ?? strong2) {
    return element("strong", {}, ...inner(strong ?? strong2));
  }
  return element(gone ? "del" : "em", {}, ...inner(gone ?? em ?? em2));
}

/** Return where a link leads, if it leads to the web, to an address of mail, or to content beside this file. */
function resolved(target, path) {
  let url;
  try {
    url = new URL(target, new URL(path, location.origin));
  } catch {
    return null;
  }
  const isHere = url.origin === location.origin;
  const isContent = isHere && url.pathname.startsWith("/ipfs/");
  return (isHere ? isContent : ["https:", "http:", "mailto:"].includes(url.protocol)) ? { url, isContent } : null;
}

function link(target, words, path) {
  const found = resolved(target, path);
  const title = target;
  return found
    ? element("a", { href: found.url.href, title, target: "_blank", rel: "noopener noreferrer" }, ...words)
    : element("span", { title }, ...words);
}

/** Return an image that is pinned beside this file. Images from elsewhere are links: the page loads nothing. */
function image(label, target, path) {
  const found = resolved(target, path);
  if (found?.isContent) {
    return element("img", { src: found.url.pathname, alt: label, loading: "lazy" });
  }
  return link(target, [label || target], path);
}
