// Reads all of the stream: each message's records, its id, and what its header says that they cost.

import { IDEMPOTENCY_WINDOW_SECONDS } from '../../contract/bounds.ts'
import { COST_HEADER, parseCosts } from '../../contract/record/cost-header.ts'
import { recordsOf } from '../../contract/record/record-lines.ts'
import type { StoredRecord } from '../../contract/record/record-members.ts'
import { MINUTE_MS } from '../../lib/spans.ts'
import type { NatsAccess } from '../../nats/address.ts'
import { connectNats } from '../../nats/connection.ts'
import { EVENTS_STREAM } from '../../nats/store-names.ts'
import { readRange } from '../../queue/stream/read/stream-range.ts'
import { describeStream, ID_HEADER, SPOOL_HEADER } from '../../queue/stream/stream.ts'
import { addShare, type Verification } from './verification.ts'
import type { VerifyOptions } from './verify-journal.ts'

const MESSAGES_AHEAD = 1000
/** Where others were used up, a batch id is followed by a number (Entry.burntIds). */
const NUMBER = /\.\d+$/

interface Message {
  readonly seq: number
  readonly data: Uint8Array
  readonly headers?: { get(name: string): string } | undefined
  readonly time: Date
}

/** To the end as it is now. null, or why it cannot be read. Rejects where NATS does not answer. */
export async function verifyStream(
  nats: NatsAccess,
  found: Verification,
  options: VerifyOptions,
): Promise<string | null> {
  const connection = await connectNats(nats)
  try {
    return await readAll(connection, found, options)
  } finally {
    await connection.close()
  }
}

async function readAll(
  connection: Awaited<ReturnType<typeof connectNats>>,
  found: Verification,
  { signal, onProgress }: VerifyOptions,
): Promise<string | null> {
  const report = await describeStream(connection)
  if (report.kind === 'unreadable') return report.reason
  if (report.kind === 'absent') return `there is no stream ${EVENTS_STREAM}`
  const { firstSequence, lastSequence } = report.facts
  if (lastSequence < firstSequence) return null
  const total = lastSequence - firstSequence + 1
  const range = { from: Math.max(1, firstSequence), until: lastSequence, messagesAhead: MESSAGES_AHEAD, signal }
  for await (const message of readRange(connection, range)) {
    verifyMessage(message, found)
    onProgress({ done: message.seq - firstSequence + 1, total })
  }
  return null
}

function verifyMessage(message: Message, found: Verification): void {
  const { seq, data, headers } = message
  found.bytes += data.length
  // What settles a doubt has no records, and costs nothing.
  if (data.length === 0) return
  const records: StoredRecord[] = []
  // Batches of a spool come all at once, hours later: they go by when they were accepted.
  const isSpooled = (headers?.get(SPOOL_HEADER) ?? '') !== ''
  const times = isSpooled
    ? { storedAtMs: null, windowMs: IDEMPOTENCY_WINDOW_SECONDS * 1000 }
    : { storedAtMs: message.time.getTime() }
  for (const line of recordsOf(data)) {
    const record = found.addRecord(Buffer.from(line), { where: EVENTS_STREAM, at: seq, ...times })
    if (record === null) found.add('record', EVENTS_STREAM, seq, `${line.length} bytes of the message are no record`)
    else records.push(record)
  }
  const keyed = records.find(({ batchId }) => batchId[14] === '5')
  const id = headers?.get(ID_HEADER) ?? ''
  if (keyed !== undefined && (records.length > 1 || id.replace(NUMBER, '') !== keyed.batchId)) {
    const detail = `batch ${keyed.batchId} has a key, and is not alone in its message, or not under its id`
    addShare(found.add('repeated', EVENTS_STREAM, seq, detail), keyed.appId, keyed.events)
  }
  const wrong = costProblem(headers?.get(COST_HEADER) ?? '', records)
  if (wrong === null) return
  const problem = found.add('cost', EVENTS_STREAM, seq, wrong)
  for (const { appId, events } of records) addShare(problem, appId, events)
}

/** null: the header says what the records hold. */
function costProblem(text: string, records: readonly StoredRecord[]): string | null {
  const costs = text === '' ? null : parseCosts(text)
  if (costs === null) return `its header ${COST_HEADER} is ${text === '' ? 'missing' : 'malformed'}`
  const sums = new Map<string, number>()
  const add = (appId: string, minute: number, events: number): void => {
    const key = `${appId} ${minute}`
    sums.set(key, (sums.get(key) ?? 0) + events)
  }
  for (const { appId, minute, events } of costs) add(appId, minute, events)
  for (const { appId, receivedAt, events } of records)
    add(appId, Math.floor(Date.parse(receivedAt) / MINUTE_MS), -events)
  const wrong = [...sums].find(([, events]) => events !== 0)
  if (wrong === undefined) return null
  const [appId] = wrong[0].split(' ')
  return `its header ${COST_HEADER} charges app ${appId} ${Math.abs(wrong[1])} events ${wrong[1] > 0 ? 'more' : 'fewer'} in a minute than it has`
}
