// The menu in the header: the theme, the keys, and the way out.

import { byId } from "./dom.js";

const KEY = "holdfast-theme";
const themes = () => [...document.querySelectorAll("#themes input")];

export function prepare() {
  const kept = themes().find((each) => each.value === localStorage.getItem(KEY)) ?? themes()[0];
  kept.checked = true;
  apply(kept.value);
  byId("themes").addEventListener("change", ({ target }) => {
    localStorage.setItem(KEY, target.value);
    apply(target.value);
  });
  byId("help-button").addEventListener("click", showKeys);
}

function apply(theme) {
  document.documentElement.dataset.theme = theme;
}

export function showKeys() {
  byId("menu").hidePopover();
  byId("help").showModal();
}
