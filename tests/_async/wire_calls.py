"""Random calls of encrypted views, whose plaintexts can be recognized; see tests/wire.py."""

import json
import random
import shutil
from contextlib import suppress

from holdfast import AsyncClient
from holdfast.errors import ClientError, UnsupportedError
from holdfast.providers import AsyncCopiesProvider
from tests.wire import marked

KINDS = ("json", "file", "folder", "stream", "message", "large")
SIZES = (64, 1_000, 65_536, 70_000, 300_000)
LARGE = 700_000  # more than a form has in these tests


def text_of(number):
    chance = random.Random(number)  # noqa: S311
    return marked(chance.choice(SIZES) + chance.randrange(50), number)


def path_of(folder, number, *, size=None):
    """Return a file with the text of a number, which is written before the first call."""
    path = folder / "sources" / f"{number}.txt"
    if not path.exists():
        path.parent.mkdir(exist_ok=True)
        new = path.with_suffix(".new")  # renamed when it is complete: we may be killed
        new.write_text(text_of(number) if size is None else marked(size, number))
        new.rename(path)
    return path


def folder_of(folder, number):
    path = folder / "sources" / f"folder {number}"
    if not path.exists():
        new = path.with_suffix(".new")
        (new / "below").mkdir(parents=True, exist_ok=True)
        for name, text in files_of(number).items():
            (new / name).write_text(text)
        new.rename(path)
    return path


def files_of(number):
    return {f"{n}.txt": text_of(number + n) for n in range(3)} | {
        "below/large.txt": marked(LARGE // 2, number)
    }


async def write(view, kind, number, folder):
    """Store something, and return its CID."""
    if kind == "json":
        return (await view.store({"text": text_of(number)})).cid
    if kind == "message":
        return (await view.send("alice", text_of(number))).cid
    if kind == "folder":
        return (await view.upload(folder_of(folder, number))).cid
    if kind == "stream":
        data = text_of(number).encode()
        pieces = (data[start : start + 50_000] for start in range(0, len(data), 50_000))
        return (await view.upload(pieces)).cid
    size = LARGE if kind == "large" else None
    return (await view.upload(path_of(folder, number, size=size))).cid


async def read(view, row, chance, target):
    """Read what was stored, in one of the ways that there are, and compare it."""
    kind, number, cid = row["kind"], row["number"], row["cid"]
    text = marked(LARGE, number) if kind == "large" else text_of(number)
    if kind == "json":
        assert await view.retrieve(cid) == {"text": text}
    elif kind == "message":
        assert (await view.receive(cid)).payload == text
    elif kind == "folder":
        with suppress(FileExistsError):  # a call that was killed may have finished it: see below
            await view.download_folder(cid, target)
        for name, content in files_of(number).items():
            assert (target / name).read_text() == content
        removed = target.with_name("removed")
        shutil.rmtree(removed, ignore_errors=True)  # of a call that was killed
        target.rename(removed)
        shutil.rmtree(removed)
    elif chance.random() < 0.5:
        await view.download(cid, to=target)
        assert target.read_text() == text
        target.unlink()
    elif chance.random() < 0.5:
        assert (await view.download(cid)).read() == text.encode()
    else:
        start = chance.randrange(len(text))
        async with view.open(cid) as file:
            assert await file.pread(100, start) == text[start : start + 100].encode()


async def call(view, number, earlier, folder, reader):
    """Make the call of this number; return a row about what was stored, if anything was.

    `earlier` are the rows of earlier calls, `reader` is a recipient with whom content is shared.
    """
    chance = random.Random(f"call {number}")  # noqa: S311
    row = chance.choice(earlier) if earlier and chance.random() < 0.5 else None
    if row is None:
        kind = KINDS[number // 4 % len(KINDS)]  # for each of up to four views
        return {"kind": kind, "number": number, "cid": await write(view, kind, number, folder)}
    if chance.random() < 0.3:
        try:
            return {**row, "cid": (await view.share(row["cid"], [reader])).cid}
        except UnsupportedError:
            return {"kind": "share", "number": number, "cid": None}
    (folder / "home/here/copy").mkdir(exist_ok=True)
    await read(view, row, chance, folder / "home/here/copy/target")
    return {"kind": "read", "number": number, "cid": None}


async def clients_of(settings, folder):
    """Return clients by name, from the fields of their configurations; `copies` is over these."""
    clients = {name: await AsyncClient.init(**fields) for name, fields in settings.items()}
    members = [clients[name] for name in ("pinata", "kubo") if name in clients]
    if len(members) == 2:
        provider = AsyncCopiesProvider(members, sites=["a", "b"], path=folder / "home/ledger")
        clients["copies"] = AsyncClient(provider)
    return clients


async def run(folder, count):
    """Make the calls that have no row yet in ``rows``, one after the other."""
    plan = json.loads((folder / "plan").read_text())
    clients = await clients_of(plan["settings"], folder)
    views = {
        name: client.encrypted(identities=[plan["identity"]]) for name, client in clients.items()
    }
    with (folder / "rows").open("a+") as file:
        file.seek(0)
        rows = [json.loads(line) for line in file]
        for number in range(len(rows), count):
            name = [*views][number % len(views)]
            earlier = [row for row in rows if row["at"] == name and row.get("cid")]
            try:
                row = await call(views[name], number, earlier, folder, plan["reader"])
            except ClientError as error:
                row = {"error": repr(error)}
            rows.append({**row, "at": name})
            print(json.dumps(rows[-1]), file=file, flush=True)
    for name in reversed(clients):
        await clients[name].aclose()
