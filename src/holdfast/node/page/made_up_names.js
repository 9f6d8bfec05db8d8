// JSON that was stored without a name has one that the client made up. The beginning of its text says more.

import { readText } from "./api.js";
import { readableName } from "./format.js";

const MADE_UP = /^client-\d{13}$/; // "client-" and the time in milliseconds
const LENGTH = 60; // characters that are shown
const MOST = 1000; // texts that are kept
const texts = new Map(); // CID -> the beginning of its text

const isMadeUp = ({ metadata, mime_type: type }) => type.startsWith("application/json") && MADE_UP.test(metadata.name ?? "");

/** Return the name of a listed pin as it is shown; of one without a name, the beginning of its JSON, or a dash. */
export function shownName(listed) {
  return isMadeUp(listed) ? (texts.get(listed.ipfs_pin_hash) ?? "—") : readableName(listed.metadata.name ?? "");
}

/** Read the JSON of pins without a name; return whether there is a new text. */
export async function readTexts(listed) {
  const missing = listed.filter((each) => isMadeUp(each) && !texts.has(each.ipfs_pin_hash));
  if (texts.size > MOST) {
    texts.clear();
  }
  const read = async ({ ipfs_pin_hash: cid, size, mime_type: type }) => {
    const text = await readText(`/ipfs/${cid}`, { size, type }, 4 * LENGTH);
    const line = readableName(text.replaceAll(/\s+/g, " ").trim(), "—");
    texts.set(cid, line.length > LENGTH ? `${line.slice(0, LENGTH)}…` : line);
  };
  const results = await Promise.allSettled(missing.map(read)); // one that is not here keeps its dash
  return results.some(({ status }) => status === "fulfilled");
}
