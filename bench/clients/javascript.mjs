// One client of npm in a process of its own; see bench/workers.py. It is copied beside its packages.
//
//   node javascript.mjs CLIENT URL FOLDER

import fs from 'node:fs'
import path from 'node:path'
import readline from 'node:readline'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'

const WARM_UP = 20 // calls before each task, not timed
const [name, url, folder] = process.argv.slice(2)

// The SDKs put https:// before any gateway: the address is set behind their backs.
const CLIENTS = {
  async 'pinata-web3'() {
    const { PinataSDK } = await import('pinata-web3')
    const config = { pinataJwt: 'bench', endpointUrl: url, pinataGateway: 'https://example.org' }
    const sdk = new PinataSDK(config)
    config.pinataGateway = url
    return {
      store: async (document) => (await sdk.upload.json(document)).IpfsHash,
      retrieve: async (cid) => (await sdk.gateways.get(cid)).data
    }
  },
  async pinata() {
    const { PinataSDK } = await import('pinata')
    const config = {
      pinataJwt: 'bench',
      endpointUrl: `${url}/v3`,
      uploadUrl: `${url}/v3`,
      pinataGateway: 'https://example.org'
    }
    const sdk = new PinataSDK(config)
    config.pinataGateway = url
    return {
      store: async (document) => (await sdk.upload.public.json(document)).cid,
      retrieve: async (cid) => (await sdk.gateways.public.get(cid)).data,
      async upload(file) {
        const blob = await fs.openAsBlob(file)
        return (await sdk.upload.public.file(new File([blob], 'large'))).cid
      },
      async download(cid, to) {
        const { data } = await sdk.gateways.public.get(cid)
        await pipeline(Readable.fromWeb(data.stream()), fs.createWriteStream(to))
      }
    }
  },
  async '@helia/verified-fetch'() {
    const { createHeliaLight } = await import('helia')
    const { withHTTP } = await import('@helia/http')
    const { createVerifiedFetch } = await import('@helia/verified-fetch')
    let verifiedFetch
    return {
      // It keeps what it has fetched: every task has a new one.
      async renew() {
        await verifiedFetch?.stop()
        const options = { recursiveGateways: [url], delegatedRouters: [], allowLocal: true, allowInsecure: true }
        const helia = withHTTP(createHeliaLight(), options)
        helia.addRouter({ name: 'none', async * findProviders() {} }) // without a first router it waits for ever
        verifiedFetch = await createVerifiedFetch(await helia.start())
      },
      async retrieve(cid) {
        const response = await verifiedFetch(`ipfs://${cid}`)
        return response.json()
      }
    }
  },
  async 'kubo-rpc-client'() {
    const { create } = await import('kubo-rpc-client')
    const kubo = create({ url: `${url}/api/v0` })
    const options = { cidVersion: 1, rawLeaves: true, chunker: 'size-1048576', pin: true }
    return {
      store: async (document) => (await kubo.add(JSON.stringify(document), options)).cid.toString(),
      async retrieve(cid) {
        const pieces = []
        for await (const piece of kubo.cat(cid)) pieces.push(piece)
        return JSON.parse(Buffer.concat(pieces).toString())
      }
    }
  },
  async 'ipfs-unixfs-importer'() {
    const { importer } = await import('ipfs-unixfs-importer')
    const { fixedSize } = await import('ipfs-unixfs-importer/chunker')
    const { balanced } = await import('ipfs-unixfs-importer/layout')
    const options = { chunker: fixedSize({ chunkSize: 1 << 20 }), layout: balanced({ maxChildrenPerNode: 1024 }), rawLeaves: true, cidVersion: 1 }
    const blockstore = { put: async (cid) => cid }
    return {
      async cid(file) {
        let root
        const content = fs.createReadStream(file, { highWaterMark: 1 << 20 })
        for await (const entry of importer([{ content }], blockstore, options)) root = entry.cid
        return root.toString()
      }
    }
  },
  async 'ipfs-car'() {
    const { createFileEncoderStream } = await import('ipfs-car')
    return {
      async cid(file) {
        let root
        const blob = await fs.openAsBlob(file)
        for await (const block of createFileEncoderStream(blob)) root = block.cid
        return root.toString()
      }
    }
  }
}

const client = await CLIENTS[name]()
let cached
const inputs = () => {
  cached ??= {
    documents: fs.readFileSync(path.join(folder, 'documents.jsonl'), 'utf8').trimEnd().split('\n').map((line) => JSON.parse(line)),
    cids: fs.readFileSync(path.join(folder, 'cids.txt'), 'utf8').trimEnd().split('\n')
  }
  return cached
}

function check(isRight) {
  if (!isRight) throw new Error('another content came')
}

function peakMemory() {
  return Number(/VmHWM:\s*(\d+)/.exec(fs.readFileSync('/proc/self/status', 'utf8'))[1]) * 1024
}

function startMeter() {
  fs.writeFileSync('/proc/self/clear_refs', '5')
  const cpu = process.cpuUsage()
  const start = performance.now()
  return (count) => {
    const seconds = (performance.now() - start) / 1000
    const { user, system } = process.cpuUsage(cpu)
    return { count, seconds, cpu: (user + system) / 1e6, peak: peakMemory() }
  }
}

async function runSmall({ work, seconds, at_once: atOnce, first }) {
  const { documents, cids } = inputs()
  await client.renew?.()
  for (let index = 0; index < WARM_UP; index++) {
    const document = await client.retrieve(cids[index])
    check(JSON.stringify(document) === JSON.stringify(documents[index]))
    await client.store?.(documents[index])
  }
  const values = work === 'retrieve' ? cids : documents
  const call = client[work]
  let next = first + WARM_UP
  let count = 0
  const finish = startMeter()
  const end = performance.now() + seconds * 1000
  const caller = async () => {
    while (performance.now() < end) {
      await call(values[next++ % values.length])
      count++
    }
  }
  await Promise.all(Array.from({ length: atOnce }, caller))
  return finish(count)
}

async function runLarge({ work }) {
  const root = fs.readFileSync(path.join(folder, 'root'), 'utf8')
  const file = path.join(folder, 'files', root)
  const target = path.join(folder, `copy-${process.pid}`)
  const finish = startMeter()
  const cid = work === 'download' ? await client.download(root, target) : await client[work](file)
  const result = finish(1)
  if (work === 'download') {
    check(fs.statSync(target).size === fs.statSync(file).size)
    fs.unlinkSync(target)
  } else {
    check(cid === root)
  }
  return result
}

for await (const line of readline.createInterface({ input: process.stdin })) {
  const task = JSON.parse(line)
  const result = await (['store', 'retrieve'].includes(task.work) ? runSmall(task) : runLarge(task))
  fs.writeSync(1, JSON.stringify(result) + '\n')
}
process.exit(0)
