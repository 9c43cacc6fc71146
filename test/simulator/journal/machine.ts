// The machine of a history without Redis and NATS: its disk, what happens to it, and the parts of the process that runs
// on it. After each start it looks at what the disk still holds.

import { join } from 'node:path'
import { readApp } from '../../../src/apps/app-record.ts'
import { parseRecordHead, type RecordHead } from '../../../src/contract/record/record-head.ts'
import { recordsOf } from '../../../src/contract/record/record-lines.ts'
import { createMemoryDeduplicator } from '../../../src/keys/memory-deduplicator.ts'
import { errorMessage } from '../../../src/lib/errors.ts'
import { OwnAdmission } from '../../../src/limits/own/own-admission.ts'
import { OwnAlerts } from '../../../src/limits/own/own-alerts.ts'
import { recoverLimiter } from '../../../src/limits/own/recovered.ts'
import { damageText } from '../../../src/queue/journal/damage-text.ts'
import { openJournal } from '../../../src/queue/journal/journal.ts'
import { readRecords } from '../../../src/queue/journal/recovery.ts'
import type { Damage } from '../../../src/queue/journal/segment-cursor.ts'
import { journalDirectory } from '../../../src/queue/journal/segments.ts'
import { keepSnapshots } from '../../../src/start/snapshots.ts'
import type { History } from '../history.ts'
import type { NodeParts, NodeSeams } from '../parts.ts'
import type { Random } from '../random.ts'
import type { Host, World } from '../world.ts'
import { SimulatedDisk } from './disk.ts'
import { type SimulatedFile, SimulatedFolder } from './files.ts'
import { Harms } from './harms.ts'
import { type DiskStep, isLossy } from './steps.ts'

const DATA_FOLDER = '/data'
const JOURNAL_FOLDER = journalDirectory(DATA_FOLDER)
/** The shortest that there is: ten minutes. */
const KEEP_HOURS = 0
/** Small, so that segments fill and snapshots are written in seconds. */
const JOURNAL_BYTES = 4 * 1024 * 1024
const SEGMENT_BYTES = 32 * 1024
const SNAPSHOT_MS = 5000
const MAX_KEYS = 100_000
const NEWLINE = 10

/** What the disk holds of a record. */
export interface OnDisk {
  readonly text: Buffer
  readonly head: RecordHead
}

export class Machine {
  readonly disk: SimulatedDisk
  /** Something happened that no journal survives. */
  isLossy = false
  readonly harms = new Harms()
  /** All that the log has said. */
  notices: () => readonly string[] = () => []
  /** Records that another program has cut off. */
  onCut: (lines: Buffer) => void = () => {}
  #hasFailed = false
  #isCut = false
  /** That of the process that runs. */
  #isOpenCut = false
  /** A process writes the journal. */
  #isOpen = false
  /** Records that are durable, as the disk says. */
  onStored: (lines: Buffer) => void = () => {}
  /** A start has finished: the records on the disk. */
  onStarted: (found: readonly OnDisk[]) => void = () => {}
  /** A process has ended by itself. */
  onEnded: () => void = () => {}
  readonly #history: History
  readonly #random: Random

  constructor(history: History, world: World, random: Random) {
    this.#history = history
    this.#random = random
    this.disk = new SimulatedDisk(world, random)
    this.disk.onStored = (lines) => {
      // A byte that only asks whether there is room is none.
      if (lines.at(-1) === NEWLINE) this.onStored(lines)
    }
    this.disk.folders.set(DATA_FOLDER, new SimulatedFolder())
  }

  /** A process that cannot start says why and ends. */
  readonly openParts = async (seams: NodeSeams): Promise<NodeParts> => {
    seams.host.onKill(() => {
      // What it wrote last lies before the snapshot's position, and is not counted. It was not answered.
      this.isLossy ||= this.#isOpenCut
      this.#isOpen = false
      this.disk.processDied()
    })
    try {
      return await this.#open(seams)
    } catch (error) {
      seams.onNotice(errorMessage(error))
      seams.host.kill()
      this.onEnded()
      return await new Promise(() => {})
    }
  }

  /** As src/start/embedded.ts does it. */
  async #open({ host, timers, random, onNotice, onAlert, findApp }: NodeSeams): Promise<NodeParts> {
    const disk = this.disk.of(host)
    const clock = (): number => timers.nowMs()
    const deduplicator = createMemoryDeduplicator({ maxKeys: MAX_KEYS, seed: Math.floor(random() * 0x100000000) })
    const { limiter, recovery } = await recoverLimiter({
      dataDirectory: DATA_FOLDER,
      nowMs: clock(),
      apps: this.#history.apps.map((record) => {
        const read = readApp(record, '')
        if (read.kind === 'mistakes') throw new Error(read.mistakes.join('; '))
        return read.app
      }),
      onKey: (batchId, events, receivedAtMs) => deduplicator.restore(batchId, events, receivedAtMs),
      onDamage: (damage) => onNotice(damageText(damage)),
      disk,
    })
    const queue = await openJournal({
      directory: JOURNAL_FOLDER,
      maxBytes: JOURNAL_BYTES,
      segmentBytes: SEGMENT_BYTES,
      keepHours: KEEP_HOURS,
      isKeepNamed: true,
      keysFrom: recovery.keysFrom,
      resumeAfter: recovery.resumeAfter,
      clock,
      timers,
      disk,
      onNotice,
    })
    for (const file of this.disk.folders.get(JOURNAL_FOLDER)?.names.values() ?? []) file.isMeddled = false
    this.#isOpen = true
    this.#isOpenCut = false
    this.onStarted(this.#look())
    const alerts = new OwnAlerts({
      limiter,
      apps: { findById: (appId) => findApp(appId) ?? 'unknown' },
      timers,
      onAlert,
      onNotice,
      dumped: recovery.alerts,
    })
    const snapshots = keepSnapshots({
      directory: DATA_FOLDER,
      limiter,
      deduplicator,
      alerts,
      journal: queue,
      clock,
      timers,
      disk,
      log: { error: (...said: unknown[]) => onNotice(String(said[1])) } as Parameters<typeof keepSnapshots>[0]['log'],
      intervalMs: SNAPSHOT_MS,
    })
    return {
      admission: new OwnAdmission({ limiter, deduplicator, clock }),
      queue,
      isReady: () => true,
      spooled: () => 0,
      redisOutages: () => 0,
      losses: () => ({ stream: 0, apps: 0, counts: 0 }),
      stop: async () => {
        this.#isOpen = false
        alerts.stop()
        await queue.stop()
        await snapshots.stop()
      },
    }
  }

  /** Those of a disk, which last until the returned function heals them; null: it happens at once. */
  apply(step: Exclude<DiskStep, { kind: `p${string}` }>): (() => void) | null {
    const { disk } = this
    if (isLossy(step)) this.isLossy = true
    this.#hasFailed ||= step.kind === 'disk full' || step.kind === 'disk fails'
    this.#isCut ||= step.kind === 'segment cut'
    // Behind a cut nobody knows how much came of a write that failed.
    this.isLossy ||= this.#hasFailed && this.#isCut
    switch (step.kind) {
      case 'disk slow':
        disk.extraMs = step.extraMs
        return () => (disk.extraMs = 0)
      case 'disk full':
        disk.freeBytes = step.freeBytes
        return () => (disk.freeBytes = Number.POSITIVE_INFINITY)
      case 'disk fails':
        disk.failShare = step.share
        return () => (disk.failShare = 0)
      case 'sync lies':
        disk.lies = true
        return () => (disk.lies = false)
      case 'stray bytes':
        if (this.#isOpen) this.#meddle(({ file }) => file.meddle(Buffer.from(step.text)))
        return null
      case 'segment cut':
        if (this.#isOpen) this.#meddle((open) => this.#cut(open.file, step.share))
        this.#isOpenCut ||= this.#isOpen
        return null
      case 'bit flips':
        this.#flip()
        return null
    }
  }

  /** Another program does something to the open segment, if there is one. */
  #meddle(how: (open: { readonly file: SimulatedFile }) => void): void {
    const names = this.disk.folders.get(JOURNAL_FOLDER)?.names ?? new Map<string, SimulatedFile>()
    const last = [...names.keys()].filter(isSegment).toSorted().at(-1) ?? ''
    const file = names.get(last)
    if (file === undefined) return
    this.harms.isHarmed = true
    file.onTakenOut = () => {
      // A start cuts what is no whole line, and a disk that fails leaves what is truncated with it.
      if (this.#isOpen && !this.#hasFailed) this.harms.takenOut(join(JOURNAL_FOLDER, last), this.notices())
    }
    how({ file })
  }

  #cut(file: SimulatedFile, share: number): void {
    const size = Math.floor(file.size * share)
    const before = Buffer.from(file.content())
    if (size === before.length) return
    file.cutOff(size)
    this.harms.cut(file, size)
    // With the record in which it was cut.
    this.onCut(before.subarray(before.subarray(0, size).lastIndexOf(NEWLINE) + 1))
  }

  #flip(): void {
    const files = [...(this.disk.folders.get(JOURNAL_FOLDER)?.names.values() ?? [])].filter(({ size }) => size > 0)
    if (files.length === 0) return
    const file = this.#random.pick(files)
    const at = this.#random.int(0, file.size - 1)
    file.bytes[at] ^= 1 << this.#random.int(0, 7)
    this.harms.flipped(file, at)
  }

  /** Reads all of the journal, as `sluice verify` does. null: each damage is named, and none that did not happen. */
  async judgeDamage(host: Host): Promise<{ readonly isFalse: boolean; readonly detail: string } | null> {
    const damage: Damage[] = []
    const onDamage = (one: Damage): void => void damage.push(one)
    await readRecords(JOURNAL_FOLDER, null, () => {}, onDamage, this.disk.of(host))
    const notices = this.notices()
    const untold = this.harms.judge(this.disk.folders.get(JOURNAL_FOLDER), JOURNAL_FOLDER, damage, notices)
    if (untold !== null) return { isFalse: false, detail: untold }
    // Of a commit that was under way at a power cut the middle may be gone, and nobody can know that it was not answered.
    const met = damage.filter(({ kind }) => kind !== 'record').map(damageText)
    const told = [...met, ...notices.filter((notice) => /damaged bytes|was removed/.test(notice))]
    if (told.length === 0 || this.harms.isHarmed || this.isLossy) return null
    return { isFalse: true, detail: told[0] }
  }

  #look(): OnDisk[] {
    const found: OnDisk[] = []
    for (const file of this.disk.folders.get(JOURNAL_FOLDER)?.names.values() ?? []) {
      // A segment that is being made is not a record.
      for (const text of recordsOf(Buffer.from(file.content()))) {
        const head = parseRecordHead(text, 0, text.length)
        if (head !== null) found.push({ text, head })
      }
    }
    return found
  }
}

function isSegment(name: string): boolean {
  return name.endsWith('.ndjson')
}
