// What the page asks of the node: its pinning API with the token, its gateway without.

import { refused, token } from "./token.js";

/** A request that was refused or did not arrive; its message is for people. */
class Refused extends Error {
  constructor(message, { status = 0, reason = "" } = {}) {
    super(message);
    this.status = status;
    this.reason = reason;
  }
}

const GONE = "The node does not answer. Is it still running?";
export const WRONG_TOKEN =
  "The node does not accept this token. Take the one that it printed when it started.";

/** The words of a refusal, in any of the shapes that the service has. */
function refusalOf(status, text) {
  let said;
  try {
    said = JSON.parse(text).error;
  } catch {
    said = /^\s*</.test(text) ? "" : text.trim(); // a page is nothing to read out
  }
  const words = said?.details ?? said?.message ?? said;
  const message = typeof words === "string" && words ? words : `The node replied with status ${status}.`;
  return new Refused(message, { status, reason: said?.reason });
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
    return replied(await (await send(path, { ...options, headers })).text());
  } catch (error) {
    throw withSignIn(error);
  }
}

function replied(text) {
  try {
    return text === "OK" ? text : JSON.parse(text);
  } catch {
    throw new Refused("What answers here is not the node: its reply makes no sense.");
  }
}

function withSignIn(error) {
  if (error.status === 401) {
    error.message = WRONG_TOKEN;
    refused();
  }
  return error;
}

/** Whether the node lets a token in; an error where it does not answer. */
export async function accepts(candidate) {
  try {
    await send("/data/testAuthentication", { headers: { Authorization: `Bearer ${candidate}` } });
    return true;
  } catch (error) {
    if (error.status === 401) {
      return false;
    }
    throw error;
  }
}

/** A page of the pins, and how many there are in all. */
export async function listPins({ search, sortBy, sortOrder, limit, offset }, signal) {
  const query = new URLSearchParams({
    status: "pinned", search, sortBy, sortOrder, pageLimit: limit, pageOffset: offset,
  });
  return call(`/data/pinList?${query}`, { signal });
}

export async function totals() {
  return call("/data/userPinnedDataTotal");
}

/** Unpin; what somebody else has unpinned meanwhile is as good. */
export async function unpin(cid) {
  try {
    await call(`/pinning/unpin/${encodeURIComponent(cid)}`, { method: "DELETE" });
  } catch (error) {
    if (error.reason !== "CURRENT_USER_HAS_NOT_PINNED_CID") {
      throw error;
    }
  }
}

/** Pin a JSON text, number for number as it was written; it must be valid. */
export async function pinJson(text, name) {
  const metadata = JSON.stringify(name ? { name } : {});
  const body = `{"pinataContent":${text},"pinataMetadata":${metadata},"pinataOptions":{"cidVersion":1}}`;
  const headers = { "Content-Type": "application/json" };
  return call("/pinning/pinJSONToIPFS", { method: "POST", headers, body });
}

const NAME_LENGTH = 245; // of the service

/** Pin files: one, or those of a folder. `fetch` would tell nothing of the way, so this is the old API. */
export async function pinFiles(files, name, { onProgress, signal }) {
  // A browser sends all of a file before it reads a refusal: better to know before.
  await call("/data/testAuthentication", { signal });
  const form = new FormData();
  form.append("pinataOptions", JSON.stringify({ cidVersion: 1 }));
  form.append("pinataMetadata", JSON.stringify({ name: [...name].slice(0, NAME_LENGTH).join("") }));
  for (const { file, path } of files) {
    form.append("file", file, path);
  }
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    request.open("POST", "/pinning/pinFileToIPFS");
    request.setRequestHeader("Authorization", `Bearer ${token()}`);
    request.upload.onprogress = (event) => onProgress(event.loaded, event.total);
    request.onload = () => {
      try {
        if (request.status !== 200) {
          throw refusalOf(request.status, request.responseText);
        }
        resolve(replied(request.responseText));
      } catch (error) {
        reject(withSignIn(error));
      }
    };
    // The browser says no more than that it failed.
    const broken = "The upload broke off: the node stopped, or the file was changed or removed.";
    request.onerror = () => reject(new Refused(broken));
    request.onabort = () => reject(new Refused("The upload was cancelled."));
    signal.addEventListener("abort", () => request.abort());
    request.send(form);
  });
}

/** What stands at a path below a CID: a file, or a directory and its entries. */
export async function describe(path, signal) {
  return replied(await (await send(`/page/item?${new URLSearchParams({ path })}`, { signal })).text());
}

/** The beginning of a file as text, at most `limit` bytes of it. */
export async function readText(path, { size, type }, limit, signal) {
  const headers = size > limit ? { Range: `bytes=0-${limit - 1}` } : {};
  const response = await send(path, { headers, signal, cache: "default" });
  return decoderFor(type).decode(await response.arrayBuffer());
}

function decoderFor(type) {
  try {
    return new TextDecoder(/charset="?([\w-]+)/i.exec(type)?.[1] ?? "utf-8");
  } catch {
    return new TextDecoder(); // nobody knows that charset
  }
}

/** A link to share, also from elsewhere if the node can be reached from there. */
export const linkTo = (path) => new URL(path, location.origin).href;
