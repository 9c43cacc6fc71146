import { Redis } from 'ioredis'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { LuaMachine } from '../simulator/lua.ts'
import { Random } from '../simulator/random.ts'
import { RedisServer } from '../simulator/redis-server.ts'
import { ReplyError, Status } from '../simulator/reply.ts'
import { World } from '../simulator/world.ts'
import { type RedisServer as RealServer, startRedis } from '../support/redis.ts'

let real: RealServer
let client: Redis
let lua: LuaMachine

beforeAll(async () => {
  real = await startRedis()
  client = new Redis(real.port, '127.0.0.1', { protocol: 2 })
  lua = await LuaMachine.open()
})

afterAll(() => client.disconnect())

const KEYS = ['a', 'b', 'c']
const FIELDS = ['f', 'g', 'h']
const TEXTS = ['', 'x', '0', '1', '-7', '007', '12.5', '9007199254740991', 'two words', '1e3']
const NUMBERS = ['0', '1', '-3', '41', '2.5', 'x', '']
const SCORES = ['0', '1', '-1.5', '3', '3', 'inf', '-inf', '1e10', 'x']
const BOUNDS = ['-inf', '+inf', '0', '(1', '3', '(3', 'x']

/** A command that may have wrong arguments. */
function aCommand(random: Random): string[] {
  const key = random.pick(KEYS)
  const field = random.pick(FIELDS)
  const text = random.pick(TEXTS)
  const number = random.pick(NUMBERS)
  const expiry = random.pick(['100', '5000', '0', '-1', 'x'])
  return random.pick<string[]>([
    ['GET', key],
    ['SET', key, text],
    ['SET', key, text, random.pick(['NX', 'XX', 'GET', 'KEEPTTL', 'what'])],
    ['SET', key, text, random.pick(['EX', 'PX']), random.pick(['100000', '500000', '0', 'x'])],
    ['SETEX', key, expiry, text],
    ['GETDEL', key],
    ['MGET', ...KEYS],
    ['DEL', key, random.pick(KEYS)],
    ['EXISTS', key, key],
    ['TYPE', key],
    ['EXPIRE', key, expiry, ...random.pick([[], [], ['NX'], ['XX'], ['what']])],
    // Of its own length, since the two servers are some ms apart.
    ['EXPIRE', key, String(1000 * random.int(6, 900)), random.pick(['GT', 'LT'])],
    ['PEXPIRE', key, random.pick(['100000', '500000'])],
    ['TTL', key],
    ['PTTL', key],
    ['PERSIST', key],
    ['INCR', key],
    ['INCRBY', key, number],
    ['DECRBY', key, number],
    ['HSET', key, field, text],
    ['HSET', key, field, text, 'other'],
    ['HSETNX', key, field, text],
    ['HGET', key, field],
    ['HMGET', key, ...FIELDS],
    ['HGETALL', key],
    ['HDEL', key, field, random.pick(FIELDS)],
    ['HINCRBY', key, field, number],
    ['HLEN', key],
    ['HEXISTS', key, field],
    ['HKEYS', key],
    ['HVALS', key],
    ['SADD', key, text, field],
    ['SREM', key, text],
    ['SMEMBERS', key],
    ['SISMEMBER', key, text],
    ['SCARD', key],
    [
      'ZADD',
      key,
      ...random.pick([[], [], ['NX'], ['XX'], ['GT'], ['LT'], ['CH'], ['NX', 'XX'], ['GT', 'CH']]),
      random.pick(SCORES),
      field,
    ],
    ['ZREM', key, field],
    ['ZSCORE', key, field],
    ['ZCARD', key],
    ['ZCOUNT', key, random.pick(BOUNDS), random.pick(BOUNDS)],
    [
      'ZRANGE',
      key,
      random.pick(['0', '1', '-2', '5']),
      random.pick(['0', '-1', '-9', '1']),
      ...random.pick([[], ['WITHSCORES'], ['REV']]),
    ],
    [
      'ZRANGEBYSCORE',
      key,
      random.pick(BOUNDS),
      random.pick(BOUNDS),
      ...random.pick([[], ['WITHSCORES'], ['LIMIT', '1', '2']]),
    ],
    ['ZREMRANGEBYSCORE', key, random.pick(BOUNDS), random.pick(BOUNDS)],
    ['DBSIZE'],
    ['GET'],
  ])
}

/** The same form for both servers: an error becomes its first word. */
function plain(reply: unknown): unknown {
  if (reply instanceof Status) return reply.text
  if (reply instanceof ReplyError || reply instanceof Error) return `error ${reply.message.split(' ', 1)[0]}`
  if (Array.isArray(reply)) return reply.map(plain)
  return reply
}

function comparable(words: readonly string[], reply: unknown): unknown {
  const plainReply = plain(reply)
  const name = words[0].toUpperCase()
  // Sets have no order, and time goes on.
  if (Array.isArray(plainReply) && ['SMEMBERS', 'HKEYS', 'HVALS', 'HGETALL'].includes(name))
    return plainReply.map(String).toSorted((one, other) => (one < other ? -1 : 1))
  if (typeof plainReply === 'number' && plainReply > 0 && (name === 'TTL' || name === 'PTTL')) {
    return Math.round(plainReply / (name === 'TTL' ? 50 : 50_000))
  }
  return plainReply
}

async function ask(words: readonly string[]): Promise<unknown> {
  try {
    return await client.call(words[0], ...words.slice(1))
  } catch (error) {
    return error
  }
}

function aDouble(): RedisServer {
  return new RedisServer(new World(Date.now()), lua)
}

/** Runs the given commands and returns all replies; errors become their first word. */
const SCRIPT = `
local replies = {}
for at = 1, #ARGV do
  local reply = redis.pcall(unpack(cjson.decode(ARGV[at])))
  if type(reply) == 'table' and reply.err then reply = 'error ' .. string.match(reply.err, '^%S+') end
  if type(reply) == 'table' and reply.ok then reply = reply.ok end
  replies[at] = reply
end
return replies
`

it('answers random commands like Redis', async () => {
  for (let seed = 1; seed <= 40; seed++) {
    const random = new Random(seed)
    const double = aDouble()
    await client.flushall()
    const done: string[] = []
    for (let count = 0; count < 60; count++) {
      const words = aCommand(random)
      done.push(words.join(' '))
      const [was, is] = [comparable(words, await ask(words)), comparable(words, double.ask(...words))]
      expect(is, `seed ${seed}: ${done.join('\n')}`).toEqual(was)
    }
  }
})

it('answers the same commands inside a script like Redis', async () => {
  for (let seed = 101; seed <= 140; seed++) {
    const random = new Random(seed)
    const double = aDouble()
    await client.flushall()
    for (let count = 0; count < 6; count++) {
      const commands = Array.from({ length: 10 }, () => aCommand(random))
      const words = ['EVAL', SCRIPT, '0', ...commands.map((command) => JSON.stringify(command))]
      const was = plain(await ask(words)) as unknown[]
      const is = plain(double.ask(...words)) as unknown[]
      const told = commands.map((command) => command.join(' ')).join('\n')
      const [before, after] = [was, is].map((replies) => replies.map((reply, at) => comparable(commands[at], reply)))
      expect(after, `seed ${seed}:\n${told}`).toEqual(before)
    }
  }
})

it.each([
  ['numbers are cut to whole ones', 'return { 3.99, -3.99, 1e15, 0.5 }'],
  ['nil ends a list', 'return { 1, nil, 3 }'],
  ['booleans', 'return { true, false, 1 }'],
  ['an error of its own', "return redis.error_reply('NOT this')"],
  ['a status of its own', "return redis.status_reply('FINE')"],
  ['an uncaught error of a command', "redis.call('SET', 'a', 'x') return redis.call('INCR', 'a')"],
  ['a caught error of a command', "redis.call('SET', 'a', 'x') return type(redis.pcall('INCR', 'a').err)"],
  [
    'numbers as arguments',
    "redis.call('SET', 'a', 1.5) redis.call('SET', 'b', 1e20) redis.call('SET', 'c', 2^53) return redis.call('MGET', 'a', 'b', 'c')",
  ],
  [
    'small numbers as arguments',
    "redis.call('SET', 'a', 0.1) redis.call('SET', 'b', -7) redis.call('SET', 'c', 1e-7) return redis.call('MGET', 'a', 'b', 'c')",
  ],
  ['numbers as text', "return { tostring(1e15), tostring(0.1), 3 .. '', 2^53 .. '', tostring(1/3) }"],
  ['formats', "return { string.format('%d', 3.7), string.format('%.3f', 2), string.format('%s', 12) }"],
  ['a missing key is false', "return { tostring(redis.call('GET', 'none')), type(redis.call('HGET', 'none', 'f')) }"],
  ['a global that is not there', 'return missing'],
  ['a global that is made', 'made = 1'],
  ['JSON of numbers', 'return cjson.encode({ 1, 1.5, 1e14, 123456789012345678, 0.1, -0.25 })'],
  ['JSON of nothing', 'return cjson.encode({})'],
  [
    'JSON of lists and members',
    'local read = cjson.decode(ARGV[1]) return { read.a[1], read.a[2].b, tostring(read.c), tostring(read.d == cjson.null), #read.e }',
  ],
  ['JSON there and back', 'return cjson.encode(cjson.decode(ARGV[2]))'],
  ['a syntax error', 'return ('],
  ['what is passed', 'return { KEYS[1], ARGV[1], #KEYS, #ARGV }'],
])('a script returns the same as in Redis: %s', async (_what, script) => {
  const args = ['{"a":[1,{"b":"text"}],"c":true,"d":null,"e":[]}', '[1,"two",[3.25,{"four":4}],null,false]']
  const words = ['EVAL', script, '1', 'key', ...args]
  await client.flushall()
  expect(plain(aDouble().ask(...words))).toEqual(plain(await ask(words)))
})

it('expires keys by its own clock', () => {
  const world = new World(Date.UTC(2026, 0, 1))
  const double = new RedisServer(world, lua)
  double.ask('SET', 'a', '1', 'PX', '1000')
  world.nowMs = 999
  expect([double.ask('GET', 'a'), double.ask('PTTL', 'a')]).toEqual(['1', 1])
  world.nowMs = 1000
  expect([double.ask('GET', 'a'), double.ask('PTTL', 'a')]).toEqual([null, -2])
})
