// Rebuilds the counters of the limits, and the idempotency keys, from snapshot and journal. It only reads, so that a
// command may run it beside the service.

import type { App } from '../../apps/app.ts'
import { errorMessage } from '../../lib/errors.ts'
import { type Recovery, type RecoveryOptions, recover } from '../../queue/journal/recovery.ts'
import { MemoryLimiter } from './memory-limiter.ts'

export interface RecoveredOptions extends Pick<RecoveryOptions, 'dataDirectory' | 'nowMs' | 'onDamage' | 'disk'> {
  readonly apps: Iterable<App>
  /** Called for each keyed record of the last 300 s; absent where the caller does not need the keys. */
  readonly onKey?: RecoveryOptions['onKey']
}

export async function recoverLimiter(
  options: RecoveredOptions,
): Promise<{ limiter: MemoryLimiter; recovery: Recovery }> {
  const limiter = new MemoryLimiter()
  // Built only when a record needs it, since it holds every app a second time.
  let appsById: Map<string, App> | null = null
  const findApp = (appId: string): App | undefined => {
    appsById ??= new Map(Array.from(options.apps, (app) => [app.appId, app]))
    return appsById.get(appId)
  }
  const recovery = await recover({
    dataDirectory: options.dataDirectory,
    nowMs: options.nowMs,
    onSnapshot: (usage) => {
      try {
        limiter.restore(usage, options.nowMs)
        return null
      } catch (error) {
        return errorMessage(error)
      }
    },
    onUsage: (appId, cost, receivedAtMs) => limiter.addUsage(findApp(appId), appId, cost, receivedAtMs),
    onKey: options.onKey ?? (() => {}),
    onDamage: options.onDamage,
    ...(options.disk === undefined ? {} : { disk: options.disk }),
  })
  return { limiter, recovery }
}
