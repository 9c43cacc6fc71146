import { readdirSync, utimesSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { fileStore } from '../../clients/typescript/src/file.ts'
import { makeFolder } from '../support/service.ts'
import { createRig } from './support/rig.ts'

it('a folder that cannot be made is made up for by memory', async () => {
  const file = join(await makeFolder(), 'file')
  writeFileSync(file, '')
  const { client, double } = createRig({ store: fileStore(join(file, 'events')) })
  client.track('signup')
  expect(await client.flush()).toBe(true)
  expect(double.storedIds()).toHaveLength(1)
})

it('what a killed write left beside its place is removed, but for a write that may be under way', async () => {
  const folder = await makeFolder()
  for (const name of ['.b1-2-x.17', '.b2-2-x.18', '.other', 'consent']) writeFileSync(join(folder, name), 'events')
  for (const name of ['.b1-2-x.17', '.other', 'consent']) utimesSync(join(folder, name), 0, 0)
  fileStore(folder)
  expect(readdirSync(folder).toSorted()).toEqual(['.b2-2-x.18', '.other', 'consent'])
})
