// What the journal's tests share: records, a naive reading of the files, and a disk that fails on demand.

import { randomUUID } from 'node:crypto'
import { writeSync } from 'node:fs'
import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { systemTimers, type Timers } from '../../src/lib/timers.ts'
import { type DirectFile, type Disk, type DiskFile, type OpenMode, RealDisk } from '../../src/queue/journal/disk.ts'
import type { Journal } from '../../src/queue/journal/journal.ts'
import type { QueueAck, QueueRecord } from '../../src/queue/queue.ts'

export interface RecordWish {
  readonly events?: number
  readonly appId?: string
  readonly receivedAtMs?: number
  readonly keyed?: boolean
  readonly fillBytes?: number
}

export function makeRecord(wish: RecordWish = {}): QueueRecord {
  const { events = 1, appId = 'demo', receivedAtMs = 1_800_000_000_000, keyed = false, fillBytes = 0 } = wish
  const id = randomUUID()
  const batchId = `${id.slice(0, 14)}${keyed ? 5 : 7}${id.slice(15)}`
  const list = Array.from({ length: events }, () => ({ type: 'track', name: 'x'.repeat(fillBytes) }))
  const receivedAt = new Date(receivedAtMs).toISOString()
  const text = JSON.stringify({ v: 1, batch_id: batchId, app_id: appId, received_at: receivedAt, events: list })
  const minute = Math.floor(receivedAtMs / 60_000)
  const charge = { events, takenAtMs: receivedAtMs, minute, cycleMinute: minute }
  return { line: Buffer.from(`${text}\n`), batchId, appId, keyed, charge }
}

/** A journal with these sweeps only when it is asked to. */
export const timersWithoutIntervals: Timers = { ...systemTimers, setInterval: () => ({ unref: () => {} }) }

export function publish(journal: Journal, record: QueueRecord): Promise<QueueAck> {
  return new Promise((resolve) => journal.publish(record, resolve))
}

export interface StoredRecord {
  readonly v: number
  readonly batch_id: string
  readonly app_id: string
  readonly received_at: string
  readonly events: readonly unknown[]
}

/** All records, by plain means. Throws on a torn or bad line; `allowTorn` lets the last line of all be torn. */
export async function readNaively(directory: string, allowTorn = false): Promise<StoredRecord[]> {
  const names = (await readdir(directory)).filter((name) => name.endsWith('.ndjson')).toSorted()
  const texts = await Promise.all(names.map((name) => readFile(join(directory, name), 'utf8')))
  const lines = texts.join('').split('\n')
  const torn = lines.pop()
  if (torn !== '' && !allowTorn) throw new Error(`a torn line: ${torn?.slice(0, 80)}`)
  return lines.map((line) => JSON.parse(line) as StoredRecord)
}

/** The record's text without the spaces that may fill its block. */
export function recordText(line: string): string {
  return line.replace(/ +\}$/, '}')
}

function codedError(code: string): NodeJS.ErrnoException {
  return Object.assign(new Error(`${code}: injected`), { code })
}

/** A real disk, but for what is asked of it. */
export class FailingDisk extends RealDisk {
  /** short: half is written, and said so. torn: half is written, with an error. unsynced: all is, and the sync fails. */
  nextAppend: 'ok' | 'short' | 'torn' | 'unsynced' | 'none' = 'ok'
  /** Stays until it is lifted. */
  isFull = false
  /** The error of each write behind a short one, as at a limit on files. */
  limitCode: string | null = null
  failsTruncate = false
  failsCreate = false
  appends = 0
  /** Holds every append until it is called. */
  held: (() => void)[] | null = null

  override append(...[handle, lines, done]: Parameters<Disk['append']>): void {
    this.appends += 1
    if (this.held !== null) {
      this.held.push(() => this.#append(handle, lines, done))
      return
    }
    this.#append(handle, lines, done)
  }

  #append(...[handle, lines, done]: Parameters<Disk['append']>): void {
    const all = Buffer.concat(lines)
    if (this.limitCode !== null && this.nextAppend === 'ok') {
      done(codedError(this.limitCode), 0)
      return
    }
    const mode = this.isFull ? 'torn' : this.nextAppend
    this.nextAppend = 'ok'
    if (mode === 'ok') {
      super.append(handle, lines, done)
      return
    }
    const share = mode === 'none' ? 0 : mode === 'unsynced' ? all.length : all.length >> 1
    writeSync(handle.fd, all.subarray(0, share))
    const error = mode === 'short' ? null : codedError(mode === 'unsynced' ? 'EIO' : 'ENOSPC')
    setImmediate(() => done(error, share))
  }

  override async open(path: string, mode: OpenMode): Promise<DiskFile> {
    if (mode === 'create' && this.failsCreate) throw codedError('ENOSPC')
    const file = await super.open(path, mode)
    const truncate = file.truncate.bind(file)
    return Object.assign(file, {
      truncate: async (bytes: number) => {
        if (this.failsTruncate) throw codedError('EIO')
        await truncate(bytes)
      },
    })
  }

  /** Direct writes fail as others do. */
  override openDirectly(...[, handle]: Parameters<Disk['openDirectly']>): DirectFile | null {
    return { append: (bytes, done) => this.append(handle, [bytes], done), close: () => {} }
  }
}
