// Opens the app records of a file, which a first start creates with a demo app.

import { randomBytes } from 'node:crypto'
import { existsSync } from 'node:fs'
import type { App, AppStore } from '../apps/app.ts'
import { type AppsFile, openAppsFile } from '../apps/file/apps-file.ts'
import { demoAppRecords, makeAppsFile } from '../apps/file/apps-file-edit.ts'
import type { Clock } from '../lib/clock.ts'
import { orStartError } from '../lib/errors.ts'
import type { Log } from '../observe/log.ts'
import type { Metrics } from '../observe/metrics.ts'

export interface AppsContext {
  readonly log: Log
  readonly metrics: Pick<Metrics, 'appsReloadFailures'>
  readonly clock: Clock
}

/** `isNamed`: the operator named the file, so it must exist already. */
export async function openFileApps(
  path: string,
  isNamed: boolean,
  { log, metrics, clock }: AppsContext,
): Promise<AppsFile> {
  const make = (): boolean => makeAppsFile(path, demoAppRecords(randomBytes(6).toString('hex')))
  if (!isNamed && !existsSync(path) && orStartError(make, `the app file ${path} cannot be made: `))
    log.info({ path }, 'created an app file with a demo app')
  return openAppsFile({
    path,
    clock,
    onReload: (count) => log.info({ path, apps: count }, 'app file read again'),
    onBadFile: (reasons) => {
      metrics.appsReloadFailures++
      log.error({ path, reasons }, 'the app file cannot be used; the last good one stays in force')
    },
  })
}

export function findDemoApp(apps: AppStore): App | undefined {
  for (const app of apps.all()) if (app.appId === 'demo' && app.appKey.startsWith('ak_demo_')) return app
  return undefined
}
