import { ReplyError } from 'ioredis'
import { describe, expect, it } from 'vitest'
import { awayFault, connectionFault, greetingFault, refusalReason } from '../../../src/redis/fault.ts'

const reply = (message: string): Error => new (ReplyError as new (message: string) => Error)(message)

describe('an error of Redis', () => {
  it.each([
    ['LOADING Redis is loading the dataset in memory', 'LOADING'],
    ['MASTERDOWN Link with MASTER is down', 'MASTERDOWN'],
    ["READONLY You can't write against a read only replica.", 'READONLY'],
    ['CLUSTERDOWN Hash slot not served', 'CLUSTERDOWN'],
    ['NOAUTH Authentication required.', 'NOAUTH'],
    ['WRONGPASS invalid username-password pair or user is disabled.', 'WRONGPASS'],
    ["NOPERM User node has no permissions to run the 'evalsha' command", 'NOPERM'],
    ["OOM command not allowed when used memory > 'maxmemory'. script: abc, on @user_script:1.", 'OOM'],
    ['ERR Error running script (call to f_abc): @user_script:1: -OOM command not allowed when used memory', 'OOM'],
    ["ERR Error running script (call to f_abc): @user_script: 7: -READONLY You can't write", 'READONLY'],
    [
      "ERR The user executing the script can't run this command or subcommand script: 4f93, on @user_script:1.",
      'NOPERM',
    ],
  ])('%s means that it is away', (message, kind) => {
    expect(awayFault(reply(message))).toMatchObject({ kind, reason: expect.stringContaining(`(${kind})`) as string })
  })

  it.each([
    "ERR unknown command 'evalsha', with args beginning with: '4f93' '1' ",
    'ERR unknown command `EVALSHA`, with args beginning with: `4f93`, ',
  ])('%s means that it is away, because a command is missing', (message) => {
    expect(awayFault(reply(message))?.reason).toBe('it does not know the command EVALSHA')
  })

  it.each([
    'WRONGTYPE Operation against a key holding the wrong kind of value',
    'ERR value is not an integer or out of range',
    'NOSCRIPT No matching script. Please use EVAL.',
    "CROSSSLOT Keys in request don't hash to the same slot",
    'constructor of something',
    'ERR Error running script (call to f_abc): @user_script:1: -WRONGTYPE Operation against a key',
  ])('%s is a bug in sluice', (message) => {
    expect(awayFault(reply(message))).toBeNull()
  })

  it.each([new TypeError('x is not a function'), new RangeError('too long'), 'thrown text', undefined])(
    'of our own code is a bug in sluice: %s',
    (error) => {
      expect(awayFault(error)).toBeNull()
    },
  )

  it('of the connection is described in words', () => {
    const refused = Object.assign(new Error('connect ECONNREFUSED 10.0.0.1:6379'), { code: 'ECONNREFUSED' })
    expect(awayFault(refused)).toEqual({ kind: 'connection', reason: 'connection refused' })
    expect(connectionFault(Object.assign(new Error('x'), { code: 'EPIPE' })).reason).toBe('EPIPE')
    expect(awayFault(new Error('Connection is closed.'))?.reason).toBe('connection lost')
    expect(connectionFault(new Error('x'.repeat(500))).reason).toHaveLength(120)
  })
})

describe('a fault of one hash slot of a cluster', () => {
  it.each([
    reply('TRYAGAIN Multiple keys request during rehashing of slot'),
    reply('CLUSTERDOWN Hash slot not served'),
    reply('MOVED 3999 127.0.0.1:6381'),
    reply('ASK 3999 127.0.0.1:6381'),
    new Error(
      'Too many Cluster redirections. Last error: ReplyError: TRYAGAIN Multiple keys request during rehashing of slot',
    ),
  ])('is %s', (error) => {
    expect(awayFault(error)?.isOfSlot).toBe(true)
  })

  it.each([reply('LOADING Redis is loading'), reply('READONLY x'), new Error('Connection is closed.')])(
    'is not %s',
    (error) => {
      expect(awayFault(error)).not.toBeNull()
      expect(awayFault(error)?.isOfSlot).toBeUndefined()
    },
  )
})

describe('what Redis says to a connection that it closes at once', () => {
  const lost = 'Command queue state error. If you can reproduce this, please report it. Last error: '
  it.each([
    [reply('ERR max number of clients reached'), 'ERR max number of clients reached (maxclients)'],
    [new Error(`${lost}ERR max number of clients reached`), 'ERR max number of clients reached (maxclients)'],
    [
      reply('DENIED Redis is running in protected mode because protected mode is enabled'),
      'it takes connections from its own machine only (protected mode) (DENIED)',
    ],
  ])('is the reason: %s', (error, reason) => {
    expect(greetingFault(error)?.reason).toBe(reason)
    expect(awayFault(error)?.reason).toBe(reason)
    expect(connectionFault(error).reason).toBe(reason)
  })
})

describe('why a call was refused', () => {
  it.each([
    [
      "ERR unknown command 'evalsha', with args beginning with: 'abc' '1' 'ak_secret' ",
      "ERR unknown command 'evalsha'",
    ],
    ['WRONGTYPE Operation against a key script: c00cc6, on @user_script:1.', 'WRONGTYPE Operation against a key'],
    ['ERR upstream failure', 'ERR upstream failure'],
    ['Unknown RESP type 72 "H". Please report this.', 'Unknown RESP type 72 "H"'],
  ])('%s', (message, reason) => {
    expect(refusalReason(reply(message))).toBe(reason)
  })
})
