"""A mailbox of two halves: messages on IPFS, and a shared folder that says which are whose.

`Client.send` stores a message and delivers nothing: its CID has to reach the recipient by another
way. Here that is a folder which both sides can see: on one machine, on a network drive, or kept the
same by a tool. An empty file in it stands for each message, named by its time and CID::

    pip install .   # in a clone of Holdfast
    python examples/mailbox.py send alice "hi"
    python examples/mailbox.py read alice           # what is new
    python examples/mailbox.py read alice --all     # and what was read before

    mailboxes/alice/new/1700000000000.bafkrei…      # moves to mailboxes/alice/read

Whoever keeps the folder cannot change a word: a CID names what it names. But all who know the CID
can read the message, and all who can write to the folder can send one, so this is no place for
secrets. Settings are those of `ClientConfig.from_env()`. By default messages stay on this machine's
disk; for two machines, set `HOLDFAST_PROVIDER=pinning` and `HOLDFAST_PROVIDER_TOKEN`.
"""

import argparse
import sys
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import quote

from holdfast import Client, ClientConfig, ClientMessage
from holdfast.errors import ClientError, SerializationError


class Mailbox:
    """The messages for one recipient, as Maildir would keep them: no locks, only names."""

    def __init__(self, client: Client, folder: Path, owner: str) -> None:
        self._client = client
        self._owner = owner
        # Quoted, and with its dots, "../bob" is a name like any other.
        own = folder / quote(owner, safe="@ ").replace(".", "%2E")
        self._new, self._read = own / "new", own / "read"
        for each in (self._new, self._read):
            each.mkdir(parents=True, exist_ok=True)

    def send(self, text: str) -> str:
        """Leave a message; its CID."""
        record = self._client.send(self._owner, text)
        # Last: what stands in the folder can be read.
        (self._new / f"{record.timestamp}.{record.cid}").touch()
        return record.cid

    def waiting(self, *, read_too: bool) -> list[Path]:
        """What stands for the messages, the oldest first."""
        folders = [self._new, self._read] if read_too else [self._new]
        found = [each for folder in folders for each in folder.iterdir()]
        # Tools that keep folders the same leave hidden files of their own in them.
        visible = [each for each in found if not each.name.startswith(".")]
        return sorted(visible, key=lambda entry: entry.name)

    def open(self, entry: Path) -> ClientMessage:
        """The message that `entry` stands for, verified by its CID; it is then no longer new."""
        message = self._client.receive(entry.name.rpartition(".")[2])
        if message.recipient_id != self._owner:  # all can write to the folder
            raise SerializationError(f"this is a message for {message.recipient_id!r}")
        with suppress(FileNotFoundError):  # somebody else has read it at the same time
            entry.rename(self._read / entry.name)
        return message


def shown(message: ClientMessage) -> str:
    """The message as a line or more, whose author cannot play tricks on the terminal."""
    text = "".join(each if each.isprintable() or each == "\n" else "�" for each in message.payload)
    try:
        sent = datetime.fromtimestamp(message.timestamp / 1000, UTC).astimezone()
    except (OverflowError, ValueError, OSError):  # any number may stand there
        return f"(no date)  {text}"
    return f"{sent:%Y-%m-%d %H:%M}  {text}"


def main() -> int:
    parser = argparse.ArgumentParser(description="Messages on IPFS.")
    parser.add_argument("--folder", type=Path, default=Path("mailboxes"), help="what is shared")
    commands = parser.add_subparsers(dest="command", required=True)
    send = commands.add_parser("send", help="leave somebody a message")
    send.add_argument("recipient")
    send.add_argument("text")
    read = commands.add_parser("read", help="read what somebody was left")
    read.add_argument("recipient")
    read.add_argument("--all", action="store_true", help="also what was read before")
    given = parser.parse_args()

    failed = 0
    try:
        with Client.init(ClientConfig.from_env()) as client:
            mailbox = Mailbox(client, given.folder, given.recipient)
            if given.command == "send":
                print(mailbox.send(given.text))
                return 0
            for entry in mailbox.waiting(read_too=given.all):
                try:
                    print(shown(mailbox.open(entry)))
                except ClientError as error:  # one bad message is no reason not to show the rest
                    failed = 1
                    print(f"{entry.name}: {error}", file=sys.stderr)
    except (ClientError, ValueError, OSError) as error:  # settings, network, folder
        sys.exit(f"error: {error}")
    return failed


if __name__ == "__main__":
    sys.exit(main())
