// The disk of one machine, and the journal's access to it from one process. Each operation takes its time, may fail, and
// may be under way when the process dies or the power fails.

import { basename, dirname } from 'node:path'
import type { DirectFile, Disk, DiskFile, OpenMode } from '../../../src/queue/journal/disk.ts'
import type { Random } from '../random.ts'
import type { Host, World } from '../world.ts'
import { SimulatedFile, SimulatedFolder } from './files.ts'

const UNBOUNDED = Number.POSITIVE_INFINITY

/** What is under way. `end`: the process died meanwhile. */
interface Operation {
  end(): void
}

type Appended = (error: Error | null, bytes: number) => void

export class SimulatedDisk {
  readonly folders = new Map<string, SimulatedFolder>()
  freeBytes = UNBOUNDED
  extraMs = 0
  /** The share of writes and syncs that fail. */
  failShare = 0
  lies = false
  /** Called for records that are durable, or said to be. */
  onStored: (data: Buffer) => void = () => {}
  readonly #world: World
  readonly #random: Random
  readonly #underWay = new Set<Operation>()
  #crash: { operations: number; readonly task: () => void } | null = null

  constructor(world: World, random: Random) {
    this.#world = world
    this.#random = random
  }

  /** Calls `task` while the disk works on so many operations from now; null: nothing is called any more. */
  crashAt(operations: number, task: (() => void) | null): void {
    this.#crash = task === null ? null : { operations, task }
  }

  /** The process died: what it had asked for happened, or in part, or not. */
  processDied(): void {
    this.#crash = null
    for (const operation of this.#underWay) operation.end()
    this.#underWay.clear()
  }

  powerFailed(): void {
    for (const folder of this.folders.values()) folder.losePower(this.#random)
  }

  /** For one process. */
  of(host: Host): Disk {
    return new DiskOfProcess(this, host)
  }

  file(path: string): SimulatedFile | undefined {
    return this.folders.get(dirname(path))?.names.get(basename(path))
  }

  folder(path: string): SimulatedFolder {
    const found = this.folders.get(path)
    if (found === undefined) throw coded('ENOENT')
    return found
  }

  /** Does `task` when the disk has done its work, or fails. */
  operate<T>(host: Host, task: () => T): Promise<T> {
    return new Promise((resolve, reject) => {
      const isFailing = this.#random.chance(this.failShare)
      this.begin(host, {
        done: () => {
          try {
            if (isFailing) throw coded('EIO')
            resolve(task())
          } catch (error) {
            reject(error)
          }
        },
        ended: () => {
          if (this.#random.chance(0.5)) attempt(task)
        },
      })
    })
  }

  append(host: Host, file: SimulatedFile, data: Buffer, done: Appended): void {
    const isFailing = this.#random.chance(this.failShare)
    this.begin(host, {
      done: () => {
        const room = Math.min(data.length, this.freeBytes)
        this.freeBytes -= room
        file.modifiedMs = this.#world.wallMs
        if (isFailing) {
          file.hasFailed = true
          file.append(data.subarray(0, this.#random.int(0, room)), false)
          done(coded('EIO'), 0)
          return
        }
        // What a kernel says of a file after a failed sync may be wrong.
        file.append(data.subarray(0, room), !this.lies && !file.hasFailed)
        if (room === data.length && !file.isMeddled) this.onStored(data)
        done(room === 0 ? coded('ENOSPC') : null, room)
      },
      ended: () =>
        file.append(data.subarray(0, this.#random.pick([0, this.#random.int(0, data.length), data.length])), false),
    })
  }

  begin(host: Host, { done, ended }: { readonly done: () => void; readonly ended: () => void }): void {
    const operation = { end: ended }
    this.#underWay.add(operation)
    if (this.#crash !== null && --this.#crash.operations < 0) {
      const { task } = this.#crash
      this.#crash = null
      this.#world.at(this.#world.nowMs, task)
    }
    const tookMs = this.extraMs + this.#random.pick([0.02, 0.05, 0.2, 1])
    host.receive(this.#world.nowMs + tookMs, () => {
      this.#underWay.delete(operation)
      done()
    })
  }
}

class DiskOfProcess implements Disk {
  readonly #disk: SimulatedDisk
  readonly #host: Host

  constructor(disk: SimulatedDisk, host: Host) {
    this.#disk = disk
    this.#host = host
  }

  open(path: string, mode: OpenMode): Promise<DiskFile> {
    const disk = this.#disk
    if (mode === 'create' || mode === 'replace' || mode === 'note') {
      return disk.operate(this.#host, () => {
        const folder = disk.folder(dirname(path))
        const before = folder.names.get(basename(path))
        if (before !== undefined && mode === 'create') throw coded('EEXIST')
        if (disk.freeBytes <= 0 && before === undefined) throw coded('ENOSPC')
        if (mode === 'replace') before?.truncate(0)
        const file = before ?? new SimulatedFile()
        if (before === undefined) folder.set(basename(path), file)
        return new OpenFile(disk, this.#host, file)
      })
    }
    const file = disk.file(path)
    // A start syncs it first, and hears what failed then.
    if (file !== undefined && mode === 'append') file.hasFailed = false
    return file === undefined ? Promise.reject(coded('ENOENT')) : Promise.resolve(new OpenFile(disk, this.#host, file))
  }

  append(file: DiskFile, lines: readonly Uint8Array[], done: Appended): void {
    this.#disk.append(this.#host, (file as OpenFile).file, Buffer.concat(lines), done)
  }

  openDirectly(_path: string, file: DiskFile): DirectFile {
    return {
      append: (bytes, done) => this.#disk.append(this.#host, (file as OpenFile).file, Buffer.from(bytes), done),
      close: () => {},
    }
  }

  status(file: DiskFile): { readonly size: number; readonly nlink: number } {
    const { size, links } = (file as OpenFile).file
    return { size, nlink: links }
  }

  async names(folder: string): Promise<string[]> {
    return [...this.#disk.folder(folder).names.keys()]
  }

  async size(path: string): Promise<number | null> {
    return this.#disk.file(path)?.size ?? null
  }

  rename(from: string, to: string): Promise<void> {
    const task = (): void => this.#disk.folder(dirname(from)).rename(basename(from), basename(to))
    return this.#disk.operate(this.#host, task)
  }

  unlink(path: string): Promise<void> {
    return this.#disk.operate(this.#host, () => this.#disk.folder(dirname(path)).set(basename(path), null))
  }

  async makeFolder(path: string): Promise<void> {
    if (!this.#disk.folders.has(path)) this.#disk.folders.set(path, new SimulatedFolder())
  }

  syncFolder(path: string): Promise<void> {
    return this.#disk.operate(this.#host, () => {
      if (!this.#disk.lies) this.#disk.folder(path).sync()
    })
  }
}

class OpenFile implements DiskFile {
  readonly fd = -1
  readonly file: SimulatedFile
  readonly #disk: SimulatedDisk
  readonly #host: Host

  constructor(disk: SimulatedDisk, host: Host, file: SimulatedFile) {
    this.#disk = disk
    this.#host = host
    this.file = file
  }

  async read(into: Buffer, at: number, length: number, position: number): Promise<{ readonly bytesRead: number }> {
    const bytesRead = Math.max(0, Math.min(length, this.file.size - position))
    this.file.bytes.copy(into, at, position, position + bytesRead)
    return { bytesRead }
  }

  writeFile(text: string): Promise<void> {
    const data = Buffer.from(text)
    return new Promise((resolve, reject) => {
      const { freeBytes } = this.#disk
      const done = (error: Error | null): void => (error === null ? resolve() : reject(error))
      this.#disk.begin(this.#host, {
        done: () => {
          if (freeBytes < data.length) return done(coded('ENOSPC'))
          this.file.append(data, false)
          done(null)
        },
        ended: () => this.file.append(data.subarray(0, data.length >> 1), false),
      })
    })
  }

  async stat(): Promise<{ readonly size: number; readonly mtimeMs: number }> {
    return { size: this.file.size, mtimeMs: this.file.modifiedMs }
  }

  truncate(bytes: number): Promise<void> {
    return this.#disk.operate(this.#host, () => this.file.truncate(bytes))
  }

  sync(): Promise<void> {
    return this.#disk.operate(this.#host, () => {
      if (!this.#disk.lies) this.file.sync()
    })
  }

  async close(): Promise<void> {}
}

function coded(code: string): NodeJS.ErrnoException {
  return Object.assign(new Error(`${code}: simulated`), { code })
}

function attempt(task: () => unknown): void {
  try {
    task()
  } catch {
    // Nobody is there to hear it.
  }
}
