// Reads what is stored from the newest record back: the newest events that fit a filter, or all that has an id. It reads
// for two seconds at most, and says how far it came. It runs in a thread of its own.

import type { EventFilter } from '../../contract/admin/peers.ts'
import type { NewestEvents } from '../../contract/admin/stored.ts'
import { MAX_SEARCH_MS } from '../../contract/bounds.ts'
import { batchIdOf, isUuid } from '../../contract/ids.ts'
import { readIds, readRecord, type StoredRecord } from '../../contract/record/record-members.ts'
import type { Writable } from '../../lib/writable.ts'
import { type Asked, isBatchId, readQuestion } from '../../queue/find/question.ts'
import { fits, needlesOf } from '../live/event-filter.ts'
import { eventsThatFit } from '../live/stored-events.ts'
import { findInQueue, newestRecords, type QueuePlace } from './find-in-queue.ts'

/** Of a user, who may have sent millions. */
const MAX_FOUND = 50
/** Of an answer's events, most of which are far smaller. */
const MAX_EVENTS_BYTES = 4_194_304

type Searched = Writable<Pick<NewestEvents, 'searched_back_to' | 'complete' | 'skipped'>>

/** true: it was found. */
type Look = (line: Buffer, head: { readonly batchId: string; readonly appId: string }) => boolean

/** Where the queue cannot be read to its end, what `hasFound` is answered. */
async function readBack(place: QueuePlace, untilMs: number, hasFound: () => boolean, look: Look): Promise<Searched> {
  const searched: Searched = { searched_back_to: null, complete: false, skipped: 0 }
  try {
    searched.complete = await readEach(place, untilMs, look, searched)
  } catch (error) {
    if (!hasFound()) throw error
  }
  return searched
}

/** false: the time was over before. */
async function readEach(place: QueuePlace, untilMs: number, look: Look, found: Searched): Promise<boolean> {
  let isNewest = true
  for await (const lines of newestRecords(place)) {
    for (const line of lines) {
      const head = readIds(line)
      const isFound = head === null ? null : looked(line, head, look)
      if (line.length > 0) {
        // The newest one may just be written.
        if (isFound === null && !isNewest) found.skipped += 1
        isNewest = false
      }
      found.searched_back_to = head?.receivedAt ?? found.searched_back_to
      if (isFound === true) return true
      if (performance.now() > untilMs) return false
    }
    // Where the lines are no records.
    if (performance.now() > untilMs) return false
  }
  return true
}

/** null: the record is damaged. */
function looked(line: Buffer, head: Parameters<Look>[1], look: Look): boolean | null {
  try {
    return look(line, head)
  } catch (error) {
    if (error instanceof SyntaxError) return null
    throw error
  }
}

/** JSON in which each event is as it was sent. */
export async function newestEvents(
  place: QueuePlace,
  filter: EventFilter,
  limit: number,
  isForApp = false,
): Promise<string> {
  const needles = needlesOf(filter)
  const events: string[] = []
  let bytes = 0
  const hasFound = (): boolean => events.length > 0
  const searched = await readBack(place, performance.now() + MAX_SEARCH_MS, hasFound, (line, { appId }) => {
    if (filter.app !== null && filter.app !== appId) return false
    for (const { json } of eventsThatFit(line, { needles, withNode: !isForApp }, (event) => fits(filter, event))) {
      events.push(json)
      bytes += json.length
    }
    return events.length >= limit || bytes >= MAX_EVENTS_BYTES
  })
  const complete = searched.complete && (events.length >= limit || bytes < MAX_EVENTS_BYTES)
  return withList('events', events.slice(0, limit), isForApp ? { complete } : { ...searched, complete })
}

/** `apps`: the ids of those whose keys the text may be, one a line: to copy 100,000 texts to a thread takes 15 ms and more. */
export async function searchStored(place: QueuePlace, text: string, apps: readonly Uint8Array[]): Promise<string> {
  const untilMs = performance.now() + MAX_SEARCH_MS
  const { batch, isSearched } = await batchNamed(place, text).catch((error: unknown) => {
    // What is searched for may be an event in the spool.
    if (place.spool === null) throw error
    return { batch: null, isSearched: false }
  })
  const whole = { query: text, searched_back_to: null, complete: true, skipped: 0 }
  if (batch !== null) return withList('found', [batch], whole)
  const key = text.toLowerCase()
  const appIds = apps.flatMap((some) => Buffer.from(some).toString().split('\n'))
  const keyed = new Set(isUuid(key) ? appIds.map((app) => batchIdOf(app, key)) : [])
  const needle = Buffer.from(JSON.stringify(text))
  const found: string[] = []
  const hasFound = (): boolean => found.length > 0
  const searched = await readBack(place, untilMs, hasFound, (line, { batchId }) => {
    const record = keyed.has(batchId) ? readRecord(line) : null
    if (record !== null) found.push(batchJson(record, key))
    let isFound = record !== null
    for (const { event, json } of eventsThatFit(line, { needles: [needle], withNode: true }, (one) =>
      hasId(one, text),
    )) {
      isFound ||= event['event_id'] === text
      found.push(`{"kind":"${event['event_id'] === text ? 'event' : 'user'}",${json.slice(1)}`)
    }
    return isFound || found.length >= MAX_FOUND
  })
  const complete = searched.complete && (isSearched || found.length > 0)
  return withList('found', found.slice(0, MAX_FOUND), { ...whole, ...searched, complete })
}

function hasId(event: Readonly<Record<string, unknown>>, text: string): boolean {
  return event['event_id'] === text || event['user_id'] === text
}

/** The batch with this id, or of this app and key. `isSearched`: all that may hold it was read, however much that was. */
async function batchNamed(place: QueuePlace, text: string): Promise<{ batch: string | null; isSearched: boolean }> {
  const words = text.split(/\s+/)
  const asked: Asked = words.length === 2 ? { app: words[0], key: words[1].toLowerCase() } : { id: text }
  const reading = readQuestion(asked, Date.now())
  // Most UUIDs that are looked for are an event's id or a key: these are searched below.
  if (reading.kind === 'mistake' || !isBatchId(reading.question.batchId)) return { batch: null, isSearched: true }
  const finding = await findInQueue(place, reading.question, { signal: AbortSignal.timeout(MAX_SEARCH_MS / 2) })
  if (finding.kind === 'not found') return { batch: null, isSearched: finding.reason !== 'stopped' }
  return { batch: batchJson(finding.record, asked.key), isSearched: true }
}

function batchJson({ batchId, appId, receivedAt, events }: StoredRecord, key?: string): string {
  const batch = { batch_id: batchId, app_id: appId, received_at: receivedAt, events }
  return JSON.stringify(key === undefined ? { kind: 'batch', ...batch } : { kind: 'key', key, ...batch })
}

function withList(name: string, items: readonly string[], members: object): string {
  return `{"${name}":[${items.join(',')}],${JSON.stringify(members).slice(1)}`
}
