"""Encrypted content by the command line; and links whose secret part no command shows."""

import json

import pytest

from holdfast import Client
from holdfast.config.secret import Secret
from holdfast.content.age import whole
from holdfast.content.age.keys import Identity, Passphrase
from tests.commands import Commands, node_variables
from tests.folder_dags import on_disk
from tests.support import HELLO_CID

PLAIN = "Ebbe um sechs, hinter dem alten Leuchtturm"
SECRET = "AGE-SECRET-KEY-"
AGE_FILE = b"age-encryption.org/v1\n"


class Discreet(Commands):
    """Commands that never write a secret; and no plaintext, unless they are told to decrypt."""

    def run(self, *arguments, **options):
        result = super().run(*arguments, **options)
        written = (result.stdout + result.stderr).decode(errors="replace")
        assert SECRET not in written
        assert "--decrypt" in arguments or "--json" in arguments or PLAIN not in written
        return result

    def key(self, *arguments):
        """The public part of a new key."""
        return self.json("keygen", *arguments)["recipient"]


@pytest.fixture
def alone(memory_folder):
    """Commands without a key."""
    return Discreet(memory_folder)


@pytest.fixture
def own(alone):
    """Commands with the key `default`."""
    alone.key()
    return alone


@pytest.fixture(params=["local", "pinning"])
def everywhere(request, memory_folder):
    """Commands with the key `default`, once on the embedded store, and once through a node."""
    variables = {}
    if request.param == "pinning":
        variables = node_variables(request.getfixturevalue("empty_node"))
    commands = Discreet(memory_folder, **variables)
    commands.key()
    return commands


def test_values_and_messages(everywhere):
    value = json.dumps({"note": PLAIN})
    cid = everywhere.text("store", value, "--encrypt")
    assert json.loads(everywhere.text("retrieve", cid, "--decrypt")) == json.loads(value)
    assert everywhere.json("retrieve", cid, "--decrypt") == json.loads(value)
    assert everywhere.text("store", value, "--encrypt") != cid
    message = everywhere.text("send", "alice", PLAIN, "--encrypt")
    lines = everywhere.text("receive", message, "--decrypt").splitlines()
    assert (lines[0], lines[-1]) == ("To:   alice", PLAIN)
    names = [pin["name"] for pin in everywhere.rows("list")]
    assert all(name.endswith(".age") and len(name) == 20 for name in names)
    for command in ("retrieve", "receive"):
        code, lines = everywhere.failure(command, cid)
        assert (code, lines[-1]) == (5, "hint: the content is encrypted: use --decrypt")


def test_files_and_folders(everywhere):
    folder = everywhere.folder
    (folder / "notes/sub").mkdir(parents=True)
    (folder / "notes/a.txt").write_text(PLAIN)
    (folder / "notes/sub/b.txt").write_text(PLAIN * 2000)
    file = everywhere.json("upload", "notes/a.txt", "--encrypt")
    assert (file["size"], file["path"]) == (len(PLAIN), "notes/a.txt")
    assert everywhere.text("cat", file["cid"], "--decrypt") == PLAIN
    facts = everywhere.json("get", file["cid"], "copy.txt", "--decrypt")
    assert (facts["size"], (folder / "copy.txt").read_text()) == (len(PLAIN), PLAIN)
    assert everywhere.run("download", file["cid"], "copy.age").stdout == b"copy.age\n"
    assert (folder / "copy.age").read_bytes().startswith(AGE_FILE)
    cid = everywhere.text("upload", "notes", "--encrypt")
    assert everywhere.text("download", cid, "copy", "--decrypt") == "copy"
    assert on_disk(folder / "copy") == on_disk(folder / "notes")
    assert everywhere.text("cat", f"{cid}/a.txt", "--decrypt") == PLAIN
    code, lines = everywhere.failure("download", cid, "-", "--decrypt")  # not as tar
    assert (code, "`holdfast download CID FOLDER`" in lines[-1]) == (7, True)
    piped = everywhere.text("upload", "-", "--encrypt", stdin=PLAIN.encode())
    assert everywhere.text("cat", piped, "--decrypt") == PLAIN


def test_a_download_says_that_the_content_is_encrypted(own):
    cid, plain = own.text("store", "1", "--encrypt"), own.text("store", "1")
    (own.folder / "notes" / "inner").mkdir(parents=True)
    (own.folder / "notes" / "inner" / "a.txt").write_text(PLAIN)
    folder = own.text("upload", "notes", "--encrypt")
    words = "this content is encrypted: open it with `holdfast download --decrypt` or age"
    for arguments, expected in (
        (["download", cid, "a"], f"{words}\n"),
        (["cat", cid], f"{words}\n"),
        (["download", cid, "b", "--json"], json.dumps({"warning": words}) + "\n"),
        (["cat", cid, "--decrypt"], ""),
        (["download", cid, "c", "--decrypt"], ""),
        (["cat", plain], ""),
        (["download", folder, "d"], f"{words}\n"),
        (["cat", folder], f"{words}\n"),
        (["download", folder, "e", "--decrypt"], ""),
        (["download", own.text("upload", "notes"), "f"], ""),
    ):
        result = own.run(*arguments)
        assert (result.returncode, result.stderr.decode()) == (0, expected), arguments


def test_one_encrypted_file_among_others_is_enough_for_the_note(own):
    (own.folder / "notes").mkdir()
    for name in "acdefg":
        (own.folder / "notes" / name).write_text(PLAIN)
    (own.folder / "notes" / "b").write_bytes(AGE_FILE)
    cid = own.text("upload", "notes")
    for number in range(3):  # in any order
        noted = own.run("download", cid, f"copy{number}").stderr.decode()
        assert noted.count("this content is encrypted") == 1


def test_a_decrypted_file_has_no_random_name(own):
    (own.folder / "a.txt").write_text(PLAIN)
    cid = own.text("upload", "a.txt", "--encrypt")
    assert own.text("download", cid, "--decrypt") == cid
    named = own.text("upload", "a.txt", "--encrypt", "--name", "tide.txt.age")
    assert own.text("download", named, "--decrypt") == "tide.txt"
    assert (own.folder / "tide.txt").read_text() == (own.folder / cid).read_text() == PLAIN


def test_several_files(own):
    for name in "ab":
        (own.folder / name).write_text(PLAIN + name)
    lines = own.text("upload", "a", "b", "--encrypt").splitlines()
    assert sorted(line[-1] for line in lines) == ["a", "b"]
    for line in lines:
        cid, name = line.split()
        assert own.text("cat", cid, "--decrypt") == PLAIN + name
    result = own.run("upload", "a", "absent", "--encrypt", "--json")
    (record,) = map(json.loads, result.stdout.splitlines())
    assert (result.returncode, own.text("cat", record["cid"], "--decrypt")) == (1, f"{PLAIN}a")


def test_without_keys_nothing_is_stored_and_nothing_read(alone):
    (alone.folder / "a").write_text(PLAIN)
    for words in (["store", f'"{PLAIN}"'], ["send", "alice", PLAIN], ["upload", "a"]):
        code, lines = alone.failure(*words, "--encrypt")
        assert (code, lines[1]) == (
            3,
            "hint: make one with `holdfast keygen`; to read, use the key of a reader",
        )
    code, lines = alone.failure("upload", "a", "a", "--encrypt")
    assert (code, "`holdfast keygen`" in lines[1]) == (3, True)
    for command in ("retrieve", "receive", "download", "cat"):
        code, lines = alone.failure(command, HELLO_CID, "--decrypt")
        assert (code, "`holdfast keygen`" in lines[1]) == (3, True)
    code, lines = alone.failure("share", HELLO_CID, Identity.generate().recipient.text)
    assert (code, "`holdfast keygen`" in lines[1]) == (3, True)
    assert alone.rows("list") == []


def test_to_names_more_readers(own):
    (own.folder / "a").write_text(PLAIN)
    bob = own.key("bob")
    own.key("-o", "carol.txt")
    cid = own.text("upload", "a", "--encrypt", "--to", bob, "--to", "./carol.txt")
    for key in ("default", "bob", "./carol.txt"):
        assert own.text("cat", cid, "--decrypt", HOLDFAST_IDENTITIES=key) == PLAIN
    others = {"HOLDFAST_IDENTITIES": "bob", "HOLDFAST_RECIPIENTS": "default"}
    assert own.text("cat", cid, "--decrypt", **others) == PLAIN
    code, lines = own.failure("upload", "a", "--encrypt", **others)
    assert (code, "none of your identities could open" in lines[0]) == (3, True)
    stranger = Identity.generate().text.reveal()
    code, lines = own.failure("cat", cid, "--decrypt", HOLDFAST_IDENTITIES=stranger)
    assert (code, lines[-1]) == (17, "hint: `holdfast keys` lists your identities")
    for words in (["store", "1"], ["send", "alice", PLAIN], ["upload", "a"]):
        code, lines = own.failure(*words, "--to", bob)
        assert (code, "add --encrypt" in lines[0]) == (2, True)
    assert own.failure("upload", "a", "--encrypt", "--to", "nobody")[0] == 3
    for part in ("age1qqqq", bob[:-1]):
        assert own.failure("upload", "a", "--encrypt", "--to", part) == (
            3,
            [
                "error: a recipient must be the text age1pq1… or age1…: copy it again",
                "hint: copy all of it; `holdfast keys` lists your own",
            ],
        )
    classic = own.key("old", "--classic")
    code, lines = own.failure("upload", "a", "--encrypt", "--to", classic)
    assert (code, "error: " in lines[0]) == (3, True)
    assert len(own.rows("list")) == 1


def test_to_works_without_a_key_of_ones_own(alone):
    reader = Identity.generate()
    cid = alone.text("store", f'"{PLAIN}"', "--encrypt", "--to", reader.recipient.text)
    secret = {"HOLDFAST_IDENTITIES": reader.text.reveal()}
    assert alone.json("retrieve", cid, "--decrypt", **secret) == PLAIN


def test_plain_content_is_not_decrypted(own):
    cid = own.text("store", "[1]")
    for command in ("retrieve", "receive", "cat", "download"):
        assert own.failure(command, cid, "--decrypt")[0] == 16
    assert own.failure("share", cid, Identity.generate().recipient.text)[0] == 16


def test_a_locked_key_needs_a_terminal(own):
    folder = own.user_file.parent / "keys"
    text = (folder / "default.txt").read_bytes()
    cid = own.text("store", f'"{PLAIN}"', "--encrypt")
    lock = Passphrase(Secret("correct horse"), work_factor=10)
    (folder / "default.txt").write_bytes(whole.encrypt(text, [lock]))
    for words in (["store", "1", "--encrypt"], ["retrieve", cid, "--decrypt"]):
        code, lines = own.failure(*words)
        assert (code, "must be typed on a terminal" in lines[0]) == (3, True)
    assert len(own.rows("list")) == 1
    typed = {"Passphrase of ": "correct horse\n"}
    code, shown = own.on_terminal("retrieve", cid, "--decrypt", typed=typed)
    assert (code, PLAIN in shown, "correct horse" in shown) == (0, True, False)


def test_share(own):
    (own.folder / "notes").mkdir()
    for name in "ab":
        (own.folder / "notes" / name).write_text(PLAIN + name)
    cid = own.text("upload", "notes", "--encrypt")
    bob, carol = own.key("bob"), own.key("carol")
    result = own.run("share", cid, bob, "carol")
    assert result.returncode == 0
    assert result.stderr.decode() == "2 files get a new header\n"
    shared = result.stdout.decode().strip()
    for key in ("default", "bob", "carol"):
        assert own.text("cat", f"{shared}/a", "--decrypt", HOLDFAST_IDENTITIES=key) == f"{PLAIN}a"
    assert own.failure("cat", f"{cid}/a", "--decrypt", HOLDFAST_IDENTITIES="bob")[0] == 17
    record = own.json("share", f"{cid}/b", carol, "--name", "for carol")
    assert own.rows("list")[0]["name"] == "for carol"
    assert (record["size"], record["cid"] != cid) == (len(PLAIN) + 1, True)
    assert own.failure("share", f"{cid}/b", carol, HOLDFAST_IDENTITIES="bob")[0] == 17
    for wrong in ("nobody", "age1pq1wrong", carol[:-1]):
        assert own.failure("share", cid, wrong)[0] == 3


def test_options_for_keys_lead_to_what_to_type(own):
    for typed, hint in (
        (["share", HELLO_CID, "--to", "bob"], "write `holdfast share CID RECIPIENT`"),
        (["cat", HELLO_CID, "--decrypt", "--identity", "key.txt"], "set HOLDFAST_IDENTITIES=./"),
        (["keys", "list"], "`holdfast keygen` makes a key, `holdfast keys` lists them"),
    ):
        code, lines = own.failure(*typed)
        assert (code, lines[1].startswith(f"hint: {hint}")) == (2, True), lines


def test_share_says_which_kind_of_key_fits(own):
    classic = own.key("classic", "--classic")
    cid = own.text("store", "1", "--encrypt")
    _, lines = own.failure("share", cid, classic)
    words = "hint: ask the reader for {} key, or upload again with {} key of your own"
    assert lines[-1] == words.format("an age1pq1…", "a classic")
    cid = own.text("store", "1", "--encrypt", "--to", classic, HOLDFAST_IDENTITIES="classic")
    _, lines = own.failure("share", cid, own.key("other"), HOLDFAST_IDENTITIES="classic")
    assert lines[-1] == words.format("a classic", "an age1pq1…")


def test_share_says_what_a_provider_lacks(memory_folder, empty_node):
    commands = Discreet(memory_folder, **node_variables(empty_node))
    commands.key()
    cid = commands.text("store", "1", "--encrypt")
    code, lines = commands.failure("share", cid, commands.key("bob"))
    assert (code, "upload it for all readers" in lines[0]) == (3, True)


LINK = f"https://hush:hush@example.com/ipfs/{HELLO_CID}?token=hush#{SECRET}1hush"
REFERENCE = f"{HELLO_CID}#{SECRET}1hush"
WRONG = f"https://hush@example.com/ipfs/wrong?token=hush#{SECRET}1hush"


@pytest.mark.parametrize("text", [LINK, REFERENCE, WRONG], ids=["link", "reference", "wrong"])
def test_no_command_shows_the_query_or_fragment_of_a_link(alone, text):
    (alone.folder / "cids").write_text(f"{HELLO_CID}\n{text}\n")
    (alone.folder / "list.csv").write_text(f"cid,name\n{HELLO_CID},a\n{text},b\n")
    for words in (
        ["retrieve", text],
        ["receive", text],
        ["download", text, "--decrypt"],
        ["cat", text],
        ["info", text],
        ["ls", text],
        ["url", text],
        ["pin", text],
        ["verify", "cids", text],
        ["revoke", text],
        ["revoke", text, text],
        ["upload", text],
        ["upload", text, text],
        ["car", "export", text, "x.car"],
        ["car", "ls", text],
        ["copy", text, "--from", "local", "--to", "local"],
        ["copy", "--cids", "list.csv", "--from", "local", "--to", "local"],
        ["share", text, "age1pq1wrong"],
        ["--json", "revoke", text, text],
        ["help", text],
        [text],
    ):
        verbose = [] if text in words[:1] or "help" in words else ["--verbose"]
        result = alone.run(*words, *verbose)
        assert b"hush" not in result.stdout + result.stderr, words


def test_errors_and_events_show_a_short_reference(tmp_path):
    events = []
    path = f"{HELLO_CID}/{'x' * 200}?token=hush"
    with Client.init(path=tmp_path, on_event=events.append) as client:
        client.upload(b"hello")
        with pytest.raises(Exception) as caught:  # noqa: PT011 - the text is what counts
            client.download(path)
    texts = [str(caught.value), *getattr(caught.value, "__notes__", ())]
    assert not any("hush" in text for text in texts)
    (cid,) = {event.cid for event in events if event.operation == "download"}
    assert (len(cid), cid[:60], cid[-1]) == (80, path[:60], "…")
