// In place of a ClickHouse server, which no package of these systems has in a version that knows deduplication tokens: a
// double that keeps tokens and rows, or ClickHouse's own engine (chdb, from PyPI) behind an HTTP front of a few lines. And
// a relay that loses requests and answers on their way to either.

import { spawn } from 'node:child_process'
import { createServer, request, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { resolve } from 'node:path'
import { freePort } from './programs.ts'
import { eventually } from './service.ts'

const CHDB_FRONT = resolve(import.meta.dirname, 'chdb-front.py')
const BAD_DATA = 400

export interface StoredEvent {
  readonly batch_id: string
  readonly event_index: number
  readonly name: string
}

export interface ClickHouse {
  readonly url: string
  rows(): Promise<readonly StoredEvent[]>
  stop(): Promise<void>
}

/** Refuses what has `poison` in it, as ClickHouse refuses what it cannot parse. */
export async function startDouble(): Promise<ClickHouse> {
  const tokens = new Set<string>()
  const rows: StoredEvent[] = []
  let isCreated = false
  const { url, stop } = await serve((query, token, body) => {
    if (query.startsWith('CREATE TABLE IF NOT EXISTS')) {
      isCreated = query.includes('non_replicated_deduplication_window')
      return { status: 200, text: '' }
    }
    if (!isCreated || !query.startsWith('INSERT INTO')) return { status: 404, text: 'no such table' }
    if (body.includes('poison')) return { status: BAD_DATA, text: 'Code: 27. CANNOT_PARSE_INPUT_ASSERTION_FAILED' }
    if (body === '' || tokens.has(token)) return { status: 200, text: '' }
    tokens.add(token)
    for (const line of body.trimEnd().split('\n')) rows.push(JSON.parse(line) as StoredEvent)
    return { status: 200, text: '' }
  })
  return { url, rows: async () => rows, stop }
}

/** `python` has the package chdb-core. */
export async function startChdb(python: string, folder: string): Promise<ClickHouse> {
  const port = await freePort()
  const child = spawn(python, [CHDB_FRONT, String(port), folder], { stdio: ['ignore', 'inherit', 'inherit'] })
  const url = `http://127.0.0.1:${port}`
  const select = async (sql: string): Promise<string> => {
    const answer = await fetch(`${url}/?query=${encodeURIComponent(sql)}`, { method: 'POST' })
    const text = await answer.text()
    if (!answer.ok) throw new Error(text)
    return text
  }
  await eventually(
    'chdb answers',
    () =>
      select('SELECT 1')
        .then(() => true)
        .catch(() => false),
    60_000,
  )
  return {
    url,
    rows: async () => {
      const text = await select('SELECT batch_id, event_index, name FROM default.sluice_events FORMAT JSONEachRow')
      return text
        .split('\n')
        .filter(Boolean)
        .map((line) => JSON.parse(line) as StoredEvent)
    },
    stop: async () => {
      const gone = new Promise((done) => child.once('exit', done))
      child.kill('SIGKILL')
      await gone
    },
  }
}

export interface Relay {
  readonly url: string
  /** Shares of requests that never arrive, of answers that never come back, and of answers that are a 500 in their place. */
  lossy: boolean
  /** Nobody listens; then again. */
  down(): Promise<void>
  up(): Promise<void>
  stop(): Promise<void>
}

export async function startRelay(target: string, random: () => number): Promise<Relay> {
  let server: Server | null = null
  const port = await freePort()

  async function up(): Promise<void> {
    server = createServer((incoming, answer) => {
      const chance = relay.lossy ? random() : 1
      if (chance < 0.15) return void incoming.socket.destroy()
      const outgoing = request(
        `${target}${incoming.url}`,
        { method: incoming.method, headers: incoming.headers },
        (found) => {
          if (chance < 0.35) {
            found.resume()
            found.once('end', () => void incoming.socket.destroy())
          } else if (chance < 0.45) {
            found.resume()
            answer.writeHead(500).end('Code: 241. MEMORY_LIMIT_EXCEEDED')
          } else {
            answer.writeHead(found.statusCode ?? 500, found.headers)
            found.pipe(answer)
          }
        },
      )
      outgoing.once('error', () => void incoming.socket.destroy())
      // Its sender was killed: whoever waits for the rest of the body would wait for good.
      incoming.once('close', () => {
        if (!incoming.complete) outgoing.destroy()
      })
      incoming.pipe(outgoing)
    })
    const listening = server
    await new Promise<void>((done) => void listening.listen(port, '127.0.0.1', done))
  }

  async function down(): Promise<void> {
    const listening = server
    if (listening === null) return
    server = null
    const closed = new Promise((done) => void listening.close(done))
    listening.closeAllConnections()
    await closed
  }

  const relay: Relay = { url: `http://127.0.0.1:${port}`, lossy: false, up, down, stop: down }
  await up()
  return relay
}

interface Answer {
  readonly status: number
  readonly text: string
}

async function serve(handle: (query: string, token: string, body: string) => Answer) {
  const server = createServer((incoming, outgoing) => {
    const pieces: Buffer[] = []
    incoming.on('data', (piece: Buffer) => void pieces.push(piece))
    incoming.on('end', () => {
      const { searchParams } = new URL(incoming.url ?? '/', 'http://localhost')
      const token = searchParams.get('insert_deduplication_token') ?? ''
      const { status, text } = handle(searchParams.get('query') ?? '', token, Buffer.concat(pieces).toString())
      outgoing.writeHead(status).end(text)
    })
  })
  await new Promise<void>((done) => void server.listen(0, '127.0.0.1', done))
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    stop: async () => {
      server.closeAllConnections()
      await new Promise((done) => void server.close(done))
    },
  }
}
