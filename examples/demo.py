"""All eight operations against a node on this machine, and a gateway caught lying."""

import tempfile
from pathlib import Path

from holdfast import Client
from holdfast.errors import ProviderError, VerificationError
from holdfast.testing import ScriptedServer, running_node


def say(what: str, result: object) -> None:
    print(f"  {what:<16} {result}")


def main() -> None:
    with (
        running_node() as node,
        ScriptedServer() as liar,
        tempfile.TemporaryDirectory() as folder,
        Client.init(node.config) as client,
    ):
        print(f"A node with a pinning API and a gateway listens on {node.api_url}\n")
        say("test_connection", client.test_connection())

        record = client.store({"hello": "world", "tags": ["ocean", "🌊"]})
        say("store", f"{record.cid} ({record.size} characters)")
        say("retrieve", client.retrieve(record.cid))

        path = Path(folder, "photo.png")
        path.write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 1000)
        photo = client.upload(path)
        say("upload", f"{photo.cid} ({photo.size:,} bytes)")
        copy = client.download(photo.cid, to=Path(folder, "copy.png"))
        same = copy.read() == path.read_bytes()
        say("download", f"{copy.name}, {'the same bytes' if same else 'OTHER BYTES'}")

        note = client.send("alice", "Low tide at six.")
        say("send", note.cid)
        say("receive", client.receive(note.cid))

        say("revoke", client.revoke(photo.cid))
        try:
            client.revoke(photo.cid)
        except ProviderError as error:
            say("revoke again", f"{error.name}: {error}")

        print("\nAnother gateway sends something else for the same CID:")
        liar.reply(200, {"hello": "w0rld"})
        try:
            client.with_options(gateway_url=liar.url).retrieve(record.cid)
        except VerificationError as error:
            say("caught", f"{error.name}: {error}")


if __name__ == "__main__":
    main()
