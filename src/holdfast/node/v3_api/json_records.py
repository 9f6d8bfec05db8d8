"""Files, groups and jobs as the JSON of the service."""

from typing import Any

from holdfast.node.pinning_api.metadata import iso_time
from holdfast.node.pinning_api.pin_jobs import PinJob
from holdfast.node.v3_api.file_details import Group
from holdfast.node.v3_api.networks import File


def file_record(file: File) -> dict[str, Any]:
    """Return a file as lists have it."""
    pin, details = file.pin, file.details
    record = {
        "id": pin.id,
        "name": pin.name or None,
        "cid": pin.cid,
        "size": pin.size,
        "number_of_files": pin.files,
        "mime_type": pin.type,
        "group_id": details.group_id,
        "keyvalues": dict(pin.keyvalues),
        "created_at": iso_time(pin.created or 0),
    }
    if details.expires is not None:
        record["expires_at"] = details.expires
    return record


def upload_record(file: File) -> dict[str, Any]:
    """Return a file as the reply to its upload has it."""
    record = {**file_record(file), "vectorized": False, "network": file.network}
    return {**record, "is_duplicate": True} if file.is_duplicate else record


def group_record(group: Group) -> dict[str, Any]:
    """Return a group."""
    created = iso_time(group.created)
    return {
        "id": group.id,
        "name": group.name,
        "is_public": group.is_public,
        "created_at": created,
        "createdAt": created,  # as the types of the official SDK have it
    }


def job_record(job: PinJob) -> dict[str, Any]:
    """Return a CID that is being pinned."""
    return {
        "id": job.id,
        "cid": job.cid,
        "name": job.metadata.name or None,
        "status": job.status,
        "date_queued": iso_time(job.queued),
        "keyvalues": dict(job.metadata.keyvalues),
        "host_nodes": None,
        "group_id": job.group_id,
    }
