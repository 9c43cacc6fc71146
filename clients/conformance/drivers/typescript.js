// The driver of clients/typescript on Node: node drivers/typescript.js [FOLDER OF THE BUILT PACKAGE]. The client lives in a
// thread, which `restart` ends as abruptly as a kill ends a process.

import { join, resolve } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { isMainThread, parentPort, Worker, workerData } from 'node:worker_threads'

const say = (/** @type {object} */ line) => process.stdout.write(`${JSON.stringify(line)}\n`)

async function drive() {
  const { SLUICE_URL: url, SLUICE_APP_KEY: appKey, SLUICE_FOLDER: folder } = process.env
  const built = resolve(process.argv[2] ?? join(import.meta.dirname, '../../typescript/dist'))
  let aheadMs = 0
  const start = () => {
    const worker = new Worker(fileURLToPath(import.meta.url), { workerData: { built, url, appKey, folder, aheadMs } })
    worker.on('message', (line) => say(line))
    return worker
  }
  let worker = start()
  say({ version: 1, sdk: 'sluice-client on Node', capabilities: ['storage', 'opt_out', 'clock', 'compression'] })
  for await (const line of createInterface({ input: process.stdin })) {
    const command = JSON.parse(line)
    if (command.command === 'clock') aheadMs = command.ahead_ms
    if (command.command === 'restart') {
      await worker.terminate()
      worker = start()
      say({ done: 'restart' })
    } else {
      // oxlint-disable-next-line unicorn/require-post-message-target-origin -- that is for windows
      worker.postMessage(command)
    }
  }
}

async function work() {
  const { built, url, appKey, folder, aheadMs } = workerData
  const { createClient } = await import(join(built, 'index.js'))
  const { fileStore } = await import(join(built, 'file.js'))
  const realNow = Date.now
  const setClock = (/** @type {number} */ ms) => {
    Date.now = () => realNow() + ms
  }
  setClock(aheadMs)
  const port = /** @type {import('node:worker_threads').MessagePort} */ (parentPort)
  const client = createClient({
    url,
    appKey,
    store: fileStore(folder),
    onDropped: (reason, events) => port.postMessage({ dropped: events.map(({ name }) => name), reason }),
  })
  const commands = {
    track: ({ name, properties }) => client.track(name, properties),
    flush: () => void client.flush(),
    opt_out: () => client.optOut(),
    opt_in: () => client.optIn(),
    clock: ({ ahead_ms }) => setClock(ahead_ms),
    close: () => client.close(1000),
  }
  port.on('message', async (command) => {
    await commands[command.command](command)
    port.postMessage({ done: command.command })
    if (command.command === 'close') port.close()
  })
}

await (isMainThread ? drive() : work())
