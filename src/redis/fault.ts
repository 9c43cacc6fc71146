// Why Redis gives no answer, in words for operators. Replies that say "not now" or "not you" mean that Redis is away,
// as a lost connection does; every other error reply is a mistake of ours, and is left to throw.

import { errorCode, errorMessage } from '../lib/errors.ts'

export interface RedisFault {
  /** Tells one kind of fault from another, so that a log names each once. */
  readonly kind: string
  /** Holds no password and nothing that a client sent. */
  readonly reason: string
}

/** By the first word of the reply. */
const AWAY_REPLIES: Readonly<Record<string, string>> = {
  ASK: 'it is part of a cluster, which is being resharded',
  BUSY: 'a script keeps it busy',
  CLUSTERDOWN: 'the cluster is down',
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

/** A command that was renamed or taken away; by Redis before 6.2 it stands between backticks. */
const UNKNOWN_COMMAND = /^ERR unknown command [`']([a-z]+)/i

/** Redis 7.0: what a script may not do, for its user. */
const DENIED_IN_SCRIPT = /^ERR The user executing the script/

/** Where a script meets such a reply, Redis before 7 puts its own words in front of it. */
const REPLY_IN_SCRIPT = /^ERR Error running script.*: -?([A-Z]+) /

const CONNECTION_CODES: Readonly<Record<string, string>> = {
  ECONNREFUSED: 'connection refused',
  ECONNRESET: 'connection reset',
  ENOTFOUND: 'the name of its host is not known',
  ETIMEDOUT: 'no connection in time',
}

const MAX_REASON_CHARACTERS = 120

/** What follows the reason in an error reply: what was sent, keys of apps among it, and where a script stood. */
const REPLY_DETAILS = /,? (?:with args beginning with|script): [^]*$/

/** Whether a call that failed so found Redis away; null: no, it is a mistake of ours. */
export function awayFault(error: unknown): RedisFault | null {
  if (isReply(error)) return awayReply(error)
  const isOurs = !(error instanceof Error) || MISTAKES.some((kind) => error instanceof kind)
  return isOurs ? null : connectionFault(error)
}

/** What a client never throws for a connection that is lost. */
const MISTAKES = [TypeError, RangeError, ReferenceError, SyntaxError]

function awayReply(error: unknown): RedisFault | null {
  if (!isReply(error)) return null
  const unknown = UNKNOWN_COMMAND.exec(error.message)?.[1].toUpperCase()
  if (unknown !== undefined) return { kind: 'unknown command', reason: `it does not know the command ${unknown}` }
  const inScript = REPLY_IN_SCRIPT.exec(error.message)
  let code = inScript === null ? error.message.split(' ', 1)[0] : inScript[1]
  if (DENIED_IN_SCRIPT.test(error.message)) code = 'NOPERM'
  return Object.hasOwn(AWAY_REPLIES, code) ? { kind: code, reason: `${AWAY_REPLIES[code]} (${code})` } : null
}

export function isReply(error: unknown): error is Error {
  return error instanceof Error && error.name === 'ReplyError'
}

/** Why Redis refused a call, without what was sent. */
export function refusalReason(error: unknown): string {
  return errorMessage(error).replace(REPLY_DETAILS, '').slice(0, MAX_REASON_CHARACTERS)
}

/** What stood in the way of a connection. */
export function connectionFault(error: unknown): RedisFault {
  const reply = awayReply(error)
  if (reply !== null) return reply
  const code = errorCode(error)
  if (code !== undefined) return { kind: 'connection', reason: CONNECTION_CODES[code] ?? code }
  const isClosed = errorMessage(error) === 'Connection is closed.'
  return { kind: 'connection', reason: isClosed ? 'connection lost' : refusalReason(error) }
}
