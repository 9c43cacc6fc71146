// The part of `sluice check` that tests this machine: data folder, disk, ports, TLS files. It leaves nothing behind.

import { X509Certificate } from 'node:crypto'
import { access, constants, mkdtemp, readFile, rmdir, stat, statfs } from 'node:fs/promises'
import { connect, createServer } from 'node:net'
import { dirname, join, resolve } from 'node:path'
import { connect as connectTls, createSecureContext } from 'node:tls'
import { errorCode, errorMessage } from '../../lib/errors.ts'
import { acquireLock } from '../../lib/lock.ts'
import { journalDirectory, listSegments } from '../../queue/journal/segments.ts'
import { type Config, openFilesProblem } from '../../settings/config.ts'
import { hostToReach } from '../serve/demo.ts'
import { formatBytes, formatCount } from '../table.ts'
import { type Finding, finding, NEARLY_FULL_SHARE } from './finding.ts'

const PROBE_TIMEOUT_MS = 2000
const DAY_MS = 86_400_000
const CERTIFICATE_WARNING_DAYS = 14
/** With less room a journal refuses all but the smallest batches. */
const LEAST_ROOM_BYTES = 4096

/** For a single node: its folder, and the journal in it. */
export async function folderFindings(config: Config, running: boolean): Promise<Finding[]> {
  const { dataDirectory, journalMaxBytes } = config
  const folder = await nearestFolder(resolve(dataDirectory))
  const missing = folder !== resolve(dataDirectory)
  const problem = await writeProblem(folder, missing)
  if (problem !== null) return [finding('data folder', 'FAIL', problem)]
  const state = missing ? 'is not there yet, and can be made' : running ? 'in use by a running sluice' : 'writable'
  const found = finding('data folder', 'ok', `${dataDirectory}: ${state}`)
  const segments = await listSegments(journalDirectory(dataDirectory))
  const journalBytes = segments.reduce((sum, { bytes }) => sum + bytes, 0)
  return [found, await journalFinding(folder, journalBytes, journalMaxBytes)]
}

async function journalFinding(folder: string, bytes: number, maxBytes: number): Promise<Finding> {
  const { bavail, bsize } = await statfs(folder)
  const freeBytes = bavail * bsize
  const detail = `${formatBytes(bytes)} of at most ${formatBytes(maxBytes)}, free on the disk: ${formatBytes(freeBytes)}`
  if (bytes + LEAST_ROOM_BYTES > maxBytes)
    return finding('journal', 'FAIL', `${detail}; full, so that batches are answered 503`)
  if (freeBytes === 0)
    return finding('journal', 'FAIL', `${detail}; the disk is full, so that batches are answered 503`)
  if (bytes + freeBytes < maxBytes) {
    return finding('journal', 'warn', `${detail}; the disk will be full before SLUICE_JOURNAL_MAX_MB is reached`)
  }
  if (bytes >= NEARLY_FULL_SHARE * maxBytes) {
    return finding('journal', 'warn', `${detail}; it is nearly full, and full it refuses: raise SLUICE_JOURNAL_MAX_MB`)
  }
  return finding('journal', 'ok', detail)
}

/** The folder itself, or its nearest existing parent. */
async function nearestFolder(path: string): Promise<string> {
  let folder = path
  while (!(await exists(folder)) && dirname(folder) !== folder) folder = dirname(folder)
  return folder
}

async function exists(path: string): Promise<boolean> {
  return stat(path).then(
    () => true,
    (error: unknown) => errorCode(error) !== 'ENOENT',
  )
}

/** Creates and removes a folder, since permission bits do not show a read-only disk. A parent folder is not changed. */
async function writeProblem(folder: string, missing: boolean): Promise<string | null> {
  try {
    if (!(await stat(folder)).isDirectory()) return `${folder} is not a folder`
    if (missing) await access(folder, constants.W_OK | constants.X_OK)
    else await rmdir(await mkdtemp(join(folder, '.check-')))
    return null
  } catch (error) {
    return `${folder} cannot be written to: ${errorMessage(error)}`
  }
}

export async function lockIsHeld(dataDirectory: string): Promise<boolean> {
  if (!(await exists(dataDirectory))) return false
  try {
    const lock = await acquireLock(dataDirectory)
    if ('held' in lock) return true
    await lock.release()
    return false
  } catch {
    // `folderFindings` reports what is wrong with the folder.
    return false
  }
}

export function openFilesFinding(config: Config): Finding {
  const problem = openFilesProblem(config)
  if (problem !== null) return finding('open files', 'FAIL', problem)
  return finding('open files', 'ok', `enough for ${formatCount(config.maxConnections)} connections a process`)
}

interface Place {
  readonly host: string
  readonly port: number
  readonly tls: boolean
}

export async function portFinding(part: string, place: Place, running: boolean): Promise<Finding> {
  if (place.port === 0) return finding(part, 'ok', 'the system chooses one')
  const shown = `${place.host}:${place.port}`
  const code = await listenProblem(place)
  if (code === null) return finding(part, 'ok', `${shown} is free`)
  if (code !== 'EADDRINUSE') return finding(part, 'FAIL', `cannot listen on ${shown}: ${code}`)
  if (running && (await answers(place))) return finding(part, 'ok', `${shown} is held by the running sluice`)
  return finding(part, 'FAIL', `${shown} is held by another program`)
}

function listenProblem({ host, port }: Place): Promise<string | null> {
  return new Promise((done) => {
    const server = createServer()
    server.once('error', (error) => done(errorCode(error) ?? error.message))
    server.listen({ host, port, exclusive: true }, () => server.close(() => done(null)))
  })
}

/**
 * Asks in HTTP/1.0, which the engine refuses by itself: no request reaches the service, so none is counted. The
 * certificate is not verified.
 */
function answers({ host, port, tls }: Place): Promise<boolean> {
  const place = { host: hostToReach(host), port }
  const socket = tls ? connectTls({ ...place, rejectUnauthorized: false }) : connect(place)
  return new Promise((done) => {
    socket.setTimeout(PROBE_TIMEOUT_MS, () => socket.destroy())
    socket.once('error', () => done(false))
    socket.once('close', () => done(false))
    socket.once('data', (answer) => {
      done(answer.toString('latin1').startsWith('HTTP/1.1 505 '))
      socket.destroy()
    })
    socket.write('GET / HTTP/1.0\r\n\r\n')
  })
}

export async function tlsFindings({ tls }: Config, nowMs: number): Promise<Finding[]> {
  if (tls === null) return []
  try {
    const cert = await readFile(tls.certFile)
    createSecureContext({ cert, key: await readFile(tls.keyFile) })
    const daysLeft = (Date.parse(new X509Certificate(cert).validTo) - nowMs) / DAY_MS
    if (daysLeft < 0) return [finding('TLS', 'FAIL', `the certificate in ${tls.certFile} has expired`)]
    const detail = `the certificate in ${tls.certFile} is good for ${formatCount(Math.floor(daysLeft))} days`
    return [finding('TLS', daysLeft < CERTIFICATE_WARNING_DAYS ? 'warn' : 'ok', detail)]
  } catch (error) {
    return [finding('TLS', 'FAIL', `${tls.certFile} and ${tls.keyFile} do not work together: ${errorMessage(error)}`)]
  }
}
