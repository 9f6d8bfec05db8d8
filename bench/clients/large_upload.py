"""Upload one file, measured: `python -m bench.clients.large_upload PROVIDER URL PATH`."""

import json
import sys
from dataclasses import asdict

from bench.clients import TOKEN
from bench.clients.__main__ import Meter
from holdfast import Client


def main() -> None:
    provider, url, path = sys.argv[1:]
    with Client.init(provider=provider, provider_token=TOKEN, pin_api_url=url) as client:
        client.test_connection()
        meter = Meter()
        client.upload(path)
        print(json.dumps(asdict(meter.result(1))))


if __name__ == "__main__":
    main()
