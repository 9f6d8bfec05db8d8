"""Pins and jobs as the JSON of the service."""

from typing import Any, Final

from holdfast.node.pinning_api.metadata import iso_time
from holdfast.node.pinning_api.pin_groups import Pinned
from holdfast.node.pinning_api.pin_jobs import PinJob
from holdfast.records import Pin

REGIONS: Final[list[dict[str, Any]]] = [
    {"regionId": "LOCAL", "currentReplicationCount": 1, "desiredReplicationCount": 1}
]


def pinned_record(pinned: Pinned) -> dict[str, Any]:
    """Return the reply to a pin, with the members of all versions of the service."""
    pin = pinned.pin
    reply: dict[str, Any] = {
        "IpfsHash": pin.cid,
        "PinSize": pin.size,
        "Timestamp": iso_time(pin.created or 0),
        "ID": pin.id,
        "Name": pin.name,
        "NumberOfFiles": pin.files,
        "MimeType": pin.type,
        "GroupId": pinned.group,
        "Keyvalues": dict(pin.keyvalues) or None,
    }
    if pinned.existed:
        reply["isDuplicate"] = True
    return reply


def pin_row(pin: Pin) -> dict[str, Any]:
    """Return a pin as lists have it."""
    return {
        "id": pin.id,
        "ipfs_pin_hash": pin.cid,
        "size": pin.size,
        "user_id": "local",
        "date_pinned": iso_time(pin.created or 0),
        "date_unpinned": None if pin.removed is None else iso_time(pin.removed),
        "metadata": {"name": pin.name or None, "keyvalues": dict(pin.keyvalues) or None},
        "regions": REGIONS,
        "mime_type": pin.type,
        "number_of_files": pin.files,
    }


def job_row(job: PinJob) -> dict[str, Any]:
    """Return a job as lists have it."""
    return {
        "id": job.id,
        "ipfs_pin_hash": job.cid,
        "date_queued": iso_time(job.queued),
        "name": job.metadata.name or None,
        "status": job.status,
        "keyvalues": dict(job.metadata.keyvalues) or None,
        "host_nodes": None,
        "pin_policy": {"regions": [{"id": "LOCAL", "desiredReplicationCount": 1}], "version": 1},
    }
