"""What our subclasses of the contract of providers share, in both colours: sizes, a directory."""

from typing import ClassVar

import pytest

from holdfast.testing import RunningNode
from tests.content import DATA

DIRECTORY_CID = "bafybeidh6k2vzukelqtrjsmd4p52cpmltd2ufqrdtdg6yigi73in672fwu"
DIRECTORY_ARCHIVE = (DATA / "subdir-with-mixed-block-files.car").read_bytes()


class SmallerFiles:
    """Files of half the usual size: they show as well that none is held whole."""

    large_size: ClassVar = 32 << 20
    memory_limit: ClassVar = 24 << 20

    @pytest.fixture
    def directory_file(self) -> tuple[str, bytes]:
        return "subdir/hello.txt", b"hello world\n"


class OnTheNode(SmallerFiles):
    """For providers that read from a node."""

    @pytest.fixture
    def directory_cid(self, node: RunningNode) -> str:
        (pin,) = node.repository.import_car([DIRECTORY_ARCHIVE])
        return pin.cid
