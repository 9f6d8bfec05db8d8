// What an empty list shows: a command and a snippet that pin to this node, ready to copy.

import { byId } from "./dom.js";
import { copy } from "./notices.js";

const command = (origin) => `export HOLDFAST_PROVIDER_TOKEN=…
holdfast upload photo.jpg --provider pinning \\
  --pin-api-url ${origin}`;

const snippet = (origin) => `from holdfast import Client

client = Client.init(
    provider="pinning",
    provider_token="…",
    pin_api_url="${origin}",
    gateway_url="${origin}/ipfs",
)
client.store({"hello": "world"})`;

export function prepare() {
  byId("command").textContent = command(location.origin);
  byId("snippet").textContent = snippet(location.origin);
  for (const button of document.querySelectorAll("[data-copies]")) {
    button.addEventListener("click", () => copy(byId(button.dataset.copies).textContent, "Text"));
  }
}
