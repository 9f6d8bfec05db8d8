// pinata-web3 against the node: every call of the legacy API. Prints what came, as JSON.
import { Blob, File } from "node:buffer";
import { createServer } from "node:http";
import { Readable } from "node:stream";
import { PinataSDK } from "pinata-web3";

const [url, token] = process.argv.slice(2);
const pinata = new PinataSDK({ pinataJwt: token, pinataGateway: "x", endpointUrl: url });
// The constructor puts https:// before any gateway; the shared configuration can be set.
pinata.config.pinataGateway = url;

const out = {};
out.auth = await pinata.testAuthentication();
out.json = await pinata.upload.json({ hello: "world", n: 1.5 });
// A cidVersion of 0 is false to this client, which then leaves it out.
out.jsonV1 = await pinata.upload.json({ hello: "world" }).cidVersion(1);
out.file = await pinata.upload.file(new File(["hello"], "hello.txt", { type: "text/plain" }));
out.fileAgain = await pinata.upload.file(new File(["hello"], "hello.txt", { type: "text/plain" }));
out.named = await pinata.upload
  .file(new File(["hello v1"], "v1.txt", { type: "text/plain" }))
  .cidVersion(1)
  .addMetadata({ name: "named", keyValues: { kind: "test", rank: "7" } });
out.folder = await pinata.upload.fileArray([
  new File(["a"], "a.txt"),
  new File(["b"], "b.txt"),
]);
out.base64 = await pinata.upload.base64(Buffer.from("base64 content").toString("base64"));
const site = createServer((_, response) => response.end("from a url")).listen(0, "127.0.0.1");
await new Promise((resolve) => site.on("listening", resolve));
out.url = await pinata.upload.url(`http://127.0.0.1:${site.address().port}/x.txt`);
site.close();
out.stream = await pinata.upload.stream(Readable.from([Buffer.from("a stream")]));
out.cid = await pinata.upload.cid(out.file.IpfsHash);

out.list = await pinata.listFiles();
out.listByName = await pinata.listFiles().name("named");
out.listByCid = await pinata.listFiles().cid(out.file.IpfsHash);
out.listPage = await pinata.listFiles().pageLimit(2);
out.listByKey = await pinata.listFiles().keyValue("kind", "test");
out.listByDate = await pinata.listFiles().pinStart(new Date(0).toISOString());
out.listBySize = await pinata.listFiles().pinSizeMin(1000000);
out.update = await pinata.updateMetadata({ cid: out.file.IpfsHash, name: "renamed" });
out.renamed = await pinata.listFiles().cid(out.file.IpfsHash);
out.jobs = await pinata.pinJobs();
out.count = await pinata.usage.pinnedFileCount();
out.size = await pinata.usage.totalStorageSize();

out.getJson = await pinata.gateways.get(out.json.IpfsHash);
out.getText = await pinata.gateways.get(out.file.IpfsHash);
out.getInFolder = await pinata.gateways.get(`${out.folder.IpfsHash}/a.txt`);
out.unpin = await pinata.unpin([out.file.IpfsHash]);
out.unpinAgain = await pinata.unpin([out.file.IpfsHash]);

const stranger = new PinataSDK({ pinataJwt: "wrong", pinataGateway: "x", endpointUrl: url });
out.refused = await stranger.testAuthentication().catch((error) => ({
  name: error.constructor.name,
  message: error.message,
  status: error.statusCode,
}));
console.log(JSON.stringify(out));
