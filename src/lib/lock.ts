// Allows one process for each folder. The lock is a listening socket, which the kernel closes when its process dies, however
// it dies. It is a file in the folder, where no other user can make one; on Linux a name outside the file system beside it
// locks out version 0.3, which knows that alone.

import { constants } from 'node:fs'
import { chmod, link, lstat, open, readdir, readFile, readlink, rename, stat, unlink } from 'node:fs/promises'
import { connect, createServer, type Server } from 'node:net'
import { join, resolve } from 'node:path'
import { errorCode, StartError } from './errors.ts'

const FILE_NAME = 'lock.sock'
const FILE_MODE = 0o600
/** The longest name that Linux has. Node 20 makes every name so long, and Node 24 none: the same one must lock out both. */
const NAME_BYTES = 108
/** Some mounts of containers hold no sockets. */
const WITHOUT_SOCKETS = new Set(['ENOTSUP', 'EOPNOTSUPP', 'EPERM', 'ENOSYS', 'EINVAL'])
/** In /proc/net/unix, where connections to it have the same name and may be of no process. */
const LISTENING = '00010000'

export interface Lock {
  release(): Promise<void>
}

/** held: another process has the folder. */
export type LockResult = Lock | { readonly held: true }

const HELD = { held: true } as const

/** The folder must exist. Every path to it leads to the same lock. */
export async function acquireLock(directory: string, platform: string = process.platform): Promise<LockResult> {
  const own = join(directory, FILE_NAME)
  if ((await lstat(own).catch(() => null))?.isDirectory() === true)
    throw new StartError(`${own} is a folder, and the lock needs this name: move the folder away`)
  const file = platform === 'win32' ? null : await lockFile(directory)
  const servers: Server[] = []
  const release = async (): Promise<void> => {
    await Promise.all(servers.map((server) => new Promise((done) => server.close(done))))
    await file?.close()
  }
  const give = async (server: Server | null): Promise<boolean> => {
    if (server !== null) servers.push(server)
    else await release()
    return server !== null
  }
  let needsName = platform === 'win32'
  try {
    if (file !== null) {
      if (!(await give(await listenOnFile(file.path)))) return HELD
      // The system makes it as the umask says. Only its owner could connect to it in any case.
      await chmod(file.path, FILE_MODE)
    }
  } catch (error) {
    needsName = platform === 'linux' && WITHOUT_SOCKETS.has(errorCode(error) ?? '')
    if (!needsName) {
      await release()
      throw error
    }
  }
  if (platform !== 'linux' && platform !== 'win32') return { release }
  const server = await listen(await nameOf(directory, platform))
  // Any user can take the name.
  const isHeld = server === null && (needsName || (await isOfOwner(directory)))
  if (isHeld) {
    await release()
    return HELD
  }
  if (server !== null) servers.push(server)
  return { release }
}

/**
 * Whether a process has the folder; one that cannot be looked at counts as free. Unlike an attempt to take the lock, the
 * question never keeps another process from it.
 */
export async function isLocked(directory: string, platform: string = process.platform): Promise<boolean> {
  try {
    if (platform === 'win32') return await answers(await nameOf(directory, platform))
    const file = await lockFile(directory)
    const isAnswered = await answers(file.path).finally(() => file.close())
    if (isAnswered || platform !== 'linux') return isAnswered
    return (await answers(await nameOf(directory, platform))) && (await isOfOwner(directory))
  } catch {
    return false
  }
}

/** A path that is short enough for a socket. */
async function lockFile(directory: string): Promise<{ path: string; close(): Promise<void> }> {
  const path = join(resolve(directory), FILE_NAME)
  if (Buffer.byteLength(path) < NAME_BYTES || process.platform !== 'linux') return { path, close: async () => {} }
  const folder = await open(directory, constants.O_RDONLY)
  return { path: `/proc/self/fd/${folder.fd}/${FILE_NAME}`, close: () => folder.close() }
}

/** null: another process has it. */
async function listenOnFile(path: string): Promise<Server | null> {
  const server = await listen(path)
  if (server !== null || (await answers(path))) return server
  // Left by a process that died. Moved away rather than removed, to look once more: another starter may have made
  // it new in between.
  // The name is no longer than FILE_NAME, so it fits wherever that fits: process ids have at most 5 digits in base 36.
  const aside = join(path, '..', `lock${process.pid.toString(36)}`)
  await rename(path, aside).catch(ignoreAbsent)
  if (await answers(aside)) {
    // Not by `rename`, which would replace the socket of a third starter.
    await link(aside, path).catch(ignoreTaken)
    await unlink(aside).catch(ignoreAbsent)
    return null
  }
  await unlink(aside).catch(ignoreAbsent)
  return await listen(path)
}

async function nameOf(directory: string, platform: string): Promise<string> {
  const { dev, ino } = await stat(directory, { bigint: true })
  if (platform === 'linux') return `\0sluice-data-${dev}-${ino}`.padEnd(NAME_BYTES, '\0')
  return `\\\\.\\pipe\\sluice-data-${dev}-${ino}`
}

/** Whether the process that has the name is of the folder's owner, of this user or of root. */
async function isOfOwner(directory: string): Promise<boolean> {
  const { dev, ino, uid } = await stat(directory, { bigint: true })
  const lines = (await readFile('/proc/net/unix', 'latin1')).split('\n')
  // The kernel shows each NUL as @.
  const fields = lines
    .map((line) => line.split(' '))
    .find((line) => line[3] === LISTENING && line.at(-1)?.replace(/@+$/, '') === `@sluice-data-${dev}-${ino}`)
  const socket = fields === undefined ? null : `socket:[${fields.at(-2)}]`
  const users = new Set([Number(uid), process.getuid?.() ?? 0, 0])
  for (const pid of (await readdir('/proc')).filter((name) => /^\d+$/.test(name))) {
    const owner = await stat(`/proc/${pid}`).catch(() => null)
    if (owner === null || !users.has(owner.uid)) continue
    const descriptors = await readdir(`/proc/${pid}/fd`).catch(() => [])
    for (const descriptor of descriptors)
      if ((await readlink(`/proc/${pid}/fd/${descriptor}`).catch(() => '')) === socket) return true
  }
  return false
}

/** The socket does not keep the process alive. null: the name is taken. */
function listen(path: string): Promise<Server | null> {
  return new Promise((resolve, reject) => {
    const server = createServer((socket) => socket.destroy())
    server.once('error', (error: NodeJS.ErrnoException) => {
      if (error.code === 'EADDRINUSE') resolve(null)
      else reject(error)
    })
    server.listen({ path, exclusive: true }, () => {
      server.unref()
      resolve(server)
    })
  })
}

/** Whether the process that listens on a socket lives. One that is stopped lives, and so does one that cannot be asked. */
function answers(path: string): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(path)
    socket.once('connect', () => {
      socket.destroy()
      resolve(true)
    })
    socket.once('error', (error: NodeJS.ErrnoException) => {
      resolve(error.code !== 'ECONNREFUSED' && error.code !== 'ENOENT')
    })
  })
}

function ignoreAbsent(error: NodeJS.ErrnoException): void {
  if (error.code !== 'ENOENT') throw error
}

function ignoreTaken(error: NodeJS.ErrnoException): void {
  if (error.code !== 'EEXIST' && error.code !== 'ENOENT') throw error
}
