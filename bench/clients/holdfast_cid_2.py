"""Ours: the CID of a file, found by two threads."""

from functools import partial

from bench.clients.holdfast_cid_1 import Importer

connect = partial(Importer, threads=2)
