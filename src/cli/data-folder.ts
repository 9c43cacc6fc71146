// What the commands read of a data folder beside a service that may be running: app records and counters.

import { statSync } from 'node:fs'
import type { App } from '../admit/app.ts'
import { type AppRecord, readApp } from '../admit/app-record.ts'
import { readAppRecords } from '../admit/apps-file.ts'
import type { MemoryLimiter } from '../admit/memory-limiter.ts'
import type { Config } from '../config.ts'
import { errorCode, errorMessage, StartError } from '../lib/errors.ts'
import { recoverLimiter } from '../recovered.ts'

/** Throws a StartError where app records do not live in a file. */
export function appsFileOf({ appsFile }: Config): string {
  if (appsFile !== null) return appsFile
  throw new StartError('REDIS_URL is set, and this version keeps app records in a file only: set SLUICE_APPS_FILE')
}

/** Only where it is known to be missing: a file that may not be looked at is there, and reading it says why. */
export function missingAppsFile(config: Config): boolean {
  try {
    statSync(appsFileOf(config))
    return false
  } catch (error) {
    return errorCode(error) === 'ENOENT'
  }
}

/** The records of the app file; a missing or bad one is for the operator to mend. */
export function loadRecords(path: string): AppRecord[] {
  try {
    return readAppRecords(path)
  } catch (error) {
    throw new StartError(errorMessage(error))
  }
}

/** Every app by its key. */
export function loadApps(config: Config): ReadonlyMap<string, App> {
  const path = appsFileOf(config)
  if (missingAppsFile(config)) {
    throw new StartError(`there is no app file ${path}: sluice apps add makes one, and so does the first start`)
  }
  const apps = new Map<string, App>()
  for (const record of loadRecords(path)) {
    const read = readApp(record, '')
    if (read.kind === 'app') apps.set(read.app.appKey, read.app)
  }
  return apps
}

/** A copy of the counters as they are on disk; nothing is written. */
export async function loadCounters(
  { dataDirectory }: Config,
  apps: ReadonlyMap<string, App>,
  nowMs: number,
): Promise<MemoryLimiter> {
  const { limiter } = await recoverLimiter({ dataDirectory, nowMs, apps: apps.values(), onCorrupt: () => {} })
  return limiter
}
