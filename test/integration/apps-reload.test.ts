// An app file that changes under a running service: it is read once per change, and nothing put in its place does harm.

import { execFileSync } from 'node:child_process'
import { rename, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { expectAccepted, expectRefused, get, MARK, post, single } from '../support/client.ts'
import {
  appRecord,
  eventually,
  makeFolder,
  removeFolder,
  type Service,
  sleep,
  startService,
  writeApps,
} from '../support/service.ts'

let folder: string
let service: Service

beforeAll(async () => {
  folder = await makeFolder()
  service = await startService({ dataDir: folder, apps: [appRecord('first')] })
})

afterAll(async () => {
  await service?.kill()
  await removeFolder(folder)
})

const linesWith = (text: string): string[] =>
  service
    .output()
    .split('\n')
    .filter((line) => line.includes(text))

/** Several polls of the file. */
const aFewPolls = (): Promise<void> => sleep(800)

async function failures(): Promise<number> {
  const { text } = await get(service.adminPort, '/metrics')
  return Number(/^sluice_apps_reload_failures_total (\d+)$/m.exec(text)?.[1])
}

test('a changed file is read once, not again and again', async () => {
  await writeApps(service.appsFile, [appRecord('first'), appRecord('second')])
  await eventually('the new app is known', async () => (await post(service, single('ak_second'))).status === 202)
  await aFewPolls()
  expect(linesWith('app file read again')).toHaveLength(1)
  expect(await failures()).toBe(0)
})

test('a bad file is counted and logged once, and the log contains none of its values', async () => {
  const torn = `{"apps": [{"app_key": "ak_${MARK}", "name": "${MARK}", ${MARK}`
  const misfit = JSON.stringify({ apps: [{ ...appRecord('first'), plan: MARK, trial_ends_at: MARK, unknown: MARK }] })
  for (const [index, text] of [torn, misfit].entries()) {
    await writeFile(service.appsFile, text)
    await eventually('it is counted', async () => (await failures()) === index + 1)
    await aFewPolls()
    expect(await failures()).toBe(index + 1)
    expect(linesWith('the app file cannot be used')).toHaveLength(index + 1)
  }
  expect(service.output()).not.toContain(MARK)
  expectAccepted(await post(service, single('ak_second')), 1)
})

test('a named pipe in place of the file blocks nothing', async () => {
  const before = await failures()
  const pipe = join(folder, 'pipe')
  execFileSync('mkfifo', [pipe])
  await rename(pipe, service.appsFile)
  await aFewPolls()
  const answer = await Promise.race([post(service, single('ak_second')), sleep(5_000).then(() => null)])
  if (answer === null) throw new Error('the service stands still')
  expectAccepted(answer, 1)
  await eventually('it is counted', async () => (await failures()) === before + 1)
  await aFewPolls()
  expect(await failures()).toBe(before + 1)
  await writeApps(`${service.appsFile}.new`, [appRecord('third')])
  await rename(`${service.appsFile}.new`, service.appsFile)
  await eventually(
    'the next good file is in force',
    async () => (await post(service, single('ak_third'))).status === 202,
  )
  expectRefused(await post(service, single('ak_second')), 401, 'invalid_app_key')
})
