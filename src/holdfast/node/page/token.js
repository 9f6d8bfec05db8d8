// The token of this tab: kept while the tab lives, so that a reload does not ask again.

const KEY = "holdfast-token";
let whenRefused = () => {};

export const token = () => sessionStorage.getItem(KEY) ?? "";
export const keepToken = (text) => sessionStorage.setItem(KEY, text);
export const forgetToken = () => sessionStorage.removeItem(KEY);

/** Who is told when the node refuses the token. */
export const onRefused = (listener) => (whenRefused = listener);
export const refused = () => whenRefused();
