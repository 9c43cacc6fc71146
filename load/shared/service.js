// @ts-check
// The built service under load: with the flags of `npm start`, apps with limits that nothing reaches, and a journal that
// nothing fills, unless its environment says otherwise.

import { existsSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { startNode } from '../../test/support/processes.js'
import { nodeFlagsOf, ROOT } from './node-flags.js'

/** Never reached. The minute's is in each answer, and a number of 32 bits, as real ones are. */
const ENDLESS = { perMinute: 2_000_000_000, perMonth: 1_000_000_000_000 }
const JOURNAL_MAX_MB = 60_000

/** @typedef {import('../../test/support/processes.js').Node & { dataDir: string }} Service */

/** @param {string} appKey @param {string} appId */
export function endlessApp(appKey, appId) {
  const limits = { events_per_minute: ENDLESS.perMinute, events_per_month: ENDLESS.perMonth }
  return { app_key: appKey, app_id: appId, plan: '5m', subscription: 'active', ...limits }
}

/**
 * Resolves once it is ready.
 * @param {{ dataDir: string, apps?: readonly object[], env?: Readonly<Record<string, string>>, node?: string,
 *   nodeArgs?: readonly string[], tree?: string, before?: readonly string[], onOutput?: (text: string) => void }} options
 *   `apps` are written into an app file in `dataDir`; `tree`: another checkout, built; `before`: stands before its command
 * @returns {Promise<Service>}
 */
export async function startService({
  dataDir,
  apps,
  env,
  node = process.execPath,
  nodeArgs = [],
  tree = ROOT,
  ...more
}) {
  const { before = [], onOutput } = more
  const appsFile = join(dataDir, 'apps.json')
  if (apps !== undefined) writeFileSync(appsFile, JSON.stringify({ apps }))
  const started = await startNode({
    program: [...before, node, ...nodeFlagsOf(tree), ...nodeArgs, join(tree, 'dist', 'main.js')],
    cwd: dataDir,
    env: {
      SLUICE_ADMIN_HOST: '127.0.0.1',
      SLUICE_DATA_DIR: dataDir,
      SLUICE_JOURNAL_MAX_MB: String(JOURNAL_MAX_MB),
      // With Redis and NATS the apps are those of the file too, where there is one.
      ...(existsSync(appsFile) && { SLUICE_APPS_FILE: appsFile }),
      ...env,
    },
    isReady: (adminPort) =>
      fetch(`http://127.0.0.1:${adminPort}/readyz`).then(
        ({ status }) => status === 200,
        () => false,
      ),
    ...(onOutput && { onOutput }),
  })
  return { ...started, dataDir }
}
