"""The calls of ipfsspec against the gateway of the node. Prints what came, as JSON."""

import asyncio
import hashlib
import json
import sys
from pathlib import Path

import fsspec
from ipfsspec import AsyncIPFSFileSystem

url, folder, large, hello, missing = sys.argv[1:]
fs = fsspec.filesystem("ipfs", gateway_addr=url)
out = {}


def refused(call, *arguments):
    try:
        call(*arguments)
    except (OSError, NotImplementedError) as error:
        return type(error).__name__
    return None


def short(info):
    return {key: info.get(key) for key in ("name", "CID", "type", "size")}


out["ls"] = fs.ls(folder, detail=False)
out["ls_detail"] = [short(info) for info in fs.ls(f"ipfs://{folder}")]
out["ls_inner"] = fs.ls(f"{folder}/deep", detail=False)
out["info_file"] = short(fs.info(f"{folder}/kelp.txt"))
out["info_folder"] = short(fs.info(f"{folder}/deep"))
out["info_large"] = short(fs.info(large))
out["ukey"] = fs.ukey(f"{folder}/kelp.txt")
out["cat"] = fs.cat(hello).decode()
out["cat_part"] = fs.cat_file(hello, start=1, end=3).decode()
out["cat_several"] = {path: data.decode() for path, data in fs.cat(fs.find(folder)).items()}
out["size"] = fs.size(large)
out["sizes"] = fs.sizes([hello, large])
out["large"] = hashlib.sha256(fs.cat(large)).hexdigest()
out["exists"] = [fs.exists(hello), fs.exists(missing), fs.exists(f"{folder}/none")]
out["isdir"] = [fs.isdir(folder), fs.isdir(hello)]
out["isfile"] = [fs.isfile(folder), fs.isfile(hello)]
out["find"] = sorted(fs.find(folder))
out["glob"] = fs.glob(f"{folder}/*.txt")
out["walk"] = [[root, sorted(folders), sorted(files)] for root, folders, files in fs.walk(folder)]
out["du"] = fs.du(folder)
out["head"] = fs.head(hello, 2).decode()
with fs.open(f"{folder}/deep/crab.txt") as file:
    out["open"] = file.read().decode()
with fsspec.open(f"ipfs://{hello}", "rt", gateway_addr=url) as file:
    out["open_text"] = file.read()
fs.get_file(hello, "copy.txt")
out["get_file"] = Path("copy.txt").read_text()
# With recursive=True it opens folders for writing as if they were files, whatever the gateway.
fs.get(fs.find(folder), ["copies/crab.txt", "copies/kelp.txt"])
out["get_files"] = [path.read_text() for path in sorted(Path("copies").iterdir())]


async def read():
    other = AsyncIPFSFileSystem(asynchronous=True, gateway_addr=url)
    session = await other.set_session()
    try:
        return (await other._cat_file(hello)).decode()
    finally:
        await session.close()


out["async"] = asyncio.run(read())
out["missing"] = refused(fs.cat, missing)
out["not_a_cid"] = refused(fs.cat, "nonsense")
out["list_a_file"] = refused(fs.ls, large)
out["write"] = refused(fs.open, hello, "wb")
out["name_system"] = refused(fsspec.filesystem("ipns", gateway_addr=url).cat, "docs.ipfs.tech")
print(json.dumps(out))
