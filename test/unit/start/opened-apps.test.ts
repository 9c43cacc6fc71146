import { mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import type { Log } from '../../../src/observe/log.ts'
import type { Metrics } from '../../../src/observe/metrics.ts'
import { findDemoApp, openFileApps } from '../../../src/start/opened-apps.ts'

/** Like a file system without sockets. */
vi.mock('node:net', () => ({
  createServer: () => {
    throw Object.assign(new Error('listen EPERM'), { code: 'EPERM' })
  },
}))

const log = { info: () => {}, error: () => {} } as unknown as Log
const context = { log, metrics: {} as Metrics, clock: Date.now }
let folder = ''

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'sluice-apps-'))
})
afterEach(() => rmSync(folder, { recursive: true }))

test('a first start creates its app file where the file system has no sockets, and later ones keep it', async () => {
  const keys: (string | undefined)[] = []
  for (let start = 1; start <= 2; start++) {
    const apps = await openFileApps(join(folder, 'apps.json'), false, context)
    keys.push(findDemoApp(apps)?.appKey)
    ;(apps as unknown as { stop(): void }).stop()
  }
  expect(keys[0]).toMatch(/^ak_demo_/)
  expect(keys[1]).toBe(keys[0])
  expect(readdirSync(folder)).toEqual(['apps.json'])
})

test('a first start that cannot create its app file names it', async () => {
  const path = join(folder, 'none', 'apps.json')
  await expect(openFileApps(path, false, context)).rejects.toThrow(`the app file ${path} cannot be made: ENOENT`)
})
