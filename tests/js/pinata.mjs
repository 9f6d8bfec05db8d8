// The official SDK of the v3 API against the node. Prints what came, as JSON.
import { Blob, File } from "node:buffer";
import { createServer } from "node:http";
import { PinataSDK } from "pinata";

const [url, token] = process.argv.slice(2);
const settings = {
  pinataJwt: token,
  pinataGateway: "x",
  endpointUrl: `${url}/v3`,
  uploadUrl: `${url}/v3`,
  legacyUploadUrl: `${url}/pinning/pinFileToIPFS`,
};
const pinata = new PinataSDK(settings);
// The constructor puts https:// before any gateway; the shared configuration can be set.
pinata.config.pinataGateway = url;
const text = (content, name) => new File([content], name, { type: "text/plain" });
const failure = (error) => ({ name: error.constructor.name, status: error.statusCode, message: error.message });

const out = {};
out.auth = await pinata.testAuthentication();

// Uploads
const { public: upload } = pinata.upload;
out.file = await upload.file(text("hello", "hello.txt"));
out.fileAgain = await upload.file(text("hello", "other.txt"));
out.json = await upload.json({ hello: "world", n: 1.5 }).name("greeting.json").keyvalues({ kind: "json" });
out.base64 = await upload.base64(Buffer.from("base64 content").toString("base64")).name("b64.txt");
const site = createServer((_, response) => response.end("from a url")).listen(0, "127.0.0.1");
await new Promise((resolve) => site.on("listening", resolve));
out.url = await upload.url(`http://127.0.0.1:${site.address().port}/x.txt`).name("page");
site.close();
out.folder = await upload.fileArray([text("a", "a.txt"), text("b", "b.txt")]).name("letters");
out.v0 = await upload.file(text("version 0", "v0.txt")).cidVersion("v0");
const later = Math.floor(Date.now() / 1000) + 3600;
out.expiring = await pinata.files.public.update({ id: out.v0.id, expires_at: later });
const megabytes = new Uint8Array(3 << 20).map((_, index) => index * 7 + (index >> 9));
out.medium = await upload.file(new File([megabytes], "medium.bin"));

// Groups
const { public: groups } = pinata.groups;
out.group = await groups.create({ name: "tides", isPublic: true });
out.otherGroup = await groups.create({ name: "other" });
out.groupGot = await groups.get({ groupId: out.group.id });
out.groupUpdated = await groups.update({ groupId: out.group.id, name: "high tides" });
out.groupList = await groups.list();
out.groupByName = await groups.list().name("tide");
out.groupPage = await groups.list().limit(1);
out.groupNext = await groups.list().limit(1).pageToken(out.groupPage.next_page_token);
out.grouped = await upload.file(text("in a group", "grouped.txt")).group(out.group.id);
out.added = await groups.addFiles({ groupId: out.group.id, files: [out.file.id, out.json.id] });
out.inGroup = await pinata.files.public.list().group(out.group.id);
out.removed = await groups.removeFiles({ groupId: out.group.id, files: [out.json.id] });
out.inGroupAfter = await pinata.files.public.list().group(out.group.id);
out.noGroup = await pinata.files.public.list().noGroup(true).limit(100);
out.groupDeleted = await groups.delete({ groupId: out.group.id });
out.groupGone = await groups.get({ groupId: out.group.id }).catch(failure);

// Files
const { public: files } = pinata.files;
out.list = [];
for await (const file of files.list().limit(2)) out.list.push(file);
out.page = await files.list().limit(3);
out.oldest = await files.list().order("ASC").limit(1);
out.byName = await files.list().name("greeting");
out.byCid = await files.list().cid(out.file.cid);
out.byType = await files.list().mimeType("application/json");
out.byKey = await files.list().keyvalues({ kind: "json" });
out.byOtherKey = await files.list().keyvalues({ kind: "none" });
out.pending = await files.list().cidPending(true);
out.got = await files.get(out.json.id);
out.updated = await files.update({ id: out.json.id, name: "renamed.json", keyvalues: { more: "yes" } });
out.deleted = await files.delete([out.url.id]);
out.deletedAgain = await files.delete([out.url.id]);
out.gone = await files.get(out.url.id).catch(failure);
out.pinned = await upload.cid(out.folder.cid).name("by cid");
const nowhere = "bafkreigh2akiscaildcqabsyg3dfr6chu3fgpregiymsck7e7aqa4s52zy";
out.queued = await upload.cid(nowhere).name("nowhere");
out.queue = await files.queue().cid(nowhere);
out.cancelled = await files.deletePinRequest(out.queued.id).catch(failure);
out.count = await pinata.files.public.list().limit(100).then((page) => page.files.length);

// Signed uploads
out.signedUrl = await upload.createSignedURL({ expires: 60, name: "signed.txt", keyvalues: { by: "link" } });
const stranger = new PinataSDK({ ...settings, pinataJwt: "" });
out.signed = await stranger.upload.public.file(text("signed content", "mine.txt")).url(out.signedUrl);
const images = await upload.createSignedURL({ expires: 60, mimeTypes: ["image/*"] });
out.signedType = await stranger.upload.public.file(text("no image", "x.txt")).url(images).then((each) => each, failure);
const small = await upload.createSignedURL({ expires: 60, maxFileSize: 3 });
out.signedSize = await stranger.upload.public.file(text("too long", "x.txt")).url(small).then((each) => each, failure);
const folder = await upload.createSignedURL({ expires: 60, forDirectory: true });
out.signedFolder = await stranger.upload.public
  .fileArray([text("c", "c.txt"), text("d", "d.txt")])
  .name("signed folder")
  .url(folder);

// Private files
const secret = await pinata.upload.private.file(text("a secret", "secret.txt"));
out.secret = secret;
out.secretList = await pinata.files.private.list();
out.secretPublic = await files.list().cid(secret.cid);
out.link = await pinata.gateways.private.createAccessLink({ cid: secret.cid, expires: 30 });
out.linkText = await fetch(out.link).then((reply) => reply.text());
out.secretGot = await pinata.gateways.private.get(secret.cid);
out.leak = await fetch(`${url}/ipfs/${secret.cid}`).then((reply) => reply.status);
out.unsigned = await fetch(`${url}/files/${secret.cid}`).then((reply) => reply.status);
out.publicGot = await pinata.gateways.public.get(out.file.cid);

// What the node lacks, and who may not use it
out.swap = await files.addSwap({ cid: out.file.cid, swapCid: out.json.cid }).catch(failure);
out.keys = await pinata.keys.list().then((each) => each, failure);
out.wrong = await new PinataSDK({ ...settings, pinataJwt: "wrong" }).files.public.list().then((each) => each, failure);
console.log(JSON.stringify(out));
