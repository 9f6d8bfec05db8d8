// What the page asks of the node: of its pinning API with the token, of its gateway without.

import { authorization, call, callApi, errorFor, RequestError, send, valueIn, withSignIn } from "./requests.js";
import { token } from "./token.js";

/** Return whether the node accepts a token; throw an error if it does not reply. */
export async function accepts(candidate) {
  try {
    await send("/data/testAuthentication", { headers: authorization(candidate) });
    return true;
  } catch (error) {
    if (error.status === 401) {
      return false;
    }
    throw error;
  }
}

/**
 * Return a page of the pins, the number of all, and the state of the node's store. Return null if the store is
 * still in the state `known`.
 */
export async function listPins({ search, sortBy, sortOrder, limit, offset }, { signal, known } = {}) {
  const query = new URLSearchParams({
    status: "pinned", search, sortBy, sortOrder, pageLimit: limit, pageOffset: offset, copies: true,
  });
  const headers = known ? { "If-None-Match": known } : {};
  const response = await callApi(`/data/pinList?${query}`, { signal, headers });
  if (response.status === 304) {
    return null;
  }
  return { ...valueIn(await response.text()), state: response.headers.get("ETag") ?? "" };
}

/** Return the pin of a CID as the list has it, or null. */
export async function findPin(cid, signal) {
  const query = new URLSearchParams({ status: "pinned", cid, copies: true, includeCount: false });
  return (await call(`/data/pinList?${query}`, { signal })).rows[0] ?? null;
}

/** Return the number and the size of all pins, and the space of the disk. */
export const totals = () => call("/data/userPinnedDataTotal?disk=true");

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

const sendJson = (method, path, body) =>
  call(path, { method, headers: { "Content-Type": "application/json" }, body });

/** Pin a valid JSON text unchanged, with its numbers as they are written. */
export async function pinJson(text, name) {
  const metadata = JSON.stringify(name ? { name } : {});
  const body = `{"pinataContent":${text},"pinataMetadata":${metadata},"pinataOptions":{"cidVersion":1}}`;
  return sendJson("POST", "/pinning/pinJSONToIPFS", body);
}

/** Change the name of a pin and some of its key-values; a value of null removes its key. */
export const updatePin = (cid, name, keyvalues) =>
  sendJson("PUT", "/pinning/hashMetadata", JSON.stringify({ ipfsPinHash: cid, name, keyvalues }));

/** Start to pin what other nodes have; return the job. */
export const pinByCid = (cid, name) =>
  sendJson("POST", "/pinning/pinByHash", JSON.stringify({ hashToPin: cid, pinataMetadata: name ? { name } : {} }));

/** Return the status of a job to pin a CID; nothing if it is done. */
export async function jobStatus(job, signal) {
  const query = new URLSearchParams({ ipfs_pin_hash: job.ipfsHash, limit: 1000 });
  const { rows } = await call(`/pinning/pinJobs?${query}`, { signal });
  return rows.find((row) => row.id === job.id)?.status;
}

const NAME_LENGTH = 245; // the limit of the service
const CHECKED = 4 * 1024 * 1024; // bytes of an upload before which the token is checked

/** Pin the content of a CAR archive. */
function pinArchive({ file }, options) {
  const form = new FormData();
  form.append("network", "public");
  form.append("car", "true");
  form.append("name", cut(options.name));
  form.append("file", file, "archive.car");
  return postForm("/v3/files", form, options);
}

const cut = (name) => [...name].slice(0, NAME_LENGTH).join("");

/** Pin one file, the files of a folder, or what is in a CAR archive; return its CID and whether it was pinned before. */
export async function pinFiles(files, name, { size, onProgress, signal }) {
  if (size > CHECKED) {
    // A browser sends the whole file before it reads an error.
    await call("/data/testAuthentication", { signal });
  }
  if (files.length === 1 && /\.car$/i.test(files[0].path)) {
    const { data } = await pinArchive(files[0], { name: name.replace(/\.car$/i, ""), onProgress, signal });
    return { cid: data.cid, isDuplicate: data.is_duplicate };
  }
  const form = new FormData();
  form.append("pinataOptions", JSON.stringify({ cidVersion: 1 }));
  form.append("pinataMetadata", JSON.stringify({ name: cut(name) }));
  for (const { file, path } of files) {
    form.append("file", file, path);
  }
  const reply = await postForm("/pinning/pinFileToIPFS", form, { onProgress, signal });
  return { cid: reply.IpfsHash, isDuplicate: reply.isDuplicate };
}

/** Send a form; return the value in the reply. `fetch` does not report the progress of uploads. */
function postForm(address, form, { onProgress, signal }) {
  signal.throwIfAborted();
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    request.open("POST", address);
    request.setRequestHeader("Authorization", `Bearer ${token()}`);
    request.upload.onprogress = (event) => onProgress(event.loaded / event.total);
    request.onload = () => {
      try {
        if (request.status !== 200) {
          throw errorFor(request.status, request.responseText);
        }
        resolve(valueIn(request.responseText));
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
  return valueIn(await (await send(`/page/item?${new URLSearchParams({ path })}`, { signal })).text());
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

// A gateway has the CID in the path, or as a subdomain.
const LINK = /(?:\/ipfs\/|^ipfs:\/\/|^https?:\/\/(?=[^./]+\.ipfs\.))([^./?#]+)/;

/** Return the CID in a link, or the text itself. */
export const cidIn = (text) => LINK.exec(text)?.[1] ?? text;
