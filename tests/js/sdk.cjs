// @pinata/sdk against the node, which it takes for a proxy: HTTPS_PROXY must name the node.
const { Readable } = require("node:stream");
const fs = require("node:fs");
const path = require("node:path");
const PinataSDK = require("@pinata/sdk");

const [token, folder] = process.argv.slice(2);

async function main() {
  const out = {};
  const pinata = new PinataSDK({ pinataJWTKey: token });
  const paired = new PinataSDK("holdfast", token);
  out.auth = await pinata.testAuthentication();
  out.authPair = await paired.testAuthentication();
  out.bare = await pinata.pinJSONToIPFS({ a: 1 });
  out.json = await pinata.pinJSONToIPFS(
    { hello: "world" },
    { pinataMetadata: { name: "greeting", keyvalues: { kind: "sdk" } }, pinataOptions: { cidVersion: 0 } },
  );
  const stream = Readable.from([Buffer.from("streamed content")]);
  stream.path = "stream.txt";
  out.file = await pinata.pinFileToIPFS(stream, {
    pinataMetadata: { name: "stream.txt" },
    pinataOptions: { cidVersion: 1 },
  });
  out.disk = await pinata.pinFromFS(path.join(folder, "a.txt"));
  out.folder = await pinata.pinFromFS(folder);
  out.list = await pinata.pinList({ status: "pinned", pageLimit: 10, metadata: { name: "greeting" } });
  out.listByKey = await pinata.pinList({
    metadata: { keyvalues: { kind: { value: "sdk", op: "eq" } } },
  });
  out.metadata = await pinata.hashMetadata(out.file.IpfsHash, { name: "renamed" });
  out.byHash = await pinata.pinByHash(out.file.IpfsHash);
  out.jobs = await pinata.pinJobs({ sort: "ASC" });
  out.total = await pinata.userPinnedDataTotal();
  out.unpin = await pinata.unpin(out.file.IpfsHash);
  out.unpinAgain = await pinata.unpin(out.file.IpfsHash).catch((error) => error);
  const stranger = new PinataSDK({ pinataJWTKey: "wrong" });
  out.refused = await stranger.testAuthentication().catch((error) => error);
  console.log(JSON.stringify(out));
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
