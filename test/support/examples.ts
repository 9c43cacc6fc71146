// Runs the programs of examples/ as a stranger would, and reads what they stored with DuckDB, of their own packages.

import { type ChildProcess, spawn } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { createRequire } from 'node:module'
import { join, resolve } from 'node:path'
import type { DuckDBInstance } from '../../examples/node_modules/@duckdb/node-api/lib/index.js'
import { withConnection } from './jetstream.ts'
import { eventually, sleep } from './service.ts'

const EXAMPLES = resolve(import.meta.dirname, '../../examples')
const { DuckDBInstance: duckdb } = createRequire(join(EXAMPLES, 'package.json'))('@duckdb/node-api') as {
  DuckDBInstance: typeof DuckDBInstance
}

export interface Example {
  /** Everything that it has printed since it was last started. */
  output(): string
  start(): void
  /** kill -9, and until it is gone. */
  kill(): Promise<void>
  /** SIGTERM, or this; its exit code. */
  stop(signal?: NodeJS.Signals): Promise<number | null>
}

export interface ExampleOptions {
  readonly name: string
  readonly folder: string
  readonly args?: readonly string[]
  readonly env?: Readonly<Record<string, string>>
}

/** Runs in `folder`, with its own data in `folder`/out. */
export function startExample({ name, folder, args = [], env = {} }: ExampleOptions): Example {
  let child: ChildProcess
  let output = ''

  function start(): void {
    output = ''
    child = spawn(process.execPath, [join(EXAMPLES, 'start.js'), name, '--folder', join(folder, 'out'), ...args], {
      cwd: folder,
      env: { PATH: process.env['PATH'] ?? '', HOME: process.env['HOME'] ?? '/', ...env },
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    child.stdout?.on('data', (text: Buffer) => (output += text.toString()))
    child.stderr?.on('data', (text: Buffer) => (output += text.toString()))
  }

  async function end(signal: NodeJS.Signals): Promise<number | null> {
    if (child.exitCode === null && child.signalCode === null) {
      const gone = new Promise((done) => child.once('exit', done))
      child.kill(signal)
      await gone
    }
    return child.exitCode
  }

  start()
  return {
    output: () => output,
    start,
    kill: async () => void (await end('SIGKILL')),
    stop: (signal = 'SIGTERM') => end(signal),
  }
}

/** Ends the example for good, once it handles signals, and says all it printed if that does not work. */
export async function endInOrder(example: Example): Promise<void> {
  await expectSaid(example, 'reading ')
  const code = await example.stop()
  if (code !== 0) throw new Error(`the example ended with ${code}:\n${example.output()}`)
}

export type SqlRow = Record<string, unknown>

/** Of a file that nobody else has open; without one, of files that the query names. */
export async function ask(sql: string, file = ':memory:'): Promise<SqlRow[]> {
  const instance = await duckdb.create(file, file === ':memory:' ? {} : { access_mode: 'READ_ONLY' })
  const connection = await instance.connect()
  try {
    return (await connection.runAndReadAll(sql)).getRowObjectsJS()
  } finally {
    connection.closeSync()
    instance.closeSync()
  }
}

export function storedIn(folder: string): string {
  return join(folder, 'out', 'events.duckdb')
}

export interface RecordWish {
  readonly batchId?: string
  readonly appId?: string
  readonly receivedAt?: string
  /** The text of each event. */
  readonly events: readonly string[]
}

/** A line of the queue, without its newline. */
export function recordText({ batchId = randomUUID(), appId = 'demo', receivedAt, events }: RecordWish): string {
  const time = receivedAt ?? new Date().toISOString()
  return `{"v":1,"batch_id":"${batchId}","app_id":"${appId}","received_at":"${time}","events":[${events.join(',')}]}`
}

/** The text of an event; `members` begins with a comma. */
export function eventText(name: string, members = ''): string {
  return `{"type":"track","name":"${name}","timestamp":"${new Date().toISOString()}"${members}}`
}

/** Waits until the example's output has `text`. */
export async function expectSaid(example: Example, text: string, timeoutMs = 30_000): Promise<void> {
  await eventually(`it says ${text}`, () => example.output().includes(text), timeoutMs).catch((error: Error) => {
    throw new Error(`${error.message}:\n${example.output().slice(-2000)}`)
  })
}

/** Messages of the stream, each one text, to a partition. */
export async function publishTexts(
  url: string,
  texts: readonly string[],
  partition: number | string = 3,
): Promise<void> {
  await withConnection(url, async (connection) => {
    for (const text of texts) await connection.request(`sluice.events.${partition}`, text)
  })
}

/** Nothing that could be waited for: a kill is to come at any moment of the work. */
export async function aRandomMoment(atMostMs: number): Promise<void> {
  await sleep(Math.random() * atMostMs)
}

/** Kills an example while it works and starts it again, as often as `rounds` says; each time after `work`. */
export async function killAndRestart(
  example: Example,
  rounds: number,
  work: (round: number) => Promise<void>,
): Promise<void> {
  for (let round = 0; round < rounds; round += 1) {
    await work(round)
    await aRandomMoment(1500)
    await example.kill()
    example.start()
  }
}
