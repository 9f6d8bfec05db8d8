// Elements and icons. Nothing here parses HTML.

export const byId = (id) => document.getElementById(id);

/** Return an element with properties and children, which are elements or text. */
export function element(tag, properties = {}, ...children) {
  const made = Object.assign(document.createElement(tag), properties);
  made.append(...children);
  return made;
}

export function button(label, action, properties = {}) {
  return element("button", { type: "button", textContent: label, onclick: action, ...properties });
}

const SVG = "http://www.w3.org/2000/svg";

/** Return one of the icons in index.html. */
export function icon(name) {
  const svg = document.createElementNS(SVG, "svg");
  const use = document.createElementNS(SVG, "use");
  use.setAttribute("href", `#i-${name}`);
  svg.append(use);
  svg.ariaHidden = "true";
  return svg;
}

/** Return a button that shows only an icon; `label` is for screen readers, and its first words for the pointer. */
export function iconButton(name, label, action, properties = {}) {
  const title = label.split(":")[0];
  const made = button("", action, { className: "ghost", ariaLabel: label, title, ...properties });
  made.append(icon(name));
  return made;
}

export const note = (words) => element("p", { className: "note", textContent: words });
