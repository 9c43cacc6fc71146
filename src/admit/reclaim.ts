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

/** What a node's mark is before it has stored anything, and before it knows where the queue ends. */
export const UNUSED_MARK = -1

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
if own and math.abs(clockMs - own.atMs) < ${DEAD_AFTER_MS} then return '${HEARD}' end
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
  readonly atMs: number
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
  /** What time it is for Redis, by this node. */
  readonly timeMs: () => number
}

export interface Reclaimed {
  readonly apps: number
  /** Events given back, less those that had never been counted. */
  readonly events: number
}

/** 'heard': the node may be alive, or has died only just now. */
type Undone = Away | typeof HEARD

/** null: another node does it. */
export async function reclaimFrom(dead: SilentNode, parts: ReclaimParts): Promise<Reclaimed | Undone | null> {
  const { link } = parts
  const lock = nodeLockKey(dead.nodeId)
  const locked = await link.call((client) => client.set(lock, '1', 'EX', LOCK_SECONDS, 'NX'))
  if (locked !== 'OK') return locked
  const reclaimed = await reclaimLocked(dead.nodeId, parts)
  // It stays in the list until each of its apps is done, and the next to look may try again at once.
  if (typeof reclaimed === 'string') await link.call((client) => client.del(lock))
  else await forgetNode(link, dead)
  return reclaimed
}

async function reclaimLocked(nodeId: string, parts: ReclaimParts): Promise<Reclaimed | Undone> {
  const { link, ledger, timeMs } = parts
  const listed = await link.call((client) => client.smembers(nodeAppsKey(nodeId)))
  const beatMark = await link.call((client) => client.hget(NODE_MARKS_KEY, nodeId))
  if (listed === 'away' || beatMark === 'away') return 'away'
  const records = await readRecords(link, nodeId, listed)
  if (records === 'away') return 'away'
  // Redis has the last word, app by app; but the ledger need not be read in vain.
  if ([...records.values()].some(({ atMs }) => Math.abs(timeMs() - atMs) < DEAD_AFTER_MS)) return HEARD

  let stored = new Map<string, StoredRecord[]>()
  const hasDoneNothing = listed.length === 0 && Number(beatMark) === UNUSED_MARK
  if (ledger !== null && !hasDoneNothing) {
    const read = await readLedger(ledger, { link, nodeId, beatMark: Math.max(0, Number(beatMark ?? 0)), records })
    if (read === 'away') return 'away'
    stored = read
  }
  const appIds = [...new Set([...listed, ...stored.keys()])]
  const returned = await inParallel(appIds, async (appId) => {
    const account = accountOf(records.get(appId) ?? null, ledger === null ? null : (stored.get(appId) ?? []))
    const call = { node: nodeId, ...account }
    return (await runScript(link, RECLAIM, [limitsKey(appId)], [JSON.stringify(call)])) as number | Undone
  })
  if (returned === 'away') return 'away'
  const counts = returned.filter((back) => typeof back === 'number')
  if (counts.length < returned.length) return HEARD
  return { apps: appIds.length, events: counts.reduce((sum, back) => sum + back, 0) }
}

interface LedgerReading {
  readonly link: RedisLink
  readonly nodeId: string
  readonly beatMark: number
  /** Those of the apps that are listed; gets those of the others that are found. */
  readonly records: Map<string, NodeRecord>
}

/**
 * What the node stored that Redis was not told of, by app. An app that is not listed may have a record all the same,
 * and that may reach further back: then it is read once more from there.
 */
async function readLedger(
  ledger: Ledger,
  { link, nodeId, beatMark, records }: LedgerReading,
): Promise<Map<string, StoredRecord[]> | Away> {
  for (let afterMark = oldestMark(beatMark, records.values()); ; ) {
    const stored = await ledger.storedBy(nodeId, afterMark)
    if (stored === 'away') return 'away'
    const byApp = groupByApp(stored)
    const unread = [...byApp.keys()].filter((appId) => !records.has(appId))
    const found = await readRecords(link, nodeId, unread)
    if (found === 'away') return 'away'
    for (const [appId, record] of found) records.set(appId, record)
    const oldest = oldestMark(beatMark, records.values())
    if (oldest >= afterMark) return byApp
    afterMark = oldest
  }
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
 * From where the ledger has to be read. A node spends only what it was granted, so that a record in which all is settled
 * hides nothing, unless the node went on without Redis: then the mark of its beat stands back.
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
    const minuteMs = windowStartMs(receivedAtMs, MINUTE_MS)
    // From the first one on, so that it lies in the right cycle where one begins within the minute.
    const window = inferred.get(minuteMs) ?? { startMs: receivedAtMs, endMs: minuteMs + MINUTE_MS, spent: 0 }
    window.spent += cost
    inferred.set(minuteMs, window)
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
