// The closed segments of a journal: how many bytes they have, and their removal, in order only, so that no gaps arise.

import { formatBytes } from '../../lib/format.ts'
import type { OnNotice } from '../../lib/notice.ts'
import type { Disk } from './disk.ts'
import type { DamageKind } from './segment-cursor.ts'
import { lastRecordTimeMs, segmentPath } from './segments.ts'
import { commitsPath, idsPath } from './side-files.ts'

export interface ClosedSegmentsOptions {
  readonly directory: string
  readonly disk: Disk
  readonly onNotice: OnNotice
  readonly onDamage: (kind: DamageKind) => void
}

export class ClosedSegments {
  readonly #options: ClosedSegmentsOptions
  /** By the number of the segment, in order. */
  readonly #bytes: Map<number, number>
  /** The one that is being removed, or set aside: it may be missing. null: none is. */
  #leaving: number | null = null

  constructor(options: ClosedSegmentsOptions, bytes: Map<number, number>) {
    this.#options = options
    this.#bytes = bytes
  }

  get bytes(): number {
    let all = 0
    for (const bytes of this.#bytes.values()) all += bytes
    return all
  }

  /** undefined: there is none. */
  get first(): number | undefined {
    return this.#bytes.keys().next().value
  }

  add(number: number, bytes: number): void {
    this.#bytes.set(number, bytes)
  }

  /**
   * Removes those whose last record is older than `timeMs`, and reports them, and those that others have removed. `open`: the
   * segment that was open when those that are `present` were listed.
   */
  async removeOlderThan(timeMs: number, open: number, present: ReadonlySet<number>): Promise<void> {
    const { directory, disk, onNotice, onDamage } = this.#options
    const removed: { lastMs: number; bytes: number }[] = []
    let mayRemove = timeMs > Number.NEGATIVE_INFINITY
    try {
      for (const [number, bytes] of this.#bytes) {
        const path = segmentPath(directory, number)
        // It was closed after the listing.
        if (number >= open) break
        if (number === this.#leaving) continue
        if (present.has(number)) {
          const lastMs = mayRemove ? await lastRecordTimeMs(path, disk) : Infinity
          if (lastMs >= timeMs) {
            mayRemove = false
            continue
          }
          await this.#remove(path)
          removed.push({ lastMs, bytes })
        } else {
          onDamage('removed')
          onNotice(`${path} was removed by another program, with its ${bytes} bytes of accepted records`)
        }
        this.#bytes.delete(number)
      }
    } finally {
      if (removed.length > 0) onNotice(removedText(removed), 'info')
    }
  }

  /** Those with a lower number, whatever their age. `setAside`: whether it was moved away instead. */
  async removeBefore(before: number, setAside: (path: string) => Promise<boolean>): Promise<void> {
    for (const number of this.#bytes.keys()) {
      if (number >= before) break
      const path = segmentPath(this.#options.directory, number)
      this.#leaving = number
      // Where this fails it is tried again, and what is missing by then is still no loss.
      if (!(await setAside(path))) await this.#remove(path)
      this.#bytes.delete(number)
      this.#leaving = null
    }
  }

  async #remove(path: string): Promise<void> {
    const { disk } = this.#options
    // The segment last, so that no file is left without it.
    for (const one of [commitsPath(path), idsPath(path), path])
      if ((await disk.size(one)) !== null) await disk.unlink(one)
  }
}

function removedText(removed: readonly { readonly lastMs: number; readonly bytes: number }[]): string {
  const size = formatBytes(removed.reduce((sum, { bytes }) => sum + bytes, 0))
  const [from, to] = [removed[0], removed[removed.length - 1]].map(({ lastMs }) => new Date(lastMs).toISOString())
  const segments = `${removed.length} old segment${removed.length === 1 ? '' : 's'} of the journal`
  return `removed ${segments} (${size}), whose last records were received from ${from} to ${to}`
}
