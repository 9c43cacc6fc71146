// Files and folders as a kernel holds them, and what of them a power cut leaves: bytes that were not synced are lost by
// sectors, in any order, and names since the last sync of their folder are lost from the newest back.

import type { Random } from '../random.ts'

export const SECTOR_BYTES = 512

interface Range {
  readonly from: number
  readonly to: number
}

export class SimulatedFile {
  bytes = Buffer.alloc(0)
  size = 0
  links = 0
  modifiedMs = 0
  /** A write or a sync failed since it was empty. */
  hasFailed = false
  /** Another program has written to it: what is appended behind that has to be taken out again. */
  isMeddled = false
  /** What another program has written is truncated away. */
  onTakenOut: () => void = () => {}
  /** Not durable: written, or said to be. */
  dirty: Range[] = []
  /** Where what another program has written begins, while nothing else lies behind it. */
  #strangeFrom: number | null = null
  /** What a truncation took that was not synced yet. */
  #cut: Buffer | null = null

  /** `isSynced`: durable when this returns. */
  append(data: Uint8Array, isSynced: boolean): void {
    const from = this.size
    this.size += data.length
    if (this.size > this.bytes.length) {
      const grown = Buffer.alloc(Math.max(this.size, 2 * this.bytes.length))
      this.bytes.copy(grown, 0, 0, from)
      this.bytes = grown
    }
    this.bytes.set(data, from)
    this.#cut = null
    this.#strangeFrom = null
    if (!isSynced && data.length > 0) this.dirty.push({ from, to: this.size })
  }

  meddle(data: Uint8Array): void {
    const from = this.isMeddled ? this.#strangeFrom : this.size
    this.append(data, true)
    this.isMeddled = true
    this.#strangeFrom = from
  }

  /** Another program does, and at once for good. It may take out no more than another has written. */
  cutOff(size: number): void {
    this.isMeddled = false
    this.truncate(size)
    this.sync()
    this.isMeddled = size !== this.#strangeFrom
  }

  truncate(size: number): void {
    if (this.isMeddled) this.onTakenOut()
    if (size < this.size) this.#cut = Buffer.from(this.bytes.subarray(size, this.size))
    this.size = size
    this.isMeddled = false
    if (size === 0) this.hasFailed = false
    this.bytes.fill(0, size)
    this.dirty = this.dirty.filter(({ from }) => from < size).map(({ from, to }) => ({ from, to: Math.min(to, size) }))
  }

  sync(): void {
    this.dirty = []
    this.#cut = null
  }

  content(): Buffer {
    return this.bytes.subarray(0, this.size)
  }

  losePower(random: Random): void {
    if (this.#cut !== null && random.chance(0.5)) this.append(this.#cut, false)
    const whole = this.size
    for (const { from, to } of this.dirty) {
      const survival = random.pick([0, 0, 0.5, 0.9, 1])
      for (let at = from; at < to; ) {
        const end = Math.min(to, at - (at % SECTOR_BYTES) + SECTOR_BYTES)
        if (!random.chance(survival)) {
          this.bytes.fill(0, at, end)
          // The length was to be written too.
          if (end === whole && random.chance(0.7)) this.size = Math.min(this.size, at)
        }
        at = end
      }
    }
    this.sync()
  }
}

type Names = Map<string, SimulatedFile>

export class SimulatedFolder {
  readonly names: Names = new Map()
  /** How to take back each change since the last sync, oldest first. */
  #undo: (() => void)[] = []

  set(name: string, file: SimulatedFile | null): void {
    const before = this.names.get(name) ?? null
    this.#put(name, file)
    this.#undo.push(() => this.#put(name, before))
  }

  /** One change: both names, or neither. */
  rename(from: string, to: string): void {
    const file = this.names.get(from) ?? null
    const before = this.names.get(to) ?? null
    this.#put(from, null)
    this.#put(to, file)
    this.#undo.push(() => {
      this.#put(to, before)
      this.#put(from, file)
    })
  }

  sync(): void {
    this.#undo = []
  }

  losePower(random: Random): void {
    const kept = random.chance(0.5) ? 0 : random.int(0, this.#undo.length)
    for (const undo of this.#undo.splice(kept).toReversed()) undo()
    this.sync()
    for (const file of this.names.values()) file.losePower(random)
  }

  #put(name: string, file: SimulatedFile | null): void {
    const before = this.names.get(name)
    if (before !== undefined) before.links -= 1
    if (file === null) this.names.delete(name)
    else {
      this.names.set(name, file)
      file.links += 1
    }
  }
}
