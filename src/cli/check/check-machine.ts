// The part of `sluice check` that tests this machine: data folder, disk, ports, TLS files. It leaves nothing behind.

import { access, constants, mkdtemp, rmdir, stat } from 'node:fs/promises'
import { connect, createServer } from 'node:net'
import { join, resolve } from 'node:path'
import { connect as connectTls } from 'node:tls'
import { headlineOf } from '../../contract/health.ts'
import { EXPIRY_WARNING_DAYS, readCertificate } from '../../http/certificate.ts'
import { hostAndPort, hostToReach } from '../../lib/admin-address.ts'
import { errorCode, errorMessage } from '../../lib/errors.ts'
import { nearestFolder } from '../../lib/folder.ts'
import { DAY_MS } from '../../lib/spans.ts'
import { LARGEST_COMMIT_BYTES, measureJournal, ROOM_ADVICE } from '../../queue/journal/journal-filling.ts'
import { isOfEarlierVersion } from '../../queue/journal/journal-keep.ts'
import { journalDirectory } from '../../queue/journal/segments.ts'
import { type Config, openFilesProblem } from '../../settings/config.ts'
import { askAdmin, textIn } from '../admin-api.ts'
import { formatBytes, formatCount, formatSpan } from '../table.ts'
import { type Finding, finding, NEARLY_FULL_SHARE } from './finding.ts'

const PROBE_TIMEOUT_MS = 2000
const DAMAGED = headlineOf({ kind: 'journal', state: 'warn', reason: null })

/** For a single node: its folder, and the journal in it. `hasPorts`: no port that the settings name is free. */
export async function folderFindings(config: Config, running: boolean, hasPorts: boolean): Promise<Finding[]> {
  const { dataDirectory } = config
  const directory = resolve(dataDirectory)
  const problem = (await writeProblem(directory)) ?? (await writeProblem(journalDirectory(directory)))
  if (problem !== null) return [finding('data folder', 'FAIL', problem)]
  const user = `in use by a running sluice${hasPorts ? '' : ' that has other ports: serve refuses to start until that one is stopped'}`
  const state =
    nearestFolder(directory) !== directory ? 'is not there yet, and can be made' : running ? user : 'writable'
  const found = finding('data folder', running && !hasPorts ? 'warn' : 'ok', `${dataDirectory}: ${state}`)
  const journal = await journalFinding(config)
  if (!running || journal.state === 'FAIL') return [found, journal]
  // Its limits need not be those of this command. One that does not answer yet says nothing.
  const asked = askAdmin(config, '/readyz?verbose', AbortSignal.timeout(PROBE_TIMEOUT_MS)).then(textIn)
  const [, refusing] = /^queue: (?!ok)(.+)$/m.exec(await asked.catch(() => '')) ?? []
  if (refusing === undefined) return [found, journal]
  return [found, finding('journal', refusing.startsWith(DAMAGED) ? 'warn' : 'FAIL', `the running sluice: ${refusing}`)]
}

async function journalFinding(config: Config): Promise<Finding> {
  const { dataDirectory, journalKeepMs, journalKeepNamed, journalMaxBytes: maxBytes } = config
  const { bytes, freeBytes } = await measureJournal(dataDirectory)
  const isKept = !journalKeepNamed && (await isOfEarlierVersion(journalDirectory(dataDirectory)))
  const kept = isKept || journalKeepMs === null ? 'whatever its age' : formatSpan(journalKeepMs)
  const detail = `${formatBytes(bytes)} of at most ${formatBytes(maxBytes)}, kept ${kept}, free on the disk: ${formatBytes(freeBytes)}`
  const say = (state: Finding['state'], what: string): Finding => finding('journal', state, `${detail}; ${what}`)
  const noRoom = `full: a batch of the largest size (${formatBytes(LARGEST_COMMIT_BYTES)}) is answered 503`
  if (bytes + LARGEST_COMMIT_BYTES > maxBytes) return say('FAIL', `${noRoom}: ${ROOM_ADVICE}`)
  if (freeBytes < LARGEST_COMMIT_BYTES) return say('FAIL', `its disk is ${noRoom}: make room there`)
  if (bytes + freeBytes < maxBytes) return say('warn', 'the disk will be full before SLUICE_JOURNAL_MAX_MB is reached')
  if (bytes >= NEARLY_FULL_SHARE * maxBytes) {
    return say('warn', `nearly full; when full, requests get 503: ${ROOM_ADVICE}`)
  }
  return finding('journal', 'ok', detail)
}

/**
 * Of a folder, or of the nearest one above it that is there, which is not changed. Creates and removes a folder, since
 * permission bits do not show a read-only disk.
 */
export async function writeProblem(path: string): Promise<string | null> {
  const folder = nearestFolder(path)
  try {
    if (!(await stat(folder)).isDirectory()) return `${folder} is not a folder`
    if (folder !== path) await access(folder, constants.W_OK | constants.X_OK)
    else await rmdir(await mkdtemp(join(folder, '.check-')))
    return null
  } catch (error) {
    return `${folder} cannot be written to: ${errorMessage(error)}`
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
  /** What a sluice answers there in HTTP/1.0, which is not counted as a request. */
  readonly probe: { readonly path: string; readonly answer: RegExp }
}

/** The engine refuses the version by itself. */
export const PUBLIC_PROBE = { path: '/', answer: /^HTTP\/1\.1 505 / }
export const ADMIN_PROBE = { path: '/livez', answer: /^HTTP\/1\.1 200 [^]*\r\n\r\nok\n$/ }
/** It answers to its own name alone. */
export const PORTAL_PROBE = { path: '/', answer: /^HTTP\/1\.1 421 / }

export async function portFinding(part: string, place: Place, running: boolean): Promise<Finding> {
  if (place.port === 0) return finding(part, 'ok', 'the system chooses one')
  const shown = hostAndPort(place.host, place.port)
  const code = await listenProblem(place)
  if (code === null) return finding(part, 'ok', `${shown} is free`)
  if (code !== 'EADDRINUSE') return finding(part, 'FAIL', `cannot listen on ${shown}: ${code}`)
  if (!(await answers(place))) return finding(part, 'FAIL', `${shown} is held by another program`)
  if (running) return finding(part, 'ok', `${shown} is held by the running sluice`)
  return finding(part, 'FAIL', `${shown} is taken: sluice runs there already (stop it, or choose another port)`)
}

export async function isFree(place: Pick<Place, 'host' | 'port'>): Promise<boolean> {
  return place.port !== 0 && (await listenProblem(place)) === null
}

function listenProblem({ host, port }: Pick<Place, 'host' | 'port'>): Promise<string | null> {
  return new Promise((done) => {
    const server = createServer()
    server.once('error', (error) => done(errorCode(error) ?? error.message))
    server.listen({ host, port, exclusive: true }, () => server.close(() => done(null)))
  })
}

/** The certificate is not verified. */
function answers({ host, port, tls, probe }: Place): Promise<boolean> {
  const place = { host: hostToReach(host), port }
  const socket = tls ? connectTls({ ...place, rejectUnauthorized: false }) : connect(place)
  return new Promise((done) => {
    socket.setTimeout(PROBE_TIMEOUT_MS, () => socket.destroy())
    socket.once('error', () => done(false))
    socket.once('close', () => done(false))
    socket.once('data', (answer) => {
      done(probe.answer.test(answer.toString('latin1')))
      socket.destroy()
    })
    socket.write(`GET ${probe.path} HTTP/1.0\r\n\r\n`)
  })
}

export async function tlsFindings({ tls }: Config, nowMs: number): Promise<Finding[]> {
  if (tls === null) return []
  try {
    const { notAfterMs } = await readCertificate(tls)
    const daysLeft = (notAfterMs - nowMs) / DAY_MS
    if (daysLeft < 0) return [finding('TLS', 'FAIL', `the certificate in ${tls.certFile} has expired`)]
    const detail = `the certificate in ${tls.certFile} is good for ${formatCount(Math.floor(daysLeft))} days`
    return [finding('TLS', daysLeft <= EXPIRY_WARNING_DAYS ? 'warn' : 'ok', detail)]
  } catch (error) {
    return [finding('TLS', 'FAIL', errorMessage(error))]
  }
}
