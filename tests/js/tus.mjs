// An upload of the official SDK by tus: above 90 MiB it sends several requests.
import { Blob, File } from "node:buffer";
import { PinataSDK } from "pinata";

const [url, token, size, network, signed] = process.argv.slice(2);
const settings = { pinataGateway: "x", endpointUrl: `${url}/v3`, uploadUrl: `${url}/v3` };
const pinata = new PinataSDK({ ...settings, pinataJwt: token });
const block = new Uint8Array(1 << 20).map((_, index) => (index * 31) ^ (index >> 8));
const parts = Array.from({ length: Number(size) }, (_, index) => [new Uint8Array([index]), block]).flat();
const file = new File(parts, "large.bin", { type: "application/x-large" });
let upload = pinata.upload[network].file(file).name("large").keyvalues({ by: "tus" });
if (signed) {
  const address = await pinata.upload[network].createSignedURL({ expires: 600, maxFileSize: 1 << 30 });
  upload = new PinataSDK({ ...settings, pinataJwt: "" }).upload[network].file(file).url(address);
}
console.log(JSON.stringify(await upload));
