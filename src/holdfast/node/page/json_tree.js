// Indented JSON with colours, whose objects and lists can be folded. The text stays as it is, to the digit.

import { element } from "./dom.js";
import { counted } from "./format.js";
import { TOKEN } from "./json_text.js";

const MOST_TOKENS = 20000; // each becomes an element
const DEEPEST = 100;
const PIECE = new RegExp(`\\s+|${TOKEN.source}`, "g");

/** Return the elements of an indented JSON text; null if it is too long or too deep for that. */
export function jsonTree(text) {
  const root = element("pre", { className: "json" });
  const open = [{ inside: root, count: 0 }]; // the innermost object or list is the last
  const tokens = text.match(PIECE) ?? [];
  if (tokens.length > MOST_TOKENS) {
    return null;
  }
  for (const [at, token] of tokens.entries()) {
    const top = open.at(-1);
    if (token === "{" || token === "[") {
      const isEmpty = "}]".includes(tokens[at + 1]);
      open.push(isEmpty ? { inside: top.inside, count: 0 } : fold(top.inside, token));
      if (isEmpty) {
        top.inside.append(token);
      }
    } else if (token === "}" || token === "]") {
      const { control, count } = open.pop();
      control?.setAttribute("aria-label", counted(count + 1, token === "}" ? "member" : "item"));
      open.at(-1).inside.append(token);
    } else {
      top.count += token === "," ? 1 : 0;
      top.inside.append(coloured(token, tokens[at + 1]));
    }
    if (open.length > DEEPEST) {
      return null;
    }
  }
  return root;
}

/** Begin an object or a list that can be folded; return the element for what is inside. */
function fold(parent, bracket) {
  const inside = element("span");
  const dots = element("span", { className: "dots", textContent: "…" });
  const control = element("button", { type: "button", className: "fold", ariaExpanded: "true" });
  control.onclick = () => {
    inside.hidden = !inside.hidden;
    control.ariaExpanded = String(!inside.hidden);
    if (inside.hidden) {
      inside.after(dots);
    } else {
      dots.remove();
    }
  };
  // The control stands at the beginning of its line, before a key.
  const isMember = parent.lastChild?.data === " " && parent.lastElementChild?.className === "key";
  parent.insertBefore(control, isMember ? parent.lastElementChild : null);
  parent.append(bracket, inside);
  return { inside, control, count: 0 };
}

function coloured(token, next) {
  if (/^[\s,:]/.test(token)) {
    return token;
  }
  const isString = token.startsWith('"');
  const kind = isString ? (next === ":" ? "key" : "string") : /^[-\d]/.test(token) ? "number" : "word";
  return element("span", { className: kind, textContent: token });
}
