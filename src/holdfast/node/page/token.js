// The token of this tab. It is kept until the tab is closed, so that a reload does not ask again.

const KEY = "holdfast-token";
let whenRefused = () => {};

export const token = () => sessionStorage.getItem(KEY) ?? "";
export const keepToken = (text) => sessionStorage.setItem(KEY, text);
export const forgetToken = () => sessionStorage.removeItem(KEY);

/** Set the function to call when the node rejects the token. */
export const onRefused = (listener) => (whenRefused = listener);
export const refused = () => whenRefused();
