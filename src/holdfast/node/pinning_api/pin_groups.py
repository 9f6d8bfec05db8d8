"""Put pins into groups: ``pinataOptions.groupId``. The v3 API makes the groups and keeps them."""

import uuid
from contextlib import AbstractContextManager
from typing import Any, NamedTuple, Protocol

from holdfast.content.cid import CID
from holdfast.node.pinning_api.pin_jobs import PinJob, PinJobs
from holdfast.records import Pin
from holdfast.repository.adding import Adding


class Pinned(NamedTuple):
    """A pin, whether it existed before, and its group."""

    pin: Pin
    existed: bool
    group: str | None


class Groups(Protocol):
    """The groups of a node."""

    def grouped(self, id: str, cid: CID, group: str | None) -> AbstractContextManager[None]:
        """Put the id of a pin into a group before the block pins it; take it out if that fails.

        Raise a `Refusal` if there is no such group.
        """

    def ungroup(self, id: str, cid: CID) -> None:
        """Take an id out of its group."""

    def group_of(self, pin: Pin) -> str | None:
        """Return the group of a pin."""

    def ids_in_group(self, group: str) -> list[str]:
        """Return the ids in a group."""


def pin_in_group(
    groups: Groups, group: str | None, adding: Adding, cid: CID, **about: Any
) -> Pinned:
    """Pin what `adding` has. A new pin is in `group`; one that existed stays where it is."""
    if group is None:
        pin, existed = adding.pin(cid, **about)
    else:
        id_ = str(uuid.uuid4())
        with groups.grouped(id_, cid, group):
            pin, existed = adding.pin(cid, id=id_, **about)
        if existed:
            groups.ungroup(id_, cid)
    return Pinned(pin, existed, groups.group_of(pin) if existed else group)


def start_in_group(groups: Groups, jobs: PinJobs, job: PinJob) -> None:
    """Start a job, whose pin will be in the group of the job."""
    with groups.grouped(job.id, CID.parse(job.cid), job.group_id):
        jobs.start(job)
