"""Every call of pinatapy-vourhey against the node. Prints what came, as JSON."""

import json
import sys
from pathlib import Path

import pinatapy

url, key, secret = sys.argv[1:]
pinatapy.API_ENDPOINT = f"{url}/"
client = pinatapy.PinataPy(key, secret)

Path("tide.txt").write_bytes(b"low")
folder = Path("photos").absolute()
(folder / "deep").mkdir(parents=True)
(folder / "kelp.txt").write_bytes(b"kelp")
(folder / "deep" / "crab.txt").write_bytes(b"crab")
named = {
    "pinataMetadata": {"name": "named", "keyvalues": {"kind": "tide"}},
    "pinataOptions": {"cidVersion": 0},
}
texts = {name: json.dumps(value) for name, value in named.items()}

out = {}
# Without options, a file's name is a slash and its path.
out["file"] = client.pin_file_to_ipfs("tide.txt")
out["file_named"] = client.pin_file_to_ipfs("tide.txt", options=named)
out["file_with_texts"] = client.pin_file_to_ipfs("tide.txt", options=texts)
out["file_by_full_path"] = client.pin_file_to_ipfs(str(folder / "kelp.txt"))
out["file_without_path"] = client.pin_file_to_ipfs(
    str(folder / "kelp.txt"), save_absolute_paths=False
)
out["file_to_folder"] = client.pin_file_to_ipfs("tide.txt", "tides", save_absolute_paths=False)
out["folder"] = client.pin_file_to_ipfs("photos")
out["folder_without_path"] = client.pin_file_to_ipfs("photos", save_absolute_paths=False)
out["folder_to_folder"] = client.pin_file_to_ipfs("photos/", "albums/2026")
out["folder_with_double_slash"] = client.pin_file_to_ipfs(
    "photos", "copies/", save_absolute_paths=False
)

out["json"] = client.pin_json_to_ipfs({"hello": "world"})
out["json_named"] = client.pin_json_to_ipfs({"tide": "high"}, named)
cid = out["json"]["IpfsHash"]
out["by_hash"] = client.pin_to_pinata_using_ipfs_hash(cid, "by hash")
out["by_old_hash"] = client.pin_hash_to_ipfs(cid, {"pinataMetadata": {"name": "old"}})
out["jobs"] = client.pin_jobs()
out["jobs_chosen"] = client.pin_jobs({"sort": "DESC", "status": "retrieving", "limit": 3})
out["list"] = client.pin_list()
out["list_by_name"] = client.pin_list({"status": "pinned", "metadata[name]": "named"})
out["total"] = client.user_pinned_data_total()
out["unpin"] = client.remove_pin_from_ipfs(cid)
out["unpin_again"] = client.remove_pin_from_ipfs(cid)
out["generate_key"] = client.generate_api_key("new", is_admin=True)
out["revoke_key"] = client.revoke_api_key("new")
out["stranger"] = pinatapy.PinataPy(key, "wrong").pin_list()
print(json.dumps(out))
