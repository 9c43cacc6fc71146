// Why the service could not take a request: each 503 has one of these reasons. They are for the people who run the
// service; answers do not name it. One table for metrics, log, console and commands; docs/runbooks.md says more of each.

/** What happened, what clients notice, what to do. */
export interface OverloadAdvice {
  readonly happened: string
  readonly clients: string
  readonly todo: string
}

const TRY_AGAIN = 'clients keep their batches and send them again after 1 to 5 s'

/** Where it says nothing of clients, they TRY_AGAIN. */
type Table = Readonly<Record<string, Omit<OverloadAdvice, 'clients'> & Partial<OverloadAdvice>>>

const BEFORE_THE_QUEUE = {
  ring_full: {
    happened: 'the memory for bodies (SLUICE_RING_MB) is full: more arrive than are decoded and stored',
    todo: 'see which stage is slow; if it is none, add nodes or CPU; for short peaks raise SLUICE_RING_MB',
  },
  evicted: {
    happened:
      'a body that arrived in pieces gave way to others: those that are half here fill their quarter of SLUICE_RING_MB',
    todo: 'let the proxy in front buffer requests, or raise SLUICE_RING_MB',
  },
  inflate_busy: {
    happened: 'too many compressed bodies wait for a decoder, or one waited for 100 ms',
    todo: 'add nodes or CPU; look for a client that sends large or oddly compressed bodies',
  },
  explain_busy: {
    happened: 'too many bad bodies wait for the one thread that says what is wrong with them',
    clients: `${TRY_AGAIN}; other requests are answered as before`,
    todo: 'find the app that sends bad bodies (sluice tail --refused) and mend its client',
  },
  fault: {
    happened: 'a bug: a part of sluice threw an error',
    todo: 'report it with the error of the log line "bug in ..." that has the same request_id',
  },
  apps_unread: {
    happened: 'this node has not read the app records yet, so that it knows no key',
    todo: 'see the part apps in /readyz?verbose: NATS has to answer once, or has lost the records (sluice apps import)',
  },
  keys_full: {
    happened: 'no more Idempotency-Keys can be remembered (SLUICE_MAX_KEYS)',
    clients: `requests with a key are refused, others are accepted; ${TRY_AGAIN}`,
    todo: 'raise SLUICE_MAX_KEYS (about 30 bytes a key, for 300 s of requests with one)',
  },
  redis_slow: {
    happened: 'Redis left a call without an answer for 0.75 s, while it answered others',
    todo: 'see the CPU, the slow log and the network of Redis (docs/redis.md)',
  },
  key_busy: {
    happened: 'an Idempotency-Key was held by other requests with it for 20 s',
    todo: 'look for a client that sends one key many times at once, and for requests that end without an answer',
  },
} as const satisfies Table

/** Reasons that the queue gives. With all but `in_doubt` the batch is certainly not stored. */
const OF_THE_QUEUE = {
  journal_full: {
    happened: 'the journal is full: it has reached SLUICE_JOURNAL_MAX_MB, or its disk has no room',
    clients: `nothing is accepted; ${TRY_AGAIN}`,
    todo: 'raise SLUICE_JOURNAL_MAX_MB, lower SLUICE_JOURNAL_KEEP_HOURS, or free the disk',
  },
  journal_error: {
    happened: 'the disk of the journal fails',
    clients: `nothing is accepted; ${TRY_AGAIN}`,
    todo: 'see the log line of the journal for the error, then the kernel log and the mount; it is tried again each second',
  },
  journal_stuck: {
    happened: 'the disk of the journal does not finish a write, and 262,144 records wait behind it',
    clients: `nothing is accepted; ${TRY_AGAIN}`,
    todo: 'see the disk (iostat, kernel log); writes continue by themselves when the disk works again',
  },
  stream_full: {
    happened: 'NATS has no room for more messages: in the stream SLUICE_EVENTS, its account or the server',
    clients: `nothing is accepted; ${TRY_AGAIN}`,
    todo: "raise the stream's max_bytes or the account's limits, or purge what all consumers have read",
  },
  stream_refused: {
    happened: 'NATS answers, but does not store the messages in the stream SLUICE_EVENTS',
    todo: 'see what it says in the log line "NATS: ...", then sluice check: sealed, too small, or another stream has its subjects',
  },
  nats_away: {
    happened: 'NATS cannot be reached or does not answer, or the stream has no leader',
    clients: `requests wait up to 2 s for it, and once it has been away for 2 s no longer; ${TRY_AGAIN}`,
    todo: 'see the log line "NATS: ..." for why, then the servers of NATS; service is back within 2 s of their return',
  },
  nats_slow: {
    happened: 'NATS stores less than arrives, and what could not be answered in time is refused at once',
    todo: 'see the disks and CPU of the NATS servers, and the size of the batches (docs/capacity.md)',
  },
  in_doubt: {
    happened: 'NATS did not acknowledge a batch within 2 s: it may be stored or not',
    clients: 'clients send it again; with an Idempotency-Key it is stored once, without one perhaps twice',
    todo: 'see whether NATS lost a server, changed its leader, or has a slow disk or network',
  },
  too_large_for_nats: {
    happened: 'a batch is larger than a message may be (max_payload of the NATS server)',
    clients: 'the same batch is refused each time that it is sent',
    todo: 'set max_payload of the NATS servers to 1 MB, their default',
  },
  spool_full: {
    happened: 'the spool on the disk of this node has no room',
    todo: 'bring NATS back, or give the spool more room',
  },
  stopping: {
    happened: 'this node stops: its queue takes no more, or a body had not arrived whole when its time was over',
    clients: `${TRY_AGAIN}, to other nodes`,
    todo: 'nothing, if the node was meant to stop',
  },
} as const satisfies Table

export type QueueReason = keyof typeof OF_THE_QUEUE
export const QUEUE_REASONS = Object.keys(OF_THE_QUEUE) as readonly QueueReason[]
export type OverloadReason = keyof typeof BEFORE_THE_QUEUE | QueueReason
const TABLE: Table = { ...BEFORE_THE_QUEUE, ...OF_THE_QUEUE }
export const OVERLOAD_REASONS = Object.keys(TABLE) as readonly OverloadReason[]

export const OVERLOAD_ADVICE = Object.fromEntries(
  Object.entries(TABLE).map(([reason, advice]) => [reason, { clients: TRY_AGAIN, ...advice }]),
) as unknown as Readonly<Record<OverloadReason, OverloadAdvice>>

/** One line for the log. */
export function adviceText(reason: OverloadReason): string {
  const { happened, clients, todo } = OVERLOAD_ADVICE[reason]
  return `${happened}; ${clients}; ${todo}`
}
