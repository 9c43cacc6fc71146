// The thread that reads, parses, checks and packs the app file, hands the apps to its parent, and ends.

import { parentPort, workerData } from 'node:worker_threads'
import type { App } from '../app.ts'
import { type AppRecord, appOf, checkRecords, recordKeys } from '../app-record.ts'
import { type AppsText, parseAppsText, readAppsText } from './apps-text.ts'
import { buffersOf, type PackedApps, packApps } from './packed-apps.ts'

export interface ReaderData {
  readonly path: string
  /** Of the text in force; null: there is none. */
  readonly knownDigest: string | null
}

export type AppsRead =
  | { readonly kind: 'apps'; readonly packed: PackedApps; readonly digest: string; readonly identity: string }
  | Exclude<AppsText, { readonly kind: 'text' }>

const read = readPacked(workerData as ReaderData)
parentPort?.postMessage(read, read.kind === 'apps' ? buffersOf(read.packed) : [])

function readPacked({ path, knownDigest }: ReaderData): AppsRead {
  const found = readAppsText(path, knownDigest)
  if (found.kind !== 'text') return found
  const { digest, identity } = found
  const parsed = parseAppsText(found.text)
  if ('mistake' in parsed) return { kind: 'mistakes', mistakes: [parsed.mistake], identity }
  const checked = checkRecords(parsed.document)
  if (checked.kind === 'mistakes') return { ...checked, identity }
  const { records } = checked
  const keys = records.reduce((sum, record) => sum + recordKeys(record).length, 0)
  return { kind: 'apps', packed: packApps(appsOf(records), records.length, keys), digest, identity }
}

/** One at a time, so that only one App exists at once. */
function* appsOf(records: readonly AppRecord[]): Generator<App> {
  for (const record of records) yield appOf(record)
}
