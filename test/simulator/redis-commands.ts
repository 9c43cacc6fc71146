// The Redis commands that scripts and nodes use, with Redis's semantics. Any other command is an error.

import type { RedisValues } from './redis-values.ts'
import { formatNumber, OK, type Reply, ReplyError, Status } from './reply.ts'

const NOT_AN_INTEGER = 'ERR value is not an integer or out of range'
const NOT_A_FLOAT = 'ERR value is not a valid float'
const SYNTAX = 'ERR syntax error'
const MAX_INTEGER = 2n ** 63n - 1n

interface Context {
  readonly values: RedisValues
  /** Unix ms, with a fraction. */
  readonly nowMs: number
  readonly args: readonly string[]
}

interface Command {
  readonly run: (context: Context) => Reply
  /** At least this many arguments, without the name. */
  readonly least: number
  readonly isExact: boolean
}

const exactly = (least: number, run: (context: Context) => Reply): Command => ({ run, least, isExact: true })
const atLeast = (least: number, run: (context: Context) => Reply): Command => ({ run, least, isExact: false })

export function runCommand(values: RedisValues, nowMs: number, words: readonly string[]): Reply {
  const name = words[0].toUpperCase()
  const command = COMMANDS.get(name)
  if (command === undefined) return new ReplyError(`ERR unknown command '${words[0]}' (or one that is not simulated)`)
  const args = words.slice(1)
  if (args.length < command.least || (command.isExact && args.length > command.least)) {
    return new ReplyError(`ERR wrong number of arguments for '${name.toLowerCase()}' command`)
  }
  try {
    return command.run({ values, nowMs, args })
  } catch (error) {
    if (error instanceof ReplyError) return error
    throw error
  }
}

/** Redis counts with 64-bit integers. */
function exactInteger(text: string): bigint {
  if (!/^-?(0|[1-9]\d*)$/.test(text) || text === '-0') throw new ReplyError(NOT_AN_INTEGER)
  const exact = BigInt(text)
  if (exact > MAX_INTEGER || exact < -MAX_INTEGER - 1n) throw new ReplyError(NOT_AN_INTEGER)
  return exact
}

function integer(text: string): number {
  return Number(exactInteger(text))
}

function float(text: string, message = NOT_A_FLOAT): number {
  const value = /^[+-]?inf(inity)?$/i.test(text) ? (text.startsWith('-') ? -Infinity : Infinity) : Number(text)
  if (text.trim() === '' || text.trim() !== text || Number.isNaN(value)) throw new ReplyError(message)
  return value
}

function sum(before: bigint, by: bigint): bigint {
  const after = before + by
  if (after > MAX_INTEGER || after < -MAX_INTEGER - 1n)
    throw new ReplyError('ERR increment or decrement would overflow')
  return after
}

function setCommand({ values, nowMs, args }: Context): Reply {
  const [key, text, ...options] = args
  let expiresAtMs: number | null | undefined = null
  let condition: 'NX' | 'XX' | null = null
  let hasExpiry = false
  let gets = false
  for (let at = 0; at < options.length; at++) {
    const option = options[at].toUpperCase()
    if (option === 'NX' || option === 'XX') {
      if (condition !== null && condition !== option) throw new ReplyError(SYNTAX)
      condition = option
    } else if (option === 'GET') gets = true
    else if (option === 'KEEPTTL' && !hasExpiry) {
      hasExpiry = true
      expiresAtMs = undefined
    } else if (['EX', 'PX', 'EXAT', 'PXAT'].includes(option) && !hasExpiry && at + 1 < options.length) {
      hasExpiry = true
      expiresAtMs = expiryOf('set', option, options[++at], nowMs)
    } else throw new ReplyError(SYNTAX)
  }
  const before = gets ? values.text(key) : null
  if ((condition === 'NX' && values.has(key)) || (condition === 'XX' && !values.has(key))) return before
  values.setText(key, text, expiresAtMs)
  return gets ? before : OK
}

function expiryOf(name: string, unit: string, text: string, nowMs: number): number {
  const count = integer(text)
  if (count <= 0) throw new ReplyError(`ERR invalid expire time in '${name}' command`)
  const ms = unit.startsWith('P') ? count : count * 1000
  return unit.endsWith('AT') ? ms : Math.floor(nowMs) + ms
}

function expire({ values, nowMs, args }: Context, unitMs: number, isAt: boolean): Reply {
  const [key, text, ...options] = args
  const names = new Set(options.map((option) => option.toUpperCase()))
  for (const name of names) {
    if (!['NX', 'XX', 'GT', 'LT'].includes(name)) throw new ReplyError(`ERR Unsupported option ${name}`)
  }
  if ((names.has('NX') && names.size > 1) || (names.has('GT') && names.has('LT'))) {
    throw new ReplyError('ERR NX and XX, GT or LT options at the same time are not compatible')
  }
  const atMs = integer(text) * unitMs + (isAt ? 0 : Math.floor(nowMs))
  if (!values.has(key)) return 0
  const currentMs = values.expiresAtMs(key)
  if (names.has('NX') && currentMs !== null) return 0
  if (names.has('XX') && currentMs === null) return 0
  if (names.has('GT') && (currentMs === null || atMs <= currentMs)) return 0
  if (names.has('LT') && currentMs !== null && atMs >= currentMs) return 0
  return values.expire(key, atMs) ? 1 : 0
}

function timeLeft({ values, nowMs, args }: Context, unitMs: number): Reply {
  if (!values.has(args[0])) return -2
  const atMs = values.expiresAtMs(args[0])
  if (atMs === null) return -1
  const leftMs = atMs - Math.floor(nowMs)
  return unitMs === 1 ? leftMs : Math.floor((leftMs + 500) / unitMs)
}

function addTo({ values, args }: Context, by: bigint): Reply {
  const before = values.text(args[0])
  const after = sum(before === null ? 0n : exactInteger(before), by)
  values.setText(args[0], String(after))
  return Number(after)
}

function hashFields({ values, args }: Context): Reply {
  const [key, ...pairs] = args
  if (pairs.length % 2 !== 0) throw new ReplyError("ERR wrong number of arguments for 'hset' command")
  const fields = values.hashToWrite(key)
  let added = 0
  for (let at = 0; at < pairs.length; at += 2) {
    if (!fields.has(pairs[at])) added++
    fields.set(pairs[at], pairs[at + 1])
  }
  return added
}

function hashIncrement({ values, args }: Context): Reply {
  const by = exactInteger(args[2])
  const fields = values.hash(args[0])
  const text = fields?.get(args[1])
  if (text !== undefined && !/^-?(0|[1-9]\d*)$/.test(text)) throw new ReplyError('ERR hash value is not an integer')
  const after = sum(text === undefined ? 0n : exactInteger(text), by)
  values.hashToWrite(args[0]).set(args[1], String(after))
  return Number(after)
}

function addSorted({ values, args }: Context): Reply {
  const [key, ...rest] = args
  const options = new Set<string>()
  while (rest.length > 0 && ['NX', 'XX', 'GT', 'LT', 'CH', 'INCR'].includes(rest[0].toUpperCase())) {
    options.add((rest.shift() as string).toUpperCase())
  }
  if (options.has('INCR')) throw new ReplyError('ERR ZADD INCR is not simulated')
  if (rest.length === 0 || rest.length % 2 !== 0) throw new ReplyError(SYNTAX)
  if (options.has('NX') && options.has('XX')) {
    throw new ReplyError('ERR XX and NX options at the same time are not compatible')
  }
  if ((options.has('GT') && options.has('LT')) || (options.has('NX') && (options.has('GT') || options.has('LT')))) {
    throw new ReplyError('ERR GT, LT, and/or NX options at the same time are not compatible')
  }
  const pairs: [score: number, member: string][] = []
  for (let at = 0; at < rest.length; at += 2) pairs.push([float(rest[at]), rest[at + 1]])
  if (values.sorted(key) === null && options.has('XX')) return 0
  const scores = values.sortedToWrite(key)
  let added = 0
  let changed = 0
  for (const [score, member] of pairs) {
    const before = scores.get(member)
    if (before === undefined) {
      if (options.has('XX')) continue
      added++
      scores.set(member, score)
    } else if (!options.has('NX') && before !== score) {
      if ((options.has('GT') && score <= before) || (options.has('LT') && score >= before)) continue
      changed++
      scores.set(member, score)
    }
  }
  values.dropEmpty(key, scores.size)
  return options.has('CH') ? added + changed : added
}

/** By score, then by the bytes of the member. */
function inOrder(scores: ReadonlyMap<string, number> | null): [member: string, score: number][] {
  return [...(scores ?? [])].sort(([one, low], [other, high]) => low - high || (one < other ? -1 : 1))
}

const NOT_A_SCORE = 'ERR min or max is not a float'

function within(least: string, most: string): (score: number) => boolean {
  const low = float(least.replace(/^\(/, ''), NOT_A_SCORE)
  const high = float(most.replace(/^\(/, ''), NOT_A_SCORE)
  return (score) =>
    (least.startsWith('(') ? score > low : score >= low) && (most.startsWith('(') ? score < high : score <= high)
}

function scored(pairs: readonly (readonly [string, number])[], withScores: boolean): Reply {
  return withScores
    ? pairs.flatMap(([member, score]) => [member, formatNumber(score, 17)])
    : pairs.map(([member]) => member)
}

function rangeOfSorted({ values, args }: Context): Reply {
  const [key, first, last, ...options] = args
  const names = options.map((option) => option.toUpperCase())
  if (names.some((name) => name !== 'WITHSCORES' && name !== 'REV')) throw new ReplyError(SYNTAX)
  const pairs = inOrder(values.sorted(key))
  if (names.includes('REV')) pairs.reverse()
  const place = (text: string): number =>
    integer(text) < 0 ? Math.max(0, pairs.length + integer(text)) : integer(text)
  const end = integer(last) < 0 ? pairs.length + integer(last) : integer(last)
  return scored(pairs.slice(place(first), end + 1), names.includes('WITHSCORES'))
}

function rangeByScore({ values, args }: Context): Reply {
  const [key, least, most, ...options] = args
  const isWithin = within(least, most)
  const names = options.map((option) => option.toUpperCase())
  let found = inOrder(values.sorted(key)).filter(([, score]) => isWithin(score))
  const limitAt = names.indexOf('LIMIT')
  if (limitAt >= 0) {
    const [offset, count] = [integer(options[limitAt + 1]), integer(options[limitAt + 2])]
    found = found.slice(offset, count < 0 ? undefined : offset + count)
  }
  return scored(found, names.includes('WITHSCORES'))
}

function remove(
  { values, args }: Context,
  find: (key: string) => { delete(item: string): boolean; readonly size: number } | null,
): Reply {
  const [key, ...items] = args
  const found = find(key)
  if (found === null) return 0
  const removed = items.filter((item) => found.delete(item)).length
  values.dropEmpty(key, found.size)
  return removed
}

const COMMANDS = new Map<string, Command>(
  Object.entries({
    PING: atLeast(0, ({ args }) => args[0] ?? new Status('PONG')),
    TIME: exactly(0, ({ nowMs }) => {
      const seconds = Math.floor(nowMs / 1000)
      return [String(seconds), String(Math.floor((nowMs - seconds * 1000) * 1000))]
    }),
    DBSIZE: exactly(0, ({ values }) => values.size),
    FLUSHALL: atLeast(0, ({ values }) => (values.clear(), OK)),
    EXISTS: atLeast(1, ({ values, args }) => args.filter((key) => values.has(key)).length),
    TYPE: exactly(1, ({ values, args }) => new Status(values.typeOf(args[0]))),
    DEL: atLeast(1, ({ values, args }) => args.filter((key) => values.delete(key)).length),
    UNLINK: atLeast(1, ({ values, args }) => args.filter((key) => values.delete(key)).length),
    EXPIRE: atLeast(2, (context) => expire(context, 1000, false)),
    PEXPIRE: atLeast(2, (context) => expire(context, 1, false)),
    EXPIREAT: atLeast(2, (context) => expire(context, 1000, true)),
    PEXPIREAT: atLeast(2, (context) => expire(context, 1, true)),
    TTL: exactly(1, (context) => timeLeft(context, 1000)),
    PTTL: exactly(1, (context) => timeLeft(context, 1)),
    PERSIST: exactly(1, ({ values, args }) => {
      return values.expiresAtMs(args[0]) !== null && values.expire(args[0], null) ? 1 : 0
    }),
    GET: exactly(1, ({ values, args }) => values.text(args[0])),
    SET: atLeast(2, setCommand),
    SETEX: exactly(3, ({ values, nowMs, args }) => {
      return (values.setText(args[0], args[2], expiryOf('setex', 'EX', args[1], nowMs)), OK)
    }),
    PSETEX: exactly(3, ({ values, nowMs, args }) => {
      return (values.setText(args[0], args[2], expiryOf('psetex', 'PX', args[1], nowMs)), OK)
    }),
    GETDEL: exactly(1, ({ values, args }) => {
      const text = values.text(args[0])
      values.delete(args[0])
      return text
    }),
    MGET: atLeast(1, ({ values, args }) => {
      return args.map((key) => (values.typeOf(key) === 'string' ? values.text(key) : null))
    }),
    INCR: exactly(1, (context) => addTo(context, 1n)),
    INCRBY: exactly(2, (context) => addTo(context, exactInteger(context.args[1]))),
    DECR: exactly(1, (context) => addTo(context, -1n)),
    DECRBY: exactly(2, (context) => addTo(context, -exactInteger(context.args[1]))),
    HGET: exactly(2, ({ values, args }) => values.hash(args[0])?.get(args[1]) ?? null),
    HSET: atLeast(3, hashFields),
    HMSET: atLeast(3, (context) => (hashFields(context), OK)),
    HSETNX: exactly(3, ({ values, args }) => {
      if (values.hash(args[0])?.has(args[1]) === true) return 0
      values.hashToWrite(args[0]).set(args[1], args[2])
      return 1
    }),
    HMGET: atLeast(2, ({ values, args: [key, ...fields] }) => {
      const found = values.hash(key)
      return fields.map((field) => found?.get(field) ?? null)
    }),
    HGETALL: exactly(1, ({ values, args }) => [...(values.hash(args[0]) ?? [])].flat()),
    HKEYS: exactly(1, ({ values, args }) => [...(values.hash(args[0])?.keys() ?? [])]),
    HVALS: exactly(1, ({ values, args }) => [...(values.hash(args[0])?.values() ?? [])]),
    HLEN: exactly(1, ({ values, args }) => values.hash(args[0])?.size ?? 0),
    HEXISTS: exactly(2, ({ values, args }) => (values.hash(args[0])?.has(args[1]) === true ? 1 : 0)),
    HDEL: atLeast(2, (context) => remove(context, (key) => context.values.hash(key))),
    HINCRBY: exactly(3, hashIncrement),
    SADD: atLeast(2, ({ values, args: [key, ...members] }) => {
      const set = values.setToWrite(key)
      const before = set.size
      for (const member of members) set.add(member)
      return set.size - before
    }),
    SREM: atLeast(2, (context) => remove(context, (key) => context.values.set(key))),
    SMEMBERS: exactly(1, ({ values, args }) => [...(values.set(args[0]) ?? [])]),
    SISMEMBER: exactly(2, ({ values, args }) => (values.set(args[0])?.has(args[1]) === true ? 1 : 0)),
    SCARD: exactly(1, ({ values, args }) => values.set(args[0])?.size ?? 0),
    ZADD: atLeast(3, addSorted),
    ZREM: atLeast(2, (context) => remove(context, (key) => context.values.sorted(key))),
    ZCARD: exactly(1, ({ values, args }) => values.sorted(args[0])?.size ?? 0),
    ZSCORE: exactly(2, ({ values, args }) => {
      const score = values.sorted(args[0])?.get(args[1])
      return score === undefined ? null : formatNumber(score, 17)
    }),
    ZCOUNT: exactly(3, ({ values, args }) => {
      const isWithin = within(args[1], args[2])
      return [...(values.sorted(args[0])?.values() ?? [])].filter(isWithin).length
    }),
    ZRANGE: atLeast(3, rangeOfSorted),
    ZRANGEBYSCORE: atLeast(3, rangeByScore),
    ZREMRANGEBYSCORE: exactly(3, ({ values, args }) => {
      const isWithin = within(args[1], args[2])
      const scores = values.sorted(args[0])
      const gone = [...(scores ?? [])].filter(([, score]) => isWithin(score))
      for (const [member] of gone) scores?.delete(member)
      if (scores !== null) values.dropEmpty(args[0], scores.size)
      return gone.length
    }),
  }),
)
