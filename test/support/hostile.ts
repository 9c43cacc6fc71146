// What every hostile test shares: a service with one app that nothing limits, its metrics as numbers, and what must hold
// after whatever a client did to it.

import { afterEach, beforeAll, expect } from 'vitest'
import { expectAccepted, get, post, single } from './client.ts'
import { ENGINE } from './engine.ts'
import { readJournal } from './journal-files.ts'
import { metricsOf } from './processes.js'
import { openRaw, type RawConnection } from './raw-http.ts'
import { appRecord, eventually, type Service, sleep, startService } from './service.ts'

/** What one HTTP engine does with what HTTP does not allow, another does not. Where nothing else is said, Node's own does as the new one. */
export function onEngine<T>(now: T, old: T, node: T = now): T {
  return { new: now, old, node }[ENGINE]
}

/**
 * One read brings so many bytes whole that were written at once: over the loopback the kernel sends as one segment what is
 * less than half of a new connection's window of 64 KB. Of more than that, a read may bring the first part alone.
 */
export const ONE_READ_BYTES = 20_000

export interface Hostile {
  readonly service: Service
  /** Batches of the app `plain` in the journal; honest requests of these helpers are of another. */
  stored(): number
}

export type Page = Readonly<Record<string, number>>

/** Each series by its whole name, and the sum of those of one name under that name alone. */
export async function readPage(service: Service): Promise<Page> {
  return Object.fromEntries(await metricsOf(service))
}

/** Whatever was written to the service before has been read by then: one event loop reads all. */
export async function untilRead(service: Service): Promise<void> {
  // By the first answer, a connection that was just opened is accepted. The next turn of the event loop reads it, maybe after
  // it has given the second answer. The third is of a later turn.
  for (let turn = 0; turn < 3; turn++) await get(service.adminPort, '/livez')
}

/** Requests that ended with a code. */
export function ended(page: Page, code: string): number {
  const found = Object.entries(page).find(
    ([name]) => name.startsWith('sluice_requests_total{') && name.includes(`code="${code}"`),
  )
  if (found === undefined) throw new Error(`no series of sluice_requests_total for ${code}`)
  return found[1]
}

/** A service for the tests of a file. After each of them it lives, serves, and its sums are right. */
export function hostileService(env: Readonly<Record<string, string>> = {}): Hostile {
  let service: Service
  beforeAll(async () => {
    const limits = { events_per_minute: 1_000_000_000, events_per_month: 1_000_000_000_000 }
    service = await startService({
      apps: [appRecord('plain', limits), appRecord('honest', limits)],
      env,
    })
  })
  afterEach(() => expectUnharmed(service))
  return {
    get service() {
      return service
    },
    stored: () => readJournal(service.dataDir).filter(({ app_id }) => app_id === 'plain').length,
  }
}

/** The process lives, an honest client is served, nothing is left in hand, and every request has come to one end. */
export async function expectUnharmed(service: Service): Promise<void> {
  const gone = await Promise.race([service.exited.then(({ output }) => output), sleep(0).then(() => null)])
  expect(gone, 'the process ended').toBeNull()
  process.kill(service.pid, 0)
  expectAccepted(await post(service, single('ak_honest')), 1)
  await eventually('nothing is left in hand', async () => {
    const page = await readPage(service)
    const received = page['sluice_requests_received_total']
    expect(page['sluice_requests_total'] + page['sluice_requests_in_flight'], 'outcomes and in flight').toBe(received)
    return page['sluice_requests_in_flight'] + page['sluice_ring_requests'] + page['sluice_ring_used_bytes'] === 0
  })
  const errors = service
    .output()
    .split('\n')
    .filter((line) => /"level":"(error|fatal)"/.test(line))
  expect(errors).toEqual([])
}

/** Resolves when the other side has ended the connection; fails where it never does. */
export function expectClosed(raw: RawConnection, timeoutMs = 15_000): Promise<void> {
  let timer: NodeJS.Timeout
  const late = new Promise<never>((_, fail) => {
    timer = setTimeout(() => fail(new Error('the connection stayed open')), timeoutMs)
  })
  return Promise.race([raw.closed, late]).finally(() => clearTimeout(timer))
}

export interface Heard {
  /** In order, of the service and of the HTTP engine. */
  readonly statuses: readonly number[]
  /** Who ended the connection, if anybody did. */
  readonly closed: boolean
  readonly text: string
}

/**
 * Sends bytes and hears all that comes back, until the connection ends or an honest request on another one has been
 * answered `rounds` times with nothing new to hear.
 */
export async function hear(service: Service, pieces: readonly (string | Uint8Array)[], rounds = 3): Promise<Heard> {
  const raw = await openRaw(service.port)
  const connection = { isClosed: false }
  const noticed = raw.closed.finally(() => {
    connection.isClosed = true
  })
  for (const piece of pieces) {
    raw.write(typeof piece === 'string' ? Buffer.from(piece, 'latin1') : piece)
    if (pieces.length > 1) await untilRead(service)
  }
  for (let quiet = 0, length = -1; quiet < rounds && !connection.isClosed; quiet++) {
    // The event loop has read what was sent before this. A body of it may still be with the explainer's thread.
    expectAccepted(await post(service, single('ak_honest')), 1)
    const isInHand = (await readPage(service))['sluice_ring_requests'] > 0
    if (isInHand || raw.unread().length !== length) quiet = 0
    length = raw.unread().length
  }
  const text = raw.unread()
  const { isClosed } = connection
  raw.close()
  await noticed
  const statuses = Array.from(text.matchAll(/HTTP\/1\.1 (\d{3}) /g), ([, status]) => Number(status))
  return { statuses, closed: isClosed, text }
}
