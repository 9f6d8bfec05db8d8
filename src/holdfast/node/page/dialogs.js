// Dialogs: how they close, and forms that stay open until the node has replied.

import { byId } from "./dom.js";

/** Return whether the list can be used: the user is signed in, and no dialog is open. */
export const isReady = () => !byId("workspace").hidden && !document.querySelector("dialog[open]");

/** Close a dialog as Escape does: a listener can prevent it. */
const close = (dialog) => dialog.dispatchEvent(new Event("cancel", { cancelable: true })) && dialog.close();

/** Let dialogs close by their close buttons; those without a field, by a click outside too. */
export function prepareDialogs() {
  for (const dialog of document.querySelectorAll("dialog")) {
    for (const each of dialog.querySelectorAll(".close")) {
      each.addEventListener("click", () => close(dialog));
    }
    dialog.addEventListener("close", () => document.body.append(byId("notices")));
    if (dialog.querySelector("input, textarea")) {
      dialog.addEventListener("keydown", submitByKey);
    } else {
      closeOnOutsideClick(dialog);
    }
  }
}

function submitByKey(event) {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
    event.preventDefault();
    event.currentTarget.querySelector("form").requestSubmit();
  }
}

/**
 * Call `send` when the form of a dialog is submitted. The dialog stays open until the node has replied; an error
 * is shown in it, at the end of the form.
 */
export function onSubmit(dialog, send) {
  const submit = dialog.querySelector("[type=submit]");
  const problem = dialog.querySelector("[role=alert]");
  dialog.querySelector("form").addEventListener("submit", async (event) => {
    event.preventDefault();
    if (submit.disabled) {
      return;
    }
    submit.disabled = true;
    problem.textContent = "";
    try {
      await send();
    } catch (error) {
      problem.textContent = error.message;
    } finally {
      submit.disabled = false;
    }
  });
}

function closeOnOutsideClick(dialog) {
  let pressedOutside = false; // a text selection that ends outside must not close the dialog
  dialog.addEventListener("mousedown", (event) => (pressedOutside = isOutside(dialog, event)));
  dialog.addEventListener("click", (event) => {
    if (pressedOutside && isOutside(dialog, event)) {
      close(dialog);
    }
  });
}

function isOutside(dialog, event) {
  const box = dialog.getBoundingClientRect();
  const inWidth = event.clientX >= box.left && event.clientX <= box.right;
  const inHeight = event.clientY >= box.top && event.clientY <= box.bottom;
  return event.target === dialog && !(inWidth && inHeight);
}
