// Takes back what a dead node held: of each of its apps, all that was granted to it and that it did not use. What it
// used is what it had told of, and what the queue's ledger says it stored after that.

import { LEASE_LIBRARY, LIMITS_EXPIRY_SECONDS, limitsKey } from './lease-script.ts'
import { DEAD_AFTER_MS, forgetNode, NODE_MARKS_KEY, nodeAppsKey, nodeLockKey, type SilentNode } from './nodes.ts'
import { MINUTE_MS, windowStartMs } from './plans.ts'
import type { Away, RedisLink } from './redis.ts'
import { redisScript, runScript } from './redis-script.ts'

/** A record that a node stored: what it cost, and where it stands in the order of the queue. */
export interface StoredRecord {
  readonly appId: string
  readonly cost: number
  readonly receivedAtMs: number
  readonly mark: number
}

/** What the shared queue knows of its writers. Marks are the queue's own, and only grow. */
export interface Ledger {
  /** Of what this node stored, all that is settled stands at this mark or before it. */
  mark(): number
  /** Every record that a node stored after a mark. */
  storedBy(nodeId: string, afterMark: number): Promise<readonly StoredRecord[] | Away>
}

/** One node at a time takes back from a dead one, for at most so long; then another may try. */
const LOCK_SECONDS = 60
const PARALLEL_CALLS = 32

/** The script's answer where the node was heard since its record was read, or a short while ago: nothing was done. */
const HEARD = 'heard'

/** The record stays, so that a node that was only cut off goes on from it and is counted right. */
const RECLAIM = redisScript(`${LEASE_LIBRARY}
local field = 'node:' .. call.node
local own = readField(field)
if own and own.reclaimed then return 0 end
if (own and own.seq or 0) ~= call.seq then return '${HEARD}' end
if own and clockMs - own.atMs < ${DEAD_AFTER_MS} then return '${HEARD}' end
local totals = readField('totals')
if not totals and #call.inferred == 0 then return 0 end
own = own or { seq = 0, atMs = clockMs, windows = {} }
local back = 0
local function set(window, granted)
  if totals then add(totals, window, granted - window.granted) end
  back = back + window.granted - granted
  window.granted = granted
  window.spent = granted
  window.settled = granted
end
for _, used in ipairs(call.used) do set(findWindow(own.windows, used.id), used.spent) end
for _, window in ipairs(call.inferred) do
  window.id = 0
  window.granted = window.spent
  window.settled = window.spent
  -- Where no cycle is known that holds it, the next call of any node places it.
  for _, cycle in ipairs(totals and totals.cycles or {}) do
    if cycle.startMs <= window.startMs and window.startMs < cycle.endMs then
      window.cycleStartMs = cycle.startMs
      window.cycleEndMs = cycle.endMs
      add(totals, window, window.granted)
      break
    end
  end
  back = back - window.granted
  table.insert(own.windows, window)
end
own.reclaimed = true
if totals then redis.call('HSET', KEYS[1], 'totals', cjson.encode(totals)) end
redis.call('HSET', KEYS[1], field, cjson.encode(own))
redis.call('EXPIRE', KEYS[1], ${LIMITS_EXPIRY_SECONDS})
return back
`)

/** What Redis has of one node in one app; fields that are not used here are left out. */
interface NodeRecord {
  readonly seq: number
  readonly mark: number
  readonly reclaimed?: true
  readonly windows: readonly {
    readonly id: number
    readonly startMs: number
    readonly endMs: number
    readonly granted: number
    readonly settled: number
  }[]
}

export interface ReclaimParts {
  readonly link: RedisLink
  readonly ledger: Ledger | null
}

export interface Reclaimed {
  readonly apps: number
  /** Events given back, less those that had never been counted. */
  readonly events: number
}

/**
 * 'away': Redis or the ledger did not answer; 'heard': the node may be alive, or has died only just now; null: another
 * node does it.
 */
export async function reclaimFrom(
  dead: SilentNode,
  parts: ReclaimParts,
): Promise<Reclaimed | Away | typeof HEARD | null> {
  const { link, ledger } = parts
  const { nodeId } = dead
  const locked = await link.call((client) => client.set(nodeLockKey(nodeId), '1', 'EX', LOCK_SECONDS, 'NX'))
  if (locked !== 'OK') return locked
  const apps = await link.call((client) => client.smembers(nodeAppsKey(nodeId)))
  const beatMark = await link.call((client) => client.hget(NODE_MARKS_KEY, nodeId))
  if (apps === 'away' || beatMark === 'away') return 'away'
  const records = await readRecords(link, nodeId, apps)
  if (records === 'away') return 'away'

  let stored: readonly StoredRecord[] = []
  if (ledger !== null) {
    const answer = await ledger.storedBy(nodeId, oldestMark(Number(beatMark ?? 0), records.values()))
    if (answer === 'away') return unlock(link, nodeId, 'away')
    stored = answer
  }
  const storedByApp = groupByApp(stored)
  const appIds = [...new Set([...apps, ...storedByApp.keys()])]
  const returned = await inParallel(appIds, async (appId) => {
    const account = accountOf(records.get(appId) ?? null, ledger === null ? null : (storedByApp.get(appId) ?? []))
    const call = { node: nodeId, ...account }
    return (await runScript(link, RECLAIM, [limitsKey(appId)], [JSON.stringify(call)])) as number | typeof HEARD | Away
  })
  if (returned === 'away') return unlock(link, nodeId, 'away')
  const counts = returned.filter((back) => back !== HEARD)
  // Its calls may come until just after the last beat that others saw: it stays in the list until each app is done.
  if (counts.length < returned.length) return unlock(link, nodeId, HEARD)
  await forgetNode(link, dead)
  return { apps: appIds.length, events: counts.reduce((sum, back) => sum + back, 0) }
}

/** The next to look may try again at once. */
async function unlock<Outcome>(link: RedisLink, nodeId: string, outcome: Outcome): Promise<Outcome> {
  await link.call((client) => client.del(nodeLockKey(nodeId)))
  return outcome
}

async function readRecords(
  link: RedisLink,
  nodeId: string,
  appIds: readonly string[],
): Promise<Map<string, NodeRecord> | Away> {
  const records = new Map<string, NodeRecord>()
  const read = await inParallel(appIds, async (appId) => {
    const text = await link.call((client) => client.hget(limitsKey(appId), `node:${nodeId}`))
    if (text === 'away') return 'away'
    if (text !== null) records.set(appId, parseRecord(text))
    return null
  })
  return read === 'away' ? 'away' : records
}

/** Lua writes an empty list as an empty object. */
export function parseRecord(text: string): NodeRecord {
  const record = JSON.parse(text) as NodeRecord
  return Array.isArray(record.windows) ? record : { ...record, windows: [] }
}

/**
 * From where the ledger has to be read. A node spends only what it was granted, so what it told of in full hides
 * nothing, unless it went on without Redis: then it had beaten before.
 */
function oldestMark(beatMark: number, records: Iterable<NodeRecord>): number {
  let oldest = beatMark
  for (const { mark, windows } of records) {
    if (windows.some(({ granted, settled }) => granted > settled)) oldest = Math.min(oldest, mark)
  }
  return oldest
}

/** What a node used, by its record and by what it stored since; `stored` null: nobody knows, and all counts as used. */
function accountOf(record: NodeRecord | null, stored: readonly StoredRecord[] | null): object {
  const windows = record?.windows ?? []
  const used = windows.map(({ id, granted, settled }) => ({ id, spent: stored === null ? granted : settled }))
  const inferred = new Map<number, { startMs: number; endMs: number; spent: number }>()
  for (const { cost, receivedAtMs, mark } of stored ?? []) {
    if (record !== null && mark <= record.mark) continue
    const at = windows.findLastIndex(({ startMs, endMs }) => startMs <= receivedAtMs && receivedAtMs < endMs)
    if (at >= 0) {
      used[at].spent += cost
      continue
    }
    const startMs = windowStartMs(receivedAtMs, MINUTE_MS)
    const window = inferred.get(startMs) ?? { startMs, endMs: startMs + MINUTE_MS, spent: 0 }
    window.spent += cost
    inferred.set(startMs, window)
  }
  return { seq: record?.seq ?? 0, used, inferred: [...inferred.values()] }
}

function groupByApp(stored: readonly StoredRecord[]): Map<string, StoredRecord[]> {
  const groups = new Map<string, StoredRecord[]>()
  for (const record of stored) {
    const group = groups.get(record.appId)
    if (group === undefined) groups.set(record.appId, [record])
    else group.push(record)
  }
  return groups
}

/** At most so many at a time; 'away' as soon as one is. */
async function inParallel<Item, Result>(
  items: readonly Item[],
  work: (item: Item) => Promise<Result | Away>,
): Promise<Result[] | Away> {
  const results: Result[] = []
  for (let at = 0; at < items.length; at += PARALLEL_CALLS) {
    for (const result of await Promise.all(items.slice(at, at + PARALLEL_CALLS).map(work))) {
      if (result === 'away') return 'away'
      results.push(result)
    }
  }
  return results
}
