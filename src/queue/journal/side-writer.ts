// Writes what lies beside the open segment (side-files.ts): beside the path of a request, and unsynced but for now and then.

import type { Crc32c } from '../../lib/crc32c.ts'
import { errorMessage } from '../../lib/errors.ts'
import type { Timer, Timers } from '../../lib/timers.ts'
import type { Disk, DiskFile } from './disk.ts'
import { type Commit, commitLine, commitsPath, idsLine, idsPath, MAX_IDS } from './side-files.ts'

const WRITE_MS = 100
/** Of lines that wait, behind a disk that takes none. Those that come then are not written. */
const MAX_WAITING_CHARACTERS = 4 * 1024 * 1024

export interface SideWriterOptions {
  readonly segmentPath: string
  readonly disk: Disk
  readonly timers: Timers
  readonly checks: Crc32c
  /** Where in its memory there is room for a line. */
  readonly lineAt: number
  /** Gets a sentence where they cannot be written, once for each reason. */
  readonly onUnwritten: (problem: string) => void
}

export class SideWriter {
  readonly #options: SideWriterOptions
  readonly #commits: SideFile
  readonly #ids: SideFile
  /** Of the commits that have no line of ids yet. */
  #pairs: number[] = []
  #from = 0
  #end = 0
  #timer: Timer | null = null
  #work: Promise<void> = Promise.resolve()
  #problem: string | null = null

  constructor(options: SideWriterOptions) {
    const { segmentPath, disk } = options
    this.#options = options
    this.#commits = new SideFile(commitsPath(segmentPath), disk)
    this.#ids = new SideFile(idsPath(segmentPath), disk)
  }

  /** Makes the files, so that their names are durable with that of the segment. Where they cannot be, a later write tries. */
  async open(): Promise<void> {
    this.#do(() => Promise.all([this.#commits.open(), this.#ids.open()]))
    await this.#work
  }

  /** A commit is durable. `pairs`: for each of its records the tail of its id, and its offset in the commit. */
  add(commit: Commit, pairs: readonly number[]): void {
    const { checks, lineAt, timers } = this.#options
    this.#commits.add(commitLine(commit, checks, lineAt))
    if (this.#pairs.length === 0) this.#from = commit.offset
    for (let at = 0; at < pairs.length; at += 2) this.#pairs.push(pairs[at], commit.offset + pairs[at + 1])
    this.#end = commit.offset + commit.length
    if (this.#pairs.length >= 2 * MAX_IDS) this.#addIds()
    this.#timer ??= timers.setTimeout(() => {
      this.#timer = null
      this.#do(() => this.#write())
    }, WRITE_MS)
  }

  /** Makes what was written durable. */
  sync(): void {
    this.#do(() => Promise.all([this.#commits.sync(), this.#ids.sync()]))
  }

  async close(): Promise<void> {
    if (this.#timer !== null) this.#options.timers.clear(this.#timer)
    this.#do(async () => {
      await this.#write()
      await Promise.all([this.#commits.sync(), this.#ids.sync()])
    })
    await this.#work
    await Promise.all([this.#commits.close(), this.#ids.close()])
  }

  async #write(): Promise<void> {
    this.#addIds()
    // So that who reads both meanwhile finds no ids without their commits.
    try {
      await this.#commits.write()
    } finally {
      await this.#ids.write()
    }
    this.#problem = null
  }

  #addIds(): void {
    const { checks, lineAt } = this.#options
    for (let at = 0; at < this.#pairs.length; at += 2 * MAX_IDS) {
      const pairs = this.#pairs.slice(at, at + 2 * MAX_IDS)
      const end = at + 2 * MAX_IDS < this.#pairs.length ? this.#pairs[at + 2 * MAX_IDS + 1] : this.#end
      this.#ids.add(idsLine(at === 0 ? this.#from : pairs[1], end, pairs, checks, lineAt))
    }
    this.#pairs = []
  }

  /** One after the other. A failure is said once, until a write succeeds. */
  #do(task: () => Promise<unknown>): void {
    const { segmentPath, onUnwritten } = this.#options
    const done = this.#work.then(async () => void (await task()))
    this.#work = done.catch((error: unknown) => {
      const problem = errorMessage(error)
      if (problem !== this.#problem)
        onUnwritten(
          `the checksums of ${segmentPath} cannot be written (${problem}): no request is refused for it, but damage to its newest records would not be noticed`,
        )
      this.#problem = problem
    })
  }
}

/** Text that is appended, and written again from a new line where that fails. */
class SideFile {
  readonly #path: string
  readonly #disk: Disk
  #file: DiskFile | null = null
  /** A line may have been torn by whoever wrote before. */
  #waiting = '\n'
  #isSynced = true

  constructor(path: string, disk: Disk) {
    this.#path = path
    this.#disk = disk
  }

  add(line: string): void {
    if (this.#waiting.length < MAX_WAITING_CHARACTERS) this.#waiting += line
  }

  async open(): Promise<void> {
    this.#file ??= await this.#disk.open(this.#path, 'note')
  }

  async write(): Promise<void> {
    const text = this.#waiting
    if (text.length < 2) return
    this.#waiting = ''
    try {
      await this.open()
      this.#isSynced = false
      await this.#file?.writeFile(text)
    } catch (error) {
      this.#waiting = `\n${text}${this.#waiting}`
      throw error
    }
  }

  async sync(): Promise<void> {
    if (this.#isSynced) return
    await this.#file?.sync()
    this.#isSynced = true
  }

  async close(): Promise<void> {
    await this.#file?.close()
  }
}
