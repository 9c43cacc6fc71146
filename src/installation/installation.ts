// Notices when NATS has lost what was there: remembers the stream, both buckets and the number of partitions, compares
// them every ten seconds, and says whether the bucket of app records is the one that others knew.

import type { NatsConnection } from '@nats-io/transport-node'
import { StartError } from '../lib/errors.ts'
import { sleep, type Timer, type Timers } from '../lib/timers.ts'
import type { NatsAccess } from '../nats/address.ts'
import type { BucketFacts } from '../nats/bucket.ts'
import { connectNats } from '../nats/connection.ts'
import { describeStored, type StoredState, storedAtMs } from '../nats/stored-state.ts'
import type { RedisLink } from '../redis/link.ts'
import { judge, type Look, NOTHING, type StoreMemory } from './judge.ts'
import { lossText, nameOf } from './loss-text.ts'
import { claimRedis, MAX_FORMER_STREAMS, type Ownership, ownershipText } from './owner.ts'
import {
  type InstallationRecord,
  type KnownStore,
  type KnownStores,
  newestOf,
  newestStores,
  STORE_NAMES,
  STREAM_OF,
  type StoreName,
} from './record.ts'
import { countPartitions, readFromBucket, readFromRedis, writeToBucket, writeToRedis } from './shared-record.ts'

const TICK_MS = 1000
const CHECK_INTERVAL_MS = 10_000
const WRITE_INTERVAL_MS = 60_000
/** How long a start waits for the number of partitions. */
const START_MS = 2000

export interface InstallationOptions {
  readonly redis: RedisLink
  readonly nodeId: string
  readonly partitions: number
  /** Of the bucket SLUICE_COUNTS, if it has to be created. */
  readonly replicas: number
  /** false: the app records are in a file. */
  readonly hasAppsBucket: boolean
  readonly timers: Timers
  readonly onLoss: (store: StoreName, text: string) => void
  /** Another installation uses this Redis: `text` says what follows. Said once for each change. */
  readonly onShared: (text: string) => void
  /** The node must not run on: `text` says why. */
  readonly onRefused: (text: string) => void
}

export class Installation {
  /** Losses reported by this process, by store. */
  readonly losses: Record<StoreName, number> = { stream: 0, apps: 0, counts: 0 }
  readonly #options: InstallationOptions
  readonly #memories: Record<StoreName, StoreMemory> = { stream: NOTHING, apps: NOTHING, counts: NOTHING }
  #timer: Timer | null = null
  #checking: Promise<unknown> = Promise.resolve()
  #isChecking = false
  #formerStreams: readonly string[] = []
  #ownership: Ownership = 'own'
  #reportedOwnership: Ownership = 'own'
  #checked: { readonly connection: NatsConnection; readonly atMs: number } | null = null

  constructor(options: InstallationOptions) {
    this.#options = options
  }

  /** Checks once, where NATS answers in time. Throws a StartError for another number of partitions. */
  async open(nats: NatsAccess): Promise<void> {
    const first = this.#checkOnce(nats)
    const refusal = await Promise.race([first, sleep(this.#options.timers, START_MS).then(() => 'late' as const)])
    if (refusal === 'late') void first.then((late) => late !== null && this.#options.onRefused(late))
    else if (refusal !== null) throw new StartError(refusal)
  }

  /** Checks from now on, over the connection that is up. */
  watch(connection: () => NatsConnection | null): void {
    this.#timer = this.#options.timers.setInterval(() => this.#tick(connection()), TICK_MS)
    this.#timer.unref()
  }

  async stop(): Promise<void> {
    if (this.#timer !== null) this.#options.timers.clear(this.#timer)
    await this.#checking
  }

  /** Why the bucket of app records must not be used; null: it may. `facts` null: there is none. */
  async judgeApps(connection: NatsConnection, facts: BucketFacts | null): Promise<string | null> {
    const redis = await readFromRedis(this.#options.redis)
    const shared = await readFromBucket(connection).catch(() => 'unreadable' as const)
    const copies = [redis === 'away' ? null : redis, shared === 'unreadable' ? null : shared.record]
    const refusal = copies
      .map((copy) => this.#partitionsRefusal(copy?.partitions ?? null))
      .find((text) => text !== null)
    if (refusal != null) {
      this.#options.onRefused(refusal)
      return refusal
    }
    const known = newestOf(this.#known.apps, ...copies.map((copy) => copy?.stores.apps))
    const entries = facts?.entries ?? 0
    if (known === undefined) {
      if (entries > 0 || (redis !== 'away' && shared !== 'unreadable')) return null
      const away = redis === 'away' ? 'Redis' : 'the bucket SLUICE_COUNTS'
      return `${nameOf('apps')} is empty, and whether it had records before cannot be known until ${away} answers`
    }
    const isKnown = facts?.createdAt === known.createdAt ? entries > 0 : facts !== null && entries >= known.messages
    if (isKnown || known.messages === 0) return null
    const what = facts === null ? 'is gone' : entries === 0 ? 'is empty' : `is another one, with ${entries} records`
    return `${nameOf('apps')} ${what}, and had ${known.messages} records before: bring them back with sluice apps import, or say sluice apps adopt-empty where it is meant`
  }

  get #known(): KnownStores {
    const { stream, apps, counts } = this.#memories
    return { stream: stream.known, apps: apps.known, counts: counts.known }
  }

  /** null: checked, or NATS does not answer. */
  async #checkOnce(nats: NatsAccess): Promise<string | null> {
    try {
      const connection = await connectNats(nats)
      await this.#check(connection).finally(() => connection.close())
      return null
    } catch (error) {
      return error instanceof StartError ? error.message : null
    }
  }

  #tick(connection: NatsConnection | null): void {
    const atMs = this.#options.timers.monotonicMs()
    const isDue = this.#checked?.connection !== connection || atMs >= this.#checked.atMs + CHECK_INTERVAL_MS
    if (connection === null || this.#isChecking || !isDue) return
    this.#isChecking = true
    this.#checking = this.#check(connection)
      .then(() => (this.#checked = { connection, atMs }))
      .catch((error: unknown) => error instanceof StartError && this.#options.onRefused(error.message))
      .finally(() => (this.#isChecking = false))
  }

  /** Rejects where NATS does not answer, with a StartError where its number of partitions is another one. */
  async #check(connection: NatsConnection): Promise<void> {
    const { redis, timers, replicas, partitions, hasAppsBucket } = this.#options
    const names = STORE_NAMES.filter((name) => name !== 'apps' || hasAppsBucket)
    const seen = await Promise.all(names.map((name) => describeStored(connection, STREAM_OF[name])))
    const [shared, copyInRedis] = await Promise.all([readFromBucket(connection), readFromRedis(redis)])
    await this.#claimRedis(seen[names.indexOf('stream')]?.createdAt, shared.record)
    const isForeign = this.#ownership === 'foreign'
    const ofRedis = isForeign ? null : copyInRedis
    const copies = [shared.record, ofRedis === 'away' ? null : ofRedis]
    for (const copy of copies) this.#comparePartitions(copy?.partitions ?? null)
    if (shared.record === null) this.#comparePartitions(await countPartitions(connection, partitions))
    const others = newestStores(...copies.map((copy) => copy?.stores))
    for (const [at, name] of names.entries())
      await this.#compare(connection, name, { seen: seen[at], others: others[name] })
    const record: InstallationRecord = {
      v: 1,
      writtenAtMs: timers.nowMs(),
      partitions,
      stores: newestStores(others, this.#known),
      formerStreams: this.#formerStreams,
    }
    if (isWorthWriting(shared.record, record)) {
      const options = { revision: shared.revision, replicas }
      // Of two first nodes with different numbers of partitions one has to lose.
      if (!(await writeToBucket(connection, record, options)))
        this.#comparePartitions((await readFromBucket(connection)).record?.partitions ?? null)
    }
    if (!isForeign) await writeToRedis(redis, record)
  }

  async #claimRedis(createdAt: string | undefined, stored: InstallationRecord | null): Promise<void> {
    // A stream that is away for now, of an installation that has one.
    if (createdAt === undefined && stored !== null) return
    const { redis, nodeId, onShared } = this.#options
    const latest = [this.#known.stream?.createdAt, stored?.stores.stream?.createdAt]
    const before = new Set([...latest, ...(stored?.formerStreams ?? []), ...this.#formerStreams])
    before.delete(createdAt)
    this.#formerStreams = [...before].filter((each) => each !== undefined).slice(0, MAX_FORMER_STREAMS)
    const found = await claimRedis(redis, nodeId, createdAt, this.#formerStreams)
    if (found === 'unknown') return
    this.#ownership = found
    // Without a stream it may also be the owner's, whose NATS has lost all.
    if (createdAt === undefined || found === this.#reportedOwnership) return
    this.#reportedOwnership = found
    if (found !== 'own') onShared(ownershipText(found))
  }

  #comparePartitions(known: number | null): void {
    const refusal = this.#partitionsRefusal(known)
    if (refusal !== null) throw new StartError(refusal)
  }

  /** null: nobody has said how many. */
  #partitionsRefusal(known: number | null): string | null {
    const { partitions } = this.#options
    if (known === null || known === partitions) return null
    return `SLUICE_PARTITIONS is ${partitions}, but this installation has ${known} partitions, which must never change: an app would be counted in two places; start this node with SLUICE_PARTITIONS=${known}`
  }

  /** Reports a loss once, and remembers what is there now. */
  async #compare(connection: NatsConnection, name: StoreName, { seen, others }: Pick<Look, 'seen' | 'others'>) {
    const { timers, onLoss } = this.#options
    const known = this.#memories[name].known ?? others
    const isOverwritten = name === 'stream' && (await isOtherMessage(connection, seen, known))
    const look = { seen, others, isOverwritten, nowMs: timers.nowMs(), atMs: timers.monotonicMs() }
    const { memory, loss } = judge(name, this.#memories[name], look)
    this.#memories[name] = memory
    if (loss === null || known === undefined) return
    this.losses[name]++
    onLoss(name, lossText(name, loss, known, seen))
  }
}

/** Whether another message has the number of the last one that was known. A bucket's entries are replaced anyway. */
async function isOtherMessage(connection: NatsConnection, seen: StoredState | null, known?: KnownStore) {
  if (known === undefined || known.lastAtMs === null || seen?.createdAt !== known.createdAt) return false
  const { lastSequence, lastAtMs } = known
  if (seen.firstSequence > lastSequence || seen.lastSequence < lastSequence) return false
  const isLast = seen.lastSequence === lastSequence
  const atMs = isLast ? seen.lastAtMs : await storedAtMs(connection, STREAM_OF.stream, lastSequence)
  return atMs !== null && atMs !== lastAtMs
}

/** The copy in NATS is written at each change of what is there, and each minute. */
function isWorthWriting(present: InstallationRecord | null, record: InstallationRecord): boolean {
  if (present === null || present.partitions !== record.partitions) return true
  if (record.writtenAtMs - present.writtenAtMs >= WRITE_INTERVAL_MS) return true
  const isSame = (name: StoreName): boolean => present.stores[name]?.generation === record.stores[name]?.generation
  return !STORE_NAMES.every(isSame)
}
