// Requests to the node: to its pinning API with the token, to its gateway without.

import { refused, token } from "./token.js";

/** A request that failed; the message is for people. */
class RequestError extends Error {
  constructor(message, { status = 0, reason = "" } = {}) {
    super(message);
    this.status = status;
    this.reason = reason;
  }
}

const GONE = "The node does not reply. Is it still running?";
export const WRONG_TOKEN =
  "The node does not accept this token. Use the one that it printed when it started.";

/** Return the error for a reply, whose body has any of the service's shapes. */
function errorFor(status, text) {
  let error;
  try {
    error = JSON.parse(text).error;
  } catch {
    error = /^\s*</.test(text) ? "" : text.trim(); // an HTML page is not a message
  }
  const details = error?.details ?? error?.message ?? error;
  const message = typeof details === "string" && details ? details : `The node replied with status ${status}.`;
  return new RequestError(message, { status, reason: error?.reason });
}

async function send(address, options = {}) {
  let response;
  try {
    response = await fetch(address, { cache: "no-cache", ...options });
  } catch (error) {
    throw error.name === "AbortError" ? error : new RequestError(GONE);
  }
  if (!response.ok) {
    throw errorFor(response.status, await response.text());
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
    throw new RequestError("The server at this address is not the node: its reply is not JSON.");
  }
}

function withSignIn(error) {
  if (error.status === 401) {
    error.message = WRONG_TOKEN;
    refused();
  }
  return error;
}

/** Return whether the node accepts a token; throw an error if it does not reply. */
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

/** Return a page of the pins, and the number of all. */
export async function listPins({ search, sortBy, sortOrder, limit, offset }, signal) {
  const query = new URLSearchParams({
    status: "pinned", search, sortBy, sortOrder, pageLimit: limit, pageOffset: offset,
  });
  return call(`/data/pinList?${query}`, { signal });
}

export async function totals() {
  return call("/data/userPinnedDataTotal");
}

/** Unpin; it is no error if the CID was unpinned in the meantime. */
export async function unpin(cid) {
  try {
    await call(`/pinning/unpin/${encodeURIComponent(cid)}`, { method: "DELETE" });
  } catch (error) {
    if (error.reason !== "CURRENT_USER_HAS_NOT_PINNED_CID") {
      throw error;
    }
  }
}

/** Pin a valid JSON text unchanged, with its numbers as they are written. */
export async function pinJson(text, name) {
  const metadata = JSON.stringify(name ? { name } : {});
  const body = `{"pinataContent":${text},"pinataMetadata":${metadata},"pinataOptions":{"cidVersion":1}}`;
  const headers = { "Content-Type": "application/json" };
  return call("/pinning/pinJSONToIPFS", { method: "POST", headers, body });
}

const NAME_LENGTH = 245; // the limit of the service

/** Pin one file, or the files of a folder. `fetch` does not report the progress of uploads. */
export async function pinFiles(files, name, { onProgress, signal }) {
  // Check the token first: a browser sends the whole file before it reads an error.
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
          throw errorFor(request.status, request.responseText);
        }
        resolve(replied(request.responseText));
      } catch (error) {
        reject(withSignIn(error));
      }
    };
    // The browser does not tell the reason.
    const broken = "The upload failed: the node stopped, or the file was changed or removed.";
    request.onerror = () => reject(new RequestError(broken));
    request.onabort = () => reject(new RequestError("The upload was cancelled."));
    signal.addEventListener("abort", () => request.abort());
    request.send(form);
  });
}

/** Describe the file at a path below a CID, or the directory and its entries. */
export async function describe(path, signal) {
  return replied(await (await send(`/page/item?${new URLSearchParams({ path })}`, { signal })).text());
}

/** Return the first `limit` bytes of a file as text. */
export async function readText(path, { size, type }, limit, signal) {
  const headers = size > limit ? { Range: `bytes=0-${limit - 1}` } : {};
  const response = await send(path, { headers, signal, cache: "default" });
  return decoderFor(type).decode(await response.arrayBuffer());
}

function decoderFor(type) {
  try {
    return new TextDecoder(/charset="?([\w-]+)/i.exec(type)?.[1] ?? "utf-8");
  } catch {
    return new TextDecoder(); // the charset is unknown
  }
}

/** Return a link to share. It works from elsewhere if the node can be reached from there. */
export const linkTo = (path) => new URL(path, location.origin).href;
