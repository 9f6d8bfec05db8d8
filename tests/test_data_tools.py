"""pandas, pyarrow, zarr and xarray on the file system. `make data` installs them."""

import gc

import fsspec
import pytest

from holdfast.filesystem import HoldfastFileSystem
from tests.gateways import gateway, kinds

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
    config = node.config
    return {
        "provider": "pinning",
        "provider_token": config.provider_token,
        "pin_api_url": config.pin_api_url,
        "gateway_url": config.gateway_url,
        "retries": {"attempts": 1},
    }


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


def test_pandas_reads_csv(fs, options, tmp_path, table):
    (tmp_path / "data").mkdir()
    small = table.head(5000)
    small.to_csv(tmp_path / "data/a.csv", index=False)
    small.to_csv(tmp_path / "data/b.csv.gz", index=False)
    root = put(fs, tmp_path / "data")
    for name in ("a.csv", "b.csv.gz"):
        found = pandas.read_csv(f"{root}/{name}", storage_options=options)
        pandas.testing.assert_frame_equal(found, small)


def test_pandas_writes_in_a_transaction(fs, options, table):
    small = table.head(1000)
    with fs.transaction:
        with fs.open("a.csv", "w") as file:
            small.to_csv(file, index=False)
        with fs.open("b.parquet", "wb") as file:
            small.to_parquet(file)
    root = f"holdfast://{fs.cid}"
    for found in (
        pandas.read_csv(f"{root}/a.csv", storage_options=options),
        pandas.read_parquet(f"{root}/b.parquet", storage_options=options),
    ):
        pandas.testing.assert_frame_equal(found, small)
    with pytest.raises(PermissionError, match="in a transaction"):
        small.to_csv("holdfast://c.csv", storage_options=options)


@pytest.mark.parametrize("cache_bytes", [0, 64 << 20])
def test_one_column_of_parquet_fetches_what_it_needs(node, options, tmp_path, table, cache_bytes):
    (tmp_path / "data").mkdir()
    path = tmp_path / "data/a.parquet"
    table.to_parquet(path, row_group_size=ROWS, compression=None)
    size = path.stat().st_size
    about = parquet.ParquetFile(path).metadata.row_group(0)
    column = about.column(3).total_compressed_size
    root = put(HoldfastFileSystem(**options), tmp_path / "data")
    sent = []

    def count(kind, request, reply):
        sent.append(len(reply.body))
        return reply

    with gateway(node, count) as server:
        counted = {
            **options,
            "gateway_url": server.url,
            "cache_path": tmp_path / "cache",
            "cache_bytes": cache_bytes,
        }

        def read():
            return pandas.read_parquet(
                f"{root}/a.parquet", columns=["column2"], storage_options=counted
            )

        pandas.testing.assert_frame_equal(read(), table[["column2"]])
        # Blocks of 1 MiB at both ends of the column, the end of the file, and what leads to it.
        assert column < sum(sent) < column + (5 << 20) < size / 2
        before = len(server.requests)
        pandas.testing.assert_frame_equal(read(), table[["column2"]])
        assert (kinds(server)[before:] == []) == bool(cache_bytes)


def test_pyarrow_reads_a_dataset(fs, options, tmp_path, table):
    table["part"] = table["row"] % 3
    table.head(9000).to_parquet(tmp_path / "data", partition_cols=["part"])
    root = put(fs, tmp_path / "data")
    found = pandas.read_parquet(root, filters=[("part", "=", 1)], storage_options=options)
    assert sorted(found["row"]) == list(range(1, 9000, 3))
    assert len(fs.glob(f"{root}/**/*.parquet")) == 3


@pytest.mark.parametrize("version", [2, 3])
def test_zarr_opens_a_cid(fs, options, tmp_path, version):
    values = np.arange(120_000).reshape(300, 400)
    group = zarr.open_group(tmp_path / "data.zarr", mode="w", zarr_format=version)
    array = group.create_array("a", shape=values.shape, chunks=(100, 100), dtype=values.dtype)
    array[:] = values
    root = put(fs, tmp_path / "data.zarr")
    found = zarr.open(root, mode="r", storage_options=options)
    assert (found["a"][:] == values).all()
    assert (found["a"][150:160, 5:9] == values[150:160, 5:9]).all()


@pytest.mark.parametrize("version", [2, 3])
def test_xarray_opens_a_zarr(fs, options, tmp_path, version):
    data = xarray.Dataset(
        {"heat": (("x", "y"), np.random.default_rng(1).random((200, 300)))},
        coords={"x": np.arange(200), "y": np.arange(300)},
    )
    data.to_zarr(tmp_path / "data.zarr", zarr_format=version, consolidated=version == 2)
    root = put(fs, tmp_path / "data.zarr")
    with xarray.open_zarr(
        root, storage_options=options, consolidated=version == 2, chunks=None
    ) as found:
        xarray.testing.assert_identical(found.load(), data)


def test_a_mapper_of_fsspec(fs, options, tmp_path):
    (tmp_path / "data/inner").mkdir(parents=True)
    (tmp_path / "data/inner/a").write_bytes(b"hello")
    root = put(fs, tmp_path / "data")
    mapper = fsspec.get_mapper(root, **options)
    assert dict(mapper) == {"inner/a": b"hello"}
