// Allows one process for each data folder. The lock is a listening socket, which the kernel closes when its process dies, however
// it dies: nothing is left behind that could keep the next one out.

import { rename, stat, unlink } from 'node:fs/promises'
import { connect, createServer, type Server } from 'node:net'
import { join } from 'node:path'

/** The longest name that Linux has. Node 20 makes every name so long, and Node 24 none: the same one must lock out both. */
const NAME_BYTES = 108

export interface Lock {
  release(): Promise<void>
}

/** held: another process has the folder. */
export type LockResult = Lock | { readonly held: true }

/**
 * The folder must exist. On Linux the socket has a name outside the file system, made of the folder's device and
 * inode, so that every path to the folder leads to the same lock; processes in different network namespaces
 * (containers) do not see each other's. Elsewhere it is a file in the folder.
 */
export async function acquireLock(directory: string, platform: string = process.platform): Promise<LockResult> {
  const path = await addressOf(directory, platform)
  const server = await listen(path)
  if (platform === 'linux' || platform === 'win32') return asLock(server)
  if (server !== null || (await answers(path))) return asLock(server)
  // Left by a process that died. Moved away rather than removed, to look once more: another starter may have made
  // it new in between.
  const aside = join(directory, `lock.${process.pid}.sock`)
  await rename(path, aside).catch(ignoreAbsent)
  if (await answers(aside)) {
    await rename(aside, path)
    return { held: true }
  }
  await unlink(aside).catch(ignoreAbsent)
  return asLock(await listen(path))
}

/**
 * Whether a process has the folder; one that cannot be looked at counts as free. Unlike an attempt to take the lock, the
 * question never keeps another process from it.
 */
export function isLocked(directory: string, platform: string = process.platform): Promise<boolean> {
  return addressOf(directory, platform).then(answers, () => false)
}

async function addressOf(directory: string, platform: string): Promise<string> {
  const { dev, ino } = await stat(directory, { bigint: true })
  if (platform === 'linux') return `\0sluice-data-${dev}-${ino}`.padEnd(NAME_BYTES, '\0')
  return platform === 'win32' ? `\\\\.\\pipe\\sluice-data-${dev}-${ino}` : join(directory, 'lock.sock')
}

function asLock(server: Server | null): LockResult {
  if (server === null) return { held: true }
  return {
    release: () => new Promise((resolve) => server.close(() => resolve())),
  }
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
