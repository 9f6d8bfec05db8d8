"""The calls about files: list, get, change and delete."""

import time
from collections.abc import Mapping
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from holdfast.content.cid import CID
from holdfast.node.http_server.refusals import Refusal, bad_request
from holdfast.node.pinning_api.body_reader import BodyReader
from holdfast.node.pinning_api.metadata import (
    PinMetadata,
    merge_keyvalues,
    read_cid,
    read_keyvalues,
)
from holdfast.node.pinning_api.pin_groups import start_in_group
from holdfast.node.pinning_api.pin_jobs import PinJob, PinJobs
from holdfast.node.pinning_api.query_runner import QueryRunner
from holdfast.node.v3_api.file_details import Details
from holdfast.node.v3_api.json_records import file_record, job_record
from holdfast.node.v3_api.list_query import page_limit, page_token, read_file_query
from holdfast.node.v3_api.networks import File, Network, Networks
from holdfast.node.v3_api.tus_uploads import TusUploads
from holdfast.node.v3_api.upload_options import read_expiry, read_name, unwrapped
from holdfast.node.v3_api.v3_calls import data_reply
from holdfast.records import Pin
from holdfast.repository.pin_queries import Stopped

# The calls that pin existing content by its CID, in the background.


class PinEndpoints:
    """The calls about the jobs of a node, which it shares with the pinning API."""

    def __init__(self, network: Network, jobs: PinJobs, bodies: BodyReader) -> None:
        self._network = network
        self._jobs = jobs
        self._bodies = bodies

    async def add(self, request: Request) -> Response:
        """Start a job that pins a CID."""
        body = await self._bodies.json_object(request)
        cid = read_cid(body.get("cid"))
        keyvalues = read_keyvalues(body.get("keyvalues"))
        metadata = PinMetadata(read_name(body.get("name")) or "", keyvalues)
        group = body.get("group_id")
        if not isinstance(group, str | None):
            raise bad_request("group_id must be a string")
        job = PinJob(cid=str(cid), metadata=metadata, group_id=group or None)
        await run_in_threadpool(start_in_group, self._network, self._jobs, job)
        return data_reply(job_record(job))

    async def list(self, request: Request) -> Response:
        """List one page of the jobs that are under way or have failed, the oldest first."""
        query = request.query_params
        cid = query.get("cid")
        jobs = self._jobs.find(
            status=query.get("status") or None,
            cid=read_cid(cid) if cid else None,
            newest_first=(query.get("order") or query.get("sort") or "").upper() == "DESC",
        )
        if query.get("pageToken"):
            ids = [job.id for job in jobs]
            if query["pageToken"] in ids:
                jobs = jobs[ids.index(query["pageToken"]) + 1 :]
        limit = page_limit(query)
        token = jobs[limit - 1].id if len(jobs) > limit else None
        records = [job_record(job) for job in jobs[:limit]]
        return data_reply({"jobs": records, "next_page_token": token})

    async def cancel(self, request: Request) -> Response:
        """Cancel a job."""
        id_ = request.path_params["id"]
        if not self._jobs.cancel(id_):
            raise Refusal(404, f"There is no job with the id {id_[:100]}")
        return data_reply(None)


class FileEndpoints:
    """The calls about the files of both networks."""

    def __init__(
        self, networks: Networks, uploads: TusUploads, bodies: BodyReader, queries: QueryRunner
    ) -> None:
        self._networks = networks
        self._uploads = uploads
        self._bodies = bodies
        self._queries = queries

    async def list(self, request: Request) -> Response:
        """List one page of the files that match."""

        def find(stopped: Stopped) -> tuple[list[File], str | None]:
            network = self._networks.named(request.path_params["network"])
            network.remove_expired(int(time.time()))
            query = read_file_query(request.query_params, network)
            pins = network.repository.pins(query, stopped)
            limit = (query.limit or 1) - 1
            token = page_token(pins[limit - 1]) if len(pins) > limit else None
            return network.files(pins[:limit]), token

        files, token = await self._queries.run(request, find)
        records = [file_record(file) for file in files]
        return data_reply({"files": records, "next_page_token": token})

    async def get(self, request: Request) -> Response:
        """Reply with a file."""

        def find(stopped: Stopped) -> File:
            network, pin = self._find(request, stopped)
            return network.file(pin)

        return data_reply(file_record(await self._queries.run(request, find)))

    async def update(self, request: Request) -> Response:
        """Change a file. A key with the value null is removed."""
        body = await self._bodies.json_object(request)
        name = read_name(body.get("name")) or None
        keyvalues = unwrapped(body.get("keyvalues"))
        expires = read_expiry(body.get("expires_at"))
        if not name and not keyvalues and "expires_at" not in body:
            raise bad_request("At least one of name, keyvalues and expires_at must be given")

        def change(before: Mapping[str, Any]) -> Mapping[str, Any]:
            return merge_keyvalues(before, keyvalues)

        def update(stopped: Stopped) -> File:
            network, pin = self._find(request, stopped)
            if "expires_at" in body:
                details = network.details.of([pin.id]).get(pin.id, Details())
                network.details.put(pin.id, pin.cid, details._replace(expires=expires))
            changed = network.repository.update_pin(CID.parse(pin.cid), name=name, change=change)
            if changed is None or changed.id != pin.id:
                raise Refusal(404, "The file was deleted meanwhile")
            return network.file(changed)

        return data_reply(file_record(await self._queries.run(request, update)))

    async def delete(self, request: Request) -> Response:
        """Delete a file. Its content stays on the disk until garbage is collected."""

        def delete(stopped: Stopped) -> None:
            network, pin = self._find(request, stopped)
            network.remove(pin)

        await self._queries.run(request, delete)
        return data_reply(None)

    def _find(self, request: Request, stopped: Stopped) -> tuple[Network, Pin]:
        """Return the pin of the file that a request names; also by the id of its upload."""
        network = self._networks.named(request.path_params["network"])
        network.remove_expired(int(time.time()))
        id_ = request.path_params["id"]
        pin = network.find(id_, stopped) or network.find(self._uploads.file_id(id_) or "", stopped)
        if pin is None:
            raise Refusal(404, f"There is no {network.name} file with the id {id_[:100]}")
        return network, pin
