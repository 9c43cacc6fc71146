// Load that ends in every way a request can end, on nodes with Redis and NATS and on an embedded one, with both away
// for a while. What the client saw of it is counted, to be held against what the nodes say of themselves.

import { randomUUID } from 'node:crypto'
import { writeFile } from 'node:fs/promises'
import type { Answer, Members, Sending } from './client.ts'
import { batch, bodyOfSize, event, MAX_BODY_BYTES, send } from './client.ts'
import { type Cluster, metric } from './cluster.ts'
import { untilRead } from './hostile.ts'
import { head, openRaw } from './raw-http.ts'
import { type AppRecord, appRecord, eventually, type Service, sleep } from './service.ts'

const TYPES = ['track', 'screen', 'revenue'] as const
type EventType = (typeof TYPES)[number]

/** Batches of one, ten and a hundred, as often as one would meet them. */
const BATCH_SIZES = [1, 1, 1, 10, 1, 1, 10, 1, 1, 100] as const
const PAUSE_MS = 15
const CALM_MS = 2500
const AWAY_MS = 2200
/** More bodies of half a mebibyte than fit into SMALLEST_RING_MB, and into a journal of one mebibyte. */
const LARGE_BODIES = 12
export const SMALLEST_RING_MB = 4

/** Of the ten events that each tries to send, those with a limit can never send any, but for one batch of `scarce`. */
export const APPS: readonly AppRecord[] = [
  appRecord('busy', { events_per_minute: 10_000_000, events_per_month: 100_000_000 }),
  appRecord('minute', { events_per_minute: 5 }),
  appRecord('day', { events_per_day: 5 }),
  appRecord('scarce', { events_per_day: 15 }),
  appRecord('month', { events_per_month: 5 }),
]

/** Those that may send nothing. */
export const CLOSED_APPS: readonly AppRecord[] = [
  appRecord('paused', { subscription: 'paused' }),
  appRecord('expired', { plan: 'trial', subscription: 'trialing', trial_ends_at: '2020-01-01T00:00:00Z' }),
]

/** The origin of a web page that may send to every node. */
export const PAGE = 'https://page.example'

/** What clients saw. */
export class Tally {
  /** Requests by admin port and code. */
  readonly outcomes = new Map<string, number>()
  readonly events: Record<EventType, number> = { track: 0, screen: 0, revenue: 0 }

  add(node: Service, code: string): void {
    const key = `${node.adminPort} ${code}`
    this.outcomes.set(key, (this.outcomes.get(key) ?? 0) + 1)
  }

  answered(node: Service, { status, json }: Answer): string {
    const replayed = json['deduplicated'] === true
    const taken = replayed ? 'replayed' : 'accepted'
    const code = status === 202 ? taken : status === 204 ? 'preflight' : String(json['error'])
    this.add(node, code)
    return code
  }
}

/** So many events of all types, in turn from one on. */
function mixed(appKey: string, count: number, from: number): { body: string; types: EventType[] } {
  const types = Array.from({ length: count }, (_, index) => TYPES[(from + index) % TYPES.length])
  const members = types.map((type): Members => {
    return event(type === 'revenue' ? { type, revenue: { amount: '4.99', currency: 'EUR' } } : { type })
  })
  return { body: JSON.stringify({ app_key: appKey, events: members }), types }
}

/** Every request that is answered for what it is, whatever the state of the node; all but the first are refused. */
const ALWAYS_ALIKE: readonly Sending[] = [
  { method: 'OPTIONS', headers: { Origin: PAGE } },
  { path: '/nowhere', body: '{}' },
  { method: 'PUT', body: '{}' },
  { headers: { 'Content-Type': 'text/plain' }, body: '{}' },
  { body: 'x'.repeat(MAX_BODY_BYTES + 1) },
  { body: '{' },
  { body: JSON.stringify({ app_key: 'ak_busy' }) },
  { body: batch('ak_unknown') },
  { body: batch('ak_paused') },
  { body: batch('ak_expired') },
  { body: batch('ak_minute', 10) },
  { body: batch('ak_day', 10) },
  { body: batch('ak_month', 10) },
]

export interface Load {
  readonly cluster: Cluster
  readonly embedded: Service
}

/** Returns when every request has ended. */
export async function sendEveryOutcome({ cluster, embedded }: Load): Promise<Tally> {
  const tally = new Tally()
  const nodes = [...cluster.nodes, embedded]
  const over = new AbortController()

  const deliver = async (node: Service, sending: Sending): Promise<string> =>
    tally.answered(node, await send(node, sending))

  async function sendEvents(node: Service, count: number, turn: number): Promise<void> {
    const { body, types } = mixed('ak_busy', count, turn)
    const isKeyed = turn % 2 === 0
    const headers: Record<string, string> = isKeyed ? { 'Idempotency-Key': randomUUID() } : {}
    const isAccepted = (await deliver(node, { body, headers })) === 'accepted'
    if (isAccepted) for (const type of types) tally.events[type] += 1
    // What was refused in doubt is left alone: its repeat would be a replay that counts its events.
    if (isAccepted && turn % 10 === 0) await deliver(node, { body, headers })
  }

  async function keepSending(node: Service): Promise<void> {
    for (let turn = 0; !over.signal.aborted; turn++) {
      await sendEvents(node, BATCH_SIZES[turn % BATCH_SIZES.length], turn)
      await sleep(PAUSE_MS)
    }
  }

  const steady = Promise.all(nodes.map(keepSending))
  await Promise.all(nodes.map((node) => Promise.all(ALWAYS_ALIKE.map((sending) => deliver(node, sending)))))
  // The first has ten of fifteen: whoever comes next has to ask Redis, which refuses.
  for (const node of nodes) {
    const code = await deliver(node, { body: batch('ak_scarce', 10) })
    if (code === 'accepted') tally.events.track += 10
  }
  await Promise.all(nodes.map((node) => leaveEarly(node, tally)))
  await sleep(CALM_MS)

  await failLimitCalls(cluster, deliver)
  await cluster.redis.kill()
  await sleep(AWAY_MS)
  await cluster.redis.restart()

  await cluster.nats.kill()
  const large = Array.from({ length: LARGE_BODIES }, () => ({ body: bodyOfSize('ak_busy', MAX_BODY_BYTES) }))
  const delivered = Promise.all(
    nodes.flatMap((node) =>
      large.map(async (sending) => {
        if ((await deliver(node, sending)) === 'accepted') tally.events.track += 1
      }),
    ),
  )
  await sleep(AWAY_MS)
  const refused = 'sluice_overloaded_total{reason="nats_away"}'
  await eventually('records were refused since NATS is away', async () => {
    const counts = await Promise.all(cluster.nodes.map((node) => metric(node, refused)))
    return counts.some((count) => Number(count) > 0)
  })
  await cluster.nats.restart()
  await delivered
  await writeFile(embedded.appsFile, '{')
  await sleep(CALM_MS)

  over.abort()
  await steady
  return tally
}

/** Freezes Redis while apps ask it for more than they have left, so that their calls fail; it stays frozen. */
async function failLimitCalls(
  cluster: Cluster,
  deliver: (node: Service, sending: Sending) => Promise<string>,
): Promise<void> {
  const overLimit = ['ak_minute', 'ak_day', 'ak_month'].map((appKey) => ({ body: batch(appKey, 10) }))
  await eventually('calls for limits were slow, and failed', async () => {
    // A node that takes Redis to be away for another reason does not ask.
    cluster.redis.resume()
    const isUp = async (node: Service): Promise<boolean> => (await metric(node, 'sluice_redis_up')) === 1
    if (!(await Promise.all(cluster.nodes.map(isUp))).every(Boolean)) return false
    cluster.redis.freeze()
    await Promise.all(cluster.nodes.flatMap((node) => overLimit.map((sending) => deliver(node, sending))))
    const sum = async (result: string): Promise<number> => {
      const counts = cluster.nodes.map((node) => metric(node, `sluice_limit_calls_total{result="${result}"}`))
      return (await Promise.all(counts)).reduce<number>((total, count) => total + (count ?? 0), 0)
    }
    return (await sum('slow')) > 0 && (await sum('failed')) > 0
  })
}

/** Ends the connection in the middle of a body, and waits until the node has seen it. */
async function leaveEarly(node: Service, tally: Tally): Promise<void> {
  const connection = await openRaw(node.port)
  connection.write(`${head(['Content-Type: application/json', 'Content-Length: 1000'])}{"app_key":`)
  await untilRead(node)
  connection.close()
  tally.add(node, 'aborted')
  const left = 'sluice_requests_total{status="499",code="aborted"}'
  await eventually('the node has seen it', async () => Number(await metric(node, left)) > 0)
}
