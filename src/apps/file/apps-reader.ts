// The thread that reads, parses and checks the app file, hands its records to its parent in slices, each when it is asked for
// it, and ends.

import { type MessagePort, parentPort, workerData } from 'node:worker_threads'
import { type AppRecord, checkRecords } from '../app-record.ts'
import { type AppsText, parseAppsText, readAppsText } from './apps-text.ts'

/** Made into apps in one turn of the parent's event loop: more would hold up requests. */
const SLICE_RECORDS = 250

export interface ReaderData {
  readonly path: string
  /** Of the text in force; null: there is none. */
  readonly knownDigest: string | null
}

/** What the parent gets: slices until there are no more, and then what was read of them; or at once why there are none. */
export type ReaderMessage =
  | { readonly kind: 'slice'; readonly records: readonly AppRecord[] }
  | { readonly kind: 'end'; readonly digest: string; readonly identity: string }
  | Exclude<AppsText, { readonly kind: 'text' }>

function* messages({ path, knownDigest }: ReaderData): Generator<ReaderMessage> {
  const found = readAppsText(path, knownDigest)
  if (found.kind !== 'text') return yield found
  const { digest, identity } = found
  const parsed = parseAppsText(found.text)
  if ('mistake' in parsed) return yield { kind: 'mistakes', mistakes: [parsed.mistake], identity }
  const checked = checkRecords(parsed.document)
  if (checked.kind === 'mistakes') return yield { ...checked, identity }
  for (let at = 0; at < checked.records.length; at += SLICE_RECORDS)
    yield { kind: 'slice', records: checked.records.slice(at, at + SLICE_RECORDS) }
  yield { kind: 'end', digest, identity }
}

function handOver(port: MessagePort, left: Generator<ReaderMessage>): void {
  const sendNext = (): void => {
    const { done, value } = left.next()
    if (done === true) port.close()
    else port.postMessage(value, [])
  }
  port.on('message', sendNext)
  sendNext()
}

if (parentPort !== null) handOver(parentPort, messages(workerData as ReaderData))
