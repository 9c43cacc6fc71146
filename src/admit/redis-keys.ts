// What Redis keeps of idempotency keys, and the scripts that claim, confirm and release them. A script takes several
// keys where one Redis holds them all, and one key on a cluster.

import { IDEMPOTENCY_WINDOW_SECONDS } from './deduplicator.ts'
import type { RedisClient, RedisLink } from './redis.ts'
import { evaluate, redisScript, type RedisScript } from './redis-script.ts'

/** Outlives every request, which is answered some 3 s after its claim, and frees the keys of a dead node within 10 s. */
const CLAIM_MS = 7000
export const WINDOW_MS = IDEMPOTENCY_WINDOW_SECONDS * 1000

function keyOf(batchId: string): string {
  return `sluice:key:${batchId}`
}

/**
 * A key holds the count of events it was accepted with, or `c:<claimed until>:<in doubt until>:<node>:<call>`, with
 * times of Redis's clock, and which call of which node has claimed it. A key that is only in doubt is claimed until 0.
 */
const LIBRARY = `
local time = redis.call('TIME')
local nowMs = time[1] * 1000 + math.floor(time[2] / 1000)
local node = ARGV[1]

local function readClaim(held)
  local untilMs, doubtUntilMs, holder, call = string.match(held, '^c:(%d+):(%d+):(.*):(%d+)$')
  return tonumber(untilMs) or 0, tonumber(doubtUntilMs) or 0, holder or '', call or '0'
end

-- What is neither a count nor a claim is nobody's: the key is free.
local function countOf(held)
  local count = string.match(held, '^%d%d?%d?$')
  count = count and tonumber(count)
  return count and count <= 100 and count
end

local function writeClaim(key, untilMs, doubtUntilMs, holder, call)
  local keptMs = math.max(untilMs, doubtUntilMs) - nowMs
  if keptMs <= 0 then return redis.call('DEL', key) end
  redis.call('SET', key, string.format('c:%d:%d:%s:%s', untilMs, doubtUntilMs, holder, call), 'PX', keptMs)
end
`

const CLAIMED = -1
const CLAIMED_IN_DOUBT = -2
const HELD = -3

/** A node takes what it has claimed already: an answer of Redis may have been late, and the claim with it. */
const CLAIM = redisScript(`${LIBRARY}
if nowMs > tonumber(ARGV[3]) then return { nowMs } end
local answers = { nowMs }
for at, key in ipairs(KEYS) do
  local held = redis.call('GET', key)
  local answer, doubtUntilMs = ${CLAIMED}, 0
  if held then
    local events = countOf(held)
    if events then
      answer = events
    else
      local untilMs, holder
      untilMs, doubtUntilMs, holder = readClaim(held)
      if untilMs > nowMs and holder ~= node then answer = ${HELD}
      elseif doubtUntilMs > nowMs then answer = ${CLAIMED_IN_DOUBT} end
    end
  end
  if answer == ${CLAIMED} or answer == ${CLAIMED_IN_DOUBT} then
    writeClaim(key, nowMs + ${CLAIM_MS}, doubtUntilMs, node, ARGV[2])
  end
  answers[at + 1] = answer
end
return answers
`)

/** The first acceptance stands: a repeat does not renew it. */
const CONFIRM = redisScript(`${LIBRARY}
local leftMs = tonumber(ARGV[2]) - nowMs
if leftMs <= 0 then return end
for at, key in ipairs(KEYS) do
  local held = redis.call('GET', key)
  if not (held and countOf(held)) then redis.call('SET', key, ARGV[at + 2], 'PX', leftMs) end
end
`)

/** Frees what that very call has claimed: the node may have claimed the key anew. A doubt stays one. */
const RELEASE = redisScript(`${LIBRARY}
local held = redis.call('GET', KEYS[1])
if held and countOf(held) then return end
local untilMs, doubtUntilMs, holder, call = 0, 0, '', '0'
if held then untilMs, doubtUntilMs, holder, call = readClaim(held) end
if holder == node and call == ARGV[2] then untilMs = 0 end
writeClaim(KEYS[1], untilMs, math.max(doubtUntilMs, tonumber(ARGV[3])), holder, call)
`)

export type KeyAnswer =
  | { readonly kind: 'claimed'; readonly inDoubt: boolean }
  | { readonly kind: 'accepted'; readonly events: number }
  /** By another node. */
  | { readonly kind: 'held' }

export interface ClaimAnswers {
  /** Redis's clock. */
  readonly redisMs: number
  /** In the order of the keys; null: the deadline had passed, and nothing was claimed. */
  readonly answers: readonly KeyAnswer[] | null
}

/** A node's calls are numbered from 1. `deadlineMs`, in Redis time: one that Redis comes to later is not done. */
export function claimKeys(
  link: RedisLink,
  node: string,
  batchIds: readonly string[],
  { call, deadlineMs }: { call: number; deadlineMs: number },
): Promise<ClaimAnswers | 'away'> {
  return link.call(async (client) => {
    const args = [node, String(call), String(deadlineMs)]
    const replies = (await forKeys(client, CLAIM, batchIds, (ids) => [ids, args])) as number[][]
    const answers = replies.flatMap((reply) => reply.slice(1))
    return { redisMs: replies[0][0], answers: answers.length < batchIds.length ? null : answers.map(answerOf) }
  })
}

/** `untilMs`, in Redis time: how long they are remembered. */
export function confirmKeys(
  link: RedisLink,
  node: string,
  batchIds: readonly string[],
  events: readonly number[],
  untilMs: number,
): Promise<unknown> {
  return link.call((client) =>
    forKeys(client, CONFIRM, batchIds, (ids, from) => [
      ids,
      [node, String(untilMs), ...events.slice(from, from + ids.length).map(String)],
    ]),
  )
}

/** `call` is the one that claimed it, 0 where none has. `doubtUntilMs`, in Redis time; 0: there is no doubt. */
export function releaseKey(
  link: RedisLink,
  node: string,
  batchId: string,
  { call, doubtUntilMs }: { call: number; doubtUntilMs: number },
): Promise<unknown> {
  return link.call((client) => evaluate(client, RELEASE, [keyOf(batchId)], [node, String(call), String(doubtUntilMs)]))
}

/** All keys in one call, or each in its own on a cluster, where each has its own slot. */
function forKeys(
  client: RedisClient,
  script: RedisScript,
  batchIds: readonly string[],
  split: (ids: readonly string[], from: number) => [ids: readonly string[], args: readonly string[]],
): Promise<unknown[]> {
  const call = ([ids, args]: [readonly string[], readonly string[]]) => evaluate(client, script, ids.map(keyOf), args)
  if (!client.isCluster) return call(split(batchIds, 0)).then((reply) => [reply])
  return Promise.all(batchIds.map((id, at) => call(split([id], at))))
}

function answerOf(answer: number): KeyAnswer {
  if (answer >= 0) return { kind: 'accepted', events: answer }
  if (answer === HELD) return { kind: 'held' }
  return { kind: 'claimed', inDoubt: answer === CLAIMED_IN_DOUBT }
}
