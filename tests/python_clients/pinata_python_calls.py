"""Every call of pinata-python against the node. Prints what came, as JSON."""

import json
import sys
from pathlib import Path

from pinata_python.base import Pinata
from pinata_python.data import Data
from pinata_python.gateway import PublicGateway
from pinata_python.pinning import Pinning
from pinata_python.users import Users

url, key, secret = sys.argv[1:]
Pinata.PINATA_BASE_URL = f"{url}/"
Pinata.PINATA_IPFS_GATEWAY = f"{url}/ipfs/"
pair = {"PINATA_API_KEY": key, "PINATA_API_SECRET": secret}
bearer = {"AUTH": "jwt", "PINATA_JWT_TOKEN": secret}
pinning, data = Pinning(**pair), Data(**bearer)

folder = Path("photos").absolute()
folder.mkdir()
(folder / "kelp.png").write_bytes(b"kelp")
(folder / "crab.txt").write_bytes(b"crab")
options = {
    "pinataMetadata": {"name": "goku", "keyvalues": {"power": 10, "stamina": "high"}},
    "pinataOptions": {"cidVersion": 1},
}
policy = {"regions": [{"id": "FRA1", "desiredReplicationCount": 1}]}

out = {}
out["set_authentication"] = pinning.set_authentication({"jwt_token": secret})
out["headers"] = sorted(pinning.headers())
out["file"] = pinning.pin_file_to_ipfs(str(folder / "kelp.png"))
out["folder"] = pinning.pin_file_to_ipfs("photos")
out["folder_by_full_path"] = pinning.pin_file_to_ipfs(str(folder))
out["folder_with_slash"] = pinning.pin_file_to_ipfs("photos/")
out["folder_of_one_kind"] = pinning.pin_file_to_ipfs("photos", ".png")
out["json"] = pinning.pin_json_to_ipfs({"hello": "world"})
out["json_named"] = pinning.pin_json_to_ipfs({"name": "goku"}, options)
cid = out["json"]["IpfsHash"]
out["by_hash"] = pinning.pin_by_hash(cid, options)
out["metadata"] = pinning.hash_metadata(cid, {"name": "alice", "keyvalues": {"job": "queen"}})
out["pin_policy"] = pinning.hash_pin_policy(cid, policy)
out["global_policy"] = pinning.global_pin_policy(policy)
out["jobs"] = pinning.pin_jobs({"sort": "ASC", "status": "prechecking", "limit": 3, "offset": 0})

out["list"] = data.pin_list()
chosen = {
    "hashContains": cid[4:12],
    "pinStart": "2022-04-16T00:00:00.000Z",
    "pinEnd": "2122-04-16T00:00:00.000Z",
    "pinSizeMin": 1,
    "pinSizeMax": 1000,
    "status": "pinned",
    "pageLimit": 1,
    "pageOffset": 0,
    "nameContains": "alice",
    "keyvalues": json.dumps({"job": {"value": "queen", "op": "eq"}}),
}
out["list_chosen"] = data.pin_list(chosen)
times = {"unpinStart": "2022-04-16T00:00:00.000Z", "unpinEnd": "2122-04-16T00:00:00.000Z"}
out["list_unpinned"] = data.pin_list({**times, "status": "unpinned"})
out["total"] = data.user_pinned_data_total()
out["read"] = PublicGateway(**pair).retrieve_content(cid, "hello.json")
out["content"] = Path("hello.json").read_text()
out["unpin"] = pinning.unpin(cid)
out["unpin_again"] = pinning.unpin(cid)
out["generate_keys"] = Users(**bearer).generate_keys()
out["revoke_key"] = Users(**bearer).revoke_key("default_pinata")
out["stranger"] = Data(PINATA_API_KEY=key, PINATA_API_SECRET="wrong").pin_list()
print(json.dumps(out))
