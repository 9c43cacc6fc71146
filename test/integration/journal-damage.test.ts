// A journal that is damaged, as each face of the service shows it.

import { randomUUID } from 'node:crypto'
import { readFile, writeFile } from 'node:fs/promises'
import { expect, it, onTestFinished } from 'vitest'
import { get, post, single } from '../support/client.ts'
import { journalFiles } from '../support/journal-files.ts'
import { appRecord, makeFolder, runCommand, startService } from '../support/service.ts'

it('is named by the log, readyz, the console, find and check, with requests answered 202 as before', async () => {
  const dataDir = await makeFolder()
  const app = appRecord('shop')
  const start = () => startService({ dataDir, apps: [app], env: { SLUICE_PARSERS: '1' } })
  const first = await start()
  const key = randomUUID()
  expect((await post(first, single(app.app_key), { 'Idempotency-Key': key })).status).toBe(202)
  const well = await get(first.adminPort, '/readyz?verbose')
  expect(well.text).toContain('queue: ok, journal\n')
  // Its keys are read again for 300 s, whatever the snapshot covers.
  await first.stop()
  const [file] = journalFiles(dataDir)
  const bytes = await readFile(file)
  // In the first letter of batch_id, so that the batch cannot be found by it.
  bytes[bytes.indexOf('"batch_id":"') + '"batch_id":"'.length] ^= 1
  await writeFile(file, bytes)

  const node = await start()
  onTestFinished(() => node.kill())
  expect((await post(node, single(app.app_key))).status).toBe(202)
  expect(node.output()).toMatch(/damaged bytes in .*\.ndjson at 0/)
  const said = 'journal damaged: 1 damaged place found since the start'
  const { status, text } = await get(node.adminPort, '/readyz?verbose')
  expect(status).toBe(200)
  expect(text).toContain(`queue: ${said}: requests get 202 as before; sluice verify lists what is damaged\n`)
  const now = JSON.parse((await get(node.adminPort, '/api/now')).text) as { state: string; parts: object[] }
  expect(now.state).toBe('serving')
  expect(now.parts).toContainEqual(expect.objectContaining({ part: 'queue', state: 'warn', up: true }))
  expect((await get(node.adminPort, '/metrics')).text).toContain('sluice_journal_damage_total{kind="checksum"} 1\n')

  const met = [expect.objectContaining({ kind: 'checksum', file: '000000000001.ndjson', offset_bytes: 0 })]
  const found = await runCommand(['find', '--app', 'shop', '--key', key, '--json'], { SLUICE_DATA_DIR: dataDir })
  expect(JSON.parse(found.stdout)).toMatchObject({ found: false, damage: met })
  const asked = await get(node.adminPort, `/api/batches?app=shop&key=${key}`)
  expect(JSON.parse(asked.text)).toMatchObject({ found: false, damage: met })

  const check = await runCommand(['check'], {
    SLUICE_DATA_DIR: dataDir,
    PORT: '0',
    SLUICE_ADMIN_PORT: String(node.adminPort),
  })
  expect(check.output).toMatch(new RegExp(`^warn +journal +the running sluice: ${said}`, 'm'))
})
