// Requests to the node, and the errors of their replies in words.

import { refused, token } from "./token.js";

/** A request that failed; the message is for people. */
export class RequestError extends Error {
  constructor(message, { status = 0, reason = "" } = {}) {
    super(message);
    this.status = status;
    this.reason = reason;
  }
}

const GONE = "The node does not reply. Is it still running?";
export const WRONG_TOKEN =
  "The node does not accept this token. Use the one that it printed when it started, or your own if you set one.";

/** Return the error for a reply, whose body has any of the service's shapes. */
export function errorFor(status, text) {
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

/** Send a request without the token; throw an error unless the status is one of success, or 304. */
export async function send(address, options = {}) {
  let response;
  try {
    response = await fetch(address, { cache: "no-cache", ...options });
  } catch (error) {
    throw error.name === "AbortError" ? error : new RequestError(GONE);
  }
  if (!response.ok && response.status !== 304) {
    throw errorFor(response.status, await response.text());
  }
  return response;
}

export const authorization = (text = token()) => ({ Authorization: `Bearer ${text}` });

/** Send a request to the pinning API, with the token; nothing of it stays in the browser's cache. */
export async function callApi(path, options = {}) {
  const headers = { ...authorization(), ...options.headers };
  try {
    return await send(path, { ...options, headers, cache: "no-store" });
  } catch (error) {
    throw withSignIn(error);
  }
}

/** Return the value in the reply of the pinning API. */
export const call = async (path, options) => valueIn(await (await callApi(path, options)).text());

export function valueIn(text) {
  try {
    return text === "OK" ? text : JSON.parse(text);
  } catch {
    throw new RequestError("The server at this address is not the node: its reply is not JSON.");
  }
}

/** Ask for another token if `error` says that the node rejects this one; return the error. */
export function withSignIn(error) {
  if (error.status === 401) {
    error.message = WRONG_TOKEN;
    refused();
  }
  return error;
}
