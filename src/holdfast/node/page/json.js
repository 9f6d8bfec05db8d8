// JSON for reading. Indented as text: parsing and writing it anew would change numbers and the order of keys.

const TOKEN = /"(?:[^"\\]|\\.)*"|[[\]{},:]|[^\s[\]{},:"]+/g;
const LONGEST = 4 * 1024 * 1024; // deeply nested, a short text would become an endless one

/** A JSON text with line breaks and indentation; what is no JSON, or would grow too long, stays as it is. */
export function reindent(source) {
  try {
    JSON.parse(source);
  } catch {
    return source;
  }
  const parts = [];
  let depth = 0;
  let length = 0;
  let opened = false; // whether the last token opened something: "{}" stays on one line
  const newLine = () => {
    parts.push("\n", "  ".repeat(depth));
    length += 2 * depth;
  };
  for (const [token] of source.matchAll(TOKEN)) {
    const closes = token === "}" || token === "]";
    if (closes) {
      depth -= 1;
    }
    if (closes !== opened) {
      newLine();
    }
    opened = token === "{" || token === "[";
    if (opened) {
      depth += 1;
    }
    if (length > LONGEST) {
      return source;
    }
    parts.push(token === ":" ? ": " : token);
    if (token === ",") {
      newLine();
    }
  }
  return parts.join("");
}
