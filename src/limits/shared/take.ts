// The arguments and the reply of take.lua, encoded and decoded.

import { readFileSync } from 'node:fs'
import type { App } from '../../apps/app.ts'
import type { Replay } from '../../keys/deduplicator.ts'
import { MINUTE_MS } from '../../lib/spans.ts'
import { integer, listOf, must, type Read, unixMs } from '../../redis/reply.ts'
import { redisScript } from '../../redis/script.ts'
import type { CycleMinutes } from '../cycle-minutes.ts'

/** Longer than any request, which is answered within about 3 s of its claim; a dead node's keys are free after these 7 s. */
const CLAIM_MS = 7000
/** As take.lua has them: no minute is further ahead of Redis's clock, and no beat is higher. */
const MAX_AHEAD = 2
const MAX_BEAT = 1e13

export const TAKE = redisScript(readFileSync(new URL('./take.lua', import.meta.url), 'utf8'))

export function fenceKey(partition: number): string {
  return `sluice:{p${partition}}:fence`
}

/** How far the audit has closed: the time of the last message that it had read, and the minute. */
export interface Fence {
  readonly timeUs: number
  readonly minute: number
}

/** null: there is none, or it is not valid. */
export function fenceIn(text: string | null | undefined): Fence | null {
  const found = /^(\d+) (\d+)$/.exec(text ?? '')
  return found === null ? null : { timeUs: Number(found[1]), minute: Number(found[2]) }
}

export function countsKey(partition: number, appId: string): string {
  return `sluice:{p${partition}}:app:${appId}`
}

/** How far the audit has read: time in us, closed minute, sequence. */
export function readKey(partition: number): string {
  return `sluice:{p${partition}}:read`
}

/** A hash: what is in doubt, until the audit has settled it. Fields and values are those of doubts.ts. */
export function doubtsKey(partition: number): string {
  return `sluice:{p${partition}}:doubts`
}

/** Beside the fence: what shows that Redis has forgotten. */
export function beatKey(partition: number): string {
  return `sluice:{p${partition}}:beat`
}

export function idempotencyKey(partition: number, batchId: string): string {
  return `sluice:{p${partition}}:key:${batchId}`
}

/**
 * The answers of take.lua. `replay` + n: the key was accepted (replayOfAnswer). Below 0: its batch is in doubt, and was
 * charged (doubtOfAnswer).
 */
export const ANSWER = { done: 0, month: 1, day: 2, minute: 3, held: 4, early: 5, forgotten: 6, replay: 100 } as const

/** Instead of a claim: the key is free, but the stream knows its id. A node of 0.3 takes it for a claim, and sends nothing. */
export const BURNT = 'burnt'

/** In the answer to a take, what separates the events of an accepted key, of which there are at most 100, from its hash. */
const HASH_UNIT = 1000
const ACCEPTED = /^(\d{1,3})(?::(\d{1,10}))?$/
/**
 * Added to a hash of events. What is below is the hash that 0.3 made, of a whole body: it says nothing of the events. 0.3
 * reads both.
 */
const HASH_OF_EVENTS = 2 ** 32

/** What Redis keeps of an accepted key. `eventsHash` 0: not known. */
export function acceptedText(events: number, eventsHash: number): string {
  return eventsHash === 0 ? String(events) : `${events}:${HASH_OF_EVENTS + eventsHash}`
}

/** null: the text is the id of the node that holds the key. */
export function replayOfText(text: string): Replay | null {
  const found = ACCEPTED.exec(text)
  return found === null ? null : replayWith(Number(found[1]), Number(found[2] ?? 0))
}

/** `answer`: at least ANSWER.replay. */
export function replayOfAnswer(answer: number): Replay {
  const accepted = answer - ANSWER.replay
  return replayWith(accepted % HASH_UNIT, Math.floor(accepted / HASH_UNIT))
}

/** `answer`: below 0. */
export function doubtOfAnswer(answer: number): { minute: number; events: number } {
  return { minute: Math.floor(-answer / HASH_UNIT), events: -answer % HASH_UNIT }
}

function replayWith(events: number, hash: number): Replay {
  return { kind: 'replay', events, eventsHash: hash < HASH_OF_EVENTS ? undefined : hash - HASH_OF_EVENTS }
}

/** What Redis has acknowledged to this node of an app, in a minute: two sums that only grow, to be counted again if lost. */
export interface Acknowledged {
  readonly minute: number
  readonly taken: number
  readonly givenBack: number
}

export interface AppQuestion {
  readonly partition: number
  readonly app: App
  readonly cycle: CycleMinutes
  /** Events requested for the node's bucket. */
  readonly wanted: number
  /** Of open minutes. */
  readonly acknowledged: readonly Acknowledged[]
  /** Events to subtract (below 0: to add), by the minute they were taken in. */
  readonly corrections: ReadonlyMap<number, number>
  /** `key`: the Redis key; null: the request has none. `asks`: it takes and claims nothing. */
  readonly takes: readonly { readonly events: number; readonly key: string | null; readonly asks?: boolean }[]
}

/** What a node has seen of a partition. A Redis that is behind it has forgotten. */
export interface PartitionQuestion {
  readonly partition: number
  /** The newest. */
  readonly closedMinute: number
  /** The highest. */
  readonly beat: number
  readonly raisesBeat: boolean
}

export interface PartitionReply {
  readonly closedMinute: number
  readonly beat: number
  /** When a loss was last noticed, by Redis's clock; 0: never. */
  readonly lostAtMs: number
  /** Nothing can be taken until the audit has written the partition's sums again. */
  readonly isForgotten: boolean
}

export interface Question {
  readonly nodeId: string
  /** Those of `apps`, and those whose beat is raised. One that is missing is not checked. */
  readonly partitions: readonly PartitionQuestion[]
  readonly accepted: readonly { readonly key: string; readonly accepted: string; readonly rememberedMs: number }[]
  readonly released: readonly string[]
  readonly apps: readonly AppQuestion[]
}

export interface AppReply {
  /** The minute that was taken from, in UTC minutes since 1970. */
  readonly minute: number
  /** The first minute of the cycle that holds it. */
  readonly cycleMinute: number
  readonly monthUsed: number
  readonly dayUsed: number
  readonly minuteUsed: number
  /** Events for the node's bucket. */
  readonly granted: number
  /** Events of `minute` that this node has taken, and given back, by then. */
  readonly taken: number
  readonly givenBack: number
  /** Events in spools, and of them those in spools of dead nodes. */
  readonly spooled: number
  readonly spooledOfDead: number
  /** One `ANSWER` for each take. */
  readonly takes: readonly number[]
}

export interface Reply {
  /** Redis's clock. */
  readonly nowMs: number
  readonly apps: readonly AppReply[]
  readonly partitions: readonly PartitionReply[]
}

/** Of this process. An answer with another number belongs to another call. */
let newestCall = 0

export interface EncodedQuestion {
  readonly keys: string[]
  readonly args: string[]
  /** Of the reply to this call, and no other. */
  readonly read: Read<Reply>
}

export function encodeQuestion(question: Question): EncodedQuestion {
  const { accepted, released, partitions, apps } = question
  const call = ++newestCall
  const keys: string[] = []
  const args: (string | number)[] = [question.nodeId, CLAIM_MS, call, accepted.length]
  for (const { key, accepted: text, rememberedMs } of accepted) {
    keys.push(key)
    args.push(text, rememberedMs)
  }
  args.push(released.length)
  keys.push(...released)
  args.push(partitions.length)
  for (const { partition, closedMinute, beat, raisesBeat } of partitions) {
    keys.push(fenceKey(partition), beatKey(partition))
    args.push(closedMinute, beat, raisesBeat ? 1 : 0)
  }
  args.push(apps.length)
  for (const { partition, app, cycle, wanted, acknowledged, corrections, takes } of apps) {
    keys.push(fenceKey(partition), doubtsKey(partition), countsKey(partition, app.appId))
    args.push(app.eventsPerMonth, app.eventsPerDay ?? -1, app.eventsPerMinute, cycle.first, cycle.next, wanted)
    args.push(acknowledged.length)
    for (const { minute, taken, givenBack } of acknowledged) args.push(minute, taken, givenBack)
    args.push(corrections.size)
    for (const [minute, events] of corrections) args.push(minute, events)
    args.push(takes.length)
    for (const { events, key, asks } of takes) {
      args.push(events, key === null ? 0 : 1, asks === true ? 1 : 0)
      if (key !== null) keys.push(key)
    }
  }
  return { keys, args: [JSON.stringify(args)], read: (reply) => decodeReply(reply, question, call) }
}

/** A number that take.lua cannot have said would stay: in a token budget, in the minute that a node goes by, or in the beat that it has seen. */
function decodeReply(reply: unknown, { apps, partitions }: Question, call: number): Reply {
  const numbers = listOf(integer)(reply)
  let at = 0
  const next = (least = Number.MIN_SAFE_INTEGER, most = Number.MAX_SAFE_INTEGER): number => {
    const number = numbers[at++]
    must(number >= least && number <= most)
    return number
  }
  const nowMs = unixMs(next())
  const clock = Math.floor(nowMs / MINUTE_MS)
  next(call, call)
  const decoded = {
    nowMs,
    apps: apps.map(({ takes, wanted, cycle }) => ({
      minute: next(clock, clock + MAX_AHEAD + 1),
      cycleMinute: cycleOf(next(), cycle),
      monthUsed: next(0),
      dayUsed: next(0),
      minuteUsed: next(0),
      granted: next(0, wanted),
      taken: next(0),
      givenBack: next(0),
      spooled: next(0),
      spooledOfDead: next(0),
      takes: takes.map(() => answerOf(next(-HASH_UNIT * (clock + MAX_AHEAD + 2)))),
    })),
    partitions: partitions.map(() => ({
      closedMinute: next(0, clock + MAX_AHEAD),
      beat: next(0, MAX_BEAT),
      lostAtMs: next(0),
      isForgotten: next(0, 1) === 1,
    })),
  }
  must(at === numbers.length)
  return decoded
}

function cycleOf(minute: number, { first, next }: CycleMinutes): number {
  must(minute === first || minute === next)
  return minute
}

function answerOf(answer: number): number {
  must(answer <= ANSWER.forgotten || answer >= ANSWER.replay)
  return answer
}
