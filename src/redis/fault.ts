// Why Redis gives no answer, in words for operators. A lost connection and error replies such as LOADING or NOAUTH
// mean that Redis is away; every other error reply is a bug in sluice and is thrown.

import { errorCode, errorMessage } from '../lib/errors.ts'
import { BadReply } from './reply.ts'

export interface RedisFault {
  /** An outage logs each kind once. */
  readonly kind: string
  /** Without passwords and anything that a client sent. */
  readonly reason: string
  /** A cluster does not serve one hash slot now. It has not run the call. */
  readonly isOfSlot?: true
}

/** Redis answered something else than it was asked, or more than it was asked. */
export const BAD_REPLY = 'reply'
export const SURPLUS: RedisFault = { kind: BAD_REPLY, reason: 'it sent an answer that nothing had asked for' }

/** By the reply's first word. */
const AWAY_REPLIES: Readonly<Record<string, string>> = {
  ASK: 'it is part of a cluster, which is being resharded',
  BUSY: 'a script keeps it busy',
  CLUSTERDOWN: 'the cluster is down',
  DENIED: 'it takes connections from its own machine only (protected mode)',
  LOADING: 'it is loading its data',
  MASTERDOWN: 'it is a replica whose master is down',
  MISCONF: 'it cannot save its data, and takes no writes',
  MOVED: 'it has become part of a cluster',
  NOAUTH: 'it wants a password',
  NOPERM: 'its user may not run the commands that are needed',
  NOREPLICAS: 'it has too few replicas to take writes',
  OOM: 'its memory is full (maxmemory)',
  READONLY: 'it is a replica, and takes no writes',
  TRYAGAIN: 'the cluster is being resharded',
  UNBLOCKED: 'it has changed its role',
  WRONGPASS: 'it refuses the user name or the password',
}

/** Of one hash slot of a cluster. */
const SLOT_REPLIES: ReadonlySet<string> = new Set(['ASK', 'CLUSTERDOWN', 'MOVED', 'TRYAGAIN'])

/** The client has followed the cluster, and asked again, as often as it may. */
const TOO_MANY = /^Too many Cluster redirections\. Last error: ReplyError: ([A-Z]+) /

/** What Redis says to a new connection that it closes at once, as its answer to the first call or before there is one. */
const GREETING = /(?:^|Last error: (?:ReplyError: )?)(?:(ERR max number of clients reached)|DENIED )/

/** The reply for a command that was renamed or disabled. Redis before 6.2 quotes the name with backticks. */
const UNKNOWN_COMMAND = /^ERR unknown command [`']([a-z]+)/i

/** Redis 7.0, where an ACL forbids the user a command or key of a script. */
const DENIED_IN_SCRIPT = /^ERR The user executing the script/

/** Redis before 7 puts this in front of a script's error reply. */
const REPLY_IN_SCRIPT = /^ERR Error running script.*: -?([A-Z]+) /

const CONNECTION_CODES: Readonly<Record<string, string>> = {
  ECONNREFUSED: 'connection refused',
  ECONNRESET: 'connection reset',
  ENOTFOUND: 'the name of its host is not known',
  ETIMEDOUT: 'no connection in time',
}

const MAX_REASON_CHARACTERS = 120

/**
 * The part of an error reply after its reason: the arguments, which hold app ids, and the position in a script. And what the
 * library asks of whoever reads that it could not read an answer, which mostly is none of Redis.
 */
const REPLY_DETAILS = /,? (?:with args beginning with|script): [^]*$|\. Please report this\.$/

/** null: the error does not mean that Redis is away. It is a bug in sluice. */
export function awayFault(error: unknown): RedisFault | null {
  if (isErrorReply(error)) return greetingFault(error) ?? awayReply(error)
  if (error instanceof BadReply) return connectionFault(error)
  const isBug = !(error instanceof Error) || BUGS.some((kind) => error instanceof kind)
  return isBug ? null : connectionFault(error)
}

/** Errors that ioredis never throws for a lost connection. */
const BUGS = [TypeError, RangeError, ReferenceError, SyntaxError]

function awayReply(error: unknown): RedisFault | null {
  if (!isErrorReply(error)) return null
  const unknown = UNKNOWN_COMMAND.exec(error.message)?.[1].toUpperCase()
  if (unknown !== undefined) return { kind: 'unknown command', reason: `it does not know the command ${unknown}` }
  const inScript = REPLY_IN_SCRIPT.exec(error.message)
  let code = inScript === null ? error.message.split(' ', 1)[0] : inScript[1]
  if (DENIED_IN_SCRIPT.test(error.message)) code = 'NOPERM'
  return codeFault(code)
}

/** null: it is no greeting. */
export function greetingFault(error: unknown): RedisFault | null {
  const found = GREETING.exec(errorMessage(error))
  if (found === null) return null
  return found[1] === undefined ? codeFault('DENIED') : { kind: 'maxclients', reason: `${found[1]} (maxclients)` }
}

function codeFault(code: string): RedisFault | null {
  if (!Object.hasOwn(AWAY_REPLIES, code)) return null
  const fault = { kind: code, reason: `${AWAY_REPLIES[code]} (${code})` }
  return SLOT_REPLIES.has(code) ? { ...fault, isOfSlot: true } : fault
}

export function isErrorReply(error: unknown): error is Error {
  return error instanceof Error && error.name === 'ReplyError'
}

/** Why Redis refused a call, without the call's arguments. */
export function refusalReason(error: unknown): string {
  return errorMessage(error).replace(REPLY_DETAILS, '').slice(0, MAX_REASON_CHARACTERS)
}

/** Why a connection failed. */
export function connectionFault(error: unknown): RedisFault {
  const reply = greetingFault(error) ?? awayReply(error)
  if (reply !== null) return reply
  if (error instanceof BadReply) return { kind: BAD_REPLY, reason: error.message }
  const slot = codeFault(TOO_MANY.exec(errorMessage(error))?.[1] ?? '')
  if (slot !== null) return slot
  const code = errorCode(error)
  if (code !== undefined) return { kind: 'connection', reason: CONNECTION_CODES[code] ?? code }
  const isClosed = errorMessage(error) === 'Connection is closed.'
  return { kind: 'connection', reason: isClosed ? 'connection lost' : refusalReason(error) }
}
