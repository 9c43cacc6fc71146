// The segments of a spool in which damage was found: they are set aside when all that is whole in them was sent, since what was
// answered 202 is never removed unsent. SPOOL_DIR/damaged/journal/ has them as they were.

import { basename, join } from 'node:path'
import type { Disk } from '../journal/disk.ts'
import type { Damage } from '../journal/segment-cursor.ts'
import { damagedDirectory, journalDirectory } from '../journal/segments.ts'
import { commitsPath, idsPath } from '../journal/side-files.ts'

export class DamagedSegments {
  readonly #directory: string
  readonly #disk: Disk
  readonly #paths = new Set<string>()

  constructor(directory: string, disk: Disk) {
    this.#directory = directory
    this.#disk = disk
  }

  /** A file beside a segment has no records. */
  add({ kind, path }: Damage): void {
    if (kind !== 'beside') this.#paths.add(path)
  }

  /** false: there is no damage in it. Rejects where the disk fails. */
  readonly setAside = async (path: string): Promise<boolean> => {
    if (!this.#paths.has(path)) return false
    const target = damagedDirectory(this.#directory)
    for (const folder of [join(this.#directory, 'damaged'), target]) await this.#disk.makeFolder(folder)
    // The segment first: where the process dies here, it is not taken for one that is whole.
    for (const one of [path, idsPath(path), commitsPath(path)])
      if ((await this.#disk.size(one)) !== null) await this.#disk.rename(one, join(target, basename(one)))
    await this.#disk.syncFolder(target)
    await this.#disk.syncFolder(journalDirectory(this.#directory))
    this.#paths.delete(path)
    return true
  }
}
