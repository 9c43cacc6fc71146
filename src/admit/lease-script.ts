// What Redis keeps of one app's limits, and the one script through which a node tells what it has spent and asks for
// more. Every call states the node's whole account of the app, so that it may be lost, repeated or late without harm.

import type { LimitRefusal } from './limiter.ts'
import type { Cycle } from './plans.ts'
import type { RedisLink } from './redis.ts'
import { redisScript, runScript } from './redis-script.ts'

/** One hash an app, and one hash slot: all that a call touches lies in it. */
export function limitsKey(appId: string): string {
  return `sluice:{${appId}}:limits`
}

/** The hash outlives its longest cycle, and goes when its app has been silent for so long. */
export const LIMITS_EXPIRY_SECONDS = 40 * 86_400

/**
 * What the script and `reclaim.ts` share: the stored form, the windows that hold a time, and adding to totals.
 *
 * Fields: `totals`, and `node:<id>` for each node, both JSON. cjson writes 14 digits: counts are exact up to 10^14.
 */
export const LEASE_LIBRARY = `
local MINUTE, DAY = 60000, 86400000
local call = cjson.decode(ARGV[1])
-- A test says what time it is.
local clockMs = tonumber(ARGV[2])
if not clockMs then
  local time = redis.call('TIME')
  clockMs = time[1] * 1000 + math.floor(time[2] / 1000)
end

local function startOf(timeMs, lengthMs) return timeMs - timeMs % lengthMs end

local function readField(field)
  local text = redis.call('HGET', KEYS[1], field)
  return text and cjson.decode(text)
end

local function findWindow(windows, id)
  for _, window in ipairs(windows) do
    if window.id == id then return window end
  end
end

-- The cycle with these ends, opened where there is none. The one asked for stands first; a fifth drops the last.
local function cycleOf(totals, startMs, endMs)
  for at, cycle in ipairs(totals.cycles) do
    if cycle.startMs == startMs and cycle.endMs == endMs then return table.remove(totals.cycles, at) end
  end
  if #totals.cycles >= 4 then table.remove(totals.cycles) end
  return { startMs = startMs, endMs = endMs, used = 0 }
end

-- Adds to each total that the window counts in and that still stands.
local function add(totals, window, count)
  local function to(total) total.used = math.max(0, total.used + count) end
  if totals.minute.startMs == startOf(window.startMs, MINUTE) then to(totals.minute) end
  if totals.day.startMs == startOf(window.startMs, DAY) then to(totals.day) end
  local cycle = cycleOf(totals, window.cycleStartMs, window.cycleEndMs)
  to(cycle)
  table.insert(totals.cycles, 1, cycle)
end
`

/**
 * Time does not go back: a clock that steps back keeps the newest time, unless it steps by a minute or more. When the
 * minute turns, what nodes have already counted in it is summed up anew (nothing, but for such a step), and the records
 * of nodes that were not heard for a day are let go of.
 *
 * A hash that this node remembers and that is another one now was lost: totals come back as they were seen last, which
 * what the node was granted is a part of. Where another node saw them later, its word takes the place of this one's.
 */
const SYNC = redisScript(`${LEASE_LIBRARY}
if clockMs > call.deadlineMs then return { 1, clockMs } end
local field = 'node:' .. call.node
local own = readField(field)
if own and call.seq <= own.seq then return { 2, clockMs } end
own = own or { windows = {} }

local totals = readField('totals')
local nowMs = clockMs
if totals and nowMs < totals.newestMs and nowMs > totals.newestMs - MINUTE then nowMs = totals.newestMs end
totals = totals or { bornMs = nowMs, version = 0, minute = { startMs = -1 }, day = { startMs = -1, used = 0 }, cycles = {} }
totals.newestMs = nowMs

local hasTurned = totals.minute.startMs ~= startOf(nowMs, MINUTE)
if hasTurned then
  local minute = { startMs = startOf(nowMs, MINUTE), used = 0 }
  local day = { startMs = startOf(nowMs, DAY), used = 0 }
  local unplaced = {}
  local fields = redis.call('HGETALL', KEYS[1])
  for at = 1, #fields, 2 do
    if fields[at] ~= 'totals' then
      local record = cjson.decode(fields[at + 1])
      if record.atMs < nowMs - DAY and fields[at] ~= field then redis.call('HDEL', KEYS[1], fields[at]) end
      for _, window in ipairs(record.windows) do
        if not window.cycleEndMs then
          unplaced[fields[at]] = record
        elseif startOf(window.startMs, DAY) == day.startMs then
          day.used = day.used + window.granted
          if startOf(window.startMs, MINUTE) == minute.startMs then minute.used = minute.used + window.granted end
        end
      end
    end
  end
  totals.minute = minute
  if totals.day.startMs ~= day.startMs then totals.day = day end
  local cycles = {}
  for _, cycle in ipairs(totals.cycles) do
    if cycle.endMs > nowMs - DAY then table.insert(cycles, cycle) end
  end
  totals.cycles = cycles
  -- Counted for a dead node when no cycle of the app was known: now one is.
  for name, record in pairs(unplaced) do
    for _, window in ipairs(record.windows) do
      if not window.cycleEndMs and call.cycle.startMs <= window.startMs and window.startMs < call.cycle.endMs then
        window.cycleStartMs = call.cycle.startMs
        window.cycleEndMs = call.cycle.endMs
        add(totals, window, window.granted)
      end
    end
    if name == field then own = record
    elseif record.atMs >= nowMs - DAY then redis.call('HSET', KEYS[1], name, cjson.encode(record)) end
  end
end

local known = call.known
local isLost = known and known.bornMs ~= totals.bornMs
local seed = totals.seed or { version = 0 }
if isLost and known.version > seed.version then
  if known.minuteStartMs == totals.minute.startMs then
    local before = seed.minuteStartMs == known.minuteStartMs and seed.minuteUsed or 0
    totals.minute.used = totals.minute.used + known.minuteUsed - before
  end
  if known.dayStartMs == totals.day.startMs then
    local before = seed.dayStartMs == known.dayStartMs and seed.dayUsed or 0
    totals.day.used = totals.day.used + known.dayUsed - before
  end
  local cycle = cycleOf(totals, known.cycleStartMs, known.cycleEndMs)
  local before = seed.cycleStartMs == known.cycleStartMs and seed.cycleUsed or 0
  cycle.used = cycle.used + known.cycleUsed - before
  table.insert(totals.cycles, 1, cycle)
  totals.seed = known
  totals.version = math.max(totals.version, known.version)
end
totals.version = totals.version + 1

-- What was only inferred when this node was taken for dead is undone: its own account is here now.
for _, window in ipairs(own.windows) do
  if window.id == 0 and window.cycleEndMs then add(totals, window, -window.granted) end
end

local windows = {}
local current = { spent = 0, granted = 0 }
for at, window in ipairs(call.windows) do
  local before = findWindow(own.windows, window.id)
  local granted = before and before.granted or (isLost and window.granted or 0)
  local kept = math.max(0, math.min(window.keep, granted - window.spent))
  add(totals, window, window.spent + kept - granted)
  window.granted = window.spent + kept
  window.keep = nil
  if at == call.current then current = window end
  table.insert(windows, window)
end

local cycle = cycleOf(totals, call.cycle.startMs, call.cycle.endMs)
table.insert(totals.cycles, 1, cycle)
local isCurrent = call.current and startOf(current.startMs, MINUTE) == totals.minute.startMs
  and cycle.startMs <= nowMs and nowMs < cycle.endMs
local verdicts = {}
if isCurrent then
  local function room()
    local day = call.dayLimit and call.dayLimit - totals.day.used or math.huge
    return call.minuteLimit - totals.minute.used, day, call.monthLimit - cycle.used
  end
  local function grant(count)
    current.granted = current.granted + count
    add(totals, current, count)
  end
  local admitted = 0
  for at, cost in ipairs(call.costs) do
    local minute, day, month = room()
    if cost > month then verdicts[at] = 1
    elseif cost > day then verdicts[at] = 2
    elseif cost > minute then verdicts[at] = 3
    else
      verdicts[at] = 0
      admitted = admitted + cost
      grant(cost)
    end
  end
  -- What a node holds unspent is at most this share of the room, so that others find some, and none at the end.
  local share = math.floor(math.min(room()) / (4 * call.nodes))
  local held = current.granted - current.spent - admitted
  local more = math.min(call.hold, share) - held
  if more > 0 then grant(more) end
  current.spent = current.spent + admitted
end

local kept = {}
for _, window in ipairs(windows) do
  if window.granted > 0 then table.insert(kept, window) end
end
local record = { seq = call.seq, atMs = nowMs, mark = call.mark, windows = kept }
redis.call('HSET', KEYS[1], 'totals', cjson.encode(totals), field, cjson.encode(record))
if hasTurned then redis.call('EXPIRE', KEYS[1], ${LIMITS_EXPIRY_SECONDS}) end
return { 0, clockMs, nowMs, totals.bornMs, totals.version, isCurrent and 1 or 0, totals.minute.used, totals.day.used, cycle.used,
  current.granted, unpack(verdicts) }
`)

/** Requests judged by one call; those behind them wait for the next. */
export const MAX_COSTS_PER_CALL = 512

/** One node's account of one window, all counts absolute. */
export interface WindowAccount {
  /** Its own on this node, and never 0: that is what `reclaim.ts` infers. */
  readonly id: number
  readonly startMs: number
  readonly endMs: number
  readonly cycleStartMs: number
  readonly cycleEndMs: number
  /** Taken and not given back. */
  readonly spent: number
  /** Of `spent`, what is durable. */
  readonly settled: number
  /** What the node goes on holding unspent. */
  readonly keep: number
  /** What it was granted last, as far as it knows. */
  readonly granted: number
}

/** The totals as a node last saw them. `bornMs` names the hash they stood in. */
export interface KnownTotals {
  readonly bornMs: number
  /** Grows with every call, through losses too. */
  readonly version: number
  readonly minuteStartMs: number
  readonly minuteUsed: number
  readonly dayStartMs: number
  readonly dayUsed: number
  readonly cycleStartMs: number
  readonly cycleEndMs: number
  readonly cycleUsed: number
}

export interface SyncCall {
  readonly node: string
  /** Of two calls of one node only the newer counts, whichever arrives last. */
  readonly seq: number
  /** In Redis time: what arrives later is not done. */
  readonly deadlineMs: number
  readonly mark: number
  readonly nodes: number
  readonly cycle: Cycle
  readonly minuteLimit: number
  /** Absent: no daily limit. */
  readonly dayLimit?: number
  readonly monthLimit: number
  /** Every window that Redis has of this node, and any that are new. One that is left out is closed. */
  readonly windows: readonly WindowAccount[]
  /** Which of `windows`, counted from 1, `costs` and `hold` are asked of. */
  readonly current?: number
  /** What the requests that wait cost, in their order. */
  readonly costs: readonly number[]
  /** How many unspent events the node would like to have in hand. */
  readonly hold: number
  readonly known?: KnownTotals
}

export type Verdict = 'granted' | LimitRefusal

export type SyncReply =
  /** Not done: the call came after its deadline, or after a newer one. */
  | { readonly kind: 'ignored'; readonly clockMs: number }
  | {
      readonly kind: 'done'
      /** Redis's clock. */
      readonly clockMs: number
      /** The time by which windows were judged: never before the newest one seen. */
      readonly nowMs: number
      readonly bornMs: number
      readonly version: number
      /** false: the window meant is not the running one, and nothing was asked of it. */
      readonly isCurrent: boolean
      readonly minuteUsed: number
      readonly dayUsed: number
      readonly cycleUsed: number
      /** What the node has of the current window now, spent or not. */
      readonly granted: number
      readonly verdicts: readonly Verdict[]
    }

const VERDICTS: readonly Verdict[] = [
  'granted',
  'monthly_limit_exceeded',
  'daily_limit_exceeded',
  'rate_limit_exceeded',
]

/** Rejects only with an error reply of Redis. */
export async function syncLease(link: RedisLink, appId: string, call: SyncCall): Promise<SyncReply | 'away'> {
  const reply = await runScript(link, SYNC, [limitsKey(appId)], [JSON.stringify(call)])
  if (reply === 'away') return 'away'
  const [status, clockMs, nowMs, bornMs, version, isCurrent, minuteUsed, dayUsed, cycleUsed, granted, ...verdicts] =
    reply as number[]
  if (status !== 0) return { kind: 'ignored', clockMs }
  return {
    kind: 'done',
    clockMs,
    nowMs,
    bornMs,
    version,
    isCurrent: isCurrent === 1,
    minuteUsed,
    dayUsed,
    cycleUsed,
    granted,
    verdicts: verdicts.map((verdict) => VERDICTS[verdict]),
  }
}
