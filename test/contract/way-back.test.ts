// The way back to an earlier version, which takes a record with a member that it does not know for a bad one.

import { readFileSync, writeFileSync } from 'node:fs'
import { resolve } from 'node:path'
import { expect, test } from 'vitest'
import { runToEnd } from '../support/processes.js'
import { appRecord, makeFolder, runCommand, writeApps } from '../support/service.ts'

const ROOT = resolve(import.meta.dirname, '../..')
/** What a record may hold in 0.3. */
const OF_0_3 = new Set([
  'app_key',
  'app_id',
  'name',
  'plan',
  'subscription',
  'trial_ends_at',
  'billing_cycle_anchor',
  'events_per_day',
  'events_per_minute',
  'events_per_month',
  'previous_keys',
])

function membersIn(folder: string): string[] {
  const { apps } = JSON.parse(readFileSync(`${folder}/apps.json`, 'utf8')) as { apps: object[] }
  return [...new Set(apps.flatMap((record) => Object.keys(record)))].toSorted()
}

test('the lines of docs/upgrade.md leave nothing that 0.3 does not know, and the copy brings it back', async () => {
  const folder = await makeFolder()
  const env = { SLUICE_DATA_DIR: folder }
  const full = { name: 'Shop', billing_cycle_anchor: '2026-11-17T00:00:00Z', trial_ends_at: '2027-01-01T00:00:00Z' }
  await writeApps(`${folder}/apps.json`, [
    appRecord('shop', { ...full, events_per_day: 9, events_per_minute: 9, events_per_month: 9 }),
    appRecord('plain'),
  ])
  // Nothing is written that nobody asked for.
  expect((await runCommand(['apps', 'set', 'plain', '--name', 'Plain'], env)).code).toBe(0)
  const before = membersIn(folder)
  expect(before.filter((name) => !OF_0_3.has(name))).toEqual([])
  const set = ['--bytes-per-minute', '3000000', '--alerts', '50', '--origins', 'https://a.example']
  expect((await runCommand(['apps', 'set', 'shop', ...set], env)).code).toBe(0)
  expect((await runCommand(['apps', 'read-key', 'shop'], env)).code).toBe(0)
  expect((await runCommand(['apps', 'rotate', 'shop'], env)).code).toBe(0)
  const all = membersIn(folder)
  const added = ['alerts', 'bytes_per_minute', 'origins', 'read_keys']
  expect(all.filter((name) => !OF_0_3.has(name))).toEqual(added)

  const upgrade = readFileSync(resolve(ROOT, 'docs/upgrade.md'), 'utf8')
  const script = /```sh\n( +sluice apps export apps-new\.json\n[\s\S]*?) +```/.exec(upgrade)?.[1] ?? ''
  const sluice = `sluice() { '${process.execPath}' '${resolve(ROOT, 'bin/sluice.js')}' "$@"; }\nset -e\n`
  writeFileSync(`${folder}/way-back.sh`, sluice + script)
  const run = await runToEnd({ command: ['bash', 'way-back.sh'], env, cwd: folder })
  expect(run, run.output).toMatchObject({ code: 0 })
  expect(membersIn(folder).filter((name) => !OF_0_3.has(name))).toEqual([])
  expect(membersIn(folder)).toEqual(all.filter((name) => !added.includes(name)))

  const again = await runCommand(['apps', 'import', '--replace-all', `${folder}/apps-new.json`], env)
  expect(again.code, again.output).toBe(0)
  expect(membersIn(folder)).toEqual(all)
})
