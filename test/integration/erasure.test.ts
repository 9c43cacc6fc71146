// docs/privacy.md: the lines that erase one user's events from the journal, as they stand there.

import { execFile } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { promisify } from 'node:util'
import { expect, it } from 'vitest'
import { event, expectAccepted, post } from '../support/client.ts'
import { journalFiles, readJournal } from '../support/journal-files.ts'
import { MAIN } from '../support/processes.js'
import { appRecord, makeFolder, runCommand, startService } from '../support/service.ts'

const ROOT = resolve(import.meta.dirname, '../..')
const run = promisify(execFile)
const ERASED = 'e'.repeat(32)
const KEPT = 'f'.repeat(32)

/** The block, cut where it says that the service is stopped and started. */
function steps(): string[] {
  const page = readFileSync(join(ROOT, 'docs/privacy.md'), 'utf8')
  const [, block] = /```sh\n((?:(?!```).)*data\/journal.*?)```/s.exec(page) ?? []
  const parts = block?.split(/^# .*\n/m) ?? []
  expect(parts).toHaveLength(3)
  return parts
}

it('leaves the events of others and all counters, and is well after the next start but one', async () => {
  const folder = await makeFolder()
  const dataDir = join(folder, 'data')
  await run('mkdir', [dataDir])
  const bash = (lines: string) => {
    const script = `sluice() { "${process.execPath}" "${MAIN}" "$@"; }\n${lines}`
    return run('bash', ['-c', script], {
      cwd: folder,
      env: { ...process.env, SLUICE_DATA_DIR: dataDir, USER_ID: ERASED },
    })
  }
  const start = () => startService({ dataDir, apps: [appRecord('one')] })
  const send = async (port: { port: number }, user: string) => {
    const events = [event({ hashed_daily_id: user })]
    expectAccepted(await post(port, JSON.stringify({ app_key: 'ak_one', events })), 1)
  }
  let service = await start()
  for (const user of [KEPT, ERASED, KEPT, ERASED, ERASED, KEPT]) await send(service, user)
  const [find, erase, check] = steps()
  await bash(find)
  await service.stop()
  await bash(erase)
  expect(readJournal(dataDir)).toHaveLength(3)
  for (const file of journalFiles(dataDir)) expect(readFileSync(file, 'utf8')).not.toContain(ERASED)
  service = await start()
  await send(service, KEPT)
  await service.stop()
  service = await start()
  await expect(bash(check)).resolves.toBeDefined()
  const usage = await runCommand(['usage', '--app', 'one'], {
    SLUICE_DATA_DIR: dataDir,
    SLUICE_ADMIN_PORT: String(service.adminPort),
  })
  expect(usage.output).toMatch(/^day +7 /m)
  await service.stop()
  expect(readJournal(dataDir)).toHaveLength(4)
})
