// Indent JSON as text. Parsing and writing it would change numbers and the order of keys.

export const TOKEN = /"(?:[^"\\]|\\.)*"|[[\]{},:]|[^\s[\]{},:"]+/g;
const LONGEST = 4 * 1024 * 1024; // characters of indentation; deep nesting makes a short text very long

/** Return a JSON text with line breaks and indentation, or null if it is not JSON or would be too long. */
export function reindent(source) {
  try {
    JSON.parse(source);
  } catch {
    return null;
  }
  const parts = [];
  let depth = 0;
  let length = 0;
  let opened = false; // whether the last token was "{" or "[": "{}" stays on one line
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
      return null;
    }
    parts.push(token === ":" ? ": " : token);
    if (token === ",") {
      newLine();
    }
  }
  return parts.join("");
}
