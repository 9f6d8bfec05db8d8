"""pandas, pyarrow, zarr, xarray, DuckDB and Dask on the file system. `make data` installs them."""

import gc

import pytest

from holdfast.filesystem import HoldfastFileSystem, register_ipfs
from tests.commands import run_python
from tests.gateways import gateway, kinds
from tests.test_filesystem import options_for

np = pytest.importorskip("numpy", reason="`make data` installs it")
pandas = pytest.importorskip("pandas", reason="`make data` installs it")
parquet = pytest.importorskip("pyarrow.parquet", reason="`make data` installs it")
xarray = pytest.importorskip("xarray", reason="`make data` installs it")
zarr = pytest.importorskip("zarr", reason="`make data` installs it")

ROWS = 300_000


@pytest.fixture(autouse=True)
def no_instances():
    HoldfastFileSystem.clear_instance_cache()
    yield
    HoldfastFileSystem.clear_instance_cache()
    gc.collect()


@pytest.fixture
def options(node):
    """What leads to the node, without a cache."""
    return options_for(node, provider_token=node.token)


@pytest.fixture
def fs(options):
    return HoldfastFileSystem(**options)


@pytest.fixture
def table():
    chance = np.random.default_rng(7)
    columns = {f"column{number}": chance.random(ROWS) for number in range(8)}
    return pandas.DataFrame({"row": np.arange(ROWS), **columns})


def put(fs, folder):
    fs.put(f"{folder}/", "", recursive=True)
    return f"holdfast://{fs.cid}"


@pytest.mark.slow
@pytest.mark.parametrize("cache_bytes", [0, 64 << 20])
def test_one_column_of_parquet_fetches_what_it_needs(node, options, tmp_path, table, cache_bytes):
    (tmp_path / "data").mkdir()
    path = tmp_path / "data/a.parquet"
    table.to_parquet(path, row_group_size=ROWS, compression=None)
    size = path.stat().st_size
    column = parquet.ParquetFile(path).metadata.row_group(0).column(3).total_compressed_size
    root = put(HoldfastFileSystem(**options), tmp_path / "data")
    sent = []

    def count(kind, request, reply):
        sent.append(len(reply.body))
        return reply

    with gateway(node, count) as server:
        cache = {"cache_path": tmp_path / "cache", "cache_bytes": cache_bytes}
        counted = options_for(node, server.url, provider_token=node.token, **cache)
        one = {"columns": ["column2"], "storage_options": counted}
        frame = pandas.read_parquet(f"{root}/a.parquet", **one)
        pandas.testing.assert_frame_equal(frame, table[["column2"]])
        # Blocks of 1 MiB at both ends of the column, the end of the file, and what leads to it.
        assert column < sum(sent) < column + (5 << 20) < size / 2
        before = len(server.requests)
        pandas.read_parquet(f"{root}/a.parquet", **one)
        assert (kinds(server)[before:] == []) == bool(cache_bytes)


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.slow
def test_xarray_opens_a_zarr(fs, options, tmp_path, version):
    data = xarray.Dataset(
        {"heat": (("x", "y"), np.random.default_rng(1).random((200, 300)))},
        coords={"x": np.arange(200), "y": np.arange(300)},
    )
    data.to_zarr(tmp_path / "data.zarr", zarr_format=version, consolidated=version == 2)
    root = put(fs, tmp_path / "data.zarr")
    check_zarr(root, options, version, data)


def check_zarr(address, options, version, data):
    how = {"storage_options": options, "consolidated": version == 2, "chunks": None}
    with xarray.open_zarr(address, **how) as stored:
        xarray.testing.assert_identical(stored.load(), data)


# Writing


def test_pandas_writes_by_url_in_a_transaction(fs, options, table):
    """The options have a token, and pandas gets the instance whose transaction is open."""
    small = table.head(1000)
    with fs.transaction:
        small.to_csv("holdfast://a.csv", index=False, storage_options=options)
        small.to_parquet("holdfast://more/b.parquet", storage_options=options)
        small.to_parquet("c.parquet", filesystem=fs)
    root = f"holdfast://{fs.cid}"
    for frame in (
        pandas.read_csv(f"{root}/a.csv", storage_options=options),
        pandas.read_parquet(f"{root}/more/b.parquet", storage_options=options),
        pandas.read_parquet(f"{root}/c.parquet", storage_options=options),
    ):
        pandas.testing.assert_frame_equal(frame, small)
    with pytest.raises(PermissionError, match="in a transaction"):
        small.to_csv("holdfast://c.csv", storage_options=options)


@pytest.mark.slow
def test_zarr_and_xarray_write(fs, options):
    wrappers = pytest.importorskip("fsspec.implementations.asyn_wrapper")
    data = xarray.Dataset({"heat": (("x", "y"), np.arange(600.0).reshape(20, 30))})
    with fs.transaction:
        wrapped = wrappers.AsyncFileSystemWrapper(fs, asynchronous=True)
        for version in (2, 3):
            store = zarr.storage.FsspecStore(wrapped, path=f"{version}.zarr")
            data.to_zarr(store, zarr_format=version, consolidated=version == 2)
    for version in (2, 3):
        check_zarr(f"holdfast://{fs.cid}/{version}.zarr", options, version, data)
    with fs.transaction, pytest.raises(PermissionError, match="asynchronous"):
        data.to_zarr("holdfast://a.zarr", storage_options=options, zarr_format=2)
    with pytest.raises(TypeError, match="HOLDFAST_PROVIDER_TOKEN"):
        zarr.open(fs.get_mapper(f"{fs.cid}/2.zarr"), mode="r")


# DuckDB


@pytest.fixture
def duckdb(fs):
    connection = pytest.importorskip("duckdb", reason="`make data` installs it").connect()
    connection.register_filesystem(fs)
    with connection:
        yield connection


@pytest.mark.slow
def test_duckdb_reads(duckdb, stored):
    for name in ("parts/*.parquet", "**/*.parquet", "*.csv"):
        query = f"SELECT sum(row), count(*) FROM '{stored}/{name}'"  # noqa: S608
        for _ in range(2):  # the second time, DuckDB uses what it has kept of the files
            assert duckdb.sql(query).fetchall() == [(sum(range(900)), 900)]
    with pytest.raises(Exception, match="No files found"):
        duckdb.sql(f"FROM '{stored}/none.parquet'").fetchall()


@pytest.mark.slow
def test_duckdb_writes_in_a_transaction(duckdb, fs):
    rows = "SELECT range AS row, range % 3 AS part FROM range(1000)"
    with fs.transaction:
        for name in ("a.parquet", "b.csv", "c.json"):
            duckdb.sql(f"COPY ({rows}) TO 'holdfast://{name}'")
        duckdb.sql(f"COPY ({rows}) TO 'holdfast://parts' (FORMAT parquet, PARTITION_BY (part))")
        assert duckdb.sql("SELECT count(*) FROM 'holdfast://a.parquet'").fetchall() == [(1000,)]
        duckdb.sql("COPY (SELECT 7 AS row) TO 'holdfast://a.parquet'")
        assert duckdb.sql("FROM 'holdfast://a.parquet'").fetchall() == [(7,)]
    counts = {"a.parquet": 1, "b.csv": 1000, "c.json": 1000, "parts/**/*.parquet": 1000}
    for name, count in counts.items():
        query = f"SELECT count(*) FROM 'holdfast://{fs.cid}/{name}'"  # noqa: S608
        assert duckdb.sql(query).fetchall() == [(count,)]


@pytest.mark.slow
def test_duckdb_attaches_a_database_to_read(duckdb, fs, tmp_path):
    with pytest.importorskip("duckdb").connect(tmp_path / "a.db") as database:
        database.sql("CREATE TABLE tides AS SELECT 42 AS row")
    fs.put(str(tmp_path / "a.db"), "a.db")
    where = f"'holdfast://{fs.cid}/a.db' AS stored"
    with pytest.raises(Exception, match="content under a CID cannot be changed"):
        duckdb.sql(f"ATTACH {where}")
    duckdb.sql(f"ATTACH {where} (READ_ONLY)")
    assert duckdb.sql("FROM stored.tides").fetchall() == [(42,)]


@pytest.mark.slow
def test_what_duckdb_cannot_write(duckdb, fs):
    with pytest.raises(Exception, match="files are written in a transaction"):
        duckdb.sql("COPY (SELECT 1) TO 'holdfast://a.parquet'")
    with fs.transaction:
        fs.pipe("a.txt", b"one")
    with fs.transaction, pytest.raises(Exception, match="content under a CID cannot be changed"):
        duckdb.sql(f"COPY (SELECT 1) TO 'holdfast://{fs.cid}/a.parquet'")


# Dask

DASK = """
import sys
import dask
import dask.dataframe as dd

if __name__ == "__main__":
    root, gateway, api, scheduler, *token = sys.argv[1:]
    options = {"provider": "pinning", "gateway_url": gateway, "pin_api_url": api}
    if token:
        options["provider_token"] = token[0]
    dask.config.set(scheduler=scheduler, num_workers=2)
    print(dd.read_csv(f"{root}/*.csv", storage_options=options)["row"].sum().compute(), end=" ")
    print(dd.read_parquet(f"{root}/parts", storage_options=options)["row"].sum().compute())
"""


@pytest.fixture
def dask():
    pytest.importorskip("dask.dataframe", reason="`make data` installs it")
    return pytest.importorskip("dask")


@pytest.fixture
def stored(fs, table):
    small = table[["row"]].head(900)
    with fs.transaction:
        for number in range(3):
            small.iloc[number::3].to_parquet(f"parts/{number}.parquet", filesystem=fs)
            with fs.open(f"{number}.csv", "w") as file:
                small.iloc[number::3].to_csv(file, index=False)
    return f"holdfast://{fs.cid}"


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:The inplace keyword")  # Dask calls pandas with it
@pytest.mark.parametrize("scheduler", ["sync", "threads"])
def test_dask_in_one_process_works_with_a_token(dask, fs, options, stored, scheduler):
    frames = dask.dataframe
    with dask.config.set(scheduler=scheduler):
        for frame in (
            frames.read_csv(f"{stored}/*.csv", storage_options=options),
            frames.read_parquet(f"{stored}/parts", storage_options=options),
        ):
            assert frame["row"].sum().compute() == sum(range(900))
        frame = frames.from_pandas(pandas.DataFrame({"row": range(900)}), npartitions=3)
        with fs.transaction:
            frame.to_parquet("holdfast://parts", write_index=False, storage_options=options)
            frame.to_csv("holdfast://text/*.csv", storage_options=options, index=False)
        assert len(fs.find(fs.cid)) == 6
        stored = frames.read_parquet(f"holdfast://{fs.cid}/parts", storage_options=options)
        assert stored["row"].sum().compute() == sum(range(900))


@pytest.mark.slow
def test_workers_of_dask_take_the_token_from_the_environment(dask, node, stored, tmp_path):
    (tmp_path / "script.py").write_text(DASK)
    token = node.config.provider_token.reveal()

    def run(*arguments, **variables):
        where = (stored, node.gateway_url, node.api_url, "processes")
        return run_python(tmp_path / "script.py", *where, *arguments, **variables)

    done = run(HOLDFAST_PROVIDER_TOKEN=token)
    assert done.stdout == f"{sum(range(900))} {sum(range(900))}\n", done.stderr
    refused = run(token)
    assert refused.returncode == 1
    assert "a token is never pickled: set HOLDFAST_PROVIDER_TOKEN in the env" in refused.stderr
    assert token not in refused.stderr + refused.stdout


def test_pandas_reads_public_content_by_ipfs_urls(node, fs, tmp_path):
    (tmp_path / "data").mkdir()
    small = pandas.DataFrame({"a": [1, 2], "b": ["x", "y"]})
    small.to_parquet(tmp_path / "data/a.parquet")
    cid = put(fs, tmp_path / "data").removeprefix("holdfast://")
    register_ipfs()
    options = {"gateway_url": node.gateway_url}
    frame = pandas.read_parquet(f"ipfs://{cid}/a.parquet", storage_options=options)
    pandas.testing.assert_frame_equal(frame, small)
