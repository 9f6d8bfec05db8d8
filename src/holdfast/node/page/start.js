// What an empty list shows: a command and a snippet that pin to this node. The token is only in what is copied.

import { byId } from "./dom.js";
import { copy } from "./notices.js";
import { token } from "./token.js";

const HIDDEN = "•".repeat(8);
const shellQuoted = (text) => `'${text.replaceAll("'", "'\\''")}'`;

const command = (origin, secret) => `export HOLDFAST_PROVIDER_TOKEN=${shellQuoted(secret)}
holdfast store '{"hello": "world"}' \\
  --provider pinning \\
  --pin-api-url ${origin}`;

const snippet = (origin, secret) => `from holdfast import Client

client = Client.init(
    provider="pinning",
    provider_token=${JSON.stringify(secret)},
    pin_api_url="${origin}",
    gateway_url="${origin}/ipfs",
)
client.store({"hello": "world"})`;

export function prepare() {
  for (const [id, write, what] of [["command", command, "Command"], ["snippet", snippet, "Python code"]]) {
    byId(id).textContent = write(location.origin, HIDDEN);
    const copyIt = () => copy(write(location.origin, token()), `${what} and token`);
    document.querySelector(`[data-copies=${id}]`).addEventListener("click", copyIt);
  }
}
