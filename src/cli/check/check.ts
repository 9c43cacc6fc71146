// `sluice check`: tests the settings, this machine, Redis and NATS, before or while the service runs. It leaves nothing
// behind.

import { chooseEngine } from '../../http/engines.ts'
import { ConfigError, errorMessage } from '../../lib/errors.ts'
import { isLocked } from '../../lib/lock.ts'
import { isMissing, readRecordsFile } from '../../records/app-records.ts'
import { type Config, readConfig } from '../../settings/config.ts'
import { withOwnAddresses } from '../../start/addresses.ts'
import { EXIT, paint, print, readFlags, type Shell } from '../shell.ts'
import { formatCount, formatTable, printable } from '../table.ts'
import { clockFindings } from './check-clocks.ts'
import {
  ADMIN_PROBE,
  folderFindings,
  isFree,
  openFilesFinding,
  PORTAL_PROBE,
  PUBLIC_PROBE,
  portFinding,
  tlsFindings,
} from './check-machine.ts'
import { sharedFindings } from './check-shared.ts'
import { spoolFindings } from './check-spool.ts'
import { type Finding, finding } from './finding.ts'

export const help = `Usage: sluice check

Tests the settings and what they name: Redis, NATS and its stream, app records, data folder, ports, TLS files.
Nothing is left behind, and a service may be running on the same settings. One line a part: ok, warn or FAIL.
Exit code: 0 all is well or only a warning, 1 something fails, 2 for a wrong command line.

Example:
  REDIS_URL=redis://127.0.0.1:6379 NATS_URL=nats://127.0.0.1:4222 sluice check
`

export async function run(args: readonly string[], shell: Shell): Promise<number> {
  readFlags(args, {})
  const findings = await examine(shell)
  await print(shell.stdout, formatFindings(findings, shell))
  return findings.some(({ state }) => state === 'FAIL') ? EXIT.failed : EXIT.ok
}

/** At the same time, so that the timeouts do not add up. */
async function examine(shell: Shell): Promise<Finding[]> {
  let config: Config
  try {
    config = readConfig(shell.env)
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error
    return error.mistakes.map((mistake) => finding('settings', 'FAIL', mistake))
  }
  const [shared, clocks, local, engine, tls] = await Promise.all([
    sharedFindings(config, shell.clock()),
    clockFindings(config),
    localFindings(config),
    engineFinding(config),
    tlsFindings(config, shell.clock()),
  ])
  const decoder = finding('decoder', 'ok', `${config.decoder}, threads: ${config.parsers}`)
  return [finding('settings', 'ok', placesText(config)), ...shared, ...clocks, ...local, engine, decoder, ...tls]
}

export function formatFindings(findings: readonly Finding[], shell: Pick<Shell, 'colour'>): string {
  const colours = { ok: 'green', warn: 'yellow', FAIL: 'red' } as const
  const details = findings.map(({ detail }) => detail.split('\n'))
  const rows = formatTable(findings.map(({ part, state }, at) => [state.padEnd(4), part, details[at][0]])).split('\n')
  // Each mistake of a file has a line of its own below.
  const table = details.map(([, ...more], at) => `${[rows[at]].concat(more.map(printable)).join('\n')}\n`).join('')
  if (!shell.colour) return table
  return table.replace(/^(ok|warn|FAIL)/gm, (state) => paint(colours[state as Finding['state']], state, shell))
}

function placesText({ appsFile, embedded }: Config): string {
  const [queue, limits] = embedded ? ['journal', 'embedded'] : ['NATS', 'Redis']
  return `queue: ${queue}, limits and keys: ${limits}, apps: ${appsFile === null ? 'NATS' : 'file'}`
}

/** None where the records are in NATS, which `sharedFindings` tests. */
function appsFileFindings({ appsFile, appsFileNamed }: Config): Finding[] {
  if (appsFile === null) return []
  if (!appsFileNamed && isMissing(appsFile)) {
    return [finding('apps', 'ok', `no ${appsFile} yet: the first start writes one with a demo app`)]
  }
  try {
    const { length } = readRecordsFile(appsFile, appsFileNamed)
    return [finding('apps', 'ok', `${formatCount(length)} in ${appsFile}`)]
  } catch (error) {
    return [finding('apps', 'FAIL', errorMessage(error))]
  }
}

/** A node of a cluster has no folder to lock, so only its ports show whether it runs. */
async function localFindings(given: Config): Promise<Finding[]> {
  const config = await withOwnAddresses(given, () => {})
  const { adminHost, adminPort, dataDirectory, embedded, portal, publicHost, publicPort, tls } = config
  const mayRun = !embedded || (await isLocked(dataDirectory))
  const [isPublicFree, isAdminFree] = [
    await isFree({ host: publicHost, port: publicPort }),
    await isFree({ host: adminHost, port: adminPort }),
  ]
  return [
    ...appsFileFindings(config),
    ...(embedded ? await folderFindings(config, mayRun, !isPublicFree && !isAdminFree) : []),
    ...(await spoolFindings(config)),
    openFilesFinding(config),
    await portFinding('port', { host: publicHost, port: publicPort, tls: tls !== null, probe: PUBLIC_PROBE }, mayRun),
    await portFinding('admin port', { host: adminHost, port: adminPort, tls: false, probe: ADMIN_PROBE }, mayRun),
    ...(portal === null
      ? []
      : [await portFinding('portal port', { ...portal, tls: false, probe: PORTAL_PROBE }, mayRun)]),
  ]
}

async function engineFinding(config: Config): Promise<Finding> {
  try {
    const { name, warning } = await chooseEngine(config)
    const which = `${name === 'uws' ? 'uWebSockets.js' : 'node:http'} on Node ${process.version}`
    return warning === null ? finding('engine', 'ok', which) : finding('engine', 'warn', `${which}: ${warning}`)
  } catch (error) {
    return finding('engine', 'FAIL', errorMessage(error))
  }
}
