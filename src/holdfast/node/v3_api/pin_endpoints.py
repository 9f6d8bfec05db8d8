"""The calls that pin existing content by its CID, in the background."""

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from holdfast.node.http_server.refusals import Refusal, bad_request
from holdfast.node.pinning_api.body_reader import BodyReader
from holdfast.node.pinning_api.metadata import PinMetadata, read_cid, read_keyvalues
from holdfast.node.pinning_api.pin_groups import start_in_group
from holdfast.node.pinning_api.pin_jobs import PinJob, PinJobs
from holdfast.node.v3_api.json_records import job_record
from holdfast.node.v3_api.list_query import page_limit
from holdfast.node.v3_api.networks import Network
from holdfast.node.v3_api.upload_options import read_name
from holdfast.node.v3_api.v3_calls import data_reply


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
