"""The calls about groups of files."""

from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from holdfast.node.http_server.refusals import Refusal, bad_request
from holdfast.node.pinning_api.body_reader import BodyReader
from holdfast.node.pinning_api.pin_list_query import whole_number
from holdfast.node.v3_api.file_details import Details, Group
from holdfast.node.v3_api.json_records import group_record
from holdfast.node.v3_api.list_query import page_limit
from holdfast.node.v3_api.networks import Network, Networks
from holdfast.node.v3_api.upload_options import read_flag, read_name
from holdfast.node.v3_api.v3_calls import data_reply


class GroupEndpoints:
    """The calls about the groups of both networks."""

    def __init__(self, networks: Networks, bodies: BodyReader) -> None:
        self._networks = networks
        self._bodies = bodies

    async def _network(self, request: Request) -> Network:
        name = request.path_params["network"]
        return await run_in_threadpool(self._networks.named, name)

    async def create(self, request: Request) -> Response:
        """Make a group."""
        name, is_public = _read_group(await self._bodies.json_object(request))
        if not name:
            raise bad_request("A group needs a name")
        network = await self._network(request)
        group = await run_in_threadpool(network.details.add_group, name, is_public=bool(is_public))
        return data_reply(group_record(group))

    async def list(self, request: Request) -> Response:
        """List one page of groups, the newest first."""
        query = request.query_params
        limit = page_limit(query)
        conditions, values = ["1"], []
        for condition, value in (
            ("instr(fold(name), fold(?)) > 0", query.get("name")),
            ("is_public = ?", _read_public(query.get("isPublic", ""))),
            ("id < ?", _read_token(query.get("pageToken", ""))),
        ):
            if value not in {None, ""}:
                conditions.append(condition)
                values.append(value)
        network = await self._network(request)
        where = " AND ".join(conditions)
        groups = await run_in_threadpool(
            lambda: network.details.groups(where, *values, limit=limit + 1)
        )
        token = str(groups[limit - 1].number) if len(groups) > limit else None
        records = [group_record(group) for group in groups[:limit]]
        return data_reply({"groups": records, "next_page_token": token})

    async def get(self, request: Request) -> Response:
        """Reply with a group."""
        network = await self._network(request)
        id_ = request.path_params["id"]
        group = await run_in_threadpool(network.details.group, id_)
        return data_reply(group_record(_found(group, id_)))

    async def update(self, request: Request) -> Response:
        """Change the name of a group, or whether it is public."""
        name, is_public = _read_group(await self._bodies.json_object(request))
        network = await self._network(request)
        id_ = request.path_params["id"]
        group = await run_in_threadpool(network.details.update_group, id_, name, is_public)
        return data_reply(group_record(_found(group, id_)))

    async def delete(self, request: Request) -> Response:
        """Delete a group. Its files stay."""
        network = await self._network(request)
        id_ = request.path_params["id"]
        if not await run_in_threadpool(network.details.remove_group, id_):
            raise _missing(id_)
        return data_reply(None)

    async def add_file(self, request: Request) -> Response:
        """Put a file into a group; it is in one group at most."""
        await self._set_group(request, request.path_params["id"])
        return data_reply(None)

    async def remove_file(self, request: Request) -> Response:
        """Take a file out of a group."""
        await self._set_group(request, None)
        return data_reply(None)

    async def _set_group(self, request: Request, group: str | None) -> None:
        network = await self._network(request)
        group_id, file_id = request.path_params["id"], request.path_params["file_id"]

        def change() -> None:
            network.check_group(group_id)
            pin = network.find(file_id)
            if pin is None:
                raise Refusal(404, f"There is no file with the id {file_id[:100]}")
            before = network.details.of([pin.id]).get(pin.id, Details())
            if group is not None or before.group_id == group_id:
                network.details.put(pin.id, pin.cid, before._replace(group_id=group))

        await run_in_threadpool(change)


def _read_group(body: dict[str, Any]) -> tuple[str | None, bool | None]:
    """Return the name of a group, and whether it is public; None for what is not given."""
    name, is_public = read_name(body.get("name")), body.get("is_public")
    return name, None if is_public is None else read_flag("is_public", is_public)


def _read_public(text: str) -> bool | None:
    return read_flag("isPublic", text) if text else None


def _read_token(text: str) -> int | None:
    return whole_number(text, "pageToken") if text else None


def _found(group: Group | None, id: str) -> Group:
    if group is None:
        raise _missing(id)
    return group


def _missing(id: str) -> Refusal:
    return Refusal(404, f"There is no group with the id {id[:100]}")
