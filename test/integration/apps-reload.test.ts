// An app file that changes under a running service: it is read once per change, and nothing put in its place does harm.

import { execFileSync } from 'node:child_process'
import { rename, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test as base, expect } from 'vitest'
import { expectAccepted, expectRefused, MARK, post, single } from '../support/client.ts'
import { aService } from '../support/fixture.ts'
import { metricsOf } from '../support/processes.js'
import { appRecord, eventually, type Service, sleep, writeApps } from '../support/service.ts'

const test = base.extend('service', { scope: 'file' }, aService({ apps: [appRecord('first')] }))

const linesWith = (service: Service, text: string): string[] =>
  service
    .output()
    .split('\n')
    .filter((line) => line.includes(text))

/** The service polls the file every 200 ms. A poll that finds nothing new shows nowhere, so this waits for a few. */
const FEW_POLLS_MS = 800

async function failures(service: Service): Promise<number> {
  return (await metricsOf(service)).get('sluice_apps_reload_failures_total') ?? Number.NaN
}

test('a changed file is read once, not again and again', async ({ service }) => {
  await writeApps(service.appsFile, [appRecord('first'), appRecord('second')])
  await eventually('the new app is known', async () => (await post(service, single('ak_second'))).status === 202)
  await sleep(FEW_POLLS_MS)
  expect(linesWith(service, 'app file read again')).toHaveLength(1)
  expect(await failures(service)).toBe(0)
})

test('a bad file is counted and logged once, and the log contains none of its values', async ({ service }) => {
  const torn = `{"apps": [{"app_key": "ak_${MARK}", "name": "${MARK}", ${MARK}`
  const misfit = JSON.stringify({ apps: [{ ...appRecord('first'), plan: MARK, trial_ends_at: MARK, unknown: MARK }] })
  for (const [index, text] of [torn, misfit].entries()) {
    await writeFile(service.appsFile, text)
    await eventually('it is counted', async () => (await failures(service)) === index + 1)
    await sleep(FEW_POLLS_MS)
    expect(await failures(service)).toBe(index + 1)
    expect(linesWith(service, 'the app file cannot be used')).toHaveLength(index + 1)
  }
  expect(service.output()).not.toContain(MARK)
  expectAccepted(await post(service, single('ak_second')), 1)
})

test('a named pipe in place of the file blocks nothing', async ({ service }) => {
  const before = await failures(service)
  const pipe = join(service.dataDir, 'pipe')
  execFileSync('mkfifo', [pipe])
  await rename(pipe, service.appsFile)
  await sleep(FEW_POLLS_MS)
  expectAccepted(await post(service, single('ak_second')), 1)
  await eventually('it is counted', async () => (await failures(service)) === before + 1)
  await sleep(FEW_POLLS_MS)
  expect(await failures(service)).toBe(before + 1)
  await writeApps(`${service.appsFile}.new`, [appRecord('third')])
  await rename(`${service.appsFile}.new`, service.appsFile)
  await eventually(
    'the next good file is in force',
    async () => (await post(service, single('ak_third'))).status === 202,
  )
  expectRefused(await post(service, single('ak_second')), 401, 'invalid_app_key')
})
