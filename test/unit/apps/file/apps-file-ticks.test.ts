// Two changes within one tick of the file system's clock look like one. In this test that clock stands still.

import { mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, it, vi } from 'vitest'
import { openAppsFile } from '../../../../src/apps/file/apps-file.ts'

const frozen = vi.hoisted(() => ({ stats: null as unknown }))
vi.mock('node:fs/promises', () => ({ stat: () => Promise.resolve(frozen.stats) }))

it('finds a change that the file system does not show when it reads the file once more', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-apps-'))
  const path = join(folder, 'apps.json')
  const put = (id: string) =>
    writeFileSync(
      path,
      JSON.stringify({ apps: [{ app_key: `ak_${id}`, app_id: id, plan: '10k', subscription: 'active' }] }),
    )
  put('a')
  frozen.stats = statSync(path)
  const reloads: number[] = []
  const apps = await openAppsFile({
    path,
    clock: Date.now,
    pollMs: 5,
    rereadAfterMs: { good: 300, bad: 300 },
    onReload: (count) => reloads.push(count),
    onBadFile: () => {},
  })
  put('b')
  await vi.waitFor(() => expect(apps.find('ak_b')).toMatchObject({ appId: 'b' }), { timeout: 20_000, interval: 5 })
  expect(reloads).toEqual([1])
  apps.stop()
  rmSync(folder, { recursive: true })
})
