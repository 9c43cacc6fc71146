// Each client library holds in every scenario of the kit. The tables are printed.

import { execFileSync } from 'node:child_process'
import { join, resolve } from 'node:path'
import { expect, it } from 'vitest'
import { runAll, tableOf } from '../../clients/conformance/main.js'
import { makeFolder } from '../support/service.ts'

const CLIENTS = resolve(import.meta.dirname, '../../clients')
const DRIVERS = join(CLIENTS, 'conformance/drivers')

async function expectAllHeld(command: readonly string[]): Promise<void> {
  const results = await runAll(command)
  const table = tableOf(results)
  console.log(table)
  expect(
    results.filter(({ state }) => state !== 'held').map(({ name }) => name),
    table,
  ).toEqual([])
}

it('the TypeScript client holds on Node', async () => {
  const built = await makeFolder()
  execFileSync(process.execPath, [join(CLIENTS, 'typescript/build.js'), built], { stdio: 'pipe' })
  await expectAllHeld([process.execPath, join(DRIVERS, 'typescript.js'), built])
})

it('the Python client holds', async () => {
  await expectAllHeld(['python3', join(DRIVERS, 'python.py')])
})
