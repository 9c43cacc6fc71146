// A start, some requests and a stop print nothing but the log and the words for a first start: no warning of Node, which would
// be a listener or a promise that nobody minds, or an API that goes.

import { expect, test } from 'vitest'
import { expectAccepted, post, single } from '../support/client.ts'
import { tlsSettings } from '../support/fixture.ts'
import { startNats } from '../support/nats.ts'
import { startRedis } from '../support/redis.ts'
import { appRecord, makeFolder, runCommand, startService } from '../support/service.ts'

const OF_NODE = /\(node:\d+\)|MaxListeners|Deprecat|ExperimentalWarning|UnhandledPromise/
const ASKED = 12

/** What a service prints from its start to its end, with requests between. */
async function printed(env: Readonly<Record<string, string>>, isTls = false): Promise<string> {
  const dataDir = await makeFolder()
  const settings = { ...env, SLUICE_APPS_FILE: `${dataDir}/apps.json`, ...(isTls ? tlsSettings(dataDir) : {}) }
  const service = await startService({ dataDir, apps: [appRecord('one')], env: settings })
  if (!isTls) for (let sent = 0; sent < ASKED; sent++) expectAccepted(await post(service, single('ak_one')), 1)
  for (const path of ['metrics', 'livez', 'readyz?verbose', 'api/now']) {
    const pages = Array.from({ length: ASKED }, () => fetch(`http://127.0.0.1:${service.adminPort}/${path}`))
    for (const page of await Promise.all(pages)) await page.text()
  }
  expect(await service.stop()).toMatchObject({ code: 0 })
  return service.output()
}

test('a warning of Node would be seen', async () => {
  const NODE_OPTIONS = "--import=data:text/javascript,process.emitWarning('planted')"
  expect(await printed({ NODE_OPTIONS })).toMatch(OF_NODE)
})

test.each([
  ['alone', false],
  ['with TLS', true],
])('%s, it prints no warning of Node', async (_, isTls) => {
  expect(await printed({ SLUICE_ADMIN_HOST: '127.0.0.1' }, isTls)).not.toMatch(OF_NODE)
})

test('with Redis, NATS and a spool, nor does it; and nor do commands', async () => {
  const [redis, nats, spool] = await Promise.all([startRedis(), startNats(), makeFolder()])
  const env = { REDIS_URL: redis.url, NATS_URL: nats.url, SLUICE_ADMIN_HOST: '127.0.0.1' }
  expect(await printed({ ...env, SLUICE_SPOOL_DIR: spool })).not.toMatch(OF_NODE)
  for (const args of [['apps', 'list'], ['tail', '--from-start', '--no-follow'], ['verify']]) {
    expect((await runCommand(args, env)).output, args.join(' ')).not.toMatch(OF_NODE)
  }
})
