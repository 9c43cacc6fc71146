// App records as Redis keeps them, for those who edit them and those who follow the edits: a hash of records, the
// version of the last edit, and which keys the last edits changed. All of it lies in one hash slot.

import { type AppRecord, checkRecords, type ReadApp, readApp } from './app-record.ts'
import type { RedisLink } from './redis.ts'
import { redisScript, runScript } from './redis-script.ts'

const KEYS = ['sluice:{apps}:version', 'sluice:{apps}:records', 'sluice:{apps}:changes'] as const

/** Changed keys that are remembered. A node that has missed more asks for everything anew. */
const MAX_CHANGES_KEPT = 1000
/** Edits at the same time make one of them begin again. */
const MAX_EDIT_ATTEMPTS = 50
const SHOWN_KEY_CHARACTERS = 6

/** The version of an edit is its time, so that it goes up also where Redis has forgotten earlier ones. */
const EDIT = redisScript(`
local version = (tonumber(redis.call('GET', KEYS[1]) or '0') or 0)
if version ~= tonumber(ARGV[1]) then return 0 end
local time = redis.call('TIME')
local edited = math.max(version + 1, time[1] * 1000 + math.floor(time[2] / 1000))
for at = 2, #ARGV, 2 do
  if ARGV[at + 1] == '' then redis.call('HDEL', KEYS[2], ARGV[at])
  else redis.call('HSET', KEYS[2], ARGV[at], ARGV[at + 1]) end
  redis.call('ZADD', KEYS[3], edited, ARGV[at])
end
redis.call('ZREMRANGEBYRANK', KEYS[3], 0, -${MAX_CHANGES_KEPT + 1})
redis.call('SET', KEYS[1], string.format('%d', edited))
return edited
`)

const READ_ALL = redisScript(`
return { (tonumber(redis.call('GET', KEYS[1]) or '0') or 0), redis.call('HGETALL', KEYS[2]) }
`)

const LOOK_UP = redisScript(`
return { (tonumber(redis.call('GET', KEYS[1]) or '0') or 0), redis.call('HMGET', KEYS[2], unpack(ARGV)) }
`)

/** Where all that are kept are newer than what was seen last, older ones may have been dropped: 1 says so. */
const CHANGES_SINCE = redisScript(`
local version, seen = (tonumber(redis.call('GET', KEYS[1]) or '0') or 0), tonumber(ARGV[1])
if version == seen then return { version } end
local changed = redis.call('ZRANGEBYSCORE', KEYS[3], '(' .. ARGV[1], '+inf')
local isCut = version < seen or #changed >= ${MAX_CHANGES_KEPT}
return { version, isCut and 1 or 0, isCut and {} or changed }
`)

export interface FoundRecords {
  /** Of the last edit that Redis knows; 0: it knows of none. */
  readonly version: number
  /** In the order of the keys; null: there is no such record. */
  readonly texts: readonly (string | null)[]
}

export async function lookUpRecords(link: RedisLink, appKeys: readonly string[]): Promise<FoundRecords | 'away'> {
  const reply = await runScript(link, LOOK_UP, KEYS, appKeys)
  if (reply === 'away') return 'away'
  const [version, texts] = reply as [number, (string | null)[]]
  return { version, texts }
}

export interface Changes {
  readonly version: number
  /** null: too many, or Redis has gone back to an earlier version. Any record may have changed. */
  readonly appKeys: readonly string[] | null
}

export async function changesSince(link: RedisLink, seenVersion: number): Promise<Changes | 'away'> {
  const reply = await runScript(link, CHANGES_SINCE, KEYS, [String(seenVersion)])
  if (reply === 'away') return 'away'
  const [version, isCut = 0, appKeys = []] = reply as [number, number?, string[]?]
  return { version, appKeys: isCut === 1 ? null : appKeys }
}

interface Named {
  readonly appKey: string
  /** null: not even that can be read. */
  readonly appId: string | null
}

/** What is stored under a key and cannot be used. */
export interface BadRecord extends Named {
  readonly mistakes: readonly string[]
}

export interface StoredRecords {
  /** In the order of their ids. */
  readonly records: readonly AppRecord[]
  /** In the order of their keys. */
  readonly bad: readonly BadRecord[]
}

/** Records that a service would not use throw an Error that names every mistake. */
export async function readAppRecordsInRedis(link: RedisLink): Promise<readonly AppRecord[] | 'away'> {
  const stored = await readStoredRecords(link)
  if (stored === 'away') return 'away'
  if (stored.bad.length === 0) return stored.records
  const mistakes = stored.bad.flatMap((bad) => bad.mistakes.map((mistake) => `${nameOf(bad)}: ${mistake}`))
  throw new Error(describeMistakes(mistakes))
}

/**
 * Puts the records that `change` makes of the present ones in their place, in one step. `change` is called again where
 * another edit came between, and what it throws ends the edit. Bad records stay as they are. 'away': the edit may have
 * been made or not.
 */
export function editAppRecordsInRedis(
  link: RedisLink,
  change: (records: readonly AppRecord[]) => readonly AppRecord[],
): Promise<'done' | 'away'> {
  return edit(link, ({ records, bad }) => {
    const wanted = change(records)
    const checked = checkRecords({ apps: wanted })
    if (checked.kind === 'mistakes') throw new Error(describeMistakes(checked.mistakes))
    const presentIds = new Set(records.map((record) => record.app_id))
    const addedIds = new Set(wanted.map((record) => record.app_id).filter((appId) => !presentIds.has(appId)))
    const keys = new Set(wanted.map((record) => record.app_key))
    const inTheWay = bad.find(({ appKey, appId }) => keys.has(appKey) || (appId !== null && addedIds.has(appId)))
    if (inTheWay !== undefined) throw new Error(`${describeBad(inTheWay)}; it has to be removed first`)
    return changesBetween(records, wanted)
  })
}

export type RecordChoice = { readonly appId: string } | { readonly appKey: string }

/**
 * Takes away what is stored under a key, whether it can be used or not; or the record of an app, and where it has none
 * that can be used, the bad ones that name it. Throws where there is nothing such.
 */
export function removeAppRecordsInRedis(link: RedisLink, choice: RecordChoice): Promise<'done' | 'away'> {
  const isChosen = ({ appKey, appId }: Named): boolean =>
    'appKey' in choice ? appKey === choice.appKey : appId === choice.appId
  return edit(link, ({ records, bad }) => {
    const good = records.map((record): Named => ({ appKey: record.app_key, appId: record.app_id })).filter(isChosen)
    const appKeys = (good.length > 0 ? good : bad.filter(isChosen)).map(({ appKey }) => appKey)
    if (appKeys.length === 0) throw new Error(describeNone(choice))
    return appKeys.flatMap((appKey) => [appKey, ''])
  })
}

export function describeNone(choice: RecordChoice): string {
  return 'appId' in choice ? `there is no app ${choice.appId}` : 'there is no app with this key'
}

/** `changesOf` gives keys and what to store under each, one after the other. */
async function edit(link: RedisLink, changesOf: (present: StoredRecords) => string[]): Promise<'done' | 'away'> {
  for (let attempt = 0; attempt < MAX_EDIT_ATTEMPTS; attempt++) {
    const present = await readStoredRecords(link)
    if (present === 'away') return 'away'
    const changes = changesOf(present)
    if (changes.length === 0) return 'done'
    const version = await runScript(link, EDIT, KEYS, [String(present.version), ...changes])
    if (version === 'away') return 'away'
    if (version !== 0) return 'done'
  }
  throw new Error('app records in Redis: other edits came between each time; try again')
}

/** Keys and what is stored under each, one after the other; an empty text removes the record. */
function changesBetween(present: readonly AppRecord[], wanted: readonly AppRecord[]): string[] {
  const texts = new Map(present.map((record) => [record.app_key, JSON.stringify(record)]))
  const changes: string[] = []
  for (const record of wanted) {
    const text = JSON.stringify(record)
    if (texts.get(record.app_key) !== text) changes.push(record.app_key, text)
    texts.delete(record.app_key)
  }
  for (const appKey of texts.keys()) changes.push(appKey, '')
  return changes
}

export async function readStoredRecords(link: RedisLink): Promise<(StoredRecords & { version: number }) | 'away'> {
  const reply = await runScript(link, READ_ALL, KEYS, [])
  if (reply === 'away') return 'away'
  const [version, fields] = reply as [number, string[]]
  const texts: [appKey: string, text: string][] = []
  for (let at = 0; at < fields.length; at += 2) texts.push([fields[at], fields[at + 1]])
  // A hash has no order, and mistakes are named in the same one each time.
  texts.sort(([one], [other]) => (one < other ? -1 : 1))
  const records: AppRecord[] = []
  const bad: BadRecord[] = []
  for (const [appKey, text] of texts) {
    const read = readRecord(appKey, text)
    if (read.kind === 'app') records.push(read.record)
    else bad.push(read.bad)
  }
  records.sort((one, other) => (one.app_id < other.app_id ? -1 : 1))
  return { version, records, bad }
}

type ReadRecord = Extract<ReadApp, { kind: 'app' }> | { readonly kind: 'bad'; readonly bad: BadRecord }

/** Reads what is stored under a key. */
export function readRecord(appKey: string, text: string): ReadRecord {
  const badFor = (appId: string | null, mistakes: readonly string[]): ReadRecord => ({
    kind: 'bad',
    bad: { appKey, appId, mistakes },
  })
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch {
    // What JSON.parse says would quote the record.
    return badFor(null, ['not JSON'])
  }
  const read = readApp(value, '')
  if (read.kind === 'mistakes') return badFor(appIdOf(value, read.mistakes), read.mistakes)
  if (read.record.app_key === appKey) return read
  return badFor(read.record.app_id, ['app_key: not the key it is stored under'])
}

/** Where no mistake is found in it. */
function appIdOf(value: unknown, mistakes: readonly string[]): string | null {
  const { app_id: appId } = (value ?? {}) as Readonly<Record<string, unknown>>
  return typeof appId === 'string' && !mistakes.some((mistake) => mistake.startsWith('app_id:')) ? appId : null
}

/** For the log too: says which record it is, and no key. */
export function describeBad(bad: BadRecord): string {
  return `the app record ${nameOf(bad)} in Redis cannot be used: ${bad.mistakes.join('; ')}`
}

/** Of a key so much as to find it by, and too little to send events with. */
function nameOf({ appId, appKey }: BadRecord): string {
  return appId === null ? `under ${appKey.slice(0, SHOWN_KEY_CHARACTERS)}…` : `of ${appId}`
}

function describeMistakes(mistakes: readonly string[]): string {
  return ['the app records in Redis cannot be used:', ...mistakes.map((mistake) => `  ${mistake}`)].join('\n')
}
