// Runs the Segment shim of examples/ as a stranger would, and what stands between it and the service.

import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { connect, createServer } from 'node:net'
import { resolve } from 'node:path'
import { eventually } from './service.ts'

const SHIM = resolve(import.meta.dirname, '../../examples/segment.js')
export const SECRET = 's'.repeat(32)

export interface Shim {
  readonly port: number
  output(): string
  stop(): Promise<number | null>
}

export async function startShim(port: number): Promise<Shim> {
  const child = runShim(['--port', '0', '--sluice', `http://127.0.0.1:${port}`], { IDS_SECRET: SECRET })
  await eventually('the shim listens', () => child.output().includes('listening on'))
  const [, own] = /127\.0\.0\.1:(\d+)/.exec(child.output()) ?? []
  const stop = async () => {
    child.process.kill('SIGTERM')
    const [code] = (await once(child.process, 'exit')) as [number | null]
    return code
  }
  return { port: Number(own), output: child.output, stop }
}

export function runShim(args: string[], env: Record<string, string>): { process: ChildProcess; output: () => string } {
  const child = spawn(process.execPath, [SHIM, ...args], { env, stdio: ['ignore', 'ignore', 'pipe'] })
  let output = ''
  child.stderr?.on('data', (text: Buffer) => (output += text.toString()))
  return { process: child, output: () => output }
}

/** Passes requests on, and closes the connection in place of each answer until it is to lose nothing. */
export async function startLosingRelay(port: number) {
  let isLosing = true
  const relay = createServer((client) => {
    const upstream = connect(port, '127.0.0.1')
    for (const socket of [client, upstream]) socket.on('error', () => socket.destroy())
    client.pipe(upstream)
    upstream.on('data', (piece) => {
      if (!isLosing) client.write(piece)
      else for (const socket of [client, upstream]) socket.destroy()
    })
    upstream.on('close', () => client.destroy())
    client.on('close', () => upstream.destroy())
  }).listen(0, '127.0.0.1')
  await once(relay, 'listening')
  return {
    port: (relay.address() as { port: number }).port,
    loseNothing: () => (isLosing = false),
    stop: () => relay.close(),
  }
}
