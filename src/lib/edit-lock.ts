// One edit of a file at a time, between processes, in containers that share its folder too. Each shows a socket beside
// the file, under a name that is never used again, and has the lock once it finds no other that may be alive.

import { createHash, randomBytes } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { chmod, type FileHandle, open, readdir, realpath, rename, rm } from 'node:fs/promises'
import type { Server } from 'node:net'
import { hostname } from 'node:os'
import { basename, dirname, join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { errorCode, errorMessage, StartError } from './errors.ts'
import { listen, listener } from './lock.ts'

const WAIT_MS = 60_000
const RETRY_MS = 20
const MAX_RETRY_MS = 200
const RETRY_GROWTH = 1.2
/** Systems refuse longer names of sockets: 104 bytes at the least, with the zero at their end. */
const MAX_ADDRESS_BYTES = 100

export interface EditLockOptions {
  /** How long to wait for other edits before giving up. */
  readonly waitMs?: number
}

/** Runs `edit` while no other edit of `path` runs. */
export async function withEditLock<T>(
  path: string,
  edit: () => Promise<T>,
  { waitMs = WAIT_MS }: EditLockOptions = {},
): Promise<T> {
  const giveUpAtMs = performance.now() + waitMs
  let release: () => Promise<void>
  try {
    const target = await targetOf(path)
    release = await (process.platform === 'win32' ? takePipe : takeSocket)(target, giveUpAtMs)
  } catch (error) {
    if (error instanceof StartError) throw error
    throw new StartError(`cannot lock ${path} for an edit: ${errorMessage(error)}`)
  }
  try {
    return await edit()
  } finally {
    await release()
  }
}

/** Links to one file lead to one lock. */
async function targetOf(path: string): Promise<string> {
  try {
    return await realpath(path)
  } catch (error) {
    if (errorCode(error) !== 'ENOENT') throw error
    return join(await realpath(dirname(path)), basename(path))
  }
}

async function takePipe(target: string, giveUpAtMs: number): Promise<() => Promise<void>> {
  const name = `\\\\.\\pipe\\sluice-edit-${shortHash(target)}`
  for (;;) {
    const server = await listen(name)
    if (server !== null) return () => closed(server)
    if (performance.now() > giveUpAtMs) throw new StartError(`another edit of ${target} still runs`)
    await sleep(RETRY_MS)
  }
}

async function takeSocket(target: string, giveUpAtMs: number): Promise<() => Promise<void>> {
  const folder = dirname(target)
  const handle = await open(folder)
  const queue = new EditQueue({ folder, handle, machine: machineId(), boot: bootId(), base: basename(target) })
  const release = async (): Promise<void> => {
    await queue.withdraw()
    await handle.close()
  }
  let retryMs = RETRY_MS
  try {
    for (;;) {
      const others = await queue.othersAlive()
      if (others.length === 0 && queue.isShown) return release
      if (performance.now() > giveUpAtMs) throw new StartError(describeBusy(target, others[0]))
      // The edit that began first stays; the others step back, so that one of them finds itself alone.
      if (others.some((other) => other.ticket < queue.ticket)) await queue.withdraw()
      else if (!queue.isShown) {
        await queue.show()
        if (queue.isShown) continue
      }
      await sleep(retryMs)
      retryMs = Math.min(retryMs * RETRY_GROWTH, MAX_RETRY_MS)
    }
  } catch (error) {
    await release()
    throw error
  }
}

function describeBusy(target: string, other: Shown | undefined): string {
  // Either another went a moment ago, or the folder does not keep what is made in it.
  if (other === undefined) return `cannot lock ${target} for an edit: no socket could be made beside it in time`
  const socket = join(dirname(target), other.name)
  if (other.isHere) return `another edit of ${target} still runs: process ${other.pid} holds ${socket}`
  return (
    `another edit of ${target} holds ${socket}: it was begun on another machine, which cannot be asked from here; ` +
    'remove that socket if no edit runs there'
  )
}

interface EditPlace {
  readonly folder: string
  readonly handle: FileHandle
  readonly machine: string
  /** Since the machine started: only sockets of this time can be asked whether their process lives. */
  readonly boot: string
  /** The name of the file that is edited. */
  readonly base: string
}

interface Shown {
  readonly name: string
  readonly ticket: string
  readonly pid: string
  /** Its process runs on this machine. */
  readonly isHere: boolean
}

/**
 * The sockets of all edits of a file, this one's among them. Names: `.lock-FILE.MACHINE.BOOT.PID.TICKET.TURN`, where
 * hashes keep them short, however long the names of the file and the host are. Whoever is alone was seen by all who
 * came later, as each looks after it has shown its own.
 */
class EditQueue {
  readonly #place: EditPlace
  /** In the order in which edits began, so that none waits for ever. */
  readonly ticket = `${Date.now().toString(16).padStart(12, '0')}-${randomBytes(4).toString('hex')}`
  readonly #shownPrefix: string
  readonly #hiddenPrefix: string
  #turn = 0
  #own: { readonly name: string; readonly server: Server } | null = null

  constructor(place: EditPlace) {
    this.#place = place
    this.#shownPrefix = `.lock-${shortHash(place.base)}.`
    this.#hiddenPrefix = `.locking-${shortHash(place.base)}.`
  }

  get isShown(): boolean {
    return this.#own !== null
  }

  /** Leaves it as it was where another took the socket for a dead one's. */
  async show(): Promise<void> {
    const { folder, machine, boot } = this.#place
    const tail = `${machine}.${boot}.${process.pid}.${this.ticket}.${++this.#turn}`
    // It takes a moment from the making of the file until the socket answers, and until then it looks dead.
    const hidden = `${this.#hiddenPrefix}${tail}`
    const server = await listen(this.#address(hidden))
    if (server === null) return
    try {
      // Any user who gets at the folder may ask whether this process lives.
      await chmod(join(folder, hidden), 0o777)
      await rename(join(folder, hidden), join(folder, `${this.#shownPrefix}${tail}`))
      this.#own = { name: `${this.#shownPrefix}${tail}`, server }
    } catch (error) {
      await closed(server)
      if (errorCode(error) !== 'ENOENT') throw error
    }
  }

  async withdraw(): Promise<void> {
    const own = this.#own
    this.#own = null
    if (own === null) return
    await rm(join(this.#place.folder, own.name), { force: true })
    await closed(own.server)
  }

  /** Those that may be alive, in their order. Sockets that processes left behind when they died are removed. */
  async othersAlive(): Promise<Shown[]> {
    const { folder, boot } = this.#place
    const alive: Shown[] = []
    for (const name of await readdir(folder)) {
      const prefix = [this.#shownPrefix, this.#hiddenPrefix].find((each) => name.startsWith(each))
      if (prefix === undefined || name === this.#own?.name) continue
      const [itsMachine = '', itsBoot = '', pid = '', ticket = ''] = name.slice(prefix.length).split('.')
      const isHere = itsBoot === boot
      if (await this.#isDead(name, itsMachine, isHere)) await rm(join(folder, name), { force: true })
      else if (prefix === this.#shownPrefix) alive.push({ name, ticket, pid, isHere })
    }
    return alive.sort((one, other) => (one.ticket < other.ticket ? -1 : 1))
  }

  /** A process does not outlive the start of its machine; whether one on another machine lives is for people to judge. */
  async #isDead(name: string, itsMachine: string, isHere: boolean): Promise<boolean> {
    if (isHere) return (await listener(this.#address(name))) === 'dead'
    return itsMachine === this.#place.machine
  }

  /** The name of a socket is short, and the path of a folder may be long. */
  #address(name: string): string {
    const { folder, handle } = this.#place
    const path = join(folder, name)
    if (Buffer.byteLength(path) <= MAX_ADDRESS_BYTES) return path
    // Not left to the system: some cut the name, and the socket is made under another one.
    if (process.platform !== 'linux') throw new Error(`the path of its folder is too long for a socket: ${folder}`)
    return `/proc/self/fd/${handle.fd}/${name}`
  }
}

function closed(server: Server): Promise<void> {
  return new Promise((resolve) => server.close(() => resolve()))
}

/** Of the host name too: containers of one image may have one machine-id between them, on several machines. */
function machineId(): string {
  return shortHash(`${textOf('/etc/machine-id') ?? ''} ${hostname()}`)
}

/** One for all containers of a machine, and another after it was started anew. */
function bootId(): string {
  return shortHash(textOf('/proc/sys/kernel/random/boot_id') ?? hostname())
}

function textOf(path: string): string | null {
  try {
    return readFileSync(path, 'utf8').trim()
  } catch {
    return null
  }
}

function shortHash(text: string): string {
  return createHash('sha256').update(text).digest('hex').slice(0, 8)
}
