"""Add a file to a network: pin its content with its details, or the roots of an archive."""

from contextlib import suppress
from typing import Any

from holdfast.content.cid import CID
from holdfast.content.media_types import told_type
from holdfast.content.unixfs.files import Part
from holdfast.errors import ClientError, MalformedError, UnprovenError
from holdfast.node.http_server.refusals import bad_request
from holdfast.node.v3_api.file_details import Details
from holdfast.node.v3_api.networks import File, Network
from holdfast.node.v3_api.upload_options import UploadOptions
from holdfast.repository.adding import Adding


def pin_upload(
    network: Network,
    adding: Adding,
    part: Part,
    options: UploadOptions,
    *,
    id: str,
    type: str,
    files: int = 1,
) -> File:
    """Pin what `adding` has as the file `id`; return the first file if the content has one.

    The content of an archive (CAR) is what is in it: `part` itself is then removed again.
    """
    about: dict[str, Any] = {"id": id, "name": options.name, "keyvalues": options.keyvalues}
    if options.car:
        return _pin_archive(network, adding, part.cid, options, about)
    about |= {
        "size": part.dag_size,
        "files": files,
        "type": type if type == "directory" else told_type(type, options.name),
    }
    with network.described(id, part.cid, options.details):
        pin, existed = adding.pin(part.cid, **about)
    return _pinned_file(network, pin.cid, id, existed=existed)


def _pin_archive(
    network: Network, adding: Adding, archive: CID, options: UploadOptions, about: dict[str, Any]
) -> File:
    adding.flush()
    try:
        with network.repository.importing() as importing:
            for piece in network.repository.read(archive):
                importing.update(piece)
            if len(importing.roots) != 1:
                raise bad_request("The archive must have one root")
            (root,) = importing.roots
            with network.described(about["id"], root, options.details):
                ((pin, existed),) = importing.pin(**about)
    except (MalformedError, UnprovenError) as error:
        raise bad_request(f"The archive is not valid: {error.message}") from None
    finally:
        with suppress(ClientError, OSError):  # else a collection of garbage removes it
            adding.discard()
    return _pinned_file(network, pin.cid, about["id"], existed=existed)


def _pinned_file(network: Network, cid: str, id: str, *, existed: bool) -> File:
    """Return the file of `cid`. If it existed, remove the details that were set for `id`."""
    if existed:
        network.details.put(id, cid, Details())
    pin = network.repository.find_pin(CID.parse(cid))
    if pin is None:  # removed in between
        raise bad_request("The file was deleted while it was uploaded")
    return network.file(pin, is_duplicate=existed)
