// What strangers and a worn disk did to segments of the journal, and whether the service has named it.

import { join } from 'node:path'
import { Crc32c } from '../../../src/lib/crc32c.ts'
import type { Damage } from '../../../src/queue/journal/segment-cursor.ts'
import { MAX_CHECKED_BYTES } from '../../../src/queue/journal/side-files.ts'
import type { SimulatedFile, SimulatedFolder } from './files.ts'

const SEGMENT = '.ndjson'
/** How a log line that names a segment says that something is wrong with it. */
const NAMES_DAMAGE = /damaged|another program changed|are gone|was removed/

interface Harm {
  readonly file: SimulatedFile
  readonly at: number
  /** Of a flipped bit: what the byte became; null: the segment was cut off there. */
  readonly byte: number | null
}

interface Line {
  readonly offset: number
  readonly length: number
  readonly crc: string
}

export class Harms {
  readonly #harms: Harm[] = []
  /** What should have been in the log when another program's bytes were taken out again, and was not. */
  #untold: string | null = null
  /** Any harm at all: without it nothing may be called damaged. */
  isHarmed = false

  flipped(file: SimulatedFile, at: number): void {
    this.isHarmed = true
    this.#harms.push({ file, at, byte: file.bytes[at] })
  }

  cut(file: SimulatedFile, at: number): void {
    this.isHarmed = true
    this.#harms.push({ file, at, byte: null })
  }

  /** The service has taken a stranger's bytes out of a segment. */
  takenOut(path: string, notices: readonly string[]): void {
    if (notices.some((notice) => notice.includes(`another program changed ${path}`))) return
    this.#untold ??= `bytes of another program were taken out of ${path}, and the log does not say so`
  }

  /**
   * What nobody has named; null: all is. `damage` is what a reading of the whole journal has met, `notices` all that the log
   * said. Bytes of which no checksum is left were never comparable: they lie in no line, or in one that was made of them.
   */
  judge(folder: SimulatedFolder | undefined, path: string, damage: readonly Damage[], notices: readonly string[]) {
    for (const [name, file] of folder?.names ?? []) {
      if (!name.endsWith(SEGMENT)) continue
      const segment = join(path, name)
      const lines = linesOf(folder?.names.get(name.replace(SEGMENT, '.commits')))
      for (const harm of this.#harms.filter((one) => one.file === file)) {
        const broken = lines.find((line) => isBroken(file, line) && concerns(line, harm))
        if (broken === undefined) continue
        const isMet = damage.some((one) => one.path === segment && covers(one, harm.at))
        const isLogged = notices.some((notice) => notice.includes(segment) && NAMES_DAMAGE.test(notice))
        if (isMet || isLogged) continue
        const what = harm.byte === null ? 'was cut' : 'has a flipped bit'
        return `${segment} ${what} at ${harm.at}, within the line ${JSON.stringify(broken)}`
      }
    }
    return this.#untold
  }
}

/** The byte is still as it was made. */
function concerns({ offset, length }: Line, { file, at, byte }: Harm): boolean {
  if (byte === null) return offset + length > at
  return offset <= at && at < offset + length && at < file.size && file.bytes[at] === byte
}

function isBroken(file: SimulatedFile, { offset, length, crc }: Line): boolean {
  const bytes = file.content().subarray(offset, offset + length)
  if (bytes.length < length) return true
  return crcOf(bytes) !== Number.parseInt(crc, 16)
}

function covers({ kind, offset, length }: Damage, at: number): boolean {
  return kind === 'beside' || kind === 'missing' || (offset <= at && at < offset + length)
}

/** Those with a check that fits, read by the format alone. */
function linesOf(file: SimulatedFile | undefined): Line[] {
  const texts = file?.content().toString('latin1').split('\n') ?? []
  return texts.flatMap((text) => {
    const [, head, offset, length, crc, check] = /^((\d+) (\d+) ([0-9a-f]{8})) ([0-9a-f]{8})$/.exec(text) ?? []
    if (head === undefined) return []
    const isWhole = crcOf(Buffer.from(head)) === Number.parseInt(check, 16)
    return isWhole ? [{ offset: Number(offset), length: Number(length), crc }] : []
  })
}

let memory: Crc32c | null = null

function crcOf(bytes: Buffer): number {
  memory ??= new Crc32c(MAX_CHECKED_BYTES)
  bytes.copy(memory.bytes)
  return memory.of(0, bytes.length)
}
