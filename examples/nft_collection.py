"""Make an NFT collection: a folder of images, and a folder with the metadata of each.

    pip install .   # in a clone of Holdfast
    python examples/nft_collection.py images metadata

The last line is the base URI for the contract: the metadata of token 1 is at ``BASE/1``.
"""

import json
import sys
from pathlib import Path
from urllib.parse import quote

from holdfast import Client, ClientConfig


def main(images: Path, metadata: Path) -> None:
    with Client.init(ClientConfig.from_env()) as client:
        art = client.upload(images)
        metadata.mkdir()
        for number, name in enumerate(sorted(each.name for each in client.entries(art.cid)), 1):
            token = {"name": Path(name).stem, "image": f"ipfs://{art.cid}/{quote(name)}"}
            (metadata / str(number)).write_text(json.dumps(token))
        tokens = client.upload(metadata)
        first = client.retrieve(f"{tokens.cid}/1")  # verified from the root of the folder on
        print(f"token 1: {first['name']}, {first['image']}\nbase URI: ipfs://{tokens.cid}/")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
