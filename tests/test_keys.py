"""Keys on this machine: in the configuration, in files, and as the commands make and check them."""

import json
import os
import pickle
import subprocess

import pyrage
import pytest
from scripts.build_engines import AGE

from holdfast import ClientConfig
from holdfast.config.secret import Secret
from holdfast.content.age import whole
from holdfast.content.age.keys import Identity, Passphrase
from holdfast.disk.key_files import keys_folder, load_keys, read_keys, write_key
from holdfast.errors import ConfigError, DecryptionError
from tests.engines import engine_path
from tests.witness import assert_no_secret_in

CLASSIC = Identity.generate(classic=True)
HYBRID = Identity.generate()
SECRETS = [CLASSIC.text.reveal(), HYBRID.text.reveal(), "correct horse"]

BROKEN = f"absent,{SECRETS[0][:-1]},{CLASSIC.recipient.text}"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The empty folder of keys."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    keys_folder().mkdir(parents=True)
    return keys_folder()


def write(path, *lines):
    path.write_text("\n".join(lines))
    path.chmod(0o600)
    return path


def lock(path, text):
    passphrase = Passphrase(Secret("correct horse"), work_factor=1)
    path.write_bytes(whole.encrypt(text.encode(), [passphrase]))


def test_the_configuration_masks_identities(monkeypatch):
    config = ClientConfig(recipients=HYBRID.recipient.text, identities=SECRETS[:2])
    assert config.recipients == (HYBRID.recipient.text,)
    assert config.identities.reveal().split("\n") == SECRETS[:2]
    again = config.with_options(recipients=["default", "~/a, b/key.txt"], verify=False)
    assert again.recipients == ("default", "~/a, b/key.txt")
    assert again.identities == config.identities
    assert again.with_options(identities=None).identities is None
    for text in (repr(config), str(config.to_dict()), f"{again}"):
        assert not [secret for secret in SECRETS if secret in text]
    with pytest.raises(TypeError, match="pickled"):
        pickle.dumps(config)
    monkeypatch.setenv("HOLDFAST_RECIPIENTS", "default, work")
    monkeypatch.setenv("HOLDFAST_IDENTITIES", f"work, {SECRETS[0]}")
    config = ClientConfig.from_env()
    assert config.recipients == ("default", "work")
    assert config.identities.reveal() == f"work\n{SECRETS[0]}"


@pytest.mark.parametrize(
    "fields",
    [
        {"recipients": SECRETS[0]},
        {"recipients": [HYBRID.recipient.text, SECRETS[1].lower()]},
        {"recipients": []},
        {"recipients": [SECRETS[0].encode()]},
        {"identities": [SECRETS[0], 5]},
        {"identities": {"a": SECRETS[0]}},
        {"identities": [SECRETS[0], ""]},
        {"identities": SECRETS[0], "verify": "perhaps"},
        {"identity": SECRETS[0]},
    ],
)
def test_no_secret_is_in_an_error_of_the_configuration(fields):
    with pytest.raises(ConfigError) as caught:
        ClientConfig(**fields)
    assert_no_secret_in(caught.value, forms=SECRETS)


def test_without_a_home_there_are_no_names(monkeypatch):
    monkeypatch.setattr("holdfast.disk.key_files.config_folder", lambda: None)
    with pytest.raises(ConfigError, match="no home directory"):
        read_keys(Secret("work"))
    assert read_keys(CLASSIC.text)[0].recipient == CLASSIC.recipient


def test_texts_names_and_paths(folder, tmp_path):
    write(folder / "work.txt", "# a cömment Å", "", SECRETS[0] + "\r")
    friends = write(tmp_path / "friends.txt", CLASSIC.recipient.text, CLASSIC.recipient.text)
    sources = ["work", str(friends), CLASSIC.recipient.text]
    recipients, identities = load_keys(sources, Secret(f"work\n{SECRETS[1]}"))
    assert recipients == [CLASSIC.recipient] * 4
    assert [identity.text.reveal() for identity in identities] == SECRETS[:2]
    assert load_keys([], None) == ([], [])


def test_mistakes(folder, tmp_path):
    write(folder / "empty.txt", "# nothing")
    write(folder / "wrong.txt", SECRETS[0], SECRETS[1][:-1])
    write(folder / "large.txt", "#" * 70_000)
    write(folder / "public.txt", HYBRID.recipient.text)
    lock(folder / "locked.txt", SECRETS[0])
    (folder / "cut.txt").write_bytes((folder / "locked.txt").read_bytes()[:-1])
    cases = {
        "empty": "empty.txt: there is no key",
        "wrong": "wrong.txt: an identity must be",
        "large": "larger than 60 KiB",
        "absent": "absent.txt: it cannot be read: No such file",
        "a\0b": "it cannot be read",
        SECRETS[0].lower(): "^an identity must be",
        SECRETS[1][:-1]: "^an identity must be",
        "AGE-PLUGIN-YUBIKEY-1QQQQQQQQQQQQQQQQQQQQQQQQQQ": "^an identity must be",
        "locked": "locked.txt: it is locked with a passphrase",
        "public": "identities contains a recipient",
    }
    for source, words in cases.items():
        with pytest.raises(ConfigError, match=words) as caught:
            load_keys((), Secret(source))
        assert_no_secret_in(caught.value, forms=SECRETS)
    ask = lambda path: Secret("correct horse")  # noqa: E731
    with pytest.raises(DecryptionError):
        read_keys(Secret("cut"), ask)


def test_a_locked_file_opens_with_its_passphrase_and_is_asked_for_once(folder):
    lock(folder / "work.txt", f"# created\n{SECRETS[0]}\n")
    asked = []

    def ask(path):
        asked.append(path)
        return Secret("correct horse")

    recipients, [identity] = load_keys(["work", "work"], Secret("work"), ask)
    assert (recipients, identity.text) == ([CLASSIC.recipient] * 2, CLASSIC.text)
    assert asked == [folder / "work.txt"]
    wrong = Secret("battery staple")
    with pytest.raises(ConfigError, match="not the passphrase") as caught:
        read_keys(Secret("work"), lambda path: wrong)
    assert_no_secret_in(caught.value, forms=["battery staple", *SECRETS])


def test_a_key_that_others_can_read_is_a_warning(folder):
    write(folder / "work.txt", SECRETS[0]).chmod(0o604)
    with pytest.warns(UserWarning, match="work.txt: every user .* chmod 600"):
        read_keys(Secret("work"))
    write(folder / "friend.txt", HYBRID.recipient.text).chmod(0o644)
    assert read_keys(Secret("friend")) == [HYBRID.recipient]


def test_a_key_file_is_never_overwritten_nor_left_in_part(tmp_path):
    path = tmp_path / "new" / "key.txt"
    umask = os.umask(0)
    try:
        write_key(path, CLASSIC)
    finally:
        os.umask(umask)
    assert (path.stat().st_mode & 0o777, path.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    before = path.read_bytes()
    with pytest.raises(ConfigError, match="exists, and keys are never overwritten") as caught:
        write_key(path, HYBRID)
    assert_no_secret_in(caught.value, forms=SECRETS)
    assert path.read_bytes() == before
    link = tmp_path / "link.txt"
    link.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ConfigError, match="exists"):
        write_key(link, HYBRID)

    def refuse():
        raise ConfigError("no passphrase was given")

    with pytest.raises(ConfigError, match="no passphrase"):
        write_key(tmp_path / "locked.txt", HYBRID, refuse)
    assert not (tmp_path / "locked.txt").exists()


# Commands.


def test_keygen_and_keys(commands):
    result = commands.run("keygen")
    recipient = result.stdout.decode().strip()
    assert b"default.txt: keep a copy of it" in result.stderr
    made = commands.json("keygen", "work", "--classic")
    folder = commands.user_file.parent / "keys"
    assert made["file"] == str(folder / "work.txt")
    assert (made["kind"], recipient[:7], made["recipient"][:4]) == ("X25519", "age1pq1", "age1")
    lines = (folder / "default.txt").read_text().splitlines()
    assert lines[0].startswith("# created: 20")
    assert lines[1] == f"# public key: {recipient}"
    assert lines[2].startswith("AGE-SECRET-KEY-PQ-1")
    assert (folder / "default.txt").stat().st_mode & 0o777 == 0o600
    commands.json("keygen", "-o", "here.txt")
    assert (commands.folder / "here.txt").exists()
    for arguments in (["work"], ["-o", "here.txt"]):
        code, words = commands.failure("keygen", *arguments)
        assert (code, "never overwritten" in words[0]) == (3, True)

    commands.text("config", "set", "recipients", "default,work")
    variables = {"HOLDFAST_IDENTITIES": f"default,./here.txt,{SECRETS[0]}"}
    rows = commands.rows("keys", **variables)
    assert [(row["use"], row["key"], row["kind"], row["check"]) for row in rows] == [
        ("recipient", "default", "mlkem768x25519", "works"),
        ("recipient", "work", "X25519", "works, but none of your identities opens it"),
        ("identity", "default", "mlkem768x25519", "works"),
        ("identity", "./here.txt", "mlkem768x25519", "works"),
        ("identity", "(text)", "X25519", "works"),
        ("file", "default", "mlkem768x25519", "works"),
        ("file", "work", "X25519", "works"),
    ]
    assert [row["recipient"] for row in rows[:2]] == [recipient, made["recipient"]]
    shown = commands.text("keys", **variables)
    assert "SECRET" not in shown + json.dumps(rows)
    assert [line.split()[3] for line in shown.splitlines()[1:3]] == [
        f"{row['recipient'][:20]}…" for row in rows[:2]
    ]
    assert "********" in commands.text("config", **variables)


def test_a_part_of_a_recipient_is_not_saved_as_a_setting(commands):
    for part in ("age1x", HYBRID.recipient.text[:-1], f"default,{CLASSIC.recipient.text}q"):
        code, lines = commands.failure("config", "set", "recipients", part)
        words = "recipients holds a part of a recipient: copy all of age1pq1… or age1…"
        assert (code, lines[0]) == (3, f"error: {words}")
    for sources in (HYBRID.recipient.text, f"{CLASSIC.recipient.text},./age1x,~/a.txt,work"):
        commands.text("config", "set", "recipients", sources)


def test_keys_that_do_not_work(commands):
    assert b"`holdfast keygen` makes one" in commands.run("keys").stderr
    result = commands.run("keys", "--json", HOLDFAST_IDENTITIES=BROKEN)
    assert result.returncode == 3
    rows = [json.loads(line) for line in result.stdout.splitlines()]
    assert [row["key"] for row in rows] == ["absent", "(text)", "(text)"]
    assert all(row["check"].startswith("error: ") for row in rows)
    assert SECRETS[0][:-1].encode() not in result.stdout + result.stderr
    code, words = commands.failure("keygen", "--passphrase")
    assert (code, "must be typed on a terminal" in words[0]) == (3, True)
    assert not (commands.user_file.parent / "keys" / "default.txt").exists()


@pytest.mark.slow
def test_passphrases_on_a_terminal(commands):
    first, again = "Passphrase of ", "Repeat it: "
    typed = {first: "correct horse\n", again: "wrong horse\n"}
    code, shown = commands.on_terminal("keygen", "--passphrase", typed=typed)
    assert (code, "the two differ" in shown) == (3, True)
    path = commands.user_file.parent / "keys" / "default.txt"
    assert not path.exists()
    typed = {first: "correct horse\n", again: "correct horse\n"}
    code, shown = commands.on_terminal("keygen", "--passphrase", typed=typed)
    assert (code, "correct horse" in shown) == (0, False)
    assert b"SECRET" not in path.read_bytes()
    opened = pyrage.passphrase.decrypt(path.read_bytes(), "correct horse").decode()
    assert opened.splitlines()[2].startswith("AGE-SECRET-KEY-PQ-1")
    code, shown = commands.on_terminal("keys", typed={first: "correct horse\n"})
    assert (code, "works" in shown, "SECRET" in shown) == (0, True, False)
    path.write_bytes(pyrage.passphrase.encrypt(SECRETS[0].encode(), "correct horse"))
    code, shown = commands.on_terminal("keys", typed={first: "correct horse\n"})
    assert (code, CLASSIC.recipient.text[:20] in shown) == (0, True)
    code, shown = commands.on_terminal("keys", typed={first: "wrong horse\n"})
    assert (code, "not the passphrase" in shown) == (3, True)


@pytest.mark.slow
@pytest.mark.parametrize("options", [[], ["--classic"]])
def test_the_command_age_uses_our_key_files_and_we_its(commands, tmp_path, options):
    made = commands.json("keygen", "-o", "ours.txt", *options)
    age = engine_path(AGE)
    keygen = os.path.join(os.path.dirname(age), "age-keygen")  # noqa: PTH118, PTH120

    def run(*command, stdin=b""):
        return subprocess.run(  # noqa: S603
            command, cwd=commands.folder, input=stdin, capture_output=True, check=True
        ).stdout

    assert run(keygen, "-y", "ours.txt").decode().strip() == made["recipient"]
    file = run(age, "-r", made["recipient"], stdin=b"hello")
    [ours] = read_keys(Secret(str(commands.folder / "ours.txt")))
    assert whole.decrypt(file, [ours]) == b"hello"
    run(keygen, *([] if options else ["-pq"]), "-o", "theirs.txt")
    [theirs] = read_keys(Secret(str(commands.folder / "theirs.txt")))
    answer = whole.encrypt(b"hello", [theirs.recipient])
    assert run(age, "-d", "-i", "theirs.txt", stdin=answer) == b"hello"
