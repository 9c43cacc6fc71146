// Where the app records come from: a file, which a first start makes with one app to try things out, or Redis.

import { randomBytes } from 'node:crypto'
import { existsSync } from 'node:fs'
import type { App, AppStore } from './admit/app.ts'
import { openAppsFile } from './admit/apps-file.ts'
import { demoAppRecords, makeAppsFile } from './admit/apps-file-edit.ts'
import type { RedisLink } from './admit/redis.ts'
import { openRedisApps, type RedisApps } from './admit/redis-apps.ts'
import { StartError } from './lib/errors.ts'
import { type Log, noticeTo } from './observe/log.ts'
import type { Metrics } from './observe/metrics.ts'

export interface AppsContext {
  readonly log: Log
  readonly metrics: Metrics
  readonly redis: RedisLink | null
  /** The operator named the file: it must be there. */
  readonly isNamed: boolean
}

/** `path` null: they live in Redis. */
export async function openApps(
  path: string | null,
  { log, metrics, redis, isNamed }: AppsContext,
): Promise<AppStore & Partial<RedisApps>> {
  if (path === null) {
    if (redis === null) throw new StartError('SLUICE_APPS_FILE: no app file')
    return openRedisApps({ link: redis, onNotice: noticeTo(log, 'apps') })
  }
  if (!existsSync(path) && !isNamed) {
    const isMade = makeAppsFile(path, demoAppRecords(randomBytes(6).toString('hex')))
    if (isMade) log.info({ path }, 'made an app file with a demo app')
  }
  return openAppsFile({
    path,
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
