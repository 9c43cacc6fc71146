// Files that make their reader wait, and an end while the operating system keeps a thread.

import { execFileSync } from 'node:child_process'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { expectAccepted, post, single } from '../support/client.ts'
import { appRecord, makeFolder, startService } from '../support/service.ts'

const APPS = [appRecord('plain')]

// The opening of a pipe that nobody writes stands for a mount that hangs.
it('a service with a call that does not return ends by SIGTERM, and says why it kills itself', async () => {
  const folder = await makeFolder()
  const [pipe, script] = [join(folder, 'hangs'), join(folder, 'hang.cjs')]
  execFileSync('mkfifo', [pipe])
  const begin = `require('node:fs').open(${JSON.stringify(pipe)}, 'r', () => {})`
  writeFileSync(script, `if (require('node:worker_threads').isMainThread) ${begin}`)
  const env = { NODE_OPTIONS: `--require ${script}`, SLUICE_SHUTDOWN_SECONDS: '5' }
  const service = await startService({ dataDir: folder, apps: APPS, env })
  const { signal, output } = await service.stop()
  expect(signal).toBe('SIGKILL')
  expect(output).toContain('"msg":"stopped"')
  const last = output.trim().split('\n').at(-1)
  expect(last).toMatch(/a call to the operating system does not return \(.*\): the process kills itself/)
})

it('a start reads the whole journal where a pipe has the name of the snapshot, and ends by SIGTERM', async () => {
  const folder = await makeFolder()
  execFileSync('mkfifo', [join(folder, 'snapshot.json')])
  mkdirSync(join(folder, 'journal'))
  execFileSync('mkfifo', [join(folder, 'journal', '000000000001.ndjson')])
  const service = await startService({ dataDir: folder, apps: APPS })
  expectAccepted(await post(service, single('ak_plain')), 1)
  const { code, output } = await service.stop()
  expect(code).toBe(0)
  expect(output).toContain('snapshot.json is no regular file')
  expect(output).toContain('000000000001.ndjson is no regular file')
})
