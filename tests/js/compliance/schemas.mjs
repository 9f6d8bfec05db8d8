// Loaded before the suite: it asks for the schemas of the API at another host, and gets those of
// the package mock-ipfs-pinning-service, so that the tests need no network.
import { readFileSync } from 'node:fs';
import http from 'node:http';
import https from 'node:https';
import { createRequire } from 'node:module';

const file = createRequire(import.meta.url).resolve('mock-ipfs-pinning-service/api/oas-doc.yaml');
const server = http.createServer((_, reply) => reply.end(readFileSync(file)));
await new Promise((ready) => server.listen(0, '127.0.0.1', ready));
server.unref();

https.get = (address, ...rest) => {
  const path = address.path ?? String(address);
  if (!path.endsWith('ipfs-pinning-service.yaml')) throw new Error(`${path} is not on this machine`);
  const { port } = server.address();
  return http.get({ host: '127.0.0.1', port, path: '/' }, ...rest.slice(-1));
};
