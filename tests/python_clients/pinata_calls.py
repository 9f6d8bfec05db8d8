"""Every call of pinata 0.0.1 from PyPI against the node. Prints what came, as JSON."""

import json
import sys
from pathlib import Path

from pinata import Pinata

url, key, secret = sys.argv[1:]
client = Pinata(key, secret, secret)
client.base_url = f"{url}/"
Path("tide.txt").write_bytes(b"low")

out = {}
out["file"] = client.pin_file("tide.txt")
out["missing"] = client.pin_file("no-such-file")
out["pins"] = client.get_pins()
cid = out["file"]["data"]["IpfsHash"]
out["unpin"] = client.unpin_file(cid)
out["unpin_again"] = client.unpin_file(cid)
stranger = Pinata(key, "wrong", "wrong")
stranger.base_url = client.base_url
out["stranger"] = stranger.pin_file("tide.txt")
print(json.dumps(out))
