// A TCP relay between the service and what it depends on, which delays, slows, holds or cuts what passes.

import { once } from 'node:events'
import { join } from 'node:path'
import { Worker } from 'node:worker_threads'
import { atEnd } from './processes.js'

const RELAY = join(import.meta.dirname, 'relay.mjs')
const COMMAND_TIMEOUT_MS = 10_000

export interface Proxy {
  readonly port: number
  /** From now on each piece takes so long in each direction. */
  delay(ms: number): void
  /** From now on so many bytes pass every 10 ms in each direction of each connection: a slow network or server. */
  pace(bytes: number): void
  /** Cuts every connection and takes no new ones until `heal`. */
  cut(): void
  /** Swallows what comes, on connections that stay open, until `heal`; what was swallowed is then delivered. */
  hold(): void
  heal(): void
  /** Cuts every connection; new ones lead to another port, like a name after a failover. */
  lead(port: number): void
  stop(): Promise<void>
}

export async function startProxy(targetPort: number): Promise<Proxy> {
  const done = new Int32Array(new SharedArrayBuffer(4))
  const worker = new Worker(RELAY, { workerData: { targetPort, done } })
  atEnd(() => worker.terminate())
  const [port] = (await once(worker, 'message')) as [number]
  /** Returns once the relay has done it. */
  const command = (name: 'delay' | 'pace' | 'cut' | 'hold' | 'heal' | 'lead', value = 0): void => {
    const before = Atomics.load(done, 0)
    // oxlint-disable-next-line unicorn/require-post-message-target-origin -- that is for windows
    worker.postMessage({ name, value })
    if (Atomics.wait(done, 0, before, COMMAND_TIMEOUT_MS) === 'timed-out') throw new Error(`the relay did not ${name}`)
  }
  return {
    port,
    delay: (ms) => command('delay', ms),
    pace: (bytes) => command('pace', bytes),
    cut: () => command('cut'),
    hold: () => command('hold'),
    heal: () => command('heal'),
    lead: (port) => command('lead', port),
    stop: async () => {
      await worker.terminate()
    },
  }
}
