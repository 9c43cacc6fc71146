// Loads the HTTP engine, uWebSockets.js, which is a binary for each version of Node, system and processor. Explains a
// missing binary, recognizes the old builds of 2024, and removes the engine's header from answers.

import { readdirSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname } from 'node:path'
import { errorCode, errorMessage, StartError } from '../../lib/errors.ts'
import { isOlderVersion } from '../../lib/version.ts'

const PACKAGE = 'uWebSockets.js'
const ENGINE = `the HTTP engine (${PACKAGE})`
/**
 * A binary's name has the number of Node's binary interface (ABI). Those of Node 21 and of older ones than 20 are left out:
 * sluice does not run there.
 */
export const NODE_OF_ABI: Readonly<Record<string, number>> = {
  115: 20,
  127: 22,
  131: 23,
  137: 24,
  141: 25,
  147: 26,
}
const BINARY_NAME = /^uws_([a-z\d]+)_([a-z\d]+)_(\d+)\.node$/
/** What the engine wants on Node 22 and later, and who has it. */
const NEW_GLIBC = '2.38'
const NEW_GLIBC_SYSTEMS = 'Debian 13, Ubuntu 24.04 or later'

export const OLD_ENGINE_WARNING = `this build of the HTTP engine is from 2024; for production use Node 24 on ${NEW_GLIBC_SYSTEMS} (what differs: docs/operations.md)`

/** The facts that decide whether a binary fits. */
export interface Machine {
  readonly nodeVersion: string
  readonly abi: string
  readonly platform: string
  readonly arch: string
  /** The version of glibc; null: another C library, or none. */
  readonly glibc: string | null
  /** File names in the engine's package. */
  readonly files: readonly string[]
}

/**
 * Throws a StartError that says what would work, where the engine does not load. `isOld`: a build of January 2024, which
 * the package `uwebsockets` has for Node 21 and older.
 */
export async function loadEngine(): Promise<{ readonly isOld: boolean }> {
  try {
    const { default: uWS } = await import('uWebSockets.js')
    // By its functions, not by Node's version: the author's own releases for Node 20 are new builds. An app that never
    // listens holds no resources.
    return { isOld: !('adoptSocket' in uWS.App()) }
  } catch (error) {
    if (errorCode(error) === 'ERR_MODULE_NOT_FOUND') throw new StartError(`${ENGINE} is not installed: npm install`)
    throw new StartError(explainMissing(errorMessage(error), thisMachine()))
  }
}

/** Omits the header `uWebSockets: 20`. The engine still adds it where it answers by itself. */
export function omitEngineHeader(uWS: object): void {
  if ('_cfg' in uWS && typeof uWS._cfg === 'function') uWS._cfg('silent')
}

export function explainMissing(cause: string, machine: Machine): string {
  const { nodeVersion, abi, platform, arch, glibc, files } = machine
  const wanted = /version `GLIBC_([\d.]+)' not found/.exec(cause)?.[1]
  const binaries = files.flatMap((name) => {
    const [, system = '', processor = '', itsAbi = ''] = BINARY_NAME.exec(name) ?? []
    return itsAbi in NODE_OF_ABI
      ? [{ place: `${system} ${processor}`, node: NODE_OF_ABI[itsAbi] ?? 0, abi: itsAbi }]
      : []
  })
  const place = `${platform} ${arch}`
  const here = binaries.filter((binary) => binary.place === place)
  if (platform === 'linux' && glibc === null) {
    return `${ENGINE} wants glibc, and this system has another C library, as Alpine has: use ${NEW_GLIBC_SYSTEMS}`
  }
  if (wanted !== undefined) {
    return `${ENGINE} wants glibc ${wanted} on Node ${nodeVersion}, and this system has ${glibc}: use ${NEW_GLIBC_SYSTEMS}; on older ones Node 20 works, with the engine of 2024`
  }
  if (here.length === 0) {
    const places = [...new Set(binaries.map((binary) => binary.place))].toSorted()
    return `${ENGINE} has no binary for ${place}; it has some for ${places.join(', ')}`
  }
  if (!here.some((binary) => binary.abi === abi)) {
    const isOld = platform === 'linux' && isOlderVersion(glibc ?? '', NEW_GLIBC)
    const nodes = here.map((binary) => binary.node).toSorted((one, other) => one - other)
    return `${ENGINE} has no binary for Node ${nodeVersion} on ${place}; it has one for each of Node ${nodes.join(', ')}: use Node 24${isOld ? ` on ${NEW_GLIBC_SYSTEMS}` : ''}`
  }
  return `${ENGINE} does not load on Node ${nodeVersion}, ${place}: ${cause.trim().split('\n').at(-1)}`
}

function thisMachine(): Machine {
  const { header } = process.report.getReport() as { header: { glibcVersionRuntime?: string } }
  return {
    nodeVersion: process.versions.node,
    abi: process.versions.modules,
    platform: process.platform,
    arch: process.arch,
    glibc: header.glibcVersionRuntime ?? null,
    files: readdirSync(dirname(createRequire(import.meta.url).resolve(PACKAGE))),
  }
}
