// What the page asks of the node: its pinning API with the token, its gateway without.

import { ask, token } from "./session.js";

/** A request that was refused or did not arrive; its message is for people. */
export class Refused extends Error {}

const GONE = "The node does not answer. Is it still running?";
const WRONG_TOKEN = "The node does not accept this token. Take the one that it printed when it started.";

/** The words of a refusal, in any of the shapes that the service has. */
function refusalOf(status, text) {
  try {
    const { error } = JSON.parse(text);
    return new Refused(error?.details ?? error?.message ?? error);
  } catch {
    return new Refused(text.trim() || `The node replied with status ${status}.`);
  }
}

async function send(address, options = {}) {
  let response;
  try {
    response = await fetch(address, { cache: "no-cache", ...options });
  } catch (error) {
    throw error.name === "AbortError" ? error : new Refused(GONE);
  }
  if (!response.ok) {
    throw refusalOf(response.status, await response.text());
  }
  return response;
}

async function call(path, options = {}) {
  const headers = { Authorization: `Bearer ${token()}`, ...options.headers };
  try {
    return await send(path, { ...options, headers });
  } catch (error) {
    throw withSignIn(error);
  }
}

function withSignIn(error) {
  if (error instanceof Refused && error.message === "Invalid/expired credentials") {
    ask(WRONG_TOKEN);
    error.message = WRONG_TOKEN;
  }
  return error;
}

/** A page of the pins, and how many there are in all. */
export async function listPins({ search, sortBy, sortOrder, limit, offset }, signal) {
  const query = new URLSearchParams({
    status: "pinned", search, sortBy, sortOrder, pageLimit: limit, pageOffset: offset,
  });
  return (await call(`/data/pinList?${query}`, { signal })).json();
}

export async function totals() {
  return (await call("/data/userPinnedDataTotal")).json();
}

export async function unpin(cid) {
  await call(`/pinning/unpin/${encodeURIComponent(cid)}`, { method: "DELETE" });
}

/** Pin a JSON text, number for number as it was written; it must be valid. */
export async function pinJson(text, name) {
  const metadata = JSON.stringify(name ? { name } : {});
  const body = `{"pinataContent":${text},"pinataMetadata":${metadata},"pinataOptions":{"cidVersion":1}}`;
  const headers = { "Content-Type": "application/json" };
  return (await call("/pinning/pinJSONToIPFS", { method: "POST", headers, body })).json();
}

/** Pin files: one, or those of a folder. `fetch` would tell nothing of the way, so this is the old API. */
export function pinFiles(files, name, { onProgress, signal }) {
  const form = new FormData();
  form.append("pinataOptions", JSON.stringify({ cidVersion: 1 }));
  form.append("pinataMetadata", JSON.stringify({ name: name.slice(0, 245) }));
  for (const { file, path } of files) {
    form.append("file", file, path);
  }
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    request.open("POST", "/pinning/pinFileToIPFS");
    request.setRequestHeader("Authorization", `Bearer ${token()}`);
    request.upload.onprogress = (event) => onProgress(event.loaded, event.total);
    request.onload = () => {
      if (request.status === 200) {
        resolve(JSON.parse(request.responseText));
      } else {
        reject(withSignIn(refusalOf(request.status, request.responseText)));
      }
    };
    // A file that was changed or removed since it was chosen ends here too: the browser says no more.
    request.onerror = () => reject(new Refused("The upload broke off: the node or the file is gone."));
    request.onabort = () => reject(new Refused("The upload was cancelled."));
    signal.addEventListener("abort", () => request.abort());
    request.send(form);
  });
}

/** What stands at a path below a CID: a file, or a directory and its entries. */
export async function describe(path, signal) {
  return (await send(`/page/item?${new URLSearchParams({ path })}`, { signal })).json();
}

/** The beginning of a file as text, at most `limit` bytes of it. */
export async function readText(path, size, limit, signal) {
  const headers = size > limit ? { Range: `bytes=0-${limit - 1}` } : {};
  const response = await send(path, { headers, signal, cache: "default" });
  return new TextDecoder().decode(await response.arrayBuffer());
}

/** A link to share, also from elsewhere if the node can be reached from there. */
export const linkTo = (path) => new URL(path, location.origin).href;
