// Encrypts and decrypts files with age-encryption: a list of jobs comes in, in a file of JSON.

import { readFile, writeFile } from "node:fs/promises";
import { Decrypter, Encrypter } from "age-encryption";

const jobs = JSON.parse(await readFile(process.argv[2], "utf8"));
for (const { source, target, recipients, identity } of jobs) {
  const worker = identity === undefined ? new Encrypter() : new Decrypter();
  for (const recipient of recipients ?? []) worker.addRecipient(recipient);
  if (identity !== undefined) worker.addIdentity(identity);
  const input = await readFile(source);
  const output = await (identity === undefined ? worker.encrypt(input) : worker.decrypt(input));
  await writeFile(target, output);
}
console.log(JSON.stringify(jobs.length));
